//! The steps of a request at a store: the quota, then the faults, then the route.

use std::collections::HashMap;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use wiremock::Request;

use steadfast_core::clock::Timestamp;
use steadfast_testkit::Fault;

use super::super::fixture::Reply;
use super::super::machine::{self, Failure, Vendor};
use super::super::serve::{fault_of, header};
use super::contract::fields_of;
use super::items::{Asks, Items, id_text, question};
use super::quota::Quota;
use super::routes::Route;
use super::settings::BigCommerceSettings;
use super::taking::Taking;
use super::{BigCommerceAnswer, answers, keys};

pub(super) type Machine = machine::Machine<State>;

#[derive(Debug)]
pub(super) struct State {
    pub(super) items: Items,
    pub(super) quota: Quota,
    pub(super) requests: u64,
    /// The stock that each order takes, by store and order.
    pub(super) takings: HashMap<(String, String), Taking>,
    /// The payment access tokens that were given, by store and token, each with its order.
    pub(super) tokens: HashMap<(String, String), String>,
    since: Timestamp,
}

/// One request, taken apart.
pub(super) struct Call<'a> {
    pub(super) store: &'a str,
    /// The path below the store: `["v2", "orders"]`.
    pub(super) route: &'a [&'a str],
    pub(super) path: &'a str,
    pub(super) request: &'a Request,
    pub(super) body: Value,
    pub(super) now: Timestamp,
}

impl Call<'_> {
    pub(super) fn collection(&self) -> String {
        self.route.join("/")
    }

    pub(super) fn is_v2(&self) -> bool {
        self.route.first() == Some(&"v2")
    }
}

impl Vendor for State {
    type Settings = BigCommerceSettings;
    type Answer = BigCommerceAnswer;

    const HAS_KEYS: bool = false;

    fn opened(settings: &BigCommerceSettings, now: Timestamp) -> State {
        State {
            items: Items::default(),
            quota: Quota::new(settings.quota),
            requests: 0,
            takings: HashMap::new(),
            tokens: HashMap::new(),
            // The objects that stores begin with show at once.
            since: now.minus(settings.apply_after),
        }
    }

    fn answer(machine: &Machine, state: &mut State, request: &Request) -> Reply {
        state.requests += 1;
        let now = machine.clock.wall();
        let reply = match state.quota.take(now) {
            Ok(()) => machine.route(state, request, now),
            Err(wait) => machine.rate_limited(wait),
        };
        // Load shedding and gateways stand in front of what adds these headers.
        let bare = reply.body.is_empty() && matches!(reply.status, 429 | 500)
            || reply.headers.iter().any(|(_, value)| value == "text/html");
        if bare { reply } else { machine.with_headers(reply, state, now) }
    }

    fn failure(machine: &Machine, failure: Failure) -> Reply {
        match failure {
            Failure::Server => problem(500, "Internal Server Error"),
            Failure::Gateway => answers::html(502, "Bad Gateway"),
            Failure::RateLimit(Some(wait)) => machine.rate_limited(wait),
            Failure::RateLimit(None) => machine.fixtures.reply("rate_limited_platform"),
        }
    }
}

impl Machine {
    /// The body is no JSON of the form that V3 wants, such as `jsarray`.
    pub(super) fn not_json_of(&self, form: &str) -> Reply {
        self.fixtures.reply("v3_json_invalid").fill("customer_id", "obj").fill("jsnumber", form)
    }

    fn route(&self, state: &mut State, request: &Request, now: Timestamp) -> Reply {
        let path = request.url.path();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let ["stores", store, route @ ..] = segments.as_slice() else {
            return problem(404, "The resource was not found.");
        };
        state.items.hold(store, &self.settings, state.since);
        let parsed =
            if request.body.is_empty() { Ok(json!({})) } else { serde_json::from_slice(&request.body) };
        let malformed = parsed.is_err();
        let mut call = Call { store, route, path, request, body: parsed.unwrap_or_default(), now };
        let writes = request.method != Method::GET;
        if writes {
            self.ledger.note_request(keys::of(&call).first().and_then(Option::as_deref));
        }
        if !authorised(&call) {
            return problem(401, "X-Auth-Token header is required");
        }
        let fault = fault_of(&request.headers);
        if let Some(reply) = self.refused(request) {
            return reply;
        }
        let scripted = if writes { self.scripted() } else { None };
        if let Some(answer) = scripted.filter(|answer| !answer.applies()) {
            return answer.reply(self.fixtures);
        }
        let reply = match malformed {
            true if call.is_v2() => problem_v2(400, "The JSON data provided is invalid."),
            true => self.not_json_of("jsobject"),
            false if writes => self.write(state, &mut call),
            false if matches!(call.route, ["v2", "time" | "store"]) => one_of_its_kind(&call),
            false => state.items.get(&call, self.settings.apply_after),
        };
        match (scripted, fault) {
            (Some(answer), _) => answer.reply(self.fixtures),
            (None, Some(Fault::Error500After)) => problem(500, "Internal Server Error"),
            (None, _) => reply,
        }
    }

    /// A 429 of the store's own: milliseconds in one header, whole seconds in the other. The seconds never
    /// say more than the milliseconds, and are left out when they would say zero.
    fn rate_limited(&self, wait: Duration) -> Reply {
        let mut reply = self.fixtures.reply("rate_limited");
        reply.headers.retain(|(name, _)| name != "X-Retry-After");
        let reply = reply.header("X-Rate-Limit-Time-Reset-Ms", wait.as_millis().to_string());
        match wait.as_secs() {
            0 => reply,
            seconds => reply.header("X-Retry-After", seconds.to_string()),
        }
    }

    fn with_headers(&self, mut reply: Reply, state: &State, now: Timestamp) -> Reply {
        let mut rate = self.fixtures.reply("rate_headers").headers;
        state.quota.describe(&mut rate, now);
        for (name, value) in rate {
            let said = reply.headers.iter().any(|(other, _)| *other == name);
            // The wait of a 429 is its own; the quota is the store's.
            let is_quota = name.contains("-Requests-") && state.quota.is_set();
            if name.starts_with("X-Rate-Limit") && (!said || is_quota) {
                reply = reply.header(&name, value);
            }
        }
        reply.header("X-Request-Id", format!("{:032x}", state.requests))
    }

    /// Notes what a request made of this id.
    pub(super) fn made(&self, call: &Call<'_>, wire_key: Option<&str>, id: &Value, part: usize) {
        let by = (call.request.method.as_str(), call.path);
        self.effect(call.store, wire_key, by, &id_text(id), part);
    }
}

/// The time, or the store: its name and its currency, as far as a client asks before it works.
fn one_of_its_kind(call: &Call<'_>) -> Reply {
    if let Err(refused) = question(call, &Route::OTHER, Asks::Nothing) {
        return refused;
    }
    if call.route == ["v2", "time"] {
        return Reply::json(200, &json!({ "time": call.now.as_millis() / 1000 }));
    }
    let mut store = fields_of("v2/store", call.now);
    for (name, value) in [
        ("id", Value::from(call.store)),
        ("name", Value::from("Fake")),
        ("domain", Value::from("fake.example.com")),
        ("currency", Value::from("USD")),
        ("status", Value::from("live")),
        ("store_id", Value::from(1001)),
        ("default_channel_id", Value::from(1)),
    ] {
        store.insert(name.to_owned(), value);
    }
    Reply::json(200, &store)
}

fn authorised(call: &Call<'_>) -> bool {
    let headers = &call.request.headers;
    if call.route == ["payments"] {
        return keys::payment_token(headers).is_some();
    }
    header(headers, "x-auth-token").is_some_and(|token| !token.is_empty())
}

/// A V3 error.
pub(super) fn problem(status: u16, title: &str) -> Reply {
    Reply::json(status, &json!({ "status": status, "title": title, "type": PROBLEM_TYPE }))
}

/// A V2 error: an array of one.
pub(super) fn problem_v2(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!([{ "status": status, "message": message }]))
}

pub(super) const PROBLEM_TYPE: &str =
    "https://developer.bigcommerce.com/api-docs/getting-started/api-status-codes";

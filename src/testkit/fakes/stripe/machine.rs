//! What Stripe does with a request, in its own order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use wiremock::Request;

use super::super::encoding::from_base64;
use super::super::fixture::{Fixtures, Reply};
use super::super::ledger::{Effect, Ledger};
use super::super::serve::{Behaviour, date, fault_of, header};
use super::super::webhooks::Outbox;
use super::cards::Charging;
use super::desk::{Desk, Made};
use super::objects::Objects;
use super::params::Params;
use super::records::{Answer, Lookup, Record, Records};
use super::refusal::Refusal;
use super::v2::Asked;
use super::{ConflictType, StripeAnswer, actions, expand, reads, webhooks};
use crate::clock::Clock;
use crate::testkit::{Fault, WaitForm};

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) fixtures: &'static Fixtures,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ledger: Ledger,
    pub(super) outbox: Outbox,
    pub(super) conflict_type: ConflictType,
    pub(super) busy: Duration,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) records: Records<Answer>,
    pub(super) v2_records: Records<String>,
    pub(super) objects: Objects,
    pub(super) methods: HashMap<String, Charging>,
    pub(super) scripted: VecDeque<StripeAnswer>,
    pub(super) requests: u64,
}

/// One write, taken apart.
pub(super) struct Write<'a> {
    pub(super) account: &'a str,
    pub(super) key: Option<&'a str>,
    pub(super) path: &'a str,
    pub(super) params: Params,
    pub(super) fault: Option<Fault>,
    pub(super) request_id: &'a str,
    pub(super) version: &'a str,
}

impl Behaviour for Machine {
    fn answer(&self, request: &Request) -> Reply {
        let mut state = self.state.lock();
        state.requests += 1;
        let request_id = format!("req_{:014}", state.requests);
        let reply = self.route(&mut state, request, &request_id);
        // The server would add the machine's, which is another clock than the objects are dated by.
        echo(reply, request, &request_id).header("Date", self.clock.wall().to_string())
    }
}

impl Machine {
    fn route(&self, state: &mut State, request: &Request, request_id: &str) -> Reply {
        let key = header(&request.headers, "idempotency-key").filter(|key| !key.is_empty());
        let is_post = request.method == Method::POST;
        let path = request.url.path();
        let in_v2 = path.strip_prefix("/v2/");
        if is_post || (in_v2.is_some() && request.method == Method::DELETE) {
            self.ledger.note_request(key);
        }
        let Some(account) = account(request) else {
            return self.fixtures.reply("unauthorized");
        };
        if let Some(rest) = in_v2 {
            return self.v2(state, &Asked { request, account: &account, key, rest });
        }
        let Some(rest) = path.strip_prefix("/v1/").filter(|rest| !rest.is_empty()) else {
            return Refusal::unknown_url(request.method.as_str(), path).reply();
        };
        let fault = fault_of(&request.headers);
        let params = Params::of(request);
        let version = header(&request.headers, "stripe-version").unwrap_or(VERSION);
        let write = Write { account: &account, key, path, params, fault, request_id, version };
        if is_post {
            return self.write(state, &write, rest);
        }
        if let Some(reply) = fault.and_then(|fault| self.refuse(fault)) {
            return reply;
        }
        let reply = match (request.method.as_str(), rest.split_once('/')) {
            ("GET", _) => self.read(state, &write, rest),
            ("DELETE", Some((name, id))) => self.delete(state, &write, name, id),
            (method, _) => Err(Refusal::unknown_url(method, path)),
        };
        if fault == Some(Fault::Error500After) {
            self.server_error()
        } else {
            reply.unwrap_or_else(|no| no.reply())
        }
    }

    fn read(&self, state: &State, read: &Write<'_>, rest: &str) -> Result<Reply, Refusal> {
        let paths: Vec<String> = read.params.expand().map(str::to_owned).collect();
        expand::check(rest.split('/').next().unwrap_or_default(), &paths)?;
        let now = self.clock.wall().as_millis() / 1000;
        let reply = reads::get(&state.objects, read.account, now, rest, &read.params, read.path)?;
        if paths.is_empty() {
            return Ok(reply);
        }
        Ok(Reply::json(200, &expand::expand(&state.objects, read.account, reply.value(), &paths)))
    }

    fn delete(&self, state: &mut State, write: &Write<'_>, name: &str, id: &str) -> Result<Reply, Refusal> {
        let made = self.at_desk(state, write, |desk| actions::delete(desk, name, id, write.path))?;
        self.effect(write.account, write.key, "DELETE", write.path, id);
        Ok(Reply::json(200, &made))
    }

    /// Carries out a write, and tells the webhooks of it.
    fn at_desk(&self, state: &mut State, write: &Write<'_>, act: impl FnOnce(&mut Desk<'_>) -> Made) -> Made {
        let mut desk = Desk {
            objects: &mut state.objects,
            methods: &mut state.methods,
            account: write.account,
            now: self.clock.wall().as_millis() / 1000,
            version: write.version,
            request_id: write.request_id,
            key: write.key,
            events: Vec::new(),
        };
        let made = act(&mut desk);
        let events = desk.events;
        for event in &events {
            webhooks::post(&self.outbox, &state.objects, write.account, event);
        }
        made
    }

    /// The order is Stripe's. What keeps a request from executing comes first and stores nothing. Then the key's
    /// record; then validation, which stores nothing either; then execution, whose outcome is stored.
    fn write(&self, state: &mut State, write: &Write<'_>, rest: &str) -> Reply {
        let now = self.clock.wall();
        if let Some(reply) = write.fault.and_then(|fault| self.refuse(fault)) {
            return reply;
        }
        if write.fault == Some(Fault::KeyInUse) {
            return self.key_in_use(write.key);
        }
        if write.key.is_some_and(|key| key.len() > KEY_LEN_MAX) {
            return self.key_too_long();
        }
        let reply = match write
            .key
            .map(|key| (key, state.records.find(write.account, key, write.path, &write.params.text(), now)))
        {
            Some((key, Lookup::Busy)) => return self.key_in_use(Some(key)),
            Some((key, Lookup::OtherEndpoint(first))) => return self.other_endpoint(key, &first, write.path),
            Some((key, Lookup::OtherParams)) => {
                return self.fixtures.reply("param_mismatch").fill("<key>", key);
            }
            Some((_, Lookup::Kept(first))) => {
                let reply = first.reply.header("Idempotent-Replayed", "true");
                reply.header("Original-Request", first.request_id)
            }
            Some((_, Lookup::New)) | None => match self.first(state, write, rest) {
                Outcome::NotStored(reply) => return reply,
                Outcome::Stored(reply) => {
                    if let Some(key) = write.key {
                        let record = Record::new(write, &reply, now, now.plus(self.busy));
                        state.records.insert(write.account, key, record);
                    }
                    reply
                }
            },
        };
        // The edge loses the answer, and the effect behind it stays.
        if write.fault == Some(Fault::Error500After) { self.server_error() } else { reply }
    }

    fn first(&self, state: &mut State, write: &Write<'_>, rest: &str) -> Outcome {
        if let Some(answer) = state.scripted.pop_front() {
            let reply = answer.reply(self.fixtures);
            return if answer == StripeAnswer::Stored500 {
                Outcome::Stored(reply)
            } else {
                Outcome::NotStored(reply)
            };
        }
        if write.fault == Some(Fault::Stored500) {
            return Outcome::Stored(self.fixtures.reply("stored_500"));
        }
        let paths: Vec<String> = write.params.expand().map(str::to_owned).collect();
        let made = expand::check(rest.split('/').next().unwrap_or_default(), &paths).and_then(|()| {
            self.at_desk(state, write, |desk| actions::post(desk, rest, &write.params, write.path))
        });
        match made {
            Ok(made) => {
                let id = made["id"].as_str().unwrap_or_default();
                self.effect(write.account, write.key, "POST", write.path, id);
                let shown = expand::expand(&state.objects, write.account, made, &paths);
                Outcome::Stored(Reply::json(200, &shown).header("Stripe-Should-Retry", "false"))
            }
            Err(refusal) if refusal.executed => Outcome::Stored(refusal.reply()),
            Err(refusal) => Outcome::NotStored(refusal.reply()),
        }
    }

    /// What a fault makes of a request before it can execute.
    pub(super) fn refuse(&self, fault: Fault) -> Option<Reply> {
        match fault {
            Fault::Error500Before => Some(self.server_error()),
            Fault::Html => Some(self.fixtures.reply("gateway_html")),
            Fault::TooManyRequests(form) => {
                let reply = self.fixtures.reply("rate_limited_global");
                Some(match form {
                    WaitForm::Seconds(seconds) => reply.header("Retry-After", seconds.to_string()),
                    WaitForm::HttpDate(wait) => reply
                        .header("Retry-After", date(&*self.clock, wait))
                        .header("Date", self.clock.wall().to_string()),
                    _ => reply,
                })
            }
            _ => None,
        }
    }

    /// A 500 of which nothing is stored: the words of a stored one, without its advice.
    pub(super) fn server_error(&self) -> Reply {
        let mut reply = self.fixtures.reply("stored_500");
        reply.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("stripe-should-retry"));
        reply
    }

    pub(super) fn key_in_use(&self, key: Option<&str>) -> Reply {
        let reply =
            self.fixtures.reply("concurrent_key_in_use").fill("770434815658t5litna", key.unwrap_or_default());
        match self.conflict_type {
            ConflictType::InvalidRequest => reply,
            ConflictType::Idempotency => reply.fill("invalid_request_error", "idempotency_error"),
        }
    }

    fn other_endpoint(&self, key: &str, first: &str, now: &str) -> Reply {
        self.fixtures
            .reply("endpoint_mismatch")
            .fill("'/v1/invoices/in_x/pay' vs '/v1/invoices'", &format!("'{first}' vs '{now}'"))
            .fill("<key>", key)
    }

    /// Stripe documents the limit, not the words: these are composed.
    pub(super) fn key_too_long(&self) -> Reply {
        let message = format!("Idempotency keys may be at most {KEY_LEN_MAX} characters long.");
        Reply::json(400, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
    }

    pub(super) fn effect(&self, account: &str, key: Option<&str>, method: &str, path: &str, id: &str) {
        self.ledger.record(Effect {
            wire_key: key.map(str::to_owned),
            account: account.to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            id: id.to_owned(),
            part: 0,
            at: self.clock.wall(),
        });
    }
}

enum Outcome {
    /// Execution never started: the key stays free.
    NotStored(Reply),
    /// It did: this is the key's answer from now on.
    Stored(Reply),
}

/// The account and mode that a request's keys and objects belong to; `None` if it may not come in.
fn account(request: &Request) -> Option<String> {
    let credentials = header(&request.headers, "authorization")?;
    let secret = match credentials.split_once(' ')? {
        ("Bearer", secret) => secret.to_owned(),
        // The key is the user, without a password.
        ("Basic", pair) => String::from_utf8(from_base64(pair)?).ok()?.trim_end_matches(':').to_owned(),
        _ => return None,
    };
    let (_, rest) = secret.split_once('_').filter(|(kind, _)| matches!(*kind, "sk" | "rk"))?;
    let mode = if rest.starts_with("live") { "live" } else { "test" };
    let account = header(&request.headers, "stripe-account").unwrap_or("acct_own");
    Some(format!("{account}/{mode}"))
}

/// The headers that are on every answer.
fn echo(reply: Reply, request: &Request, request_id: &str) -> Reply {
    if reply.headers.iter().any(|(_, value)| value == "text/html") {
        // A gateway's: it knows none of them.
        return reply;
    }
    let is_v2 = request.url.path().starts_with("/v2/");
    let mut reply = reply.header("Request-Id", request_id);
    // v2 has no version but that of the request.
    if let Some(version) = header(&request.headers, "stripe-version").or((!is_v2).then_some(VERSION)) {
        reply = reply.header("Stripe-Version", version);
    }
    if let Some(key) = header(&request.headers, "idempotency-key") {
        reply = reply.header("Idempotency-Key", key);
        let named = reply.headers.iter().any(|(name, _)| name == "Original-Request");
        // Seen in v1 alone.
        if request.method == Method::POST && !is_v2 && !named {
            reply = reply.header("Original-Request", request_id);
        }
    }
    reply
}

/// Documented at <https://docs.stripe.com/api/idempotent_requests>.
pub(super) const KEY_LEN_MAX: usize = 255;

/// The version of the newest real answer among the fixtures.
const VERSION: &str = "2026-07-29.dahlia";

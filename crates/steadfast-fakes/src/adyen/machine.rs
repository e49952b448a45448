//! The steps of a request at Adyen: who sends it, what its key has answered before, and then the request itself.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use wiremock::Request;

use steadfast_core::clock::Timestamp;
use steadfast_testkit::Fault;

use super::super::fixture::{Fixtures, Reply};
use super::super::machine::{self, Failure, Vendor};
use super::super::records::{Lookup, Record, Records};
use super::super::serve::{fault_of, header};
use super::super::table::Table;
use super::super::webhooks::Outbox;
use super::changes::{self, Change};
use super::checkouts::{self, Checkout};
use super::hooks::Hooks;
use super::payments::Payment;
use super::settings::AdyenSettings;
use super::{AdyenAnswer, links, manage, methods, sessions};

pub(super) type Machine = machine::Machine<State>;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) records: Records<Reply>,
    pub(super) payments: Table<Payment>,
    pub(super) checkouts: Table<Checkout>,
    pub(super) hooks: Hooks,
    given: u64,
}

impl State {
    /// 16 capitals and digits, as PSP references are.
    pub(super) fn next_psp(&mut self) -> String {
        self.given += 1;
        format!("FK{:013X}8", self.given)
    }

    /// Its prefix and 16 capitals and digits, as a session and a payment link have.
    pub(super) fn next_id(&mut self, prefix: &str) -> String {
        self.given += 1;
        format!("{prefix}{:016X}", self.given)
    }
}

/// One write, taken apart.
pub(super) struct Write<'a> {
    pub(super) fixtures: &'a Fixtures,
    pub(super) outbox: &'a Outbox,
    pub(super) captures_in_parts: bool,
    /// The account captures no payment by itself.
    pub(super) captures_by_request: bool,
    pub(super) body: &'a [u8],
    pub(super) now: Timestamp,
}

/// The result of a write: its PSP reference or its id, and the answer.
pub(super) struct Made {
    pub(super) psp: String,
    pub(super) reply: Reply,
}

impl Vendor for State {
    type Settings = AdyenSettings;
    type Answer = AdyenAnswer;

    const HAS_KEYS: bool = true;

    fn opened(_: &AdyenSettings, _: Timestamp) -> State {
        State::default()
    }

    fn answer(machine: &Machine, state: &mut State, request: &Request) -> Reply {
        let reply = machine.route(state, request).fill("<pspReference>", &state.next_psp());
        let is_gateways = reply.headers.iter().any(|(_, value)| value == "text/html");
        match header(&request.headers, KEY) {
            Some(key) if !is_gateways => reply.header("Idempotency-Key", key),
            _ => reply,
        }
    }

    fn failure(machine: &Machine, failure: Failure) -> Reply {
        machine.fixtures.reply(match failure {
            Failure::Server => "store_unavailable",
            Failure::Gateway => "gateway_html",
            Failure::RateLimit(_) => "rate_limited",
        })
    }

    fn shopper(machine: &Machine, body: &[u8]) -> Option<Reply> {
        Some(match serde_json::from_slice::<Order>(body) {
            Ok(order) => machine.pay(&order.id, &order.payment_method),
            Err(error) => Reply::json(400, &json!({ "problem": error.to_string() })),
        })
    }
}

/// The payment that a test asks for at `/_fake/pay`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Order {
    id: String,
    payment_method: Value,
}

impl Machine {
    fn route(&self, state: &mut State, request: &Request) -> Reply {
        let path = request.url.path();
        let path = path.strip_prefix("/checkout").unwrap_or(path);
        let key = header(&request.headers, KEY).filter(|key| !key.is_empty());
        // `/v710` is no version, although it begins like one.
        let route_of = |version: &&str| path.strip_prefix(*version).filter(|rest| rest.starts_with('/'));
        let checkout = VERSIONS.iter().find_map(route_of);
        let is_write = request.method == Method::POST && checkout.is_some();
        if is_write {
            self.ledger.note_request(key);
        }
        let given = |name: &str| header(&request.headers, name).is_some_and(|value| !value.trim().is_empty());
        if !given("x-api-key") && !header(&request.headers, "authorization").is_some_and(is_basic) {
            let is_managed = manage::is_managed(path);
            return if is_managed { manage::unauthorized() } else { self.fixtures.reply("unauthorized") };
        }
        if let Some(reply) = self.refused(request) {
            return reply;
        }
        match checkout {
            Some(route) if is_write => self.write(state, request, route, key),
            Some(route) => self.unkeyed(state, request, route).unwrap_or_else(|refusal| refusal),
            None if manage::is_managed(path) => manage::manage(&mut state.hooks, request, path),
            None => self.fixtures.reply("not_found"),
        }
    }

    /// The key's record comes first, then the request.
    fn write(&self, state: &mut State, request: &Request, route: &str, key: Option<&str>) -> Reply {
        let (now, fault) = (self.clock.wall(), fault_of(&request.headers));
        if fault == Some(Fault::KeyInUse) {
            return self.fixtures.reply("in_progress");
        }
        if key.is_some_and(|key| key.len() > KEY_LEN_MAX) {
            return self.fixtures.reply("key_too_long");
        }
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let found = key.map_or(Lookup::New, |key| state.records.find(COMPANY, key, route, &body, now));
        let reply = match found {
            Lookup::Busy => return self.fixtures.reply("in_progress"),
            Lookup::OtherEndpoint(_) | Lookup::OtherParams(_) if self.settings.refuse_reused_keys => {
                return self.fixtures.reply("already_processed");
            }
            Lookup::OtherEndpoint(first) | Lookup::OtherParams(first) | Lookup::Kept(first) => {
                first.kept.clone()
            }
            Lookup::New => {
                let reply = self.first(state, request, route, key, now);
                // Its own reference, in this answer and in each repeat of it.
                let reply = reply.fill("<pspReference>", &state.next_psp());
                if let Some(key) = key.filter(|_| self.stores(&reply)) {
                    let record = Record {
                        endpoint: route.to_owned(),
                        params: body,
                        kept: reply.clone(),
                        busy_until: now.plus(self.settings.busy_for),
                        free_from: now.plus(TTL),
                    };
                    state.records.insert(COMPANY, key, record);
                }
                reply
            }
        };
        // The edge loses the answer, and the effect behind it stays.
        if fault == Some(Fault::Error500After) { self.fixtures.reply("io_exception") } else { reply }
    }

    fn first(
        &self,
        state: &mut State,
        request: &Request,
        route: &str,
        key: Option<&str>,
        now: Timestamp,
    ) -> Reply {
        if let Some(answer) = self.scripted() {
            return answer.reply(self.fixtures);
        }
        if fault_of(&request.headers) == Some(Fault::Stored500) {
            return self.fixtures.reply("io_exception");
        }
        let write = self.write_of(&request.body, now);
        let parts: Vec<&str> = route.split('/').skip(1).collect();
        let made = match parts[..] {
            ["payments"] => changes::pay(state, &write),
            ["payments", "details"] => changes::details(state, &write),
            ["payments", psp, change] => match Change::named(change) {
                Some(change) => changes::change(state, &write, psp, change),
                None => Err(self.fixtures.reply("not_found")),
            },
            ["cancels"] => changes::cancel_by_reference(state, &write),
            ["paymentMethods"] => {
                return methods::list(self.fixtures, &request.body).unwrap_or_else(|refusal| refusal);
            }
            ["sessions"] => sessions::create(state, &write),
            ["paymentLinks"] => links::create(state, &write),
            _ => Err(self.fixtures.reply("not_found")),
        };
        match made {
            Ok(made) => {
                self.effect(COMPANY, key, ("POST", request.url.path()), &made.psp, 0);
                made.reply
            }
            Err(no) => no,
        }
    }

    /// The routes that take no key: their specification does not have the header.
    fn unkeyed(&self, state: &mut State, request: &Request, route: &str) -> Result<Reply, Reply> {
        let (now, fault) = (self.clock.wall(), fault_of(&request.headers));
        let write = self.write_of(&request.body, now);
        let parts: Vec<&str> = route.split('/').skip(1).collect();
        match (request.method.as_str(), &parts[..]) {
            ("GET", ["sessions", id]) => sessions::result(state, &write, request, id),
            ("GET", ["paymentLinks", id]) => links::show(state, &write, id),
            ("PATCH", ["paymentLinks", id]) => {
                if let Some(answer) = self.scripted() {
                    return Err(answer.reply(self.fixtures));
                }
                if fault == Some(Fault::Stored500) {
                    return Err(self.fixtures.reply("io_exception"));
                }
                let made = links::expire(state, &write, id)?;
                self.effect(COMPANY, None, ("PATCH", request.url.path()), &made.psp, 0);
                let is_lost = fault == Some(Fault::Error500After);
                Ok(if is_lost { self.fixtures.reply("io_exception") } else { made.reply })
            }
            _ => Err(self.fixtures.reply("not_found")),
        }
    }

    /// A shopper pays, in a browser and not by a request of the fake's caller.
    pub(super) fn pay(&self, id: &str, method: &Value) -> Reply {
        let mut state = self.state.lock();
        let now = self.clock.wall();
        let reply = match checkouts::pay(&mut state, &self.write_of(&[], now), id, method) {
            Ok(made) => {
                self.effect(COMPANY, None, ("POST", PAY), &made.psp, 0);
                made.reply
            }
            Err(no) => no,
        };
        reply.fill("<pspReference>", &state.next_psp())
    }

    fn write_of<'a>(&'a self, body: &'a [u8], now: Timestamp) -> Write<'a> {
        Write {
            fixtures: self.fixtures,
            outbox: &self.outbox,
            captures_in_parts: self.settings.multiple_partial_captures,
            captures_by_request: self.settings.manual_capture,
            body,
            now,
        }
    }

    /// Whether an answer is kept under its key. Not what Adyen marks as transient, nor what it could not read or did not let
    /// in. Nor what a proxy or a limit in front of it says.
    ///
    /// A 422 for a request that is not valid is kept or not, as the fake was built. One that says that the request was
    /// processed before is none of these.
    fn stores(&self, reply: &Reply) -> bool {
        let is_transient = reply.headers.iter().any(|(name, _)| name == "transient-error");
        let is_invalid = reply.status == 422 && reply.value()["errorCode"] != "704";
        let is_outside = matches!(reply.status, 400 | 401 | 403 | 404 | 429 | 502);
        let is_forgotten = is_invalid && self.settings.forget_invalid_requests;
        !(is_transient || is_outside || is_forgotten)
    }
}

fn is_basic(credentials: &str) -> bool {
    credentials.strip_prefix("Basic ").is_some_and(|pair| !pair.is_empty())
}

const KEY: &str = "idempotency-key";
/// Both documented at <https://docs.adyen.com/development-resources/api-idempotency>.
const KEY_LEN_MAX: usize = 64;
/// "Valid for a minimum period of 7 days after first submission." The fake forgets them at that age exactly: the
/// earliest that a client must be ready for.
const TTL: Duration = Duration::from_secs(7 * 24 * 3600);
const COMPANY: &str = "company";
/// The path of a shopper's payment in the ledger: where a test in another language asks for it.
const PAY: &str = "/_fake/pay";
/// Those of the published specifications that have these routes in this form.
const VERSIONS: [&str; 3] = ["/v70", "/v71", "/v72"];

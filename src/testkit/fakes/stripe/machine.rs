//! What Stripe does with a request, in its own order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use wiremock::Request;

use super::super::fixture::{Fixtures, Reply};
use super::super::ledger::{Effect, Ledger};
use super::super::serve::{Behaviour, date, fault_of, header};
use super::objects::{List, Objects};
use super::params::Params;
use super::records::{Lookup, Record, Records};
use super::{ConflictType, StripeAnswer};
use crate::clock::Clock;
use crate::testkit::{Fault, WaitForm};

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) fixtures: &'static Fixtures,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ledger: Ledger,
    pub(super) conflict_type: ConflictType,
    pub(super) busy: Duration,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) records: Records,
    pub(super) objects: Objects,
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
        if is_post {
            self.ledger.note_request(key);
        }
        let Some(account) = account(request) else {
            return self.fixtures.reply("unauthorized");
        };
        let path = request.url.path();
        let Some(rest) = path.strip_prefix("/v1/").filter(|rest| !rest.is_empty()) else {
            return self.unknown_url(request);
        };
        let fault = fault_of(&request.headers);
        if is_post {
            let params = Params::of(request);
            let write = Write { account: &account, key, path, params, fault, request_id };
            return self.write(state, &write, rest);
        }
        if let Some(reply) = fault.and_then(|fault| self.refuse(fault)) {
            return reply;
        }
        let mut reply = match (request.method.as_str(), rest.split_once('/')) {
            ("GET", None) => state.objects.list(&account, rest, path, &List::of(request)),
            ("GET", Some((resource, id))) => state.objects.read(&account, resource, id),
            ("DELETE", Some((resource, id))) => {
                let reply = state.objects.remove(&account, resource, id);
                if reply.status == 200 {
                    self.effect(&account, key, "DELETE", path, id);
                }
                reply
            }
            _ => self.unknown_url(request),
        };
        if fault == Some(Fault::Error500After) {
            reply = self.server_error();
        }
        reply
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
            .map(|key| (key, state.records.find(write.account, key, write.path, &write.params, now)))
        {
            Some((key, Lookup::Busy)) => return self.key_in_use(Some(key)),
            Some((key, Lookup::OtherEndpoint(first))) => return self.other_endpoint(key, &first, write.path),
            Some((key, Lookup::OtherParams)) => {
                return self.fixtures.reply("param_mismatch").fill("<key>", key);
            }
            Some((_, Lookup::Replay(reply, first))) => {
                reply.header("Idempotent-Replayed", "true").header("Original-Request", first)
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
        let (resource, target) = match rest.split_once('/') {
            Some((resource, target)) => (resource, Some(target.split('/').next().unwrap_or(target))),
            None => (rest, None),
        };
        let needs_amount = target.is_none() && matches!(resource, "charges" | "payment_intents");
        if needs_amount && write.params.get("amount").is_none_or(str::is_empty) {
            return Outcome::NotStored(self.fixtures.reply("invalid_param"));
        }
        if write.fault == Some(Fault::Stored500) {
            return Outcome::Stored(self.fixtures.reply("stored_500"));
        }
        if DECLINED.iter().any(|(name, value)| write.params.get(name) == Some(value)) {
            return Outcome::Stored(self.fixtures.reply("card_declined"));
        }
        let now = self.clock.wall();
        let made = match target {
            None => Some(state.objects.create(write.account, resource, &write.params, now)),
            Some(id) => state.objects.update(write.account, resource, id, &write.params),
        };
        let Some(made) = made else {
            return Outcome::NotStored(missing(target.unwrap_or_default()));
        };
        self.effect(write.account, write.key, "POST", write.path, made["id"].as_str().unwrap_or_default());
        Outcome::Stored(Reply::json(200, &made).header("Stripe-Should-Retry", "false"))
    }

    /// What a fault makes of a request before it can execute.
    fn refuse(&self, fault: Fault) -> Option<Reply> {
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
    fn server_error(&self) -> Reply {
        let mut reply = self.fixtures.reply("stored_500");
        reply.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("stripe-should-retry"));
        reply
    }

    fn key_in_use(&self, key: Option<&str>) -> Reply {
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
    fn key_too_long(&self) -> Reply {
        let message = format!("Idempotency keys may be at most {KEY_LEN_MAX} characters long.");
        Reply::json(400, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
    }

    fn unknown_url(&self, request: &Request) -> Reply {
        let message = format!("Unrecognized request URL ({}: {}).", request.method, request.url.path());
        Reply::json(404, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
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
    let secret = header(&request.headers, "authorization")?.strip_prefix("Bearer ")?;
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
    let version = header(&request.headers, "stripe-version").unwrap_or(VERSION);
    let mut reply = reply.header("Request-Id", request_id).header("Stripe-Version", version);
    if let Some(key) = header(&request.headers, "idempotency-key") {
        reply = reply.header("Idempotency-Key", key);
        let named = reply.headers.iter().any(|(name, _)| name == "Original-Request");
        if request.method == Method::POST && !named {
            reply = reply.header("Original-Request", request_id);
        }
    }
    reply
}

pub(super) fn missing(id: &str) -> Reply {
    let error: Value = json!({
        "code": "resource_missing", "message": format!("No such object: '{id}'"),
        "param": "id", "type": "invalid_request_error"
    });
    Reply::json(404, &json!({ "error": error }))
}

/// Documented at <https://docs.stripe.com/api/idempotent_requests>.
const KEY_LEN_MAX: usize = 255;

/// The version of the newest real answer among the fixtures.
const VERSION: &str = "2026-07-29.dahlia";

/// Stripe's own test values for a declined card (<https://docs.stripe.com/testing#declined-payments>).
const DECLINED: [(&str, &str); 2] =
    [("source", "tok_chargeDeclined"), ("payment_method", "pm_card_chargeDeclined")];

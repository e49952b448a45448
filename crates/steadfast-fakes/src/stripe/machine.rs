//! The steps of a request at Stripe, in its own order.

use std::collections::HashMap;

use http::Method;
use serde_json::Value;
use wiremock::Request;

use steadfast_core::clock::Timestamp;
use steadfast_testkit::Fault;

use super::super::fixture::Reply;
use super::super::machine::{self, Failure, Vendor};
use super::super::records::{Lookup, Record, Records};
use super::super::serve::{fault_of, header};
use super::cards::Charging;
use super::desk::{Desk, Made};
use super::edge::KEY_LEN_MAX;
use super::expand::Shown;
use super::headers::{VERSION, account, echo, is_version};
use super::life::{self, Due};
use super::objects::Objects;
use super::params::Params;
use super::records::Answer;
use super::refusal::Refusal;
use super::settings::StripeSettings;
use super::v2::Asked;
use super::{StripeAnswer, actions, reads, webhooks};

pub(super) type Machine = machine::Machine<State>;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) records: Records<Answer>,
    pub(super) v2_records: Records<String>,
    pub(super) objects: Objects,
    pub(super) methods: HashMap<String, Charging>,
    pub(super) due: Due,
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

impl Vendor for State {
    type Settings = StripeSettings;
    type Answer = StripeAnswer;

    const HAS_KEYS: bool = true;

    fn opened(_: &StripeSettings, _: Timestamp) -> State {
        State::default()
    }

    fn answer(machine: &Machine, state: &mut State, request: &Request) -> Reply {
        state.requests += 1;
        let request_id = format!("req_{:014}", state.requests);
        machine.pass_time(state);
        let reply = machine.route(state, request, &request_id);
        echo(reply, request, &request_id)
    }

    fn failure(machine: &Machine, failure: Failure) -> Reply {
        match failure {
            Failure::Server => machine.server_error(),
            Failure::Gateway => machine.fixtures.reply("gateway_html"),
            Failure::RateLimit(_) => machine.fixtures.reply("rate_limited_global"),
        }
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
        let version = header(&request.headers, "stripe-version").unwrap_or(VERSION);
        if !is_version(version) {
            return Refusal::version(version).reply();
        }
        let fault = fault_of(&request.headers);
        let params = Params::of(request);
        let write = Write { account: &account, key, path, params, fault, request_id, version };
        if let Some(reply) = self.refused(request) {
            return reply;
        }
        if is_post {
            return self.write(state, &write, rest);
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
        let (shown, paths) = expansions(read, "GET", rest)?;
        let reply = reads::get(&state.objects, read.account, self.seconds(), rest, &read.params, read.path)?;
        match shown {
            Some(shown) if !paths.is_empty() => {
                Ok(Reply::json(200, &shown.expand(&state.objects, read.account, reply.value(), &paths)))
            }
            _ => Ok(reply),
        }
    }

    fn delete(&self, state: &mut State, write: &Write<'_>, name: &str, id: &str) -> Result<Reply, Refusal> {
        let rest = format!("{name}/{id}");
        let (shown, paths) = expansions(write, "DELETE", &rest)?;
        let act = |desk: &mut Desk<'_>| actions::delete(desk, name, id, &write.params, write.path);
        let made = self.at_desk(state, write, act)?;
        self.effect(write.account, write.key, ("DELETE", write.path), id, 0);
        let made = match shown {
            Some(shown) => shown.expand(&state.objects, write.account, made, &paths),
            None => made,
        };
        Ok(Reply::json(200, &made))
    }

    /// Carries out a write, and tells the webhooks of it. One that is refused leaves nothing, but for what its refusal
    /// says that it leaves.
    fn at_desk(&self, state: &mut State, write: &Write<'_>, act: impl FnOnce(&mut Desk<'_>) -> Made) -> Made {
        state.objects.begin();
        let request = (write.version, Some(write.request_id), write.key);
        let (made, events) = desk_of(state, write.account, self.seconds(), request, act);
        if made.as_ref().is_err_and(|refusal| !refusal.leaves) {
            state.objects.take_back();
            return made;
        }
        state.objects.keep();
        self.tell(state, write.account, &events);
        made
    }

    /// Carries out the events that are due, each at its own time.
    fn pass_time(&self, state: &mut State) {
        while let Some(entry) = state.due.next(self.seconds()) {
            let come = |desk: &mut Desk<'_>| life::come(desk, entry.resource, &entry.id);
            let ((), events) = desk_of(state, &entry.account, entry.at, (VERSION, None, None), come);
            self.tell(state, &entry.account, &events);
        }
    }

    fn tell(&self, state: &State, account: &str, events: &[Value]) {
        for event in events {
            webhooks::post(&self.outbox, &state.objects, account, event);
        }
    }

    fn seconds(&self) -> u64 {
        self.clock.wall().as_millis() / 1000
    }

    /// All that makes two requests under a key the same.
    fn compared(&self, write: &Write<'_>) -> String {
        let params = write.params.text(self.settings.ignore_form_order);
        if self.settings.compare_versions { format!("{} {params}", write.version) } else { params }
    }

    /// The order is Stripe's. A cause that keeps a request from executing comes first and stores nothing. Then the
    /// key's record; then validation, which stores nothing either; then execution, whose outcome is stored.
    fn write(&self, state: &mut State, write: &Write<'_>, rest: &str) -> Reply {
        let now = self.clock.wall();
        if write.fault == Some(Fault::KeyInUse) {
            return self.key_in_use(write.key);
        }
        if write.key.is_some_and(|key| key.len() > KEY_LEN_MAX) {
            return self.key_too_long();
        }
        let params = self.compared(write);
        let find = |key| (key, state.records.find(write.account, key, write.path, &params, now));
        let reply = match write.key.map(find) {
            Some((key, Lookup::Busy)) => return self.key_in_use(Some(key)),
            Some((key, Lookup::OtherEndpoint(first))) => {
                return self.other_endpoint(key, &first.endpoint, write.path);
            }
            Some((key, Lookup::OtherParams(_))) => {
                return self.fixtures.reply("param_mismatch").fill("<key>", key);
            }
            Some((_, Lookup::Kept(first))) => {
                let reply = first.kept.reply.clone().header("Idempotent-Replayed", "true");
                reply.header("Original-Request", &first.kept.request_id)
            }
            Some((_, Lookup::New)) | None => match self.first(state, write, rest) {
                Outcome::NotStored(reply) => return reply,
                Outcome::Stored(reply) => {
                    if let Some(key) = write.key {
                        let record =
                            Record::new(write, params, &reply, now, now.plus(self.settings.busy_for));
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
        if let Some(answer) = self.scripted() {
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
        let made = expansions(write, "POST", rest).and_then(|asked| {
            let act = |desk: &mut Desk<'_>| actions::post(desk, rest, &write.params, write.path);
            Ok((asked, self.at_desk(state, write, act)?))
        });
        match made {
            Ok(((shown, paths), made)) => {
                let id = made["id"].as_str().unwrap_or_default();
                self.effect(write.account, write.key, ("POST", write.path), id, 0);
                let shown = match shown {
                    Some(shown) => shown.expand(&state.objects, write.account, made, &paths),
                    None => made,
                };
                Outcome::Stored(Reply::json(200, &shown).header("Stripe-Should-Retry", "false"))
            }
            Err(refusal) if refusal.executed => Outcome::Stored(refusal.reply()),
            Err(refusal) => Outcome::NotStored(refusal.reply()),
        }
    }
}

/// The ids that are to be expanded, refused if they cannot be.
fn expansions<'a>(
    write: &Write<'_>,
    method: &str,
    rest: &'a str,
) -> Result<(Option<Shown<'a>>, Vec<String>), Refusal> {
    let paths: Vec<String> = write.params.expand().map(str::to_owned).collect();
    let shown = Shown::of(method, rest);
    shown.map_or(Ok(()), |shown| shown.check(&paths))?;
    Ok((shown, paths))
}

/// Does it at the desk of an account. Gives what came of it, and the events. The request is its version, id and key.
fn desk_of<T>(
    state: &mut State,
    account: &str,
    now: u64,
    (version, request_id, key): (&str, Option<&str>, Option<&str>),
    act: impl FnOnce(&mut Desk<'_>) -> T,
) -> (T, Vec<Value>) {
    let mut desk = Desk {
        objects: &mut state.objects,
        methods: &mut state.methods,
        due: &mut state.due,
        account,
        now,
        version,
        request_id,
        key,
        events: Vec::new(),
        before: HashMap::new(),
    };
    let made = act(&mut desk);
    (made, desk.events)
}

enum Outcome {
    /// Execution never started: the key stays free.
    NotStored(Reply),
    /// It did: this is the key's answer from now on.
    Stored(Reply),
}

//! Stripe v2: the same account by other rules (<https://docs.stripe.com/api-v2-overview>).
//!
//! Requests are JSON and name their `Stripe-Version`. `POST` and `DELETE` take keys, for 30 days. A call that failed is
//! executed again under its key: nothing of it is kept. One that succeeded is not: its repeat is answered with what the
//! object is now, or with an error if that is gone. A key belongs to one call of the API. On another call it is another
//! key, and an id in the path is a parameter.
//!
//! Not documented, so not relied upon: what v2 says while a key is in use, over a rate limit, or to a key that is too
//! long. There it answers as v1 does. A repeat is not marked as one.

use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};
use wiremock::Request;

use steadfast_testkit::Fault;

use super::super::fixture::Reply;
use super::super::records::{Lookup, Record};
use super::super::serve::{fault_of, header};
use super::StripeAnswer;
use super::edge::KEY_LEN_MAX;
use super::headers::is_version;
use super::machine::{Machine, State};

mod body;
mod destinations;
mod lists;
mod refusal;

use refusal::Refusal;

/// A request below `/v2/` of an account.
pub(super) struct Asked<'a> {
    pub(super) request: &'a Request,
    pub(super) account: &'a str,
    pub(super) key: Option<&'a str>,
    /// The path below `/v2/`.
    pub(super) rest: &'a str,
}

/// The act that is to be done with an id of the path. Each is an API of its own to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    List,
    Retrieve,
    Create,
    Update,
    Delete,
    Disable,
    Enable,
}

impl Api {
    fn of(method: &Method, rest: &str) -> Option<(Api, String)> {
        let rest = rest.strip_prefix(destinations::PATH)?;
        let parts: Vec<&str> = rest.split('/').collect();
        let (api, id) = match (method.as_str(), &parts[..]) {
            ("GET", [""]) => (Api::List, ""),
            ("POST", [""]) => (Api::Create, ""),
            (_, ["", ""]) => return None,
            ("GET", ["", id]) => (Api::Retrieve, *id),
            ("POST", ["", id]) => (Api::Update, *id),
            ("DELETE", ["", id]) => (Api::Delete, *id),
            ("POST", ["", id, "disable"]) => (Api::Disable, *id),
            ("POST", ["", id, "enable"]) => (Api::Enable, *id),
            _ => return None,
        };
        Some((api, id.to_owned()))
    }

    /// Its name in the contract.
    const fn name(self) -> &'static str {
        match self {
            Api::List => "list",
            Api::Retrieve => "retrieve",
            Api::Create => "create",
            Api::Update => "update",
            Api::Delete => "delete",
            Api::Disable => "disable",
            Api::Enable => "enable",
        }
    }

    const fn is_read(self) -> bool {
        matches!(self, Api::List | Api::Retrieve)
    }
}

/// A write, taken apart.
struct Call {
    api: Api,
    id: String,
    body: Map<String, Value>,
}

impl Call {
    /// All that makes two requests the same: two are, if these texts are equal.
    fn params(&self) -> String {
        let params = json!({ "id": self.id, "body": self.body });
        serde_json_canonicalizer::to_string(&params).unwrap_or_else(|_| params.to_string())
    }

    fn includes(&self) -> Vec<String> {
        let asked = self.body.get("include").and_then(Value::as_array);
        asked.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

impl Machine {
    pub(super) fn v2(&self, state: &mut State, asked: &Asked<'_>) -> Reply {
        let fault = fault_of(&asked.request.headers);
        if let Some(reply) = self.refused(asked.request) {
            return reply;
        }
        match self.v2_answer(state, asked, fault) {
            // The edge loses the answer, and the effect behind it stays.
            Ok(_) if fault == Some(Fault::Error500After) => self.server_error(),
            Ok(reply) | Err(reply) => reply,
        }
    }

    /// An `Err` is of what did not take place.
    fn v2_answer(&self, state: &mut State, asked: &Asked<'_>, fault: Option<Fault>) -> Result<Reply, Reply> {
        let Asked { request, account, key, rest } = *asked;
        match header(&request.headers, "stripe-version").filter(|version| !version.is_empty()) {
            None => return Err(Refusal::no_version().into()),
            Some(version) if !is_version(version) => return Err(Refusal::version(version).into()),
            Some(_) => {}
        }
        let unknown = || Refusal::unknown_url(request.method.as_str(), request.url.path());
        let (api, id) = Api::of(&request.method, rest).ok_or_else(unknown)?;
        if api.is_read() {
            return Ok(lists::read(&state.objects, account, (api == Api::Retrieve).then_some(&id), request)?);
        }
        if fault == Some(Fault::KeyInUse) {
            return Err(self.key_in_use(key));
        }
        if key.is_some_and(|key| key.len() > KEY_LEN_MAX) {
            return Err(self.key_too_long());
        }
        let call = Call { api, id, body: body::of(request)? };
        let Some(key) = key else { return self.v2_first(state, asked, &call, fault).map(|(_, reply)| reply) };
        let (now, scope, params) = (self.clock.wall(), format!("{} {key}", api.name()), call.params());
        match state.v2_records.find(account, &scope, destinations::PATH, &params, now) {
            Lookup::Busy => Err(self.key_in_use(Some(key))),
            Lookup::OtherEndpoint(_) | Lookup::OtherParams(_) => Err(Refusal::other_params(key).into()),
            Lookup::Kept(first) => Ok(destinations::again(&state.objects, account, &call, &first.kept)?),
            Lookup::New => {
                let (id, reply) = self.v2_first(state, asked, &call, fault)?;
                let record = Record {
                    endpoint: destinations::PATH.to_owned(),
                    params,
                    kept: id,
                    busy_until: now.plus(self.settings.busy_for),
                    free_from: now.plus(TTL),
                };
                state.v2_records.insert(account, &scope, record);
                Ok(reply)
            }
        }
    }

    /// Carries it out: the id of what it was done to, and the answer.
    fn v2_first(
        &self,
        state: &mut State,
        asked: &Asked<'_>,
        call: &Call,
        fault: Option<Fault>,
    ) -> Result<(String, Reply), Reply> {
        match self.scripted() {
            // v2 stores no failure.
            Some(StripeAnswer::Stored500) => return Err(self.server_error()),
            Some(answer) => return Err(answer.reply(self.fixtures)),
            None if fault == Some(Fault::Stored500) => return Err(self.server_error()),
            None => {}
        }
        let (id, shown) = destinations::write(&mut state.objects, asked.account, self.clock.wall(), call)?;
        let by = (asked.request.method.as_str(), asked.request.url.path());
        self.effect(asked.account, asked.key, by, &id, 0);
        Ok((id, Reply::json(200, &shown)))
    }
}

/// "Occur within the last 30 days of each other" (<https://docs.stripe.com/api-v2-overview#idempotency>).
const TTL: Duration = Duration::from_secs(30 * 24 * 3600);

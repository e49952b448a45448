//! The steps of a request at Postmark.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use wiremock::Request;

use steadfast_core::clock::Timestamp;
use steadfast_testkit::Fault;

use super::super::calendar::eastern;
use super::super::fixture::Reply;
use super::super::machine::{self, Failure, Vendor};
use super::super::serve::{fault_of, header};
use super::account::{self, Account};
use super::messages::{Message, Messages};
use super::server::{STREAMS, Server};
use super::settings::PostmarkSettings;
use super::{PostmarkAnswer, answers, questions, suppressions, validation};

pub(super) type Machine = machine::Machine<State>;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) messages: Messages,
    pub(super) server: Server,
    pub(super) account: Account,
}

impl Vendor for State {
    type Settings = PostmarkSettings;
    type Answer = PostmarkAnswer;

    const HAS_KEYS: bool = false;

    fn opened(_: &PostmarkSettings, _: Timestamp) -> State {
        State::default()
    }

    fn answer(machine: &Machine, state: &mut State, request: &Request) -> Reply {
        let reply = machine.route(state, request);
        // Not the whole body: that of a search is large, and has none.
        match serde_json::from_slice(&reply.body) {
            Ok(Coded { code: Some(code) }) => reply.header("X-PM-ApiErrorCode", code.to_string()),
            _ => reply,
        }
    }

    fn failure(machine: &Machine, failure: Failure) -> Reply {
        match failure {
            Failure::Server => machine.fixtures.reply("server_error"),
            Failure::Gateway => answers::html(),
            Failure::RateLimit(_) => machine.fixtures.reply("rate_limited"),
        }
    }
}

/// The code that most answers give of themselves.
#[derive(Deserialize)]
struct Coded {
    #[serde(rename = "ErrorCode")]
    code: Option<u64>,
}

impl Machine {
    fn route(&self, state: &mut State, request: &Request) -> Reply {
        let body: Option<Value> = serde_json::from_slice(&request.body).ok();
        let path = request.url.path();
        let route = route_of(path);
        let writes = request.method == Method::POST;
        if writes {
            self.ledger.note_request(body.as_ref().and_then(request_key));
        }
        let is_account = account::is_route(&route);
        let token = if is_account { self.account_token(request) } else { self.account(request) };
        let Some(account) = token else {
            let refused = self.fixtures.reply("bad_token");
            // The words are those of a server's token.
            let words =
                |text: &str| if is_account { text.replace("Server", "Account") } else { text.to_owned() };
            return refused
                .fill("Server Token", &words("Server Token"))
                .fill("X-Postmark-Server-Token", &words("X-Postmark-Server-Token"));
        };
        let fault = fault_of(&request.headers);
        if let Some(reply) = self.refused(request) {
            return reply;
        }
        if let Err(refusal) = questions::check(request, &route) {
            return refusal;
        }
        let reply = match (request.method.as_str(), route.as_str()) {
            _ if is_account => self.of_account(state, request, &route),
            ("GET", "/messages/outbound") => state.messages.search(
                request,
                self.clock.wall(),
                self.settings.search_lag,
                self.settings.second_filter,
            ),
            ("POST", "/email" | "/email/withtemplate" | "/email/batch" | "/email/batchwithtemplates") => {
                match self.scripted() {
                    Some(PostmarkAnswer::AcceptedDelayed) => {
                        let sent = self.post(state, &account, path, body);
                        answers::without_error_code(self.fixtures, sent)
                    }
                    Some(answer) => answer.reply(self.fixtures),
                    None => self.post(state, &account, path, body),
                }
            }
            ("PUT", route) if let Some(id) = bounce_of(route) => {
                let told = state.server.activate(id, &self.outbox, self.clock.wall());
                told.unwrap_or_else(|refusal| refusal)
            }
            (_, route) if let Some(list) = suppressions::of_route(route) => {
                let (body, now) = (body.as_ref(), self.clock.wall());
                let told = state.server.suppressions(request, list, body, &self.outbox, now);
                told.unwrap_or_else(not_found)
            }
            (method, route) => {
                let found = match (method, route.strip_prefix("/messages/outbound/")) {
                    ("GET", Some(rest)) => {
                        state.messages.one(rest, self.clock.wall(), self.settings.search_lag)
                    }
                    _ => state.server.answer(request, route, body.as_ref()),
                };
                found.unwrap_or_else(not_found)
            }
        };
        if fault == Some(Fault::Error500After) { self.fixtures.reply("server_error") } else { reply }
    }

    fn post(&self, state: &mut State, account: &str, path: &str, body: Option<Value>) -> Reply {
        let Some(body) = body else {
            return self.fixtures.reply("invalid_json");
        };
        let route = route_of(path);
        let template = route.ends_with("template") || route.ends_with("templates");
        let items = match route.as_str() {
            "/email/batch" => body.as_array(),
            "/email/batchwithtemplates" if body.as_object().is_some_and(|sent| sent.len() == 1) => {
                body["Messages"].as_array()
            }
            "/email/batchwithtemplates" => None,
            _ => return self.accept(state, account, path, &body, 0, template).unwrap_or_else(|error| error),
        };
        let Some(items) = items else {
            return self.fixtures.reply("invalid_json");
        };
        if items.len() > BATCH_MAX {
            return self.fixtures.reply("too_many_in_batch");
        }
        let results: Vec<Value> = items
            .iter()
            .enumerate()
            .map(|(part, item)| match self.accept(state, account, path, item, part, template) {
                Ok(reply) => reply.value(),
                Err(error) => validation::in_batch(self.fixtures, &error),
            })
            .collect();
        Reply::json(200, &Value::from(results))
    }

    /// Takes one message, or says why not.
    fn accept(
        &self,
        state: &mut State,
        account: &str,
        path: &str,
        item: &Value,
        part: usize,
        template: bool,
    ) -> Result<Reply, Reply> {
        let recipients = validation::check(self.fixtures, item, template)?;
        let template = if template { Some(state.server.template_of(item)?) } else { None };
        let stream = item["MessageStream"].as_str().unwrap_or(STREAMS[0].0);
        let (inactive, active): (Vec<_>, Vec<_>) =
            recipients.iter().cloned().partition(|address| state.server.suppressed.has(stream, address));
        let listed = inactive.join(", ");
        if active.is_empty() {
            return Err(self.fixtures.reply("inactive_single").fill("a@x.com, b@x.com", &listed));
        }
        let now = self.clock.wall();
        let id = state.messages.next_id();
        let fixture = match (account, inactive.is_empty()) {
            (TEST_TOKEN, _) => "send_ok_test_token",
            (_, true) => "send_ok",
            (_, false) => "partial_inactive_200",
        };
        let mut answer = self.fixtures.reply(fixture).fill("a@example.com, b@example.com", &listed).value();
        answer["To"] = item["To"].clone();
        answer["SubmittedAt"] = Value::from(eastern(now));
        answer["MessageID"] = Value::from(id.as_str());
        if account != TEST_TOKEN {
            // A message of a batch with a key of its own needs no position to be told apart.
            let part = if item["Metadata"]["steadfast_batch"].is_string() { 0 } else { part };
            self.effect(account, wire_key(item), ("POST", path), &id, part);
            let words = &mut state.messages.words;
            let message_id = if self.settings.keep_message_ids { kept_id(item) } else { None };
            let mut message =
                Message::new(&id, item, template.as_ref(), &recipients, &state.server.own, now, words);
            message.message_id = message_id.map(Into::into);
            for recipient in &active {
                state.server.tell(&self.outbox, &message.delivery(recipient));
            }
            state.messages.add(message);
        }
        Ok(Reply::json(200, &answer))
    }

    /// The account API. Each write that is carried out is an effect.
    fn of_account(&self, state: &mut State, request: &Request, route: &str) -> Reply {
        let answered = state.account.answer(&mut state.server, &self.settings, request, route);
        let Some(answered) = answered else { return not_found() };
        if let (Ok(reply), true) = (&answered, request.method != Method::GET) {
            let own = reply.value()["ID"].as_u64().map(|id| id.to_string());
            let id = own.unwrap_or_else(|| route.split('/').nth(2).unwrap_or_default().to_owned());
            self.effect("account", None, (request.method.as_str(), request.url.path()), &id, 0);
        }
        answered.unwrap_or_else(|refusal| refusal)
    }

    /// The account that the token belongs to.
    fn account_token(&self, request: &Request) -> Option<String> {
        let token = header(&request.headers, "x-postmark-account-token").filter(|token| !token.is_empty())?;
        let valid = self.settings.account_token.as_deref().is_none_or(|only| only == token);
        valid.then(|| "account".to_owned())
    }

    /// The server that the token belongs to; `None` if it is missing or wrong.
    fn account(&self, request: &Request) -> Option<String> {
        let token = header(&request.headers, "x-postmark-server-token").filter(|token| !token.is_empty())?;
        let valid = token == TEST_TOKEN || self.settings.token.as_deref().is_none_or(|only| only == token);
        let account = if token == TEST_TOKEN { TEST_TOKEN } else { "server" };
        valid.then(|| account.to_owned())
    }
}

fn not_found() -> Reply {
    Reply::json(404, &json!({ "Message": "No HTTP resource was found that matches the request." }))
}

/// Routes are taken with a trailing slash too, and in any case, as client libraries write them.
fn route_of(path: &str) -> String {
    path.trim_end_matches('/').to_ascii_lowercase()
}

/// The bounce of `/bounces/{id}/activate`.
fn bounce_of(route: &str) -> Option<&str> {
    route.strip_prefix("/bounces/")?.strip_suffix("/activate")
}

/// The key that an adapter stamped into a message.
fn wire_key(item: &Value) -> Option<&str> {
    item["Metadata"]["steadfast_key"].as_str()
}

/// The `Message-ID` that a message asks to keep.
fn kept_id(item: &Value) -> Option<&str> {
    let named = |name: &str| {
        let mut headers = item["Headers"].as_array().into_iter().flatten();
        let header =
            headers.find(|header| header["Name"].as_str().is_some_and(|it| it.eq_ignore_ascii_case(name)));
        header.and_then(|header| header["Value"].as_str())
    };
    let keeps = named("X-PM-KeepID").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if keeps { named("Message-ID") } else { None }
}

/// The key of a request: of the message, or of the batch, or of the first message in it that has one.
fn request_key(body: &Value) -> Option<&str> {
    let Some(items) = body.as_array().or_else(|| body["Messages"].as_array()) else {
        return wire_key(body);
    };
    let batch = items.iter().find_map(|item| item["Metadata"]["steadfast_batch"].as_str());
    batch.or_else(|| items.iter().find_map(wire_key))
}

/// Validates and sends nothing (<https://postmarkapp.com/developer/api/overview#authentication>).
const TEST_TOKEN: &str = "POSTMARK_API_TEST";

/// Messages in a batch (<https://postmarkapp.com/developer/user-guide/send-email-with-api/batch-emails>).
const BATCH_MAX: usize = 500;

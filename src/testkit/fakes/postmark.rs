//! Postmark: the vendor that deduplicates nothing.
//!
//! Every accepted POST is another message to the customer, whatever its `Message-ID` header or metadata say
//! (the documentation knows no key: <https://postmarkapp.com/developer/api/email-api>). What a client can do is
//! search, and search lags by a time that Postmark does not document: set it with
//! [`PostmarkFakeBuilder::search_lag`] to prove that a miss is not taken for proof.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use wiremock::Request;

use self::messages::{Message, Messages};
use super::calendar::eastern;
use super::fixture::{Fixtures, Reply};
use super::ledger::{Effect, Ledger};
use super::serve::{Behaviour, Served, Setup, date, fault_of, header};
use crate::clock::Clock;
use crate::testkit::{Fault, FaultPlan, TestClock, WaitForm};

mod answers;
mod messages;
mod validation;

pub use answers::{PostmarkAnswer, SecondFilter};

/// A Postmark that counts the messages it accepted.
///
/// - `POST /email`, `/email/withTemplate`, `/email/batch`, `/email/batchWithTemplates`: each accepted message
///   is one [`Effect`], under the wire key in its `Metadata.steadfast_key`; in a batch, with its position.
/// - `GET /messages/outbound` searches what is older than the lag, newest first, by `metadata_{name}`,
///   `recipient`, `fromemail`, `tag`, `subject`, `status`, `messagestream` (default `outbound`), `fromdate` and `todate`
///   (US Eastern), within 45 days.
/// - Any non-empty `X-Postmark-Server-Token` is valid unless [`PostmarkFakeBuilder::token`] names one. The token
///   `POSTMARK_API_TEST` validates and sends nothing.
///
/// # Example
///
/// ```
/// use steadfast::testkit::{Fault, fakes::PostmarkFake};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let postmark = PostmarkFake::start().await;
/// postmark.plan().next(Fault::Error500After); // Accepted, and said to have failed.
/// // … give `postmark.url()` to the code under test …
/// assert_eq!(postmark.ledger().count(), 0);
/// # }
/// ```
#[derive(Debug)]
pub struct PostmarkFake {
    served: Served,
    machine: Arc<Machine>,
}

impl PostmarkFake {
    /// Starts one on the system's clock, without search lag, with nothing going wrong.
    ///
    /// # Panics
    ///
    /// If the loopback interface has no free port.
    pub async fn start() -> PostmarkFake {
        PostmarkFake::builder().start().await
    }

    /// One with settings of its own.
    pub fn builder() -> PostmarkFakeBuilder {
        PostmarkFakeBuilder {
            setup: Setup::default(),
            lag: Duration::ZERO,
            second_filter: SecondFilter::Ignore,
            token: None,
        }
    }

    /// The base URL, `http://127.0.0.1:{port}`.
    pub fn url(&self) -> String {
        self.served.url()
    }

    /// What goes wrong on the way.
    pub fn plan(&self) -> &FaultPlan {
        self.served.plan()
    }

    /// What was accepted.
    pub fn ledger(&self) -> Ledger {
        self.machine.ledger.clone()
    }

    /// Marks an address as inactive, as a hard bounce or a spam complaint does.
    pub fn deactivate(&self, address: &str) -> &PostmarkFake {
        self.machine.state.lock().inactive.insert(address.to_lowercase());
        self
    }

    /// Answers the next authorised POST with this instead. Several queue up.
    pub fn answer_next(&self, answer: PostmarkAnswer) -> &PostmarkFake {
        self.machine.state.lock().scripted.push_back(answer);
        self
    }
}

/// Settings of a [`PostmarkFake`].
#[derive(Clone, Debug)]
#[must_use]
pub struct PostmarkFakeBuilder {
    setup: Setup,
    lag: Duration,
    second_filter: SecondFilter,
    token: Option<String>,
}

impl PostmarkFakeBuilder {
    /// The clock by which messages are dated and become searchable. Default: the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.setup.clock = clock;
        self
    }

    /// As [`clock`](Self::clock), and lets slow bodies and hanging answers take that clock's time too.
    pub fn test_clock(mut self, clock: &TestClock) -> Self {
        self.setup.clock = Arc::new(clock.clone());
        self.setup.pace = Some(clock.clone());
        self
    }

    /// What goes wrong on the way. Default: nothing.
    pub fn plan(mut self, plan: FaultPlan) -> Self {
        self.setup.plan = plan;
        self
    }

    /// How long an accepted message stays out of the search. Default: zero.
    pub fn search_lag(mut self, lag: Duration) -> Self {
        self.lag = lag;
        self
    }

    /// What a second `metadata_` filter meets: the documentation allows one and does not say what happens.
    /// Default: [`SecondFilter::Ignore`].
    pub fn second_filter(mut self, second_filter: SecondFilter) -> Self {
        self.second_filter = second_filter;
        self
    }

    /// The only valid server token. Default: any.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Starts it.
    ///
    /// # Panics
    ///
    /// If the loopback interface has no free port.
    pub async fn start(self) -> PostmarkFake {
        let machine = Arc::new(Machine {
            fixtures: Fixtures::parse(FIXTURES),
            clock: self.setup.clock.clone(),
            ledger: Ledger::default(),
            lag: self.lag,
            second_filter: self.second_filter,
            token: self.token,
            state: Mutex::default(),
        });
        let served = Served::start(machine.clone(), self.setup).await;
        PostmarkFake { served, machine }
    }
}

#[derive(Debug)]
struct Machine {
    fixtures: Fixtures,
    clock: Arc<dyn Clock>,
    ledger: Ledger,
    lag: Duration,
    second_filter: SecondFilter,
    token: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: Messages,
    inactive: BTreeSet<String>,
    scripted: VecDeque<PostmarkAnswer>,
}

impl Behaviour for Machine {
    fn answer(&self, request: &Request) -> Reply {
        let mut state = self.state.lock();
        let reply = self.route(&mut state, request);
        match reply.value()["ErrorCode"].as_u64() {
            Some(code) => reply.header("X-PM-ApiErrorCode", code.to_string()),
            None => reply,
        }
    }
}

impl Machine {
    fn route(&self, state: &mut State, request: &Request) -> Reply {
        let body: Option<Value> = serde_json::from_slice(&request.body).ok();
        let path = request.url.path();
        let writes = request.method == http::Method::POST;
        if writes {
            self.ledger.note_request(body.as_ref().and_then(first_key));
        }
        let Some(account) = self.account(request) else {
            return self.fixtures.reply("bad_token");
        };
        let fault = fault_of(&request.headers);
        if let Some(reply) = fault.and_then(|fault| self.refuse(fault)) {
            return reply;
        }
        let reply = match (request.method.as_str(), path) {
            ("GET", "/messages/outbound") => {
                state.messages.search(request, self.clock.wall(), self.lag, self.second_filter)
            }
            ("POST", "/email" | "/email/withTemplate" | "/email/batch" | "/email/batchWithTemplates") => {
                match state.scripted.pop_front() {
                    Some(PostmarkAnswer::AcceptedDelayed) => {
                        let sent = self.post(state, &account, path, body);
                        answers::without_error_code(&self.fixtures, sent)
                    }
                    Some(answer) => answer.reply(&self.fixtures),
                    None => self.post(state, &account, path, body),
                }
            }
            _ => Reply::json(
                404,
                &json!({ "Message": "No HTTP resource was found that matches the request." }),
            ),
        };
        if fault == Some(Fault::Error500After) { self.fixtures.reply("server_error") } else { reply }
    }

    fn post(&self, state: &mut State, account: &str, path: &str, body: Option<Value>) -> Reply {
        let Some(body) = body else {
            return self.fixtures.reply("invalid_json");
        };
        let template = path.ends_with("Template") || path.ends_with("Templates");
        let items = match path {
            "/email/batch" => body.as_array(),
            "/email/batchWithTemplates" => body["Messages"].as_array(),
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
                Err(error) => validation::in_batch(&self.fixtures, &error),
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
        let recipients = validation::check(&self.fixtures, item, template)?;
        let (inactive, active): (Vec<_>, Vec<_>) =
            recipients.iter().cloned().partition(|address| state.inactive.contains(&address.to_lowercase()));
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
            self.ledger.record(Effect {
                wire_key: wire_key(item).map(str::to_owned),
                account: account.to_owned(),
                method: "POST".to_owned(),
                path: path.to_owned(),
                id: id.clone(),
                part,
                at: now,
            });
            state.messages.add(Message::new(&id, item, recipients, now));
        }
        Ok(Reply::json(200, &answer))
    }

    /// The server that the token belongs to; `None` if it is missing or wrong.
    fn account(&self, request: &Request) -> Option<String> {
        let token = header(&request.headers, "x-postmark-server-token").filter(|token| !token.is_empty())?;
        let valid = token == TEST_TOKEN || self.token.as_deref().is_none_or(|only| only == token);
        let account = if token == TEST_TOKEN { TEST_TOKEN } else { "server" };
        valid.then(|| account.to_owned())
    }

    /// What a fault makes of a request before it can be accepted. Postmark has no keys: a fault about one is
    /// no fault here, and a stored 500 is a plain one.
    fn refuse(&self, fault: Fault) -> Option<Reply> {
        match fault {
            Fault::Error500Before | Fault::Stored500 => Some(self.fixtures.reply("server_error")),
            Fault::Html => Some(answers::html()),
            Fault::TooManyRequests(form) => {
                let reply = self.fixtures.reply("rate_limited");
                Some(match form {
                    WaitForm::Seconds(seconds) => reply.header("Retry-After", seconds.to_string()),
                    WaitForm::HttpDate(wait) => reply.header("Retry-After", date(&*self.clock, wait)),
                    _ => reply,
                })
            }
            _ => None,
        }
    }
}

/// The key that an adapter stamped into a message.
fn wire_key(item: &Value) -> Option<&str> {
    item["Metadata"]["steadfast_key"].as_str()
}

/// The key of a request: of the message, or of the first message in the batch that has one.
fn first_key(body: &Value) -> Option<&str> {
    let items = body.as_array().or_else(|| body["Messages"].as_array());
    items.map_or_else(|| wire_key(body), |items| items.iter().find_map(wire_key))
}

/// Validates and sends nothing (<https://postmarkapp.com/developer/api/overview#authentication>).
const TEST_TOKEN: &str = "POSTMARK_API_TEST";

/// Messages in a batch (<https://postmarkapp.com/developer/user-guide/send-email-with-api/batch-emails>).
const BATCH_MAX: usize = 500;

const FIXTURES: &str = include_str!("../fixtures/postmark.json");

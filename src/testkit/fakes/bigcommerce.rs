//! BigCommerce: no keys at all, a uniqueness rule here and there, and look-ups by what the client wrote itself.
//!
//! The fake ignores `Idempotency-Key` on purpose: a repeat executes. Whether the second is refused depends on
//! the resource, and where the documentation is silent (two orders with one `external_order_id`) it is not.
//! A 504 executes first: the documentation advises to retry one and does not say what became of the write.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use wiremock::Request;

use self::items::Items;
use self::quota::Quota;
use super::fixture::{Fixtures, Reply};
use super::ledger::{Effect, Ledger};
use super::serve::{Behaviour, Served, Setup, date, fault_of, header};
use crate::clock::{Clock, Timestamp};
use crate::testkit::{Fault, FaultPlan, TestClock, WaitForm};

mod answers;
mod items;
mod keys;
mod quota;
mod writes;

pub use answers::BigCommerceAnswer;

/// A BigCommerce store that counts what was made in it.
///
/// | request | what happens | wire key in the ledger |
/// |---|---|---|
/// | `POST /v2/orders` | another order each time | `external_order_id` |
/// | `POST /v3/checkouts/{id}/orders` | another order each time | the cart's id |
/// | `POST /v3/catalog/products`, `/brands`, `/categories` | 409 for a second of that name (or `sku`) | `sku`, else `name` |
/// | `POST /v3/customers` | up to 10 at once; 422 for all if one e-mail exists | `email` |
/// | `POST /v3/pricelists`, `/v2/coupons` | 409 for a second of that name, or code | `name`, `code` |
/// | `POST /v3/orders/{id}/payment_actions/refunds` | another refund each time | the UUID in `reason`, else all of it |
/// | `POST /payments` | another payment each time | the payment access token |
/// | any other `POST` | another each time | none |
///
/// `GET` on the same paths lists and filters, or reads one by its id; `PUT …/{id}` and `DELETE …/{id}` change
/// and remove. All paths are below `/stores/{hash}` and need `X-Auth-Token`; payments need
/// `Authorization: PAT …`, as `POST /v3/payments/access_tokens` gives it.
///
/// # Example
///
/// ```
/// use steadfast::testkit::{Fault, fakes::BigCommerceFake};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = BigCommerceFake::start().await;
/// store.plan().next(Fault::DropAfterApply); // The order is made, and its answer lost.
/// // … give `store.url()` to the code under test …
/// assert_eq!(store.ledger().count(), 0);
/// # }
/// ```
#[derive(Debug)]
pub struct BigCommerceFake {
    served: Served,
    machine: Arc<Machine>,
}

impl BigCommerceFake {
    /// Starts one on the system's clock, without lag or quota, with nothing going wrong.
    ///
    /// # Panics
    ///
    /// If the loopback interface has no free port.
    pub async fn start() -> BigCommerceFake {
        BigCommerceFake::builder().start().await
    }

    /// One with settings of its own.
    pub fn builder() -> BigCommerceFakeBuilder {
        BigCommerceFakeBuilder {
            setup: Setup::default(),
            apply_after: Duration::ZERO,
            refund_pending: Duration::ZERO,
            quota: None,
        }
    }

    /// The base URL, `http://127.0.0.1:{port}`, without `/stores/{hash}`.
    pub fn url(&self) -> String {
        self.served.url()
    }

    /// What goes wrong on the way.
    pub fn plan(&self) -> &FaultPlan {
        self.served.plan()
    }

    /// What took effect.
    pub fn ledger(&self) -> Ledger {
        self.machine.ledger.clone()
    }

    /// Answers the next authorised write with this instead. Several queue up.
    pub fn answer_next(&self, answer: BigCommerceAnswer) -> &BigCommerceFake {
        self.machine.state.lock().scripted.push_back(answer);
        self
    }
}

/// Settings of a [`BigCommerceFake`].
#[derive(Clone, Debug)]
#[must_use]
pub struct BigCommerceFakeBuilder {
    setup: Setup,
    apply_after: Duration,
    refund_pending: Duration,
    quota: Option<u32>,
}

impl BigCommerceFakeBuilder {
    /// The clock by which things are dated and quotas renewed. Default: the system's.
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

    /// How long a write takes to show in look-ups, as if it were still under way. It is in the ledger, and
    /// refuses duplicates, at once: a client that looks up too early sees nothing and must not believe it.
    /// Default: zero.
    pub fn apply_after(mut self, lag: Duration) -> Self {
        self.apply_after = lag;
        self
    }

    /// How long a refund stays pending; a second one for the same order is refused with 422 meanwhile ("not
    /// yet supported", say the documents; status and words are composed). Default: zero, never refused.
    pub fn refund_pending(mut self, pending: Duration) -> Self {
        self.refund_pending = pending;
        self
    }

    /// Requests allowed per 30 s, the store's window; further ones get a 429. Default: no limit.
    pub fn quota(mut self, requests: u32) -> Self {
        self.quota = Some(requests);
        self
    }

    /// Starts it.
    ///
    /// # Panics
    ///
    /// If the loopback interface has no free port.
    pub async fn start(self) -> BigCommerceFake {
        let machine = Arc::new(Machine {
            fixtures: Fixtures::parse(FIXTURES),
            clock: self.setup.clock.clone(),
            ledger: Ledger::default(),
            apply_after: self.apply_after,
            refund_pending: self.refund_pending,
            state: Mutex::new(State { quota: Quota::new(self.quota), ..State::default() }),
        });
        let served = Served::start(machine.clone(), self.setup).await;
        BigCommerceFake { served, machine }
    }
}

#[derive(Debug)]
struct Machine {
    fixtures: Fixtures,
    clock: Arc<dyn Clock>,
    ledger: Ledger,
    apply_after: Duration,
    refund_pending: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    items: Items,
    quota: Quota,
    scripted: VecDeque<BigCommerceAnswer>,
    requests: u64,
}

/// One request, taken apart.
struct Call<'a> {
    store: &'a str,
    /// The path below the store: `["v2", "orders"]`.
    route: &'a [&'a str],
    path: &'a str,
    request: &'a Request,
    body: Value,
    now: Timestamp,
}

impl Call<'_> {
    fn collection(&self) -> String {
        self.route.join("/")
    }

    fn is_v2(&self) -> bool {
        self.route.first() == Some(&"v2")
    }
}

impl Behaviour for Machine {
    fn answer(&self, request: &Request) -> Reply {
        let mut state = self.state.lock();
        state.requests += 1;
        let now = self.clock.wall();
        let admitted = state.quota.take(now);
        let reply = match admitted {
            Ok(()) => self.route(&mut state, request, now),
            Err(wait) => self.rate_limited(wait),
        };
        // Load shedding and gateways stand in front of what adds these headers.
        let bare = reply.body.is_empty() && matches!(reply.status, 429 | 500)
            || reply.headers.iter().any(|(_, value)| value == "text/html");
        if bare { reply } else { self.with_headers(reply, &state, now) }
    }
}

impl Machine {
    fn route(&self, state: &mut State, request: &Request, now: Timestamp) -> Reply {
        let path = request.url.path();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let ["stores", store, route @ ..] = segments.as_slice() else {
            return problem(404, "The resource was not found.");
        };
        let parsed =
            if request.body.is_empty() { Ok(json!({})) } else { serde_json::from_slice(&request.body) };
        let malformed = parsed.is_err();
        let call = Call { store, route, path, request, body: parsed.unwrap_or_default(), now };
        let writes = request.method != Method::GET;
        if writes {
            self.ledger.note_request(keys::of(&call).first().and_then(Option::as_deref));
        }
        if !authorised(&call) {
            return problem(401, "X-Auth-Token header is required");
        }
        let fault = fault_of(&request.headers);
        if let Some(reply) = fault.and_then(|fault| self.refuse(fault)) {
            return reply;
        }
        let scripted = if writes { state.scripted.pop_front() } else { None };
        if let Some(answer) = scripted.filter(|answer| !answer.applies()) {
            return answer.reply(&self.fixtures);
        }
        let reply = match malformed {
            true if call.is_v2() => problem_v2(400, "The JSON data provided is invalid."),
            true => {
                self.fixtures.reply("v3_json_invalid").fill("customer_id", "obj").fill("jsnumber", "jsobject")
            }
            false if writes => self.write(state, &call),
            false => state.items.get(&call, self.apply_after),
        };
        match (scripted, fault) {
            (Some(answer), _) => answer.reply(&self.fixtures),
            (None, Some(Fault::Error500After)) => problem(500, "Internal Server Error"),
            (None, _) => reply,
        }
    }

    /// What a fault makes of a request before it can execute. There are no keys here: a fault about one is no
    /// fault, and a stored 500 is a plain one.
    fn refuse(&self, fault: Fault) -> Option<Reply> {
        match fault {
            Fault::Error500Before | Fault::Stored500 => Some(problem(500, "Internal Server Error")),
            Fault::Html => Some(answers::html(502, "Bad Gateway")),
            Fault::TooManyRequests(WaitForm::VendorForm(wait)) => Some(self.rate_limited(wait)),
            Fault::TooManyRequests(form) => {
                let reply = self.fixtures.reply("rate_limited_platform");
                Some(match form {
                    WaitForm::Seconds(seconds) => reply.header("Retry-After", seconds.to_string()),
                    WaitForm::HttpDate(wait) => reply.header("Retry-After", date(&*self.clock, wait)),
                    _ => reply,
                })
            }
            _ => None,
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
            if name.starts_with("X-Rate-Limit") && !reply.headers.iter().any(|(other, _)| *other == name) {
                reply = reply.header(&name, value);
            }
        }
        reply.header("X-Request-Id", format!("{:032x}", state.requests))
    }

    fn effect(&self, call: &Call<'_>, wire_key: Option<String>, id: &Value, part: usize) {
        self.ledger.record(Effect {
            wire_key,
            account: call.store.to_owned(),
            method: call.request.method.to_string(),
            path: call.path.to_owned(),
            id: id.as_str().map_or_else(|| id.to_string(), str::to_owned),
            part,
            at: call.now,
        });
    }
}

fn authorised(call: &Call<'_>) -> bool {
    let headers = &call.request.headers;
    if call.route == ["payments"] {
        return keys::payment_token(headers).is_some();
    }
    header(headers, "x-auth-token").is_some_and(|token| !token.is_empty())
}

/// A V3 error.
fn problem(status: u16, title: &str) -> Reply {
    Reply::json(status, &json!({ "status": status, "title": title, "type": PROBLEM_TYPE }))
}

/// A V2 error: an array of one.
fn problem_v2(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!([{ "status": status, "message": message }]))
}

const PROBLEM_TYPE: &str = "https://developer.bigcommerce.com/api-docs/getting-started/api-status-codes";

const FIXTURES: &str = include_str!("../fixtures/bigcommerce.json");

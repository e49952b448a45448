//! The way to a vendor and back: a request that has left arrives, whatever becomes of whoever sent it, and proxies
//! answer as they please.
//!
//! A request arrives no later than its connection can carry it: within the attempt's limit, and once its sender has
//! closed the connection, within what the adapter's settle time leaves beside the index lag. Where connections queue,
//! the kernel has [`KERNEL_MAX`] besides, and a request may wait for its stream for longer than anybody waits for it.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast::BoxFuture;
use steadfast::clock::{Clock as _, Instant, Timestamp};
use steadfast::testkit::{Fault, WaitForm};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use tokio::sync::oneshot;
use url::Url;

use crate::world::course::{World, exact_wall};
use crate::world::extras::{Connections, Lists};
use crate::world::facts::{CALL, Failure, Pause, Send, Slowed, Wait, operation_of};
use crate::world::plan::{Page, Schedule, Trouble, When, ms, secs};
use crate::world::process::Life;
use crate::world::vendors::{Backend, Mishap, Name, SECRETS, policy, secret_header, unauthorized};

/// One life of a host's way to one vendor.
#[derive(Clone, Debug)]
pub struct Network {
    pub life: Arc<Life>,
    pub name: Name,
    pub incarnation: u64,
    pub backend: Backend,
}

impl Network {
    async fn exchange(&self, request: Request, limits: &Limits) -> Result<Answer, SendError> {
        let (life, world) = (&self.life, &self.life.world);
        let nth = life.request();
        let operation = operation_of(&request.headers);
        let shown = format!("h{} request {nth} {} {}", life.process, request.method, request.url.path());
        let limit = policy(&world.schedule).timeout.attempt;
        let closed_at = Arc::default();
        let handed = world.clock.now();
        let until = handed.plus(limit);
        let call = text_of(&request, CALL);
        let mut waiting = Waiting {
            network: self,
            operation,
            call,
            until,
            answered: false,
            closed_at: Arc::clone(&closed_at),
        };
        let (incarnation, now) = (self.incarnation, world.clock.now());
        world.facts.with(|all| all.attempts.push((incarnation, self.name, now)));
        let trouble = world.trouble();
        limits.nothing_sent();
        match trouble {
            Some(Trouble::NoConnection) => {
                world.note(|| format!("{shown}: no connection"));
                waiting.failed();
                return Err(SendError::new(SendErrorKind::Connect));
            }
            Some(Trouble::ConnectHangs) => {
                world.note(|| format!("{shown}: the connection hangs"));
                return std::future::pending().await;
            }
            _ => {}
        }
        let kept = if world.is_rough() { world.schedule.extras.connections } else { Connections::Good };
        let is_swallowed = kept == Connections::Swallow && !limits.new_connection;
        let trouble = if is_swallowed { Some(Trouble::LostOnTheWay) } else { trouble };
        let there = match trouble {
            Some(Trouble::Late) => world.draw.within(limit / 3..limit + queue_max(&world.schedule)),
            _ => world.draw.within(ms(5)..ms(200)),
        };
        let (told, answer) = oneshot::channel();
        let network = self.clone();
        let leaving = Leaving { network, request, operation, shown, trouble, there, handed, closed_at };
        if kept == Connections::Queue && !limits.new_connection && world.draw.one_in(2) {
            self.queue(leaving, told, limits);
        } else {
            if !limits.begin_sending() {
                return Err(SendError::new(SendErrorKind::Connect));
            }
            leaving.leave(told);
            life.meets(When::AfterSend(nth));
        }
        let lost = || (Err(SendError::new(SendErrorKind::Reset)), None);
        let (outcome, own) = answer.await.unwrap_or_else(|_| lost());
        life.goes_on().await;
        waiting.answered = true;
        match &outcome {
            Err(_) => waiting.failed(),
            Ok(answer) if answer.status.is_server_error() => waiting.failed(),
            Ok(_) => {}
        }
        if let Ok(answer) = &outcome {
            let (send, own) = own.expect("what left is answered");
            self.heard(send, operation, answer, own);
        }
        outcome
    }

    /// Has a request wait for a stream of its connection, which goes on without the exchange, but not without its host.
    fn queue(&self, leaving: Leaving, told: Told, limits: &Limits) {
        let world = &self.life.world;
        let limit = policy(&world.schedule).timeout.attempt;
        let stream_free = world.clock.latency(world.draw.within(Duration::ZERO..limit * 4));
        let (life, limits) = (Arc::clone(&self.life), limits.clone());
        tokio::spawn(async move {
            stream_free.await;
            life.goes_on().await;
            if life.is_dead() {
                return;
            }
            if limits.begin_sending() {
                leaving.leave(told);
            } else {
                // Nobody may be there any more.
                let _ = told.send((Err(SendError::new(SendErrorKind::Connect)), None));
            }
        });
    }

    fn leaves(&self, operation: Option<usize>, version: Option<String>, handed: Instant) -> usize {
        let left = self.life.world.clock.now();
        let wall = self.life.world.time_at(self.life.process);
        self.life.world.facts.with(|all| {
            let life = operation.and_then(|operation| all.life(operation)).unwrap_or(0);
            let lives = operation.and_then(|operation| all.lives.get(&operation));
            let on_record = lives.and_then(|lives| Some(lives.get(life)?.on_record.clone()));
            let held = lives.and_then(|lives| Some(lives.get(life)?.holds.last()?.commit));

            let (vendor, host, incarnation) = (self.name, self.life.process, self.incarnation);
            let (arrived, effects, answered, page) = (None, Vec::new(), None, None);
            all.sends.push(Send {
                operation,
                life,
                vendor,
                host,
                incarnation,
                handed,
                left,
                arrived,
                effects,
                answered,
                page,
                version,
                wall,
                on_record,
                held,
            });
            all.sends.len() - 1
        })
    }

    /// The host has this answer now.
    fn heard(&self, send: usize, operation: Option<usize>, answer: &Answer, own: bool) {
        let told = self.life.world.clock.now();
        let said = answer.header(WAIT).or_else(|| answer.header("retry-after"));
        let seconds = said.and_then(|text| text.parse::<u64>().ok());
        self.life.world.facts.with(|all| {
            let status = Some(answer.status.as_u16());
            if own {
                all.sends[send].answered = status;
            } else {
                all.sends[send].page = status;
            }
            if status == Some(429) {
                let is_recovered = !operation.is_some_and(|operation| all.has_caller(operation));
                all.slowed.push(Slowed { vendor: self.name, at: told, is_recovered });
            }
            let asked = seconds.filter(|_| answer.status.as_u16() >= 400).map(Duration::from_secs);
            if let Some(wait) = asked {
                all.pauses.push(Pause { vendor: self.name, asked: told, wait });
            }
            if let (Some(wait), Some(operation)) = (asked, operation) {
                let until = told.plus(wait);
                let (incarnation, vendor) = (self.incarnation, self.name);
                all.waits.push(Wait { incarnation, vendor, operation, told, until });
            }
        });
    }
}

impl Transport for Network {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(async move { self.exchange(request, &limits).await })
    }

    fn queue_max(&self, _: &Url) -> Duration {
        queue_max(&self.life.world.schedule)
    }
}

/// How long the kernel may hold what it was handed, as the transport says.
pub fn queue_max(schedule: &Schedule) -> Duration {
    if schedule.extras.connections == Connections::Queue { KERNEL_MAX } else { Duration::ZERO }
}

const KERNEL_MAX: Duration = secs(20);

/// A request that is about to leave.
struct Leaving {
    network: Network,
    request: Request,
    operation: Option<usize>,
    shown: String,
    trouble: Option<Trouble>,
    there: Duration,
    handed: Instant,
    closed_at: Arc<Mutex<Option<Instant>>>,
}

impl Leaving {
    fn leave(self, told: Told) {
        let Leaving { network, request, operation, shown, trouble, there, handed, closed_at } = self;
        let send = network.leaves(operation, text_of(&request, "stripe-version"), handed);
        let world = network.life.world.clone();
        world.note(|| format!("{shown}: leaves as send {send}, {trouble:?}"));
        let left_percent = 100 - world.schedule.lag_percent;
        let queued_max = network.name.settle_time() * left_percent / 100 + queue_max(&world.schedule);
        let Network { name, backend, .. } = network;
        let way = Way { world, name, backend, send, shown, closed_at, queued_max };
        tokio::spawn(way.carry(request, trouble, there, told));
    }
}

/// Somebody waits for an answer. If they go at the end of a whole attempt, it was not they who failed.
struct Waiting<'a> {
    network: &'a Network,
    operation: Option<usize>,
    call: Option<String>,
    until: Instant,
    answered: bool,
    closed_at: Arc<Mutex<Option<Instant>>>,
}

impl Waiting<'_> {
    fn failed(&mut self) {
        self.answered = true;
        let (incarnation, vendor) = (self.network.incarnation, self.network.name);
        let at = self.network.life.world.clock.now();
        let (operation, call) = (self.operation, self.call.clone());
        self.network.life.world.facts.with(|all| {
            let is_recovered =
                call.is_none() && !operation.is_some_and(|operation| all.has_caller(operation));
            all.failures.push(Failure { incarnation, vendor, operation, call, at, is_recovered });
        });
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.closed_at.lock().get_or_insert(self.network.life.world.clock.now());
        if !self.answered && self.network.life.world.clock.now() >= self.until {
            self.failed();
        }
    }
}

/// A request under way, which belongs to nobody.
struct Way {
    world: Arc<World>,
    name: Name,
    backend: Backend,
    send: usize,
    shown: String,
    closed_at: Arc<Mutex<Option<Instant>>>,
    /// How long after that it may still be carried out.
    queued_max: Duration,
}

/// The answer that came back, of which send, and whether it is the vendor's own.
type Told = oneshot::Sender<(Result<Answer, SendError>, Option<(usize, bool)>)>;

impl Way {
    async fn carry(self, request: Request, trouble: Option<Trouble>, there: Duration, told: Told) {
        self.world.clock.latency(there).await;
        let (closed_at, now) = (*self.closed_at.lock(), self.world.clock.now());
        if closed_at.is_some_and(|at| now.since(at) > self.queued_max) {
            self.world.note(|| format!("{}: nobody is there to be read from", self.shown));
            return;
        }
        let reset = || Err(SendError::new(SendErrorKind::Reset));
        if self.world.is_away() {
            let page = self.page(Page { status: 503, html: true, wait: None });
            let _ = told.send((Ok(page), Some((self.send, false))));
            return;
        }
        let (outcome, own) = match trouble {
            Some(Trouble::LostOnTheWay) => return never(told).await,
            Some(Trouble::ResetOnTheWay) => (reset(), false),
            Some(Trouble::ProxyBefore(page)) => (Ok(self.page(page)), false),
            // Nobody who passes a request on answers 429: RFC 6585 has it that it was not carried out.
            Some(Trouble::ProxyAfter(page)) if page.status == 429 => (Ok(self.page(page)), false),
            _ => {
                let outcome = self.arrives(request, trouble);
                match trouble {
                    Some(Trouble::AnswerHangs) => return never(told).await,
                    Some(Trouble::AnswerLost | Trouble::DeclineLost) => (reset(), false),
                    Some(Trouble::ProxyAfter(page)) => (Ok(self.page(page)), false),
                    _ => (outcome, true),
                }
            }
        };
        let back = self.world.draw.within(ms(5)..ms(200));
        self.world.clock.latency(back).await;
        let outcome = outcome.map(|answer| self.in_another_form(answer));
        // Nobody may be there any more.
        let _ = told.send((outcome, Some((self.send, own))));
    }

    fn arrives(&self, mut request: Request, trouble: Option<Trouble>) -> Result<Answer, SendError> {
        if !self.takes_secret(&mut request) {
            self.world
                .note(|| format!("{}: send {} arrives, and its secret is not taken", self.shown, self.send));
            self.denied();
            return Ok(unauthorized(self.name));
        }
        if request.method == Method::GET && operation_of(&request.headers).is_none() {
            self.world.changes_lookup(&mut request);
        }
        if request.method == Method::GET
            && let Some(answer) = self.world.shows_strangers(&request)
        {
            self.world.note(|| format!("{}: send {} is shown strangers' orders", self.shown, self.send));
            return Ok(answer);
        }
        let (outcome, effects) = self.backend.carry_out(request, mishap(trouble));
        self.world.note(|| {
            let status = outcome.as_ref().map(|answer| answer.status.as_u16()).map_err(ToString::to_string);
            format!("{}: send {} arrives: {status:?}, effects {effects:?}", self.shown, self.send)
        });
        let now = self.world.clock.now();
        self.world.facts.with(|all| {
            all.sends[self.send].arrived = Some(now);
            all.sends[self.send].effects = effects;
        });
        outcome
    }

    /// Whether the vendor takes the secret, which is then the one that the fakes know.
    fn takes_secret(&self, request: &mut Request) -> bool {
        let name = secret_header(self.name);
        let Some(secret) = text_of(request, name) else { return false };
        let is_old = secret.contains(SECRETS[0]) && self.world.refuses_old_secrets();
        if is_old || self.world.sign_in_fails() {
            return false;
        }
        request.headers.insert(name, HeaderValue::from_static("sk_test_token"));
        if name == "authorization" {
            request.headers.insert(name, HeaderValue::from_static("Bearer sk_test_token"));
        }
        true
    }

    /// A wait in seconds beside a 429, as other vendors write it.
    fn in_another_form(&self, mut answer: Answer) -> Answer {
        let seconds = answer.header("retry-after").and_then(|text| text.parse::<u64>().ok());
        let Some(seconds) = seconds.filter(|_| answer.status == StatusCode::TOO_MANY_REQUESTS) else {
            return answer;
        };
        let now = exact_wall(&self.world.clock).as_millis() / 1_000;
        let mut forms = vec![(WAIT, seconds.to_string())];
        forms.extend(match self.send % 5 {
            0 => vec![("retry-after", seconds.to_string())],
            1 => vec![("retry-after-ms", (seconds * 1_000).to_string())],
            2 => vec![("x-ratelimit-remaining", "0".to_owned()), ("x-ratelimit-reset", seconds.to_string())],
            3 => vec![("ratelimit", format!("limit=9, remaining=0, reset={seconds}"))],
            _ => {
                let date = Timestamp::from_millis(now * 1_000).to_string();
                vec![("date", date), ("retry-after", (now + seconds).to_string())]
            }
        });
        answer.headers.remove("retry-after");
        for (name, value) in forms {
            answer.headers.insert(name, HeaderValue::from_str(&value).expect("a value"));
        }
        answer
    }

    fn denied(&self) {
        let now = self.world.clock.now();
        self.world.facts.with(|all| all.denied.push((self.name, now)));
    }

    fn page(&self, page: Page) -> Answer {
        self.world.note(|| format!("{}: a proxy answers {page:?}", self.shown));
        if page.status == 401 {
            self.denied();
        }
        let mut headers = HeaderMap::new();
        // A vendor that is configuration has no mark by which its own JSON could be told from another's.
        let html = page.html || !self.backend.has_mark();
        let kind = if html { "text/html" } else { "application/json" };
        headers.insert("content-type", HeaderValue::from_static(kind));
        if let Some(wait) = page.wait {
            headers.insert("retry-after", HeaderValue::from(wait));
        }
        let body = if html { "<html><body>proxy</body></html>" } else { r#"{"message":"proxy"}"# };
        Answer::new(StatusCode::from_u16(page.status).expect("a status"), headers, body)
    }
}

impl World {
    /// Changes a lookup at a vendor that gives one row at a time, or ignores what it does not know.
    fn changes_lookup(&self, request: &mut Request) {
        let lists = self.schedule.extras.lists;
        if lists == Lists::Whole || !self.is_rough() {
            return;
        }
        let filters = ["external_order_id", "name", "created[gte]"];
        let pairs: Vec<(String, String)> = request.url.query_pairs().into_owned().collect();
        let changed = pairs.into_iter().filter_map(|(name, value)| match lists {
            Lists::Pages if name == "limit" => Some((name, "1".to_owned())),
            Lists::Unfiltered if filters.contains(&&*name) || name.starts_with("metadata_") => None,
            _ => Some((name, value)),
        });
        let changed: Vec<_> = changed.collect();
        request.url.query_pairs_mut().clear().extend_pairs(changed);
    }
}

impl World {
    /// The first page of a V2 list that ignores its filter, at a store that has seen many orders.
    fn shows_strangers(&self, request: &Request) -> Option<Answer> {
        let is_shown = self.schedule.extras.lists == Lists::Strangers && self.is_rough();
        if !is_shown || !request.url.path().ends_with("/v2/orders") {
            return None;
        }
        let row = |id: u32| {
            let created = "Mon, 17 Feb 2014 12:25:01 +0000";
            json!({ "id": id, "external_order_id": format!("old-{id}"), "date_created": created })
        };
        let rows: Vec<Value> = (1..=50).map(row).collect();
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        Some(Answer::new(StatusCode::OK, headers, Value::from(rows).to_string()))
    }
}

fn text_of(request: &Request, header: &str) -> Option<String> {
    Some(request.headers.get(header)?.to_str().ok()?.to_owned())
}

async fn never(told: Told) {
    std::future::pending::<()>().await;
    drop(told);
}

fn mishap(trouble: Option<Trouble>) -> Option<Mishap> {
    let fault = match trouble? {
        Trouble::Stored500 => Fault::Stored500,
        Trouble::Error500Before => Fault::Error500Before,
        Trouble::Error500After => Fault::Error500After,
        Trouble::TooMany(seconds) => Fault::TooManyRequests(WaitForm::Seconds(seconds)),
        Trouble::KeyInUse => Fault::KeyInUse,
        Trouble::Declined | Trouble::DeclineLost => return Some(Mishap::Decline),
        _ => return None,
    };
    Some(Mishap::Fault(fault))
}

/// The header with the length of a wait in another form, for the audit.
const WAIT: &str = "x-world-wait-s";

//! A vendor that replays keys, as Stripe does: it counts what it executes, and what it sees in each second.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use steadfast::BoxFuture;
use steadfast::clock::{Clock as _, Instant, Timestamp};
use steadfast::operation::record::{Filter, Phase};
use steadfast::store::Store;
use steadfast::testkit::{SeededRandom, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::vendor::Stripe;
use steadfast::{Client, Effect, Policy};

use support::rig::{Rig, ms, secs, until};

#[derive(Clone, Debug)]
pub struct Vendor {
    pub clock: TestClock,
    pub latency: Duration,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
pub struct Seen {
    /// Its own limit on requests a second; over it, it answers 429.
    pub limit: Option<usize>,
    pub hangs: bool,
    pub down: bool,
    /// Requests with this wire key have a bad end, whoever else is well.
    pub never_takes: Option<String>,
    pub requests: usize,
    pub refused: usize,
    /// The most requests in any second.
    pub most_in_a_second: usize,
    last_second: VecDeque<Instant>,
    /// By wire key: how often it was sent.
    pub sent: BTreeMap<String, usize>,
    /// By wire key: how often it was executed.
    pub executed: BTreeMap<String, usize>,
}

impl Vendor {
    pub fn new(clock: &TestClock) -> Vendor {
        Vendor { clock: clock.clone(), latency: ms(150), seen: Arc::default() }
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        change(&mut self.seen.lock())
    }

    pub fn client(&self, store: &Arc<dyn Store>, policy: Policy) -> Client {
        self.client_of(Stripe::new("sk_test_123"), store, policy)
    }

    pub fn client_of(
        &self,
        adapter: impl steadfast::vendor::Vendor,
        store: &Arc<dyn Store>,
        policy: Policy,
    ) -> Client {
        let setup = Rig::of(adapter).policy(policy).network(self.clone()).clock(&self.clock);
        setup.random(SeededRandom::new(7)).store(Arc::clone(store)).client()
    }

    /// Leaves what a process that dies leaves: `count` operations, sent and not answered. Every second one has
    /// arrived.
    pub async fn crash(&self, store: &Arc<dyn Store>, count: usize) {
        let client = self.client(store, Policy::background().without_breaker());
        self.with(|seen| seen.hangs = true);
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..count {
            let call = client.post("/v1/charges").key(format!("order-{number}")).form(&[("amount", "1000")]);
            calls.spawn(call.send());
        }
        until(|| self.with(|seen| seen.requests) >= count).await;
        calls.shutdown().await;
        self.with(|seen| {
            seen.hangs = false;
            (seen.requests, seen.most_in_a_second) = (0, 0);
            seen.last_second.clear();
            seen.executed = seen.sent.keys().step_by(2).map(|key| (key.clone(), 1)).collect();
        });
        // The leases.
        self.clock.latency(secs(61)).await;
    }

    fn meet(&self, request: &Request) -> Met {
        let now = self.clock.now();
        let mut seen = self.seen.lock();
        let key = request.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        let key = key.map(str::to_owned);
        if let Some(key) = &key {
            *seen.sent.entry(key.clone()).or_default() += 1;
        }
        seen.requests += 1;
        while seen.last_second.front().is_some_and(|at| now.since(*at) >= secs(1)) {
            seen.last_second.pop_front();
        }
        seen.last_second.push_back(now);
        seen.most_in_a_second = seen.most_in_a_second.max(seen.last_second.len());
        if seen.hangs {
            return Met::Hangs;
        }
        if seen.down || key.is_some() && key == seen.never_takes {
            return Met::Reset;
        }
        if seen.limit.is_some_and(|limit| seen.last_second.len() > limit) {
            seen.refused += 1;
            return Met::TooMuch;
        }
        let Some(key) = key else {
            let is_lookup = request.url.query().is_some_and(|query| query.contains("created"));
            let made = seen.executed.keys().filter(|_| is_lookup);
            return Met::Listed(made.map(|key| charge(key, self.clock.wall())).collect());
        };
        let replayed = seen.executed.contains_key(&key);
        if !replayed {
            *seen.executed.entry(key).or_default() += 1;
        }
        Met::Executed { replayed }
    }
}

enum Met {
    Hangs,
    Reset,
    TooMuch,
    Executed {
        replayed: bool,
    },
    /// The objects that have been made, in one page.
    Listed(Vec<String>),
}

fn charge(key: &str, now: Timestamp) -> String {
    let created = now.as_millis() / 1_000;
    format!(r#"{{"id":"ch_1","object":"charge","created":{created},"metadata":{{"steadfast_key":"{key}"}}}}"#)
}

impl Transport for Vendor {
    fn send(&self, request: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let met = self.meet(&request);
        Box::pin(async move {
            if matches!(met, Met::Hangs) {
                std::future::pending::<()>().await;
            }
            self.clock.latency(self.latency).await;
            let charge = || r#"{"id":"ch_1","object":"charge"}"#.to_owned();
            let (status, replayed, body) = match met {
                Met::Executed { replayed } => (StatusCode::OK, replayed, charge()),
                Met::TooMuch => (StatusCode::TOO_MANY_REQUESTS, false, charge()),
                Met::Listed(made) => {
                    let list = format!(r#"{{"object":"list","has_more":false,"data":[{}]}}"#, made.join(","));
                    (StatusCode::OK, false, list)
                }
                Met::Hangs | Met::Reset => return Err(SendError::new(SendErrorKind::Reset)),
            };
            let mut headers = HeaderMap::new();
            headers.insert("request-id", HeaderValue::from_static("req_1"));
            headers.insert("content-type", HeaderValue::from_static("application/json"));
            if replayed {
                headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
            }
            Ok(Answer::new(status, headers, body))
        })
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

/// How many records are in each phase.
pub async fn phases(store: &Arc<dyn Store>) -> BTreeMap<Phase, u64> {
    store.tally().await.expect("a store").into_iter().map(|tally| (tally.phase, tally.count)).collect()
}

/// Waits until `count` operations have succeeded, and gives how long that took; at most `limit`.
pub async fn delivered(vendor: &Vendor, store: &Arc<dyn Store>, count: u64, limit: Duration) -> Duration {
    let (took, dead) = ended(vendor, store, count, limit).await;
    assert_eq!(dead, 0, "dead letters of a vendor that was healthy, or was left alone");
    took
}

/// Waits until `count` operations have ended, and gives how long that took and how many are dead letters. Of these none
/// was made, and each says so.
pub async fn ended(vendor: &Vendor, store: &Arc<dyn Store>, count: u64, limit: Duration) -> (Duration, u64) {
    let began = vendor.clock.now();
    loop {
        let phases = phases(store).await;
        let took = vendor.clock.now().since(began);
        let of = |phase| phases.get(&phase).copied().unwrap_or(0);
        let dead = of(Phase::Dead);
        if of(Phase::Succeeded) + dead == count {
            let letters = Filter { phases: vec![Phase::Dead], ..Filter::default() };
            for letter in store.list(&letters, None, 100).await.expect("a store").rows {
                assert_eq!(letter.effect, Effect::None, "{letter:?}");
                vendor.with(|seen| assert!(!seen.executed.contains_key(&letter.wire_key), "{letter:?}"));
            }
            return (took, dead);
        }
        assert!(took < limit, "after {took:?}: {phases:?}");
        vendor.clock.latency(ms(500)).await;
    }
}

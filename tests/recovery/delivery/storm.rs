//! The storm: many processes call a vendor that bears one and a half times their load, and it is down for a minute.
//!
//! This is the simulation that the defaults come from (see [`steadfast::policy`]), with the client and the dispatcher
//! themselves. Each process enqueues five calls a second and delivers from the store that all of them share. In the vendors
//! file that all have, the rate limit is 1.2 times their load. The vendor works through what it gets in turn, also what
//! nobody waits for any more, so that too much load makes it collapse.
//!
//! Three processes and a quarter of a minute in the test command; `STEADFAST_STORM_PROCESSES=20` is so many and the whole
//! minute, with five seeds: best with `--release`.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use support::rig::Rig;

use steadfast::clock::{Clock as _, Instant, Timestamp};
use steadfast::dispatcher::PERIOD;
use steadfast::operation::OperationId;
use steadfast::operation::record::Phase;
use steadfast::policy::{RateConfig, RecoveryConfig};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::{SeededRandom, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::vendor::Stripe;
use steadfast::{BoxFuture, Client, Policy, Random as _};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};

use super::time::on_virtual_time;
use super::{ms, print, secs};

const CALLS_PER_SECOND: u64 = 5;
const BEFORE: Duration = Duration::from_secs(15);

/// A store as one process has it: its dispatcher is not woken by what other processes enqueue.
#[derive(Debug)]
struct OfAProcess {
    store: Arc<Memory>,
    wakes: Wakes,
}

impl Wrapper for OfAProcess {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }
}

#[async_trait]
impl Delivery for OfAProcess {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        self.store.look(look).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        self.store.heartbeat(heartbeat).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        self.store.backlog(now).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        self.store.versions(ids).await
    }

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }
}

/// One server, first come, first served.
#[derive(Clone, Debug)]
struct Vendor {
    clock: TestClock,
    /// For one request.
    work: Duration,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    down: bool,
    /// When it is through with what it has.
    busy_until: Instant,
    requests: u64,
    last_second: VecDeque<Instant>,
    most_in_a_second: usize,
    /// By wire key: it replays what it has executed.
    effects: HashSet<String>,
}

impl Vendor {
    fn with<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        change(&mut self.seen.lock())
    }
}

impl Transport for Vendor {
    fn send(&self, request: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let now = self.clock.now();
        let key = request.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        let key = key.expect("all of them are keyed").to_owned();
        let answered_at = self.with(|seen| {
            seen.requests += 1;
            while seen.last_second.front().is_some_and(|at| now.since(*at) >= secs(1)) {
                seen.last_second.pop_front();
            }
            seen.last_second.push_back(now);
            seen.most_in_a_second = seen.most_in_a_second.max(seen.last_second.len());
            if seen.down {
                return None;
            }
            seen.busy_until = seen.busy_until.max(now).plus(self.work);
            Some(seen.busy_until)
        });
        Box::pin(async move {
            self.clock.latency(ms(50)).await;
            let Some(at) = answered_at else { return Err(SendError::new(SendErrorKind::Reset)) };
            self.clock.latency(at.since(self.clock.now())).await;
            let is_new = self.with(|seen| seen.effects.insert(key));
            let mut headers = HeaderMap::new();
            headers.insert("request-id", http::HeaderValue::from_static("req_1"));
            headers.insert("content-type", http::HeaderValue::from_static("application/json"));
            if !is_new {
                headers.insert("idempotent-replayed", http::HeaderValue::from_static("true"));
            }
            Ok(Answer::new(StatusCode::OK, headers, r#"{"id":"ch_1","object":"charge"}"#))
        })
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

/// The result of it.
struct Storm {
    /// Load on the vendor in the outage and the most in any second after it, in times of the normal load.
    during: f64,
    peak: f64,
    /// Operations enqueued, and delivered.
    enqueued: u64,
    delivered: u64,
    drained: Duration,
}

async fn storm(clock: TestClock, processes: u64, (outage, seed): (Duration, u64)) -> Storm {
    let normal = processes * CALLS_PER_SECOND;
    let work = Duration::from_nanos(1_000_000_000 * 2 / (normal * 3));
    let vendor = Vendor { clock: clock.clone(), work, seen: Arc::default() };
    let memory = Arc::new(Memory::with_capacity(10_000_000));
    let most = normal as u32 * 6 / 5;
    let policy = Policy::background()
        .rate(RateConfig::new(most, secs(1)))
        .recovery(RecoveryConfig::new(10.max(most / 10), 10.max(most)));
    let (mut dispatchers, mut callers) = (Vec::new(), tokio::task::JoinSet::new());
    let ends = Arc::new(Mutex::new(None::<Instant>));
    for nth in 0..processes {
        let store = Arc::new(OfAProcess { store: Arc::clone(&memory), wakes: Wakes::new() });
        let setup = Rig::of(Stripe::new("sk_test_123")).policy(policy.clone()).network(vendor.clone());
        let client = setup.clock(&clock).random(SeededRandom::new(seed * 10_000 + nth)).store(store).client();
        dispatchers.push(client.keep_recovering(PERIOD));
        callers.spawn(calls(client, clock.clone(), (nth, seed), Arc::clone(&ends)));
    }
    clock.latency(BEFORE).await;
    vendor.with(|seen| (seen.down, seen.requests) = (true, 0));
    clock.latency(outage).await;
    let during = vendor.with(|seen| {
        (seen.down, seen.most_in_a_second) = (false, 0);
        std::mem::take(&mut seen.requests)
    });
    let back = clock.now();
    // Calls go on until the backlog is gone, and all that was called then is delivered.
    let open = |phases: &BTreeMap<Phase, u64>| {
        [Phase::Scheduled, Phase::InProgress].iter().map(|phase| phases.get(phase).unwrap_or(&0)).sum::<u64>()
    };
    let phases = || async {
        memory.tally().await.expect("a store").into_iter().map(|tally| (tally.phase, tally.count)).collect()
    };
    while open(&phases().await) > normal {
        clock.latency(secs(5)).await;
        assert!(clock.now().since(back) < secs(3_600), "{:?}", phases().await);
    }
    let drained = clock.now().since(back);
    *ends.lock() = Some(clock.now());
    let mut enqueued = 0;
    while let Some(count) = callers.join_next().await {
        enqueued += count.expect("no panic");
    }
    clock.latency(secs(120)).await;
    let phases = phases().await;
    assert_eq!(open(&phases), 0, "{phases:?}");
    let (delivered, peak) = vendor.with(|seen| (seen.effects.len() as u64, seen.most_in_a_second));
    assert_eq!(phases.get(&Phase::Succeeded), Some(&delivered), "{phases:?}");
    let per_second = normal as f64;
    let during = during as f64 / (per_second * outage.as_secs_f64());
    Storm { during, peak: peak as f64 / per_second, enqueued, delivered, drained }
}

/// Five calls a second, at times of their own, until it is told when to end. Gives how many.
async fn calls(
    client: Client,
    clock: TestClock,
    (nth, seed): (u64, u64),
    ends: Arc<Mutex<Option<Instant>>>,
) -> u64 {
    let random = SeededRandom::new(seed * 20_000 + nth);
    let mut count = 0;
    while ends.lock().is_none() {
        let pause = Duration::from_secs(1).div_f64(CALLS_PER_SECOND as f64).mul_f64(0.5 + random.unit());
        clock.latency(pause).await;
        let call = client.post("/v1/charges").key(format!("{nth}-{count}")).form(&[("amount", "1000")]);
        call.enqueue().await.expect("recorded");
        count += 1;
    }
    count
}

#[test]
fn an_outage_loses_nothing_and_brings_no_storm() {
    let given = std::env::var("STEADFAST_STORM_PROCESSES").ok();
    let processes = given.as_deref().map_or(3, |given| given.parse().expect("a number of processes"));
    // The backlog of a minute takes a quarter of an hour to deliver beside the calls that go on.
    let (seeds, outage) = if given.is_some() { (5, secs(60)) } else { (1, secs(15)) };
    let mut seen = Vec::new();
    for seed in 0..seeds {
        let storm = on_virtual_time(|clock, _| storm(clock, processes, (outage, seed)));
        let Storm { during, peak, enqueued, delivered, drained } = storm;
        print(&format!(
            "{processes} processes, seed {seed}: load in the outage {during:.2}, peak {peak:.2}, {delivered} of \
             {enqueued} delivered, back to normal after {drained:?}"
        ));
        assert_eq!(delivered, enqueued, "every operation, of the outage and after it");
        seen.push((during, peak));
    }
    for (during, peak) in seen {
        assert!(during <= 1.05, "{during:.2} times the normal load in the outage");
        assert!(peak <= 1.2, "{peak:.2} times the normal load after it");
    }
}

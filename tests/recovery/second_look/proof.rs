//! Enqueued calls on two processes that crash, against a vendor that forgets a key after a day: whatever happens, each
//! takes effect at most once, and nobody is told anything else.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use steadfast::clock::{Clock as _, Timestamp};
use steadfast::operation::record::{Claim, Claimed, Declined, Filter, Record, Takeover, Transition};
use steadfast::store::{Memory, Sqlite, Store, StoreError, Wrapper};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, Request, SendErrorKind};
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Enqueued, Error, Reply};
use tokio::sync::Notify;

use super::HOUR;
use crate::attack::{Bench, DAY, at};
use support::promise;
use support::rig::Rig;

/// SplitMix64.
#[derive(Debug)]
pub struct Draw(pub AtomicU64);

impl Draw {
    pub fn below(&self, most: u64) -> u64 {
        let seed = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % most
    }

    pub fn of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A store whose process dies before or after a write.
#[derive(Debug)]
pub struct Mortal {
    pub store: Arc<dyn Store>,
    draw: Arc<Draw>,
    pub is_calm: Mutex<bool>,
    died: Notify,
}

impl Mortal {
    pub fn new(store: Arc<dyn Store>, draw: Arc<Draw>) -> Mortal {
        Mortal { store, draw, is_calm: Mutex::new(false), died: Notify::new() }
    }

    /// What it comes to; `None` if a process died meanwhile.
    pub async fn alive<T>(&self, doing: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = doing => Some(done),
            () = self.died.notified() => None,
        }
    }

    async fn perhaps(&self) {
        if !*self.is_calm.lock() && self.draw.below(12) == 0 {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Wrapper for Mortal {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.perhaps().await;
        let claimed = self.store.claim(claim).await;
        self.perhaps().await;
        claimed
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        self.perhaps().await;
        let written = self.store.transition(held, transition).await;
        self.perhaps().await;
        written
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        self.perhaps().await;
        let taken = self.store.take(take).await;
        self.perhaps().await;
        taken
    }
}

/// The keys that a vendor remembers for a day: what it did first under each, and when.
#[derive(Default)]
pub struct Keys(HashMap<String, (Timestamp, u16)>);

impl Keys {
    /// The status of a request, and whether it takes effect now; `first` is what it is answered under a new key.
    pub fn answer(&mut self, request: &Request, now: Timestamp, first: u16) -> (u16, bool) {
        let key = request.headers["idempotency-key"].to_str().expect("text").to_owned();
        match self.0.get(&key) {
            Some((since, status)) if now.since(*since) < DAY => (*status, false),
            _ => {
                self.0.insert(key, (now, first));
                (first, first == 200)
            }
        }
    }
}

#[derive(Default)]
struct Ledger {
    keys: Keys,
    /// By path.
    effects: HashMap<String, usize>,
}

/// What the vendor says.
pub fn answer(status: u16) -> Answer {
    let status = StatusCode::from_u16(status).expect("a status");
    Answer::new(status, HeaderMap::new(), r#"{"id":"po_1","object":"payout"}"#)
}

fn vendor(
    ledger: Arc<Mutex<Ledger>>,
    draw: Arc<Draw>,
    calm: Arc<Mutex<bool>>,
    clock: TestClock,
) -> ScriptedTransport {
    ScriptedTransport::new().always_with(move |request: &Request| {
        let fault = if *calm.lock() { 0 } else { draw.below(18) };
        match fault {
            0..=4 | 7 | 8 | 12.. => {}
            5 => return Err(SendErrorKind::Connect),
            6 => return Ok(answer(429)),
            9 => return Ok(answer(503)),
            _ => return Err(SendErrorKind::Reset),
        }
        if request.method != Method::POST {
            return Ok(answer(503));
        }
        let mut ledger = ledger.lock();
        let first = if fault == 4 { 402 } else { 200 };
        let (status, takes_effect) = ledger.keys.answer(request, clock.wall(), first);
        if takes_effect {
            *ledger.effects.entry(request.url.path().to_owned()).or_default() += 1;
        }
        if fault >= 7 { Err(SendErrorKind::Reset) } else { Ok(answer(status)) }
    })
}

/// A process's client on a store that may die with it.
pub fn client(store: &Arc<Mortal>, clock: &TestClock, network: &ScriptedTransport) -> Client {
    let setup = Rig::of(Stripe::new("sk_test_1")).policy(Bench::policy()).network(network.clone());
    setup.clock(clock).store(Arc::clone(store)).client()
}

struct World {
    seed: u64,
    draw: Arc<Draw>,
    store: Arc<Mortal>,
    clock: TestClock,
    network: ScriptedTransport,
    ledger: Arc<Mutex<Ledger>>,
    clients: [Client; 2],
    handles: Vec<(usize, Enqueued)>,
    story: Vec<String>,
}

impl World {
    fn path(key: usize) -> String {
        format!("/v1/quotes/{key}")
    }

    fn call(&self, process: usize, key: usize) -> Call {
        self.clients[process].post(&World::path(key)).key(format!("key-{key}"))
    }

    fn effects(&self, key: usize) -> usize {
        self.ledger.lock().effects.get(&World::path(key)).copied().unwrap_or_default()
    }

    fn told(&mut self, key: usize, told: &Result<Reply, Error>) {
        let effects = self.effects(key);
        let words = match told {
            Ok(reply) => format!("{key}: {} after {effects} effects", reply.status()),
            Err(error) => format!("{key}: {:?} {error} after {effects} effects", error.effect()),
        };
        self.story.push(words);
        let untrue = promise::untrue(promise::told(told), effects, 0);
        assert_eq!(untrue, None, "seed {}: {:#?}", self.seed, self.story);
    }

    async fn step(&mut self) {
        let (process, key) = (self.draw.below(2) as usize, self.draw.below(2) as usize);
        let what = self.draw.below(8);
        self.story.push(format!("{what} by {process} of {key} at {}", self.clock.wall()));
        let died = match what {
            0 | 1 => {
                let after = self.draw.of(&[Duration::ZERO, HOUR, 30 * HOUR]);
                match self.store.alive(self.call(process, key).after(after).enqueue()).await {
                    Some(Ok(enqueued)) => {
                        self.story.push(format!("enqueued for {after:?} new {}", enqueued.is_new()));
                        self.handles.push((key, enqueued));
                        false
                    }
                    Some(Err(error)) => {
                        self.told(key, &Err(error));
                        false
                    }
                    None => true,
                }
            }
            2 => match self.store.alive(self.call(process, key).send()).await {
                Some(told) => {
                    self.told(key, &told);
                    false
                }
                None => true,
            },
            3 | 4 => self.store.alive(self.clients[process].recover(4)).await.is_none(),
            5 => {
                if let Some((key, handle)) = self.handles.pop() {
                    let told = handle.wait(Duration::ZERO).await;
                    self.told(key, &told);
                    if self.draw.below(3) == 0 {
                        let cancelled = handle.cancel("paid by hand").await;
                        self.story.push(format!("cancelled: {cancelled:?}"));
                        if cancelled.is_ok() {
                            let told = handle.wait(Duration::ZERO).await;
                            self.told(key, &told);
                        }
                    }
                }
                false
            }
            _ => {
                let passed = self.draw.of(&[1, 60, 3_600, 13 * 3_600, 25 * 3_600]);
                // Well within the retention.
                let is_late = self.clock.wall() > at(Duration::ZERO).wall().plus(3 * DAY);
                self.clock.advance(Duration::from_secs(if is_late { 60 } else { passed }));
                false
            }
        };
        if died {
            self.story.push(format!("{process} died"));
            self.clients[process] = client(&self.store, &self.clock, &self.network);
        }
    }

    async fn audit(&self) {
        let page = self.store.list(&Filter::default(), None, 100).await.expect("works");
        for row in page.rows {
            let record = self.store.get(&row.id).await.expect("works").expect("on record");
            let effects = self.effects(usize::from(row.id.key.as_str() == "key-1"));
            assert!(
                promise::is_kept(&record, effects),
                "seed {}: {record:?} with {effects}: {:#?}",
                self.seed,
                self.story
            );
        }
    }
}

async fn run(seed: u64, store: Arc<dyn Store>) -> (usize, usize) {
    let draw = Arc::new(Draw(AtomicU64::new(seed.wrapping_mul(0xD1B5_4A32_D192_ED03))));
    let clock = at(Duration::ZERO);
    let (ledger, calm) = (Arc::new(Mutex::new(Ledger::default())), Arc::new(Mutex::new(false)));
    let network = vendor(Arc::clone(&ledger), Arc::clone(&draw), Arc::clone(&calm), clock.clone());
    let store = Arc::new(Mortal::new(store, Arc::clone(&draw)));
    let clients = [(); 2].map(|()| client(&store, &clock, &network));
    let mut world =
        World { seed, draw, store, clock, network, ledger, clients, handles: Vec::new(), story: Vec::new() };
    for _ in 0..30 {
        world.step().await;
    }
    (*calm.lock(), *world.store.is_calm.lock()) = (true, true);
    for _ in 0..32 {
        world.clock.advance(HOUR);
        world.clients[0].recover(8).await.expect("works");
    }
    world.audit().await;
    (world.effects(0) + world.effects(1), world.handles.len())
}

/// The first seed and how many, as these variables say.
pub fn schedules(first: &str, count: &str) -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    (number(first).unwrap_or(0), number(count).unwrap_or(300))
}

#[tokio::test]
async fn what_is_enqueued_takes_effect_at_most_once_whatever_happens() {
    let (first, schedules) = schedules("STEADFAST_ENQUEUED_FIRST", "STEADFAST_ENQUEUED_SCHEDULES");
    let mut effects = 0;
    for seed in first..first + schedules {
        effects += run(seed, Arc::new(Memory::new())).await.0;
        if seed % 30 == 0 {
            let place = support::in_memory::directory();
            run(seed, Arc::new(Sqlite::open(place.path().join("calls.db")).expect("opens"))).await;
        }
    }
    assert!(effects as u64 > schedules / 2, "{effects} of {schedules}");
}

//! Where everything goes, and what is counted there: the vendors, and the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use support::rig::{Rig, ms};

use steadfast::clock::{Clock as _, Instant, Timestamp};
use steadfast::operation::OperationId;
use steadfast::operation::record::{Declined, Record, State, Takeover, Transition};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::{SeededRandom, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, Transport};
use steadfast::vendor::{Keyed, KeyedConfig};
use steadfast::{BoxFuture, Client, Policy};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};

/// Vendors that answer well after 150 ms.
#[derive(Clone, Debug)]
pub struct Desk {
    pub clock: TestClock,
    seen: Arc<Mutex<Requests>>,
}

#[derive(Debug, Default)]
struct Requests {
    sent: Vec<(Instant, Timestamp, String)>,
    by_account: BTreeMap<String, usize>,
    /// By vendor: how many are under way, and the most there were.
    under_way: BTreeMap<String, (usize, usize)>,
    /// The next is answered with a 429.
    asks_for_seconds: Option<u64>,
}

impl Desk {
    pub fn new(clock: &TestClock) -> Desk {
        Desk { clock: clock.clone(), seen: Arc::default() }
    }

    pub fn client(&self, vendor: &str, account: &str, store: &Arc<Seen>, policy: Policy) -> Client {
        let mut config = KeyedConfig::new(vendor, format!("http://127.0.0.1:1/{vendor}/{account}"));
        config.account = account.to_owned();
        let setup = Rig::of(Keyed::new(config, "secret")).policy(policy).network(self.clone());
        setup.clock(&self.clock).random(SeededRandom::new(7)).store(Arc::clone(store)).client()
    }

    /// The next request is answered with a 429 that asks for so long.
    pub fn asks_for_seconds(&self, seconds: u64) {
        self.seen.lock().asks_for_seconds = Some(seconds);
    }

    /// How many requests there were to this path, of whichever account.
    pub fn sent(&self, path: &str) -> usize {
        self.seen.lock().sent.iter().filter(|(_, _, sent)| sent == path).count()
    }

    pub fn by_account(&self) -> BTreeMap<String, usize> {
        self.seen.lock().by_account.clone()
    }

    /// The most that were under way at once.
    pub fn most(&self, vendor: &str) -> usize {
        self.seen.lock().under_way.get(vendor).map_or(0, |(_, most)| *most)
    }

    pub fn last_began(&self) -> Option<Instant> {
        self.seen.lock().sent.last().map(|(at, _, _)| *at)
    }

    pub fn last_began_at(&self) -> Option<Timestamp> {
        self.seen.lock().sent.last().map(|(_, at, _)| *at)
    }
}

impl Transport for Desk {
    fn send(&self, request: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let path = request.url.path().to_owned();
        let mut parts = path.trim_start_matches('/').splitn(3, '/').map(str::to_owned);
        let mut part = move || parts.next().unwrap_or_default();
        let (vendor, account, path) = (part(), part(), format!("/{}", part()));
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let asked = {
            let mut seen = self.seen.lock();
            seen.sent.push((now, wall, path));
            *seen.by_account.entry(account).or_default() += 1;
            let (under_way, most) = seen.under_way.entry(vendor.clone()).or_default();
            *under_way += 1;
            *most = (*most).max(*under_way);
            seen.asks_for_seconds.take()
        };
        Box::pin(async move {
            self.clock.latency(ms(150)).await;
            if let Some((under_way, _)) = self.seen.lock().under_way.get_mut(&vendor) {
                *under_way -= 1;
            }
            let Some(seconds) = asked else { return Ok(Answer::new(StatusCode::OK, HeaderMap::new(), "{}")) };
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", HeaderValue::from(seconds));
            Ok(Answer::new(StatusCode::TOO_MANY_REQUESTS, headers, ""))
        })
    }

    fn queue_max(&self, _: &url::Url) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// A store that counts what it is asked, and fails or hangs when it is told to.
#[derive(Debug)]
pub struct Seen {
    store: Arc<Memory>,
    /// Of this process, and not of another one on the same records.
    wakes: Wakes,
    pub fails: AtomicBool,
    pub hangs: AtomicBool,
    /// Takers are given what was due so long ago.
    pub is_behind_by_ms: AtomicUsize,
    pub takes_no_success: AtomicBool,
    /// Looks, takes, purges, all else.
    counts: [AtomicUsize; 4],
}

impl Seen {
    pub fn new(store: Arc<Memory>) -> Arc<Seen> {
        Arc::new(Seen {
            store,
            wakes: Wakes::new(),
            fails: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            is_behind_by_ms: AtomicUsize::new(0),
            takes_no_success: AtomicBool::new(false),
            counts: Default::default(),
        })
    }

    /// The store as two processes have it: neither wakes the other.
    pub fn two_processes(&self) -> (Arc<Seen>, Arc<Seen>) {
        (Seen::new(self.store.clone()), Seen::new(self.store.clone()))
    }

    pub fn counts(&self) -> [usize; 4] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    pub fn counts_since(&self, before: [usize; 4]) -> [usize; 4] {
        let now = self.counts();
        std::array::from_fn(|nth| now[nth] - before[nth])
    }

    fn below(&self) -> &dyn Delivery {
        self.store.delivery().expect("it has")
    }

    async fn asked(&self, what: usize) -> Result<(), StoreError> {
        self.counts[what].fetch_add(1, Ordering::Relaxed);
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        match self.fails.load(Ordering::Relaxed) {
            true => Err(StoreError::new("the disk is on fire")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Wrapper for Seen {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        self.asked(1).await?;
        let now = take.now.minus(ms(self.is_behind_by_ms.load(Ordering::Relaxed) as u64));
        self.store.take(Takeover { now, ..take }).await
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let is_success = matches!(transition.to, State::Succeeded { .. });
        if is_success && self.takes_no_success.load(Ordering::Relaxed) {
            return Err(StoreError::new("the disk is full"));
        }
        self.store.transition(held, transition).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        self.asked(3).await?;
        self.store.get(id).await
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        self.asked(3).await?;
        self.store.believed(now).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.asked(2).await?;
        self.store.purge(now, limit).await
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }
}

#[async_trait]
impl Delivery for Seen {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        self.asked(0).await?;
        self.below().look(look).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        self.below().heartbeat(heartbeat).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        self.below().backlog(now).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        self.below().versions(ids).await
    }

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }
}

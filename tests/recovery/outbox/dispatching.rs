//! A running dispatcher of several clients on one file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, StatusCode};
use support::rig::Rig;
use tempfile::TempDir;

use steadfast::Client;
use steadfast::clock::Timestamp;
use steadfast::dispatcher::{Dispatcher, PERIOD};
use steadfast::operation::OperationId;
use steadfast::operation::record::{AuditEntry, Claim, Claimed, Page};
use steadfast::outbox::rusqlite::Connection;
use steadfast::store::{OutboxTally, Queued, Rejected, Sqlite, Store, StoreError, Wrapper};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::Answer;
use steadfast::vendor::{Keyed, KeyedConfig};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};
use steadfast_core::store::outbox::{Account, Outbox, OutboxRow, Statement};

/// A store that counts how often it is looked at, and its outbox read.
#[derive(Debug)]
struct Counted {
    store: Sqlite,
    looks: AtomicUsize,
    pages: AtomicUsize,
    admits: AtomicUsize,
    /// Its rows cannot be read, or cannot be recorded.
    fails: [AtomicBool; 2],
}

impl Counted {
    fn check(&self, what: usize) -> Result<(), StoreError> {
        let fails = self.fails[what].load(Ordering::Relaxed);
        if fails { Err(StoreError::new("the disk is on fire")) } else { Ok(()) }
    }
}

#[async_trait]
impl Wrapper for Counted {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }
}

#[async_trait]
impl Delivery for Counted {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        let sight = self.store.look(look).await;
        self.looks.fetch_add(1, Ordering::Relaxed);
        sight
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
        self.store.wakes()
    }
}

#[async_trait]
impl Outbox for Counted {
    fn put(&self, account: &Account, row: &OutboxRow) -> Result<Vec<Statement>, StoreError> {
        self.store.put(account, row)
    }

    async fn write(&self, statements: Vec<Statement>) -> Result<(), StoreError> {
        self.store.write(statements).await
    }

    async fn holds_back(&self, account: &Account, sequence: &str) -> Result<bool, StoreError> {
        self.store.holds_back(account, sequence).await
    }

    async fn have_rows(&self, accounts: &[Account]) -> Result<Vec<bool>, StoreError> {
        self.store.have_rows(accounts).await
    }

    async fn waiting(
        &self,
        account: &Account,
        after: Option<&str>,
        limit: usize,
        body_bytes_max: usize,
    ) -> Result<Page<OutboxRow>, StoreError> {
        self.pages.fetch_add(1, Ordering::Relaxed);
        self.check(0)?;
        self.store.waiting(account, after, limit, body_bytes_max).await
    }

    async fn admit(&self, number: u64, claim: Claim) -> Result<Option<Claimed>, StoreError> {
        self.admits.fetch_add(1, Ordering::Relaxed);
        self.check(1)?;
        self.store.admit(number, claim).await
    }

    async fn reject(&self, number: u64, why: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.store.reject(number, why, now).await
    }

    async fn under_key(&self, account: &Account, key: &str) -> Result<Vec<OutboxRow>, StoreError> {
        self.store.under_key(account, key).await
    }

    async fn rejection(&self, account: &Account, key: &str) -> Result<Option<String>, StoreError> {
        self.store.rejection(account, key).await
    }

    async fn of_key(&self, key: &str) -> Result<Vec<Queued>, StoreError> {
        self.store.of_key(key).await
    }

    async fn remove(&self, number: u64, entry: &AuditEntry) -> Result<bool, StoreError> {
        self.store.remove(number, entry).await
    }

    async fn disown(&self, why: &str, now: Timestamp) -> Result<u64, StoreError> {
        self.store.disown(why, now).await
    }

    async fn counts(&self) -> Result<Vec<OutboxTally>, StoreError> {
        self.store.counts().await
    }

    async fn rejected(&self, after: Option<&str>, limit: usize) -> Result<Page<Rejected>, StoreError> {
        Outbox::rejected(&self.store, after, limit).await
    }
}

struct Bench {
    directory: TempDir,
    store: Arc<Counted>,
    clock: TestClock,
    network: ScriptedTransport,
}

impl Bench {
    fn open() -> Bench {
        let directory = TempDir::new().expect("a directory");
        let store = Sqlite::open(directory.path().join("shop.db")).expect("a new file");
        let store = Counted {
            store,
            looks: AtomicUsize::new(0),
            pages: AtomicUsize::new(0),
            admits: AtomicUsize::new(0),
            fails: Default::default(),
        };
        let store = Arc::new(store);
        Bench {
            directory,
            store,
            clock: TestClock::new(),
            network: ScriptedTransport::new().always(Answer::new(StatusCode::OK, HeaderMap::new(), "{}")),
        }
    }

    fn client(&self, vendor: &str, address: &str) -> Client {
        let setup = Rig::of(Keyed::new(KeyedConfig::new(vendor, address), "secret"));
        setup.store(Arc::clone(&self.store)).clock(&self.clock).network(self.network.clone()).client()
    }

    fn insert(&self, vendor: &str, count: usize) {
        let connection = Connection::open(self.directory.path().join("shop.db")).expect("opens");
        let rows: String = (0..count)
            .map(|nth| {
                format!(
                    "INSERT INTO steadfast_outbox (vendor, account, path, key, body) \
                     VALUES ('{vendor}', 'default', '/pay', '{vendor}-{nth}', '{{}}');"
                )
            })
            .collect();
        connection.execute_batch(&format!("BEGIN; {rows} COMMIT")).expect("it is written");
    }

    /// Lets so many periods pass, one look in each. SQLite answers from a thread of its own, so that a look takes real
    /// time.
    async fn periods(&self, count: usize) {
        for _ in 0..count {
            let before = self.looks();
            self.clock.advance(PERIOD);
            soon(|| self.looks() > before).await;
        }
    }

    fn looks(&self) -> usize {
        self.store.looks.load(Ordering::Relaxed)
    }

    fn pages(&self) -> usize {
        self.store.pages.load(Ordering::Relaxed)
    }
}

async fn soon(is_so: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    panic!("not within 20 s");
}

#[tokio::test]
async fn an_idle_dispatcher_asks_once_in_a_period_for_all_its_clients() {
    let bench = Bench::open();
    let clients: Vec<Client> =
        (0..8).map(|nth| bench.client(&format!("vendor-{nth}"), "http://127.0.0.1:1/")).collect();
    let _dispatcher = Dispatcher::over(&clients).start();
    soon(|| bench.looks() == 1).await;
    bench.periods(50).await;
    assert_eq!((bench.looks(), bench.pages()), (51, 0));

    // More than two pages of one, and one of another.
    bench.insert("vendor-3", 250);
    bench.insert("vendor-5", 1);
    bench.periods(1).await;
    soon(|| bench.pages() == 4).await;
    for _ in 0..1_000 {
        if bench.network.requests().len() == 251 {
            break;
        }
        bench.periods(1).await;
    }
    assert_eq!(bench.network.requests().len(), 251);
    assert_eq!(bench.pages(), 4, "each page once");
}

/// Its terms differ from those of the account's other services. A row that waits is left to those, and not rejected.
#[tokio::test]
async fn whoever_may_not_deliver_for_an_account_admits_nothing() {
    let bench = Bench::open();
    bench.client("acme", "https://acme.test/").register().await.expect("the first");
    let other = bench.client("acme", "https://eu.acme.test/");
    other.register().await.expect_err("another address");
    bench.insert("acme", 1);
    let dispatcher = Dispatcher::over([&other]).start();
    soon(|| bench.looks() == 1).await;
    bench.periods(5).await;
    other.recover(10).await.expect_err("it may not");
    drop(dispatcher);
    let counts = bench.store.counts().await.expect("a store");
    assert_eq!((counts[0].waiting, counts[0].rejected, bench.network.requests().len()), (1, 0, 0));

    bench.client("acme", "https://acme.test/").recover(10).await.expect("it may");
    assert_eq!(bench.network.requests().len(), 1);
}

/// Nor are those tried that come behind it in its sequence. Where some were recorded there may soon be others.
#[tokio::test]
async fn a_row_that_cannot_be_recorded_is_tried_once_in_a_period() {
    let bench = Bench::open();
    let client = bench.client("acme", "http://127.0.0.1:1/");
    let connection = Connection::open(bench.directory.path().join("shop.db")).expect("opens");
    for key in ["a", "b", "c"] {
        let call = client.post("/pay").key(key).sequence("one");
        drop(call.blocking_enqueue_in(&connection).expect("it is written").committed());
    }
    let fails = |what: [bool; 2]| {
        for (fails, now) in bench.store.fails.iter().zip(what) {
            fails.store(now, Ordering::Relaxed);
        }
    };
    fails([true, true]);
    let _dispatcher = Dispatcher::over([&client]).start();
    soon(|| bench.looks() == 1).await;
    bench.periods(2).await;
    soon(|| bench.pages() >= 3).await;
    fails([false, true]);
    bench.periods(2).await;
    let tries = || (bench.looks(), bench.pages(), bench.store.admits.load(Ordering::Relaxed));
    soon(|| tries() == (5, 5, 2)).await;
    fails([false, false]);
    bench.periods(1).await;
    soon(|| bench.network.requests().len() == 1).await;
    let before = bench.looks();
    bench.clock.advance(PERIOD / 16);
    soon(|| bench.looks() > before).await;
}

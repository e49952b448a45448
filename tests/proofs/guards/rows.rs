//! The outbox of a store in a file, and a store whose records were copied.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tempfile::TempDir;

use steadfast::clock::Clock as _;
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::operation::OperationId;
use steadfast::operation::record::{Filter, Record};
use steadfast::outbox::rusqlite::Connection;
use steadfast::store::{Copying, Memory, Sqlite, Store, StoreError, StoreErrorKind, Wrapper, copy};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::Answer;
use steadfast::vendor::{Keyed, KeyedConfig};
use steadfast::{BoxFuture, Client, Disposition};
use steadfast_core::store::outbox::Outbox;

use crate::guards::life::wanted;
use crate::guards::wait;

/// A service with its file.
struct Shop {
    directory: TempDir,
    store: Arc<Sqlite>,
    network: ScriptedTransport,
    clock: TestClock,
    client: Client,
}

impl Shop {
    fn open() -> Shop {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Arc::new(Sqlite::open(directory.path().join("shop.db")).expect("a new file"));
        let network = ScriptedTransport::new().always(Answer::new(StatusCode::OK, HeaderMap::new(), "{}"));
        let clock = TestClock::auto();
        let client = Client::builder(acme("http://127.0.0.1:1"))
            .store(Arc::clone(&store))
            .clock(clock.clone())
            .transport(network.clone())
            .build()
            .expect("a client");
        Shop { directory, store, network, clock, client }
    }

    /// A client of the same file, on whose next read of a record `meanwhile` happens.
    fn beside(&self, base_url: &str, meanwhile: Meanwhile) -> Client {
        let store = Arc::clone(&self.store);
        let client =
            Client::builder(acme(&format!("{base_url}/v2"))).former_base_url(format!("{base_url}/v1"));
        let client = client.store(Busy { store, meanwhile: Mutex::new(Some(meanwhile)) });
        client.clock(self.clock.clone()).transport(self.network.clone()).build().expect("a client")
    }

    fn connection(&self) -> Connection {
        Connection::open(self.directory.path().join("shop.db")).expect("opens")
    }

    fn insert(&self, headers: &str) {
        let sql = "INSERT INTO steadfast_outbox (vendor, account, path, key, headers, body) \
                   VALUES ('acme', 'default', '/pay', 'k', ?1, '{}')";
        self.connection().execute(sql, [headers]).expect("it is written");
    }

    fn sent(&self) -> usize {
        wait(self.client.recover(8)).expect("the store works");
        self.network.requests().len()
    }
}

fn acme(base_url: &str) -> Keyed {
    Keyed::new(KeyedConfig::new("acme", base_url), "secret")
}

/// The act that happens while a record is read, and before it is told.
type Meanwhile = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), StoreError>> + Send>;

struct Busy {
    store: Arc<Sqlite>,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Busy").finish_non_exhaustive()
    }
}

#[async_trait]
impl Wrapper for Busy {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let found = self.store.get(id).await;
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile().await?;
        }
        found
    }
}

pub fn a_row_is_gone_once_its_operation_is_on_record() -> bool {
    let shop = Shop::open();
    shop.insert("{}");
    assert_eq!(shop.sent(), 1);
    wait(shop.store.counts()).expect("the store works").is_empty()
}

/// A dispatcher that read a row and stood still until another one had dealt with it.
pub fn a_row_that_is_gone_is_not_admitted() -> bool {
    let shop = Shop::open();
    wait(shop.store.admit(7, wanted("k", 0))).expect("the store works").is_none()
}

/// As a path that is too long for Postgres to index.
pub fn a_row_that_the_store_cannot_hold_is_rejected() -> bool {
    let shop = Shop::open();
    let unfit = "CREATE TABLE held (key TEXT CHECK (length(key) > 1)); \
                 CREATE TRIGGER unfit BEFORE INSERT ON operation BEGIN INSERT INTO held VALUES (new.key); END";
    shop.connection().execute_batch(unfit).expect("the schema takes it");
    shop.insert("{}");
    assert_eq!(shop.sent(), 0);
    wait(shop.store.rejected(None, 8)).expect("the store works").rows.len() == 1
}

pub fn a_row_with_a_secret_is_not_sent() -> bool {
    let shop = Shop::open();
    shop.insert(r#"{"authorization": "Bearer secret"}"#);
    shop.sent() == 0
}

/// A row that is committed while its key is on record, and admitted when that is over.
fn late_repeat(purges: bool) -> bool {
    let shop = Shop::open();
    let call = || shop.client.post("/pay").key("k").bytes("{}");
    wait(call().send()).expect("it is sent");
    drop(call().blocking_enqueue_in(&shop.connection()).expect("it is written").committed());
    // The store believes a time that it is told of twice, with an hour between.
    for passed in [8 * 24, 1] {
        shop.clock.advance(Duration::from_secs(passed * 60 * 60));
        wait(shop.store.claim(wanted("another", shop.clock.wall().as_millis()))).expect("the store works");
        let limit = usize::from(purges);
        wait(shop.store.purge(shop.clock.wall(), limit)).expect("the store works");
    }
    shop.sent() == 1
}

pub fn a_late_row_is_a_repeat_of_what_was_on_record_when_it_was_written() -> bool {
    late_repeat(false)
}

pub fn a_record_whose_key_has_a_row_is_not_purged() -> bool {
    late_repeat(true)
}

/// The breaker, the kill switch or a pause refuses a call whose row no dispatcher has recorded yet.
pub fn who_is_refused_is_told_of_a_row() -> bool {
    let shop = Shop::open();
    let call = || shop.client.post("/pay").key("k").bytes("{}");
    drop(call().blocking_enqueue_in(&shop.connection()).expect("it is written").committed());
    shop.client.engage_kill_switch();
    let told = wait(call().send()).expect_err("it is held");
    matches!(told.disposition(), Disposition::Continues { .. })
}

/// The call's base URL has no path, so that its first look is for the record.
pub fn what_is_recorded_between_two_looks_is_told_of() -> bool {
    let shop = Shop::open();
    let call = shop.client.post("/v2/pay").key("k").bytes("{}");
    drop(call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed());
    let other = shop.client.clone();
    let recorded = move || -> BoxFuture<'static, _> {
        Box::pin(async move {
            other.recover(1).await.expect("the store works");
            Ok(())
        })
    };
    let store = Busy { store: Arc::clone(&shop.store), meanwhile: Mutex::new(Some(Box::new(recorded))) };
    let asks = Client::builder(acme("http://127.0.0.1:1")).store(store).transport(shop.network.clone());
    let asks = asks.clock(shop.clock).build().expect("a client");
    wait(asks.post("/v2/pay").key("k").recorded()).is_ok_and(|told| told.is_some())
}

/// It is asked for the name that the call had below the former base URL.
pub fn a_store_that_fails_once_rejects_no_row() -> bool {
    let shop = Shop::open();
    shop.insert("{}");
    let fails = || -> BoxFuture<'static, _> { Box::pin(async { Err(StoreError::new("a disk error")) }) };
    let client = shop.beside("http://127.0.0.1:1", Box::new(fails));
    for _ in 0..2 {
        wait(client.recover(8)).expect("the store works");
    }
    shop.network.requests().len() == 1
}

/// Another service has registered the account with another address.
pub fn no_row_is_recorded_by_who_learns_meanwhile_that_its_terms_differ() -> bool {
    let shop = Shop::open();
    shop.insert("{}");
    let ours: Arc<Mutex<Option<Client>>> = Arc::default();
    let learns = Arc::clone(&ours);
    let registers = move || -> BoxFuture<'static, _> {
        let client = learns.lock().take().expect("a client");
        Box::pin(async move {
            client.register().await.expect_err("they differ");
            Ok(())
        })
    };
    let client = shop.beside("https://acme.test", Box::new(registers));
    let other = Client::builder(acme("https://other.test")).store(Arc::clone(&shop.store));
    wait(async {
        let other = other.transport(shop.network.clone()).build().expect("a client");
        other.register().await.expect("the first");
        *ours.lock() = Some(client.clone());
        client.recover(8).await.expect_err("they differ");
        shop.store.list(&Filter::default(), None, 1).await.expect("the store works").rows.is_empty()
    })
}

pub fn an_operator_finds_a_row_by_its_key() -> bool {
    let shop = Shop::open();
    let call = shop.client.post("/pay").key("k").bytes("{}");
    drop(call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed());
    let letters = DeadLetters::new(Arc::<Sqlite>::clone(&shop.store));
    for row in wait(letters.queued("k")).expect("the store works") {
        assert!(
            wait(letters.cancel_queued(&row, &Change::by("ann").because("not wanted"))).expect("it works")
        );
    }
    shop.sent() == 0
}

pub fn what_is_cancelled_in_the_outbox_is_not_sent() -> bool {
    let shop = Shop::open();
    let call = shop.client.post("/pay").key("k").bytes("{}");
    let put = call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
    let cancelled = wait(put.cancel("not wanted"));
    cancelled.is_ok() && shop.sent() == 0
}

pub fn a_store_that_was_copied_takes_nothing() -> bool {
    let (from, to) = (Memory::new(), Memory::new());
    let how = Copying::new("here", "there").clock(TestClock::auto());
    wait(copy(&from, &to, &how)).expect("nothing is in the way");
    wait(from.claim(wanted("k", 0))).is_err_and(|error| error.kind() == StoreErrorKind::Closed)
}

//! A shop whose orders are in the store's own file.

use std::path::PathBuf;
use std::sync::Arc;

use support::rig::Rig;
use tempfile::TempDir;

use steadfast::dead_letter::DeadLetters;
use steadfast::operation::record::{Filter, Summary};
use steadfast::outbox::rusqlite::Connection;
use steadfast::store::{Rejected, Sqlite, Store};
use steadfast::testkit::TestClock;
use steadfast::testkit::fakes::StripeFake;
use steadfast::vendor::Stripe;
use steadfast::{Call, Client};
use steadfast_core::store::outbox::Account;

pub(crate) struct Shop {
    directory: TempDir,
    pub(crate) clock: TestClock,
    pub(crate) fake: StripeFake,
    pub(crate) store: Arc<Sqlite>,
    pub(crate) stripe: Client,
}

impl Shop {
    pub(crate) fn open() -> Shop {
        Shop::with(|path| Sqlite::open(path).expect("a new file"))
    }

    pub(crate) fn with(store: impl Fn(PathBuf) -> Sqlite) -> Shop {
        let directory = TempDir::new().expect("a directory");
        let clock = TestClock::auto();
        let fake = StripeFake::builder().test_clock(&clock).in_process();
        let store = Arc::new(store(directory.path().join("shop.db")));
        let stripe = client(&clock, &fake, Arc::clone(&store));
        let shop = Shop { directory, clock, fake, store, stripe };
        shop.connection().execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY)").expect("a table");
        shop
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("shop.db")
    }

    /// A connection of the shop's own.
    pub(crate) fn connection(&self) -> Connection {
        Connection::open(self.path()).expect("opens")
    }

    /// Another process's client on the same file.
    pub(crate) fn another(&self) -> Client {
        client(&self.clock, &self.fake, Arc::new(Sqlite::open(self.path()).expect("opens")))
    }

    pub(crate) fn charge(&self, order: u64) -> Call {
        charge(&self.stripe, order)
    }

    /// Writes the order and its charge.
    pub(crate) fn place(&self, order: u64) {
        let mut shop = self.connection();
        let transaction = shop.transaction().expect("begins");
        insert(&transaction, order);
        self.charge(order).blocking_enqueue_in(&transaction).expect("it is written");
        transaction.commit().expect("commits");
    }

    pub(crate) fn count(&self, table: &str) -> u64 {
        let sql = format!("SELECT count(*) FROM {table}");
        let count: i64 = self.connection().query_row(&sql, [], |row| row.get(0)).expect("counts");
        count.unsigned_abs()
    }

    /// Rows that no dispatcher has admitted yet.
    pub(crate) fn waiting(&self) -> u64 {
        self.count("steadfast_outbox WHERE rejected_at_ms IS NULL")
    }

    /// Recovers until nothing is left to do.
    pub(crate) async fn deliver(&self) {
        deliver(&self.stripe).await;
    }

    pub(crate) fn letters(&self) -> DeadLetters {
        let store: Arc<dyn Store> = Arc::<Sqlite>::clone(&self.store);
        DeadLetters::new(store).with_clock(self.clock.clone())
    }

    pub(crate) async fn rejected(&self) -> Vec<Rejected> {
        self.letters().rejected(None, 1_000).await.expect("a store").rows
    }

    pub(crate) async fn operations(&self) -> Vec<Summary> {
        self.store.list(&Filter::default(), None, 1_000).await.expect("a store").rows
    }

    /// Runs what a program without this crate would.
    pub(crate) fn sql(&self, sql: &str) {
        self.connection().execute_batch(sql).expect(sql);
    }
}

pub(crate) fn client(clock: &TestClock, fake: &StripeFake, store: Arc<Sqlite>) -> Client {
    Rig::of(Stripe::new("sk_test_123")).store(store).clock(clock).network(fake.transport()).client()
}

pub(crate) fn charge(client: &Client, order: u64) -> Call {
    let form = [("amount", "1000"), ("currency", "usd")];
    client.post("/v1/charges").key(format!("order-{order}/charge")).form(&form)
}

pub(crate) async fn deliver(client: &Client) {
    while client.recover(100).await.expect("a store").taken > 0 {}
}

pub(crate) fn insert(shop: &Connection, order: u64) {
    shop.execute("INSERT INTO orders (number) VALUES (?1)", [order as i64]).expect("the order is written");
}

/// The client that [`Shop`] has, as a row names it.
pub(crate) fn account() -> Account {
    let text = str::to_owned;
    Account { namespace: text("default"), vendor: text("stripe"), account: text("test") }
}

//! The transactional outbox on Postgres: by the crate in a transaction of the caller's, and by plain SQL.

mod python;
#[cfg(feature = "sqlx-postgres")]
mod sqlx;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steadfast::clock::Clock as _;
use steadfast::dead_letter::DeadLetters;
use steadfast::operation::record::Filter;
use steadfast::outbox::tokio_postgres::{self, NoTls};
use steadfast::store::{OutboxTally, Postgres, SealKeys, Store, StoreErrorKind};
use steadfast::testkit::fakes::StripeFake;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Disposition, Effect, Enqueued};
use steadfast_core::store::outbox::{Account, Outbox};

use super::driven::fresh_schema;
use super::error_text;
use support::server::{self, ASLEEP, Server};

/// A shop whose orders are in the store's own database.
struct Shop {
    server: &'static Server,
    schema: String,
    fake: StripeFake,
    store: Arc<Postgres>,
    stripe: Client,
    clock: TestClock,
}

impl Shop {
    fn open(server: &'static Server) -> Shop {
        Shop::with(server, |builder| builder)
    }

    fn with(
        server: &'static Server,
        how: impl Fn(steadfast::store::PostgresBuilder) -> steadfast::store::PostgresBuilder,
    ) -> Shop {
        let schema = fresh_schema("outbox");
        let builder = Postgres::builder(&server.url(&schema)).expect("a URL of the rig");
        let store = Arc::new(how(builder).open().expect("the store opens"));
        // Waits take no time; stored times are of the server's clock.
        let clock = TestClock::auto();
        let fake = StripeFake::builder().test_clock(&clock).in_process();
        let stripe = client(&clock, &fake, &store);
        server.sql(&format!("CREATE TABLE {schema}.orders (number int PRIMARY KEY)"));
        Shop { server, schema, fake, store, stripe, clock }
    }

    async fn connection(&self) -> tokio_postgres::Client {
        connection(self.server, &self.schema).await
    }

    fn charge(&self, order: u64) -> Call {
        charge(&self.stripe, order)
    }

    fn sql(&self, sql: &str) -> String {
        self.server.sql(&sql.replace("{schema}", &self.schema))
    }

    /// Returns the error of a refused statement.
    fn refused(&self, user: &str, sql: &str) -> String {
        let sql = sql.replace("{schema}", &self.schema);
        self.server.sql_as(user, "postgres", &sql).expect_err("it is refused")
    }

    /// Returns the numbers of orders, waiting rows, operations on record, and charges.
    async fn counts(&self) -> (usize, u64, usize, usize) {
        let orders = self.sql("SELECT count(*) FROM {schema}.orders").parse().expect("a number");
        let operations = self.store.list(&Filter::default(), None, 1_000).await.expect("a store").rows.len();
        (orders, self.tally().await.map_or(0, |tally| tally.waiting), operations, self.fake.ledger().count())
    }

    async fn tally(&self) -> Option<OutboxTally> {
        self.store.counts().await.expect("a store").pop()
    }

    async fn deliver(&self) {
        deliver(&self.stripe).await;
    }

    /// Asserts that a call whose transaction is open, or was rolled back, is visible nowhere.
    async fn sees_nothing(&self) {
        assert!(!self.store.have_rows(&[account()]).await.expect("a store")[0]);
        self.deliver().await;
        assert_eq!(self.counts().await, (0, 0, 0, 0));
    }

    /// Asserts that a call that was just committed with its order exists and is sent.
    async fn sends(&self, charge: &Enqueued) {
        assert_eq!(self.counts().await, (1, 1, 0, 0));
        assert!(self.store.have_rows(&[account()]).await.expect("a store")[0]);
        self.deliver().await;
        let reply = charge.wait(Duration::ZERO).await.expect("it is done");
        assert_eq!((reply.status().as_u16(), reply.wire_key()), (200, Some(charge.wire_key())));
    }

    async fn has_sent_it_once(&self) {
        self.deliver().await;
        assert_eq!(self.counts().await, (1, 0, 1, 1));
    }

    async fn rejected(&self) -> Vec<(String, String)> {
        let store: Arc<dyn Store> = Arc::<Postgres>::clone(&self.store);
        let page = DeadLetters::new(store).rejected(None, 100).await.expect("a store");
        page.rows.into_iter().map(|row| (row.key, row.why)).collect()
    }
}

pub(super) async fn connection(server: &Server, schema: &str) -> tokio_postgres::Client {
    let url = server.url(schema);
    let (plain, _) = url.split_once("&schema=").expect("a URL of the rig");
    let (client, connection) = tokio_postgres::connect(plain, NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
}

fn client(clock: &TestClock, fake: &StripeFake, store: &Arc<Postgres>) -> Client {
    Client::builder(Stripe::new("sk_test_123"))
        .store(Arc::clone(store))
        .clock(clock.clone())
        .transport(fake.transport())
        .build()
        .expect("a client")
}

fn charge(stripe: &Client, order: u64) -> Call {
    let form = [("amount", "1000"), ("currency", "usd")];
    stripe.post("/v1/charges").key(format!("order-{order}/charge")).form(&form)
}

async fn deliver(stripe: &Client) {
    while stripe.recover(100).await.expect("a store").taken > 0 {}
}

fn account() -> Account {
    let text = str::to_owned;
    Account { namespace: text("default"), vendor: text("stripe"), account: text("test") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_committed_call_is_sent_once_and_a_rolled_back_one_never() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let mut connection = shop.connection().await;
    let insert = format!("INSERT INTO {}.orders VALUES ($1)", shop.schema);
    for (order, commits) in [(41_i32, false), (42, true)] {
        let mut transaction = connection.transaction().await.expect("begins");
        transaction.execute(&insert, &[&order]).await.expect("the order is written");
        let charge = shop.charge(order.unsigned_abs().into()).enqueue_in(&mut transaction).await;
        let charge = charge.expect("it is written");
        shop.sees_nothing().await;
        if !commits {
            transaction.rollback().await.expect("rolls back");
            shop.sees_nothing().await;
            continue;
        }
        transaction.commit().await.expect("commits");
        shop.sends(&charge.committed()).await;
    }
    shop.has_sent_it_once().await;
    // A repeat of the same call in the process is the same operation.
    assert_eq!(shop.charge(42).send().await.expect("on record").status(), 200);
    assert_eq!(shop.fake.ledger().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transaction_in_another_database_gets_an_error_that_names_the_right_one() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let mut connection = shop.connection().await;
    server.sql(&format!("DROP SCHEMA {} CASCADE", shop.schema));
    let mut transaction = connection.transaction().await.expect("begins");
    let error = shop.charge(42).enqueue_in(&mut transaction).await.expect_err("there is no such function");
    let text = format!("{error:#}");
    assert!(text.contains("this database has no outbox"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn plain_sql_enqueues_every_form_of_call_for_a_role_with_the_right_alone() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let schema = &shop.schema;
    let network = ScriptedTransport::new().status(200).status(200).status(200).status(200);
    let acme = Client::builder(steadfast::vendor::Keyed::new(
        steadfast::vendor::KeyedConfig::new("acme", "https://acme.test/api"),
        "secret",
    ))
    .store(Arc::clone(&shop.store))
    .transport(network.clone())
    .build()
    .expect("a client");
    let role = format!("{schema}_web");
    server.sql(&format!("CREATE ROLE {role} LOGIN"));
    let call = "SELECT {schema}.enqueue('acme', 'POST', '/pay', 'k-1', '{\"amount\": 7}')";
    assert!(shop.refused(&role, call).contains("permission denied for schema"), "no right to the schema");
    server.sql(&format!("GRANT USAGE ON SCHEMA {schema} TO {role}"));
    assert!(shop.refused(&role, call).contains("permission denied for function enqueue"), "nor to call");
    server.sql(&format!(
        "DO $$ DECLARE what regprocedure; BEGIN FOR what IN SELECT oid::regprocedure FROM pg_proc \
         WHERE pronamespace = '{schema}'::regnamespace AND proname LIKE 'enqueue%' \
         LOOP EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {role}', what); END LOOP; END $$"
    ));
    // A schema of the caller's in front of the path changes nothing.
    let as_role = |sql: &str| {
        let sql = format!("SET search_path = pg_temp, public; {}", sql.replace("{schema}", schema));
        server.sql_as(&role, "postgres", &sql).expect("it may")
    };
    assert_eq!(as_role(call), "1");
    as_role(
        "SELECT {schema}.enqueue_text('acme', 'POST', '/pay?a=1', 'k-2', 'amount=7&to=%C3%A9', \
         'application/x-www-form-urlencoded', query => 'b=2', headers => '{\"X-Tag\": [\"x\", \"y\"]}')",
    );
    as_role(
        "SELECT {schema}.enqueue_bytes('acme', 'PUT', '/blob', 'k-3', '\\x00ff', 'application/octet-stream', \
         on_unknown => 'resend', retention => '30 days', redact => '{card}')",
    );
    as_role("SELECT {schema}.enqueue('acme', 'POST', '/none', 'k-4')");
    as_role("SELECT {schema}.enqueue('acme', 'POST', '/later', 'k-5', after => '1 hour')");
    as_role("BEGIN; SELECT {schema}.enqueue('acme', 'POST', '/never', 'k-6'); ROLLBACK");
    assert!(shop.refused(&role, "SELECT count(*) FROM {schema}.outbox").contains("permission denied"));

    deliver(&acme).await;
    let mut sent: Vec<(String, String, Vec<u8>)> = network
        .requests()
        .iter()
        .map(|request| (request.method.to_string(), request.url.to_string(), request.body.to_vec()))
        .collect();
    sent.sort();
    let expected = |method: &str, path: &str, body: &[u8]| {
        (method.to_owned(), format!("https://acme.test/api{path}"), body.to_vec())
    };
    let json: Value =
        serde_json::from_slice(&sent.iter().find(|(_, url, _)| url.ends_with("/pay")).expect("sent").2)
            .expect("JSON");
    assert_eq!(json, serde_json::json!({"amount": 7}));
    assert!(sent.contains(&expected("POST", "/pay?a=1&b=2", b"amount=7&to=%C3%A9")), "{sent:?}");
    assert!(sent.contains(&expected("PUT", "/blob", &[0, 255])), "{sent:?}");
    assert!(sent.contains(&expected("POST", "/none", b"")), "{sent:?}");
    assert_eq!(sent.len(), 4);
    let tags = network.requests().iter().map(|sent| sent.headers.get_all("x-tag").iter().count()).max();
    assert_eq!(tags, Some(2));
    let all = shop.store.list(&Filter::default(), None, 10).await.expect("a store").rows;
    assert_eq!(all.len(), 5, "one waits for its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mistake_fails_the_writers_transaction_with_a_hint() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let long = "k".repeat(256);
    for (call, why) in [
        ("enqueue('', 'POST', '/x', 'k')", "vendor: give"),
        ("enqueue('stripe', 'post', '/x', 'k')", "method: give one in capital letters"),
        ("enqueue('stripe', 'POST', 'x', 'k')", "path: begin it with /"),
        ("enqueue('stripe', 'POST', '/x', '')", "key: give 1 to 255"),
        ("enqueue('stripe', 'POST', '/x', NULL)", "key: give 1 to 255"),
        ("enqueue('stripe', 'POST', '/x', E'a\\nb')", "key: give 1 to 255"),
        (&format!("enqueue('stripe', 'POST', '/x', '{long}')"), "key: give 1 to 255"),
        ("enqueue('stripe', 'POST', '/x', 'k', account => '')", "account: give"),
        ("enqueue('stripe', 'POST', '/x', 'k', headers => '[]')", "headers: give a JSON object"),
        (
            "enqueue('stripe', 'POST', '/x', 'k', on_unknown => 'retry')",
            "on_unknown: give by_method, dead_letter or resend",
        ),
        ("enqueue('stripe', 'POST', '/x', 'k', retention => '-1 day')", "retention: give a time above zero"),
        ("enqueue('stripe', 'POST', '/x', 'k', at => now(), after => '1 s')", "at, after: give one of them"),
        ("enqueue('stripe', 'POST', '/x', 'k', at => 'infinity')", "at: give a time that comes"),
        ("enqueue_text('stripe', 'POST', '/x', 'k', 'a=1', NULL)", "content_type: say what the body is"),
    ] {
        let text = shop.refused("postgres", &format!("SELECT {{schema}}.{call}"));
        assert!(text.contains("steadfast outbox: ") && text.contains(why), "{call}: {text}");
    }
    assert_eq!(shop.counts().await, (0, 0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_inadmissible_row_is_rejected_with_the_reason_and_blocks_no_other() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let form = "'amount=1000&currency=usd', 'application/x-www-form-urlencoded', account => 'test'";
    shop.charge(7).send().await.expect("sent");
    shop.sql(&format!(
        "SELECT {{schema}}.enqueue_text('stripe', 'POST', '/v1/charges', 'secret', {form}, \
         headers => '{{\"Authorization\": \"hunter2\"}}'); \
         SELECT {{schema}}.enqueue_text('stripe', 'POST', '/v1/charges', 'shape', {form}, headers => '{{\"A\": 1}}'); \
         SELECT {{schema}}.enqueue_text('stripe', 'POST', '/v1/customers', 'order-7/charge', 'name=Ann', \
         'application/x-www-form-urlencoded', account => 'test'); \
         INSERT INTO {{schema}}.outbox (vendor, account, path, key, redact) \
         VALUES ('stripe', 'test', '/v1/charges', 'raw', 'no json'); \
         SELECT {{schema}}.enqueue_text('stripe', 'POST', '/v1/charges', 'good', {form})"
    ));
    // Another request under a key that is taken, in the same route.
    shop.sql(
        "SELECT {schema}.enqueue_text('stripe', 'POST', '/v1/charges', 'order-7/charge', 'amount=5&currency=usd', \
         'application/x-www-form-urlencoded', account => 'test')",
    );
    shop.deliver().await;
    let rejected = shop.rejected().await;
    let keys: Vec<&str> = rejected.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["secret", "shape", "raw", "order-7/charge"], "{rejected:?}");
    assert!(rejected.iter().all(|(_, why)| !why.contains("hunter2")), "{rejected:?}");
    assert!(rejected[1].1.contains("must be a text") && rejected[2].1.contains("redact"), "{rejected:?}");
    assert_eq!(shop.fake.ledger().count(), 3, "the customer under the same key is of another route");
    let tally = shop.tally().await.expect("rejected rows");
    assert_eq!((tally.waiting, tally.rejected, tally.oldest), (0, 4, None));
    assert!(!shop.store.have_rows(&[account()]).await.expect("a store")[0], "nobody looks at them any more");

    // Corrected and set to waiting again.
    shop.sql(
        "UPDATE {schema}.outbox SET headers = '{}', rejected_at_ms = NULL, rejected = NULL WHERE key = 'secret'",
    );
    shop.deliver().await;
    assert_eq!(shop.fake.ledger().count(), 4);
}

/// An operation that came under its key since a row was written answers it, also when that one's time is over; and the
/// word for a call whose row waits.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn an_old_row_is_a_repeat_of_what_came_since_and_who_is_refused_is_told_of_a_row() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let enqueue = |key: &str| {
        shop.sql(&format!(
            "SELECT {{schema}}.enqueue_text('stripe', 'POST', '/v1/charges', '{key}', 'amount=1000&currency=usd', \
             'application/x-www-form-urlencoded', account => 'test')"
        ))
    };
    // Days pass.
    let pass = |days: u64| {
        let ms = days * 86_400_000;
        shop.sql(&format!(
            "UPDATE {{schema}}.outbox SET enqueued_at_ms = enqueued_at_ms - {ms}; \
             UPDATE {{schema}}.operation SET until_ms = until_ms - {ms}, wake_ms = wake_ms - {ms}, \
             claimed_at_ms = claimed_at_ms - {ms}, updated_at_ms = updated_at_ms - {ms}"
        ))
    };
    let purge = async || shop.store.purge(shop.clock.wall(), 100).await.expect("a store");
    enqueue("order-42/charge");
    shop.stripe.engage_kill_switch();
    let result = shop.charge(42).send().await.expect_err("it is held");
    assert_eq!((result.effect(), result.disposition()), (Effect::None, Disposition::Continues { at: None }));
    let result = shop.charge(43).send().await.expect_err("it is held");
    assert_eq!((result.effect(), result.disposition()), (Effect::None, Disposition::Ended));
    shop.stripe.release_kill_switch();

    shop.charge(42).send().await.expect("charged");
    pass(8);
    assert_eq!(purge().await, 0, "the record of a row's key stays");
    shop.deliver().await;
    assert_eq!(shop.counts().await, (0, 0, 1, 1));
    assert_eq!(shop.sql("SELECT fence FROM {schema}.operation"), "1", "the row was a repeat");
    // A record that a purge left once is purged within seconds afterwards.
    let mut removed = 0;
    while removed == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        removed = purge().await;
    }
    assert_eq!(removed, 1);

    // A row is no repeat of a record that had expired when the row was written.
    shop.charge(44).send().await.expect("charged");
    pass(8);
    enqueue("order-44/charge");
    assert_eq!(purge().await, 0);
    shop.deliver().await;
    // For the vendor no time passed: it replays the key.
    assert_eq!(shop.counts().await, (0, 0, 1, 2));
    let lives = "SELECT first_fence > 1 AND until_ms > claimed_at_ms FROM {schema}.operation JOIN {schema}.request USING (scope, key)";
    assert_eq!(shop.sql(lives), "t", "it is another life of the key");
    // Nothing was ever sent, however long no process came.
    enqueue("order-45/charge");
    pass(40);
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.rejected().await), (3, Vec::new()));
}

/// A row that is not committed yet was written while its record was there.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn a_record_stays_while_a_row_of_its_key_may_be_uncommitted() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let purge = async || shop.store.purge(shop.clock.wall(), 100).await.expect("a store");
    let expires = |ago_s: u64| {
        shop.sql(&format!(
            "UPDATE {{schema}}.operation SET until_ms = {{schema}}.store_now() - {ms}, wake_ms = {{schema}}.store_now() - {ms}",
            ms = ago_s * 1_000
        ))
    };
    shop.charge(42).send().await.expect("charged");
    let mut connection = shop.connection().await;
    let mut transaction = connection.transaction().await.expect("begins");
    shop.charge(42).enqueue_in(&mut transaction).await.expect("it is written");
    expires(60);
    assert_eq!(purge().await, 0, "the record may have a row");
    transaction.commit().await.expect("commits");
    assert_eq!(purge().await, 0, "it has one");
    shop.deliver().await;
    let lives = "SELECT max(fence) FROM {schema}.operation";
    assert_eq!(shop.sql(lives), "1", "the row was a repeat");
    let mut removed = 0;
    while removed == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        removed = purge().await;
    }

    // A transaction that is forgotten for longer blocks nothing.
    shop.charge(43).send().await.expect("charged");
    let mut forgotten = connection.transaction().await.expect("begins");
    shop.charge(44).enqueue_in(&mut forgotten).await.expect("it is written");
    expires(3_700);
    let mut removed = 0;
    while removed == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        removed = purge().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_dispatchers_admit_each_row_once() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    shop.sql(
        "SELECT count({schema}.enqueue_text('stripe', 'POST', '/v1/charges', 'order-' || nth, \
         'amount=1000&currency=usd', 'application/x-www-form-urlencoded', account => 'test')) \
         FROM generate_series(1, 250) AS nth",
    );
    let other = Arc::new(
        Postgres::builder(&server.url(&shop.schema)).expect("a URL").open().expect("the store opens"),
    );
    let stripes = [shop.stripe.clone(), client(&shop.clock, &shop.fake, &other)];
    let dispatching = stripes.map(|stripe| {
        tokio::spawn(async move {
            for _ in 0..10 {
                deliver(&stripe).await;
            }
        })
    });
    for dispatching in dispatching {
        dispatching.await.expect("no panic");
    }
    shop.deliver().await;
    assert_eq!(shop.counts().await, (0, 0, 250, 250));
    assert_eq!(shop.fake.ledger().duplicates(), Vec::<String>::new());
}

/// The claim and the row's removal are one commit, and a row that another process has locked is skipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_stays_is_not_on_record_and_a_locked_one_is_skipped() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let mut connection = shop.connection().await;
    let mut transaction = connection.transaction().await.expect("begins");
    shop.charge(42).enqueue_in(&mut transaction).await.expect("it is written");
    transaction.commit().await.expect("commits");
    shop.sql(
        "CREATE FUNCTION {schema}.keep() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'not now'; END $$; \
         CREATE TRIGGER keep BEFORE DELETE ON {schema}.outbox FOR EACH ROW EXECUTE FUNCTION {schema}.keep()",
    );
    shop.deliver().await;
    assert_eq!(shop.counts().await, (0, 1, 0, 0));
    shop.sql("DROP TRIGGER keep ON {schema}.outbox");

    let transaction = connection.transaction().await.expect("begins");
    let lock = format!("SELECT FROM {}.outbox FOR UPDATE", shop.schema);
    transaction.execute(&lock, &[]).await.expect("locked");
    shop.deliver().await;
    assert_eq!(shop.counts().await, (0, 1, 0, 0), "nobody waited for it");
    transaction.rollback().await.expect("rolls back");
    shop.deliver().await;
    assert_eq!(shop.counts().await, (0, 0, 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sealed_store_seals_outbox_rows_and_counts_them_for_their_key() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::with(server, |builder| builder.seal(SealKeys::new([7; 32])));
    let mut connection = shop.connection().await;
    let mut transaction = connection.transaction().await.expect("begins");
    shop.charge(42).enqueue_in(&mut transaction).await.expect("it is written");
    transaction.commit().await.expect("commits");
    let bodies = "SELECT body IS NULL, position('amount'::bytea IN sealed), headers FROM {schema}.outbox";
    assert_eq!(shop.sql(bodies), "t|0|{}");
    let other = Postgres::builder(&server.url(&shop.schema)).expect("a URL").seal(SealKeys::new([8; 32]));
    let refused = error_text(&other.open().expect_err("a key is missing"), StoreErrorKind::Sealed);
    assert!(refused.contains("1 of its operations"), "{refused}");
    shop.deliver().await;
    assert_eq!(shop.counts().await, (0, 0, 1, 1));
}

/// Removed rows are in the table's free space until then, and rows that SQL wrote are there in the clear.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wipe_rewrites_the_outbox_too() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let tables = "SELECT relname, relfilenode FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relname IN \
                  ('outbox', 'operation', 'request', 'outcome', 'sequenced', 'audit') ORDER BY 1";
    let before = shop.sql(tables);
    shop.store.sealing().expect("it has").wipe().await.expect("the store works");
    let after = shop.sql(tables);
    assert_eq!((before.lines().count(), after.lines().count()), (6, 6));
    for (before, after) in before.lines().zip(after.lines()) {
        assert_ne!(before, after, "it was not written anew");
    }
}

/// A page ends with the row that reaches the limit of bytes, and the next begins behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn large_rows_make_short_pages_and_a_body_over_the_limit_is_not_read() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    shop.sql(
        "SELECT count({schema}.enqueue_text('stripe', 'POST', '/v1/charges', 'k-' || nth, repeat('a', nth * 1000000), \
         'text/plain', account => 'test')) FROM generate_series(1, 4) AS nth",
    );
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = shop.store.waiting(&account(), after.as_deref(), 100, 3_500_000).await.expect("a store");
        pages.push(page.rows.iter().map(|row| (row.body.len(), row.problem.is_some())).collect::<Vec<_>>());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let flat: Vec<_> = pages.concat();
    assert_eq!(flat, [(1_000_000, false), (2_000_000, false), (3_000_000, false), (0, true)]);
    assert_eq!(pages[0].len(), 3, "{pages:?}");
}

/// One sequence from SQL, in transactions of its own and several in one; two processes admit and deliver it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_of_a_sequence_are_delivered_in_the_order_of_their_commits() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let answer = steadfast::transport::Answer::new(http::StatusCode::OK, http::HeaderMap::new(), "{}");
    let network = ScriptedTransport::new().always(answer);
    let other = Postgres::builder(&server.url(&shop.schema)).expect("a URL").open().expect("the store opens");
    let clients = [Arc::clone(&shop.store), Arc::new(other)].map(|store| {
        Client::builder(Stripe::new("sk_test_123"))
            .store(store)
            .clock(shop.clock.clone())
            .transport(network.clone())
            .build()
            .expect("a client")
    });
    let put = |nth: u32| {
        format!(
            "SELECT {{schema}}.enqueue_text('stripe', 'POST', '/v1/charges', 'order-{nth}', 'amount={nth}', \
             'application/x-www-form-urlencoded', account => 'test', sequence => 'customer-7');"
        )
    };
    // An earlier number that is committed later comes later.
    let mut connection = shop.connection().await;
    let late = connection.transaction().await.expect("begins");
    late.batch_execute(&put(61).replace("{schema}", &shop.schema)).await.expect("it is written");
    for first in (1..=60).step_by(20) {
        let several: String = (first..first + 10).map(put).collect();
        shop.sql(&format!("BEGIN; {several} COMMIT"));
        (first + 10..first + 20).for_each(|nth| drop(shop.sql(&put(nth))));
    }
    let rounds = async |times: usize| {
        for _ in 0..times {
            tokio::join!(deliver(&clients[0]), deliver(&clients[1]));
        }
    };
    rounds(4).await;
    late.commit().await.expect("commits");
    rounds(4).await;
    let amount = |body: &[u8]| String::from_utf8_lossy(body).split('&').next().unwrap_or_default().to_owned();
    let sent: Vec<String> = network.requests().iter().map(|request| amount(&request.body)).collect();
    let expected: Vec<String> = (1..=61).map(|nth| format!("amount={nth}")).collect();
    assert_eq!(sent, expected);
    let refused = shop.refused("postgres", &put(1).replace("'customer-7'", "''"));
    assert!(refused.contains("sequence: give 1 to 255"), "{refused}");
    let refused = shop.refused("postgres", &put(1).replace("'customer-7'", "'a', on_dead_letter => 'x'"));
    assert!(refused.contains("on_dead_letter: give hold or skip"), "{refused}");
}

/// Which one of a sequence comes next is asked of the outbox, and not of who looks: a second dispatcher admits nothing out
/// of turn while the first one has a row locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_waits_for_earlier_rows_of_its_sequence() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let put = |key: &str, rest: &str| {
        shop.sql(&format!(
            "SELECT {{schema}}.enqueue_text('stripe', 'POST', '/v1/charges', '{key}', 'amount=1000&currency=usd', \
             'application/x-www-form-urlencoded', account => 'test', {rest})"
        ));
    };
    put("a-1", "sequence => 'a'");
    put("a-2", "sequence => 'a'");
    put("free", "sequence => 'b'");
    let mut connection = shop.connection().await;
    let first = connection.transaction().await.expect("begins");
    let lock = format!("SELECT FROM {}.outbox WHERE key = 'a-1' FOR UPDATE", shop.schema);
    first.batch_execute(&lock).await.expect("locked");
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.counts().await.1), (1, 2), "only the other sequence's");
    first.commit().await.expect("commits");
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.counts().await.1), (3, 0));
}

/// Also by the role of a service, which admits nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueued_operation_comes_behind_the_rows_of_its_sequence() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let put = |order: u64| {
        shop.sql(&format!(
            "SELECT {{schema}}.enqueue_text('stripe', 'POST', '/v1/charges', 'order-{order}/charge', \
             'amount=1000&currency=usd', 'application/x-www-form-urlencoded', account => 'test', sequence => 's')"
        ))
    };
    put(3);
    for order in [1, 1] {
        let handle = shop.charge(order).sequence("s").enqueue().await.expect("it is accepted");
        let result = handle.wait(Duration::ZERO).await.expect_err("nobody has recorded it");
        assert!(handle.is_new() && result.is_in_progress(), "{result}");
    }
    put(2);
    shop.charge(4).sequence("t").enqueue().await.expect("nothing is ahead of it");
    assert_eq!(shop.counts().await, (0, 4, 1, 0));
    shop.deliver().await;
    let rows = shop.store.list(&Filter::default(), None, 10).await.expect("a store").rows;
    let keys: Vec<String> = rows.into_iter().map(|row| row.id.key.to_string()).collect();
    assert_eq!(keys, ["order-4/charge", "order-3/charge", "order-1/charge", "order-2/charge"]);
    assert_eq!(shop.counts().await, (0, 0, 4, 4));
    let result = shop.charge(1).sequence("s").enqueue().await.expect("it is on record");
    assert!(!result.is_new());
}

/// Another dispatcher has locked the row to record it. Earlier, the handle's error was that there is no such
/// operation, and it was then delivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_waits_for_a_row_that_another_dispatcher_is_recording() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    // On the machine's clock: the test's clock does not wait for another session.
    let stripe = Client::builder(Stripe::new("sk_test_123"))
        .store(Arc::clone(&shop.store))
        .transport(shop.fake.transport())
        .build()
        .expect("a client");
    let mut connection = shop.connection().await;
    let mut transaction = connection.transaction().await.expect("begins");
    let charge = charge(&stripe, 42).enqueue_in(&mut transaction).await.expect("it is written");
    transaction.commit().await.expect("commits");
    let schema = shop.schema.clone();
    let locked = format!("BEGIN; SELECT FROM {schema}.outbox FOR UPDATE; SELECT pg_sleep(0.5); ROLLBACK");
    let other = tokio::task::spawn_blocking(move || server.sql(&locked));
    server.until_one_waits(ASLEEP, &schema);
    charge.committed().cancel("not paid").await.expect("nobody has sent it");
    other.await.expect("no panic");
    shop.deliver().await;
    let (_, rows, _, charges) = shop.counts().await;
    assert_eq!((rows, charges), (0, 0));
    let audited = "SELECT count(*) FROM {schema}.audit WHERE action = '\"cancel\"' AND why = 'not paid'";
    assert_eq!(shop.sql(audited), "1");
}

/// A program in another language reads the results that it waits for, and is notified when to read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_operations_are_notified_to_other_languages() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let url = server.url(&shop.schema);
    let (plain, _) = url.split_once("&schema=").expect("a URL of the rig");
    let (listener, mut connection) = tokio_postgres::connect(plain, NoTls).await.expect("the server answers");
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let tokio_postgres::AsyncMessage::Notification(message) = message {
                let _ = sender.send(message.payload().to_owned());
            }
        }
    });
    listener.batch_execute(&format!("LISTEN steadfast_{}", shop.schema)).await.expect("listens");
    shop.charge(42).send().await.expect("charged");
    shop.charge(43).enqueue().await.expect("it is recorded");
    shop.deliver().await;
    let ended = loop {
        // By the machine's clock: the server notifies within a moment.
        let next = tokio::time::timeout(Duration::from_secs(20), receiver.recv()).await.expect("in time");
        let next = next.expect("it goes on");
        if let Some(names) = next.strip_prefix("ended ") {
            break names.to_owned();
        }
    };
    let scope = "default/stripe/test/POST /v1/charges";
    assert_eq!(ended, format!(r#"[["{scope}","order-43/charge"]]"#), "whoever sends has the answer");
    let seen = "SELECT string_agg(key || ' ' || outcome || ' ' || effect || ' ' || status, ', ' ORDER BY key) \
                FROM {schema}.ended WHERE scope = 'default/stripe/test/POST /v1/charges'";
    let expected = "order-42/charge succeeded applied 200, order-43/charge succeeded applied 200";
    assert_eq!(shop.sql(seen), expected);
}

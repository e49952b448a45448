//! The outbox through sqlx: a transaction, a connection, a connection of a pool, and through a pooler.

use std::path::Path;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::Shop;
use support::pooler::Pooler;
use support::server::{self, Server};

fn options(directory: &Path, port: u16) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .socket(directory)
        .port(port)
        .username("postgres")
        .database("postgres")
        // PgBouncer refuses a parameter of a session that it does not know.
        .extra_float_digits(None)
}

fn to(server: &Server) -> PgConnectOptions {
    options(server.directory(), server.port())
}

async fn pool(options: PgConnectOptions) -> PgPool {
    PgPoolOptions::new().max_connections(2).connect_with(options).await.expect("connects")
}

async fn order(shop: &Shop, connection: &mut PgConnection, number: i32) {
    let insert = format!("INSERT INTO {}.orders VALUES ($1)", shop.schema);
    // As a service behind a pooler does.
    let insert = sqlx::query(AssertSqlSafe(insert)).persistent(false).bind(number);
    insert.execute(connection).await.expect("the order is written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlx_sends_a_committed_call_once_and_a_rolled_back_one_never() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let pool = pool(to(server)).await;
    for (number, commits) in [(41, false), (42, true)] {
        let mut transaction = pool.begin().await.expect("begins");
        order(&shop, &mut transaction, number).await;
        let charge = shop.charge(number.unsigned_abs().into()).enqueue_in(&mut transaction).await;
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
    // By sqlx it is the same request as by the crate.
    assert_eq!(shop.charge(42).send().await.expect("on record").status(), 200);
    assert_eq!(shop.fake.ledger().count(), 1);
    pool.close().await;
}

/// Any executor of sqlx, in a transaction or outside: outside, the call is committed by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlx_connections_and_savepoints_take_a_call() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let pool = pool(to(server)).await;

    let mut connection = PgConnection::connect_with(&to(server)).await.expect("connects");
    sqlx::query("BEGIN").execute(&mut connection).await.expect("begins");
    shop.charge(1).enqueue_in(&mut connection).await.expect("it is written");
    assert_eq!(shop.counts().await.1, 0, "nobody else sees it");
    sqlx::query("COMMIT").execute(&mut connection).await.expect("commits");
    assert_eq!(shop.counts().await.1, 1);
    shop.charge(2).enqueue_in(&mut connection).await.expect("a transaction of its own");
    assert_eq!(shop.counts().await.1, 2);

    let mut pooled = pool.acquire().await.expect("a connection");
    shop.charge(3).enqueue_in(&mut pooled).await.expect("it is written");
    drop(pooled);
    assert_eq!(shop.counts().await.1, 3);

    let mut transaction = pool.begin().await.expect("begins");
    shop.charge(4).enqueue_in(&mut *transaction).await.expect("it is written");
    let mut savepoint = transaction.begin().await.expect("begins");
    shop.charge(5).enqueue_in(&mut savepoint).await.expect("it is written");
    savepoint.rollback().await.expect("rolls back to it");
    transaction.commit().await.expect("commits");

    // A future that is dropped, and its transaction with it.
    let mut transaction = pool.begin().await.expect("begins");
    order(&shop, &mut transaction, 6).await;
    drop(shop.charge(6).enqueue_in(&mut transaction));
    drop(transaction);

    shop.deliver().await;
    assert_eq!(shop.counts().await, (0, 0, 4, 4));
    let mut keys: Vec<String> =
        shop.sql("SELECT key FROM {schema}.operation").lines().map(str::to_owned).collect();
    keys.sort();
    assert_eq!(keys, ["order-1/charge", "order-2/charge", "order-3/charge", "order-4/charge"]);
    pool.close().await;
}

/// In a future that may move between threads, as in a handler of axum; every kind of value works.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlx_enqueues_from_any_thread_with_every_option() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let pool = pool(to(server)).await;
    let call = shop
        .charge(1)
        .after(Duration::from_secs(3_600))
        .retention(Duration::from_secs(30 * 86_400))
        .redact(["amount"])
        .header(http::HeaderName::from_static("x-tag"), "é");
    let handler = tokio::spawn(async move {
        let mut transaction = pool.begin().await.expect("begins");
        call.enqueue_in(&mut transaction).await.expect("it is written");
        transaction.commit().await.expect("commits");
        pool.close().await;
    });
    handler.await.expect("no panic");
    let row = "SELECT convert_from(body, 'UTF8'), redact, retention_ms, due_ms > {schema}.store_now() + 3000000, \
               headers::json ->> 'x-tag' FROM {schema}.outbox";
    assert_eq!(shop.sql(row), "amount=1000&currency=usd|[\"amount\"]|2592000000|t|é");
    shop.deliver().await;
    assert_eq!(shop.counts().await, (0, 0, 1, 0), "on record, and not due");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlx_reports_a_missing_outbox_with_the_drivers_error_as_source() {
    let Some(server) = server::shared() else { return };
    let shop = Shop::open(server);
    let mut connection = PgConnection::connect_with(&to(server)).await.expect("connects");
    server.sql(&format!("DROP SCHEMA {} CASCADE", shop.schema));
    let error = shop.charge(1).enqueue_in(&mut connection).await.expect_err("no outbox");
    assert!(error.is_store() && error.to_string().contains("has no outbox"), "{error}");
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<sqlx::Error>());
    assert!(matches!(source, Some(sqlx::Error::Database(_))), "{error:#}");
}

/// Two clients in turn on one connection of a pooler in transaction mode: a statement with a name would exist
/// already, or not any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlx_enqueues_through_a_pooler_in_transaction_mode() {
    let Some(server) = server::shared() else { return };
    let Some(pooler) = Pooler::start(server, &["default_pool_size = 1"]) else { return };
    let shop = Shop::open(server);
    let (directory, port) = pooler.socket();
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(PgConnection::connect_with(&options(directory, port)).await.expect("connects"));
    }
    for round in 0..3 {
        for (nth, client) in clients.iter_mut().enumerate() {
            let number = round * 2 + i32::try_from(nth).expect("two");
            let mut transaction = client.begin().await.expect("begins");
            order(&shop, &mut transaction, number).await;
            let charge = shop.charge(number.unsigned_abs().into());
            charge.enqueue_in(&mut transaction).await.expect("it is written");
            transaction.commit().await.expect("commits");
        }
    }
    shop.deliver().await;
    assert_eq!(shop.counts().await, (6, 0, 6, 6));
}

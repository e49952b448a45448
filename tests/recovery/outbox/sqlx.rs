//! The same through sqlx: a connection, a transaction, a connection of a pool.

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Connection as _, SqliteConnection, SqlitePool};

use super::bench::Shop;

async fn pool(shop: &Shop) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(shop.path());
    SqlitePoolOptions::new().max_connections(2).connect_with(options).await.expect("connects")
}

async fn order(connection: &mut SqliteConnection, number: i64) {
    let insert = sqlx::query("INSERT INTO orders (number) VALUES (?1)").bind(number);
    insert.execute(connection).await.expect("the order is written");
}

#[tokio::test]
async fn what_is_committed_is_sent_once_and_what_is_rolled_back_never() {
    let shop = Shop::open();
    let pool = pool(&shop).await;
    let mut transaction = pool.begin().await.expect("begins");
    order(&mut transaction, 1).await;
    let charge = shop.charge(1).enqueue_in(&mut transaction).await.expect("it is written");
    assert_eq!(shop.waiting(), 0, "nobody else sees it");
    transaction.commit().await.expect("commits");
    let charge = charge.committed();

    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.expect("begins");
    order(&mut transaction, 2).await;
    shop.charge(2).enqueue_in(&mut *transaction).await.expect("it is written");
    transaction.rollback().await.expect("rolls back");

    // A future that is dropped, and its transaction with it.
    let mut transaction = pool.begin().await.expect("begins");
    order(&mut transaction, 3).await;
    drop(shop.charge(3).enqueue_in(&mut transaction));
    drop(transaction);

    let mut connection = pool.acquire().await.expect("a connection");
    shop.charge(4).enqueue_in(&mut connection).await.expect("a transaction of its own");
    drop(connection);

    shop.deliver().await;
    assert_eq!(charge.wait(std::time::Duration::ZERO).await.expect("it is done").status(), 200);
    assert_eq!((shop.count("orders"), shop.waiting(), shop.fake.ledger().count()), (1, 0, 2));
    pool.close().await;
}

/// In a future that may move between threads, as in a handler of axum.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_may_be_awaited_on_any_thread() {
    let shop = Shop::open();
    let pool = pool(&shop).await;
    let call = shop.charge(1);
    let handler = tokio::spawn(async move {
        let mut transaction = pool.begin().await.expect("begins");
        order(&mut transaction, 1).await;
        call.enqueue_in(&mut transaction).await.expect("it is written");
        transaction.commit().await.expect("commits");
        pool.close().await;
    });
    handler.await.expect("no panic");
    shop.deliver().await;
    assert_eq!((shop.count("orders"), shop.fake.ledger().count()), (1, 1));
}

#[tokio::test]
async fn a_database_without_an_outbox_is_told_and_the_drivers_error_is_behind_it() {
    let shop = Shop::open();
    let mut elsewhere = SqliteConnection::connect("sqlite::memory:").await.expect("opens");
    let error = shop.charge(1).enqueue_in(&mut elsewhere).await.expect_err("no outbox");
    assert!(error.is_store() && error.to_string().contains("has no outbox"), "{error}");
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<sqlx::Error>());
    assert!(matches!(source, Some(sqlx::Error::Database(_))), "{error:#}");
}

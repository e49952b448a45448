//! A sealed store: what a client puts in the outbox is sealed too.
#![cfg(feature = "seal")]

use std::fs;
use std::sync::Arc;

use steadfast::Obtained;
use steadfast::store::{SealKeys, Sqlite, Store as _, StoreErrorKind, reseal};

use super::bench::{Shop, client};

fn keys() -> SealKeys {
    SealKeys::new([7; 32])
}

fn sealed(keys: SealKeys) -> Shop {
    Shop::with(move |path| Sqlite::builder(path).seal(keys.clone()).open().expect("a new file"))
}

fn holds(shop: &Shop, text: &str) -> bool {
    let files = ["shop.db", "shop.db-wal"].map(|name| shop.path().with_file_name(name));
    let has = |bytes: Vec<u8>| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    files.iter().filter_map(|file| fs::read(file).ok()).any(has)
}

#[tokio::test]
async fn nothing_of_the_request_is_readable_and_it_is_sent_as_it_was() {
    let shop = sealed(keys());
    let call = || shop.charge(42).query(&[("description", "hunter2")]).header("X-Note", "hunter3");
    call().blocking_enqueue_in(&shop.connection()).expect("it is written");
    for secret in ["amount", "hunter2", "hunter3"] {
        assert!(!holds(&shop, secret), "{secret}");
    }
    assert!(
        holds(&shop, "/v1/charges") && holds(&shop, "order-42/charge"),
        "a scope and a key are never sealed"
    );
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting()), (1, 0));
    assert_eq!(call().send().await.expect("it is done").obtained(), Obtained::Replayed);
    assert!(!holds(&shop, "hunter2"));
}

/// A row that SQL wrote is in the clear, and sealed from its admission on.
#[tokio::test]
async fn a_row_of_sql_is_sealed_once_it_is_an_operation() {
    let shop = sealed(keys());
    shop.sql(
        "INSERT INTO steadfast_outbox (vendor, account, path, key, content_type, body) VALUES ('stripe', 'test', \
         '/v1/charges', 'order-42/charge', 'application/x-www-form-urlencoded', 'amount=1000&currency=usd')",
    );
    shop.deliver().await;
    let request: Vec<u8> =
        shop.connection().query_row("SELECT request FROM operation", [], |row| row.get(0)).expect("a row");
    assert!(!request.windows(6).any(|window| window == b"amount"));
    assert_eq!(shop.charge(42).send().await.expect("it is done").obtained(), Obtained::Replayed);
}

/// During a rotation: a process that has the older key alone leaves the row to the others, and admits its own.
#[tokio::test]
async fn a_row_is_left_to_whoever_has_its_key() {
    let old = SealKeys::new([1; 32]);
    let shop = sealed(old.clone());
    let both = SealKeys::new([2; 32]).with_older([1; 32]);
    let newer = Arc::new(Sqlite::builder(shop.path()).seal(both).open().expect("opens"));
    let renewed = client(&shop.clock, &shop.fake, newer);
    let charge = super::bench::charge(&renewed, 1);
    charge.blocking_enqueue_in(&shop.connection()).expect("it is written");
    shop.place(2);
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting(), shop.rejected().await.len()), (1, 1, 0));
    let error = Sqlite::builder(shop.path()).seal(old).open().expect_err("a row needs the newer key");
    assert_eq!(error.kind(), StoreErrorKind::Sealed);
    super::bench::deliver(&renewed).await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting()), (2, 0));
    let resealed = reseal(renewed.store(), false).await.expect("a store that seals");
    assert_eq!(resealed.remaining, 0);
}

/// A rotation ends with the rows that wait too: afterwards nothing needs the older key.
#[tokio::test]
async fn a_row_that_waits_is_sealed_anew() {
    let old = SealKeys::new([1; 32]);
    let shop = sealed(old);
    for order in 1..=40 {
        shop.place(order);
    }
    let both = SealKeys::new([2; 32]).with_older([1; 32]);
    let renewed = Arc::new(Sqlite::builder(shop.path()).seal(both).open().expect("opens"));
    let dry = reseal(&*renewed, true).await.expect("a store that seals");
    assert_eq!((dry.matched, dry.resealed, dry.remaining), (40, 0, 40));
    let resealed = reseal(&*renewed, false).await.expect("a store that seals");
    assert_eq!((resealed.matched, resealed.resealed, resealed.remaining), (40, 40, 0));
    let newer =
        Sqlite::builder(shop.path()).seal(SealKeys::new([2; 32])).open().expect("no row needs the older key");
    let client = client(&shop.clock, &shop.fake, Arc::new(newer));
    super::bench::deliver(&client).await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting()), (40, 0));
}

/// A row that somebody put under another key does not open: it is rejected, and never another call's request.
#[tokio::test]
async fn a_sealed_row_that_was_moved_is_rejected() {
    let shop = sealed(keys());
    shop.place(1);
    shop.sql("UPDATE steadfast_outbox SET key = 'order-2/charge'");
    shop.deliver().await;
    let rejected = shop.rejected().await;
    assert_eq!((rejected.len(), shop.fake.ledger().count()), (1, 0));
    assert!(rejected[0].why.contains("cannot be unsealed"), "{}", rejected[0].why);
    assert!(shop.store.outbox().is_some());
}

//! The word of a caller's own transaction on the call: commit, rollback, a crash before either.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use support::rig::Rig;

use steadfast::clock::{Clock as _, SystemClock};
use steadfast::dead_letter::DeadLetterError;
use steadfast::outbox::rusqlite::Connection;
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::Answer;
use steadfast::vendor::Stripe;
use steadfast::{Client, Disposition, Effect};

use super::bench::{Shop, charge, insert};

#[tokio::test]
async fn what_is_committed_is_sent_once() {
    let shop = Shop::open();
    let mut connection = shop.connection();
    let transaction = connection.transaction().expect("begins");
    insert(&transaction, 42);
    let charge = shop.charge(42).blocking_enqueue_in(&transaction).expect("it is written");
    assert_eq!(charge.id().to_string(), "default/stripe/test/POST /v1/charges key order-42/charge");
    transaction.commit().expect("commits");
    assert_eq!((shop.count("orders"), shop.waiting(), shop.operations().await.len()), (1, 1, 0));

    let charge = charge.committed();
    let early = charge.wait(Duration::ZERO).await.expect_err("nobody has recorded it");
    assert!(early.is_in_progress(), "{early}");
    assert_eq!((early.effect(), early.disposition()), (Effect::None, Disposition::Continues { at: None }));
    shop.deliver().await;
    let reply = charge.wait(Duration::ZERO).await.expect("it is done");
    assert_eq!((reply.status().as_u16(), reply.wire_key()), (200, Some(charge.wire_key())));
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting()), (1, 0));
}

#[tokio::test]
async fn what_is_rolled_back_was_never_there() {
    let shop = Shop::open();
    let mut connection = shop.connection();
    let transaction = connection.transaction().expect("begins");
    insert(&transaction, 42);
    shop.charge(42).blocking_enqueue_in(&transaction).expect("it is written");
    transaction.rollback().expect("rolls back");
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.operations().await.len()), (0, 0));
    let other = shop.stripe.post("/v1/charges").key("order-42/charge");
    other.form(&[("amount", "900"), ("currency", "usd")]).send().await.expect("the key is free");
}

/// A savepoint that is undone takes its call along and leaves the others.
#[tokio::test]
async fn a_savepoint_decides_for_its_own_calls() {
    let shop = Shop::open();
    let mut connection = shop.connection();
    let mut transaction = connection.transaction().expect("begins");
    shop.charge(1).blocking_enqueue_in(&transaction).expect("it is written");
    let mut savepoint = transaction.savepoint().expect("begins");
    shop.charge(2).enqueue_in(&mut savepoint).await.expect("it is written");
    savepoint.rollback().expect("rolls back");
    drop(savepoint);
    shop.charge(3).enqueue_in(&mut transaction).await.expect("it is written");
    transaction.commit().expect("commits");
    shop.charge(4).enqueue_in(&mut connection).await.expect("a transaction of its own");
    shop.deliver().await;
    let mut keys: Vec<String> = shop.operations().await.into_iter().map(|it| it.id.key.to_string()).collect();
    keys.sort();
    assert_eq!(keys, ["order-1/charge", "order-3/charge", "order-4/charge"]);
}

/// A client in real time, and the requests that it sent. A dispatcher beside an open transaction waits in SQLite, which
/// knows no other time; a clock of the test would run away meanwhile.
fn in_real_time(shop: &Shop) -> (Client, ScriptedTransport) {
    let answer = Answer::new(StatusCode::OK, HeaderMap::new(), "{}");
    let transport = ScriptedTransport::new().always(answer);
    let builder = Client::builder(Stripe::new("sk_test_123")).store(Arc::clone(&shop.store));
    (builder.transport(transport.clone()).build().expect("a client"), transport)
}

const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_dispatcher_sends_after_the_commit_and_not_before() {
    let shop = Shop::open();
    let (stripe, transport) = in_real_time(&shop);
    let _dispatcher = stripe.keep_recovering(Duration::from_millis(20));
    let mut connection = shop.connection();
    let transaction = connection.transaction().expect("begins");
    let charge = charge(&stripe, 42).blocking_enqueue_in(&transaction).expect("it is written");
    for _ in 0..10 {
        stripe.wake();
        std::thread::park_timeout(Duration::from_millis(20));
        assert!(transport.requests().is_empty());
    }
    transaction.commit().expect("commits");
    charge.committed().wait(LONG).await.expect("it is done");
    assert_eq!(transport.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatcher_of_the_process_begins_when_it_is_told_of_the_commit() {
    let shop = Shop::open();
    let (stripe, transport) = in_real_time(&shop);
    // It looks once a day, and begins with a look.
    let _dispatcher = stripe.keep_recovering(Duration::from_secs(86_400));
    for order in 0..3 {
        let charge = charge(&stripe, order).blocking_enqueue_in(&shop.connection()).expect("it is written");
        charge.committed().wait(LONG).await.expect("it is done");
    }
    assert_eq!(transport.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatcher_that_nobody_tells_looks() {
    let shop = Shop::open();
    let real = SystemClock::new();
    let (stripe, transport) = in_real_time(&shop);
    let _dispatcher = stripe.keep_recovering(Duration::from_millis(20));
    for order in 0..3 {
        let written = charge(&stripe, order).blocking_enqueue_in(&shop.connection()).expect("it is written");
        drop(written);
        while shop.waiting() > 0 {
            real.sleep_until(real.now().plus(Duration::from_millis(5))).await;
        }
        let done = charge(&stripe, order).enqueue().await.expect("it is on record");
        assert!(!done.is_new());
        done.wait(LONG).await.expect("it is done");
    }
    assert_eq!(transport.requests().len(), 3);
}

#[tokio::test]
async fn what_is_for_later_is_not_sent_before() {
    let shop = Shop::open();
    let hour = Duration::from_secs(3_600);
    let later = shop.charge(42).after(hour).blocking_enqueue_in(&shop.connection()).expect("it is written");
    let later = later.committed();
    shop.clock.advance(Duration::from_secs(60));
    shop.deliver().await;
    assert_eq!((shop.waiting(), shop.fake.ledger().count()), (0, 0));
    let left = later.wait(Duration::ZERO).await.expect_err("not yet").retry_at();
    assert_eq!(left, Some(shop.clock.wall().plus(hour - Duration::from_secs(60)).into()));
    shop.clock.advance(hour);
    shop.deliver().await;
    assert_eq!(shop.fake.ledger().count(), 1);
}

#[tokio::test]
async fn a_call_that_waits_in_the_outbox_is_cancelled() {
    let shop = Shop::open();
    let charge = shop.charge(42).blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
    charge.cancel("the order was withdrawn").await.expect("nobody sends it");
    shop.deliver().await;
    let error = charge.wait(Duration::ZERO).await.expect_err("it is closed");
    assert_eq!((error.effect(), shop.fake.ledger().count()), (Effect::None, 0));
    let again = charge.cancel("again").await.expect_err("it has ended");
    assert!(matches!(again, DeadLetterError::Refused { .. }), "{again}");
}

/// However many rows wait before it: it is on record that it is closed.
#[tokio::test]
async fn a_call_behind_more_rows_than_are_read_at_once_is_closed_on_record() {
    let shop = Shop::open();
    let mut connection = shop.connection();
    let transaction = connection.transaction().expect("begins");
    for order in 0..100 {
        shop.charge(order).blocking_enqueue_in(&transaction).expect("it is written");
    }
    let last = shop.charge(100).blocking_enqueue_in(&transaction).expect("it is written");
    transaction.commit().expect("commits");
    let last = last.committed();
    last.cancel("the order was withdrawn").await.expect("nobody sends it");
    let error = last.wait(Duration::ZERO).await.expect_err("it is closed");
    assert!(error.is_dead_letter() && error.effect() == Effect::None, "{error}");
}

/// The record of last month is still there: no purge has come by. It is not the outcome of what is in the outbox now.
#[tokio::test]
async fn the_outcome_of_an_earlier_life_is_not_that_of_the_row() {
    let shop = Shop::open();
    let first = shop.charge(42).blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
    shop.deliver().await;
    assert_eq!(first.wait(Duration::ZERO).await.expect("paid").status(), 200);
    // In steps that a store in use sees, or it would doubt the time.
    for _ in 0..32 {
        shop.clock.advance(Duration::from_secs(24 * 3600));
        shop.stripe.recover(1).await.expect("the store works");
    }
    let next = shop.charge(42).blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
    // Nor is who has waited since last month told that nothing was paid.
    for (told, effect) in [(next, Effect::None), (first, Effect::Unknown)] {
        let error = told.wait(Duration::ZERO).await.expect_err("it is in the outbox");
        assert!(error.is_in_progress(), "{error}");
        assert_eq!(error.effect(), effect);
    }
    assert_eq!(shop.fake.ledger().count(), 1);
}

#[tokio::test]
async fn a_mistake_is_told_at_once_and_nothing_is_written() {
    let shop = Shop::open();
    let connection = shop.connection();
    let post = || shop.stripe.post("/v1/charges").key("order-42");
    for (call, code) in [
        (shop.stripe.post("/v1/../charges").key("order-42"), "VALIDATION.path"),
        (post().key(""), "VALIDATION.key"),
        (post().header("Authorization", "Bearer sk_live_1"), "VALIDATION.header"),
        (post().header("Idempotency-Key", "mine"), "VALIDATION.header"),
        (post().header("X-Name", &b"\xff\xfe"[..]), "VALIDATION.header"),
        (post().bytes(vec![0; 17 * 1024 * 1024]), "VALIDATION.body"),
        (post().retention(Duration::from_secs(1)), "VALIDATION.retention"),
        (post().supersedes("order-42"), "VALIDATION.key"),
        (post().sequence("customer\u{e9}"), "VALIDATION.sequence"),
        (post().header("Host", "evil.example"), "VALIDATION.header"),
        (post().backoff(steadfast::policy::Backoff::none()), "VALIDATION.policy"),
    ] {
        let error = call.blocking_enqueue_in(&connection).expect_err(code);
        assert_eq!((error.code(), error.effect()), (code, Effect::None), "{error}");
    }
    assert_eq!(shop.count("steadfast_outbox"), 0);
}

#[tokio::test]
async fn a_transaction_elsewhere_is_told_from_the_stores_own_file() {
    let shop = Shop::open();
    let elsewhere = Connection::open_in_memory().expect("opens");
    let error = shop.charge(42).blocking_enqueue_in(&elsewhere).expect_err("no outbox");
    assert!(error.is_store() && error.effect() == Effect::None, "{error}");
    let said = error.to_string();
    assert!(
        said.contains("this database has no outbox: the transaction must be in the store's own file"),
        "{said}"
    );

    let forgetful = Rig::of(Stripe::new("sk_test_123")).clock(&shop.clock).client();
    let error = charge(&forgetful, 42).blocking_enqueue_in(&elsewhere).expect_err("no store of rows");
    assert!(error.is_validation() && error.to_string().contains("has no outbox"), "{error}");
}

/// Nobody may enqueue a second vendor call by sending the key that is in the outbox; and a row whose key was sent
/// meanwhile finds the operation.
#[tokio::test]
async fn a_row_whose_key_was_sent_meanwhile_is_that_operation() {
    let shop = Shop::open();
    shop.place(42);
    shop.charge(42).send().await.expect("it is sent");
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting(), shop.operations().await.len()), (1, 0, 1));
    shop.place(42 + 1);
    shop.deliver().await;
    shop.sql("DELETE FROM orders");
    shop.place(42 + 1);
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting(), shop.operations().await.len()), (2, 0, 2));
}

//! Rows in a sequence: recorded in the order of their commits, and delivered one at a time.

use std::sync::Arc;

use support::rig::Rig;

use steadfast::store::Sqlite;
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::{Answer, Request, SendErrorKind};
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Disposition, Effect};
use steadfast_core::store::outbox::Outbox;

use super::bench::{Shop, account, deliver};

/// Answers well, but for bodies with `amount=0`: nobody can connect for those.
fn network() -> ScriptedTransport {
    ScriptedTransport::new().always_with(|request| match amount(request) {
        "amount=0" => Err(SendErrorKind::Connect),
        _ => Ok(Answer::new(http::StatusCode::OK, http::HeaderMap::new(), "{\"id\":\"ch_1\"}")),
    })
}

fn client(shop: &Shop, store: Arc<Sqlite>, network: &ScriptedTransport) -> Client {
    Rig::of(Stripe::new("sk_test_123")).store(store).clock(&shop.clock).network(network.clone()).client()
}

fn charge(client: &Client, key: &str, amount: u32, sequence: &str) -> Call {
    client.post("/v1/charges").key(key).form(&[("amount", amount)]).sequence(sequence)
}

/// The bodies that were answered, in the order in which they were sent.
fn done(network: &ScriptedTransport) -> Vec<String> {
    let requests = network.requests();
    requests
        .iter()
        .map(amount)
        .filter(|amount| !["amount=0", "amount=7000"].contains(amount))
        .map(str::to_owned)
        .collect()
}

/// Of calls that are in no sequence.
const OTHER: u32 = 7000;

/// The text that stands before the stamp.
fn amount(request: &Request) -> &str {
    let body = std::str::from_utf8(&request.body).expect("a form");
    body.split('&').next().unwrap_or_default()
}

fn amounts(amounts: impl IntoIterator<Item = u32>) -> Vec<String> {
    amounts.into_iter().map(|amount| format!("amount={amount}")).collect()
}

#[tokio::test]
async fn rows_of_a_sequence_are_delivered_in_the_order_of_their_commits() {
    let shop = Shop::open();
    let network = network();
    let stripe = client(&shop, Arc::clone(&shop.store), &network);
    // More than one page of rows, in several transactions, and some of no sequence between them.
    for first in (1..=240).step_by(40) {
        let mut connection = shop.connection();
        let transaction = connection.transaction().expect("begins");
        for nth in first..first + 40 {
            let call = charge(&stripe, &format!("order-{nth}"), nth, "customer-7");
            call.blocking_enqueue_in(&transaction).expect("it is written");
            let call = stripe.post("/v1/refunds").key(format!("other-{nth}")).form(&[("amount", OTHER)]);
            drop(call.blocking_enqueue_in(&transaction).expect("it is written"));
        }
        transaction.commit().expect("commits");
    }
    shop.sql("DELETE FROM steadfast_outbox WHERE key LIKE 'other-%' AND number % 10 <> 0");
    // Another process is at the same rows.
    let other = client(&shop, Arc::new(Sqlite::open(shop.path()).expect("opens")), &network);
    for _ in 0..4 {
        tokio::join!(deliver(&stripe), deliver(&other));
    }
    assert_eq!(done(&network), amounts(1..=240));
}

/// It is no operation yet, and what comes after it in its sequence is not to be done without it.
#[tokio::test]
async fn a_rejected_row_holds_those_behind_it_until_it_is_dealt_with() {
    let shop = Shop::open();
    let network = network();
    let stripe = client(&shop, Arc::clone(&shop.store), &network);
    let row = |key: &str, amount: u32, headers: &str, sequence: &str, on_dead_letter: &str| {
        format!(
            "INSERT INTO steadfast_outbox (vendor, account, path, key, content_type, body, headers, sequence, \
             on_dead_letter) VALUES ('stripe', 'test', '/v1/charges', '{key}', \
             'application/x-www-form-urlencoded', 'amount={amount}', '{headers}', {sequence}, '{on_dead_letter}');"
        )
    };
    let secret = r#"{"Cookie": "a=1"}"#;
    shop.sql(&row("a-1", 1, secret, "'a'", "hold"));
    shop.sql(&row("a-2", 2, "{}", "'a'", "hold"));
    shop.sql(&row("b-1", 10, secret, "'b'", "skip"));
    shop.sql(&row("b-2", 20, "{}", "'b'", "skip"));
    shop.sql(&row("none", 30, "{}", "NULL", "hold"));
    for _ in 0..3 {
        deliver(&stripe).await;
    }
    let mut sent = done(&network);
    sent.sort();
    assert_eq!(sent, amounts([20, 30]));
    assert_eq!((shop.waiting(), shop.rejected().await.len()), (1, 2));
    let page = shop.store.waiting(&account(), None, 10, 1024).await.expect("a store");
    assert_eq!(page.rows, [], "nobody is shown what has to wait");
    // Somebody mends it and puts it back: it comes first.
    shop.sql("UPDATE steadfast_outbox SET headers = '{}', rejected_at_ms = NULL, rejected = NULL WHERE key = 'a-1'");
    deliver(&stripe).await;
    assert_eq!(done(&network)[2..], amounts([1, 2]));
    // Or removes it.
    shop.sql(&row("c-1", 3, secret, "'c'", "hold"));
    shop.sql(&row("c-2", 4, "{}", "'c'", "hold"));
    deliver(&stripe).await;
    shop.sql("DELETE FROM steadfast_outbox WHERE key = 'c-1'");
    deliver(&stripe).await;
    assert_eq!(done(&network)[4..], amounts([4]));
    for bad in [("'customer\n7'", "hold"), ("''", "hold"), ("'a'", "stop")] {
        let sql = row("bad", 1, "{}", bad.0, bad.1);
        assert!(shop.connection().execute_batch(&sql).is_err(), "{bad:?}");
    }
}

/// No dispatcher may admit it, so its row is removed: it would be sent once the row before it is dealt with.
#[tokio::test]
async fn what_is_held_back_behind_a_rejected_row_is_cancelled_in_the_outbox() {
    let shop = Shop::open();
    let network = network();
    let stripe = client(&shop, Arc::clone(&shop.store), &network);
    hold_by_a_row_that_is_rejected(&shop);
    let call = charge(&stripe, "order-2", 2, "a");
    let behind = call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
    deliver(&stripe).await;
    behind.cancel("the order was withdrawn").await.expect("it is removed");
    let error = behind.wait(std::time::Duration::ZERO).await.expect_err("it is in the outbox no more");
    assert!(error.is_dead_letter() && error.disposition() == Disposition::Ended, "{error}");
    assert_eq!(error.effect(), Effect::None);
    let audit = shop.letters().audit(behind.id()).await.expect("a store");
    assert_eq!((audit.len(), &*audit[0].why), (1, "the order was withdrawn"));
    shop.sql("DELETE FROM steadfast_outbox WHERE key = 'order-1'");
    deliver(&stripe).await;
    assert_eq!(network.requests().len(), 0);
}

/// A dispatcher rejects it for its header. It holds the sequence `a`.
fn hold_by_a_row_that_is_rejected(shop: &Shop) {
    shop.sql(
        "INSERT INTO steadfast_outbox (vendor, account, path, key, content_type, body, headers, sequence, \
         on_dead_letter) VALUES ('stripe', 'test', '/v1/charges', 'order-1', 'application/x-www-form-urlencoded', \
         'amount=1', '{\"Cookie\": \"a=1\"}', 'a', 'hold');",
    );
}

/// The key's earlier life is over, and its end is still on record: the row is another life's, and can be taken back.
#[tokio::test]
async fn a_row_is_taken_back_whatever_the_end_of_an_earlier_life() {
    let shop = Shop::open();
    let network = network();
    let stripe = client(&shop, Arc::clone(&shop.store), &network);
    charge(&stripe, "order-2", 2, "a").enqueue().await.expect("it is recorded");
    deliver(&stripe).await;
    // Such a step is doubted for an hour.
    for hours in [8 * 24, 2] {
        shop.clock.advance(std::time::Duration::from_secs(hours * 3_600));
        charge(&stripe, &format!("after-{hours}"), 3, "b").enqueue().await.expect("it is recorded");
        deliver(&stripe).await;
    }
    hold_by_a_row_that_is_rejected(&shop);
    let call = charge(&stripe, "order-2", 2, "a");
    let again = call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
    deliver(&stripe).await;
    again.cancel("withdrawn").await.expect("it is removed");
    assert_eq!((shop.waiting(), network.requests().len()), (0, 3));
}

/// Whoever enqueues without a transaction comes behind what was committed before, also if nobody has recorded that yet.
#[tokio::test]
async fn what_is_enqueued_comes_behind_the_rows_that_were_committed_before() {
    let shop = Shop::open();
    let network = network();
    let stripe = client(&shop, Arc::clone(&shop.store), &network);
    for nth in [1, 3] {
        let mut connection = shop.connection();
        let transaction = connection.transaction().expect("begins");
        let call = charge(&stripe, &format!("order-{nth}"), nth, "customer-7");
        call.blocking_enqueue_in(&transaction).expect("it is written");
        transaction.commit().expect("commits");
        let next = charge(&stripe, &format!("order-{}", nth + 1), nth + 1, "customer-7");
        next.enqueue().await.expect("it is recorded");
    }
    deliver(&stripe).await;
    assert_eq!(done(&network), amounts(1..=4));
    // Nor does it pass a row that was rejected and holds its sequence.
    hold_by_a_row_that_is_rejected(&shop);
    deliver(&stripe).await;
    charge(&stripe, "order-6", 6, "a").enqueue().await.expect("it is recorded");
    deliver(&stripe).await;
    assert_eq!((done(&network), shop.waiting()), (amounts(1..=4), 1));
}

/// Behind a rejected row nothing can be admitted. A handle cancels there its own row, and no other account's.
#[tokio::test]
async fn a_handle_removes_the_row_of_the_account_that_its_header_chose() {
    let shop = Shop::open();
    let network = network();
    let stripe = client(&shop, Arc::clone(&shop.store), &network);
    hold_by_a_row_that_is_rejected(&shop);
    let enqueue = |account: Option<&str>| {
        let call = charge(&stripe, "order-2", 2, "a");
        let call = account.iter().fold(call, |call, account| call.header("Stripe-Account", *account));
        call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed()
    };
    let (ours, platform) = (enqueue(Some("acct_1")), enqueue(None));
    deliver(&stripe).await;
    platform.cancel("withdrawn").await.expect("it is removed");
    assert_eq!(shop.waiting(), 1, "the other one's stays");
    ours.cancel("withdrawn").await.expect("it is removed");
    assert_eq!((shop.waiting(), network.requests().len()), (0, 0));
}

/// A row that the store cannot record now keeps those behind it in its sequence from their turn, and no others.
#[tokio::test]
async fn what_is_behind_a_row_that_cannot_be_recorded_yet_does_not_overtake_it() {
    let shop = Shop::open();
    let network = network();
    let stripe = client(&shop, Arc::clone(&shop.store), &network);
    for (key, amount, sequence) in [("a", 1, "one"), ("b", 2, "one"), ("c", 3, "two")] {
        let call = charge(&stripe, key, amount, sequence);
        drop(call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed());
    }
    shop.sql(
        "CREATE TRIGGER kept BEFORE DELETE ON steadfast_outbox WHEN old.key = 'a' \
         BEGIN SELECT RAISE(ABORT, 'not now'); END",
    );
    deliver(&stripe).await;
    assert_eq!(done(&network), amounts([3]));
    shop.sql("DROP TRIGGER kept");
    deliver(&stripe).await;
    assert_eq!(done(&network), amounts([3, 1, 2]));
}

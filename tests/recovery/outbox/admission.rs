//! A row becomes one operation, once: whoever dies, stands still or fails in between.

use std::sync::Arc;
use std::time::Duration;

use support::commands;

use steadfast::clock::Clock as _;
use steadfast::dead_letter::Change;
use steadfast::operation::record::{Action, Claim};
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::store::Store;
use steadfast::transport::Request;
use steadfast::{Client, Disposition, Effect};
use steadfast_core::store::outbox::Outbox;

use super::bench::{Shop, account, deliver};

/// The claim and the row's removal are one commit: where the row cannot be removed, nothing is claimed.
#[tokio::test]
async fn a_row_that_stays_is_not_on_record() {
    let shop = Shop::open();
    shop.place(42);
    shop.sql(
        "CREATE TRIGGER kept BEFORE DELETE ON steadfast_outbox BEGIN SELECT RAISE(ABORT, 'not now'); END",
    );
    shop.deliver().await;
    assert_eq!((shop.operations().await.len(), shop.waiting(), shop.fake.ledger().count()), (0, 1, 0));
    shop.sql("DROP TRIGGER kept");
    shop.deliver().await;
    assert_eq!((shop.operations().await.len(), shop.waiting(), shop.fake.ledger().count()), (1, 0, 1));
}

/// And a commit that fails takes both back. The next round finds the row again.
#[tokio::test]
async fn a_claim_that_is_rolled_back_leaves_the_row() {
    let shop = Shop::open();
    shop.place(42);
    shop.sql("CREATE TRIGGER full BEFORE INSERT ON operation BEGIN SELECT RAISE(ABORT, 'no room'); END");
    shop.deliver().await;
    assert_eq!((shop.operations().await.len(), shop.waiting(), shop.rejected().await.len()), (0, 1, 0));
    shop.sql("DROP TRIGGER full");
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting()), (1, 0));
}

/// Rows that the store cannot record do not keep those behind them from their turn.
#[tokio::test]
async fn stuck_rows_starve_nobody() {
    let shop = Shop::open();
    let insert = |key: &str| {
        format!(
            "INSERT INTO steadfast_outbox (vendor, account, path, key, content_type, body) VALUES \
             ('stripe', 'test', '/v1/charges', '{key}', 'application/x-www-form-urlencoded', \
             'amount=1000&currency=usd');"
        )
    };
    let stuck: String = (0..250).map(|nth| insert(&format!("stuck-{nth}"))).collect();
    shop.sql(&format!("BEGIN; {stuck}{} COMMIT", insert("free")));
    shop.sql(
        "CREATE TRIGGER kept BEFORE DELETE ON steadfast_outbox WHEN old.key LIKE 'stuck%' \
         BEGIN SELECT RAISE(ABORT, 'not now'); END",
    );
    for _ in 0..4 {
        shop.deliver().await;
    }
    assert_eq!((shop.fake.ledger().count(), shop.waiting()), (1, 250));
    shop.sql("DROP TRIGGER kept");
    while shop.waiting() > 0 {
        shop.deliver().await;
    }
    shop.deliver().await;
    assert_eq!(shop.fake.ledger().count(), 251);
}

fn claim(shop: &Shop, key: &str) -> Claim {
    let url = "https://api.stripe.com/v1/charges".parse().expect("a url");
    let request = Request::new(http::Method::POST, url);
    let scope = Scope::new("default", "stripe", "test", &request.method, "/v1/charges");
    let id = OperationId::new(scope, Key::new(key).expect("a key"));
    Claim { due: Some(shop.clock.wall()), ..commands::claim(&id, request, shop.clock.wall()) }
}

/// A dispatcher reads a row and stands still. Another one admits it; the operation is delivered, expires and is purged.
/// The first goes on: there is nothing for it to claim, or the vendor would be called again.
#[tokio::test]
async fn a_dispatcher_that_stood_still_admits_nothing_twice() {
    let shop = Shop::open();
    shop.place(42);
    let seen = shop.store.waiting(&account(), None, 100, 1_000).await.expect("a store").rows;
    let number = seen[0].number;
    shop.deliver().await;
    shop.clock.advance(Duration::from_secs(60 * 86_400));
    // The doubt about a clock that is ahead is over once it has been seen for long enough.
    for _ in 0..3 {
        shop.store.purge(shop.clock.wall(), 100).await.expect("a store");
        shop.clock.advance(Duration::from_secs(86_400));
    }
    assert_eq!(shop.operations().await.len(), 0, "it was purged");
    let late = shop.store.admit(number, claim(&shop, "order-42/charge")).await.expect("a store");
    assert_eq!((late, shop.operations().await.len()), (None, 0));
    // The number is nobody else's, ever.
    shop.place(43);
    let next = shop.store.waiting(&account(), None, 100, 1_000).await.expect("a store").rows;
    assert!(next[0].number > number);
}

/// Whoever waits for a row that cannot become an operation is told so, and not that it goes on.
#[tokio::test]
async fn who_waits_for_a_rejected_row_is_told_that_a_person_has_to_see_to_it() {
    let shop = Shop::open();
    shop.charge(1).send().await.expect("paid");
    let again = || shop.charge(1).query(&[("expand[]", "customer")]);
    let committed = again().blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
    let third = shop.charge(3).supersedes("order-1/charge");
    let third = third.blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
    shop.deliver().await;
    assert_eq!(shop.rejected().await.len(), 2);
    let told = committed.wait(Duration::ZERO).await.expect_err("its key is another request's");
    assert!(told.is_key_reused(), "what has the key is on record: {told}");
    let began = shop.clock.now();
    let told = third.wait(Duration::from_secs(60)).await.expect_err("order 1 has been charged");
    assert_eq!((told.code(), told.effect()), ("CONFLICT.outbox.rejected", Effect::None), "{told}");
    assert_eq!(told.disposition(), Disposition::AwaitsOperator, "{told}");
    assert!(told.to_string().contains("cannot be started over"), "{told}");
    assert!(shop.clock.now().since(began) < Duration::from_secs(1), "it does not wait for what never comes");
    // A later row of the key is the one that counts.
    shop.place(3);
    let told = third.wait(Duration::ZERO).await.expect_err("nobody has recorded it");
    assert!(told.is_in_progress(), "{told}");
    shop.deliver().await;
    third.wait(Duration::ZERO).await.expect("the later row asks for the same");
    assert_eq!(shop.fake.ledger().count(), 2);
}

/// Two processes on one file. On real threads: they meet in SQLite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_dispatchers_deliver_each_call_once() {
    let shop = Shop::open();
    for order in 0..300 {
        shop.place(order);
    }
    let run = |client: Client| tokio::spawn(async move { deliver(&client).await });
    for task in [run(shop.stripe.clone()), run(shop.another())] {
        task.await.expect("it goes on to the end");
    }
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting()), (300, 0));
    assert_eq!(shop.fake.ledger().duplicates(), Vec::<String>::new());
    assert_eq!(shop.operations().await.len(), 300);
}

/// A wrapper around the store has the inner one's outbox.
#[tokio::test]
async fn a_store_behind_others_has_its_outbox() {
    let shop = Shop::open();
    let wrapped: Arc<dyn Store> = Arc::new(Arc::clone(&shop.store));
    assert!(wrapped.outbox().is_some());
    assert!(steadfast::store::Memory::new().outbox().is_none());
}

/// A row is removed by who cancels it or recorded by a dispatcher: one of the two.
#[tokio::test]
async fn a_row_that_a_dispatcher_was_faster_with_is_cancelled_as_an_operation() {
    let shop = Shop::open();
    for order in [42, 43] {
        drop(shop.charge(order).blocking_enqueue_in(&shop.connection()).expect("it is written").committed());
    }
    let (letters, how) = (shop.letters(), Change::by("ann").because("not paid"));
    let rows = async |order: u64| letters.queued(&format!("order-{order}/charge")).await.expect("a store");
    let (first, second) = (rows(42).await.remove(0), rows(43).await.remove(0));
    assert!(letters.cancel_queued(&first, &Change::by("ann").dry_run()).await.expect("a dry run"));
    assert!(letters.cancel_queued(&first, &Change::by("ann")).await.is_err(), "without a reason");
    assert!(letters.cancel_queued(&first, &how).await.expect("it waits"));
    assert!(!letters.cancel_queued(&first, &how).await.expect("it is gone"));
    shop.deliver().await;
    assert!(!letters.cancel_queued(&second, &how).await.expect("it is an operation"));
    assert_eq!((shop.fake.ledger().count(), shop.count("steadfast_outbox")), (1, 0));
    let audit = letters.audit(&first.id).await.expect("a store");
    assert_eq!(audit.len(), 1);
    assert_eq!((&*audit[0].by, &*audit[0].why, &audit[0].action), ("ann", "not paid", &Action::Cancel));
    assert!(letters.audit(&second.id).await.expect("a store").is_empty());
}

/// A handle's name says the account that a header chose. Asked by it, a row is found, and no other account's.
#[tokio::test]
async fn a_row_is_found_by_its_whole_name_also_where_a_header_chose_the_account() {
    let shop = Shop::open();
    let enqueue = |account: Option<&str>| {
        let call =
            account.iter().fold(shop.charge(42), |call, account| call.header("Stripe-Account", *account));
        call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed()
    };
    let ours = enqueue(Some("acct_1"));
    let name = ours.id().to_string();
    assert!(name.starts_with("default/stripe/test>acct_1/POST /v1/charges"), "{name}");
    // Without the vendor's rules a row is known by its account and method; with them by its name.
    let (plain, knowing) = (shop.letters(), shop.letters().with_client(&shop.stripe));
    assert_eq!(plain.queued(&name).await.expect("a store").len(), 1);
    let found = knowing.queued(&name).await.expect("a store");
    assert_eq!((found.len(), &found[0].id), (1, ours.id()));
    for other in ["default/stripe/test/DELETE /v1/charges", "default/stripe/live>acct_1/POST /v1/charges"] {
        let other = format!("{other} key order-42/charge");
        assert!(plain.queued(&other).await.expect("a store").is_empty(), "{other}");
    }
    // Of three with one key each is found by its own name.
    let (theirs, platform) = (enqueue(Some("acct_2")), enqueue(None));
    for handle in [&ours, &theirs, &platform] {
        let found = knowing.queued(&handle.id().to_string()).await.expect("a store");
        assert_eq!(found.iter().map(|row| &row.id).collect::<Vec<_>>(), [handle.id()]);
    }
    let how = Change::by("ann").because("not wanted");
    let row = knowing.queued(&name).await.expect("a store").remove(0);
    assert!(knowing.cancel_queued(&row, &how).await.expect("it waits"));
    assert_eq!(knowing.queued("order-42/charge").await.expect("a store").len(), 2);
    assert_eq!(knowing.audit(ours.id()).await.expect("a store").len(), 1, "under its name");
}

//! One file for the shop's own writes, the service's calls and the dispatcher, all at once. On real threads and real
//! time: SQLite's locks know no other.

use std::thread;
use std::time::Duration;

use steadfast::outbox::rusqlite::TransactionBehavior;

use super::bench::{Shop, charge, deliver, insert};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_transactions_live_calls_and_a_dispatcher_share_the_file() {
    const THREADS: u64 = 4;
    const ORDERS: u64 = 40;
    let shop = Shop::open();
    let dispatcher = shop.another();
    let dispatching = tokio::spawn(async move {
        for _ in 0..40 {
            deliver(&dispatcher).await;
        }
    });
    let live = {
        let stripe = shop.stripe.clone();
        tokio::spawn(async move {
            for order in 0..ORDERS {
                charge(&stripe, 9_000 + order).send().await.expect("it is sent");
            }
        })
    };
    thread::scope(|scope| {
        for writer in 0..THREADS {
            let shop = &shop;
            scope.spawn(move || {
                let mut connection = shop.connection();
                for nth in 0..ORDERS {
                    let order = writer * 1_000 + nth;
                    let transaction =
                        connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("begins");
                    insert(&transaction, order);
                    shop.charge(order).blocking_enqueue_in(&transaction).expect("it is written");
                    // One in four changes its mind.
                    if nth % 4 == 3 {
                        transaction.rollback().expect("rolls back");
                    } else {
                        transaction.commit().expect("commits");
                    }
                }
            });
        }
    });
    live.await.expect("all are sent");
    dispatching.await.expect("it goes on");
    shop.deliver().await;
    let committed = THREADS * ORDERS * 3 / 4;
    assert_eq!((shop.count("orders"), shop.waiting()), (committed, 0));
    assert_eq!(shop.fake.ledger().count() as u64, committed + ORDERS);
    assert_eq!(shop.fake.ledger().duplicates(), Vec::<String>::new());
}

/// A transaction that holds the file for long makes others wait, and costs nothing once it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_a_transaction_that_holds_the_file() {
    let shop = Shop::open();
    let mut connection = shop.connection();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("begins");
    shop.charge(1).blocking_enqueue_in(&transaction).expect("it is written");
    let live = tokio::spawn(shop.charge(2).send());
    thread::park_timeout(Duration::from_millis(200));
    assert!(!live.is_finished(), "its claim waits");
    transaction.commit().expect("commits");
    live.await.expect("no panic").expect("it is sent");
    shop.deliver().await;
    assert_eq!(shop.fake.ledger().count(), 2);
}

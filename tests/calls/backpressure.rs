//! A store that cannot keep up: whoever waits for it waits until the call's deadline, and then nothing was sent.
//!
//! Real time, because SQLite's lock and its writer thread run in it.

use std::time::Duration;

use rusqlite::Connection;
use steadfast::operation::record::Filter;
use steadfast::store::Sqlite;
use steadfast::testkit::ScriptedTransport;
use steadfast::vendor::Stripe;
use steadfast::{Client, Effect};
use tokio::task::JoinSet;

/// More than the queue holds (1,024) and one commit takes (256).
const CALLS: usize = 1_400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_holds_calls_back_until_their_deadline_and_leaves_nothing_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls.db");
    let transport = ScriptedTransport::new().always(steadfast::transport::Answer::new(
        http::StatusCode::OK,
        http::HeaderMap::new(),
        "{}",
    ));
    let client = Client::builder(Stripe::new("sk_test_1"))
        .store(Sqlite::open(&path).expect("opens"))
        .transport(transport.clone())
        .build()
        .expect("a client");
    // Another program holds the file.
    let other = Connection::open(&path).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("free");
    let mut calls = JoinSet::new();
    for order in 0..CALLS {
        let call = client.post("/v1/payment_intents").key(format!("order-{order}/charge"));
        calls.spawn(call.deadline(Duration::from_millis(300)).send());
    }
    for ended in calls.join_all().await {
        let error = ended.expect_err("nobody can claim");
        assert_eq!((error.is_store(), error.effect()), (true, Effect::Unknown), "{error}");
    }
    assert_eq!(transport.requests().len(), 0, "nothing is sent that is not on record");
    other.execute_batch("ROLLBACK").expect("held");
    client.post("/v1/payment_intents").key("after").send().await.expect("the queue is not wedged");
    let left = client.store().list(&Filter::default(), None, CALLS).await.expect("works").rows;
    let keys: Vec<&str> = left.iter().map(|summary| summary.id.key.as_str()).collect();
    assert_eq!(keys, ["after"], "a claim whose caller has gone holds nothing");
}

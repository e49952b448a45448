//! A client of a store without any capability.

use std::time::Duration;

use steadfast::outbox::rusqlite::Connection;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Client, Disposition, dispatcher};
use support::bare::Bare;

/// Its calls and its recovery do without; a call into an outbox is refused before anything is written.
#[tokio::test]
async fn it_sends_recovers_and_waits_and_has_no_outbox() {
    let clock = TestClock::auto();
    let client = Client::builder(Stripe::new("sk_test_1"))
        .transport(ScriptedTransport::new().status(200).status(200))
        .store(Bare::default())
        .clock(clock.clone())
        .build()
        .expect("a client");
    let call = |key| client.post("/v1/charges").key(key).form(&[("amount", "1")]);
    call("sent").send().await.expect("it is sent");
    let enqueued = call("enqueued").enqueue().await.expect("it is recorded");
    let dispatcher = client.keep_recovering(dispatcher::PERIOD);
    enqueued.wait(Duration::from_secs(60)).await.expect("it is delivered");
    drop(dispatcher);
    let mut connection = Connection::open_in_memory().expect("a database");
    let refused = call("in a transaction").enqueue_in(&mut connection).await.expect_err("it has none");
    assert_eq!(refused.disposition(), Disposition::Ended);
    assert!(refused.to_string().contains("the store `Bare` has no outbox"), "{refused}");
}

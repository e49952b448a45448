//! The recipe "Test on a paused clock": what a service's test builds its client of.

use serde_json::json;
use steadfast::store::{Memory, Sqlite};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Client, ClientBuilder};

/// A charge whose first answer is a 503: it waits before its repeat.
async fn charged(builder: ClientBuilder) {
    let network = ScriptedTransport::new().status(503).json(200, json!({ "id": "ch_1", "object": "charge" }));
    let stripe = builder.transport(network).build().expect("a client");
    let charge =
        stripe.post("/v1/charges").key("order-42/charge").form(&[("amount", "1000"), ("currency", "usd")]);
    assert_eq!(charge.send().await.expect("the repeat is answered").attempts(), 2);
}

fn stripe() -> ClientBuilder {
    Client::builder(Stripe::new("sk_test_123"))
}

#[tokio::test(start_paused = true)]
async fn a_client_with_records_in_memory_is_called() {
    charged(stripe().store(Memory::new())).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_file_and_a_clock_of_the_tests_own_is_called() {
    let place = tempfile::tempdir().expect("a directory");
    let store = Sqlite::open(place.path().join("calls.db")).expect("opens");
    charged(stripe().store(store).clock(TestClock::auto())).await;
}

//! A vendor that is down, as a store alone shows it.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Clock as _;
use steadfast_core::store::Memory;

use super::*;
use crate::client::Client;
use crate::dispatcher::PERIOD;
use crate::testkit::{ScriptedTransport, TestClock};
use crate::vendor::Stripe;

async fn after(clock: &TestClock, seconds: u64) {
    clock.sleep_until(clock.now().plus(Duration::from_secs(seconds))).await;
}

#[tokio::test]
async fn an_outage_shows_in_the_dispatchers_heartbeat_and_ends_with_it() {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let down = ScriptedTransport::new().always(steadfast_core::transport::Answer::new(
        http::StatusCode::BAD_GATEWAY,
        http::HeaderMap::new(),
        "",
    ));
    let stripe = Client::builder(Stripe::new("sk_test_1"))
        .transport(down)
        .clock(clock.clone())
        .store(Arc::clone(&store))
        .build()
        .expect("a client");
    let letters = DeadLetters::new(store.clone()).with_clock(clock.clone());
    for nth in 0..50 {
        let call = stripe.post("/v1/charges").key(format!("order-{nth}")).form(&[("amount", "1")]);
        call.enqueue().await.expect("recorded");
    }
    let before = letters.status().await.expect("a store");
    assert_eq!((before.accounts[0].waiting, before.accounts[0].dispatchers), (50, 0));

    let recovery = stripe.keep_recovering(PERIOD);
    after(&clock, 600).await;
    let status = letters.status().await.expect("a store");
    let account = &status.accounts[0];
    assert_eq!((account.account.as_str(), account.dispatchers), ("default/stripe/test", 1));
    assert_eq!(account.waiting + account.under_way, 50, "{account:?}");
    let circuit = account.closed.iter().find(|closed| closed.gate == "circuit").expect("a circuit");
    assert!(status.now.since(circuit.since.expect("known")) > Duration::from_secs(300), "{circuit:?}");
    assert_eq!(account.routes[0].route, "POST /v1/charges");
    assert_eq!(account.routes[0].last.as_ref().and_then(|last| last.status), Some(502));
    let overdue = Filter { due_before: Some(status.now), ..Filter::default() };
    let waiting = letters.waiting(&overdue, None, 1).await.expect("a store");
    let shown = letters.show(&waiting.rows[0].id).await.expect("on record");
    assert_eq!(shown.account.expect("it is overdue").closed[0].gate, "circuit");

    drop(recovery);
    after(&clock, 10).await;
    assert_eq!(letters.status().await.expect("a store").accounts[0].dispatchers, 0, "it has gone");
}

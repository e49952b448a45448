//! The gates that stand between a call and the wire.

use std::time::Duration;

use steadfast::clock::Clock;
use steadfast::policy::{BreakerConfig, BudgetConfig, Mode, RateConfig};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Client, Policy};

use super::{Said, builder, charge, charged, network, policy};

pub async fn all(said: &mut Said) {
    let client = on(&TestClock::auto(), network(), policy());
    client.engage_kill_switch();
    said.refused("the kill switch is engaged", charged(&client).await);

    let client = on(&TestClock::auto(), network(), policy());
    client.pause_for(Duration::from_secs(90));
    said.refused("the vendor asked for a pause", charged(&client).await);
    said.refused("the same, for a GET", client.get("/v1/balance").send().await);

    let first = BreakerConfig::default().consecutive_failures(1);
    let client = on(&TestClock::auto(), network().fail(SendErrorKind::Connect), policy().breaker(first));
    client.post("/v1/charges").key("order-41/charge").send().await.expect_err("it opens the circuit");
    said.refused("the circuit is open", charged(&client).await);
    let client = on(&TestClock::auto(), network(), policy().breaker(first));
    client.set_breaker_mode(Mode::ForcedOpen);
    said.refused("an operator forced the circuit open", charged(&client).await);

    let clock = TestClock::auto();
    let client = on(&clock, network(), policy().concurrency(1));
    let held = client.gates().admit(clock.now());
    said.refused("every place is taken", charged(&client).await);
    drop(held);

    let clock = TestClock::auto();
    let hourly = policy().rate(RateConfig::new(1, Duration::from_secs(3600)));
    let client = on(&clock, network(), hourly);
    client.gates().admit(clock.now()).expect("room").begin(clock.now());
    said.refused("the rate of the hour is used up", charged(&client).await);

    let none = policy().budget(BudgetConfig::new(0.0, 0, 0.0));
    let client = on(&TestClock::auto(), network().fail(SendErrorKind::Connect), none.clone());
    said.refused("the budget allows no retry", charged(&client).await);
    let client = on(&TestClock::auto(), network().status(429), none);
    said.refused("the budget allows no retry after an answer", charged(&client).await);

    let client = on(&TestClock::auto(), network().fail(SendErrorKind::Reset), policy().breaker(first));
    let short = charge(&client).deadline(Duration::from_millis(700));
    said.refused("the circuit opened before the retry", short.send().await);
}

fn on(clock: &TestClock, network: ScriptedTransport, policy: Policy) -> Client {
    builder(Stripe::new("sk_test_123"), network, policy).clock(clock.clone()).build().expect("a client")
}

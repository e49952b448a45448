//! What the crate says while it works: names that dashboards are built on, and nothing that must stay secret.

mod capture;
mod denied;
mod forgetful;
mod metrics_named;
mod panics;
mod secrets;
mod spans;
#[path = "../findings/engine/trouble.rs"]
#[allow(dead_code, reason = "shared with the findings, which use the rest of it")]
mod trouble;

use steadfast::policy::{Backoff, Jitter};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Policy};

/// The background ladder without jitter, so that every wait is exact.
pub fn policy() -> Policy {
    let mut backoff = Backoff::ladder([std::time::Duration::from_millis(500)]);
    backoff.jitter = Jitter::None;
    Policy::background().backoff(backoff)
}

pub fn stripe(network: &ScriptedTransport, clock: &TestClock, policy: Policy) -> Client {
    Client::builder(Stripe::new("sk_test_123"))
        .policy(policy)
        .transport(network.clone())
        .clock(clock.clone())
        .random(FixedRandom::at(0.5))
        .build()
        .expect("a client")
}

pub fn charge(stripe: &Client) -> Call {
    stripe.post("/v1/payment_intents").key("order-42/charge").form(&[("amount", "1000"), ("currency", "usd")])
}

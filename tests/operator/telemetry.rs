//! Telemetry of the crate: names that dashboards are built on, without secrets.

mod alerts;
mod capture;
mod denied;
mod forgetful;
mod metrics_named;
mod panics;
mod secrets;
mod spans;

use steadfast::policy::{Backoff, Jitter};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Policy};

use support::rig::{Rig, ms};

/// The background ladder without jitter, so that every wait is exact.
pub fn policy() -> Policy {
    Policy::background().backoff(Backoff::ladder([ms(500)]).jitter(Jitter::None))
}

pub fn stripe(network: &ScriptedTransport, clock: &TestClock, policy: Policy) -> Client {
    Rig::of(Stripe::new("sk_test_123")).policy(policy).network(network.clone()).clock(clock).client()
}

pub fn charge(stripe: &Client) -> Call {
    stripe.post("/v1/payment_intents").key("order-42/charge").form(&[("amount", "1000"), ("currency", "usd")])
}

//! What the crate says while it works: names that dashboards are built on, and nothing that must stay secret.

mod alerts;
mod capture;
#[path = "../hosts/commands.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod commands;
mod denied;
mod forgetful;
mod metrics_named;
mod panics;
#[path = "../hosts/rig.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod rig;
mod secrets;
mod spans;
#[path = "../findings/engine/trouble.rs"]
#[allow(dead_code, reason = "shared with the findings, which use the rest of it")]
mod trouble;

use steadfast::policy::{Backoff, Jitter};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Policy};

use rig::{Rig, ms};

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

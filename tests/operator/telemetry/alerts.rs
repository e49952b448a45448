//! Alerts for an operator: an account that is held, an effect that may have happened twice, a file on an unsafe
//! file system.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steadfast::store::{Memory, Store};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;

use crate::telemetry::capture::{captured, listen};
use crate::telemetry::{charge, policy, stripe};
use support::rig::{Rig, until};

const ACCOUNT: &str = "default/stripe/test";

/// A single refusal raises no alert: a good answer may follow it in the same moment.
#[tokio::test]
async fn an_account_with_refused_credentials_is_held_and_logged_once() {
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().status(401).status(401).status(401).json(200, json!({}));
    let client = stripe(&network, &clock, policy());
    charge(&client).enqueue().await.expect("recorded");
    listen();
    let held = "the account is held, because the vendor refuses its credentials";
    let gauge = || {
        let gauge = format!("steadfast_account_held{{account={ACCOUNT},vendor=stripe}}");
        captured()
            .metrics
            .into_iter()
            .filter(|(name, _)| *name == gauge)
            .map(|(_, value)| value)
            .collect::<Vec<_>>()
    };
    for round in 0..3 {
        client.recover(1).await.expect("a store");
        let accounts: Vec<_> = client.held_accounts().into_iter().map(|(account, _)| account).collect();
        let expected = usize::from(round > 0);
        assert_eq!(
            (accounts, captured().all(held).len()),
            (vec![ACCOUNT.to_owned(); expected], expected),
            "{round}"
        );
        assert_eq!(gauge(), vec![1.0; expected]);
        clock.advance(Duration::from_secs(60));
    }
    assert!(client.held_accounts()[0].1 >= Duration::from_secs(180), "since the first refusal");
    assert_eq!(client.recover(1).await.expect("a store").succeeded, 1);
    assert_eq!((client.held_accounts(), gauge()), (Vec::new(), vec![1.0, 0.0]));
    let captured = captured();
    for message in [held, "the account is no longer held"] {
        let event = captured.event(message);
        let whose = (&*event["steadfast.vendor"], &*event["steadfast.account"]);
        assert_eq!(whose, ("stripe", ACCOUNT), "{message}");
    }
    assert_eq!(captured.event(held)["level"], "WARN");
}

/// A process whose clock was set takes the operation over while its holder waits for an answer, and is refused.
/// An operator starts it over. Then the first answer comes.
#[tokio::test]
async fn a_late_success_of_a_superseded_operation_warns_of_a_second_effect() {
    let (clock, store) = (TestClock::new(), Arc::new(Memory::new()) as Arc<dyn Store>);
    let process = |network: ScriptedTransport| {
        let setup = Rig::of(Stripe::new("sk_test_123")).policy(policy()).network(network);
        setup.clock(&clock).store(Arc::clone(&store)).client()
    };
    let slow = ScriptedTransport::new().json(200, json!({})).after(Duration::from_secs(10), &clock);
    let first = tokio::spawn(charge(&process(slow)).send());
    until(|| clock.sleeping() > 0).await;
    clock.jump_wall(Duration::from_secs(3_600));
    let declined = json!({"error": {"type": "card_error"}});
    let network = ScriptedTransport::new().json(402, declined).header("request-id", "req_1");
    let other = process(network.json(200, json!({})));
    assert_eq!(other.recover(1).await.expect("a store").refused, 1);
    let again = charge(&other).key("order-42/again").supersedes("order-42/charge");
    again.send().await.expect("started over");
    listen();
    clock.advance(Duration::from_secs(10));
    first.await.expect("no panic").expect("a success is proof");
    let captured = captured();
    let event = captured.event("may have taken effect twice");
    let operation = format!("{ACCOUNT}/POST /v1/payment_intents key order-42/charge");
    assert_eq!((&event["level"], &event["steadfast.operation"]), (&"ERROR".to_owned(), &operation));
    assert_eq!(event["steadfast.because"], "started over as key order-42/again");
}

//! An example of a service author's own test file: the service's code against a fake vendor that misbehaves
//! on cue. Nothing here waits in real time for a backoff.
//!
//! ```sh
//! cargo test --example fault_test
//! ```

use serde_json::Value;
use steadfast::{Client, Error};

/// The code under test: it belongs to the service.
async fn charge(stripe: &Client, order: &str, amount: u64) -> Result<String, Error> {
    let reply = stripe
        .post("/v1/payment_intents")
        .key(format!("{order}/charge"))
        .form(&[("amount", amount.to_string()), ("currency", "usd".to_owned())])
        .send()
        .await?;
    let intent: Value = reply.json()?;
    Ok(intent["id"].as_str().unwrap_or_default().to_owned())
}

#[allow(clippy::print_stdout, reason = "an example shows something")]
fn main() {
    let _ = charge; // The tests below call it.
    println!("run me with: cargo test --example fault_test");
}

#[cfg(test)]
mod tests {
    use steadfast::testkit::fakes::StripeFake;
    use steadfast::testkit::{Fault, FaultPlan, ScriptedTransport, SeededRandom, TestClock, WaitForm};
    use steadfast::transport::SendErrorKind;
    use steadfast::vendor::Stripe;
    use steadfast::{Client, Effect};

    use super::charge;

    /// A client of a fake Stripe, on a clock that jumps over every wait.
    async fn stripe(plan: &FaultPlan) -> (Client, StripeFake) {
        let clock = TestClock::auto();
        let fake = StripeFake::builder().test_clock(&clock).plan(plan.clone()).start().await;
        let client = Client::builder(Stripe::new("sk_test_123").base_url(fake.url()))
            .clock(clock)
            .random(SeededRandom::new(1))
            .build()
            .expect("a client");
        (client, fake)
    }

    #[tokio::test]
    async fn an_answer_that_is_lost_does_not_charge_twice() {
        let plan = FaultPlan::new();
        plan.next(Fault::DropAfterApply);
        let (client, fake) = stripe(&plan).await;

        charge(&client, "order-42", 1000).await.expect("the resend is replayed");

        assert_eq!(fake.ledger().count(), 1);
        assert_eq!(fake.ledger().duplicates(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_rate_limit_delays_the_charge() {
        let plan = FaultPlan::new();
        plan.next_n(Fault::TooManyRequests(WaitForm::None), 3);
        let (client, fake) = stripe(&plan).await;

        charge(&client, "order-42", 1000).await.expect("the fourth attempt");

        assert_eq!(fake.ledger().count(), 1);
    }

    #[tokio::test]
    async fn a_500_that_stripe_stored_is_not_hammered() {
        let plan = FaultPlan::new();
        plan.next(Fault::Stored500);
        let (client, fake) = stripe(&plan).await;

        let error = charge(&client, "order-42", 1000).await.expect_err("it will never change");

        assert!(error.is_dead_letter());
        assert_eq!(fake.ledger().count(), 0);
    }

    #[tokio::test]
    async fn nothing_is_sent_twice_without_a_server_at_all() {
        let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
        let client = Client::builder(Stripe::new("sk_test_123"))
            .transport(network.clone().always_fail(SendErrorKind::Connect))
            .clock(TestClock::auto())
            .build()
            .expect("a client");

        let error = charge(&client, "order-42", 1000).await.expect_err("nothing connects");

        assert_eq!((error.effect(), network.requests().len()), (Effect::None, 5));
    }
}

//! A typed PaymentIntent, through what takes other clients' charges twice.

use std::sync::Arc;
use std::time::Duration;

use carriers::stripe::{Carrier, StripeError};
use serde_json::json;
use steadfast::store::Memory;
use steadfast::testkit::fakes::StripeFake;
use steadfast::testkit::{Fault, ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Client, Effect};
use stripe_client_core::{IdempotencyKey, RequestStrategy, StripeRequest};
use stripe_core::PaymentIntent;
use stripe_core::payment_intent::{CreatePaymentIntent, RetrievePaymentIntent};
use stripe_types::Currency;

struct Bench {
    clock: TestClock,
    fake: StripeFake,
    store: Arc<Memory>,
}

impl Bench {
    fn new() -> Bench {
        let clock = TestClock::auto();
        let fake = StripeFake::builder().test_clock(&clock).in_process();
        Bench { clock, fake, store: Arc::new(Memory::new()) }
    }

    /// A process of the service: each knows of the others by the store alone.
    fn process(&self) -> Carrier {
        let client = Client::builder(Stripe::new("sk_test_123")).transport(self.fake.transport());
        let client = client.store(self.store.clone()).clock(self.clock.clone());
        Carrier::new(client.build().expect("a client"))
    }
}

async fn charge(stripe: &Carrier, amount: i64) -> Result<PaymentIntent, StripeError> {
    let key = IdempotencyKey::new("order-42/charge").expect("a key");
    let create =
        CreatePaymentIntent::new(amount, Currency::USD).metadata([("order".to_owned(), "42".to_owned())]);
    create.customize().request_strategy(RequestStrategy::Idempotent(key)).send(stripe).await
}

#[tokio::test]
async fn a_lost_answer_is_one_charge() {
    let bench = Bench::new();
    bench.fake.plan().next(Fault::DropAfterApply);
    let intent = charge(&bench.process(), 1000).await.expect("an intent");
    assert_eq!((intent.amount, intent.metadata.get("order").map(String::as_str)), (1000, Some("42")));
    assert_eq!((bench.fake.plan().injected_total(), bench.fake.ledger().count()), (1, 1));
}

#[tokio::test]
async fn a_repeat_in_another_process_is_the_same_charge() {
    let bench = Bench::new();
    let first = charge(&bench.process(), 1000).await.expect("an intent");
    let again = charge(&bench.process(), 1000).await.expect("a replay");
    assert_eq!((again.id, bench.fake.ledger().count()), (first.id, 1));
    let StripeError::Call(error) = charge(&bench.process(), 900).await.expect_err("another charge") else {
        panic!("the call itself fails");
    };
    assert!(error.is_key_reused());
    assert_eq!(bench.fake.ledger().count(), 1);
}

#[tokio::test]
async fn a_process_that_dies_in_the_middle_leaves_one_charge_for_the_next() {
    let bench = Bench::new();
    bench.fake.plan().next(Fault::HangAfterApply);
    let stripe = bench.process();
    let dying = tokio::spawn(async move { charge(&stripe, 1000).await.map(|intent| intent.id) });
    while bench.fake.ledger().count() == 0 {
        tokio::task::yield_now().await;
    }
    dying.abort();
    assert!(dying.await.expect_err("it is gone").is_cancelled());

    // Once the lease is over, the key is taken over.
    bench.clock.advance(Duration::from_secs(3600));
    let intent = charge(&bench.process(), 1000).await.expect("an intent");
    assert_eq!((intent.amount, bench.fake.ledger().count()), (1000, 1));
}

#[tokio::test]
async fn what_is_read_is_read_anew_and_a_refusal_has_stripes_words() {
    let bench = Bench::new();
    let stripe = bench.process();
    let intent = charge(&stripe, 1000).await.expect("an intent");
    let found = RetrievePaymentIntent::new(intent.id.clone()).send(&stripe).await.expect("an intent");
    assert_eq!(found.id, intent.id);

    let StripeError::Call(error) =
        RetrievePaymentIntent::new("pi_none").send(&stripe).await.expect_err("none")
    else {
        panic!("the call itself fails");
    };
    assert!(error.is_refused());
    assert_eq!(error.answer().expect("an answer").json().expect("JSON")["error"]["code"], "resource_missing");
}

#[tokio::test]
async fn a_reply_that_async_stripe_cannot_read_has_taken_effect() {
    let network = ScriptedTransport::new().json(200, json!({"id": "pi_1", "object": "payment_intent"}));
    let client =
        Client::builder(Stripe::new("sk_test_123")).transport(network.clone()).clock(TestClock::auto());
    let error = charge(&Carrier::new(client.build().expect("a client")), 1000).await.expect_err("unreadable");
    assert!(matches!(error, StripeError::Unreadable(_)), "{error}");
    assert_eq!((error.effect(), network.requests().len()), (Effect::Applied, 1));
    let sent = &network.requests()[0];
    assert_eq!(sent.url.as_str(), "https://api.stripe.com/v1/payment_intents");
    assert_eq!(sent.headers["stripe-version"], stripe_client_core::VERSION.as_str());
}

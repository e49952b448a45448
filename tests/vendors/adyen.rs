//! The adapter against the fake: what a service sees when answers are lost, and what is left at Adyen.

#![allow(clippy::unwrap_used, reason = "helpers of tests, outside of #[test]")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::dead_letter::{Change, DeadLetters, Safety};
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::Backoff;
use steadfast::store::{Memory, Store};
use steadfast::testkit::fakes::{AdyenAnswer, AdyenFake};
use steadfast::testkit::{Fault, ScriptedTransport, TestClock, WaitForm};
use steadfast::vendor::Adyen;
use steadfast::{Call, Client, ClientBuilder, Effect, Obtained, Policy, Reason};

use support::rig::{Rig, plain};

const DAY: Duration = Duration::from_secs(24 * 3600);
const CARD: &str = "4111111111111111";

struct Bench {
    fake: AdyenFake,
    store: Arc<dyn Store>,
    clock: TestClock,
}

impl Bench {
    fn new() -> Bench {
        let clock = TestClock::auto();
        let fake = AdyenFake::builder().test_clock(&clock).manual_capture().in_process();
        Bench { fake, store: Arc::new(Memory::new()), clock }
    }

    /// A process of the service: its clients share a store, and nothing else.
    fn patient(&self) -> Client {
        self.with(plain().backoff)
    }

    /// One that sends a request once.
    fn client(&self) -> Client {
        self.with(Backoff::none())
    }

    fn with(&self, ladder: Backoff) -> Client {
        self.to(Adyen::new("AQE-secret").base_url(self.fake.url()), ladder)
    }

    fn to(&self, adyen: Adyen, ladder: Backoff) -> Client {
        let setup = Rig::of(adyen).policy(plain().backoff(ladder)).store(Arc::clone(&self.store));
        setup.clock(&self.clock).network(self.fake.transport()).client()
    }
}

fn payment(holder: &str) -> Value {
    json!({
        "merchantAccount": "ShopECOM", "reference": "order-42", "returnUrl": "https://shop.example/return",
        "amount": { "value": 1000, "currency": "EUR" },
        "paymentMethod": {
            "type": "scheme", "number": CARD, "expiryMonth": "03", "expiryYear": "2030", "holderName": holder,
            "cvc": "737",
        },
    })
}

fn pay(client: &Client) -> Call {
    client.post("/v71/payments").key("order-42").json(&payment("Ann"))
}

#[tokio::test]
async fn whatever_is_lost_on_the_way_it_is_one_payment() {
    for fault in [
        Fault::DropBeforeRead,
        Fault::DropAfterApply,
        Fault::Reset,
        Fault::ResetAfterApply,
        Fault::TruncatedBody,
        Fault::Error500Before,
        Fault::Html,
        Fault::KeyInUse,
        Fault::TooManyRequests(WaitForm::Seconds(3)),
    ] {
        let bench = Bench::new();
        bench.fake.plan().next(fault);
        let reply = pay(&bench.patient()).send().await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!((reply.attempts(), bench.fake.plan().pending()), (2, 0), "{fault:?}");
        assert_eq!(reply.json::<Value>().unwrap()["resultCode"], "Authorised");
        let ledger = bench.fake.ledger();
        assert_eq!((ledger.count(), ledger.duplicates()), (1, Vec::new()), "{fault:?}");
    }
}

#[tokio::test]
async fn a_process_that_was_killed_between_payment_and_answer_leaves_one_payment() {
    for changes in [false, true] {
        let bench = Bench::new();
        let psp = if changes {
            let made = bench.client().post("/v71/payments").key("first").json(&payment("Ann"));
            let made: Value = made.send().await.expect("a payment").json().unwrap();
            made["pspReference"].as_str().unwrap().to_owned()
        } else {
            String::new()
        };
        let call = |client: &Client| {
            if !changes {
                return pay(client);
            }
            let capture =
                json!({ "merchantAccount": "ShopECOM", "amount": { "value": 1000, "currency": "EUR" } });
            client.post("/v71/payments/{psp}/captures").path("psp", &psp).key("capture").json(&capture)
        };
        let before = bench.fake.ledger().count();
        bench.fake.plan().next(Fault::DropAfterApply);
        // It has no time for another attempt, and is gone.
        let error = call(&bench.patient()).deadline(Duration::from_millis(1)).send().await.expect_err("lost");
        assert_eq!(error.effect(), Effect::Unknown);
        bench.clock.advance(6 * DAY);
        let reply = call(&bench.patient()).send().await.expect("another process");
        assert_eq!(reply.status().as_u16(), if changes { 201 } else { 200 });
        assert_eq!((bench.fake.ledger().count() - before, bench.fake.ledger().duplicates()), (1, Vec::new()));
        // From the record, without Adyen.
        let again = call(&bench.patient()).send().await.expect("on record");
        assert_eq!(again.obtained(), Obtained::Replayed);
    }
}

/// A release takes the next version of the API, in the call's path or in the base URL.
#[tokio::test]
async fn in_the_next_version_of_the_api_it_is_the_same_payment() {
    for in_base in [false, true] {
        for is_lost in [false, true] {
            let bench = Bench::new();
            let at = |version: &str, holder: &str| {
                let base = format!("{}{}", bench.fake.url(), if in_base { version } else { "" });
                let client = bench.to(Adyen::new("AQE-secret").base_url(base), Policy::background().backoff);
                let path = if in_base { "/payments".to_owned() } else { format!("{version}/payments") };
                client.post(&path).key("order-42").json(&payment(holder))
            };
            let mut first = at("/v71", "Ann");
            if is_lost {
                bench.fake.plan().next(Fault::DropAfterApply);
                // It has no time for another attempt.
                first = first.deadline(Duration::from_millis(1));
            }
            let first = first.send().await;
            assert_eq!(first.is_err(), is_lost);
            bench.clock.advance(DAY);
            let other = at("/v72", "Bob").send().await.expect_err("another payment");
            let effect = if is_lost { Effect::Unknown } else { Effect::Applied };
            assert_eq!((other.is_key_reused(), other.effect()), (true, effect), "{other}");
            let again = at("/v72", "Ann").send().await.expect("the same payment");
            if let Ok(first) = first {
                assert_eq!((again.bytes(), again.obtained()), (first.bytes(), Obtained::Replayed));
            }
            let sent = bench.fake.ledger();
            assert_eq!((sent.count(), sent.requests().len()), (1, 1), "{in_base} {is_lost}");
        }
    }
}

/// The service moves to another base URL, of another path: what is on record keeps its name.
#[tokio::test]
async fn below_another_base_url_it_is_the_same_payment() {
    const BARE: &str = "https://checkout-test.adyen.com";
    const VERSIONED: &str = "https://checkout-test.adyen.com/v71";
    const GATEWAY: &str = "https://gateway.example/adyen";
    const VERSIONED_GATEWAY: &str = "https://gateway.example/adyen/v71";
    for ((former, path), (base, path_now)) in [
        ((GATEWAY, "/v71/payments"), (BARE, "/v71/payments")),
        ((VERSIONED_GATEWAY, "/payments"), (VERSIONED, "/payments")),
        ((BARE, "/v71/payments"), (GATEWAY, "/v71/payments")),
        ((VERSIONED_GATEWAY, "/payments"), (GATEWAY, "/v71/payments")),
    ] {
        for is_sent_before in [true, false] {
            let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
            let paid = json!({ "pspReference": "993617894903480A", "resultCode": "Authorised" });
            let network = ScriptedTransport::new().json(200, paid);
            let at = |base: &str, former: Option<&str>| {
                let client = Client::builder(Adyen::new("AQE-secret").base_url(base));
                let client = client.transport(network.clone()).clock(clock.clone()).store(Arc::clone(&store));
                former.into_iter().fold(client, ClientBuilder::former_base_url).build().expect("a client")
            };
            let call = at(former, None).post(path).key("order-42").json(&payment("Ann"));
            if is_sent_before {
                call.send().await.expect("paid");
            } else {
                call.enqueue().await.expect("recorded");
            }
            store.register("default/adyen/test", None).await.expect("forgets");
            let moved = at(base, Some(former));
            moved.recover(10).await.expect("the store works");
            let again =
                moved.post(path_now).key("order-42").json(&payment("Ann")).send().await.expect("paid");
            assert_eq!((again.obtained(), network.requests().len()), (Obtained::Replayed, 1), "{base}");
        }
    }
}

/// A command knows an operation's rules by its name, which is not the path that was sent.
#[tokio::test]
async fn an_operator_redrives_what_is_in_its_window_without_force() {
    let bench = Bench::new();
    let client = bench.client();
    bench.fake.answer_next(AdyenAnswer::StoredError);
    let error = pay(&client).send().await.expect_err("a dead letter");
    let key = Key::new(error.key().unwrap()).unwrap();
    let id = OperationId::new(Scope::from_stored(error.operation().unwrap()), key);
    let letters = DeadLetters::new(Arc::clone(&bench.store)).with_clock(bench.clock.clone());
    let letters = letters.with_client(&client);
    let shown = letters.show(&id).await.expect("shown");
    assert!(matches!(shown.safety, Some(Safety::WindowOpen { .. })), "{:?}", shown.safety);
    let redriven = letters.redrive(&[id], &Change::by("ada").because("ticket 7")).await.expect("works");
    assert_eq!((redriven.done, redriven.held_back), (1, 0));
}

#[tokio::test]
async fn after_seven_days_a_lost_answer_is_left_to_a_person_and_not_sent_again() {
    let bench = Bench::new();
    bench.fake.plan().next(Fault::DropAfterApply);
    pay(&bench.patient()).deadline(Duration::from_millis(1)).send().await.expect_err("lost");
    bench.clock.advance(7 * DAY);
    let error = pay(&bench.patient()).send().await.expect_err("a dead letter");
    assert_eq!((error.reason(), error.effect()), (Some(Reason::Expired), Effect::Unknown));
    assert_eq!((bench.fake.ledger().count(), bench.fake.plan().requests()), (1, 1));
}

#[tokio::test]
async fn what_adyen_says_not_to_repeat_is_not_repeated() {
    for answer in [AdyenAnswer::StoredError, AdyenAnswer::AlreadyProcessed, AdyenAnswer::Configuration500] {
        let bench = Bench::new();
        bench.fake.answer_next(answer);
        let error = pay(&bench.patient()).send().await.expect_err("a dead letter");
        assert_eq!((error.effect(), error.is_dead_letter()), (Effect::Unknown, true), "{answer:?}: {error}");
        assert_eq!(bench.fake.plan().requests(), 1, "{answer:?}");
    }
    // Without side effects, however long it takes.
    for answer in [AdyenAnswer::StoreUnavailable, AdyenAnswer::RateLimited] {
        let bench = Bench::new();
        bench.fake.answer_next(answer);
        let error = pay(&bench.client()).send().await.expect_err("no ladder");
        assert_eq!(error.effect(), Effect::None, "{answer:?}: {error}");
        assert_eq!(bench.fake.ledger().count(), 0);
    }
    let bench = Bench::new();
    bench.fake.plan().next(Fault::Error500After);
    let error = pay(&bench.patient()).send().await.expect_err("a dead letter");
    assert_eq!(
        (error.effect(), bench.fake.ledger().count()),
        (Effect::Unknown, 1),
        "paid, and told as unknown"
    );
}

#[tokio::test]
async fn a_declined_payment_is_an_answer_and_a_refused_request_has_no_effect() {
    let bench = Bench::new();
    let declined = bench.client().post("/v71/payments").key("declined").json(&payment("DECLINED"));
    let reply = declined.send().await.expect("an answer");
    let told: Value = reply.json().unwrap();
    assert_eq!((&told["resultCode"], &told["refusalReason"]), (&json!("Refused"), &json!("Refused")));
    let mut incomplete = payment("Ann");
    incomplete.as_object_mut().unwrap().remove("amount");
    let error = bench
        .client()
        .post("/v71/payments")
        .key("incomplete")
        .json(&incomplete)
        .send()
        .await
        .expect_err("refused");
    assert!(error.is_refused(), "{error}");
    assert_eq!(error.effect(), Effect::None);
    assert_eq!(bench.fake.ledger().count(), 1, "the declined one was asked of the issuer");
}

#[tokio::test]
async fn a_card_is_shown_to_nobody() {
    let bench = Bench::new();
    let client = bench.client();
    bench.fake.answer_next(AdyenAnswer::StoredError);
    let mut secret = payment("Ann Example");
    secret["paymentMethod"]["encryptedCardNumber"] = json!("test_5555341244441115");
    let error = client.post("/v71/payments").key("k").json(&secret).send().await.expect_err("a dead letter");
    let key = Key::new(error.key().unwrap()).unwrap();
    let id = OperationId::new(Scope::from_stored(error.operation().unwrap()), key);
    let letters = DeadLetters::new(Arc::clone(&bench.store)).with_clock(bench.clock.clone());
    let shown = letters.open(&id, &Change::by("ada").because("ticket 7")).await.expect("shown");
    let text = format!("{shown:?} {error:?}");
    assert!(text.contains("order-42") && text.contains("ShopECOM"), "the rest is shown: {text}");
    for hidden in [CARD, "737", "2030", "Ann Example", "5555341244441115"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}

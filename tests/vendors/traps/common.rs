//! One test, or more, for each trap that clients of these vendors fell into.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use http::Method;
use serde_json::json;
use steadfast::clock::Clock;
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::Timeouts;
use steadfast::store::{Memory, Store};
use steadfast::testkit::fakes::StripeAnswer;
use steadfast::testkit::{Fault, ScriptedTransport, WaitForm};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Client, Disposition, Effect};

use super::vendors::{
    FRESH, NEVER_HAPPENED, NOBODY_KNOWS, RECONCILED, Tap, bigcommerce, bigcommerce_at, bigcommerce_lagging,
    charge, ending, ms, order, plain, postmark_lagging, promise_holds, receipt, secs, stripe, stripe_at,
};
use support::rig;

/// Trap: a key stored after the first byte left.
#[tokio::test]
async fn the_key_is_on_record_before_the_first_byte_leaves() {
    let store = Arc::new(Memory::new());
    let states = Arc::new(Mutex::new(Vec::new()));
    let (seen, held) = (Arc::clone(&states), Arc::clone(&store));
    let transport = ScriptedTransport::new().always_with(move |request| {
        let record = at_once(held.get(&charge_id())).expect("a store").expect("a record");
        if request.method == Method::POST {
            assert_eq!(request.headers["idempotency-key"].to_str().ok(), Some(&*record.wire_key));
        }
        seen.lock().expect("a lock").push(record.state.name());
        Err(SendErrorKind::Reset)
    });
    let client =
        rig::Rig::of(Stripe::new("sk_test_123")).network(transport).store(Arc::clone(&store)).client();
    let error = charge(&client, "order-42").send().await.expect_err("every send is reset");
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(states.lock().expect("a lock")[..], ["in_progress"; 7], "five sends and two lookups");
}

fn charge_id() -> OperationId {
    let scope = Scope::new("default", "stripe", "test", &Method::POST, "/v1/payment_intents");
    OperationId::new(scope, Key::new("order-42").expect("a key"))
}

/// The memory store answers at once.
fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it would have had to wait"),
    }
}

/// Trap: a key changed by re-serialising the body. The body that is resent is what was first sent, even when another
/// process offers the same JSON in another order and with other blanks.
#[tokio::test]
async fn a_resend_is_never_serialised_anew() {
    let (rig, fake) = bigcommerce().await;
    fake.plan().next(Fault::TooManyRequests(WaitForm::Seconds(5)));
    let first = r#"{"discount_amount":10.50,"products":[{"product_id":1,"quantity":1}],"billing_address":{"zip":"1"}}"#;
    let other = r#"{"products": [{"quantity":1, "product_id":1}], "billing_address":{"zip":"1"}, "discount_amount": 10.50}"#;
    let call = |client: &Client, body: &'static str| {
        client.post("/v2/orders").key("order-42").header("content-type", "application/json").bytes(body)
    };
    let error = call(&rig.client, first).deadline(secs(1)).send().await.expect_err("no time to wait");
    assert!(error.is_deadline());
    rig.clock.advance(secs(6));
    let heir = rig.another_process(bigcommerce_at(&fake), Tap::new());
    let reply = call(&heir.client, other).send().await.expect("the retry");
    let (before, after) = (rig.sent(&Method::POST), heir.sent(&Method::POST));
    assert_eq!(before[0].body, after[0].body);
    let begins = first.trim_end_matches('}').as_bytes();
    assert!(before[0].body.starts_with(begins));
    assert_eq!(json_of(&after[0].body)["external_order_id"].as_str(), reply.wire_key());
    assert_eq!(fake.ledger().count(), 1);
}

/// Trap: resending under the same key after the vendor's window. Counted from the first send, across restarts.
#[tokio::test]
async fn after_stripes_window_the_key_is_not_resent_blindly() {
    for applied in [true, false] {
        let (rig, fake) = stripe().await;
        let fault = if applied { Fault::DropAfterApply } else { Fault::DropBeforeRead };
        fake.plan().next(fault);
        let error = charge(&rig.client, "order-42").deadline(ms(100)).send().await.expect_err("lost");
        assert!(error.is_deadline());
        rig.clock.advance(secs(25 * 3600));
        let heir = rig.another_process(stripe_at(&fake), Tap::new());
        let outcome = charge(&heir.client, "order-42").send().await;
        // Stripe has forgotten the key by now: only the list can tell, and it is asked first.
        assert_eq!(ending(&outcome), if applied { RECONCILED } else { FRESH });
        assert_eq!((heir.gets(), heir.posts()), (1, usize::from(!applied)));
        assert_eq!(promise_holds(&outcome, &fake.ledger(), "25 h later"), 1);
    }
}

/// Trap: a replayed 500 retried for ever.
#[tokio::test]
async fn a_replayed_500_is_not_retried_for_ever() {
    let (rig, fake) = stripe().await;
    fake.answer_next(StripeAnswer::Stored500);
    fake.plan().next(Fault::DropAfterApply);
    let outcome = charge(&rig.client, "order-42").send().await;
    // Lost, replayed once, and then looked up: the list proves that there is no such charge.
    assert_eq!((ending(&outcome), rig.posts(), rig.gets()), (NEVER_HAPPENED, 2, 1));
    let error = outcome.as_ref().expect_err("it never happened");
    let replay = error.answer().expect("the replay");
    assert_eq!((replay.status.as_u16(), replay.header("idempotent-replayed")), (500, Some("true")));
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "stored 500"), 0);
}

/// Trap: a failed lookup taken for "it did not happen".
#[tokio::test]
async fn a_failed_lookup_is_not_taken_for_it_did_not_happen() {
    for fault in [
        Fault::Error500Before,
        Fault::Html,
        Fault::Reset,
        Fault::TruncatedBody,
        Fault::DropBeforeRead,
        Fault::TooManyRequests(WaitForm::None),
    ] {
        let (rig, fake) = bigcommerce().await;
        fake.plan().next(Fault::DropAfterApply).whenever("/", Method::GET, fault);
        let call = || order(&rig.client, "order-42").timeout(patient());
        let outcome = call().send().await;
        // It is no lookup at all: it is made again until the call's time is over, and goes on from there.
        let error = outcome.as_ref().expect_err("nobody knows yet");
        assert_eq!((error.is_dead_letter(), error.effect()), (false, Effect::Unknown), "{fault:?}");
        assert!(matches!(error.disposition(), Disposition::Continues { at: Some(_) }), "{fault:?}: {error}");
        assert!(rig.gets() > 3, "{fault:?}: {}", rig.gets());
        assert_eq!(rig.posts(), 1, "{fault:?}");
        assert_eq!(promise_holds(&outcome, &fake.ledger(), "failed lookup"), 1);
    }
}

/// Time for three lookups, settle times and hanging answers included.
fn patient() -> Timeouts {
    Timeouts::new(plain().timeout.connect, plain().timeout.attempt, secs(600))
}

/// Trap: an empty lookup taken for "it did not happen", where the lag of the index is not documented.
#[tokio::test]
async fn an_empty_lookup_at_postmark_is_not_taken_for_it_did_not_happen() {
    // Searchable in time: found. Searchable only long after: nobody knows, and no second message.
    for (lag, expected, lookups) in
        [(secs(0), RECONCILED, 1), (secs(25), RECONCILED, 3), (secs(3600), NOBODY_KNOWS, 3)]
    {
        let (rig, fake) = postmark_lagging(lag).await;
        fake.plan().next(Fault::DropAfterApply);
        let outcome = receipt(&rig.client, "order-42").send().await;
        assert_eq!((ending(&outcome), rig.posts(), rig.gets()), (expected, 1, lookups), "{lag:?}");
        assert_eq!(promise_holds(&outcome, &fake.ledger(), "lag"), 1);
    }
}

/// Where a miss is proof after the settle time, the settle time must outlast the lag, and is waited out.
#[tokio::test]
async fn a_lookup_at_bigcommerce_is_believed_only_after_the_settle_time() {
    let (rig, fake) = bigcommerce_lagging(secs(29)).await;
    fake.plan().next(Fault::DropAfterApply);
    let outcome = order(&rig.client, "order-42").send().await;
    assert_eq!((ending(&outcome), rig.posts()), (RECONCILED, 1), "the default of 30 s covers 29 s");
    assert!(rig.clock.now().as_nanos() >= secs(30).as_nanos() as u64);

    let (rig, fake) = bigcommerce_lagging(secs(100)).await;
    let rig = rig.another_process(bigcommerce_at(&fake).settle_time(secs(101)), Tap::new());
    fake.plan().next(Fault::DropAfterApply);
    let outcome = order(&rig.client, "order-42").send().await;
    assert_eq!((ending(&outcome), rig.posts()), (RECONCILED, 1), "a store that lags gets a longer one");
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "settle"), 1);
}

/// A store that lags for longer than its settle time, and refuses a second of the name: the refusal is our own
/// first send showing, so it is looked up and compared, never reported as "nothing happened".
#[tokio::test]
async fn a_duplicate_after_a_miss_that_came_too_early_is_looked_up_again() {
    let product = |client: &Client| {
        let body = json!({"name": "Mug", "type": "physical", "weight": 1, "price": 10});
        client.post("/v3/catalog/products").key("mug").json(&body).timeout(patient())
    };
    for (lag, expected) in [(secs(45), RECONCILED), (secs(3600), NOBODY_KNOWS)] {
        let (rig, fake) = bigcommerce_lagging(lag).await;
        fake.plan().next(Fault::DropAfterApply);
        let outcome = product(&rig.client).send().await;
        assert_eq!((ending(&outcome), fake.ledger().count()), (expected, 1), "{lag:?}");
        let effect = outcome.as_ref().err().map_or(Effect::Unknown, steadfast::Error::effect);
        assert_eq!(effect, Effect::Unknown, "it took effect: nobody may say that it did not");
    }
}

fn json_of(body: &[u8]) -> serde_json::Value {
    serde_json::from_slice(body).expect("JSON")
}

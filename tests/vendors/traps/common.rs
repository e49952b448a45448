//! One test, or more, for each trap that clients of these vendors fell into.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::any;
use http::Method;
use serde_json::json;
use steadfast::clock::Clock;
use steadfast::operation::record::State;
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::{Backoff, BreakerConfig, Timeouts};
use steadfast::store::{Memory, Store};
use steadfast::testkit::fakes::StripeAnswer;
use steadfast::testkit::internals::slack;
use steadfast::testkit::{Fault, ScriptedTransport, TestClock, WaitForm};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{BigCommerce, Postmark, Stripe};
use steadfast::{Client, Disposition, Effect, Obtained, Reason};

use super::vendors::{
    FRESH, NEVER_HAPPENED, NOBODY_KNOWS, RECONCILED, REPLAYED, Rig, Tap, bigcommerce, bigcommerce_at,
    bigcommerce_lagging, charge, ending, ms, order, plain, postmark, postmark_lagging, promise_holds,
    receipt, secs, stripe, stripe_at,
};
use support::rig;
use support::rig::until;

/// Trap: a new key per attempt.
#[tokio::test]
async fn no_attempt_gets_a_new_key() {
    let (rig, fake) = stripe().await;
    fake.plan().next(Fault::Reset).next(Fault::Error500Before).next(Fault::TooManyRequests(WaitForm::None));
    let reply = charge(&rig.client, "order-42").send().await.expect("the fourth attempt");
    let sent = rig.sent(&Method::POST);
    assert_eq!((reply.attempts(), sent.len()), (4, 4));
    for request in &sent {
        assert_eq!(request.headers["idempotency-key"].to_str().ok(), reply.wire_key());
    }

    let (rig, fake) = bigcommerce().await;
    fake.plan().next(Fault::DropBeforeRead).next(Fault::TooManyRequests(WaitForm::None));
    let reply = order(&rig.client, "order-42").send().await.expect("sent again after a lookup");
    let keys: Vec<_> = rig.sent(&Method::POST).iter().map(|sent| json_of(&sent.body)).collect();
    assert_eq!(keys.len(), 2);
    for body in keys {
        assert_eq!(body["external_order_id"].as_str(), reply.wire_key());
    }
}

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

/// Trap: a key changed by re-serialising the body. What is resent is what was first sent, even when another
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

/// The same without a lookup: then nobody can tell, and nothing is sent.
#[tokio::test]
async fn after_stripes_window_without_a_look_up_the_operation_is_a_dead_letter() {
    let no_look_up = |fake: &_| stripe_at(fake).look_up_by_metadata(Vec::<String>::new());
    let (rig, fake) = stripe().await;
    let rig = rig.another_process(no_look_up(&fake), Tap::new());
    fake.plan().next(Fault::DropAfterApply);
    let error = charge(&rig.client, "order-42").deadline(ms(100)).send().await.expect_err("lost");
    assert!(error.is_deadline());
    rig.clock.advance(secs(25 * 3600));
    let heir = rig.another_process(no_look_up(&fake), Tap::new());
    let error = charge(&heir.client, "order-42").send().await.expect_err("past the window");
    assert_eq!((error.reason(), error.effect()), (Some(Reason::Expired), Effect::Unknown));
    assert_eq!(error.code(), "UNKNOWN.effect");
    assert_eq!((heir.posts(), heir.gets(), fake.ledger().count()), (0, 0, 1));
}

/// Inside the window, by contrast, the same key is the quickest answer.
#[tokio::test]
async fn inside_stripes_window_the_key_is_resent_and_replayed() {
    let (rig, fake) = stripe().await;
    fake.plan().next(Fault::DropAfterApply);
    let error = charge(&rig.client, "order-42").deadline(ms(100)).send().await.expect_err("lost");
    assert!(error.is_deadline());
    rig.clock.advance(secs(23 * 3600));
    let heir = rig.another_process(stripe_at(&fake), Tap::new());
    let outcome = charge(&heir.client, "order-42").send().await;
    assert_eq!((ending(&outcome), heir.gets(), heir.posts()), (REPLAYED, 0, 1));
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "23 h later"), 1);
}

/// Trap: waiting in backoff burns the window.
#[tokio::test]
async fn backoff_burns_the_window() {
    let (rig, fake) = stripe().await;
    // The ladder's first three waits are 500 ms, 2 s and 5 s: the third retry would be past 3 s.
    let short =
        stripe_at(&fake).replay_window(slack(secs(30)) + secs(3)).look_up_by_metadata(Vec::<String>::new());
    let rig = rig.another_process(short, Tap::new());
    fake.plan().next_n(Fault::ResetAfterApply, 9);
    let outcome = charge(&rig.client, "order-42").send().await;
    assert_eq!(outcome.as_ref().err().and_then(steadfast::Error::reason), Some(Reason::Expired));
    assert_eq!(rig.posts(), 3);
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "backoff"), 1);
}

/// Trap: waiting behind an open breaker burns the window.
#[tokio::test]
async fn an_open_breaker_burns_the_window() {
    let (rig, fake) = stripe().await;
    let window = slack(secs(30)) + secs(5);
    let vendor = stripe_at(&fake).replay_window(window).look_up_by_metadata(Vec::<String>::new());
    let breaker = BreakerConfig::default().consecutive_failures(1).open(secs(10), secs(10));
    let rig = Rig::over_sockets_with(vendor, &rig.clock, plain().breaker(breaker));
    fake.plan().next(Fault::DropAfterApply);
    let outcome = charge(&rig.client, "order-42").send().await;
    assert_eq!(outcome.as_ref().err().and_then(steadfast::Error::reason), Some(Reason::Expired));
    // The first rung ended inside the window; the circuit, which stays open for 8 s at least, did not.
    assert!(rig.clock.now().as_nanos() >= secs(8).as_nanos() as u64);
    assert_eq!(rig.posts(), 1);
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "breaker"), 1);
}

/// Trap: waiting in the dead-letter list burns the window. A dead letter is not sent again by its key.
#[tokio::test]
async fn a_dead_letter_sent_again_after_the_window_sends_nothing() {
    let (rig, fake) = stripe().await;
    let rig = rig.another_process(stripe_at(&fake).look_up_by_metadata(Vec::<String>::new()), Tap::new());
    fake.plan().next(Fault::DropAfterApply).next_n(Fault::Reset, 4);
    let first = charge(&rig.client, "order-42").send().await;
    assert_eq!(first.as_ref().err().and_then(steadfast::Error::reason), Some(Reason::Exhausted));
    let posts = rig.posts();
    rig.clock.advance(secs(25 * 3600));
    let later = charge(&rig.client, "order-42").send().await;
    assert_eq!((ending(&later), rig.posts()), (ending(&first), posts));
    assert_eq!(promise_holds(&later, &fake.ledger(), "dead letter"), 1);
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

/// The same where the replay says nothing of retries, or even asks for one: that it is a replay decides.
#[tokio::test]
async fn a_replayed_500_is_final_whatever_else_it_says() {
    for advice in [None, Some("true")] {
        let network = ScriptedTransport::new().status(500).status(500).header("idempotent-replayed", "true");
        let network = match advice {
            Some(advice) => network.header("stripe-should-retry", advice),
            None => network,
        };
        let vendor = Stripe::new("sk_test_123").look_up_by_metadata(Vec::<String>::new());
        let client = rig::Rig::of(vendor).network(network.clone().status(200)).client();
        let outcome = charge(&client, "order-42").send().await;
        assert_eq!((ending(&outcome), network.requests().len()), (NOBODY_KNOWS, 2), "{advice:?}");
    }
}

/// Trap: a replayed success taken for a second event.
#[tokio::test]
async fn a_replayed_success_is_no_second_event() {
    let (rig, fake) = stripe().await;
    fake.plan().next(Fault::DropAfterApply);
    let reply = charge(&rig.client, "order-42").send().await.expect("the replay");
    assert_eq!((reply.obtained(), reply.attempts()), (Obtained::Replayed, 2));
    assert_eq!(reply.headers()["idempotent-replayed"], "true");
    let again = charge(&rig.client, "order-42").send().await.expect("from the record");
    assert_eq!((again.obtained(), again.answer()), (Obtained::Replayed, reply.answer()));
    assert_eq!((rig.posts(), fake.ledger().count()), (2, 1));
}

/// Trap: "never sent" guessed from a reset. Only what provably never left is.
#[tokio::test]
async fn a_reset_is_never_taken_for_never_sent() {
    for fault in [Fault::Reset, Fault::DropBeforeRead, Fault::Hang] {
        let (rig, fake) = postmark().await;
        fake.plan().next(fault);
        let outcome = receipt(&rig.client, "order-42").send().await;
        let error = outcome.as_ref().expect_err("nobody can tell");
        assert_eq!((ending(&outcome), error.attempts()[0].effect), (NOBODY_KNOWS, Effect::Unknown));
        assert_eq!((rig.posts(), fake.ledger().count()), (1, 0), "{fault:?}");
    }
}

/// The other half: a refused connection and a name that does not resolve are provably unsent.
#[tokio::test]
async fn a_connection_that_never_was_is_provably_unsent() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = closed.local_addr().expect("an address");
    drop(closed);
    for url in [format!("http://{address}"), "http://nowhere.localhost.invalid".to_owned()] {
        let clock = TestClock::auto();
        let client = Client::builder(Postmark::new("token").base_url(&url))
            .policy(plain())
            .clock(clock.clone())
            .allow_plain_http()
            .build()
            .expect("a client");
        let error = receipt(&client, "order-42").send().await.expect_err("there is nobody");
        assert_eq!((error.reason(), error.effect()), (Some(Reason::Exhausted), Effect::None), "{url}");
        assert_eq!(clock.slept(), [ms(500), secs(2), secs(5), secs(30)], "{url}");
    }
}

/// A refusal of our own is provably unsent too.
#[tokio::test]
async fn our_own_refusal_is_provably_unsent() {
    let (rig, fake) = postmark().await;
    rig.client.engage_kill_switch();
    let error = receipt(&rig.client, "order-42").send().await.expect_err("switched off");
    assert_eq!((error.effect(), rig.posts(), fake.ledger().count()), (Effect::None, 0, 0));
    assert_eq!(rig.records().await, 0, "a refusal before the first attempt writes nothing");
}

/// Trap: a failed lookup taken for "it did not happen".
#[tokio::test]
async fn a_failed_look_up_is_not_taken_for_it_did_not_happen() {
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

/// One good lookup after two that failed is enough.
#[tokio::test]
async fn a_look_up_that_fails_at_first_is_asked_again() {
    let (rig, fake) = bigcommerce().await;
    fake.plan().when("/", Method::POST, Fault::DropAfterApply);
    fake.plan().when("/", Method::GET, Fault::Reset).when("/", Method::GET, Fault::Html);
    let outcome = order(&rig.client, "order-42").timeout(patient()).send().await;
    assert_eq!((ending(&outcome), rig.posts(), rig.gets()), (RECONCILED, 1, 3));
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "third lookup"), 1);
}

/// Time for three lookups, settle times and hanging answers included.
fn patient() -> Timeouts {
    Timeouts::new(plain().timeout.connect, plain().timeout.attempt, secs(600))
}

/// Trap: an empty lookup taken for "it did not happen", where the lag of the index is not documented.
#[tokio::test]
async fn an_empty_look_up_at_postmark_is_not_taken_for_it_did_not_happen() {
    // Searchable in time: found. Searchable only long after: nobody knows, and no second message.
    for (lag, expected, look_ups) in
        [(secs(0), RECONCILED, 1), (secs(25), RECONCILED, 3), (secs(3600), NOBODY_KNOWS, 3)]
    {
        let (rig, fake) = postmark_lagging(lag).await;
        fake.plan().next(Fault::DropAfterApply);
        let outcome = receipt(&rig.client, "order-42").send().await;
        assert_eq!((ending(&outcome), rig.posts(), rig.gets()), (expected, 1, look_ups), "{lag:?}");
        assert_eq!(promise_holds(&outcome, &fake.ledger(), "lag"), 1);
    }
}

/// Where a miss is proof after the settle time, the settle time must outlast the lag, and is waited out.
#[tokio::test]
async fn a_look_up_at_bigcommerce_is_believed_only_after_the_settle_time() {
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

/// Trap: a redirect followed on a keyed POST.
#[tokio::test]
async fn a_redirect_answered_to_a_keyed_post_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let reached = Arc::new(AtomicUsize::new(0));
        let target = serve_counting(Arc::clone(&reached)).await;
        let posts = Arc::new(AtomicUsize::new(0));
        let redirecting = serve_redirect(status, target, Arc::clone(&posts)).await;
        let client = Client::builder(Postmark::new("token").base_url(format!("http://{redirecting}")))
            .policy(plain())
            .clock(TestClock::auto())
            .build()
            .expect("a client");
        let error = receipt(&client, "order-42").send().await.expect_err("a redirect is no answer");
        // Its lookups are redirected too, and go on.
        assert_eq!((error.reason(), error.effect()), (None, Effect::Unknown), "{status}");
        assert_eq!(reached.load(Ordering::Relaxed), 0, "{status}: the target was never called");
        assert_eq!(posts.load(Ordering::Relaxed), 1, "{status}: and the POST never repeated");
    }
}

async fn serve_counting(reached: Arc<AtomicUsize>) -> SocketAddr {
    let answer = move || {
        reached.fetch_add(1, Ordering::Relaxed);
        async { r#"{"ErrorCode":0}"# }
    };
    serve(Router::new().fallback(any(answer))).await
}

async fn serve_redirect(status: u16, target: SocketAddr, posts: Arc<AtomicUsize>) -> SocketAddr {
    let status = StatusCode::from_u16(status).expect("a status");
    let answer = move |method: Method| {
        if method == Method::POST {
            posts.fetch_add(1, Ordering::Relaxed);
        }
        async move { (status, [(header::LOCATION, format!("http://{target}/email"))]) }
    };
    serve(Router::new().fallback(any(answer))).await
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Trap: milliseconds read as seconds in BigCommerce's two wait headers.
#[tokio::test]
async fn bigcommerces_wait_headers_are_milliseconds_and_seconds() {
    for (headers, wait) in [
        (vec![("x-rate-limit-time-reset-ms", "15000")], secs(15)),
        (vec![("x-retry-after", "15")], secs(15)),
        (vec![("x-rate-limit-time-reset-ms", "7500"), ("x-retry-after", "7")], ms(7_500)),
        (vec![("x-rate-limit-time-reset-ms", "7500"), ("x-retry-after", "9")], secs(9)),
    ] {
        let clock = TestClock::auto();
        let mut transport = ScriptedTransport::new().status(429);
        for (name, value) in &headers {
            transport = transport.header(name, value);
        }
        let client = rig::Rig::of(BigCommerce::new("abc123", "token"))
            .network(transport.json(201, json!({"id": 100})))
            .clock(&clock)
            .client();
        order(&client, "order-42").send().await.expect("the retry");
        // Positive jitter: half of the spread, which is a tenth of the wait.
        assert_eq!(clock.slept(), [wait + wait / 20], "{headers:?}");
    }
}

/// The same from the fake's own 429.
#[tokio::test]
async fn bigcommerces_own_429_is_waited_out_to_the_millisecond() {
    let (rig, fake) = bigcommerce().await;
    fake.plan().next(Fault::TooManyRequests(WaitForm::VendorForm(ms(7_500))));
    order(&rig.client, "order-42").send().await.expect("the retry");
    assert_eq!((rig.clock.slept(), fake.ledger().count()), (vec![ms(7_500 + 375)], 1));
}

/// Without any wait header the ladder alone is waited: the platform sheds load.
#[tokio::test]
async fn a_429_without_a_wait_goes_by_the_ladder() {
    let (rig, fake) = bigcommerce().await;
    fake.plan().next(Fault::TooManyRequests(WaitForm::None));
    order(&rig.client, "order-42").send().await.expect("the retry");
    assert_eq!(rig.clock.slept(), [ms(500)]);
}

/// A first attempt that is cut short by its caller is not lost, and not sent again while it may be under way.
#[tokio::test]
async fn a_call_dropped_in_mid_flight_is_carried_on_by_the_next_process() {
    let (rig, fake) = stripe().await;
    fake.plan().next(Fault::HangAfterApply);
    let call = charge(&rig.client, "order-42").backoff(Backoff::none());
    let task = tokio::spawn(call.send());
    until(|| fake.ledger().count() > 0).await;
    task.abort();
    let _ = task.await;
    let record = rig.store.get(&charge_id()).await.expect("a store").expect("a record");
    if let State::InProgress { .. } = record.state {
        rig.clock.advance(secs(120));
    }
    let heir = rig.another_process(stripe_at(&fake), Tap::new());
    let outcome = charge(&heir.client, "order-42").send().await;
    assert_eq!(ending(&outcome), REPLAYED);
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "taken over"), 1);
}

fn json_of(body: &[u8]) -> serde_json::Value {
    serde_json::from_slice(body).expect("JSON")
}

//! The things that a caller of reqwest looks for: requests of the crate `http`, the state of an operation by its key,
//! forms with files, redirects, gzip, tower.

#[cfg(feature = "gzip")]
mod gzip;
mod multipart;
mod pages;
mod redirects;
mod streams;
#[cfg(feature = "tower")]
mod tower;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::json;
use steadfast::clock::Clock as _;
use steadfast::store::{Memory, Store as _};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Disposition, Effect, Inbound, Obtained};

fn client(network: &ScriptedTransport, clock: &TestClock) -> Client {
    let vendor = Stripe::new("sk_test_123");
    Client::builder(vendor).transport(network.clone()).clock(clock.clone()).build().expect("a client")
}

/// An incoming request whose caller waits for so many seconds, from now on.
fn waits_for(seconds: &str, clock: &TestClock) -> Inbound {
    let mut headers = http::HeaderMap::new();
    headers.insert(Inbound::X_REQUEST_TIMEOUT, seconds.parse().expect("a value"));
    Inbound::from_headers_on(&headers, Arc::new(clock.clone()))
}

fn charge(client: &Client) -> Call {
    client.post("/v1/charges").key("order-42/charge").form(&[("amount", "1000"), ("currency", "usd")])
}

/// Nothing but what names the operation.
fn named(client: &Client) -> Call {
    client.post("/v1/charges").key("order-42/charge")
}

#[tokio::test]
async fn what_is_on_record_is_told_by_the_key_and_nothing_is_sent() {
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().json(200, json!({"id": "ch_1", "object": "charge"}));
    let store = Arc::new(Memory::new());
    let stripe = Client::builder(Stripe::new("sk_test_123")).transport(network.clone()).clock(clock.clone());
    let stripe = stripe.store(Arc::clone(&store)).build().expect("a client");
    assert!(named(&stripe).recorded().await.expect("a look").is_none());

    let sent = charge(&stripe).send().await.expect("a reply");
    let recorded = named(&stripe).recorded().await.expect("a look").expect("a record");
    assert_eq!((recorded.bytes(), recorded.obtained()), (sent.bytes(), Obtained::Replayed));
    assert_eq!((recorded.key(), recorded.wire_key()), (sent.key(), sent.wire_key()));

    // Another route, key or account is another operation.
    let others = [
        stripe.post("/v1/refunds").key("order-42/charge"),
        stripe.put("/v1/charges").key("order-42/charge"),
        stripe.post("/v1/charges").key("order-43/charge"),
        named(&stripe).header("Stripe-Account", "acct_1"),
    ];
    for other in others {
        assert!(other.recorded().await.expect("a look").is_none());
    }

    // After its time, a claim finds the key free, once the store believes that a week has passed.
    clock.advance(Duration::from_secs(8 * 86_400));
    assert!(named(&stripe).recorded().await.expect("a look").is_some());
    for _ in 0..2 {
        store.purge(clock.wall(), 0).await.expect("the store works");
        clock.advance(Duration::from_secs(3600));
    }
    assert!(named(&stripe).recorded().await.expect("a look").is_none());
    assert_eq!(network.requests().len(), 1);
}

#[tokio::test]
async fn what_has_not_succeeded_is_told_as_its_caller_would_be() {
    let clock = TestClock::auto();
    let declined = json!({"error": {"type": "card_error", "code": "card_declined", "message": "declined"}});
    let network = ScriptedTransport::new().json(402, declined).header("Request-Id", "req_1");
    let stripe = client(&network, &clock);
    charge(&stripe).send().await.expect_err("declined");
    let refused = named(&stripe).recorded().await.expect_err("declined");
    assert!(refused.is_refused());
    assert_eq!((refused.effect(), refused.key()), (Effect::None, Some("order-42/charge")));

    let network = ScriptedTransport::new().always_fail(SendErrorKind::Reset);
    let stripe = client(&network, &clock);
    let error = charge(&stripe).deadline(Duration::from_millis(1)).send().await.expect_err("no answer");
    assert!(error.is_deadline(), "{error}");
    let sent = network.requests().len();
    let scheduled = named(&stripe).recorded().await.expect_err("scheduled");
    assert!(scheduled.is_in_progress(), "{scheduled}");
    assert_eq!((scheduled.effect(), scheduled.retry_at()), (Effect::Unknown, error.retry_at()));
    assert!(matches!(scheduled.disposition(), Disposition::Continues { .. }));
    assert_eq!(network.requests().len(), sent);

    let network = ScriptedTransport::new().always_fail(SendErrorKind::Dns);
    let stripe = client(&network, &clock);
    assert!(charge(&stripe).send().await.expect_err("no vendor").is_dead_letter());
    let dead = named(&stripe).recorded().await.expect_err("a dead letter");
    assert!(dead.is_dead_letter());
    assert_eq!((dead.effect(), dead.disposition()), (Effect::None, Disposition::AwaitsOperator));
}

#[tokio::test]
async fn an_operation_under_way_is_in_progress_with_its_effect_unknown() {
    let clock = TestClock::new();
    let network = ScriptedTransport::new().json(200, json!({"id": "ch_1"}));
    let network = network.after(Duration::from_secs(5), &clock);
    let stripe = client(&network, &clock);
    let sending = tokio::spawn(charge(&stripe).send());
    clock.until_sleeping(1).await;
    let under_way = named(&stripe).recorded().await.expect_err("under way");
    assert!(under_way.is_in_progress());
    assert_eq!(under_way.effect(), Effect::Unknown);
    sending.abort();
}

#[tokio::test]
async fn a_request_of_the_crate_http_is_a_call_with_all_its_guards() {
    let clock = TestClock::auto();
    let network = ScriptedTransport::new()
        .fail(SendErrorKind::Reset)
        .json(200, json!({"id": "ch_1", "object": "charge"}))
        .header("Idempotent-Replayed", "true");
    let stripe = client(&network, &clock);
    let request = || {
        Request::post("https://api.stripe.com/v1/charges")
            .header("Idempotency-Key", "order-42/charge")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(Bytes::from_static(b"amount=1000&currency=usd"))
            .expect("a request")
    };
    let reply = stripe.execute(request()).await.expect("a reply");
    assert_eq!((reply.attempts(), reply.key()), (2, Some("order-42/charge")));
    // The vendor sees the wire key, twice the same.
    let seen: Vec<_> =
        network.requests().iter().map(|sent| sent.headers["idempotency-key"].clone()).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|key| Some(key.as_bytes()) == reply.wire_key().map(str::as_bytes)), "{seen:?}");

    // It is the operation that the builder names, and a repeat is answered from the record.
    let response = Response::from(charge(&stripe).send().await.expect("a replay"));
    assert_eq!(response.extensions().get::<Obtained>(), Some(&Obtained::Replayed));
    assert_eq!((response.status().as_u16(), response.body()), (200, reply.bytes()));
    assert_eq!(network.requests().len(), 2);

    let elsewhere = Request::get("https://evil.test/v1/charges").body(Bytes::new()).expect("a request");
    assert_eq!(stripe.execute(elsewhere).await.expect_err("another host").code(), "VALIDATION.path");
    assert_eq!(network.requests().len(), 2);
}

#[tokio::test]
async fn a_refusal_can_be_given_on_as_the_vendors_answer() {
    let declined = json!({"error": {"type": "card_error", "code": "card_declined", "message": "declined"}});
    let network = ScriptedTransport::new().json(402, declined).header("Request-Id", "req_1");
    let stripe = client(&network, &TestClock::auto());
    let error = charge(&stripe).send().await.expect_err("declined");
    let response = Response::from(error.into_answer().expect("an answer"));
    assert_eq!(response.status(), 402);
    assert_eq!(response.headers()["request-id"], "req_1");
    assert!(response.body().starts_with(b"{\"error\""));
}

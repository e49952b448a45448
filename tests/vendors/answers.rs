//! Answers that others gave, and those that only look like it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use steadfast::clock::Clock as _;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig, Postmark, Stripe, Vendor};
use steadfast::{Client, Effect};

use support::rig::Rig;

fn answer(status: u16, kind: &'static str, wait: Option<u32>, body: &str) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(kind));
    if let Some(wait) = wait {
        headers.insert("retry-after", HeaderValue::from(wait));
    }
    Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body.to_owned())
}

fn client(vendor: impl Vendor, network: ScriptedTransport, clock: &TestClock) -> Client {
    Rig::of(vendor).network(network).clock(clock).client()
}

fn keyed() -> Keyed {
    let config: KeyedConfig = toml::from_str(
        r#"
        name = "keyed"
        base_url = "https://keyed.test"
        auth = { header = "Authorization", prefix = "Bearer " }
        key = { header = "Idempotency-Key" }
        window = "24h"
        "#,
    )
    .expect("a configuration");
    Keyed::new(config, "secret")
}

/// Finding A8.
#[tokio::test]
async fn a_refusal_that_may_be_a_proxys_is_not_sent_again_early() {
    for status in [400, 403, 410, 413] {
        let clock = TestClock::auto();
        let page = answer(status, "text/html", Some(40), "<html></html>");
        let done = answer(200, "application/json", None, r#"{"id":"ch_1","object":"charge"}"#);
        let times = Arc::new(Mutex::new(Vec::new()));
        let (seen, watch) = (times.clone(), clock.clone());
        let network = ScriptedTransport::new().always_with(move |_| {
            let mut seen = seen.lock().expect("no panic");
            seen.push(watch.now());
            Ok(if seen.len() == 1 { page.clone() } else { done.clone() })
        });
        let client = client(keyed(), network, &clock);
        let call = client.post("/v1/charges").key("k").json(&json!({}));
        call.send().await.expect("a charge");
        let times = times.lock().expect("no panic").clone();
        assert!(times[1].since(times[0]) >= Duration::from_secs(40), "{status}: {times:?}");
    }
}

/// Finding D16.
#[tokio::test]
async fn json_that_is_anothers_is_no_success() {
    const GATEWAYS: &str = r#"{"message":"welcome"}"#;
    let foreign =
        || ScriptedTransport::new().always_with(|_| Ok(answer(200, "application/json", None, GATEWAYS)));
    let clock = TestClock::auto();
    let mail = json!({"From": "a@shop.test", "To": "b@x.test", "TextBody": "Paid."});
    let postmark = client(Postmark::new("token"), foreign(), &clock);
    let stripe = client(Stripe::new("sk_test_1"), foreign(), &clock);
    let store = client(BigCommerce::new("abc123", "token"), foreign(), &clock);
    for call in [
        postmark.post("/email").json(&mail),
        stripe.post("/v1/products").form(&[("name", "Mug")]),
        store.post("/v2/orders").json(&json!({"customer_id": 7})),
    ] {
        let error = call.key("k").send().await.expect_err("nobody knows");
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
    }
    // A read has no effect to be unknown.
    for client in [postmark, stripe, store] {
        client.get("/v1/anything").send().await.expect("an answer");
    }
}

/// Finding D16.
#[tokio::test]
async fn the_vendors_own_words_are_still_a_success() {
    let clock = TestClock::auto();
    let network = |body: &'static str, header: Option<&'static str>| {
        ScriptedTransport::new().always_with(move |_| {
            let mut answer = answer(200, "application/json", None, body);
            if let Some(header) = header {
                answer.headers.insert(header, HeaderValue::from_static("1"));
            }
            Ok(answer)
        })
    };
    let stripe = |body, header| client(Stripe::new("sk_test_1"), network(body, header), &clock);
    let store = |body, header| client(BigCommerce::new("abc123", "token"), network(body, header), &clock);
    let mail = json!({"From": "a@shop.test", "To": "b@x.test", "TextBody": "Paid."});
    let delayed = r#"{"Message":"accepted, delayed","MessageID":"38360f97"}"#;
    let postmark = client(Postmark::new("token"), network(delayed, None), &clock);
    postmark.post("/email").key("k").json(&mail).send().await.expect("sent");
    let (mug, order) = ([("name", "Mug")], json!({"customer_id": 7}));
    const STRIPES: Option<&str> = Some("request-id");
    const STORES: Option<&str> = Some("x-rate-limit-time-window-ms");
    for (route, body, header) in [
        ("/oauth/token", r#"{"access_token":"x"}"#, STRIPES),
        ("/v1/products", r#"{"object":"list"}"#, None),
        ("/v1/products", "{}", None),
    ] {
        stripe(body, header).post(route).key("k").form(&mug).send().await.expect(body);
    }
    for (route, body, header) in [
        ("/v3/payments/access_tokens", r#"{"state":"x"}"#, STORES),
        ("/v3/catalog/products/1/images", "[]", None),
        ("/v2/orders", r#"{"data":[]}"#, None),
    ] {
        store(body, header).post(route).key("k").json(&order).send().await.expect(body);
    }
    // The member that each of the route's successes has is not there, whatever headers are.
    for (body, header) in [(r#"{"access_token":"x"}"#, STRIPES), ("ok", STRIPES), ("[]", None)] {
        let error = stripe(body, header).post("/v1/products").key("k").form(&mug).send().await;
        assert_eq!(error.expect_err(body).effect(), Effect::Unknown);
    }
    for (body, header) in [(r#"{"state":"x"}"#, STORES), ("ok", STORES), ("[]", None)] {
        let error = store(body, header).post("/v2/orders").key("k").json(&order).send().await;
        assert_eq!(error.expect_err(body).effect(), Effect::Unknown);
    }
}

/// Finding D6.
#[tokio::test]
async fn a_lookup_does_not_find_a_refund_of_the_keys_previous_life() {
    const REFUNDS: &str = "/v3/orders/100/payment_actions/refunds";
    for (created, is_found) in [("2019-03-18T12:00:00+00:00", false), ("2026-01-01T00:00:00Z", true)] {
        let clock = TestClock::auto();
        let sent: Arc<Mutex<Value>> = Arc::default();
        let network = ScriptedTransport::new().always_with(move |request| {
            let mut sent = sent.lock().expect("no panic");
            if request.method == Method::POST {
                *sent = serde_json::from_slice(&request.body).expect("json");
                return Err(SendErrorKind::Reset);
            }
            let row = json!({"id": 1, "created": created, "items": sent["items"]});
            Ok(answer(200, "application/json", None, &json!({"data": [row], "meta": {}}).to_string()))
        });
        let client = client(BigCommerce::new("abc123", "token"), network, &clock);
        let items = json!({"items": [{"item_type": "PRODUCT", "item_id": 1, "quantity": 1}], "payments": []});
        let told = client.post(REFUNDS).key("k").json(&items).send().await;
        assert_eq!(told.is_ok(), is_found, "{created}: {told:?}");
        if let Err(error) = told {
            assert_eq!((error.is_dead_letter(), error.effect()), (true, Effect::Unknown), "{error}");
        }
    }
}

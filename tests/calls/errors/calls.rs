//! The ends of a call: refused, in conflict, dead, out of time.

use std::time::Duration;

use http::HeaderMap;
use serde_json::json;
use steadfast::Inbound;
use steadfast::policy::Backoff;
use steadfast::testkit::TestClock;
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig, Postmark, Stripe};

use super::{Said, builder, charge, charged, client, network, policy, stripe};

pub async fn refusals(said: &mut Said) {
    let declined = json!({"error": {"type": "card_error", "code": "card_declined", "message": "Declined."}});
    said.refused(
        "a declined card",
        charged(&stripe(network().json(402, declined).header("request-id", "req_1"))).await,
    );

    let absent = stripe(network().status(404));
    said.refused("no such charge", absent.get("/v1/charges/ch_3MmlLrLkdIwHu7ix0snN0B15").send().await);

    let unknown = json!({"error": {"type": "invalid_request_error"}});
    let stripes = network().json(401, unknown).header("request-id", "req_1");
    said.refused("a wrong secret", charged(&stripe(stripes)).await);
    said.refused(
        "a secret that may not do this",
        stripe(network().status(403)).get("/v1/balance").send().await,
    );

    let store = || BigCommerce::new("k8yfjd03xq", "token");
    let problem = |status| network().json(status, json!({"status": status, "title": "No."}));
    let shop = client(store(), problem(409));
    let product = shop.post("/v3/catalog/products").key("sku-7/create").json(&json!({"name": "Lamp"}));
    said.refused("a product of this name is there", product.send().await);

    let shop = client(store(), problem(422));
    let path = "/v3/checkouts/bc218c65-7a32-4ab7-8082-68730c074d02/orders";
    said.refused("refused on a path with a secret id", shop.post(path).key("cart-9/order").send().await);

    let moved = stripe(network().status(302));
    said.refused("a GET that is answered with a redirect", moved.get("/v1/balance").send().await);

    let odd =
        client(Keyed::new(KeyedConfig::new("acme", "https://api.acme.test"), ""), network().status(499));
    said.refused("a status that HTTP has no words for", odd.get("/things").send().await);
}

pub async fn conflicts(said: &mut Said) {
    let client = stripe(network().status(200));
    charged(&client).await.expect("a charge");
    let other = charge(&client).form(&[("amount", "2000"), ("currency", "usd")]);
    said.refused("the key is another request's", other.send().await);

    let reused = json!({"error": {"type": "idempotency_error", "message": "Keys for idempotent requests …"}});
    said.refused(
        "the vendor knows the key with another request",
        charged(&stripe(network().json(400, reused).header("request-id", "req_1"))).await,
    );

    let client = stripe(network().hang());
    tokio::select! {
        biased;
        ended = charged(&client) => panic!("{ended:?}"),
        () = tokio::task::yield_now() => {}
    }
    said.refused("another call is at it", charged(&client).await);

    let client = stripe(network().fail(SendErrorKind::Connect));
    let short = charge(&client).deadline(Duration::from_millis(100));
    short.send().await.expect_err("no time for a second attempt");
    said.refused("it waits for its next attempt", charged(&client).await);
}

pub async fn dead_letters(said: &mut Said) {
    let client = stripe(network().always_fail(SendErrorKind::Connect));
    said.refused("nobody can be reached, and no retry is left", charged(&client).await);
    said.refused("the same, asked again: the cause is on record", charged(&client).await);

    let slow_down = network().status(429).status(429).status(429);
    said.refused("every attempt was told to slow down", charged(&stripe(slow_down)).await);

    let failing = network().status(500).status(502).status(503);
    said.refused("every attempt failed and may have had an effect", charged(&stripe(failing)).await);

    let silent = network().always_fail(SendErrorKind::Timeout);
    let client = builder(Stripe::new("sk_test_123"), silent, policy().backoff(Backoff::none()));
    let client = client.build().expect("a client");
    said.refused("the only attempt timed out", charged(&client).await);

    let forgets = Stripe::new("sk_test_123").replay_window(Duration::from_millis(400));
    let client = super::client(forgets, network().fail(SendErrorKind::Reset));
    said.refused("the vendor's window closed before the resend", charged(&client).await);

    let keyless = Keyed::new(KeyedConfig::new("acme", "https://api.acme.test"), "");
    let client = super::client(keyless, network().fail(SendErrorKind::Truncated));
    let call = client.post("/payouts").key("order-42/payout");
    said.refused("an answer was cut off, and the vendor has no keys", call.send().await);

    let stored = network().status(500).header("Idempotent-Replayed", "true");
    said.refused("the vendor replays a failure of its own", charged(&stripe(stored)).await);

    let client = super::client(Postmark::new("token"), network().fail(SendErrorKind::Reset));
    let receipt = json!({"From": "a@example.com", "To": "b@example.com", "TextBody": "x"});
    let call = client.post("/email").key("order-42/receipt").json(&receipt);
    said.refused("an e-mail that may have been sent", call.send().await);
}

pub async fn calls_that_are_no_operations(said: &mut Said) {
    let client = stripe(network().always_fail(SendErrorKind::Dns));
    said.refused("a GET whose host does not resolve", client.get("/v1/balance").send().await);
    let failing = network().status(500).status(502).status(503);
    let once = policy().backoff(Backoff::none());
    let client = builder(Stripe::new("sk_test_123"), failing, once).build().expect("a client");
    said.refused("a GET that Stripe failed", client.get("/v1/balance").send().await);
    let acme = || Keyed::new(KeyedConfig::new("acme", "https://api.acme.test"), "");
    let client = super::client(acme(), network().status(500).status(502).status(503));
    said.refused("a GET that failed each time", client.get("/things/7").send().await);
    let client = super::client(acme(), network().status(429).status(429).status(429));
    said.refused("a GET that was too much each time", client.get("/things/7").send().await);
}

pub async fn deadlines(said: &mut Said) {
    let client = stripe(network().fail(SendErrorKind::Reset));
    let short = charge(&client).deadline(Duration::from_millis(300));
    said.refused("time ran out after a lost answer", short.send().await);

    let client = stripe(network().status(429).header("retry-after", "60"));
    let short = charge(&client).deadline(Duration::from_secs(10));
    said.refused("the vendor asks for more time than there is", short.send().await);

    // One answer at once, one after 500 ms; the third attempt would be 2 s after that.
    let client = stripe(network().status(503).status(503));
    let short = charge(&client).deadline(Duration::from_secs(2));
    said.refused("the vendor is down for longer than there is", short.send().await);

    let client = stripe(network().fail(SendErrorKind::Connect));
    let short = client.get("/v1/balance").deadline(Duration::from_millis(300));
    said.refused("a GET's time ran out", short.send().await);

    let client = stripe(network());
    said.refused("there was no time from the start", charge(&client).deadline(Duration::ZERO).send().await);

    let clock = TestClock::auto();
    let silent = network().hang().after(Duration::MAX, &clock);
    let client =
        builder(Stripe::new("sk_test_123"), silent, policy()).clock(clock).build().expect("a client");
    let short = client.post("/v1/refunds").form(&[("charge", "ch_1")]).deadline(Duration::from_secs(5));
    said.refused("no answer in time, under a key that was generated", short.send().await);

    let mut headers = HeaderMap::new();
    headers.insert("x-do-not-retry", http::HeaderValue::from_static("true"));
    let client = stripe(network().fail(SendErrorKind::Tls));
    let once = charge(&client).inbound(&Inbound::from_headers(&headers));
    said.refused("the caller retries by itself", once.send().await);

    let looked_up = policy().lookups_max(3);
    let client = builder(Postmark::new("token"), network().fail(SendErrorKind::Reset), looked_up);
    let client = client.build().expect("a client");
    let receipt = json!({"From": "a@example.com", "To": "b@example.com", "TextBody": "x"});
    let call = client.post("/email").key("order-42/receipt").json(&receipt).deadline(Duration::from_secs(5));
    said.refused("time ran out before a lookup", call.send().await);
}

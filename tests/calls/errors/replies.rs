//! Replies that came and cannot be read.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use steadfast::transport::Answer;
use steadfast::vendor::Stripe;

use super::{Said, builder, charged, network, policy, stripe};

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only the types matter")]
struct Charge {
    id: String,
    #[serde(default)]
    outcome: Option<Outcome>,
    #[serde(default)]
    refunds: Vec<Refund>,
    #[serde(default)]
    by_customer: BTreeMap<String, Refund>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only the types matter")]
struct Outcome {
    seller_message: String,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only the types matter")]
struct Refund {
    amount: u64,
}

pub async fn all(said: &mut Said) {
    for (happened, body) in [
        ("a page instead of JSON", "Bad gateway"),
        ("an empty reply", ""),
        ("a reply that stops in the middle", r#"{"id":"ch_1","#),
        ("a field is missing", r#"{"object":"charge"}"#),
        ("a nested field is missing", r#"{"id":"ch_1","outcome":{}}"#),
        ("a field is of another type", r#"{"id":"ch_1","refunds":[{"amount":1000},{"amount":"10.00"}]}"#),
        ("a field below a key that is data", r#"{"id":"ch_1","by_customer":{"ada":{"amount":null}}}"#),
        ("an array instead of an object", r#"[{"id":"ch_1"}]"#),
    ] {
        let answer = Answer::new(StatusCode::OK, own(), body);
        let reply = charged(&stripe(network().reply(answer))).await.expect("a reply");
        said.refused(happened, reply.json::<Charge>());
    }
    let reply = charged(&stripe(network().status(200))).await.expect("a reply");
    said.error("a reply that the caller's own parser cannot read", &reply.unreadable("no element `charge`"));
    let nothing = Answer::new(StatusCode::OK, HeaderMap::new(), "");
    let empty = stripe(network().reply(nothing)).get("/v1/balance").send().await.expect("a reply");
    said.refused("a GET's reply is empty", empty.json::<Charge>());

    let mut packed = Answer::new(StatusCode::OK, own(), &b"\x1f\x8b"[..]);
    packed.headers.insert("content-encoding", HeaderValue::from_static("gzip"));
    said.refused("a reply that does not unpack", charged(&stripe(network().reply(packed))).await);

    let half = network().json(200, serde_json::json!({"id": "report_1"})).breaks_off();
    let mut report = stripe(half).get("/v1/reporting").stream().await.expect("a head");
    report.chunk().await.expect("what came of it");
    said.refused("a streamed reply breaks off", report.chunk().await);
    said.refused("only a plain GET is streamed", stripe(network()).post("/v1/charges").stream().await);
    let list = network().json(200, serde_json::json!({"data": [], "next_page_url": "https://evil.test/"}));
    let mut pages = stripe(list).get("/v2/core/events").pages();
    pages.next().await.expect("a page");
    said.refused("a list that leads to another host", pages.next().await);
    let mut pages =
        stripe(network().json(200, serde_json::json!({"object": "charge"}))).get("/v1/charges/ch_1").pages();
    said.refused("pages of what is no list", pages.next().await);
    let mut pages = stripe(network()).post("/v1/charges").pages();
    said.refused("pages of a POST", pages.next().await);

    let long = Answer::new(StatusCode::OK, HeaderMap::new(), "x".repeat(200));
    let small = policy().request_bytes_max(1024).reply_bytes_max(100);
    let client = builder(Stripe::new("sk_test_123"), network().reply(long), small).build().expect("a client");
    said.refused("a reply over the limit", charged(&client).await);
    said.refused("the same, replayed from the record", charged(&client).await);
}

/// The mark of Stripe's own answers. Of another's the effect would not be known.
fn own() -> HeaderMap {
    // Marked as a replay: then also what is no charge is Stripe's.
    let names = ["request-id", "idempotent-replayed"].map(HeaderName::from_static);
    HeaderMap::from_iter(names.map(|name| (name, HeaderValue::from_static("true"))))
}

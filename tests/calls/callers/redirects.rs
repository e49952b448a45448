//! Redirects of what is read, within the host.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use steadfast::Call;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, Request};

use super::{client, waits_for};

fn to(location: &str) -> ScriptedTransport {
    redirect(ScriptedTransport::new(), 302, location)
}

fn redirect(network: ScriptedTransport, status: u16, location: &str) -> ScriptedTransport {
    network.status(status).header("Location", location)
}

fn urls(network: &ScriptedTransport) -> Vec<String> {
    network.requests().iter().map(|sent| sent.url.to_string()).collect()
}

#[tokio::test]
async fn a_get_follows_redirects_within_its_host_with_its_secret() {
    for status in [301, 302, 303, 307, 308] {
        let network = redirect(ScriptedTransport::new(), status, "/v1/charges/ch_2?limit=1#top");
        let network = redirect(network, status, "https://api.stripe.com/v1/charges/ch_3")
            .json(200, json!({"id": "ch_3"}));
        let stripe = client(&network, &TestClock::auto());
        let reply = stripe.get("/v1/charges/ch_1").redirects(5).send().await.expect("a reply");
        assert_eq!(reply.json::<serde_json::Value>().expect("JSON")["id"], "ch_3");
        let expected =
            ["ch_1", "ch_2?limit=1", "ch_3"].map(|rest| format!("https://api.stripe.com/v1/charges/{rest}"));
        assert_eq!(urls(&network), expected);
        let has_secret = |sent: &Request| sent.headers["authorization"] == "Bearer sk_test_123";
        assert!(network.requests().iter().all(has_secret));
    }
}

#[tokio::test]
async fn the_secret_never_goes_to_another_host() {
    for location in [
        "https://evil.test/v1/charges",
        "//evil.test/v1/charges",
        "http://api.stripe.com/v1/charges",
        "https://api.stripe.com:8443/v1/charges",
        "https://user:pass@api.stripe.com/v1/charges",
        "https://api.stripe.com.evil.test/",
        "data:text/html,x",
        "https://",
    ] {
        let network = to(location);
        let stripe = client(&network, &TestClock::auto());
        let error = stripe.get("/v1/charges").redirects(5).send().await.expect_err(location);
        assert!(error.is_refused() && error.status() == Some(StatusCode::FOUND), "{error}");
        assert_eq!(network.requests().len(), 1, "{location}");
    }
}

#[tokio::test]
async fn redirects_are_off_by_default_and_bounded() {
    let network = to("/v1/refunds");
    let error = client(&network, &TestClock::auto()).get("/v1/charges").send().await.expect_err("a redirect");
    assert_eq!((error.code(), network.requests().len()), ("VALIDATION.refused", 1));

    let round = ScriptedTransport::new().always_with(|_| {
        let mut answer = Answer::new(StatusCode::FOUND, http::HeaderMap::new(), "");
        answer.headers.insert("location", "/v1/charges".parse().expect("a header"));
        Ok(answer)
    });
    let stripe = client(&round, &TestClock::auto());
    let error = stripe.get("/v1/charges").redirects(3).send().await.expect_err("a loop");
    assert_eq!((error.is_refused(), round.requests().len()), (true, 4));
}

#[tokio::test]
async fn the_steps_share_the_calls_time() {
    let clock = TestClock::auto();
    let network = to("/v1/refunds").after(Duration::from_secs(3), &clock);
    let network = network.json(200, json!({})).after(Duration::from_secs(3), &clock);
    let stripe = client(&network, &clock);
    let call = stripe.get("/v1/charges").redirects(3).deadline(Duration::from_secs(5));
    assert!(call.send().await.expect_err("too late").is_deadline());
}

#[tokio::test]
async fn the_steps_share_what_an_incoming_request_has_left() {
    let clock = TestClock::auto();
    let network = to("/v1/refunds").after(Duration::from_secs(3), &clock);
    let network = network.json(200, json!({})).after(Duration::from_secs(3), &clock);
    let stripe = client(&network, &clock);
    let call = stripe.get("/v1/charges").redirects(3).inbound(&waits_for("7", &clock));
    clock.advance(Duration::from_secs(2));
    assert!(call.send().await.expect_err("too late").is_deadline());
    assert_eq!(network.requests().len(), 2);
}

#[tokio::test]
async fn what_may_have_an_effect_follows_none() {
    let network = ScriptedTransport::new();
    let stripe = client(&network, &TestClock::auto());
    let calls: [fn(Call) -> Call; 2] = [|call| call, |call| call.key("order-42")];
    for with in calls {
        for call in [stripe.post("/v1/charges"), stripe.put("/v1/charges"), stripe.delete("/v1/charges")] {
            assert_eq!(with(call).redirects(1).send().await.expect_err("refused").code(), "VALIDATION.input");
        }
    }
    let keyed = stripe.get("/v1/charges").key("order-42").redirects(1);
    assert_eq!(keyed.send().await.expect_err("refused").code(), "VALIDATION.input");
    let later = stripe.get("/v1/charges").redirects(1);
    assert_eq!(later.enqueue().await.expect_err("refused").code(), "VALIDATION.input");
    assert_eq!(network.requests().len(), 0);
}

//! The meaning of an answer, and what goes out with a request.

use http::{HeaderMap, Method};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Client, Effect, Inbound, Obtained};

use support::acme::Acme;
use support::rig::{Rig, secs};

/// A client of a vendor with the common rules.
fn stripe(transport: &ScriptedTransport) -> Client {
    Rig::of(Stripe::new("sk_test_1")).network(transport.clone()).client()
}

/// Finding A4.
#[tokio::test]
async fn a_definite_no_to_a_get_is_the_answer_whatever_came_before() {
    for (status, code) in [
        (400, "VALIDATION.refused"),
        (401, "AUTH.unauthorized"),
        (404, "VALIDATION.refused"),
        (410, "VALIDATION.refused"),
    ] {
        for method in [Method::GET, Method::HEAD] {
            let transport = ScriptedTransport::new().status(503).fail(SendErrorKind::Reset).status(status);
            let error = stripe(&transport).request(method, "/v1/x").send().await.expect_err("a no");
            assert_eq!((error.is_refused(), error.code()), (true, code), "{status}: {error}");
            assert_eq!((error.effect(), error.attempts().len()), (Effect::None, 3));
        }
    }
    // With no answer at all it did nothing either.
    let transport = ScriptedTransport::new().always_fail(SendErrorKind::Reset);
    let error = stripe(&transport).get("/v1/x").send().await.expect_err("nothing");
    assert_eq!((error.code(), error.effect()), ("DEPENDENCY.unavailable", Effect::None));
}

/// Finding A14.
#[tokio::test]
async fn a_304_to_a_post_is_no_success() {
    let transport = ScriptedTransport::new().status(304);
    let error = stripe(&transport).post("/v1/charges").key("k").send().await.expect_err("not done");
    assert_eq!((error.is_dead_letter(), error.effect()), (true, Effect::Unknown), "{error}");
    // To a GET with a condition it is the answer.
    let transport = ScriptedTransport::new().status(304);
    assert_eq!(stripe(&transport).get("/v1/charges").send().await.expect("an answer").status(), 304);
}

/// Finding A15.
#[tokio::test]
async fn a_resource_that_is_gone_after_a_lost_delete_was_deleted() {
    for status in [404, 410] {
        let gone =
            serde_json::json!({"error": {"type": "invalid_request_error", "message": "No such thing"}});
        let gone =
            |transport: ScriptedTransport| transport.json(status, gone.clone()).header("Request-Id", "req_1");
        let transport = gone(ScriptedTransport::new().fail(SendErrorKind::Reset));
        let reply = stripe(&transport).delete("/v1/x").send().await.expect("it is gone");
        assert_eq!((reply.obtained(), reply.attempts()), (Obtained::Replayed, 2));
        // Where nothing was sent before, there never was such a thing.
        for before in [ScriptedTransport::new(), ScriptedTransport::new().fail(SendErrorKind::Connect)] {
            let transport = gone(before);
            let error = stripe(&transport).delete("/v1/x").send().await.expect_err("not there");
            assert_eq!((error.is_refused(), error.effect()), (true, Effect::None));
        }
        // Another method's 404 proves nothing of the kind.
        let transport = ScriptedTransport::new().fail(SendErrorKind::Reset).status(status);
        assert!(stripe(&transport).put("/v1/x").send().await.is_err());
    }
}

/// Finding A17.
#[tokio::test]
async fn more_headers_than_a_request_can_hold_are_a_mistake() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    let mut call = rig.client.get("/x");
    for number in 0..40_000 {
        call = call.header(format!("x-{number}").as_str(), "v");
    }
    let error = call.send().await.expect_err("too many");
    assert_eq!((error.code(), rig.network.requests().len()), ("VALIDATION.header", 0));
    let mut call = rig.client.get("/x");
    for _ in 0..1_000 {
        call = call.header("x-same", "v");
    }
    call.send().await.expect("as many as the docs say");
}

/// Finding A20.
#[tokio::test]
async fn the_mark_of_the_incoming_request_goes_out_with_the_deadline() {
    for (mark, expected) in [(Some("1"), Some("true")), (None, None)] {
        let mut headers = HeaderMap::new();
        headers.insert("x-request-timeout", "2.5".parse().expect("a value"));
        if let Some(mark) = mark {
            headers.insert("x-do-not-retry", mark.parse().expect("a value"));
        }
        let inbound = Inbound::from_headers(&headers);
        for passed_on in [true, false] {
            let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
            let call = rig.client.get("/x").inbound(&inbound);
            let call = if passed_on { call.pass_deadline_on() } else { call };
            call.send().await.expect("a reply");
            let sent = &rig.network.requests()[0].headers;
            let sent = sent.get("x-do-not-retry").map(|value| value.to_str().expect("text").to_owned());
            assert_eq!(sent.as_deref(), expected.filter(|_| passed_on));
        }
    }
}

/// Finding A20.
#[tokio::test]
async fn a_gateway_timeout_is_a_timeout() {
    let transport = (0..5).fold(ScriptedTransport::new(), |transport, _| transport.status(504));
    let error = stripe(&transport).get("/v1/x").deadline(secs(60)).send().await.expect_err("504");
    assert_eq!((error.code(), error.is_timeout()), ("DEPENDENCY.timeout", true), "{error}");
    let transport = (0..5).fold(ScriptedTransport::new(), |transport, _| transport.status(503));
    let error = stripe(&transport).get("/v1/x").deadline(secs(60)).send().await.expect_err("503");
    assert_eq!((error.code(), error.is_timeout()), ("DEPENDENCY.unavailable", false), "{error}");
}

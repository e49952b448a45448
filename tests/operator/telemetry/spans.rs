//! Spans and events: each outcome of a call, with every field.

use std::time::Duration;

use serde_json::json;
use support::rig::Rig;

use steadfast::clock::Clock;
use steadfast::policy::{Backoff, BreakerConfig, BudgetConfig, Mode, RateConfig};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Postmark;
use steadfast::{Client, Policy};

use crate::telemetry::capture::{Fields, captured, listen};
use crate::telemetry::{charge, policy, stripe};

const OPERATION: &str = "default/stripe/test/POST /v1/payment_intents key order-42/charge";
/// It never changes between releases.
const WIRE_KEY: &str = "c02dd703-ac13-8e54-9b5e-86822c6dd88b";

/// Returns the fields of every span of a charge, and the further ones of this span.
fn span(more: &[(&str, &str)]) -> Fields {
    let common = [
        ("name", "vendor_call"),
        ("otel.name", "POST"),
        ("otel.kind", "client"),
        ("http.request.method", "POST"),
        ("server.address", "api.stripe.com"),
        ("server.port", "443"),
        ("url.path", "/v1/payment_intents"),
        ("steadfast.vendor", "stripe"),
        ("steadfast.operation", OPERATION),
        ("steadfast.key", "order-42/charge"),
        ("steadfast.wire_key", WIRE_KEY),
    ];
    fields(&[&common, more].concat())
}

/// Returns the fields of every event about a charge, and the further ones of this event, without its source location.
fn event(level: &str, message: &str, more: &[(&str, &str)]) -> Fields {
    let common = [
        ("level", level),
        ("target", "steadfast::telemetry"),
        ("message", message),
        ("steadfast.vendor", "stripe"),
        ("http.request.method", "POST"),
        ("url.path", "/v1/payment_intents"),
        ("steadfast.key", "order-42/charge"),
        ("steadfast.wire_key", WIRE_KEY),
    ];
    fields(&[&common, more].concat())
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn a_success_is_one_span_with_the_names_of_opentelemetry_and_one_attempt() {
    listen();
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().json(200, json!({})).after(Duration::from_millis(120), &clock);
    let reply = charge(&stripe(&network, &clock, policy())).send().await.expect("a reply");
    assert_eq!(reply.wire_key(), Some(WIRE_KEY));

    let captured = captured();
    let ending =
        [("http.response.status_code", "200"), ("steadfast.attempts", "1"), ("steadfast.obtained", "fresh")];
    assert_eq!(captured.spans, [span(&ending)]);
    let attempt = [
        ("steadfast.attempt", "1"),
        ("http.request.resend_count", "0"),
        ("http.response.status_code", "200"),
        ("steadfast.verdict", "done"),
        ("steadfast.effect", "applied"),
        ("steadfast.latency_ms", "120"),
    ];
    assert_eq!(captured.events, [event("DEBUG", "attempt", &attempt)]);
}

#[tokio::test]
async fn a_retry_logs_the_failure_and_the_wait() {
    listen();
    let clock = TestClock::auto();
    let network = ScriptedTransport::new()
        .fail(SendErrorKind::Reset)
        .json(200, json!({}))
        .header("Idempotent-Replayed", "true");
    let reply = charge(&stripe(&network, &clock, policy())).send().await.expect("a reply");
    assert_eq!(reply.wire_key(), Some(WIRE_KEY));

    let captured = captured();
    let ending = [
        ("http.response.status_code", "200"),
        ("steadfast.attempts", "2"),
        ("steadfast.obtained", "replayed"),
    ];
    assert_eq!(captured.spans, [span(&ending)]);
    let lost = [
        ("steadfast.attempt", "1"),
        ("http.request.resend_count", "0"),
        ("error.type", "reset"),
        ("steadfast.cause", "the connection broke before an answer"),
        ("steadfast.verdict", "retry"),
        ("steadfast.effect", "unknown"),
        ("steadfast.latency_ms", "0"),
    ];
    let resent = [
        ("steadfast.attempt", "2"),
        ("http.request.resend_count", "1"),
        ("http.response.status_code", "200"),
        ("steadfast.verdict", "done"),
        ("steadfast.effect", "applied"),
        ("steadfast.latency_ms", "0"),
    ];
    let waiting = [
        ("steadfast.attempt", "1"),
        ("steadfast.wait_ms", "500"),
        ("error.type", "reset"),
        ("steadfast.cause", "the connection broke before an answer"),
    ];
    assert_eq!(
        captured.events,
        [
            event("DEBUG", "attempt", &lost),
            event("INFO", "waiting to retry", &waiting),
            event("DEBUG", "attempt", &resent),
            event("DEBUG", "replayed", &[("steadfast.from", "vendor")]),
        ]
    );
}

#[tokio::test]
async fn each_gate_that_refuses_is_named() {
    type Close = fn(&Client);
    let nothing: Close = |_| {};
    let cases: [(&str, &str, Policy, Close); 5] = [
        ("kill_switch", "DEPENDENCY.unavailable", policy(), |client| {
            client.engage_kill_switch();
        }),
        ("pause", "RATE_LIMIT.exceeded", policy(), |client| {
            client.pause_for(Duration::from_secs(10));
        }),
        ("breaker", "DEPENDENCY.unavailable", policy(), |client| {
            client.set_breaker_mode(Mode::ForcedOpen);
        }),
        ("concurrency", "RATE_LIMIT.exceeded", policy().concurrency(1), nothing),
        (
            "rate",
            "RATE_LIMIT.exceeded",
            policy().rate(RateConfig::new(1, Duration::from_secs(3600))),
            nothing,
        ),
    ];
    for (gate, code, policy, close) in cases {
        let clock = TestClock::auto();
        let client = stripe(&ScriptedTransport::new(), &clock, policy);
        close(&client);
        // Takes the only place, and the only call of the hour.
        let held = client.gates().admit(clock.now());
        listen();
        let error = charge(&client).send().await.expect_err(gate);
        drop(held);

        let captured = captured();
        assert_eq!(captured.event("refused"), &event("WARN", "refused", &[("steadfast.gate", gate)]));
        let ending = [("error.type", code), ("steadfast.effect", "none"), ("steadfast.attempts", "0")];
        assert_eq!(captured.spans, [span(&ending)], "{error}");
        assert_eq!(captured.metric(&format!("steadfast_refusals_total{{gate={gate},vendor=stripe}}")), 1.0);
    }
}

#[tokio::test]
async fn a_spent_budget_is_a_refusal_too() {
    listen();
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
    let client = stripe(&network, &TestClock::auto(), policy().budget(BudgetConfig::new(0.0, 0, 0.0)));
    charge(&client).send().await.expect_err("no retry is left");
    let captured = captured();
    assert_eq!(captured.event("refused"), &event("WARN", "refused", &[("steadfast.gate", "budget")]));
    assert_eq!(captured.metric("steadfast_refusals_total{gate=budget,vendor=stripe}"), 1.0);
    assert!(captured.all("waiting to retry").is_empty());
}

#[tokio::test]
async fn a_streamed_reply_that_breaks_off_logs_an_event_after_its_call() {
    listen();
    let network = ScriptedTransport::new().json(200, json!({"id": 1})).breaks_off();
    let client = stripe(&network, &TestClock::auto(), policy());
    let mut report = client.get("/v1/charges").stream().await.expect("a head");
    while let Ok(Some(_)) = report.chunk().await {}
    report.chunk().await.expect_err("told again, and counted once");
    let captured = captured();
    assert_eq!(captured.spans[0]["http.response.status_code"], "200");
    assert_eq!(captured.all("a streamed reply broke off").len(), 1);
    let broke_off = captured.event("a streamed reply broke off");
    assert_eq!((&*broke_off["steadfast.bytes"], &*broke_off["error.type"]), ("8", "DEPENDENCY.unavailable"));
}

#[tokio::test]
async fn unread_streamed_replies_are_logged_when_others_replace_them() {
    listen();
    let clock = TestClock::new();
    let network = ScriptedTransport::new().status(200).status(200).status(200);
    let client = stripe(&network, &clock, policy().concurrency(2));
    let unread = [client.get("/v1/a").stream().await, client.get("/v1/b").stream().await];
    clock.advance(Duration::from_secs(30));
    client.get("/v1/charges").send().await.expect("a place");
    drop(unread);
    let fields = [("steadfast.vendor", "stripe"), ("steadfast.count", "2")];
    let captured = captured();
    let named = captured.event("streamed replies are not read, and other calls take their places");
    assert!(fields.iter().all(|(name, value)| named[*name] == *value), "{named:?}");
}

#[tokio::test]
async fn a_call_that_waits_for_a_gate_logs_the_gate_and_the_wait() {
    listen();
    let clock = TestClock::auto();
    let client = stripe(
        &ScriptedTransport::new().json(200, json!({})),
        &clock,
        policy().admission_wait(Duration::from_secs(60)),
    );
    client.pause_for(Duration::from_secs(10));
    charge(&client).send().await.expect("a reply");
    // The pause, and half of the tenth of it over which callers are spread behind it.
    let held = [("steadfast.gate", "pause"), ("steadfast.wait_ms", "10500")];
    assert_eq!(captured().event("held back"), &event("DEBUG", "held back", &held));
}

#[tokio::test]
async fn a_retry_that_waits_for_a_gate_logs_it_too() {
    listen();
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().status(429).header("retry-after", "3").json(200, json!({}));
    charge(&stripe(&network, &clock, policy())).send().await.expect("a reply");
    // The vendor's three seconds and the spread: a floor, never less.
    assert_eq!(captured().event("waiting to retry")["steadfast.wait_ms"], "3150");
}

#[tokio::test]
async fn a_replay_and_a_conflict_have_different_outcomes() {
    let client = stripe(&ScriptedTransport::new().json(200, json!({})), &TestClock::auto(), policy());
    charge(&client).send().await.expect("a reply");

    listen();
    charge(&client).send().await.expect("the same reply");
    let replayed = captured();
    assert_eq!(replayed.events, [event("DEBUG", "replayed", &[("steadfast.from", "record")])]);
    assert_eq!(replayed.spans[0]["steadfast.obtained"], "replayed");

    listen();
    charge(&client).form(&[("amount", "2000")]).send().await.expect_err("another body");
    let conflict = captured();
    assert!(conflict.events.is_empty(), "{conflict:?}");
    assert_eq!(conflict.spans[0]["error.type"], "CONFLICT.idempotency.payload_mismatch");
    assert_eq!(conflict.spans[0]["steadfast.effect"], "applied", "that of the request which has the key");
}

#[tokio::test]
async fn a_dead_letter_names_its_operation_and_why() {
    listen();
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
    let client = stripe(&network, &TestClock::auto(), policy().backoff(Backoff::none()));
    let error = charge(&client).send().await.expect_err("no rung is left");
    assert_eq!(error.wire_key(), Some(WIRE_KEY));
    let expected = [
        ("steadfast.operation", OPERATION),
        ("steadfast.attempts", "1"),
        ("steadfast.effect", "none"),
        ("steadfast.reason", "exhausted"),
        ("error.type", "connect"),
        ("steadfast.cause", "no connection to api.stripe.com"),
    ];
    assert_eq!(captured().event("dead letter"), &event("WARN", "dead letter", &expected));
}

#[tokio::test]
async fn a_lookup_logs_its_finding() {
    listen();
    let nothing = || json!({"TotalCount": 0, "Messages": []});
    let network = ScriptedTransport::new().fail(SendErrorKind::Reset).status(500);
    let network = network.json(200, nothing()).json(200, nothing()).json(200, nothing());
    let client = Rig::with(Postmark::new("token"), network, policy().without_breaker()).client;
    let receipt = json!({"From": "a@example.com", "To": "b@example.com", "TextBody": "x"});
    client.post("/email").key("order-42/receipt").json(&receipt).send().await.expect_err("nobody can tell");
    let captured = captured();
    let looked = captured.all("looked up");
    let found: Vec<_> = looked.iter().map(|event| event["steadfast.found"].as_str()).collect();
    assert_eq!(found, ["failed", "cannot_tell", "cannot_tell", "cannot_tell"]);
    assert_eq!(captured.event("dead letter")["steadfast.reason"], "unknown");
    assert_eq!(captured.spans.len(), 1, "a lookup is part of its call");
}

#[tokio::test]
async fn a_dead_letter_logs_its_last_answer() {
    listen();
    let network = ScriptedTransport::new().status(429);
    let client = stripe(&network, &TestClock::auto(), policy().backoff(Backoff::none()));
    charge(&client).send().await.expect_err("no rung is left");
    let captured = captured();
    let letter = captured.event("dead letter");
    assert_eq!(letter["http.response.status_code"], "429");
    assert!(!letter.contains_key("error.type") && !letter.contains_key("steadfast.cause"), "{letter:?}");
}

/// Without a caller there is no span that identifies the events.
#[tokio::test]
async fn each_event_of_a_recovery_names_its_operation() {
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().always_fail(SendErrorKind::Connect);
    let client = stripe(&network, &clock, policy());
    charge(&client)
        .deadline(Duration::from_millis(1))
        .send()
        .await
        .expect_err("no time for a second attempt");
    // For an hour it may be an outage, in which no operation is given up.
    clock.advance(Duration::from_secs(2 * 3_600));
    listen();
    assert_eq!(client.recover(1).await.expect("a store").dead, 1);
    let captured = captured();
    assert!(captured.spans.is_empty(), "{captured:?}");
    let messages: Vec<_> = captured.events.iter().map(|event| event["message"].as_str()).collect();
    assert_eq!(messages, ["delivering", "attempt", "dead letter"]);
    for event in &captured.events {
        for (field, value) in [
            ("steadfast.vendor", "stripe"),
            ("http.request.method", "POST"),
            ("url.path", "/v1/payment_intents"),
            ("steadfast.key", "order-42/charge"),
            ("steadfast.wire_key", WIRE_KEY),
        ] {
            assert_eq!(event[field], value, "{event:?}");
        }
    }
}

/// The first send of an enqueued operation is no takeover; an operation of a dead holder is taken over.
#[tokio::test]
async fn only_an_operation_of_a_dead_holder_is_taken_over() {
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().status(200).hang().status(200);
    let client = stripe(&network, &clock, policy());
    listen();
    charge(&client).enqueue().await.expect("recorded");
    assert_eq!(client.recover(1).await.expect("a store").succeeded, 1);
    assert_eq!((captured().all("taken over").len(), captured().all("delivering").len()), (0, 1));
    let form = [("amount", "2"), ("currency", "usd")];
    let left = client.post("/v1/payment_intents").key("order-43/charge").form(&form);
    let call = tokio::spawn(left.send());
    while network.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.is_err_and(|gone| gone.is_cancelled()), "its holder goes while it sends");
    clock.advance(Duration::from_secs(3_600));
    listen();
    assert_eq!(client.recover(1).await.expect("a store").succeeded, 1);
    assert_eq!((captured().all("taken over").len(), captured().all("delivering").len()), (1, 0));
}

#[tokio::test]
async fn gate_events_name_the_vendor() {
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let breaker = BreakerConfig::default().consecutive_failures(1).probes(1);
    let clock = TestClock::auto();
    let client = stripe(&network, &clock, policy().breaker(breaker).backoff(Backoff::none()));
    listen();
    charge(&client).send().await.expect_err("nobody listens");
    clock.advance(Duration::from_secs(60));
    client.get("/v1/balance").send().await.expect("a probe");
    client.set_breaker_mode(Mode::ForcedClosed);
    client.engage_kill_switch();
    client.release_kill_switch();
    let captured = captured();
    // The account's circuit, and the route's below it.
    let opened = captured.all("circuit opened");
    let routes: Vec<_> =
        opened.iter().map(|event| event.get("steadfast.route").map(String::as_str)).collect();
    assert_eq!(routes, [Some("POST /v1/payment_intents"), None]);
    assert!(opened.iter().all(|event| event["steadfast.vendor"] == "stripe"));
    for message in [
        "circuit half-open",
        "circuit closed",
        "circuit breaker mode set",
        "kill switch engaged",
        "kill switch released",
    ] {
        assert_eq!(captured.event(message)["steadfast.vendor"], "stripe", "{message}");
    }
}

//! Counters and histograms: each name with its labels and exact values.

use std::time::Duration;

use serde_json::json;
use steadfast::policy::Backoff;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;

use crate::telemetry::capture::{Captured, captured, listen};
use crate::telemetry::{charge, policy, stripe};

fn assert_metrics(captured: &Captured, expected: &[(&str, f64)]) {
    assert_eq!(captured.metric_names(), expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, value) in expected {
        assert_eq!(captured.metric(name), *value, "{name}");
    }
}

#[tokio::test]
async fn a_call_with_a_retry_is_one_call_two_attempts_and_one_delay() {
    listen();
    let clock = TestClock::auto();
    let network = ScriptedTransport::new()
        .fail(SendErrorKind::Reset)
        .after(Duration::from_millis(125), &clock)
        .json(200, json!({}))
        .after(Duration::from_millis(125), &clock)
        .header("Idempotent-Replayed", "true");
    charge(&stripe(&network, &clock, policy())).send().await.expect("a reply");
    assert_metrics(
        &captured(),
        &[
            ("steadfast_attempt_duration_seconds{vendor=stripe}", 0.25),
            ("steadfast_attempts_total{vendor=stripe,verdict=done}", 1.0),
            ("steadfast_attempts_total{vendor=stripe,verdict=retry}", 1.0),
            ("steadfast_call_duration_seconds{vendor=stripe}", 0.75),
            ("steadfast_calls_total{outcome=ok,vendor=stripe}", 1.0),
            ("steadfast_replays_total{from=vendor,vendor=stripe}", 1.0),
            ("steadfast_retry_delay_seconds{vendor=stripe}", 0.5),
        ],
    );
}

#[tokio::test]
async fn a_replay_and_both_conflicts_are_counted() {
    let client = stripe(&ScriptedTransport::new().json(200, json!({})).hang(), &TestClock::auto(), policy());
    charge(&client).send().await.expect("a reply");
    listen();
    charge(&client).send().await.expect("the same reply");
    charge(&client).form(&[("amount", "2000")]).send().await.expect_err("another body");
    let under_way = || client.post("/v1/refunds").key("order-42/refund").form(&[("charge", "ch_1")]);
    tokio::select! {
        biased;
        ended = under_way().send() => panic!("{ended:?}"),
        () = tokio::task::yield_now() => {}
    }
    under_way().send().await.expect_err("its lease runs on");
    assert_metrics(
        &captured(),
        &[
            ("steadfast_call_duration_seconds{vendor=stripe}", 0.0),
            ("steadfast_calls_total{outcome=CONFLICT.idempotency.in_progress,vendor=stripe}", 1.0),
            ("steadfast_calls_total{outcome=CONFLICT.idempotency.payload_mismatch,vendor=stripe}", 1.0),
            ("steadfast_calls_total{outcome=ok,vendor=stripe}", 1.0),
            ("steadfast_conflicts_total{code=CONFLICT.idempotency.in_progress,vendor=stripe}", 1.0),
            ("steadfast_conflicts_total{code=CONFLICT.idempotency.payload_mismatch,vendor=stripe}", 1.0),
            ("steadfast_replays_total{from=record,vendor=stripe}", 1.0),
        ],
    );
}

#[tokio::test]
async fn enqueued_and_recovered_operations_are_counted() {
    listen();
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().status(429).header("retry-after", "60").json(200, json!({}));
    let client = stripe(&network, &clock, policy());
    charge(&client).enqueue().await.expect("it is recorded");
    charge(&client).enqueue().await.expect("it is there");
    charge(&client).form(&[("amount", "2000")]).enqueue().await.expect_err("another body");
    charge(&client).sequence("").enqueue().await.expect_err("a mistake");
    client.recover(1).await.expect("a store");
    clock.advance(Duration::from_secs(600));
    client.recover(1).await.expect("a store");
    let captured = captured();
    for (name, value) in [
        ("steadfast_enqueued_total{outcome=new,vendor=stripe}", 1.0),
        ("steadfast_enqueued_total{outcome=on_record,vendor=stripe}", 1.0),
        ("steadfast_enqueued_total{outcome=CONFLICT.idempotency.payload_mismatch,vendor=stripe}", 1.0),
        ("steadfast_enqueued_total{outcome=VALIDATION.sequence,vendor=stripe}", 1.0),
        ("steadfast_recovered_total{outcome=postponed,vendor=stripe}", 1.0),
        ("steadfast_recovered_total{outcome=succeeded,vendor=stripe}", 1.0),
    ] {
        assert_eq!(captured.metric(name), value, "{name}");
    }
    assert!(!captured.metric_names().iter().any(|name| name.starts_with("steadfast_calls_total")));
}

#[tokio::test]
async fn a_dead_letter_is_counted_once_despite_repeated_calls() {
    listen();
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
    let client = stripe(&network, &TestClock::auto(), policy().backoff(Backoff::none()));
    for _ in 0..2 {
        assert!(charge(&client).send().await.expect_err("dead").is_dead_letter());
    }
    let captured = captured();
    assert_eq!(captured.metric("steadfast_dead_letters_total{reason=exhausted,vendor=stripe}"), 1.0);
    assert_eq!(captured.metric("steadfast_calls_total{outcome=DEPENDENCY.unavailable,vendor=stripe}"), 2.0);
}

/// The author of a dashboard reads the page, not the source.
#[test]
fn the_page_on_observability_has_every_name_and_no_other() {
    let source = concat!(
        include_str!("../../../src/telemetry.rs"),
        include_str!("../../../src/telemetry/outbox.rs"),
        include_str!("../../../src/telemetry/recovery.rs"),
        include_str!("../../../src/telemetry/stream.rs"),
        include_str!("../../../src/telemetry/credentials.rs"),
        include_str!("../../../crates/steadfast-core/src/policy/breaker/change.rs"),
        include_str!("../../../crates/steadfast-cli/src/dispatch/gauges.rs")
    );
    let page = include_str!("../../../src/docs/observability.md");
    let mut in_source = names(source);
    let mut on_page = names(page);
    in_source.dedup();
    on_page.dedup();
    assert_eq!(in_source, on_page);
}

/// Returns the words of a text that are our metrics' names or OpenTelemetry's, sorted.
fn names(text: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
    let mut found: Vec<_> = text
        .split(|letter| !is_part(letter))
        .map(|word| word.trim_matches('.'))
        // A name of our crates is no name of a metric.
        .filter(|word| *word != "steadfast_core")
        .filter(|word| {
            ["steadfast_", "steadfast.", "http.", "server.", "url.path", "otel.", "error.type"]
                .iter()
                .any(|start| word.starts_with(start))
        })
        .collect();
    found.sort_unstable();
    found
}

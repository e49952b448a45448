//! Time that runs out.

use steadfast::policy::{Backoff, Timeouts};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::{Effect, Inbound};

use support::acme::Acme;
use support::rig::{Rig, ms, secs};

#[tokio::test]
async fn an_attempt_ends_at_its_timeout_with_effect_unknown() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new());
    rig.answers(|network| network.status(200).after(secs(31), &rig.clock));
    let error = rig.charge().send().await.expect_err("30 s is the limit");
    assert!(error.is_timeout());
    assert_eq!((error.effect(), error.attempts()[0].latency), (Effect::Unknown, secs(30)));
}

#[tokio::test]
async fn a_deadline_of_zero_sends_nothing_and_records_nothing() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    let error = rig.charge().deadline(ms(0)).send().await.expect_err("no time at all");
    assert!(error.is_deadline());
    assert_eq!((error.effect(), rig.charges_sent()), (Effect::None, 0));
    rig.charge().send().await.expect("the key is still free");
}

#[tokio::test]
async fn no_sleep_goes_past_the_deadline() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().always_fail(SendErrorKind::Connect));
    let error = rig.charge().deadline(secs(3)).send().await.expect_err("no time for the third rung");
    assert!(error.is_deadline());
    assert_eq!(rig.clock.slept(), [ms(500), secs(2)]);
    assert_eq!(error.attempts().len(), 3);
    assert!(error.retry_at().is_some(), "a keyed call is scheduled");
}

#[tokio::test]
async fn a_call_carries_on_where_its_deadline_stopped_it() {
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let rig = Rig::new(Acme::new(), transport);
    let error = rig.charge().deadline(ms(100)).send().await.expect_err("no time for a retry");
    assert!(error.is_deadline());
    let early = rig.charge().send().await.expect_err("not due yet");
    assert!(early.is_in_progress());
    assert_eq!(early.retry_at(), error.retry_at());
    rig.clock.advance(ms(500));
    assert_eq!(rig.charge().send().await.expect("due").attempts(), 2);
}

#[tokio::test]
async fn an_inbound_deadline_bounds_the_call_and_goes_out_again() {
    let transport = ScriptedTransport::new().status(200);
    let rig = Rig::new(Acme::new(), transport);
    let mut headers = http::HeaderMap::new();
    headers.insert("x-request-timeout", "2.5".parse().expect("a value"));
    let inbound = Inbound::from_headers_on(&headers, std::sync::Arc::new(rig.clock.clone()));
    rig.clock.advance(secs(1));
    rig.charge().inbound(&inbound).pass_deadline_on().send().await.expect("a reply");
    assert_eq!(rig.network.requests()[0].headers["x-request-timeout"], "1.500");
}

/// An incoming request whose caller waits for so long, from now on.
fn waits(bench: &Rig, seconds: &str) -> Inbound {
    let mut headers = http::HeaderMap::new();
    headers.insert(Inbound::X_REQUEST_TIMEOUT, seconds.parse().expect("a value"));
    Inbound::from_headers_on(&headers, std::sync::Arc::new(bench.clock.clone()))
}

#[tokio::test]
async fn an_inbound_deadline_does_not_wait_for_the_call_to_be_sent() {
    let bench = Rig::new(Acme::new(), ScriptedTransport::new().always_fail(SendErrorKind::Connect));
    let call = bench.charge().inbound(&waits(&bench, "60")).inbound(&waits(&bench, "3")).deadline(secs(60));
    bench.clock.advance(secs(1));
    let error = call.send().await.expect_err("2 s are too short for the rung of 2 s");
    assert!(error.is_deadline());
    assert_eq!((bench.clock.slept(), error.attempts().len()), (vec![ms(500)], 2));
}

#[tokio::test]
async fn an_inbound_deadline_bounds_the_lookups_too() {
    for (late, is_found) in [(0, true), (2, false)] {
        let lost = ScriptedTransport::new().fail(SendErrorKind::Reset);
        let bench = Rig::new(Acme::searchable(), lost.json(200, serde_json::json!([{"id": "ch_1"}])));
        let call = bench.charge().inbound(&waits(&bench, "8"));
        bench.clock.advance(secs(late));
        // The lookup comes 7 s after the loss.
        assert_eq!(call.send().await.is_ok(), is_found, "{late} s");
        assert_eq!(bench.lookups_sent(), usize::from(is_found));
    }
}

#[tokio::test]
async fn a_caller_that_retries_by_itself_gets_no_retries_from_us() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().fail(SendErrorKind::Connect).status(200));
    let mut headers = http::HeaderMap::new();
    headers.insert("x-do-not-retry", "1".parse().expect("a value"));
    let inbound = Inbound::from_headers_on(&headers, std::sync::Arc::new(rig.clock.clone()));
    let error = rig.charge().inbound(&inbound).send().await.expect_err("one attempt");
    assert_eq!((error.attempts().len(), rig.charges_sent()), (1, 1));
    assert!(error.retry_at().is_some());
}

#[tokio::test]
async fn a_call_may_override_the_ladder_and_the_timeouts() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().always_fail(SendErrorKind::Connect));
    let backoff = Backoff::interactive();
    let retries = backoff.steps.len();
    let error = rig
        .charge()
        .backoff(backoff)
        .timeout(Timeouts::interactive())
        .send()
        .await
        .expect_err("nothing connects");
    assert_eq!(error.attempts().len(), retries + 1);
}

//! The steps that follow an outcome that may have taken effect.

use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::{Effect, Obtained, OnUnknown, Reason};

use super::one_retry;
use support::acme::Acme;
use support::rig::{Rig, ms, secs};

#[tokio::test]
async fn without_replay_or_lookup_a_lost_answer_is_parked_at_once() {
    for kind in
        [SendErrorKind::Reset, SendErrorKind::Timeout, SendErrorKind::Truncated, SendErrorKind::Redirected]
    {
        let rig = Rig::new(Acme::new(), ScriptedTransport::new().fail(kind).status(200));
        let error = rig.charge().send().await.expect_err("nobody can tell");
        assert_eq!((error.reason(), error.effect()), (Some(Reason::Unknown), Effect::Unknown));
        assert_eq!(error.code(), "UNKNOWN.effect");
        assert_eq!(rig.charges_sent(), 1, "{kind:?} is never proof that nothing was sent");
        assert_eq!(rig.clock.slept(), []);
    }
}

#[tokio::test]
async fn what_was_never_sent_is_retried_without_replay_or_lookup() {
    for kind in [SendErrorKind::Dns, SendErrorKind::Connect, SendErrorKind::Tls] {
        let rig = Rig::new(Acme::new(), ScriptedTransport::new().fail(kind).status(200));
        assert_eq!(rig.charge().send().await.expect("the second attempt").attempts(), 2);
    }
}

#[tokio::test]
async fn on_unknown_resend_accepts_a_duplicate() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().fail(SendErrorKind::Reset).status(200));
    let reply = rig.charge().on_unknown(OnUnknown::Resend).send().await.expect("the resend");
    assert_eq!((reply.attempts(), rig.charges_sent()), (2, 2));
}

#[tokio::test]
async fn an_effect_that_is_found_is_reconciled_after_the_settle_time() {
    let transport =
        ScriptedTransport::new().fail(SendErrorKind::Reset).json(200, serde_json::json!([{"id": "ch_1"}]));
    let rig = Rig::new(Acme::searchable(), transport);
    let reply = rig.charge().send().await.expect("the lookup finds it");
    assert_eq!(reply.obtained(), Obtained::Reconciled);
    assert_eq!(&reply.bytes()[..], br#"{"id":"ch_1"}"#);
    assert_eq!((rig.charges_sent(), rig.lookups_sent()), (1, 1));
    assert_eq!(rig.clock.slept().iter().sum::<std::time::Duration>(), secs(7), "settle counts from the loss");
    let again = rig.charge().send().await.expect("from the record");
    assert_eq!(again.obtained(), Obtained::Reconciled);
    assert_eq!(rig.charges_sent(), 1);
}

#[tokio::test]
async fn a_proven_absence_allows_the_next_rung() {
    let transport =
        ScriptedTransport::new().fail(SendErrorKind::Reset).json(200, serde_json::json!([])).status(200);
    let rig = Rig::new(Acme::searchable(), transport);
    let reply = rig.charge().send().await.expect("sent again");
    assert_eq!((reply.obtained(), reply.attempts()), (Obtained::Fresh, 2));
    assert_eq!((rig.charges_sent(), rig.lookups_sent()), (2, 1));
}

#[tokio::test]
async fn lookups_that_never_come_to_an_answer_end_in_a_dead_letter() {
    let transport = ScriptedTransport::new().fail(SendErrorKind::Reset).always_fail(SendErrorKind::Connect);
    let rig = Rig::new(Acme::searchable(), transport);
    // No call has time for more than one lookup; the settle time is 7 s. Of the time in which nobody came for what was
    // due, an hour counts at a time.
    let mut calls = 0;
    let error = loop {
        let error = rig.charge().deadline(secs(8)).send().await.expect_err("the lookup fails");
        if error.is_dead_letter() {
            break error;
        }
        assert!(error.is_deadline() && calls < 30, "{calls}: {error}");
        calls += 1;
        rig.clock.advance(secs(2 * 3_600));
    };
    assert_eq!(calls, 24, "a day is enough");
    assert_eq!(
        (error.reason(), error.effect(), rig.charges_sent()),
        (Some(Reason::Unknown), Effect::Unknown, 1)
    );
}

#[tokio::test]
async fn never_sent_does_not_need_a_window() {
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let rig = Rig::new(Acme::replaying(ms(1)), transport);
    rig.charge().send().await.expect("nothing was under way at the vendor");
}

#[tokio::test]
async fn a_spent_ladder_looks_once_more_before_it_gives_up() {
    let transport =
        ScriptedTransport::new().status(503).status(503).json(200, serde_json::json!([{"id": "ch_1"}]));
    let mut vendor = Acme::replaying(secs(86_400));
    vendor.lookup = true;
    let rig = Rig::with(vendor, transport, one_retry());
    assert_eq!(rig.charge().send().await.expect("found").obtained(), Obtained::Reconciled);
}

#[tokio::test]
async fn a_refusal_after_an_accepted_duplicate_does_not_deny_the_first_send() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().fail(SendErrorKind::Reset).status(422));
    let error = rig.charge().on_unknown(OnUnknown::Resend).send().await.expect_err("refused the second time");
    assert!(error.is_dead_letter());
    assert_eq!(error.effect(), Effect::Unknown, "the first send may have done it");
}

#[tokio::test]
async fn a_refusal_by_a_vendor_that_replays_speaks_for_every_send() {
    let rig =
        Rig::new(Acme::replaying(secs(60)), ScriptedTransport::new().fail(SendErrorKind::Reset).status(422));
    let error = rig.charge().send().await.expect_err("refused");
    assert!(error.is_refused());
    assert_eq!(error.effect(), Effect::None);
}

/// Each repeat may be answered with the first one's outcome. Once none is left, the lookup decides.
#[tokio::test]
async fn a_no_to_the_last_rung_is_the_outcome_once_a_lookup_misses() {
    for (found, is_refused) in [(serde_json::json!([]), true), (serde_json::json!([{ "id": "ch_1" }]), false)]
    {
        let mut vendor = Acme::replaying(secs(60));
        vendor.lookup = true;
        let transport = ScriptedTransport::new().fail(SendErrorKind::Reset).status(401).json(200, found);
        let rig = Rig::with(vendor, transport, one_retry());
        let told = rig.charge().send().await;
        assert_eq!((rig.charges_sent(), rig.lookups_sent()), (2, 1));
        let Err(error) = told else {
            assert!(!is_refused, "it is found");
            continue;
        };
        assert_eq!((error.is_refused(), error.effect()), (is_refused, Effect::None), "{error}");
    }
}

#[tokio::test]
async fn refused_credentials_do_not_speak_for_an_earlier_send() {
    let rig =
        Rig::new(Acme::replaying(secs(60)), ScriptedTransport::new().fail(SendErrorKind::Reset).status(401));
    let error = rig.charge().send().await.expect_err("refused");
    assert_eq!((error.is_dead_letter(), error.effect()), (true, Effect::Unknown));
}

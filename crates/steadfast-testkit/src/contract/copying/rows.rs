//! A store with an operation in every state, and some rows with earlier lives.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::attempt;
use steadfast_core::operation::record::{Act, Action, Claim, Resolution, State, Transition};
use steadfast_core::operation::{Key, RedactedFields, Scope};
use steadfast_core::store::Store;
use steadfast_core::transport::SendErrorKind;
use steadfast_core::{AttemptReport, Effect, OnUnknown, Reason, Refusal};

use super::super::{
    NOW, answer, claim_at, dead_letter, id, let_pass, refuse, succeed, take, transition_at, write,
};
use super::{LATER, name};

/// Fills a store. At [`LATER`] no process holds an operation, and some records have been removed.
pub(super) async fn fill(store: &dyn Store) {
    fill_with_a_past(store).await;
    for (key, to) in [
        ("scheduled", State::Scheduled { at: LATER }),
        ("succeeded", succeed()),
        ("found", State::Succeeded { answer: answer(200, "found"), reconciled: true }),
        ("refused", refuse(Refusal::Rejected)),
        ("unauthorized", refuse(Refusal::Unauthorized)),
        ("exhausted", dead_letter(Reason::Exhausted)),
        ("unknown", State::Dead { reason: Reason::Unknown, answer: None }),
        ("resolved", dead_letter(Reason::Unknown)),
        ("redriven", dead_letter(Reason::Exhausted)),
        ("replaced", dead_letter(Reason::Exhausted)),
        ("adopted", dead_letter(Reason::Unknown)),
    ] {
        let held = take(store, with_every_field(key)).await;
        let mut transition = transition_at(held.fence, at(1), to);
        transition.effect = if key == "unknown" { Effect::Unknown } else { Effect::None };
        transition.unknown_since = Some(at(1)).filter(|_| key == "unknown");
        transition.lookups = u32::from(key == "unknown") * 3;
        transition.attempts = 4;
        transition.reports = vec![report(1, Some(503)), report(2, None)];
        write(store, &name(key), transition).await.expect("its holder");
    }
    take(store, claim_at(&name("left"), at(2))).await;
    let evidence = store.append_evidence(&name("left"), vec![report(1, None)]).await;
    assert_eq!(evidence.expect("the store works"), Ok(()));
    let enqueued = Claim { due: Some(LATER.plus(HOUR)), ..claim_at(&name("enqueued"), at(3)) };
    store.claim(enqueued).await.expect("the store works");
    let next = Claim { predecessor: Key::new("replaced").ok(), ..claim_at(&name("next"), at(4)) };
    take(store, next).await;
    let to = Scope::from_stored("test/copied/b/POST /x");
    for (key, action) in [
        ("resolved", Action::Resolve(Resolution::Applied { vendor_id: "po_1".to_owned() })),
        ("redriven", Action::Redrive { forced: true }),
        ("enqueued", Action::Cancel),
        ("adopted", Action::Adopt { to }),
        ("exhausted", Action::Note),
    ] {
        act(store, key, action).await;
    }
}

/// Adds a second life of a key, and a name that was removed.
async fn fill_with_a_past(store: &dyn Store) {
    for key in ["again", "purged"] {
        for fence in 1..4 {
            let record = take(store, claim_at(&name(key), NOW.plus(HOUR * fence))).await;
            assert_eq!(record.fence, u64::from(fence), "{key}");
        }
        let done: Transition = transition_at(3, NOW.plus(HOUR * 4), succeed());
        write(store, &name(key), done).await.expect("its holder");
    }
    let_pass(store, at(0)).await;
    let again = take(store, claim_at(&name("again"), at(0))).await;
    assert!(again.first_fence > 3, "{again:?}");
    // A claim may have removed it already.
    store.purge(at(0), 100).await.expect("the store works");
    assert_eq!(store.get(&name("purged")).await.expect("the store works"), None);
}

pub(super) async fn act(store: &dyn Store, key: &str, action: Action) {
    let (by, why) = ("ada".to_owned(), format!("for {key}"));
    let act = Act { action, by, why, now: at(5), fence: None };
    let acted = store.act(&name(key), act).await.expect("the store works");
    acted.unwrap_or_else(|forbidden| panic!("{key}: {forbidden:?}"));
}

/// Returns a claim with a value in each of its fields.
fn with_every_field(key: &str) -> Claim {
    let mut claim = claim_at(&id("test/copied/a/POST /x", key), at(1));
    Arc::make_mut(&mut claim.request).headers.insert("x-customer", HeaderValue::from_static("17"));
    claim.keep = Duration::from_secs(36 * 3600);
    claim.on_unknown = OnUnknown::Resend;
    claim.vendor_clock_ms = Some(-1_500);
    claim.attempt_max = Duration::from_millis(7_001);
    claim.redact = RedactedFields::new(["card", "email"]).expect("names");
    claim
}

fn report(number: u32, status: Option<u16>) -> AttemptReport {
    let mut report = attempt::report(number, at(1), "retry", Effect::Unknown);
    report.latency = Duration::from_millis(12);
    report.status = status;
    report.failure_kind = status.is_none().then_some(SendErrorKind::Reset);
    report.failure = status.is_none().then(|| "reset".to_owned());
    report.wait = Some(Duration::from_secs(2));
    report
}

/// Returns a time in the hours before [`LATER`], after the first lives are over.
fn at(minute: u64) -> Timestamp {
    LATER.minus(HOUR * 4).plus(Duration::from_secs(60 * minute))
}

const HOUR: Duration = Duration::from_secs(3600);

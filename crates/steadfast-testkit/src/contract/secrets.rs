//! Secrets in the headers of stored requests: counted, and taken out in every phase without changing anything else.

use std::sync::Arc;

use http::HeaderValue;

use steadfast_core::operation::record::{Act, Action, Claim, Forbidden, Phase, Record};
use steadfast_core::operation::{OperationId, Scope};
use steadfast_core::store::Store;

use super::operators::{LATER, act, audit, do_it, entry, prepare_from};
use super::{NOW, claim_at, get, id, succeed, transition_at};

/// A scrub in every phase: the headers go, and all else stays, under an entry on the audit record that names them.
pub async fn check_scrub(store: &dyn Store) {
    use Phase::{Dead, InProgress, Refused, Resolved, Scheduled, Succeeded};
    let table = [
        ("held", InProgress),
        ("left", InProgress),
        ("waiting", Scheduled),
        ("succeeded", Succeeded),
        ("refused", Refused),
        ("dead", Dead),
        ("applied", Resolved),
        ("not applied", Resolved),
        ("compensated", Resolved),
        ("replaced", Resolved),
        ("superseded", Resolved),
        ("cancelled", Resolved),
        ("adopted", Resolved),
    ];
    for (nth, (start, phase)) in table.into_iter().enumerate() {
        let id = id("test/secrets//POST /x", start);
        let before = prepare_from(store, with_secrets(&id), start).await;
        assert_eq!(before.phase(), phase, "{start}");
        assert_eq!(secrets(store).await, 1, "{start}: those before it have none any more");
        let logged = audit(store, Some(&id)).await.len();
        let scrub =
            Action::Scrub { headers: vec!["AUTHORIZATION".into(), "cookie".into(), "x-signature".into()] };
        let told = do_it(store, &id, act(scrub.clone())).await.expect("allowed");
        let mut expected = before.clone();
        expected.request = claim_at(&id, NOW).request;
        assert_eq!(told, expected, "{start}: nothing but those headers");
        assert_eq!(get(store, &id).await, Some(expected), "{start}: the record given is the record kept");
        let removed = Action::Scrub { headers: vec!["authorization".into(), "x-signature".into()] };
        let log = audit(store, Some(&id)).await;
        let scrubbed = entry(&id, removed, phase, phase);
        assert_eq!((log.len(), log.last()), (logged + 1, Some(&scrubbed)), "{start}");
        assert_eq!(do_it(store, &id, act(scrub)).await, Err(Forbidden::NoSecrets), "{start}: once");
        assert_eq!(audit(store, Some(&id)).await.len(), logged + 1, "{start}");
        assert_eq!(secrets(store).await, 0, "{start}");
        let found =
            store.tally().await.expect("the store works").iter().map(|group| group.count).sum::<u64>();
        assert_eq!(found, nth as u64 + 1, "{start}: a count of secrets hides no group");
    }
}

/// What a scrub is told that is not allowed, what its holder's settlement leaves, and what goes on under another name.
pub async fn check_scrub_beside_others(store: &dyn Store) {
    let held = id("test/secrets//POST /x", "held");
    let before = prepare_from(store, with_secrets(&held), "held").await;
    let scrub = || act(Action::Scrub { headers: vec!["authorization".into()] });
    for (expected, act) in [
        (Forbidden::Unexplained, Act { by: " ".into(), ..scrub() }),
        (Forbidden::Unexplained, Act { why: String::new(), ..scrub() }),
        (Forbidden::Moved, Act { fence: Some(9), ..scrub() }),
        (Forbidden::NoSecrets, act(Action::Scrub { headers: vec!["cookie".into()] })),
        (Forbidden::NoSecrets, act(Action::Scrub { headers: Vec::new() })),
        (Forbidden::NoSecrets, act(Action::Scrub { headers: vec!["no header's name".into()] })),
    ] {
        assert_eq!(do_it(store, &held, act.clone()).await, Err(expected), "{act:?}");
    }
    assert_eq!((get(store, &held).await, audit(store, None).await.len()), (Some(before.clone()), 0));
    do_it(store, &held, scrub()).await.expect("also while somebody holds it");
    // The holder has the record as it was, and writes to the record as it is.
    let settled =
        store.transition(&before, transition_at(1, LATER, succeed())).await.expect("the store works");
    assert_eq!(settled.map(|record| record.phase()), Ok(Phase::Succeeded));
    let kept = get(store, &held).await.expect("a record");
    assert!(!kept.request.headers.contains_key("authorization"), "a settlement does not bring them back");

    let left = id("test/secrets//POST /x", "adopted");
    let old = prepare_from(store, with_secrets(&left), "waiting").await;
    let to = Scope::from_stored("test/secrets/renamed/POST /x");
    do_it(store, &left, act(Action::Adopt { to: to.clone() })).await.expect("allowed");
    assert_eq!(secrets(store).await, 2, "under both names");
    let new = OperationId::new(to, old.id.key.clone());
    for (id, rest) in [(new, 1), (left, 0)] {
        let scrubbed = do_it(store, &id, scrub()).await.expect("allowed");
        assert_eq!((scrubbed.fingerprint, scrubbed.wire_key), (old.fingerprint, old.wire_key.clone()));
        assert_eq!(secrets(store).await, rest);
    }
}

/// A claim with two headers that carry secrets: one wherever it is used, twice; one that only its client knows of.
fn with_secrets(id: &OperationId) -> Claim {
    let mut claim = claim_at(id, NOW);
    for value in ["Bearer one", "Basic two"] {
        Arc::make_mut(&mut claim.request).headers.append("authorization", HeaderValue::from_static(value));
    }
    Arc::make_mut(&mut claim.request).headers.insert("x-signature", HeaderValue::from_static("three"));
    claim
}

/// How many operations hold secrets.
async fn secrets(store: &dyn Store) -> u64 {
    let tally = store.tally().await.expect("the store works");
    tally.iter().map(|group| group.secrets).sum()
}

/// Only the headers that carry secrets wherever they are used are counted.
pub async fn check_count_of_secrets(store: &dyn Store) {
    for (key, name, expected) in [
        ("a", "authorization", 1),
        ("b", "cookie", 2),
        ("c", "x-postmark-server-token", 3),
        ("d", "x-signature", 3),
        ("e", "idempotency-key", 3),
    ] {
        let mut claim = claim_at(&id("test/secrets//POST /x", key), NOW);
        Arc::make_mut(&mut claim.request).headers.insert(name, HeaderValue::from_static("secret"));
        let record: Record = super::take(store, claim).await;
        assert_eq!(record.holds_secrets(), expected > 0 && !matches!(key, "d" | "e"), "{name}");
        assert_eq!(secrets(store).await, expected, "{name}");
    }
}

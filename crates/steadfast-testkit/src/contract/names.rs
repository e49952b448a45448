//! Operations that continue under another name: started over under another key, or adopted by another scope.

use std::time::Duration;

use steadfast_core::operation::record::{
    Act, Action, Claim, Claimed, DOUBTED_FOR, Declined, Forbidden, Phase, Record, Resolution, Resolved,
    State, Takeover,
};
use steadfast_core::operation::{Fingerprint, Key, OperationId, Scope};
use steadfast_core::store::Store;
use steadfast_core::{Effect, Obstacle, Reason, Refusal};

use super::operators::{BY, LATER, WHY, act, act_on, audit, dead};
use super::views::report;
use super::{
    KEEP, LEASE, NOW, claim, claim_at, dead_letter, get, id, refuse, succeed, take, transition_at, write,
};

/// Checks the result of a claim that names a predecessor, from each state of the predecessor. The claim closes
/// the dead letter, or writes nothing at all.
pub async fn check_starting_over(store: &dyn Store) {
    let none = Effect::None;
    #[rustfmt::skip]
    let table = [
        ("absent",       Some((Obstacle::Absent, none))),
        ("held",         Some((Obstacle::Open { until: Some(NOW.plus(LEASE)) }, Effect::Unknown))),
        ("waiting",      Some((Obstacle::Open { until: Some(LATER) }, none))),
        ("succeeded",    Some((Obstacle::Succeeded, Effect::Applied))),
        ("unauthorized", Some((Obstacle::KeyIsFree, none))),
        ("reused",       Some((Obstacle::EffectUnknown, Effect::Unknown))),
        ("unsure",       Some((Obstacle::EffectUnknown, Effect::Unknown))),
        ("applied",      Some((Obstacle::Resolved, Effect::Applied))),
        ("compensated",  Some((Obstacle::Resolved, Effect::Unknown))),
        ("replaced",     Some((Obstacle::Resolved, Effect::Unknown))),
        ("adopted",      Some((Obstacle::Open { until: None }, Effect::Unknown))),
        ("refused",      None),
        ("clean",        None),
        ("not applied",  None),
    ];
    for (start, expected) in table {
        let old = id("test/over//POST /x", start);
        let before = predecessor(store, &old, start).await;
        let new = id("test/over//POST /x", &format!("{start}-2"));
        let result = claim(store, over(&new, &old)).await;
        let kept = get(store, &old).await;
        if let Some((obstacle, effect)) = expected {
            assert_eq!(result, Claimed::InTheWay { obstacle, effect }, "{start}");
            assert_eq!((get(store, &new).await, kept), (None, before), "{start}: nothing is written");
            continue;
        }
        let Claimed::Fresh(record) = result else { panic!("{start}: {result:?}") };
        assert_eq!(record.predecessor, Some(old.key.clone()), "{start}");
        assert_eq!(get(store, &new).await, Some(record), "{start}");
        let (kept, before) = (kept.expect("is there"), before.expect("was there"));
        let superseded = Resolution::Superseded { key: new.key.clone() };
        let resolved = kept.resolved.clone().expect("closed");
        assert_eq!((&resolved.resolution, resolved.at), (&superseded, LATER), "{start}");
        assert_eq!(kept, Record { resolved: Some(resolved), updated_at: LATER, ..before }, "{start}");
        let entry = audit(store, Some(&old)).await.pop().expect("on the audit record");
        // A refused operation is never sent again.
        let (after, why_not) = match start {
            "refused" => (Phase::Refused, Forbidden::NotDead),
            _ => (Phase::Resolved, Forbidden::Resolved),
        };
        assert_eq!((entry.action, entry.after), (Action::Resolve(superseded), after), "{start}");
        for (action, why_not) in [
            (Action::Redrive { forced: true }, why_not),
            (Action::Reopen, Forbidden::Resolved),
            (Action::Resolve(Resolution::NotApplied), why_not),
        ] {
            assert_eq!(act_on(store, &old, act(action)).await, Err(why_not), "{start}");
        }
        let other = id("test/over//POST /x", &format!("{start}-3"));
        let result = claim(store, over(&other, &old)).await;
        let elsewhere = Claimed::InTheWay { obstacle: Obstacle::Resolved, effect: Effect::Unknown };
        assert_eq!(result, elsewhere, "{start}: it may have come under the other key");
    }
}

/// Checks a claim that is not the first of its key: the record of that key decides, whatever the predecessor
/// is. A predecessor that can be closed is closed, unless the key is of another request.
pub async fn check_starting_over_again(store: &dyn Store) {
    let (old, new) = (id("test/again//POST /x", "a"), id("test/again//POST /x", "a-2"));
    dead(store, &old, Effect::None).await;
    take(store, claim_at(&new, NOW)).await;
    let other = Claim { fingerprint: Fingerprint::from_bytes([8; 32]), ..over(&new, &old) };
    assert!(matches!(claim(store, other).await, Claimed::Mismatch { .. }));
    assert_eq!(get(store, &old).await.expect("is there").phase(), Phase::Dead);
    // An earlier release of the service did not name the old key.
    assert!(matches!(claim(store, over(&new, &old)).await, Claimed::Busy { .. }));
    assert_eq!(get(store, &old).await.expect("is there").phase(), Phase::Resolved);
    assert!(matches!(claim(store, over(&new, &old)).await, Claimed::Busy { .. }));
    write(store, &new, transition_at(1, NOW, succeed())).await.expect("the holder may write");
    let unsure = id("test/again//POST /x", "b");
    dead(store, &unsure, Effect::Unknown).await;
    assert!(matches!(claim(store, over(&new, &unsure)).await, Claimed::Settled(_)), "a success is replayed");
    assert_eq!(get(store, &unsure).await.expect("is there").phase(), Phase::Dead);
    let itself = Claim { predecessor: Some(old.key.clone()), ..claim_at(&old, LATER) };
    assert!(matches!(claim(store, itself).await, Claimed::Settled(_)));
    assert_eq!(audit(store, Some(&old)).await.len(), 1, "closed once");
}

/// Checks the records of an adoption, under the new name and under the old one.
pub async fn check_adoption(store: &dyn Store) {
    for start in ["waiting", "left", "succeeded", "refused", "unsure", "not applied", "unauthorized"] {
        let old = id("test/old/a/POST /x", start);
        let before = predecessor(store, &old, start).await.expect("was there");
        let late = before.fence;
        store.append_evidence(&old, vec![report(1)]).await.expect("works").expect("is there");
        let to = Scope::from_stored("test/new/b/POST /x");
        let result = act_on(store, &old, act(Action::Adopt { to: to.clone() })).await.expect("allowed");
        assert_eq!(get(store, &old).await.as_ref(), Some(&result), "{start}");
        let new = OperationId::new(to.clone(), old.key.clone());
        let moved = get(store, &new).await.expect("under its new name");
        let expected = Record {
            id: new.clone(),
            first_scope: Some(old.scope.clone()),
            fence: moved.fence,
            first_fence: moved.fence,
            ..match start {
                "waiting" => Record { updated_at: LATER, ..before.clone() },
                "left" => Record {
                    state: State::Scheduled { at: LATER },
                    effect: Effect::Unknown,
                    unknown_since: Some(LATER.plus(before.attempt_max)),
                    updated_at: LATER,
                    ..before.clone()
                },
                _ => before.clone(),
            }
        };
        assert_eq!(moved, expected, "{start}: with its wire key, its request and its answer");
        assert!(moved.fence > late, "{start}");
        assert_eq!(store.evidence(&new).await.expect("works"), [report(1)], "{start}");
        let entry = audit(store, Some(&old)).await.pop().expect("on the audit record");
        assert_eq!(entry.action, Action::Adopt { to: to.clone() });
        if matches!(start, "succeeded" | "refused") {
            assert_eq!(result, before, "{start}: settled under both names");
        } else {
            let resolution = Resolution::Adopted { scope: to.clone() };
            let resolved = Resolved { resolution, by: BY.into(), why: WHY.into(), at: LATER };
            assert_eq!((result.phase(), result.resolved), (Phase::Resolved, Some(resolved)), "{start}");
            assert_eq!(result.effect, Effect::Unknown, "{start}: it goes on elsewhere");
            assert!(matches!(claim(store, claim_at(&old, LATER)).await, Claimed::Settled(_)), "{start}");
            let again = act_on(store, &old, act(Action::Adopt { to: Scope::from_stored("third") })).await;
            assert_eq!(again, Err(Forbidden::Resolved), "{start}");
            let stale = write(store, &old, transition_at(late, LATER, refuse(Refusal::Rejected))).await;
            assert_eq!(stale, Err(Declined::Fenced), "{start}: an earlier holder");
        }
    }
}

/// Checks that a late success of an adopted name is proof under each later name, unless that one is settled. It
/// is the same operation at the vendor: a resend would be a second effect.
pub async fn check_late_success_of_an_adopted_name(store: &dyn Store) {
    for start in ["clean", "waiting", "unsure", "carried on twice", "compensated"] {
        let old = id("test/old/a/POST /late", start);
        let kind = if matches!(start, "carried on twice" | "compensated") { "clean" } else { start };
        let before = predecessor(store, &old, kind).await.expect("was there");
        let names: &[&str] = if start == "carried on twice" { &["b", "c"] } else { &["b"] };
        let mut last = old.clone();
        for account in names {
            let to = Scope::from_stored(format!("test/new/{account}/POST /late"));
            act_on(store, &last, act(Action::Adopt { to: to.clone() })).await.expect("allowed");
            last = OperationId::new(to, old.key.clone());
        }
        if start == "compensated" {
            act_on(store, &last, act(Action::Resolve(Resolution::Compensated))).await.expect("allowed");
        }
        let held = get(store, &last).await.expect("is there");
        let late = write(store, &old, transition_at(before.fence, LATER, succeed())).await.expect("proof");
        let found = get(store, &last).await.expect("is there");
        if start == "compensated" {
            assert_eq!(found, held, "a person undid it");
            continue;
        }
        assert_eq!((&found.state, found.effect), (&late.state, Effect::Applied), "{start}");
        let result = claim(store, claim_at(&last, LATER)).await;
        assert!(
            matches!(&result, Claimed::Settled(record) if record.state == late.state),
            "{start}: {result:?}"
        );
        let redriven = act_on(store, &last, act(Action::Redrive { forced: false })).await;
        assert_eq!(redriven, Err(Forbidden::NotDead), "{start}");
    }
}

/// Checks an adoption to a name that is on record: neither record changes. An expired record gives way, and its
/// fence stays known.
pub async fn check_adoption_of_a_name_that_is_taken(store: &dyn Store) {
    let (old, to) = (id("test/old/a/POST /y", "k"), Scope::from_stored("test/new/b/POST /y"));
    let new = OperationId::new(to.clone(), old.key.clone());
    let before = dead(store, &old, Effect::Unknown).await;
    // Its third holder ends it.
    let settled = NOW.plus(LEASE * 2);
    for at in [NOW, NOW.plus(LEASE), settled] {
        take(store, claim_at(&new, at)).await;
    }
    write(store, &new, transition_at(3, settled, succeed())).await.expect("the holder may write");
    let adopt = |now| Act { now, ..act(Action::Adopt { to: to.clone() }) };
    let over = settled.plus(KEEP);
    let result = act_on(store, &old, adopt(over.minus(Duration::from_millis(1)))).await;
    assert_eq!(result, Err(Forbidden::NameTaken));
    assert_eq!(get(store, &old).await, Some(before));
    assert_eq!(audit(store, Some(&old)).await, []);
    for now in [over.minus(DOUBTED_FOR), over] {
        let account = Some("test/nobody/".to_owned());
        let phase = Phase::InProgress;
        let look = Takeover {
            phase,
            account,
            now,
            lease: LEASE,
            attempt_max: LEASE,
            vendor_clock_ms: None,
            holder: None,
            limit: 1,
            wanted: steadfast_core::operation::record::Wanted::default(),
        };
        assert_eq!(store.take(look).await.expect("works"), []);
    }
    act_on(store, &old, adopt(over)).await.expect("its time is over");
    let moved = get(store, &new).await.expect("is there");
    assert_eq!((moved.phase(), moved.effect), (Phase::Dead, Effect::Unknown));
    assert!(moved.fence > 3, "above all that held the name");
    let late = write(store, &new, transition_at(3, over, succeed())).await;
    assert_eq!(late, Err(Declined::Fenced), "of the life before");
    let itself = Act { now: over, ..act(Action::Adopt { to: to.clone() }) };
    assert_eq!(act_on(store, &new, itself).await, Err(Forbidden::NameTaken), "its own name");
}

/// Checks that an operator whose clock is ahead of all others frees no name.
pub async fn check_adoption_by_one_clock(store: &dyn Store) {
    let (old, to) = (id("test/old/a/POST /y", "k"), Scope::from_stored("test/new/b/POST /y"));
    let new = OperationId::new(to.clone(), old.key.clone());
    dead(store, &old, Effect::Unknown).await;
    take(store, claim_at(&new, NOW)).await;
    write(store, &new, transition_at(1, NOW, succeed())).await.expect("the holder may write");
    let alone = act_on(store, &old, Act { now: NOW.plus(KEEP), ..act(Action::Adopt { to }) }).await;
    assert_eq!(alone, Err(Forbidden::NameTaken));
    assert_eq!(audit(store, Some(&old)).await, []);
}

/// Checks that a success of a minute ago has not expired because the clock of a later claim is ahead.
pub async fn check_supersession_by_one_clock(store: &dyn Store) {
    let (old, new) = (id("test/supersede//POST /x", "ahead"), id("test/supersede//POST /x", "ahead/2"));
    take(store, claim_at(&old, NOW)).await;
    write(store, &old, transition_at(1, NOW, succeed())).await.expect("the holder may write");
    let result =
        store.claim(Claim { now: NOW.plus(KEEP), ..over(&new, &old) }).await.expect("the store works");
    let Claimed::InTheWay { obstacle, effect } = result else { panic!("{result:?}") };
    assert_eq!((obstacle, effect), (Obstacle::Succeeded, Effect::Applied));
}

/// Checks that a superseded operation stays on record as long as its successor. That holds also in a store that
/// was idle for a month, although it doubts the time of the claim at first.
pub async fn check_supersession_after_a_pause(store: &dyn Store) {
    let (old, new) = (id("test/supersede//POST /x", "paused"), id("test/supersede//POST /x", "paused/2"));
    dead(store, &old, Effect::None).await;
    let later = NOW.plus(KEEP * 4);
    assert!(matches!(claim(store, Claim { now: later, ..over(&new, &old) }).await, Claimed::Fresh(_)));
    let closed = store.get(&old).await.expect("the store works").expect("it is on record");
    assert_eq!(closed.updated_at, later);
    let result = claim(store, claim_at(&old, later.plus(DOUBTED_FOR * 2))).await;
    assert!(matches!(result, Claimed::Settled(_)), "a second effect: {result:?}");
}

/// Checks that a cancelled operation is a resolved dead letter, with its effect as on record. It can be
/// reopened, and a late proof settles it.
pub async fn check_cancellation(store: &dyn Store) {
    for (start, effect) in [("waiting", Effect::None), ("left", Effect::Unknown)] {
        let id = id("test/cancel//POST /x", start);
        let before = predecessor(store, &id, start).await.expect("was there");
        let result = act_on(store, &id, act(Action::Cancel)).await.expect("allowed");
        let resolved =
            Resolved { resolution: Resolution::Cancelled, by: BY.into(), why: WHY.into(), at: LATER };
        let unknown_since = (effect == Effect::Unknown).then(|| LATER.plus(before.attempt_max));
        let expected = Record {
            state: State::Dead { reason: Reason::Closed, answer: None },
            fence: before.fence + 1,
            effect,
            unknown_since,
            updated_at: LATER,
            resolved: Some(resolved),
            ..before.clone()
        };
        assert_eq!((&result, get(store, &id).await.as_ref()), (&expected, Some(&expected)), "{start}");
        if effect == Effect::None {
            let redriven = act_on(store, &id, act(Action::Redrive { forced: false })).await;
            assert_eq!(redriven, Err(Forbidden::Resolved));
            assert_eq!(act_on(store, &id, act(Action::Reopen)).await.expect("allowed").phase(), Phase::Dead);
        }
        let late = write(store, &id, transition_at(before.fence, LATER, succeed())).await;
        assert!(late.is_ok(), "{start}: proof");
    }
}

fn over(new: &OperationId, old: &OperationId) -> Claim {
    Claim { predecessor: Some(old.key.clone()), ..claim_at(new, LATER) }
}

async fn predecessor(store: &dyn Store, id: &OperationId, start: &str) -> Option<Record> {
    if start == "absent" {
        return None;
    }
    take(store, claim_at(id, NOW)).await;
    let to = match start {
        "held" => State::InProgress { lease_until: NOW.plus(LEASE) },
        "left" => State::InProgress { lease_until: LATER },
        "waiting" => State::Scheduled { at: LATER },
        "succeeded" => succeed(),
        "refused" => refuse(Refusal::Rejected),
        "unauthorized" => refuse(Refusal::Unauthorized),
        "reused" => refuse(Refusal::KeyReused),
        "clean" => dead_letter(Reason::Exhausted),
        _ => dead_letter(Reason::Unknown),
    };
    let mut transition = transition_at(1, NOW, to);
    let is_dead = matches!(transition.to, State::Dead { .. }) && start != "clean";
    transition.effect = if is_dead { Effect::Unknown } else { Effect::None };
    let record = write(store, id, transition).await.expect("the holder may write");
    let resolution = match start {
        "applied" => Resolution::Applied { vendor_id: "ch_1".into() },
        "not applied" => Resolution::NotApplied,
        "compensated" => Resolution::Compensated,
        "replaced" => Resolution::Replaced { key: Key::new("other").expect("a key") },
        "adopted" => Resolution::Adopted { scope: Scope::from_stored("other") },
        _ => return Some(record),
    };
    let at = Act { now: NOW, ..act(Action::Resolve(resolution)) };
    Some(act_on(store, id, at).await.expect("allowed"))
}

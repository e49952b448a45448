//! Operators' actions: each action from each phase, and its audit record.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{
    Act, Action, AuditEntry, Claimed, Declined, Forbidden, Phase, Record, Resolution, Resolved, State,
};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::Store;
use steadfast_core::{Effect, OnUnknown, Reason, Refusal};

use super::{
    KEEP, LEASE, NOW, claim, claim_at, dead_letter, get, id, let_pass, refuse, succeed, take, transition_at,
    write,
};

/// Checks each action from each phase: the phase it leads to, or why it is forbidden. An allowed action is in
/// the audit record, and nothing else is.
pub async fn check_every_action_from_every_phase(store: &dyn Store) {
    use Forbidden::{Held, NotDead, NotExpired, NotOpen, NotResolved, Resolved as Spoken};
    use Phase::{Dead, InProgress, Refused, Resolved, Scheduled, Succeeded};
    #[rustfmt::skip]
    let table: [(&str, [Result<Phase, Forbidden>; 9]); 13] = [
        //                resolve        reopen            redrive        forced         note             purge            cancel        adopt         not replaced
        ("held",         [Err(NotDead),  Err(NotDead),     Err(NotDead),  Err(NotDead),  Ok(InProgress),  Err(NotExpired), Err(Held)   , Err(Held), Err(NotDead)]),
        ("left",         [Err(NotDead),  Err(NotDead),     Err(NotDead),  Err(NotDead),  Ok(InProgress),  Err(NotExpired), Ok(Resolved), Ok(Resolved), Err(NotDead)]),
        ("waiting",      [Err(NotDead),  Err(NotDead),     Err(NotDead),  Err(NotDead),  Ok(Scheduled),   Err(NotExpired), Ok(Resolved), Ok(Resolved), Err(NotDead)]),
        ("succeeded",    [Err(NotDead),  Err(NotDead),     Err(NotDead),  Err(NotDead),  Ok(Succeeded),   Err(NotExpired), Err(NotOpen), Ok(Succeeded), Err(NotDead)]),
        ("refused",      [Err(NotDead),  Err(NotDead),     Err(NotDead),  Err(NotDead),  Ok(Refused),     Err(NotExpired), Err(NotOpen), Ok(Refused), Err(NotDead)]),
        ("dead",         [Ok(Resolved),  Err(NotResolved), Ok(Scheduled), Ok(Scheduled), Ok(Dead),        Err(NotExpired), Err(NotOpen), Ok(Resolved), Err(NotResolved)]),
        ("applied",      [Err(Spoken),   Ok(Dead),         Err(Spoken),   Err(Spoken),   Ok(Resolved),    Err(NotExpired), Err(NotOpen), Ok(Resolved), Err(Spoken)]),
        ("not applied",  [Err(Spoken),   Ok(Dead),         Ok(Scheduled), Ok(Scheduled), Ok(Resolved),    Err(NotExpired), Err(NotOpen), Ok(Resolved), Err(Spoken)]),
        ("compensated",  [Err(Spoken),   Ok(Dead),         Err(Spoken),   Err(Spoken),   Ok(Resolved),    Err(NotExpired), Err(NotOpen), Ok(Resolved), Err(Spoken)]),
        ("replaced",     [Err(Spoken),   Err(Spoken),      Err(Spoken),   Err(Spoken),   Ok(Resolved),    Err(NotExpired), Err(NotOpen), Ok(Resolved), Ok(Dead)]),
        ("superseded",    [Err(Spoken),   Err(Spoken),      Err(Spoken),   Err(Spoken),   Ok(Resolved),    Err(NotExpired), Err(NotOpen), Ok(Resolved), Err(Spoken)]),
        ("cancelled",     [Err(Spoken),   Ok(Dead),         Err(Spoken),   Err(Spoken),   Ok(Resolved),    Err(NotExpired), Err(NotOpen), Ok(Resolved), Err(Spoken)]),
        ("adopted",       [Err(Spoken),   Err(Spoken),      Err(Spoken),   Err(Spoken),   Ok(Resolved),    Err(NotExpired), Err(NotOpen), Err(Spoken), Err(Spoken)]),
    ];
    for (start, expected) in table {
        for (action, expected) in actions().into_iter().zip(expected) {
            let case = format!("{start}: {action:?}");
            let id = id("test/acts//POST /x", &case.replace('"', "'"));
            let before = prepare(store, &id, start).await;
            let logged = audit(store, Some(&id)).await.len();
            let result = act_on(store, &id, act(action.clone())).await;
            assert_eq!(result.as_ref().map(Record::phase).map_err(|result| *result), expected, "{case}");
            let kept = get(store, &id).await.expect("a record");
            let log = audit(store, Some(&id)).await;
            match result {
                Err(_) => {
                    assert_eq!(kept, before, "{case}: nothing changes");
                    assert_eq!(log.len(), logged, "{case}: and nothing is logged");
                }
                Ok(record) => {
                    assert_eq!(kept, record, "{case}: the record given is the record kept");
                    let entry = entry(&id, action, before.phase(), record.phase());
                    assert_eq!((log.len(), log.last()), (logged + 1, Some(&entry)), "{case}");
                }
            }
        }
    }
    let absent = id("test/acts//POST /x", "absent");
    for action in actions() {
        assert_eq!(act_on(store, &absent, act(action)).await, Err(Forbidden::Absent));
    }
    assert_eq!(audit(store, Some(&absent)).await, []);
}

/// Checks a redrive: due at once, next fence, no answer. The window starts anew only where the attempts proved
/// that nothing took effect.
pub async fn check_redrive(store: &dyn Store) {
    for (key, effect, is_clean, forced) in [
        ("clean", Effect::None, false, false),
        ("unsure", Effect::Unknown, false, false),
        ("unsure, forced", Effect::Unknown, false, true),
        ("unsure, a person is sure", Effect::Unknown, true, false),
    ] {
        let id = id("test/redrive//POST /x", key);
        let dead = dead(store, &id, effect).await;
        if is_clean {
            act_on(store, &id, act(Action::Resolve(Resolution::NotApplied))).await.expect("allowed");
        }
        let result = act_on(store, &id, act(Action::Redrive { forced })).await.expect("allowed");
        let expected = Record {
            state: State::Scheduled { at: LATER },
            fence: 2,
            attempts: 0,
            effect: if is_clean { Effect::None } else { effect },
            claimed_at: if effect == Effect::None { LATER } else { NOW },
            updated_at: LATER,
            on_unknown: OnUnknown::Park,
            resends_left: u32::from(forced),
            unknown_since: if is_clean { None } else { dead.unknown_since },
            resolved: None,
            ..dead
        };
        assert_eq!(result, expected, "{key}");
        let late = write(store, &id, transition_at(1, LATER, refuse(Refusal::Rejected))).await;
        assert_eq!(late, Err(Declined::Fenced), "an earlier holder");
        let again = act_on(store, &id, act(Action::Redrive { forced: true })).await;
        assert_eq!(again, Err(Forbidden::NotDead), "it is redriven once");
        let result = claim(store, claim_at(&id, LATER)).await;
        assert!(matches!(result, Claimed::TakenOver(Record { fence: 3, .. })), "and due: {result:?}");
    }
}

/// Checks a redrive by 16 operators at once, each of whom looked at the same dead letter: one succeeds.
///
/// Needs a tokio runtime; one with several threads finds more.
pub async fn check_redrives_at_once(store: Arc<dyn Store>) {
    let id = id("test/redrive//POST /y", "at once");
    dead(&*store, &id, Effect::None).await;
    let people = (0..16).map(|_| {
        let (store, id) = (store.clone(), id.clone());
        tokio::spawn(async move {
            let act = Act { fence: Some(1), ..act(Action::Redrive { forced: false }) };
            act_on(&*store, &id, act).await.is_ok()
        })
    });
    let mut done = 0;
    for person in people.collect::<Vec<_>>() {
        done += usize::from(person.await.expect("no panic"));
    }
    assert_eq!(done, 1);
    assert_eq!(audit(&*store, Some(&id)).await.len(), 1, "one action, one entry");
}

/// Checks that an action needs the fence that the operator saw, a name and a reason, and keeps within its
/// limits.
pub async fn check_actions_are_guarded(store: &dyn Store) {
    let id = id("test/guards//POST /x", "k");
    let dead = dead(store, &id, Effect::Unknown).await;
    let resolve = || act(Action::Resolve(Resolution::Applied { vendor_id: "ch_1".into() }));
    let redrive = |forced| act(Action::Redrive { forced });
    let too_long = |length: usize| "é".repeat(length / 2 + 1);
    for (expected, act) in [
        (Forbidden::Moved, Act { fence: Some(2), ..redrive(false) }),
        (Forbidden::Moved, Act { fence: Some(0), ..resolve() }),
        (Forbidden::Unexplained, Act { by: " ".into(), ..redrive(false) }),
        (Forbidden::Unexplained, Act { why: String::new(), ..resolve() }),
        (Forbidden::Unexplained, Act { why: "\n".into(), ..redrive(true) }),
        (Forbidden::Unexplained, act(Action::Resolve(Resolution::Applied { vendor_id: String::new() }))),
        (Forbidden::TooLong, Act { by: too_long(Act::BY_BYTES_MAX), ..resolve() }),
        (Forbidden::TooLong, Act { why: too_long(Act::WHY_BYTES_MAX), ..resolve() }),
    ] {
        assert_eq!(act_on(store, &id, act.clone()).await, Err(expected), "{act:?}");
    }
    assert_eq!(get(store, &id).await, Some(dead));
    let mut long = act(Action::Redrive { forced: false });
    (long.by, long.why) = ("ß".repeat(127), "理".repeat(Act::WHY_BYTES_MAX / 3));
    long.fence = Some(1);
    act_on(store, &id, long.clone()).await.expect("within the limits, and of this fence");
    let log = audit(store, Some(&id)).await;
    assert_eq!(log.iter().map(|entry| (&entry.by, &entry.why)).collect::<Vec<_>>(), [(&long.by, &long.why)]);
}

/// Checks that a resolved dead letter answers a claim, may expire, and gives way to proof unless its effect was
/// undone. Its audit record outlives it.
pub async fn check_resolution(store: &dyn Store) {
    for (key, resolution, promoted) in [
        ("applied", Resolution::Applied { vendor_id: "ch_ü".into() }, true),
        ("not", Resolution::NotApplied, true),
        ("undone", Resolution::Compensated, false),
    ] {
        let id = id("test/resolve//POST /x", key);
        let dead = dead(store, &id, Effect::Unknown).await;
        let result = act_on(store, &id, act(Action::Resolve(resolution.clone()))).await.expect("allowed");
        let resolved = Resolved { resolution, by: BY.into(), why: WHY.into(), at: LATER };
        assert_eq!(result, Record { resolved: Some(resolved), updated_at: LATER, ..dead });
        assert_eq!(claim(store, claim_at(&id, LATER)).await, Claimed::Settled(result.clone()));
        let late = write(store, &id, transition_at(1, LATER, succeed())).await;
        assert_eq!(late.is_ok(), promoted, "{key}: {late:?}");
        let kept = get(store, &id).await.expect("a record");
        assert_eq!((kept.phase() == Phase::Succeeded, kept.resolved.is_none()), (promoted, promoted));
    }
    let end = LATER.plus(KEEP);
    let_pass(store, end.minus(std::time::Duration::from_millis(1))).await;
    let purge = async |now| store.purge(now, 100).await.expect("the store works");
    assert_eq!(purge(end.minus(std::time::Duration::from_millis(1))).await, 0);
    let undone = id("test/resolve//POST /x", "undone");
    act_on(store, &undone, Act { now: end, ..act(Action::Purge) }).await.expect("its time is over");
    assert_eq!(purge(end).await, 3);
    assert_eq!(get(store, &undone).await, None);
    assert_eq!(audit(store, Some(&undone)).await.len(), 2, "what was done stays known");
    let whole = audit(store, None).await;
    assert_eq!(whole.len(), 4);
    let first = store.audit(None, None, 2).await.expect("the store works");
    assert_eq!((&first.rows[..], first.next.is_some()), (&whole[..2], true));
    let second = store.audit(None, first.next.as_deref(), 2).await.expect("the store works");
    assert_eq!((&second.rows[..], second.next), (&whole[2..], None));
}

/// Brings an operation into a state, and returns its record.
async fn prepare(store: &dyn Store, id: &OperationId, start: &str) -> Record {
    take(store, claim_at(id, NOW)).await;
    let to = match start {
        "held" => State::InProgress { lease_until: NOW.plus(LEASE) },
        "left" => State::InProgress { lease_until: LATER },
        "waiting" => State::Scheduled { at: LATER },
        "succeeded" => succeed(),
        "refused" => refuse(Refusal::Rejected),
        _ => dead_letter(Reason::Unknown),
    };
    let mut transition = transition_at(1, NOW, to);
    transition.effect = Effect::Unknown;
    let record = write(store, id, transition).await.expect("the holder may write");
    let resolution = match start {
        "applied" => Resolution::Applied { vendor_id: "ch_1".into() },
        "not applied" => Resolution::NotApplied,
        "compensated" => Resolution::Compensated,
        "replaced" => Resolution::Replaced { key: Key::new("other").expect("a key") },
        "superseded" => Resolution::Superseded { key: Key::new("other").expect("a key") },
        "cancelled" => Resolution::Cancelled,
        "adopted" => Resolution::Adopted { scope: Scope::from_stored("other") },
        _ => return record,
    };
    act_on(store, id, act(Action::Resolve(resolution))).await.expect("allowed")
}

pub(super) async fn dead(store: &dyn Store, id: &OperationId, effect: Effect) -> Record {
    take(store, claim_at(id, NOW)).await;
    let mut transition = transition_at(1, NOW, dead_letter(Reason::Exhausted));
    transition.effect = effect;
    write(store, id, transition).await.expect("the holder may write")
}

fn actions() -> [Action; 9] {
    [
        Action::Resolve(Resolution::NotApplied),
        Action::Reopen,
        Action::Redrive { forced: false },
        Action::Redrive { forced: true },
        Action::Note,
        Action::Purge,
        Action::Cancel,
        Action::Adopt { to: renamed() },
        Action::NotReplaced { key: Key::new("other").expect("a key") },
    ]
}

/// Returns the scope that adopts operations of the table; they have keys of their own.
fn renamed() -> Scope {
    Scope::from_stored("test/acts/renamed/POST /x")
}

pub(super) fn act(action: Action) -> Act {
    Act { action, by: BY.into(), why: WHY.into(), now: LATER, fence: None }
}

pub(super) async fn act_on(store: &dyn Store, id: &OperationId, act: Act) -> Result<Record, Forbidden> {
    store.act(id, act).await.expect("the store works")
}

pub(super) fn entry(id: &OperationId, action: Action, before: Phase, after: Phase) -> AuditEntry {
    AuditEntry { id: id.clone(), action, by: BY.into(), why: WHY.into(), at: LATER, before, after }
}

pub(super) async fn audit(store: &dyn Store, id: Option<&OperationId>) -> Vec<AuditEntry> {
    store.audit(id, None, 1_000).await.expect("the store works").rows
}

pub(super) const BY: &str = "Zoë 🦀";
pub(super) const WHY: &str = "the vendor's support said so:\n\"nothing\" happened";
pub(super) const LATER: Timestamp = Timestamp::from_millis(NOW.as_millis() + 5);

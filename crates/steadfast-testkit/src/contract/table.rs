//! Each call from each state, as a table: the caller's result, and the record afterwards.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{Claimed, Declined, Record, State};
use steadfast_core::operation::{Fingerprint, OperationId};
use steadfast_core::store::Store;
use steadfast_core::{Effect, Reason, Refusal};

use super::{
    LEASE, NOW, answer, claim, claim_at, dead_letter, get, id, refuse, succeed, take, transition_at, write,
};

/// A state to start from. The fence is 1 in each, and the call comes at [`LATER`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    Absent,
    /// In progress, with a live lease.
    Held,
    /// In progress, with an expired lease.
    Lapsed,
    /// Scheduled, not yet due.
    Waiting,
    /// Scheduled and due.
    Due,
    Succeeded,
    Refused,
    Unauthorized,
    DeadNone,
    DeadUnknown,
}

/// A call on the store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Claim,
    /// A claim with another fingerprint.
    ClaimOther,
    Renew,
    Schedule,
    Succeed,
    Refuse,
    DeadLetter,
}

/// The caller's result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Fresh,
    TakenOver(Effect),
    Freed,
    Settled,
    Busy,
    Mismatch,
    /// The transition took place.
    Moved,
    /// The transition changed nothing.
    Declined(Declined),
}

/// Results of each call with the current fence, and of each transition with another one.
struct Row {
    start: Start,
    /// In the order of [`CALLS`].
    current: [Outcome; 7],
    /// In the order of [`CALLS`], without the two claims. Fence 0 and 2: of an earlier life, and never given
    /// out.
    other_fence: [Outcome; 5],
}

const CALLS: [Call; 7] = [
    Call::Claim,
    Call::ClaimOther,
    Call::Renew,
    Call::Schedule,
    Call::Succeed,
    Call::Refuse,
    Call::DeadLetter,
];

const ABSENT: Outcome = Outcome::Declined(Declined::Absent);
const FENCED: Outcome = Outcome::Declined(Declined::Fenced);
const SETTLED: Outcome = Outcome::Declined(Declined::Settled);

#[rustfmt::skip]
const TABLE: [Row; 10] = {
    use Outcome::{Busy, Freed, Fresh, Mismatch, Moved, Settled, TakenOver};
    const UNSURE: Outcome = TakenOver(Effect::Unknown);
    const CLEAN: Outcome = TakenOver(Effect::None);
    [
        // A late success is proof, in the life of the key that its call was made in.
        //                              claim    other     renew    schedule succeed  refuse   dead letter
        Row { start: Start::Absent,
              current: /*           */ [Fresh,   Fresh,    ABSENT,  ABSENT,  ABSENT,  ABSENT,  ABSENT],
              other_fence: /*                         */  [ABSENT,  ABSENT,  ABSENT,  ABSENT,  ABSENT] },
        Row { start: Start::Held,
              current: /*           */ [Busy,    Mismatch, Moved,   Moved,   Moved,   Moved,   Moved],
              other_fence: /*                         */  [FENCED,  FENCED,  FENCED,  FENCED,  FENCED] },
        Row { start: Start::Lapsed,
              current: /*           */ [UNSURE,  Mismatch, Moved,   Moved,   Moved,   Moved,   Moved],
              other_fence: /*                         */  [FENCED,  FENCED,  FENCED,  FENCED,  FENCED] },
        Row { start: Start::Waiting,
              current: /*           */ [Busy,    Mismatch, SETTLED, SETTLED, Moved,   SETTLED, SETTLED],
              other_fence: /*                         */  [FENCED,  FENCED,  FENCED,  FENCED,  FENCED] },
        Row { start: Start::Due,
              current: /*           */ [CLEAN,   Mismatch, SETTLED, SETTLED, Moved,   SETTLED, SETTLED],
              other_fence: /*                         */  [FENCED,  FENCED,  FENCED,  FENCED,  FENCED] },
        Row { start: Start::Succeeded,
              current: /*           */ [Settled, Mismatch, SETTLED, SETTLED, SETTLED, SETTLED, SETTLED],
              other_fence: /*                         */  [FENCED,  FENCED,  FENCED,  FENCED,  FENCED] },
        Row { start: Start::Refused,
              current: /*           */ [Settled, Mismatch, SETTLED, SETTLED, Moved,   SETTLED, SETTLED],
              other_fence: /*                         */  [FENCED,  FENCED,  FENCED,  FENCED,  FENCED] },
        Row { start: Start::Unauthorized,
              current: /*           */ [Freed,   Mismatch, SETTLED, SETTLED, Moved,   SETTLED, SETTLED],
              other_fence: /*                         */  [FENCED,  FENCED,  FENCED,  FENCED,  FENCED] },
        Row { start: Start::DeadNone,
              current: /*           */ [Settled, Mismatch, SETTLED, SETTLED, Moved,   SETTLED, SETTLED],
              other_fence: /*                         */  [FENCED,  FENCED,  FENCED,  FENCED,  FENCED] },
        Row { start: Start::DeadUnknown,
              current: /*           */ [Settled, Mismatch, SETTLED, SETTLED, Moved,   SETTLED, SETTLED],
              other_fence: /*                         */  [FENCED,  FENCED,  FENCED,  FENCED,  FENCED] },
    ]
};

/// Checks each call from each starting state, with the current fence, an older one and one never given out.
pub async fn check_every_call_from_every_state(store: &dyn Store) {
    for row in &TABLE {
        for (call, result) in CALLS.into_iter().zip(row.current) {
            check_cell(store, row.start, call, 1, result).await;
        }
        for (call, result) in CALLS[2..].iter().zip(row.other_fence) {
            for fence in [0, 2] {
                check_cell(store, row.start, *call, fence, result).await;
            }
        }
    }
}

async fn check_cell(store: &dyn Store, start: Start, call: Call, fence: u64, expected: Outcome) {
    let case = format!("{start:?} {call:?} fence {fence}");
    let id = id("test/table//POST /x", &case);
    let before = prepare(store, start, &id).await;
    assert_eq!(get(store, &id).await, before, "{case}: what was written is what is read");
    let (result, given) = match call {
        Call::Claim | Call::ClaimOther => make_claim(store, &id, call).await,
        _ => match write(store, &id, transition_at(fence, LATER, written(call))).await {
            Ok(record) => (Outcome::Moved, Some(record)),
            Err(declined) => (Outcome::Declined(declined), None),
        },
    };
    assert_eq!(result, expected, "{case}");
    let after = get(store, &id).await;
    match result {
        Outcome::Fresh | Outcome::TakenOver(_) | Outcome::Freed | Outcome::Moved => {
            assert_eq!(after, given, "{case}: the record given is the record kept");
            let after = after.unwrap_or_else(|| panic!("{case}: a record"));
            assert_eq!(after.state, state_after(call), "{case}");
            assert_eq!(after.updated_at, LATER, "{case}");
            assert_eq!(after.fence, fence_after(result), "{case}");
            let applied = after.effect == Effect::Applied;
            assert_eq!(
                applied,
                call == Call::Succeed,
                "{case}: a success took effect, and nothing else says so"
            );
            if let Some(before) = before {
                assert_eq!((after.id, after.request), (before.id, before.request), "{case}");
                assert_eq!(
                    (after.fingerprint, after.wire_key),
                    (before.fingerprint, before.wire_key),
                    "{case}"
                );
            }
        }
        Outcome::Settled => {
            assert_eq!(given, before, "{case}: it is told as it stands");
            assert_eq!(after, before, "{case}: nothing changes");
        }
        Outcome::Busy | Outcome::Mismatch | Outcome::Declined(_) => {
            assert_eq!(after, before, "{case}: nothing changes");
        }
    }
}

/// Brings a new operation into a state, and returns its record.
async fn prepare(store: &dyn Store, start: Start, id: &OperationId) -> Option<Record> {
    if start == Start::Absent {
        return None;
    }
    let record = take(store, claim_at(id, NOW)).await;
    let move_on = |to, effect| {
        let mut transition = transition_at(record.fence, NOW, to);
        transition.effect = effect;
        transition
    };
    let transition = match start {
        Start::Absent | Start::Lapsed => return Some(record),
        Start::Held => move_on(State::InProgress { lease_until: FREES_AT }, Effect::None),
        Start::Waiting => move_on(State::Scheduled { at: FREES_AT }, Effect::None),
        Start::Due => move_on(State::Scheduled { at: LATER }, Effect::None),
        Start::Succeeded => move_on(succeed(), Effect::None),
        Start::Refused => move_on(refuse(Refusal::Rejected), Effect::None),
        Start::Unauthorized => move_on(refuse(Refusal::Unauthorized), Effect::None),
        Start::DeadNone => move_on(dead_letter(Reason::Exhausted), Effect::None),
        Start::DeadUnknown => move_on(dead_letter(Reason::Unknown), Effect::Unknown),
    };
    Some(write(store, id, transition).await.expect("the holder may write"))
}

async fn make_claim(store: &dyn Store, id: &OperationId, call: Call) -> (Outcome, Option<Record>) {
    let mut wanted = claim_at(id, LATER);
    // A repeat has bytes of its own; a resend has those of the first send.
    Arc::make_mut(&mut wanted.request).headers.insert("x-repeat", http::HeaderValue::from_static("yes"));
    if matches!(call, Call::ClaimOther) {
        wanted.fingerprint = Fingerprint::from_bytes([8; 32]);
    }
    match claim(store, wanted).await {
        Claimed::Fresh(record) => (Outcome::Fresh, Some(record)),
        Claimed::TakenOver(record) => (Outcome::TakenOver(record.effect), Some(record)),
        Claimed::Freed(record) => (Outcome::Freed, Some(record)),
        Claimed::Settled(record) => (Outcome::Settled, Some(record)),
        Claimed::Busy { frees_at } => {
            assert_eq!(frees_at, FREES_AT, "when to come back");
            (Outcome::Busy, None)
        }
        Claimed::Mismatch { held, .. } => {
            assert_eq!(held, Fingerprint::from_bytes([7; 32]), "the fingerprint on record");
            (Outcome::Mismatch, None)
        }
        result @ Claimed::InTheWay { .. } => panic!("no predecessor was named: {result:?}"),
    }
}

fn written(call: Call) -> State {
    match call {
        Call::Claim | Call::ClaimOther | Call::Renew => State::InProgress { lease_until: RENEWED_UNTIL },
        Call::Schedule => State::Scheduled { at: FREES_AT },
        Call::Succeed => State::Succeeded { answer: answer(201, "late"), reconciled: true },
        Call::Refuse => refuse(Refusal::Duplicate),
        Call::DeadLetter => State::Dead { reason: Reason::Expired, answer: None },
    }
}

fn state_after(call: Call) -> State {
    match call {
        Call::Claim | Call::ClaimOther => State::InProgress { lease_until: LATER.plus(LEASE) },
        Call::Renew => State::InProgress { lease_until: RENEWED_UNTIL },
        Call::Schedule => State::Scheduled { at: FREES_AT },
        Call::Succeed => State::Succeeded { answer: answer(201, "late"), reconciled: true },
        Call::Refuse => State::Refused { refusal: Refusal::Duplicate, answer: answer(402, "no") },
        Call::DeadLetter => State::Dead { reason: Reason::Expired, answer: None },
    }
}

/// Returns the fence after a call: a takeover raises it by one; nothing else does.
fn fence_after(result: Outcome) -> u64 {
    if matches!(result, Outcome::TakenOver(_) | Outcome::Freed) { 2 } else { 1 }
}

/// Time of the call under test: the very moment at which the first lease expires.
const LATER: Timestamp = Timestamp::from_millis(NOW.as_millis() + LEASE.as_millis() as u64);
const FREES_AT: Timestamp = Timestamp::from_millis(LATER.as_millis() + 1);
const RENEWED_UNTIL: Timestamp =
    Timestamp::from_millis(LATER.as_millis() + Duration::from_secs(30).as_millis() as u64);

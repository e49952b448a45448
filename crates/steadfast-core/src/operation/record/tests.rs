use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use proptest::prelude::*;
use url::Url;

use super::*;
use crate::operation::{Key, Scope};

const LEASE: Duration = Duration::from_millis(100);
const ATTEMPT: Duration = Duration::from_millis(30);
const KEEP: Duration = Duration::from_millis(1_000);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn wanted(now: u64) -> Claim {
    let key = Key::new("k").expect("a key");
    Claim {
        id: OperationId::new(Scope::from_stored("test/v//POST /x"), key),
        fingerprint: Fingerprint::from_bytes([1; 32]),
        wire_key: format!("wire {now}"),
        request: Request::new(Method::POST, Url::parse(&format!("https://v.test/{now}")).expect("a url"))
            .into(),
        now: at(now),
        lease: LEASE,
        due: None,
        keep: KEEP,
        on_unknown: OnUnknown::Park,
        attempt_max: ATTEMPT,
        vendor_clock_ms: Some(-3),
        holder: None,
        redact: RedactedFields::new([format!("field {now}")]).expect("a name"),
        predecessor: None,
        sequence: None,
    }
}

fn answer(status: u16) -> Answer {
    Answer::new(StatusCode::from_u16(status).expect("a status"), HeaderMap::new(), Bytes::new())
}

/// A record at time 0 in `state`, with evidence that differs from every default. It expires at 1,000, if at all.
fn held(state: State, effect: Effect) -> Record {
    let first = Record::first(wanted(0));
    let mut held = Record { state, effect, fence: 5, first_fence: 3, attempts: 3, resends_left: 2, ..first };
    held.attempt_max = Duration::from_millis(20);
    if effect == Effect::Unknown {
        (held.unknown_since, held.lookups) = (Some(at(9)), 4);
    }
    held
}

/// `held` as it is after a takeover: what a lapsed lease leaves unknown, its holder's last request may still do.
fn taken(held: &Record, now: u64, effect: Effect) -> Record {
    let state = State::InProgress { lease_until: at(now).plus(LEASE) };
    let mut record =
        Record { state, fence: 6, effect, updated_at: at(now), attempt_max: ATTEMPT, ..held.clone() };
    if matches!(held.state, State::InProgress { .. }) {
        (record.unknown_since, record.lookups) = (Some(at(now).plus(Duration::from_millis(20))), 0);
    }
    record
}

fn states() -> Vec<State> {
    let refused = |refusal| State::Refused { refusal, answer: answer(400) };
    vec![
        State::InProgress { lease_until: at(100) },
        State::Scheduled { at: at(100) },
        State::Succeeded { answer: answer(200), reconciled: false },
        State::Succeeded { answer: answer(200), reconciled: true },
        refused(Refusal::Rejected),
        refused(Refusal::Duplicate),
        refused(Refusal::KeyReused),
        refused(Refusal::Unauthorized),
        State::Dead { reason: Reason::Exhausted, answer: None },
        State::Dead { reason: Reason::Expired, answer: Some(answer(500)) },
        State::Dead { reason: Reason::Unknown, answer: None },
    ]
}

/// Returns the moves that a holder may write.
fn moves() -> Vec<State> {
    vec![
        State::InProgress { lease_until: at(900) },
        State::Scheduled { at: at(900) },
        State::Succeeded { answer: answer(201), reconciled: true },
        State::Refused { refusal: Refusal::Rejected, answer: answer(422) },
        State::Dead { reason: Reason::Exhausted, answer: Some(answer(503)) },
    ]
}

#[test]
fn a_first_claim_starts_the_record() {
    let (record, claimed) = claim(None, wanted(7), &Notes::default());
    let record = record.expect("a record");
    assert_eq!(claimed, Claimed::Fresh(record.clone()));
    let expected = Record {
        id: wanted(7).id,
        fingerprint: wanted(7).fingerprint,
        wire_key: "wire 7".into(),
        request: wanted(7).request,
        state: State::InProgress { lease_until: at(107) },
        fence: 1,
        first_fence: 1,
        attempts: 0,
        effect: Effect::None,
        unknown_since: None,
        lookups: 0,
        resends_left: 0,
        claimed_at: at(7),
        updated_at: at(7),
        keep: KEEP,
        on_unknown: OnUnknown::Park,
        attempt_max: ATTEMPT,
        vendor_clock_ms: Some(-3),
        holder: None,
        redact: RedactedFields::new(["field 7"]).expect("a name"),
        resolved: None,
        predecessor: None,
        sequence: None,
        first_scope: None,
    };
    assert_eq!(record, expected);
}

#[test]
fn a_claim_with_another_fingerprint_changes_nothing_in_any_state() {
    for state in states() {
        for now in [0, 99, 100, 999] {
            let mut other = wanted(now);
            other.fingerprint = Fingerprint::from_bytes([2; 32]);
            let claimed = claim(Some(&held(state.clone(), Effect::Unknown)), other, &Notes::default());
            // Its holder may be sending, and a success is one.
            let effect =
                if matches!(state, State::Succeeded { .. }) { Effect::Applied } else { Effect::Unknown };
            let next = match state {
                State::InProgress { lease_until: at } | State::Scheduled { at } => {
                    Disposition::Continues { at: Some(at) }
                }
                State::Dead { .. } => Disposition::AwaitsOperator,
                State::Succeeded { .. } | State::Refused { .. } => Disposition::Ended,
            };
            let mismatch = Claimed::Mismatch { held: Fingerprint::from_bytes([1; 32]), effect, next };
            assert_eq!(claimed, (None, mismatch));
        }
    }
}

#[test]
fn a_held_or_scheduled_operation_is_busy_until_its_very_end() {
    for state in [State::InProgress { lease_until: at(100) }, State::Scheduled { at: at(100) }] {
        for effect in [Effect::None, Effect::Unknown] {
            for (now, free) in [(0, false), (99, false), (100, true), (101, true), (u64::MAX, true)] {
                let (record, claimed) =
                    claim(Some(&held(state.clone(), effect)), wanted(now), &Notes::default());
                assert_eq!(record.is_some(), free, "{state:?} at {now}");
                if !free {
                    assert_eq!(claimed, Claimed::Busy { frees_at: at(100) });
                }
            }
        }
    }
}

#[test]
fn taking_over_moves_the_fence_and_keeps_the_request_the_window_and_the_evidence() {
    for (state, before, effect) in [
        // Whoever let the lease run out may have sent.
        (State::InProgress { lease_until: at(100) }, Effect::None, Effect::Unknown),
        (State::InProgress { lease_until: at(100) }, Effect::Unknown, Effect::Unknown),
        (State::Scheduled { at: at(100) }, Effect::None, Effect::None),
        (State::Scheduled { at: at(100) }, Effect::Unknown, Effect::Unknown),
    ] {
        let held = held(state, before);
        let (record, claimed) = claim(Some(&held), wanted(150), &Notes::default());
        let record = record.expect("a record");
        assert_eq!(claimed, Claimed::TakenOver(record.clone()));
        assert_eq!(record, taken(&held, 150, effect));
    }
    // A refusal for want of credentials says nothing of the attempts before it.
    let held = held(State::Refused { refusal: Refusal::Unauthorized, answer: answer(401) }, Effect::Unknown);
    let (record, claimed) = claim(Some(&held), wanted(150), &Notes::default());
    let record = record.expect("a record");
    assert_eq!(claimed, Claimed::Freed(record.clone()));
    assert_eq!(record, taken(&held, 150, Effect::Unknown));
}

#[test]
fn refused_credentials_alone_restart_the_window() {
    let state = State::Refused { refusal: Refusal::Unauthorized, answer: answer(401) };
    let held = held(state, Effect::None);
    let (record, _) = claim(Some(&held), wanted(150), &Notes::default());
    let expected = Record { attempts: 0, claimed_at: at(150), ..taken(&held, 150, Effect::None) };
    assert_eq!(record, Some(expected));
}

#[test]
fn a_settled_record_answers_claims_until_it_expires() {
    for state in states().into_iter().filter(|state| !is_open(state) && !is_unauthorized(state)) {
        let never_expires = matches!(state, State::Dead { .. });
        for now in [0, 100, 999, u64::MAX].into_iter().filter(|now| *now < 1_000 || never_expires) {
            let held = held(state.clone(), Effect::Unknown);
            assert_eq!(
                claim(Some(&held), wanted(now), &Notes::default()),
                (None, Claimed::Settled(held.clone()))
            );
        }
    }
}

#[test]
fn a_claim_of_what_has_expired_starts_a_new_life_under_the_next_fence() {
    for state in states() {
        let resolved = matches!(state, State::Dead { .. });
        let mut held = held(state.clone(), Effect::Unknown);
        if resolved {
            let action = Action::Resolve(Resolution::Compensated);
            held = held.act(&act(action, 0)).expect("a dead letter").0;
        }
        for fingerprint in [1, 2] {
            let mut wanted = wanted(1_000);
            wanted.fingerprint = Fingerprint::from_bytes([fingerprint; 32]);
            let (record, claimed) = claim(Some(&held), wanted.clone(), &Notes::default());
            if is_open(&state) {
                assert!(!matches!(claimed, Claimed::Fresh(_)), "{state:?} never expires");
                continue;
            }
            let expected = Record { fence: 6, first_fence: 6, ..Record::first(wanted) };
            assert_eq!((record, claimed), (Some(expected.clone()), Claimed::Fresh(expected)), "{state:?}");
        }
    }
}

#[test]
fn a_new_key_starts_above_every_purged_fence() {
    for (purged, first) in [(0, 1), (7, 8), (u64::MAX, u64::MAX)] {
        let Claimed::Fresh(record) = claim(None, wanted(0), &Notes { purged, ..Notes::default() }).1 else {
            panic!("a first claim")
        };
        assert_eq!((record.fence, record.first_fence), (first, first));
    }
}

#[test]
fn a_lease_of_zero_ends_at_once_and_a_huge_one_never() {
    let mut none = wanted(50);
    none.lease = Duration::ZERO;
    let (record, _) = claim(None, none, &Notes::default());
    assert!(matches!(claim(record.as_ref(), wanted(50), &Notes::default()).1, Claimed::TakenOver(_)));
    let mut huge = wanted(50);
    huge.lease = Duration::MAX;
    let (record, _) = claim(None, huge, &Notes::default());
    let claimed = claim(record.as_ref(), wanted(u64::MAX - 1), &Notes::default()).1;
    assert_eq!(claimed, Claimed::Busy { frees_at: at(u64::MAX) });
}

#[test]
fn every_move_from_every_state_under_every_fence() {
    for state in states() {
        for before in [Effect::None, Effect::Unknown] {
            let held = held(state.clone(), before);
            for to in moves() {
                for fence in [0, 2, 4, 5, 6, u64::MAX] {
                    let transition = Transition {
                        fence,
                        now: at(40),
                        attempts: 9,
                        effect: Effect::None,
                        unknown_since: Some(at(33)),
                        lookups: 7,
                        resends_left: 1,
                        to: to.clone(),
                        reports: Vec::new(),
                    };
                    // Fences 3 to 5 are of this life of the key; of these, 3 and 4 were fenced out.
                    let is_proof = match state {
                        State::Succeeded { .. } => false,
                        _ => [4, 5].contains(&fence),
                    };
                    let expected = match (&state, &to) {
                        (State::InProgress { .. }, _) if fence == 5 => Ok(Record {
                            state: to.clone(),
                            attempts: 9,
                            effect: match to {
                                State::Succeeded { .. } => Effect::Applied,
                                _ => Effect::None,
                            },
                            unknown_since: None,
                            lookups: 0,
                            resends_left: 1,
                            updated_at: at(40),
                            ..held.clone()
                        }),
                        // The count of a promotion stays that of the holder who dead-lettered it.
                        (_, State::Succeeded { .. }) if is_proof => Ok(Record {
                            state: to.clone(),
                            effect: Effect::Applied,
                            unknown_since: None,
                            lookups: 0,
                            updated_at: at(40),
                            ..held.clone()
                        }),
                        _ if fence == 5 => Err(Declined::Settled),
                        _ => Err(Declined::Fenced),
                    };
                    assert_eq!(held.apply(transition), expected, "{state:?} {to:?} fence {fence}");
                }
            }
        }
    }
}

#[test]
fn the_holder_alone_updates_an_unknown_effect_and_cannot_raise_the_resends() {
    for (effect, since, lookups, resends, expected) in [
        (Effect::Unknown, Some(at(33)), 7, 1, (Some(at(33)), 7, 1)),
        (Effect::Unknown, None, 7, 0, (Some(at(40)), 7, 0)),
        (Effect::Unknown, Some(at(60)), 0, 9, (Some(at(60)), 0, 2)),
        (Effect::None, Some(at(33)), 7, 2, (None, 0, 2)),
    ] {
        for to in moves() {
            let held = held(State::InProgress { lease_until: at(100) }, Effect::Unknown);
            // Of a success nothing is unknown.
            let expected = match to {
                State::Succeeded { .. } => (None, 0, expected.2),
                _ => expected,
            };
            let transition = Transition {
                fence: 5,
                now: at(40),
                attempts: 9,
                effect,
                unknown_since: since,
                lookups,
                resends_left: resends,
                to,
                reports: Vec::new(),
            };
            let moved = held.apply(transition).expect("the holder may write");
            assert_eq!((moved.unknown_since, moved.lookups, moved.resends_left), expected);
        }
    }
}

/// Hand-written: now; when it was last moved, its lease or schedule, what it says of unknown sends; and whether it
/// may be taken, and what it says then. In minutes. The last holder's longest exchange is one.
#[test]
fn a_wrong_clock_keeps_no_process_out_and_hides_no_send() {
    const DAY: u64 = 24 * 60;
    let minute = |minutes: u64| at(minutes * 60_000);
    for (now, moved, until, since, lapsed, due) in [
        // As it should be: the lease runs, has just run out, ran out long ago.
        (99, 90, 100, None, None, None),
        (100, 90, 100, None, Some(101), Some(None)),
        (100, 90, 100, Some(90), Some(101), Some(Some(90))),
        (500, 90, 100, Some(90), Some(501), Some(Some(90))),
        // A taker of a lapsed lease died in turn: what it knew to be later stays later.
        (100, 90, 100, Some(150), Some(150), Some(Some(150))),
        // Ahead by what clocks may differ.
        (100, 105, 110, None, None, None),
        // Ahead by more, by a day, by an hour with the lease over anyway: its length counts, from now.
        (100, 106, 110, None, Some(105), Some(None)),
        (100, 100 + DAY, 110 + DAY, None, Some(111), Some(None)),
        (100, 100 + DAY, 110 + DAY, Some(99 + DAY), Some(111), Some(Some(100))),
        (100, 100 + DAY, 110 + DAY, Some(115 + DAY), Some(115), Some(Some(115))),
    ] {
        for (phase, state, expected) in [
            (Phase::InProgress, State::InProgress { lease_until: minute(until) }, lapsed.map(Some)),
            (Phase::Scheduled, State::Scheduled { at: minute(until) }, due),
        ] {
            let case =
                format!("{phase:?} at {now}, moved at {moved}, until {until}, unknown since {since:?}");
            let effect = if since.is_some() { Effect::Unknown } else { Effect::None };
            let (updated_at, unknown_since) = (minute(moved), since.map(minute));
            let mut held = Record { updated_at, unknown_since, ..held(state, effect) };
            (held.claimed_at, held.attempt_max) = (updated_at, Duration::from_secs(60));
            let take = Takeover {
                phase,
                account: None,
                now: minute(now),
                lease: LEASE,
                attempt_max: ATTEMPT,
                vendor_clock_ms: None,
                holder: None,
                limit: 1,
                wanted: Wanted::default(),
            };
            let given = held.take(&take);
            assert_eq!(
                given.as_ref().map(|record| record.unknown_since),
                expected.map(|at| at.map(minute)),
                "{case}"
            );
            let (_, claimed) = claim(Some(&held), Claim { now: minute(now), ..wanted(0) }, &Notes::default());
            match &given {
                Some(record) => assert_eq!(claimed, Claimed::TakenOver(record.clone()), "{case}"),
                None => assert_eq!(claimed, Claimed::Busy { frees_at: minute(until) }, "{case}"),
            }
            // A first claim in the future opens no window, also not when its time has come.
            let in_future = moved > now + 5;
            let claimed_at = if in_future { minute(now).minus(KEEP) } else { updated_at };
            assert!(given.is_none_or(|record| record.claimed_at == claimed_at), "{case}");
        }
    }
}

/// A request that was sent with 20 ms to spare may be under way for so long after a takeover.
#[test]
fn a_taker_with_shorter_attempts_waits_for_the_longest_of_all() {
    for (effect, attempt_ms, expected_ms) in
        [(Effect::Unknown, 5, 20), (Effect::Unknown, 50, 50), (Effect::None, 5, 5)]
    {
        let attempt_max = Duration::from_millis(attempt_ms);
        let (phase, now, vendor_clock_ms) = (Phase::Scheduled, at(100), None);
        let take = Takeover {
            phase,
            account: None,
            now,
            lease: LEASE,
            attempt_max,
            vendor_clock_ms,
            holder: None,
            limit: 1,
            wanted: Wanted::default(),
        };
        let taken = held(State::Scheduled { at: at(100) }, effect).take(&take).expect("it is due");
        assert_eq!(taken.attempt_max.as_millis(), expected_ms, "{effect:?}");
    }
}

#[test]
fn only_settled_records_without_open_work_expire() {
    for state in states() {
        let mut record = held(state.clone(), Effect::Unknown);
        record.updated_at = at(70);
        let expires = matches!(state, State::Succeeded { .. } | State::Refused { .. });
        assert_eq!(record.expires_at(), expires.then(|| at(1_070)), "{state:?}");
        record.keep = Duration::MAX;
        assert_eq!(record.expires_at(), expires.then(|| at(u64::MAX)), "{state:?}");
    }
}

#[test]
fn every_state_has_its_name() {
    let names: Vec<&str> = states().iter().map(State::name).collect();
    let failed = ["failed"; 7];
    assert_eq!(names[..4], ["in_progress", "scheduled", "succeeded", "succeeded"]);
    assert_eq!(names[4..], failed);
}

fn is_open(state: &State) -> bool {
    matches!(state, State::InProgress { .. } | State::Scheduled { .. })
}

fn is_unauthorized(state: &State) -> bool {
    matches!(state, State::Refused { refusal: Refusal::Unauthorized, .. })
}

#[test]
fn a_take_gives_each_free_operation_to_one_taker() {
    for state in states() {
        for (phase, vendor, now) in Phase::ALL.into_iter().flat_map(|phase| {
            [None, Some("test/v/"), Some("test/w/")]
                .into_iter()
                .flat_map(move |vendor| [99, 100, u64::MAX].map(|now| (phase, vendor, now)))
        }) {
            let held = held(state.clone(), Effect::None);
            let take = Takeover {
                phase,
                account: vendor.map(String::from),
                now: at(now),
                lease: LEASE,
                attempt_max: ATTEMPT,
                vendor_clock_ms: None,
                holder: None,
                limit: 1,
                wanted: Wanted::default(),
            };
            let left = match (&state, phase) {
                (State::InProgress { .. }, Phase::InProgress) => Some(Effect::Unknown),
                (State::Scheduled { .. }, Phase::Scheduled) => Some(Effect::None),
                _ => None,
            };
            let expected = left
                .filter(|_| now >= 100 && vendor != Some("test/w/"))
                .map(|effect| taken(&held, now, effect));
            let given = held.take(&take);
            assert_eq!(given, expected, "{state:?} {take:?}");
            // With a lease that can end, nobody else is given it at the same moment.
            if let Some(given) = given.filter(|_| now < u64::MAX) {
                assert_eq!(given.take(&take), None);
            }
        }
    }
}

#[test]
fn a_resolution_changes_no_evidence_and_lasts_as_long_as_its_state() {
    let dead = held(State::Dead { reason: Reason::Unknown, answer: Some(answer(500)) }, Effect::Unknown);
    let (resolved, entry) = dead.act(&act(Action::Resolve(Resolution::NotApplied), 30)).expect("allowed");
    let signed =
        Resolved { resolution: Resolution::NotApplied, by: "me".into(), why: "so".into(), at: at(30) };
    let expected = Record { resolved: Some(signed), updated_at: at(30), ..dead.clone() };
    assert_eq!((&resolved, entry.before, entry.after), (&expected, Phase::Dead, Phase::Resolved));
    assert_eq!((dead.expires_at(), resolved.expires_at()), (None, Some(at(1_030))));
    let (reopened, _) = resolved.act(&act(Action::Reopen, 40)).expect("allowed");
    assert_eq!(reopened, Record { updated_at: at(40), ..dead });
    let (redriven, _) = resolved.act(&act(Action::Redrive { forced: false }, 40)).expect("allowed");
    assert_eq!((redriven.resolved, redriven.effect, redriven.claimed_at), (None, Effect::None, at(0)));
}

fn act(action: Action, now: u64) -> Act {
    Act { action, by: "me".into(), why: "so".into(), now: at(now), fence: None }
}

#[test]
fn a_redriven_letter_has_lookups_of_its_own_and_no_time_of_the_vendors() {
    let dead = State::Dead { reason: Reason::Unknown, answer: None };
    for (effect, clock) in [(Effect::Unknown, Some(-3)), (Effect::None, None)] {
        let letter = Record { lookups: 4, ..held(dead.clone(), effect) };
        let (redriven, _) = letter.act(&act(Action::Redrive { forced: false }, 200)).expect("a letter");
        assert_eq!((redriven.lookups, redriven.vendor_clock_ms), (0, clock), "{effect:?}");
    }
}

#[test]
fn an_edit_that_was_cut_short_opens_no_letter_that_another_has_replaced() {
    let dead = held(State::Dead { reason: Reason::Unknown, answer: None }, Effect::None);
    let key = |key| Key::new(key).expect("a key");
    let replaced = Action::Resolve(Resolution::Replaced { key: key("third") });
    let (replaced, _) = dead.act(&act(replaced, 200)).expect("a letter");
    let by = |name| replaced.act(&act(Action::NotReplaced { key: key(name) }, 210));
    assert_eq!(by("second"), Err(Forbidden::Resolved));
    assert_eq!(by("third").expect("its own").0.phase(), Phase::Dead);
}

/// An adopted operation may have been sent under its first name.
#[test]
fn the_window_of_an_adopted_operation_goes_on() {
    let enqueued = Record::first(Claim { due: Some(at(10)), ..wanted(0) });
    let adopted = Record { first_scope: Some(enqueued.id.scope.clone()), ..enqueued.clone() };
    for (record, expected) in [(enqueued, at(150)), (adopted, at(0))] {
        let (taken, _) = claim(Some(&record), wanted(150), &Notes::default());
        assert_eq!(taken.expect("it is due").claimed_at, expected);
    }
}

/// The tombstone under the first name does not go on by itself where the key was free.
#[test]
fn the_tombstone_names_the_fate_of_the_key() {
    let to = Scope::from_stored("test/w//POST /x");
    let refused = State::Refused { refusal: Refusal::Unauthorized, answer: answer(401) };
    for (state, expected) in [
        (refused, Disposition::Ended),
        (State::Scheduled { at: at(100) }, Disposition::Continues { at: None }),
        (State::Dead { reason: Reason::Exhausted, answer: None }, Disposition::AwaitsOperator),
    ] {
        let adopted = held(state, Effect::None).act(&act(Action::Adopt { to: to.clone() }, 200));
        assert_eq!(adopted.expect("it is adopted").0.disposition(), expected);
    }
}

/// Step of a random history: a claim, a taker, an operator, or a move written under a fence at most two behind the
/// current.
#[derive(Clone, Debug)]
enum Step {
    Claim,
    Take { phase: Phase },
    Act { action: Action },
    Write { to: usize, behind: u64, effect: Effect },
}

fn step() -> impl Strategy<Value = Step> {
    let effect = prop_oneof![Just(Effect::None), Just(Effect::Unknown)];
    prop_oneof![
        Just(Step::Claim),
        prop_oneof![Just(Phase::InProgress), Just(Phase::Scheduled)].prop_map(|phase| Step::Take { phase }),
        prop_oneof![
            Just(Action::Resolve(Resolution::NotApplied)),
            Just(Action::Resolve(Resolution::Compensated)),
            Just(Action::Reopen),
            any::<bool>().prop_map(|forced| Action::Redrive { forced }),
            Just(Action::Note),
            Just(Action::Purge),
        ]
        .prop_map(|action| Step::Act { action }),
        (0..5usize, 0..3u64, effect).prop_map(|(to, behind, effect)| Step::Write { to, behind, effect }),
    ]
}

proptest! {
    /// Properties that hold after any moves in any order. Names, fingerprint and request never change. The fence moves
    /// by one, on a takeover, a redrive or a new life only. A success is final until it expires. The window never
    /// restarts once an effect is unknown. An unresolved dead letter never expires. A holder that lost the fence can
    /// bring nothing but proof.
    #[test]
    fn no_history_breaks_the_promise(steps in prop::collection::vec((0..300u64, step()), 1..60)) {
        let (mut record, mut now, mut lives) = (Record::first(wanted(0)), 0, 1);
        for (elapsed, step) in steps {
            now += elapsed;
            let (before, lives_before) = (record.clone(), lives);
            let mut taken_over = false;
            match step {
                Step::Claim => {
                    let (write, claimed) = claim(Some(&before), wanted(now), &Notes::default());
                    taken_over = matches!(claimed, Claimed::TakenOver(_) | Claimed::Freed(_) | Claimed::Fresh(_));
                    prop_assert_eq!(write.is_some(), taken_over);
                    if let Claimed::Fresh(record) = claimed {
                        prop_assert!(before.has_expired(at(now)));
                        let new_life = Record::first(wanted(now)).after_fence(before.fence);
                        prop_assert_eq!(&record, &new_life);
                        lives += 1;
                    }
                    record = write.unwrap_or(record);
                }
                Step::Take { phase } => {
                    let take =
                        Takeover { phase, account: None, now: at(now), lease: LEASE, attempt_max: ATTEMPT, vendor_clock_ms: None, holder: None, limit: 1, wanted: Wanted::default() };
                    if let Some(taken) = before.take(&take) {
                        taken_over = true;
                        record = taken;
                    }
                }
                Step::Act { action } => {
                    if let Ok((acted, entry)) = before.act(&act(action.clone(), now)) {
                        taken_over = matches!(action, Action::Redrive { .. });
                        prop_assert_eq!((entry.before, entry.after), (before.phase(), acted.phase()));
                        record = acted;
                    }
                }
                Step::Write { to, behind, effect } => {
                    let fence = before.fence.saturating_sub(behind);
                    let to = moves().swap_remove(to);
                    let transition =
                        Transition {
                            fence,
                            now: at(now),
                            attempts: 1,
                            effect,
                            unknown_since: None,
                            lookups: 1,
                            resends_left: 1,
                            to,
                            reports: Vec::new(),
                        };
                    if let Ok(moved) = before.apply(transition) {
                        let holder = fence == before.fence && matches!(before.state, State::InProgress { .. });
                        let proven = !matches!(before.state, State::Succeeded { .. })
                            && fence >= before.first_fence
                            && matches!(moved.state, State::Succeeded { .. });
                        prop_assert!(holder || proven);
                        record = moved;
                    }
                }
            }
            prop_assert_eq!(&record.id, &before.id);
            prop_assert_eq!(record.fence, before.fence + u64::from(taken_over));
            if lives > lives_before {
                continue;
            }
            prop_assert_eq!(record.first_fence, before.first_fence);
            prop_assert_eq!(&record.request, &before.request);
            prop_assert_eq!(&record.wire_key, &before.wire_key);
            prop_assert_eq!(record.fingerprint, before.fingerprint);
            if matches!(before.state, State::Succeeded { .. }) {
                prop_assert_eq!(&record, &before);
            }
            if before.effect == Effect::Unknown {
                prop_assert_eq!(record.claimed_at, before.claimed_at);
            }
            prop_assert_eq!(record.unknown_since.is_some(), record.effect == Effect::Unknown);
            prop_assert!(record.unknown_since.is_some() || record.lookups == 0);
            if record.phase() == Phase::Dead {
                prop_assert_eq!(record.expires_at(), None);
            }
            prop_assert!(record.resolved.is_none() || record.phase() == Phase::Resolved);
        }
    }
}

#[test]
fn a_late_success_keeps_the_successors_name_on_record() {
    let letter = held(State::Dead { reason: Reason::Exhausted, answer: None }, Effect::None);
    let next = Key::new("next").expect("a key");
    let superseded = supersede(Some(&letter), &next, (at(20), at(20))).expect("nothing is in the way");
    let (superseded, _) = superseded.expect("it is closed");
    let late = Transition {
        fence: 4,
        now: at(30),
        attempts: 1,
        effect: Effect::None,
        unknown_since: None,
        lookups: 0,
        resends_left: 0,
        to: moves().swap_remove(2),
        reports: Vec::new(),
    };
    let late = superseded.apply(late).expect("it is proof");
    assert_eq!((late.effect, late.may_have_happened_twice()), (Effect::Applied, true));
    assert_eq!(late.resolved.map(|resolved| resolved.resolution), Some(Resolution::Superseded { key: next }));
}

//! The state machine: one record, and what is done to it. Times are seconds.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use support::commands;
use url::Url;

use steadfast::clock::Timestamp;
use steadfast::operation::record::{
    Act, Action, Claim, Claimed, Forbidden, Notes, Phase, Record, Resolution, State, Takeover, Transition,
    claim, supersede,
};
use steadfast::operation::{Fingerprint, Key, OperationId, Scope};
use steadfast::transport::{Answer, Request};
use steadfast::{Effect, Reason, Refusal};
use steadfast_core::internal::operation::{Facts, Lookup, Repeat, Ruling, Sent, Window, may_send, window};
pub use support::commands::{ATTEMPT, LEASE};

pub const HOUR: u64 = 3_600;
pub const DAY: u64 = 24 * HOUR;
/// The time that a record is kept for.
const KEEP: u64 = 7 * DAY;
/// A vendor's window.
const REPLAYS: Duration = Duration::from_secs(DAY);

pub fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

pub fn wanted(key: &str, now: u64) -> Claim {
    let url = Url::parse("https://v.test/x").expect("a url");
    let id = OperationId::new(scope("v"), Key::new(key).expect("a key"));
    Claim {
        fingerprint: Fingerprint::from_bytes([1; 32]),
        wire_key: "wire".to_owned(),
        keep: Duration::from_secs(KEEP),
        ..commands::claim(&id, Request::new(Method::POST, url), at(now))
    }
}

pub fn scope(vendor: &str) -> Scope {
    Scope::new("test", vendor, "", &Method::POST, "/x")
}

/// Claimed for the first time.
fn first(now: u64) -> Record {
    new_life(None, now, &Notes::default())
}

fn new_life(before: Option<&Record>, now: u64, notes: &Notes) -> Record {
    match claim(before, wanted("k", now), notes).1 {
        Claimed::Fresh(record) => record,
        other => panic!("{other:?}"),
    }
}

pub fn says(fence: u64, now: u64, effect: Effect, to: State) -> Transition {
    Transition {
        fence,
        now: at(now),
        attempts: 1,
        effect,
        unknown_since: None,
        lookups: 0,
        resends_left: 0,
        to,
        reports: Vec::new(),
    }
}

pub fn success() -> State {
    State::Succeeded { answer: answer(200), reconciled: false }
}

fn answer(status: u16) -> Answer {
    Answer::new(StatusCode::from_u16(status).expect("a status"), HeaderMap::new(), "{}")
}

pub const BURIED: State = State::Dead { reason: Reason::Unknown, answer: None };

fn dead(effect: Effect) -> Record {
    let held = first(0);
    held.apply(says(held.fence, 10, effect, BURIED)).expect("its holder says so")
}

pub fn lapsed(now: u64) -> Takeover {
    Takeover {
        phase: Phase::InProgress,
        account: None,
        now: at(now),
        lease: LEASE,
        attempt_max: ATTEMPT,
        vendor_clock_ms: None,
        holder: None,
        limit: 1,
        wanted: steadfast::operation::record::Wanted::default(),
    }
}

pub fn act(action: Action, now: u64) -> Act {
    Act { action, by: "me".to_owned(), why: "so".to_owned(), now: at(now), fence: None }
}

fn acted(record: &Record, action: Action, now: u64) -> Result<Record, Forbidden> {
    record.act(&act(action, now)).map(|(record, _)| record)
}

pub fn an_overtaken_holder_changes_nothing() -> bool {
    let held = first(0);
    let taken = held.take(&lapsed(60)).expect("its lease is over");
    taken.apply(says(held.fence, 61, Effect::None, BURIED)).is_err()
}

pub fn a_key_that_was_purged_goes_on_with_its_fences() -> bool {
    let notes = Notes { purged: 7, ..Notes::default() };
    new_life(None, 0, &notes).fence == 8
}

pub fn a_late_success_of_an_earlier_life_settles_nothing() -> bool {
    let held = first(0);
    let over = held.apply(says(held.fence, 10, Effect::None, success())).expect("its holder says so");
    let next = new_life(Some(&over), 10 + KEEP, &Notes::default());
    next.apply(says(held.fence, 20 + KEEP, Effect::None, success())).is_err()
}

pub fn what_has_expired_is_a_new_life_at_its_claim() -> bool {
    let held = first(0);
    let over = held.apply(says(held.fence, 10, Effect::None, success())).expect("its holder says so");
    matches!(claim(Some(&over), wanted("k", 10 + KEEP), &Notes::default()).1, Claimed::Fresh(_))
}

pub fn another_request_under_a_key_is_refused() -> bool {
    let other = Claim { fingerprint: Fingerprint::from_bytes([2; 32]), ..wanted("k", 20) };
    matches!(claim(Some(&dead(Effect::None)), other, &Notes::default()).1, Claimed::Mismatch { .. })
}

pub fn what_a_dead_holder_left_is_unknown() -> bool {
    first(0).take(&lapsed(60)).is_some_and(|taken| taken.effect == Effect::Unknown)
}

pub fn a_lapse_is_settled_from_the_end_of_the_longest_attempt() -> bool {
    let taken = first(0).take(&lapsed(60)).map(|taken| taken.unknown_since);
    taken == Some(Some(at(60).plus(ATTEMPT)))
}

pub fn a_lease_of_tomorrow_keeps_nobody_out() -> bool {
    first(DAY + HOUR).take(&lapsed(0)).is_some()
}

pub fn a_claim_of_tomorrow_has_no_window_tomorrow_either() -> bool {
    let taken = first(DAY + HOUR).take(&lapsed(0)).or_else(|| first(DAY + HOUR).take(&lapsed(2 * DAY)));
    let taken = taken.expect("somebody takes it");
    let Record { claimed_at, updated_at, attempt_max, .. } = taken;
    let sent = Sent { claimed_at, updated_at, now: at(DAY + 2 * HOUR), measured: None, attempt_max };
    window(Some(REPLAYS), &sent) == Window::Closed
}

pub fn mended_credentials_start_no_new_window_after_an_unknown_send() -> bool {
    let taken = first(0).take(&lapsed(60)).expect("its lease is over");
    let refused = State::Refused { refusal: Refusal::Unauthorized, answer: answer(401) };
    let refused = taken.apply(says(taken.fence, 100, Effect::Unknown, refused)).expect("its holder says so");
    match claim(Some(&refused), wanted("k", HOUR), &Notes::default()).1 {
        Claimed::Freed(record) => record.claimed_at == at(0),
        other => panic!("{other:?}"),
    }
}

pub fn a_late_success_settles_what_was_taken_for_not_applied() -> bool {
    let dead = dead(Effect::None);
    dead.apply(says(dead.fence, 20, Effect::None, success())).is_ok()
}

pub fn a_late_success_does_not_undo_a_persons_word() -> bool {
    let dead = dead(Effect::Unknown);
    let undone = acted(&dead, Action::Resolve(Resolution::Compensated), 20).expect("a person says so");
    undone.apply(says(dead.fence, 30, Effect::None, success())).is_err()
}

pub fn a_dead_letter_does_not_expire() -> bool {
    !dead(Effect::Unknown).has_expired(at(100 * KEEP))
}

pub fn a_person_does_not_deny_what_may_yet_arrive() -> bool {
    let taken = first(0).take(&lapsed(60)).expect("its lease is over");
    let buried =
        Transition { unknown_since: taken.unknown_since, ..says(taken.fence, 61, Effect::Unknown, BURIED) };
    let letter = taken.apply(buried).expect("its holder says so");
    let denied = |after: u64| acted(&letter, Action::Resolve(Resolution::NotApplied), after).map(drop);
    let forced = acted(&letter, Action::Redrive { forced: true }, 70).map(drop);
    let late = 61 + ATTEMPT.as_secs();
    assert_eq!(denied(late), Ok(()), "the longest attempt is over");
    (denied(70), forced) == (Err(Forbidden::Held), Err(Forbidden::Held))
}

pub fn force_leaves_no_spare_send_where_nothing_took_effect() -> bool {
    let redriven = acted(&dead(Effect::None), Action::Redrive { forced: true }, 20).expect("it is dead");
    redriven.resends_left == 0
}

pub fn a_letter_that_was_started_over_cannot_be_redriven() -> bool {
    let letter = dead(Effect::None);
    let closed = supersede(Some(&letter), &Key::new("k2").expect("a key"), (at(20), at(20)))
        .expect("nothing is in the way");
    let letter = closed.map_or(letter, |(closed, _)| closed);
    acted(&letter, Action::Redrive { forced: true }, 30) == Err(Forbidden::Resolved)
}

pub fn what_was_cancelled_and_may_have_happened_is_not_started_over() -> bool {
    let cancelled = acted(&first(0), Action::Cancel, 60).expect("its lease is over");
    supersede(Some(&cancelled), &Key::new("k2").expect("a key"), (at(70), at(70))).is_err()
}

pub fn what_was_adopted_cannot_be_redriven_under_its_old_name() -> bool {
    let left = acted(&dead(Effect::None), Action::Adopt { to: scope("w") }, 20).expect("nobody holds it");
    acted(&left, Action::Redrive { forced: true }, 30) == Err(Forbidden::Resolved)
}

pub fn a_host_that_is_a_month_ahead_expires_nothing() -> bool {
    let mut notes = Notes::default();
    let held = first(0);
    let over = held.apply(says(held.fence, 10, Effect::None, success())).expect("its holder says so");
    notes.saw(at(10));
    notes.saw(at(30 * DAY));
    matches!(claim(Some(&over), wanted("k", 30 * DAY), &notes).1, Claimed::Settled(_))
}

pub fn what_nobody_can_tell_is_not_sent_again() -> bool {
    let facts = Facts {
        effect: Effect::Unknown,
        repeat: Repeat::Other,
        window: Window::None,
        lookup: Lookup::CannotTell,
        resends_left: 0,
    };
    may_send(&facts) == Ruling::Stop(Reason::Unknown)
}

pub fn a_resend_at_the_windows_last_second_is_too_late() -> bool {
    window(Some(REPLAYS), &sent(0, DAY - 1, None)) == Window::Closed
}

pub fn a_wall_clock_that_is_set_back_opens_no_window() -> bool {
    window(Some(REPLAYS), &sent(0, HOUR, Some(Duration::from_secs(DAY)))) == Window::Closed
}

pub fn a_first_claim_of_later_than_now_has_no_window() -> bool {
    window(Some(REPLAYS), &sent(HOUR, 0, None)) == Window::Closed
}

fn sent(claimed_at: u64, now: u64, measured: Option<Duration>) -> Sent {
    let claimed_at = at(claimed_at);
    Sent { claimed_at, updated_at: claimed_at, now: at(now), measured, attempt_max: ATTEMPT }
}

/// A wait that was read in the wrong unit.
pub fn what_was_tried_is_not_due_next_year() -> bool {
    let held = first(0);
    let postponed = State::Scheduled { at: at(365 * DAY) };
    let left = held.apply(says(held.fence, 10, Effect::None, postponed)).expect("its holder says so");
    left.until() <= Some(at(10 + KEEP))
}

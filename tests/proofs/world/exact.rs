//! The events that are allowed, by hand: each case beside the nearest one that is not.

use std::time::Duration;

use steadfast::clock::{Instant, Timestamp};

use steadfast::operation::{Key, OperationId, Scope};
use steadfast::{Disposition, Gate};

use crate::world::allowed::{
    is_back_early, is_called_again, is_claimed_meanwhile, is_of_a_server_ahead, is_of_a_wrong_clock,
    is_rate_used_up, is_sent_meanwhile, is_taken_late,
};
use crate::world::facts::{
    Accepted, All, CallMade, Does, Failure, KeyLife, OnRecord, Pause, Renewal, Said, Send, Slowed, Taken,
    Told, Wait,
};
use crate::world::plan::{Operation, Schedule, WallClock, secs};
use crate::world::queue::ServerPlan;
use crate::world::vendors::{Kind, Name};

const HOUR: u64 = 3600;

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN.plus(secs(seconds))
}

fn wall(seconds: u64) -> Timestamp {
    Timestamp::from_millis((1_000_000 + seconds) * 1_000)
}

/// Two mails and an order.
fn schedule() -> Schedule {
    let operation = |kind| Operation { kind, resends: false, line: None, callers: Vec::new() };
    let operations = [Kind::Email, Kind::Email, Kind::Order].map(operation);
    Schedule { operations: operations.into(), interactive: false, ..Schedule::of(0) }
}

fn failure(seconds: u64, vendor: Name, is_recovered: bool) -> Failure {
    Failure { incarnation: 0, vendor, operation: Some(1), call: None, at: at(seconds), is_recovered }
}

#[test]
fn a_take_is_late_unless_its_whole_vendor_was_held_back() {
    let mail = |seconds, due| Taken { operation: 0, at: at(seconds), due: Some(at(due)) };
    let take = mail(130, 100);
    let is_late = |all: &All| is_taken_late(&schedule(), all, &take);
    let failed = |failures: &[Failure]| All { failures: failures.to_vec(), ..All::default() };
    assert!(is_late(&All::default()), "30 s after it was due");
    assert!(!is_taken_late(&schedule(), &All::default(), &mail(110, 100)));
    assert!(!is_late(&failed(&[failure(100, Name::Postmark, true)])), "recovery had slowed down");
    assert!(is_late(&failed(&[failure(99, Name::Postmark, true)])), "it had paid its debt off");
    assert!(is_late(&failed(&[failure(120, Name::Postmark, false)])), "a live call slows nothing down");
    assert!(is_late(&failed(&[failure(120, Name::BigCommerce, true)])), "another vendor's");
    let live: Vec<Failure> = (95..100).map(|seconds| failure(seconds, Name::Postmark, false)).collect();
    assert!(!is_late(&failed(&live)), "the circuit may be open");
    let start = failed(&[failure(90, Name::Postmark, true)]);
    assert!(is_late(&start));
    let other = Taken { operation: 1, at: at(110), due: None };
    assert!(!is_late(&All { takes: vec![other.clone()], ..start.clone() }), "another mail had the start");
    let order = Taken { operation: 2, ..other };
    assert!(is_late(&All { takes: vec![order], ..start }), "an order is another vendor's");
    let slowed = |vendor, is_recovered| All {
        slowed: vec![Slowed { vendor, at: at(100), is_recovered }],
        ..All::default()
    };
    assert!(!is_late(&slowed(Name::Postmark, true)), "it was too much for the vendor");
    assert!(is_late(&slowed(Name::Postmark, false)), "a live call was");
    assert!(is_late(&slowed(Name::BigCommerce, true)), "another vendor's");
    let pause = |vendor, wait| Pause { vendor, asked: at(60), wait: secs(wait) };
    let paused = |vendor, wait| All { pauses: vec![pause(vendor, wait)], ..All::default() };
    assert!(!is_late(&paused(Name::Postmark, 60)));
    assert!(is_late(&paused(Name::Postmark, 20)), "the pause was long over");
    assert!(is_late(&paused(Name::BigCommerce, 60)));
}

/// A send at these seconds from a host whose clock is `ahead`, of a record that was claimed so.
fn send(seconds: u64, ahead: u64, on_record: OnRecord) -> Send {
    Send {
        operation: Some(0),
        life: 0,
        vendor: Name::Keyed,
        host: 0,
        incarnation: 0,
        handed: at(seconds),
        left: at(seconds),
        arrived: Some(at(seconds)),
        effects: vec!["one".to_owned()],
        answered: None,
        page: None,
        version: None,
        wall: wall(seconds + ahead),
        on_record: Some(on_record),
        held: None,
    }
}

fn claimed(seconds: u64, ahead: u64) -> OnRecord {
    let claimed_at = wall(seconds + ahead);
    OnRecord { claimed_at, written: at(seconds), vendor_clock_ms: None, taken: (at(seconds), Duration::ZERO) }
}

#[test]
fn a_window_is_stretched_by_a_wrong_clock_alone() {
    let first = send(1, 20 * HOUR, claimed(0, 20 * HOUR));
    let is_allowed = |last: &Send| is_of_a_wrong_clock(&schedule(), &first, last);
    // Taken by a host with the right time, which reads of a first claim five hours ago.
    let taken = |on_record: OnRecord, age| OnRecord { taken: (at(25 * HOUR - 1), secs(age)), ..on_record };
    let last = |on_record| send(25 * HOUR, 0, on_record);
    assert!(is_allowed(&last(taken(claimed(0, 20 * HOUR), 5 * HOUR))));
    assert!(!is_allowed(&last(taken(claimed(0, 0), 25 * HOUR))), "what is on record says that it is over");
    assert!(!is_allowed(&last(taken(claimed(0, 26 * HOUR), 0))), "a first claim in the future is no time");
    assert!(
        !is_allowed(&last(taken(claimed(2, 20 * HOUR), 5 * HOUR))),
        "it was written after the first send"
    );
    assert!(!is_allowed(&last(taken(claimed(0, 20 * HOUR), 24 * HOUR))), "the host's own measure says so");
    let early = send(23 * HOUR, 0, taken(claimed(0, 20 * HOUR), 3 * HOUR));
    assert!(!is_allowed(&early), "the vendor's window was open");
    let bare = Send { vendor: Name::Bare, ..last(taken(claimed(0, 20 * HOUR), 5 * HOUR)) };
    assert!(!is_allowed(&bare), "this vendor has no window");
}

/// Call 0, which lasted from 10 s to 11 s and was told that nothing took effect.
fn told() -> Told {
    Told {
        operation: 0,
        call: 0,
        life: Some(0),
        incarnation: 0,
        began: at(10),
        at: at(11),
        deadline_zero: true,
        deadline: Some(Duration::ZERO),
        said: Said::Deadline,
        effect: Some(steadfast::Effect::None),
        attempts: 0,
        next: Some(Disposition::Continues { at: None }),
    }
}

fn life(began: u64) -> KeyLife {
    let scope = Scope::new("world", "keyed", "main", &http::Method::POST, "/v1/things");
    KeyLife {
        key: "k".to_owned(),
        began: at(began),
        takeovers: 0,
        redrives: 0,
        forced: 0,
        redriven_at: None,
        store_failed: false,
        due: None,
        id: OperationId::new(scope, Key::new("k").expect("a key")),
        evicted: None,
        forgotten: None,
        on_record: claimed(began, 0),
        stands: Vec::new(),
        holds: Vec::new(),
        skips: false,
    }
}

fn calls(others: &[(usize, u64, u64)]) -> All {
    let call = |operation, began, ended| CallMade {
        operation,
        does: Does::Send,
        began: at(began),
        ended: Some(at(ended)),
    };
    let others = others.iter().map(|(operation, began, ended)| call(*operation, *began, *ended));
    All { calls: [call(0, 10, 11)].into_iter().chain(others).collect(), ..All::default() }
}

#[test]
fn none_is_said_only_of_what_somebody_else_did_during_the_call() {
    let with = calls(&[(0, 9, 12)]);
    assert!(is_claimed_meanwhile(&with, &told(), &life(10), true));
    assert!(!is_claimed_meanwhile(&with, &told(), &life(9), true), "it was on record when the call began");
    assert!(!is_claimed_meanwhile(&calls(&[]), &told(), &life(10), true), "nobody else called");
    assert!(!is_claimed_meanwhile(&calls(&[(1, 9, 12)]), &told(), &life(10), true), "of another operation");
    assert!(!is_claimed_meanwhile(&with, &Told { attempts: 1, ..told() }, &life(10), true), "it sent itself");
    let late = Told { at: at(13), ..told() };
    assert!(!is_claimed_meanwhile(&with, &late, &life(10), true), "three seconds ago");
    assert!(is_claimed_meanwhile(&with, &late, &life(10), false), "its host stood still");

    let sent = |seconds| send(seconds, 0, claimed(0, 0));
    assert!(is_sent_meanwhile(&told(), true, &sent(10), true));
    assert!(!is_sent_meanwhile(&told(), true, &sent(9), true), "before the call began");
    assert!(
        !is_sent_meanwhile(&Told { next: Some(Disposition::Ended), ..told() }, true, &sent(10), true),
        "nothing was to go on"
    );
    let tried = Told { attempts: 1, ..told() };
    assert!(!is_sent_meanwhile(&tried, true, &sent(10), true), "it is its own");
    assert!(is_sent_meanwhile(&tried, false, &sent(10), true), "it may be another call's");
    assert!(!is_sent_meanwhile(&late, true, &sent(10), true), "three seconds ago");
}

#[test]
fn what_is_sent_after_somebody_was_told_no_was_called_again() {
    let is_again = |others: &[(usize, u64, u64)]| is_called_again(&calls(others), &told(), true);
    assert!(is_again(&[(0, 12, 13)]), "after it was told");
    assert!(is_again(&[(0, 9, 12)]), "beside it");
    assert!(is_again(&[(0, 9, 11)]), "it ended a moment ago");
    assert!(!is_again(&[(0, 9, 10)]), "it had ended when the call began");
    assert!(!is_again(&[(1, 9, 12)]), "another operation's");
    assert!(!is_again(&[]), "the call itself");
    let late = Told { at: at(14), ..told() };
    assert!(!is_called_again(&calls(&[(0, 9, 11)]), &late, true), "three seconds ago");
    assert!(is_called_again(&calls(&[(0, 9, 11)]), &late, false), "its host stood still");
    let mut waits = calls(&[(0, 12, 13)]);
    waits.calls[1].does = Does::Wait;
    assert!(!is_called_again(&waits, &told(), true), "who waits has nothing sent");
}

#[test]
fn a_life_was_begun_by_a_call_that_nobody_else_was_beside() {
    let accepted = Accepted {
        operation: 0,
        call: 0,
        life: Some(0),
        is_new: true,
        began: at(10),
        at: at(11),
        due: None,
        due_in_truth: at(10),
        is_time: false,
    };
    let has_begun = |began: u64, others: &[(usize, u64, u64)]| {
        let lives = [(0, vec![life(began)])].into();
        crate::world::promised::has_begun(&All { lives, ..calls(others) }, &accepted).is_some()
    };
    assert!(has_begun(10, &[]));
    assert!(!has_begun(9, &[]) && !has_begun(12, &[]), "it was there, or came after");
    assert!(!has_begun(10, &[(0, 9, 12)]), "it may have been the other one");
    assert!(has_begun(10, &[(0, 8, 9), (0, 12, 13), (1, 9, 12)]));
}

#[test]
fn a_rate_is_used_up_by_what_is_sent_or_is_about_to_be() {
    let refused = Told { said: Said::Refusing(Gate::Rate), ..told() };
    let is_used_up = |all: &All| is_rate_used_up(&schedule(), all, &refused, 2);
    assert!(is_used_up(&calls(&[(1, 9, 10), (1, 9, 12)])), "both were under way");
    assert!(!is_used_up(&calls(&[(1, 9, 12)])), "one place was free");
    assert!(!is_used_up(&calls(&[(1, 8, 9), (1, 9, 12)])), "one had ended before");
    assert!(!is_used_up(&calls(&[(1, 12, 13), (1, 9, 12)])), "one came after");
    assert!(!is_used_up(&calls(&[(2, 9, 12), (1, 9, 12)])), "an order is another vendor's");
    let renews = |incarnation, began, ended| Renewal { incarnation, operation: 1, began: at(began), ended };
    let with = |renewal| All { renewals: vec![renewal], ..calls(&[(1, 9, 12)]) };
    assert!(is_used_up(&with(renews(0, 3, None))), "a holder waits for its renewal");
    assert!(!is_used_up(&with(renews(0, 3, Some(at(9))))), "it does not wait any more");
    assert!(!is_used_up(&with(renews(1, 3, None))), "another process's");
    let sent = |seconds: &[u64]| {
        let attempts = seconds.iter().map(|seconds| (0, Name::Postmark, at(*seconds))).collect();
        All { attempts, ..calls(&[]) }
    };
    assert!(is_used_up(&sent(&[10, 10])));
    assert!(!is_used_up(&sent(&[9, 10])), "a second ago");
}

#[test]
fn a_longer_wait_than_a_process_holds_itself_back_for_is_on_record_or_nowhere() {
    let get = Operation { kind: Kind::Get, resends: false, line: None, callers: Vec::new() };
    let with_get = Schedule { operations: vec![get], ..schedule() };
    let asked = |seconds: u64| Wait {
        incarnation: 0,
        vendor: Name::Postmark,
        operation: 0,
        told: at(10),
        until: at(10 + seconds),
    };
    let sent = |seconds| Send { vendor: Name::Postmark, ..send(seconds, 0, claimed(0, 0)) };
    let let_go = All { let_go: vec![(0, at(11))], ..All::default() };
    let is_early = |all: &All, wait: u64, seconds: u64| {
        is_back_early(&schedule(), all, &asked(wait), &sent(seconds), Duration::ZERO)
    };
    assert!(is_early(&All::default(), 60, 69) && !is_early(&All::default(), 60, 70));
    assert!(!is_early(&let_go, 60, 10), "it was sent when the answer came");
    assert!(is_early(&let_go, 2 * HOUR, 2 * HOUR), "it is on record");
    assert!(!is_early(&let_go, 2 * HOUR, 2 * HOUR + 10));
    assert!(!is_early(&All::default(), 2 * HOUR, 2 * HOUR), "nobody could write it down");
    assert!(is_early(&All::default(), 2 * HOUR, HOUR), "the process itself knew");
    let taken = |seconds| Taken { operation: 0, at: at(seconds), due: None };
    let fenced_out = All { sends: vec![sent(5)], takes: vec![taken(6)], ..let_go.clone() };
    assert!(!is_early(&fenced_out, 2 * HOUR, 2 * HOUR), "another holder let go of it");
    let asked_by_taker = All { sends: vec![sent(6)], takes: vec![taken(5), taken(12)], ..let_go.clone() };
    assert!(is_early(&asked_by_taker, 2 * HOUR, 2 * HOUR), "it was taken before and after");
    let later = All { let_go: vec![(0, at(2 * HOUR))], ..All::default() };
    assert!(!is_early(&later, 2 * HOUR, HOUR + 10), "it was written down after that");
    assert!(!is_back_early(&with_get, &let_go, &asked(2 * HOUR), &sent(2 * HOUR), Duration::ZERO));
    let other = |send| is_back_early(&schedule(), &let_go, &asked(60), &send, Duration::ZERO);
    assert!(!other(Send { incarnation: 1, ..sent(20) }), "another process was not told");
    assert!(!other(Send { operation: Some(1), ..sent(20) }) && other(sent(20)));
    assert!(
        !is_back_early(&schedule(), &let_go, &asked(2 * HOUR), &sent(2 * HOUR), secs(20)),
        "clocks differ"
    );
    let apart = |by: u64, seconds: u64| {
        is_back_early(&schedule(), &let_go, &asked(2 * HOUR), &sent(seconds), secs(by))
    };
    assert!(apart(300, HOUR + 11), "it is on record");
    assert!(!apart(301, HOUR + 11), "a host that is far behind has no faith in what is on record");
    assert!(apart(301, HOUR), "the process itself knew");
}

#[test]
fn a_key_is_forgotten_by_a_server_that_is_days_ahead_for_longer_than_an_hour() {
    let ahead = |lasts: u64, days: i64| {
        let ahead = Some((secs(100), secs(100 + lasts), days * 24 * 3_600_000));
        let server = ServerPlan { clock: WallClock { off_ms: 0, drift_ppm: 0 }, step: None, ahead };
        Schedule { server: Some(server), ..schedule() }
    };
    let sent = |seconds| send(seconds, 0, claimed(0, 0));
    let is_of_it = |schedule: &Schedule, first, last| is_of_a_server_ahead(schedule, &sent(first), at(last));
    assert!(is_of_it(&ahead(2 * HOUR, 7), 10, 100 + HOUR));
    assert!(!is_of_it(&ahead(HOUR, 7), 10, 100 + HOUR), "it was doubted all the time");
    assert!(!is_of_it(&ahead(2 * HOUR, 7), 10, 99 + HOUR), "it was doubted then");
    assert!(!is_of_it(&ahead(2 * HOUR, 6), 10, 100 + HOUR), "it was not far enough ahead");
    assert!(!is_of_it(&ahead(2 * HOUR, 7), 100 + 2 * HOUR, 9 * HOUR), "it was right again before the first");
    assert!(!is_of_it(&Schedule { server: None, ..schedule() }, 10, 100 + HOUR));
}

//! What is allowed, by hand: each case beside the nearest one that is not.

use std::time::Duration;

use steadfast::clock::{Instant, Timestamp};

use crate::allowed::{is_of_a_wrong_clock, is_taken_late};
use crate::facts::{All, Failure, OnRecord, Pause, Send, Taken};
use crate::plan::{Operation, Schedule, secs};
use crate::vendors::{Kind, Name};

const HOUR: u64 = 3600;

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN.plus(secs(seconds))
}

fn wall(seconds: u64) -> Timestamp {
    Timestamp::from_millis((1_000_000 + seconds) * 1_000)
}

/// Two mails and an order.
fn schedule() -> Schedule {
    let operation = |kind| Operation { kind, resends: false, callers: Vec::new() };
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
        left: at(seconds),
        arrived: Some(at(seconds)),
        effects: vec!["one".to_owned()],
        answered: None,
        page: None,
        version: None,
        wall: wall(seconds + ahead),
        on_record: Some(on_record),
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

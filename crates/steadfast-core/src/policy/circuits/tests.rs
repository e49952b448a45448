use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::policy::BreakerState;
use crate::policy::gates::{Gates, Outcome};
use crate::policy::whole::Policy;
use crate::random::Random;
use crate::test_clock::TestClock;

#[derive(Debug)]
struct Half;

impl Random for Half {
    fn next_u64(&self) -> u64 {
        u64::MAX / 2
    }
}

fn gates() -> Gates {
    Gates::new(&Policy::background(), Arc::new(TestClock::new()), Arc::new(Half))
}

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN.plus(Duration::from_secs(100 + seconds))
}

/// Sends one attempt of a call of its own. Returns whether its end is evidence about the account; `None` if it was
/// refused.
fn call(gates: &Gates, route: &str, number: u64, outcome: Outcome, now: Instant) -> Option<bool> {
    let admission = gates.admit_to(Some(route), now).ok()?;
    Some(admission.settle_to(route, Some(number), outcome, now))
}

fn is_closed(gates: &Gates, now: Instant) -> bool {
    gates.breaker_state(now) == Some(BreakerState::Closed)
}

fn open_routes(gates: &Gates, now: Instant) -> usize {
    gates.circuits().map_or(0, |circuits| circuits.open(now).len())
}

const FAILING: [&str; 3] = ["POST /payouts", "POST /invoices", "POST /transfers"];

/// Fails on all three in turn, until each circuit is open.
fn three_open(gates: &Gates) {
    assert_eq!(call(gates, "GET /charges", 1, Outcome::Success, at(0)), Some(true));
    for number in 0..15 {
        let route = FAILING[number as usize % 3];
        assert_eq!(call(gates, route, number, Outcome::Failure, at(1)), Some(false), "{number}");
    }
}

#[test]
fn routes_that_never_worked_do_not_open_the_account_while_another_is_well() {
    let gates = gates();
    three_open(&gates);
    assert_eq!(open_routes(&gates, at(1)), 3);
    assert!(is_closed(&gates, at(1)));
    assert_eq!(call(&gates, "GET /charges", 1, Outcome::Success, at(1)), Some(true));
}

#[test]
fn routes_that_have_worked_open_the_accounts_together() {
    let gates = gates();
    for (nth, route) in FAILING.iter().enumerate() {
        assert_eq!(call(&gates, route, 1, Outcome::Success, at(2 * nth as u64)), Some(true));
    }
    for number in 0..5 {
        let route = FAILING[number as usize % 3];
        assert!(is_closed(&gates, at(9)), "{number}");
        assert_eq!(call(&gates, route, number, Outcome::Failure, at(9)), Some(true));
    }
    assert!(!is_closed(&gates, at(9)));
}

#[test]
fn open_routes_open_the_accounts_once_nothing_was_answered_for_a_minute() {
    let gates = gates();
    three_open(&gates);
    assert_eq!(call(&gates, FAILING[0], 20, Outcome::Failure, at(59)), Some(false), "a probe of its own");
    assert!(is_closed(&gates, at(59)));
    assert_eq!(call(&gates, FAILING[1], 21, Outcome::Failure, at(61)), Some(true));
    assert!(!is_closed(&gates, at(61)));
    assert_eq!(open_routes(&gates, at(61)), 0, "there is nothing to tell apart");
}

#[test]
fn a_route_that_has_not_failed_is_tried_at_once_and_once_while_the_accounts_is_open() {
    let gates = gates();
    for number in 0..5 {
        call(&gates, "POST /payouts", number, Outcome::Failure, at(0));
    }
    assert!(!is_closed(&gates, at(0)));
    assert_eq!(call(&gates, "POST /payouts", 6, Outcome::Failure, at(0)), None);
    let first = gates.admit_to(Some("POST /refunds"), at(0)).expect("it has not failed");
    let others = [(); 3].map(|()| gates.admit_to(Some("POST /refunds"), at(0)));
    assert_eq!(others.iter().filter(|other| other.is_ok()).count(), 3, "the round has its places");
    assert!(gates.admit_to(Some("POST /refunds"), at(0)).is_err());
    drop(others);
    first.settle_to("POST /refunds", Some(7), Outcome::Failure, at(0));
    assert_eq!(call(&gates, "POST /refunds", 8, Outcome::Success, at(0)), None, "it failed too");

    // What is well ends the wait, and what fails beside it has a circuit of its own.
    assert_eq!(call(&gates, "GET /charges", 9, Outcome::Success, at(0)), Some(true));
    assert_eq!(call(&gates, "POST /payouts", 10, Outcome::Failure, at(0)), Some(false));
    assert!(is_closed(&gates, at(0)));
    assert_eq!(open_routes(&gates, at(0)), 1);
    assert_eq!(call(&gates, "GET /charges", 11, Outcome::Success, at(0)), Some(true));
}

#[test]
fn a_repeated_failure_is_neutral_but_not_for_ever_without_an_answer() {
    let gates = gates();
    let (put, now) = ("PUT /orders/17", at(5));
    call(&gates, put, 1, Outcome::Failure, at(0));
    call(&gates, "PUT /orders/18", 2, Outcome::Success, at(1));
    for nth in 0..super::IN_A_ROW_MAX {
        assert_eq!(call(&gates, put, 1, Outcome::Failure, now), Some(false), "{nth}");
    }
    assert_eq!(call(&gates, put, 1, Outcome::Failure, now), Some(true));
    call(&gates, "PUT /orders/18", 2, Outcome::Success, at(6));
    assert_eq!(call(&gates, put, 1, Outcome::Failure, at(7)), Some(false));
    let well_until = 6 + super::WELL_FOR.as_secs();
    assert_eq!(call(&gates, put, 1, Outcome::Failure, at(well_until)), Some(true), "that is long ago");
}

/// Each fails once. Their names differ where no id is.
fn many_fail(gates: &Gates, now: Instant) {
    for nth in 0..super::ROUTES_MAX as u64 + 6 {
        let letter = |at: u64| char::from(b'a' + (at % 26) as u8);
        let route = format!("POST /{}{}", letter(nth / 26), letter(nth));
        call(gates, &route, 100 + nth, Outcome::Failure, now);
    }
}

#[test]
fn an_open_circuit_is_not_forgotten_for_routes_that_fail_once() {
    let gates = gates();
    three_open(&gates);
    many_fail(&gates, at(1));
    assert_eq!((open_routes(&gates, at(1)), is_closed(&gates, at(1))), (3, true));
    // Nor because others have been well for long.
    let later = at(1 + super::REMEMBERED.as_secs());
    call(&gates, "GET /charges", 1, Outcome::Success, later);
    assert_eq!(open_routes(&gates, later), 3);
}

#[test]
fn a_route_that_left_the_table_is_not_untried() {
    let gates = gates();
    let untried = |route: &str| gates.circuits().is_some_and(|circuits| circuits.is_untried(route));
    three_open(&gates);
    assert!(untried("POST /aa") && !untried(FAILING[0]));
    many_fail(&gates, at(1));
    assert!(!untried("POST /aa"), "it has failed");
}

#[test]
fn a_route_that_worked_long_ago_is_no_witness_against_the_account() {
    for (after, is_of_account) in [(10, true), (super::REMEMBERED.as_secs(), false)] {
        let gates = gates();
        call(&gates, "POST /payouts", 1, Outcome::Success, at(0));
        call(&gates, "GET /charges", 2, Outcome::Success, at(after));
        let is_evidence = call(&gates, "POST /payouts", 3, Outcome::Failure, at(after));
        assert_eq!(is_evidence, Some(is_of_account), "after {after} s");
    }
}

//! The policies: gates alone, without calls.

use std::sync::Arc;
use std::time::Duration;

use steadfast::Policy;
use steadfast::clock::Instant;
use steadfast::policy::{BreakerConfig, BreakerState, RateConfig};
use steadfast::testkit::{FixedRandom, TestClock};
use steadfast_core::internal::policy::{Gates, Outcome};

fn gates(policy: &Policy) -> Gates {
    Gates::new(policy, Arc::new(TestClock::new()), Arc::new(FixedRandom::at(0.5)))
}

/// Opens after so many failures in a row, for a second, and closes after one probe.
fn breaking(failures: u32) -> Gates {
    let second = Duration::from_secs(1);
    let config =
        BreakerConfig::default().consecutive_failures(failures).failure_rate(None).open(second, second);
    gates(&Policy::background().breaker(config.probes(1)))
}

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN.plus(Duration::from_secs(seconds))
}

fn is_closed(gates: &Gates, now: Instant) -> bool {
    gates.breaker_state(now).expect("a breaker") == BreakerState::Closed
}

pub fn a_failure_from_before_the_circuit_opened_does_not_open_it_again() -> bool {
    let gates = breaking(1);
    let old = gates.admit(at(0)).expect("closed");
    gates.admit(at(0)).expect("closed").settle(Outcome::Failure, at(0));
    gates.admit(at(2)).expect("a probe").settle(Outcome::Success, at(2));
    old.settle(Outcome::Failure, at(3));
    is_closed(&gates, at(3))
}

pub fn one_operation_alone_opens_no_circuit() -> bool {
    let gates = breaking(3);
    for second in 0..3 {
        let Ok(admission) = gates.admit(at(second)) else { return false };
        admission.settle_attempt_of(7, Outcome::Failure, at(second));
    }
    is_closed(&gates, at(3))
}

pub fn no_more_probes_go_out_than_configured() -> bool {
    let gates = breaking(1);
    gates.admit(at(0)).expect("closed").settle(Outcome::Failure, at(0));
    let _probe = gates.admit(at(2)).expect("a probe");
    gates.admit(at(2)).is_err()
}

pub fn probes_that_hang_are_no_more_than_a_round_has() -> bool {
    let config = BreakerConfig::default().consecutive_failures(1).failure_rate(None);
    let gates = gates(&Policy::background().breaker(config.probes(2)));
    gates.admit(at(0)).expect("closed").settle(Outcome::Failure, at(0));
    let _hangs = gates.admit(at(2)).expect("a probe");
    gates.admit(at(2)).expect("another").settle(Outcome::Failure, at(2));
    let _next = gates.admit(at(60)).expect("one of the next round");
    gates.admit(at(60)).is_err()
}

fn ends(gates: &Gates, route: &str, call: u64, outcome: Outcome, second: u64) -> bool {
    let Ok(admission) = gates.admit_to(Some(route), at(second)) else { return false };
    admission.settle_to(route, Some(call), outcome, at(second));
    true
}

pub fn what_one_route_fails_at_refuses_no_other() -> bool {
    let gates = breaking(3);
    ends(&gates, "GET /products/1", 0, Outcome::Success, 1);
    let failed = (1..=3).all(|call| ends(&gates, &format!("PUT /orders/{call}"), call, Outcome::Failure, 2));
    let other = gates.admit_to(Some("GET /products/2"), at(2)).is_ok();
    failed && other && gates.admit_to(Some("PUT /orders/17"), at(2)).is_err()
}

pub fn what_failed_before_opens_no_route_that_others_are_answered_on() -> bool {
    let gates = breaking(3);
    ends(&gates, "GET /products/1", 9, Outcome::Success, 1);
    for call in 1..=4 {
        ends(&gates, "PUT /orders/17", call, Outcome::Failure, call * 2);
        ends(&gates, "PUT /orders/18", 8, Outcome::Success, call * 2 + 1);
    }
    (1..=4).all(|call| ends(&gates, "PUT /orders/17", call, Outcome::Failure, 20))
}

pub fn a_cancelled_probe_does_not_wedge_the_circuit() -> bool {
    let gates = breaking(1);
    gates.admit(at(0)).expect("closed").settle(Outcome::Failure, at(0));
    drop(gates.admit(at(2)).expect("a probe"));
    gates.admit(at(2)).is_ok()
}

pub fn a_pause_holds_back_every_call() -> bool {
    let gates = gates(&Policy::background());
    gates.hold(at(0), Duration::from_secs(10));
    gates.admit(at(1)).is_err()
}

pub fn what_was_admitted_has_its_room_before_it_starts() -> bool {
    let gates = gates(&Policy::background().rate(RateConfig::new(1, Duration::from_secs(1))));
    let _waits_for_its_write = gates.admit(at(0)).expect("room");
    gates.admit(at(0)).is_err()
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::*;
use crate::BoxFuture;
use crate::clock::Timestamp;
use crate::policy::{BreakerConfig, BreakerState, RateConfig};

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Instant {
        NOW
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[derive(Debug)]
struct Zero;

impl Random for Zero {
    fn next_u64(&self) -> u64 {
        0
    }
}

const NOW: Instant = Instant::from_nanos(5_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

/// Two calls at once, `calls` a minute, a breaker that opens at the second failure with one probe.
fn gates(calls: u32) -> Gates {
    let policy = Policy::background()
        .breaker(BreakerConfig::default().consecutive_failures(2).probes(1))
        .concurrency(2)
        .rate(RateConfig::new(calls, SECOND * 60));
    policy.validate().unwrap();
    Gates::new(&policy, Arc::new(Still), Arc::new(Zero))
}

fn fail(gates: &Gates, now: Instant) {
    gates.admit(now).unwrap().settle(Outcome::Failure, now);
}

/// An attempt that has begun has used its room, also if it is cancelled.
fn start<const N: usize>(held: [Admission<'_>; N]) {
    held.into_iter().for_each(|mut admission| admission.begin(NOW));
}

fn refused(gates: &Gates, now: Instant) -> (Gate, Option<Instant>) {
    let refusal = gates.admit(now).unwrap_err();
    (refusal.gate, refusal.retry_at)
}

#[test]
fn the_order_is_kill_switch_pause_breaker_concurrency_rate() {
    let gates = gates(3);
    let breaker = gates.breaker().unwrap();
    fail(&gates, NOW);
    let held = [gates.admit(NOW).unwrap(), gates.admit(NOW).unwrap()];
    breaker.admit(NOW).unwrap().settle(Outcome::Failure, SECOND, NOW);
    gates.hold(NOW, SECOND * 9);
    gates.engage_kill_switch();
    // Now all five refuse; they are taken away one by one.
    assert_eq!(refused(&gates, NOW), (Gate::KillSwitch, None));
    gates.release_kill_switch();
    assert_eq!(refused(&gates, NOW), (Gate::Pause, Some(NOW.plus(SECOND * 9))));
    gates.clear_pause();
    assert_eq!(refused(&gates, NOW), (Gate::Breaker, Some(NOW.plus(SECOND * 4 / 5))));
    let later = NOW.plus(SECOND);
    breaker.admit(later).unwrap().settle(Outcome::Success, SECOND, later);
    assert_eq!(refused(&gates, later), (Gate::Concurrency, None));
    start(held);
    assert_eq!(refused(&gates, later), (Gate::Rate, Some(NOW.plus(SECOND * 60))));
}

#[test]
fn a_full_house_refuses_before_the_rate_is_charged() {
    let gates = gates(3);
    let held = [gates.admit(NOW).unwrap(), gates.admit(NOW).unwrap()];
    for _ in 0..10 {
        assert_eq!(refused(&gates, NOW), (Gate::Concurrency, None));
    }
    start(held);
    // Had the refusals been charged, the third would find no room.
    start([gates.admit(NOW).unwrap()]);
    assert_eq!(refused(&gates, NOW).0, Gate::Rate);
}

#[test]
fn a_refusal_gives_back_what_earlier_gates_gave() {
    let gates = gates(2);
    fail(&gates, NOW);
    fail(&gates, NOW);
    let later = NOW.plus(SECOND);
    for _ in 0..10 {
        // Each takes the only probe and a place, and is then refused by the rate.
        assert_eq!(refused(&gates, later).0, Gate::Rate);
        assert_eq!(gates.under_way(), Some(0));
    }
    let probe = gates.breaker().unwrap().admit(later);
    assert!(probe.is_ok());
}

#[test]
fn a_dropped_admission_gives_everything_back_and_counts_nothing() {
    let gates = gates(100);
    for _ in 0..10 {
        drop([gates.admit(NOW).unwrap(), gates.admit(NOW).unwrap()]);
    }
    assert_eq!(gates.under_way(), Some(0));
    fail(&gates, NOW);
    drop(gates.admit(NOW).unwrap());
    fail(&gates, NOW);
    assert!(matches!(gates.breaker().unwrap().state(NOW), BreakerState::Open { .. }));
    let later = NOW.plus(SECOND);
    for _ in 0..10 {
        let probe = gates.admit(later).unwrap();
        assert_eq!(refused(&gates, later).0, Gate::Breaker);
        drop(probe);
    }
    gates.admit(later).unwrap().settle(Outcome::Success, later);
    assert_eq!(gates.breaker().unwrap().state(later), BreakerState::Closed);
}

#[test]
fn a_panic_while_holding_an_admission_releases_everything() {
    let gates = gates(100);
    fail(&gates, NOW);
    fail(&gates, NOW);
    let later = NOW.plus(SECOND);
    let panics = AssertUnwindSafe(|| {
        let _probe = gates.admit(later).unwrap();
        panic!("a user's callback");
    });
    assert!(catch_unwind(panics).is_err());
    assert_eq!(gates.under_way(), Some(0));
    gates.admit(later).unwrap().settle(Outcome::Success, later);
    assert_eq!(gates.breaker().unwrap().state(later), BreakerState::Closed);
}

#[test]
fn latency_is_the_time_since_admission() {
    let breaker = BreakerConfig::default().slow_call(SECOND, 0.5).minimum_calls(1);
    let gates = Gates::new(&Policy::background().breaker(breaker), Arc::new(Still), Arc::new(Zero));
    gates.admit(NOW).unwrap().settle(Outcome::Success, NOW.plus(SECOND));
    assert_eq!(gates.breaker().unwrap().state(NOW), BreakerState::Closed);
    // A reading of the clock from before the admission is no time, not a panic.
    gates.admit(NOW).unwrap().settle(Outcome::Success, Instant::ORIGIN);
    assert_eq!(gates.breaker().unwrap().state(NOW), BreakerState::Closed);
    // One slow call in three is not half of them, two in four are.
    let slow = NOW.plus(SECOND + Duration::from_nanos(1));
    gates.admit(NOW).unwrap().settle(Outcome::Success, slow);
    assert_eq!(gates.breaker().unwrap().state(NOW), BreakerState::Closed);
    gates.admit(NOW).unwrap().settle(Outcome::Success, slow);
    assert_ne!(gates.breaker().unwrap().state(NOW), BreakerState::Closed);
}

#[test]
fn a_policy_without_gates_admits_all() {
    let gates =
        Gates::new(&Policy::background().without_breaker().without_budget(), Arc::new(Still), Arc::new(Zero));
    assert!(gates.breaker().is_none() && gates.budget().is_none() && gates.under_way().is_none());
    for _ in 0..1_000 {
        gates.admit(NOW).unwrap().settle(Outcome::Failure, NOW);
    }
}

#[test]
fn the_run_time_state_is_under_16_kib_whatever_the_number_of_calls() {
    // Windows, counters and limiter are inline; on the heap are only the shared clock and generator.
    assert!(size_of::<Gates>() < 4 * 1024, "{}", size_of::<Gates>());
}

/// A vendor that cuts each stream is down as one that answers none.
#[test]
fn a_streamed_reply_that_breaks_off_is_a_failure_of_its_circuit() {
    let gates = gates(60);
    for nth in 0..2 {
        assert_eq!(gates.breaker_state(NOW), Some(BreakerState::Closed), "{nth}");
        let lent = gates.admit(NOW).expect("closed").lend(NOW, SECOND);
        gates.take_back(lent, Outcome::Failure, None, NOW);
    }
    assert!(matches!(gates.breaker_state(NOW), Some(BreakerState::Open { .. })));
}

use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::*;

/// A draw that a test decides.
#[derive(Debug)]
struct Fixed(u64);

impl Random for Fixed {
    fn next_u64(&self) -> u64 {
        self.0
    }
}

const MIDDLE: u64 = 1 << 63;

fn breaker(config: BreakerConfig) -> Breaker {
    Breaker::new(config, Arc::new(Fixed(MIDDLE)))
}

/// Makes a breaker that only the failure rate and the slow calls can open.
fn rate_only() -> BreakerConfig {
    BreakerConfig::default().consecutive_failures(None)
}

fn at_ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn open_for_ms(millis: u64) -> BreakerState {
    BreakerState::Open { left: Duration::from_millis(millis) }
}

const QUICK: Duration = Duration::from_millis(10);

fn call(breaker: &Breaker, outcome: Outcome, now: Instant) {
    breaker.admit(now).unwrap().settle(outcome, QUICK, now);
}

fn calls(breaker: &Breaker, outcome: Outcome, count: u32, now: Instant) {
    (0..count).for_each(|_| call(breaker, outcome, now));
}

/// Returns the number of failures in a row, one a millisecond, that open it.
fn failures_to_open(breaker: &Breaker, from_ms: u64) -> u64 {
    (1..10_000)
        .find(|n| {
            call(breaker, Outcome::Failure, at_ms(from_ms + n));
            breaker.state(at_ms(from_ms + n)) != BreakerState::Closed
        })
        .unwrap()
}

/// Open since 0 ms, by five failures; with the middle draw, until 900 ms.
fn opened(config: BreakerConfig) -> Breaker {
    let breaker = breaker(config);
    calls(&breaker, Outcome::Failure, 5, at_ms(0));
    assert_eq!(breaker.state(at_ms(0)), open_for_ms(900));
    breaker
}

#[test]
fn five_failures_in_a_row_open_it_and_a_success_between_starts_again() {
    let breaker = breaker(BreakerConfig::default());
    calls(&breaker, Outcome::Failure, 4, at_ms(0));
    call(&breaker, Outcome::Success, at_ms(0));
    calls(&breaker, Outcome::Failure, 4, at_ms(0));
    assert_eq!(breaker.state(at_ms(0)), BreakerState::Closed);
    call(&breaker, Outcome::Failure, at_ms(0));
    assert_eq!(breaker.state(at_ms(0)), open_for_ms(900));
    assert_eq!(breaker.admit(at_ms(899)).unwrap_err(), Refusal::new(Gate::Breaker, Some(at_ms(900))));
}

/// Attempts of one call, each in its turn.
fn attempts_of(breaker: &Breaker, number: u64, outcome: Outcome, count: u32, now: Instant) {
    for _ in 0..count {
        breaker.admit(now).unwrap().settle_attempt_of(number, outcome, QUICK, now);
    }
}

#[test]
fn one_calls_attempts_count_once_until_the_vendor_succeeds() {
    let breaker = breaker(BreakerConfig::default());
    attempts_of(&breaker, 7, Outcome::Failure, 1_000, at_ms(0));
    assert_eq!(breaker.state(at_ms(0)), BreakerState::Closed, "neither the row nor the rate");
    (1..=3).for_each(|number| attempts_of(&breaker, number, Outcome::Failure, 2, at_ms(0)));
    assert_eq!(breaker.state(at_ms(0)), BreakerState::Closed);
    attempts_of(&breaker, 7, Outcome::Success, 1, at_ms(0));
    (4..=7).for_each(|number| attempts_of(&breaker, number, Outcome::Failure, 2, at_ms(0)));
    assert_eq!(breaker.state(at_ms(0)), BreakerState::Closed, "four different ones since the success");
    attempts_of(&breaker, 8, Outcome::Failure, 1, at_ms(0));
    assert_ne!(breaker.state(at_ms(0)), BreakerState::Closed);
}

#[test]
fn the_failures_that_closed_a_round_are_forgotten_with_it() {
    let breaker = breaker(BreakerConfig::default());
    (1..=5).for_each(|number| attempts_of(&breaker, number, Outcome::Failure, 1, at_ms(0)));
    calls(&breaker, Outcome::Success, 3, at_ms(900));
    (1..=4).for_each(|number| attempts_of(&breaker, number, Outcome::Failure, 1, at_ms(900)));
    assert_eq!(breaker.state(at_ms(900)), BreakerState::Closed);
    attempts_of(&breaker, 5, Outcome::Failure, 1, at_ms(900));
    assert_ne!(breaker.state(at_ms(900)), BreakerState::Closed);
}

#[test]
fn a_call_that_fails_again_as_a_probe_opens_the_circuit_again() {
    let breaker = opened(BreakerConfig::default());
    attempts_of(&breaker, 7, Outcome::Failure, 1, at_ms(900));
    assert_eq!(breaker.state(at_ms(900)), open_for_ms(1_800));
}

#[test]
fn a_429_neither_counts_as_failure_nor_as_life() {
    let breaker = breaker(BreakerConfig::default());
    calls(&breaker, Outcome::Neutral, 1_000, at_ms(0));
    assert_eq!(breaker.state(at_ms(0)), BreakerState::Closed);
    calls(&breaker, Outcome::Failure, 4, at_ms(0));
    call(&breaker, Outcome::Neutral, at_ms(0));
    call(&breaker, Outcome::Failure, at_ms(0));
    assert_ne!(breaker.state(at_ms(0)), BreakerState::Closed);
}

#[test]
fn the_failure_rate_needs_its_minimum_of_calls_and_is_exact() {
    let breaker = breaker(rate_only());
    calls(&breaker, Outcome::Failure, 9, at_ms(0));
    calls(&breaker, Outcome::Success, 10, at_ms(0));
    assert_eq!(breaker.state(at_ms(0)), BreakerState::Closed);
    // The 20th call makes 10 of 20.
    call(&breaker, Outcome::Failure, at_ms(0));
    assert_ne!(breaker.state(at_ms(0)), BreakerState::Closed);

    let below = Breaker::new(rate_only(), Arc::new(Fixed(MIDDLE)));
    calls(&below, Outcome::Success, 11, at_ms(0));
    calls(&below, Outcome::Failure, 10, at_ms(0));
    assert_eq!(below.state(at_ms(0)), BreakerState::Closed);
}

#[test]
fn long_health_then_a_burst_trips_as_fast_as_a_cold_start() {
    let cold = failures_to_open(&breaker(rate_only()), 0);
    assert_eq!(cold, 20);
    let healthy_for = |seconds: u64| {
        let breaker = breaker(rate_only());
        (0..seconds * 10).for_each(|tenth| call(&breaker, Outcome::Success, at_ms(tenth * 100)));
        breaker
    };
    // A day of health leaves behind no more than its last window: the figure stops growing after 60 s.
    let one_window = failures_to_open(&healthy_for(60), 60_000);
    assert_eq!(failures_to_open(&healthy_for(24 * 3_600), 24 * 3_600_000), one_window);
    // And once the window has passed, nothing.
    assert_eq!(failures_to_open(&healthy_for(24 * 3_600), 24 * 3_600_000 + 60_000), cold);
    // Failures in a row do not ask about health at all.
    let by_default = breaker(BreakerConfig::default());
    calls(&by_default, Outcome::Success, 100_000, at_ms(0));
    assert_eq!(failures_to_open(&by_default, 0), 5);
}

#[test]
fn slow_calls_open_it_whatever_their_outcome() {
    let slow = rate_only().failure_rate(None).slow_call(Duration::from_secs(1), 0.5);
    let breaker = breaker(slow.minimum_calls(4));
    for latency in [1_000, 1_000, 1_001] {
        breaker.admit(at_ms(0)).unwrap().settle(Outcome::Success, Duration::from_millis(latency), at_ms(0));
    }
    assert_eq!(breaker.state(at_ms(0)), BreakerState::Closed);
    breaker.admit(at_ms(0)).unwrap().settle(Outcome::Failure, Duration::from_millis(1_001), at_ms(0));
    assert_ne!(breaker.state(at_ms(0)), BreakerState::Closed);
}

#[test]
fn a_slow_probe_opens_it_again() {
    let breaker = opened(BreakerConfig::default().slow_call(Duration::from_secs(1), 0.5));
    breaker.admit(at_ms(900)).unwrap().settle(Outcome::Success, Duration::from_secs(2), at_ms(900));
    assert_eq!(breaker.state(at_ms(900)), open_for_ms(1_800));
}

#[test]
fn the_open_time_is_drawn_inside_its_step_and_never_beyond() {
    for (draw, expected) in [(0, 800_000_000), (MIDDLE, 900_000_000), (u64::MAX, 999_999_999)] {
        let breaker = Breaker::new(BreakerConfig::default(), Arc::new(Fixed(draw)));
        calls(&breaker, Outcome::Failure, 5, at_ms(0));
        assert_eq!(breaker.state(at_ms(0)), BreakerState::Open { left: Duration::from_nanos(expected) });
    }
}

#[test]
fn the_open_time_doubles_with_each_failed_round_to_the_cap_and_starts_again_after_closing() {
    let breaker = breaker(BreakerConfig::default());
    calls(&breaker, Outcome::Failure, 5, at_ms(0));
    let mut now = at_ms(0);
    for step_ms in [1_000u64, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
        let BreakerState::Open { left } = breaker.state(now) else { panic!("not open") };
        assert_eq!(left, Duration::from_millis(step_ms / 10 * 9));
        now = now.plus(left);
        call(&breaker, Outcome::Failure, now);
    }
    now = at_ms(1_000_000);
    calls(&breaker, Outcome::Success, 3, now);
    assert_eq!(breaker.state(now), BreakerState::Closed);
    calls(&breaker, Outcome::Failure, 5, now);
    assert_eq!(breaker.state(now), open_for_ms(900));
}

#[test]
fn all_probes_must_succeed_and_then_the_past_is_forgotten() {
    let breaker = opened(BreakerConfig::default());
    assert_eq!(breaker.state(at_ms(900)), BreakerState::HalfOpen);
    calls(&breaker, Outcome::Success, 2, at_ms(900));
    assert_eq!(breaker.state(at_ms(900)), BreakerState::HalfOpen);
    call(&breaker, Outcome::Success, at_ms(900));
    assert_eq!(breaker.state(at_ms(900)), BreakerState::Closed);
    calls(&breaker, Outcome::Failure, 4, at_ms(900));
    assert_eq!(breaker.state(at_ms(900)), BreakerState::Closed);
}

#[test]
fn half_open_admits_its_probes_in_total_until_they_are_judged() {
    let breaker = opened(BreakerConfig::default());
    let now = at_ms(900);
    let first = breaker.admit(now).unwrap();
    let _second = breaker.admit(now).unwrap();
    let _third = breaker.admit(now).unwrap();
    assert_eq!(breaker.admit(now).unwrap_err(), Refusal::new(Gate::Breaker, Some(at_ms(1_900))));
    // A success is judged, but its place is used up.
    first.settle(Outcome::Success, QUICK, now);
    assert!(breaker.admit(now).is_err());
}

#[test]
fn half_open_permits_released_on_drop_never_wedge_it() {
    let breaker = opened(BreakerConfig::default());
    let now = at_ms(900);
    for _ in 0..1_000 {
        drop([breaker.admit(now).unwrap(), breaker.admit(now).unwrap(), breaker.admit(now).unwrap()]);
        call(&breaker, Outcome::Neutral, now);
    }
    assert_eq!(breaker.state(now), BreakerState::HalfOpen);
    calls(&breaker, Outcome::Success, 3, now);
    assert_eq!(breaker.state(now), BreakerState::Closed);
}

#[test]
fn half_open_never_over_admits_under_concurrency() {
    for _ in 0..50 {
        let breaker = opened(BreakerConfig::default());
        let inside = AtomicUsize::new(0);
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..50 {
                        if let Ok(permit) = breaker.admit(at_ms(900)) {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(permit);
                        }
                    }
                });
            }
        });
        let held: Vec<_> = std::iter::from_fn(|| breaker.admit(at_ms(900)).ok()).take(10).collect();
        assert_eq!(held.len(), 3);
    }
}

#[test]
fn a_late_result_of_an_older_generation_is_ignored() {
    let breaker = breaker(BreakerConfig::default());
    let late: Vec<_> = (0..20).map(|_| breaker.admit(at_ms(0)).unwrap()).collect();
    calls(&breaker, Outcome::Failure, 5, at_ms(0));
    let (while_open, after): (Vec<_>, Vec<_>) = late.into_iter().enumerate().partition(|(n, _)| *n < 10);
    for (_, permit) in while_open {
        permit.settle(Outcome::Success, QUICK, at_ms(1));
    }
    assert_eq!(breaker.state(at_ms(1)), open_for_ms(899));
    calls(&breaker, Outcome::Success, 3, at_ms(900));
    for (_, permit) in after {
        permit.settle(Outcome::Failure, QUICK, at_ms(901));
    }
    assert_eq!(breaker.state(at_ms(901)), BreakerState::Closed);
    // Not even towards the row of failures.
    calls(&breaker, Outcome::Failure, 4, at_ms(901));
    assert_eq!(breaker.state(at_ms(901)), BreakerState::Closed);
}

#[test]
fn a_late_probe_of_an_older_round_judges_nothing_and_keeps_its_place() {
    let breaker = opened(BreakerConfig::default());
    let settled_late = breaker.admit(at_ms(900)).unwrap();
    let dropped_late = breaker.admit(at_ms(900)).unwrap();
    call(&breaker, Outcome::Failure, at_ms(900));
    let next = at_ms(900 + 1_800);
    let _held = breaker.admit(next).unwrap();
    assert!(breaker.admit(next).is_err(), "two of the round before are at the vendor");
    settled_late.settle(Outcome::Failure, QUICK, next);
    drop(dropped_late);
    assert_eq!(breaker.state(next), BreakerState::HalfOpen);
    let _others = [breaker.admit(next).unwrap(), breaker.admit(next).unwrap()];
    assert!(breaker.admit(next).is_err());
}

#[test]
fn probes_that_hang_are_never_more_than_a_round_has() {
    let breaker = opened(BreakerConfig::default());
    let (mut hanging, mut now) = (Vec::new(), at_ms(900));
    for _ in 0..4 {
        hanging.extend(std::iter::from_fn(|| breaker.admit(now).ok()).take(10));
        assert_eq!(hanging.len(), 3, "at the vendor");
        hanging.pop().unwrap().settle(Outcome::Failure, QUICK, now);
        now = now.plus(Duration::from_secs(60));
    }
}

fn of_route() -> Breaker {
    let random = Arc::new(Fixed(MIDDLE));
    let breaker = Breaker::of_route(BreakerConfig::default(), random, (&Arc::from("acme"), "PUT /orders/{}"));
    calls(&breaker, Outcome::Failure, 5, at_ms(0));
    breaker
}

#[test]
fn a_round_with_both_ends_opens_a_routes_circuit_for_its_first_time_and_the_next_is_larger() {
    let breaker = of_route();
    assert_eq!(breaker.places(at_ms(899)), 0);
    let mut now = at_ms(900);
    call(&breaker, Outcome::Failure, now);
    now = at_ms(900 + 1_800);
    for most in [3, 6, 12, 24, 24] {
        assert_eq!(breaker.places(now), most);
        call(&breaker, Outcome::Success, now);
        call(&breaker, Outcome::Failure, now);
        assert_eq!(breaker.state(now), open_for_ms(900));
        now = now.plus(Duration::from_millis(900));
    }
    calls(&breaker, Outcome::Success, 23, now);
    assert_eq!(breaker.state(now), BreakerState::HalfOpen);
    call(&breaker, Outcome::Success, now);
    assert_eq!(breaker.state(now), BreakerState::Closed);
}

#[test]
fn an_answer_that_comes_after_the_round_has_failed_ends_a_routes_long_wait() {
    let breaker = of_route();
    let mut now = at_ms(900);
    for step_ms in [1_800, 3_600, 7_200] {
        call(&breaker, Outcome::Failure, now);
        now = now.plus(Duration::from_millis(step_ms));
    }
    let late = breaker.admit(now).unwrap();
    call(&breaker, Outcome::Failure, now);
    assert_eq!(breaker.state(now), open_for_ms(14_400));
    late.settle(Outcome::Success, QUICK, now);
    assert_eq!(breaker.state(now), open_for_ms(1_000));
}

#[test]
fn forced_open_refuses_and_forced_closed_admits_without_counting() {
    let breaker = breaker(BreakerConfig::default());
    breaker.set_mode(Mode::ForcedOpen);
    assert_eq!(breaker.admit(at_ms(0)).unwrap_err(), Refusal::new(Gate::Breaker, None));
    breaker.set_mode(Mode::ForcedClosed);
    calls(&breaker, Outcome::Failure, 100, at_ms(0));
    assert_eq!((breaker.mode(), breaker.state(at_ms(0))), (Mode::ForcedClosed, BreakerState::Closed));
    breaker.set_mode(Mode::Normal);
    calls(&breaker, Outcome::Failure, 5, at_ms(0));
    assert!(breaker.admit(at_ms(0)).is_err());
    breaker.set_mode(Mode::ForcedClosed);
    call(&breaker, Outcome::Success, at_ms(0));
    breaker.set_mode(Mode::Normal);
    assert!(breaker.admit(at_ms(0)).is_err());
}

#[test]
fn observe_only_admits_everything_keeps_the_state_and_counts_what_it_would_refuse() {
    let breaker = breaker(BreakerConfig::default());
    breaker.set_mode(Mode::ObserveOnly);
    calls(&breaker, Outcome::Failure, 5, at_ms(0));
    assert_eq!(breaker.state(at_ms(0)), open_for_ms(900));
    calls(&breaker, Outcome::Failure, 7, at_ms(1));
    assert_eq!(breaker.would_be_refusals(), 7);
    assert_eq!(breaker.state(at_ms(1)), open_for_ms(899));
    // The probes among the calls are judged as ever, and the call beyond them is not.
    let held: Vec<_> = (0..4).map(|_| breaker.admit(at_ms(900)).unwrap()).collect();
    assert_eq!(breaker.would_be_refusals(), 8);
    held.into_iter().for_each(|permit| permit.settle(Outcome::Success, QUICK, at_ms(900)));
    assert_eq!(breaker.state(at_ms(900)), BreakerState::Closed);
}

#[test]
fn a_panic_in_the_jitter_neither_wedges_nor_poisons_it() {
    #[derive(Debug)]
    struct Panics;
    impl Random for Panics {
        fn next_u64(&self) -> u64 {
            panic!("a user's generator")
        }
    }
    let breaker = Breaker::new(BreakerConfig::default(), Arc::new(Panics));
    let tripping = std::panic::AssertUnwindSafe(|| calls(&breaker, Outcome::Failure, 5, at_ms(0)));
    assert!(std::panic::catch_unwind(tripping).is_err());
    call(&breaker, Outcome::Success, at_ms(0));
    assert_eq!(breaker.state(at_ms(0)), BreakerState::Closed);
}

#[test]
fn no_time_and_no_figure_panics() {
    for nanos in [0, 1, u64::MAX / 2, u64::MAX] {
        let now = Instant::from_nanos(nanos);
        let config = BreakerConfig {
            consecutive_failures: Some(0),
            failure_rate: Some(f64::NAN),
            minimum_calls: 0,
            window: Duration::ZERO,
            open_base: Duration::MAX,
            open_cap: Duration::MAX,
            probes: 0,
            ..BreakerConfig::default().slow_call(Duration::ZERO, -1.0)
        };
        let breaker = breaker(config);
        for later in [now, Instant::ORIGIN, Instant::from_nanos(u64::MAX)] {
            if let Ok(permit) = breaker.admit(later) {
                permit.settle(Outcome::Failure, Duration::MAX, later);
            }
            let _ = breaker.state(later);
        }
    }
}

/// Step of a random life.
#[derive(Clone, Debug)]
enum Step {
    Admit,
    Settle(usize, Outcome),
    Drop(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome =
        prop::sample::select(vec![Outcome::Success, Outcome::Failure, Outcome::Failure, Outcome::Neutral]);
    prop_oneof![
        4 => Just(Step::Admit),
        3 => (any::<usize>(), outcome).prop_map(|(which, outcome)| Step::Settle(which, outcome)),
        1 => any::<usize>().prop_map(Step::Drop),
        1 => (0u64..3_000).prop_map(Step::Pass),
    ]
}

proptest! {
    /// Properties after any sequence of events: an open circuit refuses, probes are never more than three, and it can
    /// always recover.
    #[test]
    fn no_life_over_admits_or_wedges(steps in prop::collection::vec(step(), 0..200)) {
        let breaker = breaker(BreakerConfig::default());
        let mut now_ms = 0;
        let mut held: Vec<Permit<'_>> = Vec::new();
        for step in steps {
            let now = at_ms(now_ms);
            match step {
                Step::Admit => {
                    let before = breaker.state(now);
                    let admitted = breaker.admit(now);
                    match before {
                        BreakerState::Closed => prop_assert!(admitted.is_ok()),
                        BreakerState::Open { left } => {
                            prop_assert_eq!(admitted.as_ref().unwrap_err().retry_at, Some(now.plus(left)));
                        }
                        BreakerState::HalfOpen => {}
                    }
                    held.extend(admitted);
                    let word = breaker.word.load(Ordering::Relaxed);
                    let probes = held.iter().filter(|permit| permit.is_probe_of(word)).count();
                    prop_assert!(probes <= 3);
                }
                Step::Settle(which, outcome) if !held.is_empty() => {
                    let permit = held.swap_remove(which % held.len());
                    permit.settle(outcome, QUICK, now);
                }
                Step::Drop(which) if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                Step::Pass(millis) => now_ms += millis,
                Step::Settle(..) | Step::Drop(_) => {}
            }
        }
        held.clear();
        let now = at_ms(now_ms + 30_000);
        while breaker.state(now) != BreakerState::Closed {
            call(&breaker, Outcome::Success, now);
        }
    }
}

/// A slow count of the breaker's: the distinct calls that failed since the last success, and every counted end of a
/// call.
#[derive(Default)]
struct Counted {
    row: Vec<u64>,
    calls: u32,
    failures: u32,
}

impl Counted {
    /// Whether the circuit is open after this.
    fn after(&mut self, call: u64, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Neutral => {}
            Outcome::Success => {
                self.row.clear();
                self.calls += 1;
            }
            Outcome::Failure if self.row.contains(&call) => return false,
            Outcome::Failure => {
                self.row.push(call);
                self.calls += 1;
                self.failures += 1;
            }
        }
        outcome == Outcome::Failure
            && (self.row.len() >= 5 || (self.calls >= 20 && self.failures * 2 >= self.calls))
    }
}

proptest! {
    /// The breaker opens exactly where the slow count says so, at one point in time, for any failures of any calls.
    #[test]
    fn it_opens_exactly_at_the_fifth_different_call_in_a_row_or_at_the_rate(
        ends in prop::collection::vec(
            (0u64..8, prop::sample::select(vec![Outcome::Success, Outcome::Failure, Outcome::Failure, Outcome::Neutral])),
            0..200,
        ),
    ) {
        let breaker = breaker(BreakerConfig::default());
        let mut counted = Counted::default();
        for (call, outcome) in ends {
            attempts_of(&breaker, call, outcome, 1, at_ms(0));
            let open = counted.after(call, outcome);
            prop_assert_eq!(breaker.state(at_ms(0)) != BreakerState::Closed, open);
            if open {
                return Ok(());
            }
        }
    }
}

#[test]
fn it_is_open_since_it_opened_first_however_many_probes_fail() {
    let breaker = breaker(BreakerConfig::default());
    calls(&breaker, Outcome::Failure, 5, at_ms(100));
    for probed in [2_000, 6_000, 20_000] {
        call(&breaker, Outcome::Failure, at_ms(probed));
        assert_eq!(breaker.since(), Some(at_ms(100)), "{probed}");
    }
    calls(&breaker, Outcome::Success, 3, at_ms(80_000));
    assert_eq!((breaker.state(at_ms(80_000)), breaker.since()), (BreakerState::Closed, None));
}

use proptest::prelude::*;

use super::*;

const JUST_UNDER_1: f64 = 1.0 - f64::EPSILON / 2.0;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn waits(jitter: Jitter, unit: f64) -> Vec<Duration> {
    let backoff = Backoff::background().jitter(jitter);
    let mut previous = Duration::ZERO;
    let mut waits = Vec::new();
    while let Some(wait) = backoff.wait(u32::try_from(waits.len()).unwrap(), previous, unit) {
        waits.push(wait);
        previous = wait;
    }
    waits
}

fn just_under(millis: u64) -> Duration {
    ms(millis) - Duration::from_nanos(1)
}

#[test]
fn the_default_ladder_is_half_a_second_two_five_and_thirty() {
    assert_eq!(Backoff::default(), Backoff::ladder([ms(500), ms(2_000), ms(5_000), ms(30_000)]));
    assert_eq!(waits(Jitter::None, 0.5), [ms(500), ms(2_000), ms(5_000), ms(30_000)]);
}

#[test]
fn full_jitter_at_zero_half_and_just_under_one() {
    assert_eq!(waits(Jitter::Full, 0.0), [Duration::ZERO; 4]);
    assert_eq!(waits(Jitter::Full, 0.5), [ms(250), ms(1_000), ms(2_500), ms(15_000)]);
    assert_eq!(waits(Jitter::Full, JUST_UNDER_1), [500, 2_000, 5_000, 30_000].map(just_under));
}

#[test]
fn equal_jitter_at_zero_half_and_just_under_one() {
    assert_eq!(waits(Jitter::Equal, 0.0), [ms(250), ms(1_000), ms(2_500), ms(15_000)]);
    assert_eq!(waits(Jitter::Equal, 0.5), [ms(375), ms(1_500), ms(3_750), ms(22_500)]);
    assert_eq!(waits(Jitter::Equal, JUST_UNDER_1), [500, 2_000, 5_000, 30_000].map(just_under));
}

#[test]
fn decorrelated_jitter_at_zero_half_and_just_under_one() {
    // The range grows from the previous wait: [500 ms, 3 × previous), and the first previous is the first step.
    assert_eq!(waits(Jitter::Decorrelated, 0.0), [ms(500); 4]);
    assert_eq!(
        waits(Jitter::Decorrelated, 0.5),
        [ms(1_000), ms(1_750), ms(2_875), Duration::from_micros(4_562_500)]
    );
    let top = waits(Jitter::Decorrelated, JUST_UNDER_1);
    assert_eq!(top[0], just_under(1_500));
    assert!(top[3] < ms(30_000) && top[3] > ms(29_999), "{top:?}");
}

#[test]
fn jitter_is_inside_the_cap_and_never_lost_at_it() {
    for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        let backoff = Backoff::exponential(ms(100), ms(2_000), 10).jitter(jitter);
        let low = backoff.wait(9, ms(2_000), 0.0).unwrap();
        let middle = backoff.wait(9, ms(2_000), 0.5).unwrap();
        let high = backoff.wait(9, ms(2_000), JUST_UNDER_1).unwrap();
        assert!(low < middle && middle < high && high < ms(2_000), "{jitter:?}: {low:?} {middle:?} {high:?}");
    }
}

#[test]
fn decorrelated_jitter_is_left_even_where_the_cap_is_the_first_step() {
    let backoff = Backoff::ladder([ms(100), ms(100)]).jitter(Jitter::Decorrelated);
    assert_eq!(backoff.wait(1, ms(100), 0.0), Some(ms(50)));
    assert_eq!(backoff.wait(1, ms(100), 0.5), Some(ms(75)));
}

#[test]
fn the_ladder_ends() {
    assert_eq!(Backoff::none().wait(0, Duration::ZERO, 0.5), None);
    assert_eq!(Backoff::background().wait(4, Duration::ZERO, 0.5), None);
    assert_eq!(Backoff::background().wait(u32::MAX, Duration::MAX, 0.5), None);
}

#[test]
fn interactive_waits_between_half_of_each_step_and_the_step() {
    let interactive = Backoff::interactive();
    for (retry, step) in [200, 400, 800, 1_600].into_iter().enumerate() {
        let wait = |unit| interactive.wait(u32::try_from(retry).unwrap(), Duration::ZERO, unit);
        assert_eq!(wait(0.0), Some(ms(step / 2)));
        assert_eq!(wait(0.5), Some(ms(step / 4 * 3)));
        assert!(wait(1.0) < Some(ms(step)) && wait(1.0) > Some(ms(step - 1)));
    }
    assert_eq!(interactive.wait(4, Duration::ZERO, 0.5), None);
}

#[test]
fn exponential_doubles_to_the_cap_and_the_cap_wins() {
    let steps = [100, 200, 400, 800, 1_600, 2_000].map(ms);
    assert_eq!(Backoff::exponential(ms(100), ms(2_000), 6).steps, steps);
    assert_eq!(Backoff::exponential(ms(10), ms(5), 3).steps, [ms(5); 3]);
    assert_eq!(Backoff::exponential(Duration::MAX, Duration::MAX, 40).steps, [Duration::MAX; 40]);
    assert_eq!(Backoff::exponential(ms(1), ms(1), u32::MAX).steps.len(), STEPS_MAX);
}

#[test]
fn a_unit_outside_its_interval_is_brought_inside() {
    let backoff = Backoff::ladder([ms(1_000)]);
    for (unit, expected) in [
        (f64::NAN, Duration::ZERO),
        (-1.0, Duration::ZERO),
        (f64::NEG_INFINITY, Duration::ZERO),
        (1.0, just_under(1_000)),
        (f64::INFINITY, just_under(1_000)),
    ] {
        assert_eq!(backoff.wait(0, Duration::ZERO, unit), Some(expected), "{unit}");
    }
}

#[test]
fn no_run_of_waits_exceeds_the_longest() {
    assert_eq!(Backoff::background().longest(), ms(37_500));
    assert_eq!(Backoff::background().jitter(Jitter::Decorrelated).longest(), ms(120_000));
    assert_eq!(Backoff::ladder([Duration::MAX, Duration::MAX]).longest(), Duration::MAX);
}

proptest! {
    #[test]
    fn every_wait_is_under_its_cap_whatever_the_figures(
        steps in prop::collection::vec(any::<Duration>(), 1..8),
        jitter in prop::sample::select(vec![Jitter::Full, Jitter::Equal, Jitter::Decorrelated, Jitter::None]),
        retry in 0u32..8,
        previous in any::<Duration>(),
        unit in 0.0f64..1.0,
    ) {
        let backoff = Backoff { steps: steps.clone(), jitter };
        let wait = backoff.wait(retry, previous, unit);
        prop_assert_eq!(wait.is_some(), (retry as usize) < steps.len());
        if let Some(wait) = wait {
            let cap = if jitter == Jitter::Decorrelated { *steps.last().unwrap() } else { steps[retry as usize] };
            prop_assert!(wait <= cap);
            if jitter != Jitter::None && as_nanos(cap) > 0 {
                prop_assert!(wait < cap);
            }
        }
    }

    #[test]
    fn a_draw_is_uniform_to_the_nanosecond(low in 0u64..1_000, span in 1u64..1_000, step in 0u64..1_000) {
        let step = step % span;
        // The middle of the step-th of `span` equal parts falls on the step-th nanosecond.
        let unit = (step as f64 + 0.5) / span as f64;
        prop_assert_eq!(draw(low, low + span, unit), low + step);
    }
}

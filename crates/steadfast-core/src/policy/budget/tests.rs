use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;

fn at_ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn budget(ratio: f64, burst: u32, refill_per_second: f64) -> Budget {
    Budget::new(&BudgetConfig::new(ratio, burst, refill_per_second))
}

fn spend_all(budget: &Budget, now: Instant) -> u32 {
    (0..100_000).take_while(|_| budget.spend(now)).count().try_into().unwrap()
}

#[test]
fn a_quiet_client_has_its_burst_and_then_a_retry_every_ten_seconds() {
    let budget = Budget::new(&BudgetConfig::default());
    assert_eq!(spend_all(&budget, at_ms(0)), 10);
    assert!(!budget.spend(at_ms(9_999)));
    assert!(budget.spend(at_ms(10_000)));
    assert!(!budget.spend(at_ms(10_000)));
    // A day later the burst is back, and no more than the burst.
    assert_eq!(spend_all(&budget, at_ms(86_400_000)), 10);
}

#[test]
fn the_share_is_exact_and_leaves_with_the_calls_that_earned_it() {
    let budget = budget(0.1, 0, 0.0);
    (0..99).for_each(|_| budget.earn(at_ms(0)));
    assert_eq!(spend_all(&budget, at_ms(0)), 9);
    budget.earn(at_ms(1));
    assert_eq!(spend_all(&budget, at_ms(1)), 1);
    (0..50).for_each(|_| budget.earn(at_ms(10_500)));
    assert_eq!(spend_all(&budget, at_ms(10_500)), 5);
}

#[test]
fn ratios_over_one_half_are_exact() {
    for (ratio, expected) in [(0.6, 600), (0.75, 750), (0.999, 999), (1.0, 1_000), (0.5, 500), (0.0, 0)] {
        let budget = budget(ratio, 0, 0.0);
        (0..1_000).for_each(|_| budget.earn(at_ms(0)));
        assert_eq!(spend_all(&budget, at_ms(0)), expected, "{ratio}");
    }
}

#[test]
fn refilling_often_loses_nothing_to_rounding() {
    let budget = budget(0.0, 1, 0.1);
    assert!(budget.spend(at_ms(0)));
    // Asked every 7 µs: each step refills less than a millionth of a token.
    let granted = (1..=1_428_571u64).filter(|step| budget.spend(Instant::from_nanos(step * 7_000))).count();
    assert_eq!(granted, 0);
    assert!(budget.spend(at_ms(10_000)));
}

#[test]
fn the_take_is_atomic_and_never_over_spends_under_contention() {
    let budget = budget(0.25, 7, 0.0);
    (0..1_000).for_each(|_| budget.earn(at_ms(0)));
    let spent = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    if budget.spend(at_ms(1)) {
                        spent.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(spent.into_inner(), 257);
}

#[test]
fn earning_while_others_spend_is_exact() {
    let budget = budget(0.5, 0, 0.0);
    let spent = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| budget.earn(at_ms(0))));
            scope.spawn(|| {
                let granted = (0..1_000).filter(|_| budget.spend(at_ms(0))).count();
                spent.fetch_add(u32::try_from(granted).unwrap(), Ordering::Relaxed);
            });
        }
    });
    assert_eq!(spent.into_inner() + spend_all(&budget, at_ms(0)), 2_000);
}

#[test]
fn the_ends_of_time_do_not_panic_and_time_may_step_back() {
    let huge = Instant::from_nanos(u64::MAX);
    let budget = budget(1.0, u32::MAX, REFILL_MAX);
    budget.earn(huge);
    assert!(budget.spend(huge));
    assert!(budget.spend(Instant::ORIGIN));
    assert!(budget.spend(huge));
}

proptest! {
    /// Against a model that remembers every call: what is granted is the share of the calls, plus the floor.
    #[test]
    fn granted_is_the_share_plus_the_floor(
        ratio_percent in 0u32..=100,
        burst in 0u32..20,
        calls in prop::collection::vec(any::<bool>(), 1..400),
    ) {
        let budget = budget(f64::from(ratio_percent) / 100.0, burst, 0.0);
        let (mut earned, mut shared, mut floor) = (0u32, 0u32, burst);
        for spends in calls {
            if !spends {
                budget.earn(at_ms(1));
                earned += 1;
                continue;
            }
            let by_share = (shared + 1) * 100 <= earned * ratio_percent;
            let expected = by_share || floor > 0;
            prop_assert_eq!(budget.spend(at_ms(1)), expected);
            if by_share {
                shared += 1;
            } else {
                floor = floor.saturating_sub(1);
            }
        }
    }
}

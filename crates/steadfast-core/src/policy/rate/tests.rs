use proptest::prelude::*;

use super::*;

fn at_ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

#[test]
fn all_calls_may_start_at_once_and_each_makes_room_a_period_later() {
    let rate = Rate::new(&RateConfig::new(4, Duration::from_secs(1)), at_ms(7_000));
    for start in [7_000, 7_000, 7_300, 7_600] {
        assert_eq!(rate.check(at_ms(start)), Ok(()));
    }
    assert_eq!(rate.check(at_ms(7_999)), Err(at_ms(8_000)));
    assert_eq!(rate.check(at_ms(8_000)), Ok(()));
    assert_eq!(rate.check(at_ms(8_000)), Ok(()));
    assert_eq!(rate.check(at_ms(8_000)), Err(at_ms(8_300)));
}

#[test]
fn behind_a_short_burst_attempts_are_spaced_and_still_never_too_many() {
    let rate = Rate::new(&RateConfig::new(4, Duration::from_secs(1)).burst(2), at_ms(0));
    let mut starts = Vec::new();
    let mut now = at_ms(0);
    while starts.len() < 8 {
        match rate.check(now) {
            Ok(()) => starts.push(now),
            Err(at) => now = at,
        }
    }
    // 250 ms apart; the fifth would be the fifth within the first second, and so would the next one's.
    assert_eq!(starts, [0, 0, 250, 500, 1_000, 1_000, 1_250, 1_500].map(at_ms));
}

#[test]
fn a_burst_of_one_spaces_every_call() {
    let rate = Rate::new(&RateConfig::new(2, Duration::from_secs(1)).burst(1), at_ms(0));
    assert_eq!(rate.check(at_ms(0)), Ok(()));
    assert_eq!(rate.check(at_ms(0)), Err(at_ms(500)));
    assert_eq!(rate.check(at_ms(500)), Ok(()));
}

#[test]
fn two_limits_on_one_thread_keep_their_own_time() {
    let config = RateConfig::new(1, Duration::from_secs(1));
    let (early, late) = (Rate::new(&config, at_ms(0)), Rate::new(&config, at_ms(60_000)));
    assert_eq!((early.check(at_ms(0)), late.check(at_ms(60_000))), (Ok(()), Ok(())));
    assert_eq!(early.check(at_ms(1)), Err(at_ms(1_000)));
    assert_eq!(late.check(at_ms(60_001)), Err(at_ms(61_000)));
}

#[test]
fn no_more_than_the_burst_is_admitted_under_contention() {
    let rate = Rate::new(&RateConfig::new(100, Duration::from_secs(1)), at_ms(0));
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..200).filter(|_| rate.check(at_ms(1)).is_ok()).count()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 100);
}

#[test]
fn no_time_and_no_figure_panics() {
    let periods = [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(86_400), Duration::MAX];
    for calls in [0, 1, u32::MAX] {
        for per in periods {
            for burst in [None, Some(0), Some(1), Some(u32::MAX)] {
                let config = RateConfig { calls, per, burst };
                for start in [0, u64::MAX / 2, u64::MAX] {
                    let rate = Rate::new(&config, Instant::from_nanos(start));
                    for now in [start, u64::MAX, 0] {
                        let _ = (rate.check(Instant::from_nanos(now)), rate.check(Instant::from_nanos(now)));
                    }
                }
                let _ = config.validate();
            }
        }
    }
}

/// Every start that a greedy client makes which asks at each of these times.
fn starts_of(config: &RateConfig, asked_nanos: &[u64]) -> Vec<u64> {
    let rate = Rate::new(config, Instant::ORIGIN);
    asked_nanos.iter().copied().filter(|&now| rate.check(Instant::from_nanos(now)).is_ok()).collect()
}

proptest! {
    /// No more than `calls` start in any time of the length `per`, wherever it begins. If there is neither a shorter
    /// burst nor a batch, exactly those start that a count of the last period has room for.
    #[test]
    fn no_period_has_more_starts_than_calls(
        calls in prop_oneof![4 => 1u32..40, 1 => 490u32..540, 1 => 2_000u32..2_100],
        burst in prop::option::of(1u32..40),
        per in 1_000u64..1_000_000,
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 2 => 0u64..1_000, 1 => 0u64..1_000_000], 1..4_000),
    ) {
        let burst = burst.filter(|&burst| burst <= calls);
        let config = RateConfig { calls, per: Duration::from_nanos(per), burst };
        prop_assume!(u64::from(calls) <= per);
        let attempts: Vec<u64> = gaps.iter().scan(0, |now, gap| { *now += gap; Some(*now) }).collect();
        let starts = starts_of(&config, &attempts);
        for (index, start) in starts.iter().enumerate() {
            let in_period = starts[index..].partition_point(|&later| later < start + per);
            prop_assert!(in_period <= calls as usize, "{in_period} from {start}");
        }
        if burst.is_none() && calls <= ONE_BY_ONE_MAX {
            let mut counted: Vec<u64> = Vec::new();
            for now in attempts {
                let held = counted.len() - counted.partition_point(|&start| start + per <= now);
                if held < calls as usize {
                    counted.push(now);
                }
            }
            prop_assert_eq!(starts, counted);
        }
    }

    /// A refusal's time comes true: nothing starts sooner, and there is room then.
    #[test]
    fn a_refusal_names_the_exact_time_of_room(calls in 1u32..3_000, burst in prop::option::of(1u32..50), seed in 0u64..1_000) {
        let burst = burst.filter(|&burst| burst <= calls);
        let config = RateConfig { calls, per: Duration::from_millis(1_000), burst };
        let rate = Rate::new(&config, Instant::ORIGIN);
        let mut now = seed;
        for _ in 0..5_000 {
            if let Err(at) = rate.check(Instant::from_nanos(now)) {
                prop_assert!(at.as_nanos() > now);
                prop_assert!(rate.check(Instant::from_nanos(at.as_nanos() - 1)).is_err());
                now = at.as_nanos();
                let next = rate.check(Instant::from_nanos(now));
                // The spacing may still be to come where the period has room, and then it is said.
                if let Err(later) = next {
                    prop_assert!(burst.is_some() && later.as_nanos() > now);
                    now = later.as_nanos();
                    prop_assert!(rate.check(Instant::from_nanos(now)).is_ok());
                }
            }
            now += seed;
        }
    }
}

#[test]
fn a_large_limit_lets_exactly_so_many_start_and_remembers_few_batches() {
    for calls in [512, 513, 1_024, 1_025, 1_500, 2_047, 2_048, 3_001, 150_000] {
        let rate = Rate::new(&RateConfig::new(calls, Duration::from_secs(1)), at_ms(0));
        let room = rate.starts.lock().batches.capacity();
        for second in [0, 1_000, 2_500] {
            for _ in 0..calls {
                assert_eq!(rate.check(at_ms(second)), Ok(()), "{calls}");
            }
            assert_eq!(rate.check(at_ms(second + 999)), Err(at_ms(second + 1_000)), "{calls}");
        }
        let starts = rate.starts.lock();
        assert!(starts.batches.len() <= 513 && starts.batches.capacity() == room, "{calls}");
    }
}

#[test]
fn an_admitted_attempt_takes_room_until_a_period_after_its_start() {
    let rate = Rate::new(&RateConfig::new(2, Duration::from_secs(1)), at_ms(0));
    let mut slow = rate.reserve(at_ms(0)).unwrap();
    assert_eq!(rate.check(at_ms(0)), Ok(()));
    // A period later the slow one has still not started: it may at any moment.
    assert_eq!(rate.check(at_ms(1_500)), Ok(()));
    assert_eq!(rate.check(at_ms(1_500)), Err(at_ms(2_500)));
    slow.begin(at_ms(2_000));
    slow.begin(at_ms(9_000));
    drop(slow);
    assert_eq!(rate.check(at_ms(2_500)), Ok(()));
    assert_eq!(rate.check(at_ms(2_999)), Err(at_ms(3_000)));
    assert_eq!(rate.check(at_ms(3_000)), Ok(()));
}

#[test]
fn an_attempt_that_never_starts_gives_its_room_back() {
    let rate = Rate::new(&RateConfig::new(2, Duration::from_secs(1)), at_ms(0));
    let (first, second) = (rate.reserve(at_ms(0)).unwrap(), rate.reserve(at_ms(0)).unwrap());
    // Nobody knows when one of the two starts or goes: half a period is the room's mean.
    assert_eq!(rate.check(at_ms(0)), Err(at_ms(500)));
    drop(first);
    assert_eq!(rate.check(at_ms(0)), Ok(()));
    drop(second);
    assert_eq!(rate.check(at_ms(0)), Ok(()));
    assert_eq!(rate.check(at_ms(0)), Err(at_ms(1_000)));
}

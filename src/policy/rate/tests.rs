use super::*;

fn at_ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

#[test]
fn a_burst_of_its_own_calls_and_then_one_at_each_spacing() {
    let rate = Rate::new(&RateConfig::new(4, Duration::from_secs(1)), at_ms(7_000));
    for _ in 0..4 {
        assert_eq!(rate.check(at_ms(7_000)), Ok(()));
    }
    assert_eq!(rate.check(at_ms(7_000)), Err(at_ms(7_250)));
    assert_eq!(rate.check(at_ms(7_249)), Err(at_ms(7_250)));
    assert_eq!(rate.check(at_ms(7_250)), Ok(()));
    assert_eq!(rate.check(at_ms(7_250)), Err(at_ms(7_500)));
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

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::clock::{Sleep, Timestamp};

#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Hand {
    fn set_ms(&self, millis: u64) {
        self.0.store(millis * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(std::future::pending())
    }
}

fn limit(config: &RateConfig, start_ms: u64) -> (Arc<Hand>, Rate) {
    let hand = Arc::new(Hand::default());
    hand.set_ms(start_ms);
    let rate = Rate::new(config, Arc::clone(&hand) as Arc<dyn Clock>);
    (hand, rate)
}

fn at_ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

#[test]
fn a_burst_of_its_own_calls_and_then_one_at_each_spacing() {
    let (hand, rate) = limit(&RateConfig::new(4, Duration::from_secs(1)), 7_000);
    for _ in 0..4 {
        assert_eq!(rate.check(), Ok(()));
    }
    assert_eq!(rate.check(), Err(at_ms(7_250)));
    hand.set_ms(7_249);
    assert_eq!(rate.check(), Err(at_ms(7_250)));
    hand.set_ms(7_250);
    assert_eq!(rate.check(), Ok(()));
    assert_eq!(rate.check(), Err(at_ms(7_500)));
}

#[test]
fn a_burst_of_one_spaces_every_call() {
    let (hand, rate) = limit(&RateConfig::new(2, Duration::from_secs(1)).burst(1), 0);
    assert_eq!(rate.check(), Ok(()));
    assert_eq!(rate.check(), Err(at_ms(500)));
    hand.set_ms(500);
    assert_eq!(rate.check(), Ok(()));
}

#[test]
fn no_time_and_no_figure_panics() {
    let figures = [0, 1, u32::MAX];
    let periods = [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(86_400), Duration::MAX];
    for calls in figures {
        for per in periods {
            for burst in [None, Some(0), Some(1), Some(u32::MAX)] {
                let config = RateConfig { calls, per, burst };
                for start in [0, u64::MAX / 2, u64::MAX] {
                    let hand = Arc::new(Hand(AtomicU64::new(start)));
                    let rate = Rate::new(&config, Arc::clone(&hand) as Arc<dyn Clock>);
                    for now in [start, u64::MAX, 0] {
                        hand.0.store(now, Ordering::Relaxed);
                        let _ = (rate.check(), rate.check());
                    }
                }
                let _ = config.validate();
            }
        }
    }
}

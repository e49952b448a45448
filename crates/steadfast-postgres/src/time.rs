//! The server's time, between two of its answers.
//!
//! Each answer that carries the server's time gives a reading: by how much the server's clock is ahead of our
//! own monotonic one. A delayed answer makes the server look behind, and never ahead. So the largest reading of
//! the last minutes is the truest. Older readings are dropped, because the two clocks drift apart.
//!
//! A server may be set back, or fail over to one whose clock is behind. No answer is late by a minute. So a
//! reading which is lower by more comes from such a clock, and counts from then on. Otherwise the store would
//! ask again and again for operations that are due by the old clock, and find none. If a process stood still
//! for that long with an answer in its hands, the next answer corrects the time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use steadfast_core::clock::{Clock, Instant, Timestamp};
use steadfast_core::internal::store::{from_ms, to_ms};

/// The server's clock, computed from its answers.
#[derive(Debug)]
pub(super) struct ServerTime {
    clock: Arc<dyn Clock>,
    readings: Mutex<Readings>,
}

/// Milliseconds by which the server is ahead of the monotonic clock: the largest reading of the current span
/// and of the one before. `None` without an answer in that span.
#[derive(Clone, Copy, Debug, Default)]
struct Readings {
    since: Instant,
    now: Option<i64>,
    before: Option<i64>,
}

impl ServerTime {
    pub(super) fn new(clock: Arc<dyn Clock>) -> ServerTime {
        ServerTime { clock, readings: Mutex::default() }
    }

    /// Records an answer that came just now, with the server's time in it.
    pub(super) fn record(&self, server: Timestamp) {
        let now = self.clock.now();
        let ahead = to_ms(server).saturating_sub(millis(now));
        let mut readings = self.readings.lock();
        let best = readings.now.max(readings.before);
        if best.is_some_and(|best| ahead.saturating_add(LATE_MAX_MS) < best) {
            *readings = Readings { since: now, now: Some(ahead), before: None };
        }
        if now.since(readings.since) >= SPAN {
            *readings = Readings { since: now, now: None, before: readings.now };
        }
        readings.now = readings.now.max(Some(ahead));
    }

    /// Returns the server's time; `None` before the first answer.
    pub(super) fn now(&self) -> Option<Timestamp> {
        let readings = *self.readings.lock();
        let ahead = readings.now.max(readings.before)?;
        Some(from_ms(millis(self.clock.now()).saturating_add(ahead)))
    }

    /// Returns the monotonic time.
    pub(super) fn instant(&self) -> Instant {
        self.clock.now()
    }
}

fn millis(at: Instant) -> i64 {
    i64::try_from(at.as_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// A reading that is lower by more comes from another clock. A statement is cancelled long before, and so is a
/// line that does not answer.
const LATE_MAX_MS: i64 = 60_000;

/// Length of a span. Two clocks that are not steered drift apart by some ten milliseconds in this time (100
/// ppm).
const SPAN: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_core::BoxFuture;

    #[derive(Debug, Default)]
    struct ManualClock(Mutex<u64>);

    impl Clock for ManualClock {
        fn now(&self) -> Instant {
            Instant::from_nanos(*self.0.lock() * 1_000_000)
        }

        fn wall(&self) -> Timestamp {
            panic!("the host's own wall clock is never asked")
        }

        fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
            panic!("nobody waits")
        }
    }

    #[test]
    fn late_answers_do_not_set_the_time_back_and_old_ones_are_dropped() {
        let clock = Arc::new(ManualClock::default());
        let time = ServerTime::new(Arc::<ManualClock>::clone(&clock));
        let read = || time.now().map(Timestamp::as_millis);
        assert_eq!(read(), None);
        let at = |mine: u64, server: u64| {
            *clock.0.lock() = mine;
            time.record(Timestamp::from_millis(server));
            read().expect("an answer came")
        };
        assert_eq!(at(10, 5_010), 5_010);
        // The server read its clock at 5,040, and the answer took two seconds.
        assert_eq!(at(2_040, 5_040), 7_040);
        assert_eq!(at(2_050, 7_051), 7_051, "the best reading counts");
        // The server was set back by three seconds: the old reading counts for this span and the next.
        assert_eq!(at(119_000, 121_000), 124_001);
        assert_eq!(at(121_000, 123_000), 126_001);
        assert_eq!(at(242_000, 244_000), 244_000);
        // It fails over to a server whose clock is five minutes behind, and then to one that is right.
        assert_eq!(at(1_000_000, 1_002_000), 1_002_000);
        assert_eq!(at(1_001_000, 703_000), 703_000);
        assert_eq!(at(1_002_000, 1_004_000), 1_004_000);
    }
}

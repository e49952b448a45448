//! The driver's clock: the machine's, with a wall that the harness moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use steadfast::clock::{Clock, Instant, Sleep, SystemClock, Timestamp};

#[derive(Clone, Debug)]
pub struct MovedClock {
    machine: SystemClock,
    off_ms: Arc<AtomicI64>,
}

impl MovedClock {
    pub fn off_by(off_ms: i64) -> MovedClock {
        MovedClock { machine: SystemClock::new(), off_ms: Arc::new(AtomicI64::new(off_ms)) }
    }

    /// Sets the wall, as an operator or NTP does; monotonic time is not touched.
    pub fn set_off(&self, off_ms: i64) {
        self.off_ms.store(off_ms, Ordering::SeqCst);
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Instant {
        self.machine.now()
    }

    fn wall(&self) -> Timestamp {
        let off_ms = self.off_ms.load(Ordering::SeqCst);
        let by = Duration::from_millis(off_ms.unsigned_abs());
        let wall = self.machine.wall();
        if off_ms < 0 { wall.minus(by) } else { wall.plus(by) }
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        self.machine.sleep_until(at)
    }

    fn limit_until(&self, at: Instant) -> Sleep {
        self.machine.limit_until(at)
    }
}

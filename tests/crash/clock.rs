//! The time of a run: faster than the machine's by one factor for every process of it.
//!
//! Waits, limits, leases, settle times, windows and retention are all asked of the injected clock, so that one
//! factor here scales every one of them and no ratio between two of them differs from what is shipped. A time that no
//! injected clock reaches is divided by the same factor by hand. Such times are the limit for connecting, which is the
//! transport's, and the pause of a slow body, which is the fakes'.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use steadfast::BoxFuture;
use steadfast::clock::{Clock, Instant, SystemClock, Timestamp};

/// How fast time runs, and since when. All processes of a run have the same, so that their walls agree.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Time {
    faster: u32,
    /// When the run's walls and the machine's said the same, in nanoseconds since the Unix epoch.
    since_ns: u64,
}

impl Time {
    pub fn faster_by(faster: u32) -> Time {
        Time { faster, since_ns: machine_ns() }
    }

    /// Wall time that nobody has moved: what the vendors go by, and the audit.
    pub fn wall(self) -> Timestamp {
        let passed_ns = machine_ns().saturating_sub(self.since_ns);
        let ns = u128::from(self.since_ns) + u128::from(passed_ns) * u128::from(self.faster);
        Timestamp::from_millis(u64::try_from(ns / 1_000_000).unwrap_or(u64::MAX))
    }

    /// How long that takes on the machine.
    pub fn on_machine(self, time: Duration) -> Duration {
        time / self.faster
    }

    /// The body of a function in SQL that says what time it is in the run, off by so many milliseconds.
    #[cfg(feature = "postgres")]
    pub fn as_sql(self, off_ms: i64) -> String {
        let Time { faster, since_ns } = self;
        let (since_ms, rest_ns) = (since_ns / 1_000_000, since_ns % 1_000_000);
        format!(
            "SELECT {since_ms} + {off_ms} + floor((extract(epoch FROM clock_timestamp()) * 1000 \
             - {since_ms}.{rest_ns:06}) * {faster})::bigint"
        )
    }

    pub async fn sleep(self, time: Duration) {
        tokio::time::sleep(self.on_machine(time)).await;
    }
}

fn machine_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// One process's clock, with a wall that the harness moves.
#[derive(Clone, Debug)]
pub struct MovedClock {
    machine: SystemClock,
    time: Time,
    off_ms: Arc<AtomicI64>,
}

impl MovedClock {
    pub fn off_by(time: Time, off_ms: i64) -> MovedClock {
        MovedClock { machine: SystemClock::new(), time, off_ms: Arc::new(AtomicI64::new(off_ms)) }
    }

    #[cfg(feature = "postgres")]
    pub fn time(&self) -> Time {
        self.time
    }

    /// Sets the wall, as an operator or NTP does; monotonic time is not touched.
    pub fn set_off(&self, off_ms: i64) {
        self.off_ms.store(off_ms, Ordering::SeqCst);
    }

    /// The same moment by the machine, rounded up: no wait is cut short.
    fn on_machine(&self, at: Instant) -> Instant {
        Instant::from_nanos(at.as_nanos().div_ceil(u64::from(self.time.faster)))
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.machine.now().as_nanos().saturating_mul(u64::from(self.time.faster)))
    }

    fn wall(&self) -> Timestamp {
        let off_ms = self.off_ms.load(Ordering::SeqCst);
        let by = Duration::from_millis(off_ms.unsigned_abs());
        let wall = self.time.wall();
        if off_ms < 0 { wall.minus(by) } else { wall.plus(by) }
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.machine.sleep_until(self.on_machine(at))
    }

    fn limit_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.machine.limit_until(self.on_machine(at))
    }
}

/// The run's time for a vendor, whose wall nobody moves.
impl From<Time> for Arc<dyn Clock> {
    fn from(time: Time) -> Arc<dyn Clock> {
        Arc::new(MovedClock::off_by(time, 0))
    }
}

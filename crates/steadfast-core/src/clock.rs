//! Time, injected.
//!
//! Nothing else in the crate asks the machine what time it is (`clippy.toml` bans it), so that every wait,
//! window and lease can be tested exactly. Two kinds of time are kept apart on purpose:
//!
//! - [`Instant`] is monotonic and means nothing outside the process: waits, timeouts, open circuits.
//! - [`Timestamp`] is wall time and is what a record stores: leases, schedules, a vendor's replay window. It
//!   may jump; what must not depend on that uses `Instant`.
//!
//! Both saturate. `std::time::Instant` panics on some subtractions, and a breaker that panics is a wedged
//! client.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::BoxFuture;

/// Source of time.
///
/// [`SystemClock`] is the default; `TestClock` is the one under a test's control.
///
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Monotonic time since an origin of the clock's own.
    fn now(&self) -> Instant;

    /// Wall time.
    fn wall(&self) -> Timestamp;

    /// Completes at `at`. The caller has nothing else to do until then: a backoff, a settle time.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;

    /// Completes at `at`. Bounds something else that is under way: an attempt, a call.
    ///
    /// A test clock may jump straight to the end of a [`sleep_until`](Clock::sleep_until), but never to the
    /// end of a limit, or every answer that takes real time would be a timeout.
    fn limit_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.sleep_until(at)
    }

    /// Limits an exchange over a socket, as [`limit_until`](Clock::limit_until) does any other. A test clock lets no
    /// sleep of another task move time meanwhile. Default: `limit_until`.
    fn socket_limit_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.limit_until(at)
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn wall(&self) -> Timestamp {
        (**self).wall()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        (**self).sleep_until(at)
    }

    fn limit_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        (**self).limit_until(at)
    }

    fn socket_limit_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        (**self).socket_limit_until(at)
    }
}

/// A point in monotonic time: nanoseconds since its clock's origin. All arithmetic saturates.
///
/// ```
/// use std::time::Duration;
/// use steadfast::clock::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// let now = clock.now();
/// assert_eq!(now.plus(Duration::from_secs(2)).since(now), Duration::from_secs(2));
/// assert_eq!(now.since(now.plus(Duration::from_secs(2))), Duration::ZERO); // and no panic
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ORIGIN: Instant = Instant(0);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Adds `by`; saturates at the far end of time.
    #[must_use]
    pub fn plus(self, by: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(by)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after origin", Duration::from_nanos(self.0))
    }
}

/// A point in wall time: milliseconds since the Unix epoch. All arithmetic saturates.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use steadfast::clock::Timestamp;
///
/// let at = Timestamp::from_millis(1_700_000_000_000);
/// assert_eq!(at.to_string(), "Tue, 14 Nov 2023 22:13:20 GMT");
/// assert_eq!(at.plus(Duration::from_secs(60)).since(at), Duration::from_secs(60));
/// assert_eq!(Timestamp::from(SystemTime::from(at)), at);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The point `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Timestamp {
        Timestamp(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Adds `by`, rounded up to a whole millisecond: a wait is never cut short by rounding.
    #[must_use]
    pub fn plus(self, by: Duration) -> Timestamp {
        let millis = by.as_nanos().div_ceil(1_000_000);
        Timestamp(self.0.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    /// Subtracts `by`; saturates at the epoch.
    #[must_use]
    pub fn minus(self, by: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl From<SystemTime> for Timestamp {
    /// Times before the epoch become the epoch.
    fn from(time: SystemTime) -> Timestamp {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Timestamp> for SystemTime {
    /// Times beyond what the platform can represent become the epoch's year-9999 bound.
    fn from(time: Timestamp) -> SystemTime {
        let bounded = time.0.min(YEAR_9999_MS);
        UNIX_EPOCH.checked_add(Duration::from_millis(bounded)).unwrap_or(UNIX_EPOCH)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Timestamp {
    /// An HTTP date, to the second: the form operators already read in vendors' answers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&httpdate::fmt_http_date(SystemTime::from(*self)))
    }
}

/// The machine's clocks, and tokio's timer.
///
/// Monotonic time is tokio's, so that it follows `tokio::time::pause` in a test that uses it.
#[derive(Clone, Debug)]
pub struct SystemClock {
    origin: tokio::time::Instant,
}

impl SystemClock {
    /// A clock whose origin is now.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
    pub fn new() -> SystemClock {
        SystemClock { origin: tokio::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
    fn now(&self) -> Instant {
        Instant(nanos(tokio::time::Instant::now().saturating_duration_since(self.origin)))
    }

    #[allow(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
    fn wall(&self) -> Timestamp {
        Timestamp::from(SystemTime::now())
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let at = self.origin.checked_add(Duration::from_nanos(at.0));
        Box::pin(async move {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        })
    }
}

pub(crate) mod monotonic {
    use super::{BoxFuture, Clock, Instant, SystemClock, Timestamp, nanos};

    /// The machine's clocks, and not tokio's monotonic one. Tokio's stands still in a runtime whose time a test has
    /// paused. Another machine's clock, which is read from time to time, does not.
    #[derive(Debug)]
    pub struct Monotonic {
        origin: std::time::Instant,
    }

    impl Default for Monotonic {
        fn default() -> Monotonic {
            Monotonic::new()
        }
    }

    impl Monotonic {
        /// A clock whose origin is now.
        #[allow(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
        pub fn new() -> Monotonic {
            Monotonic { origin: std::time::Instant::now() }
        }
    }

    impl Clock for Monotonic {
        #[allow(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
        fn now(&self) -> Instant {
            Instant(nanos(std::time::Instant::now().saturating_duration_since(self.origin)))
        }

        fn wall(&self) -> Timestamp {
            SystemClock::new().wall()
        }

        fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
            let clock = SystemClock::new();
            clock.sleep_until(clock.now().plus(at.since(self.now())))
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The last millisecond of the year 9999, the end of what an HTTP date can say.
const YEAR_9999_MS: u64 = 253_402_300_799_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_panicking() {
        assert_eq!(Instant::ORIGIN.since(Instant::from_nanos(5)), Duration::ZERO);
        assert_eq!(Instant::from_nanos(5).plus(Duration::MAX), Instant::from_nanos(u64::MAX));
        assert_eq!(Timestamp::from_millis(1).minus(Duration::MAX), Timestamp::from_millis(0));
        assert_eq!(Timestamp::from_millis(1).plus(Duration::MAX), Timestamp::from_millis(u64::MAX));
        assert_eq!(Timestamp::from_millis(1).since(Timestamp::from_millis(9)), Duration::ZERO);
    }

    #[test]
    fn a_wait_is_never_cut_short_by_rounding() {
        assert_eq!(Timestamp::from_millis(0).plus(Duration::from_micros(1_001)), Timestamp::from_millis(2));
    }

    #[test]
    fn every_timestamp_can_be_printed() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(Timestamp::from_millis(u64::MAX).to_string(), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}

//! How many attempts may start in a time: GCRA, by the crate governor.
//!
//! GCRA keeps one number, the time at which the next call would be on schedule, and needs neither a lock nor a
//! task that refills a bucket. Governor asks a clock for the time; `GateClock` answers with the time that the
//! gate was given, so that one reading of the client's clock decides the whole admission, and a test that moves
//! time moves the limit too. A third reading a call would cost as much as all the gates' atomics together. The
//! adapter also keeps governor's unchecked additions far from the end of time, where they would panic.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::ops::Add;
use std::time::Duration;

use governor::clock::{Clock as GovernorClock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use serde::{Deserialize, Serialize};

use super::{as_nanos, invalid};
use crate::clock::Instant;
use crate::error::Error;

/// The limit on attempts in a time.
///
/// ```
/// use std::time::Duration;
/// use steadfast::policy::{Policy, RateConfig};
///
/// // 150 calls in 30 s, of which at most 20 start at once.
/// let rate = RateConfig::new(150, Duration::from_secs(30)).burst(20);
/// assert!(Policy::background().rate(rate).validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RateConfig {
    /// How many attempts may start in [`per`](RateConfig::per), evenly spread. Default 25; at least 1.
    pub calls: u32,
    /// The time that `calls` is counted in. Default 1 s.
    #[serde(with = "humantime_serde")]
    pub per: Duration,
    /// How many attempts may start at once after a quiet time. Default: `calls`. 1 spaces every attempt evenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl RateConfig {
    /// `calls` in each `per`, all of which may come at once after a quiet time.
    pub fn new(calls: u32, per: Duration) -> RateConfig {
        RateConfig { calls, per, burst: None }
    }

    /// Sets how many attempts may start at once after a quiet time.
    #[must_use]
    pub fn burst(mut self, burst: u32) -> RateConfig {
        self.burst = Some(burst);
        self
    }

    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.calls == 0 {
            return Err(invalid("rate.calls", "0 refuses every call; to stop calls use the kill switch"));
        }
        if self.per.is_zero() {
            return Err(invalid("rate.per", "zero is no time to count in"));
        }
        if self.per > PER_MAX {
            return Err(invalid(
                "rate.per",
                format!("{:?} is longer than the limit of {PER_MAX:?}", self.per),
            ));
        }
        if as_nanos(self.per) < u64::from(self.calls) {
            let reason = format!("{} in {:?} is more than one a nanosecond", self.calls, self.per);
            return Err(invalid("rate.calls", reason));
        }
        match self.burst {
            Some(0) => {
                Err(invalid("rate.burst", "0 refuses every call; leave it out for a burst of rate.calls"))
            }
            Some(burst) if self.spacing_nanos().saturating_mul(u64::from(burst)) > HORIZON_NANOS => {
                let reason = format!("{burst} at {} in {:?} would take years to earn", self.calls, self.per);
                Err(invalid("rate.burst", reason))
            }
            _ => Ok(()),
        }
    }

    fn spacing_nanos(&self) -> u64 {
        (as_nanos(self.per) / u64::from(self.calls.max(1))).max(1)
    }

    /// The quota, whatever the figures: those that [`validate`](RateConfig::validate) refuses are brought to
    /// the nearest that works.
    fn quota(&self) -> Quota {
        let spacing = self.spacing_nanos().min(HORIZON_NANOS);
        let most = u32::try_from(HORIZON_NANOS / spacing).unwrap_or(u32::MAX);
        let burst = self.burst.unwrap_or(self.calls).min(most);
        Quota::with_period(Duration::from_nanos(spacing))
            .unwrap_or(Quota::per_second(NonZeroU32::MIN))
            .allow_burst(NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN))
    }
}

impl Default for RateConfig {
    fn default() -> RateConfig {
        RateConfig::new(25, Duration::from_secs(1))
    }
}

/// When the next attempt is on schedule.
#[derive(Debug)]
pub struct Rate {
    limiter: RateLimiter<NotKeyed, InMemoryState, GateClock, NoOpMiddleware<GateTime>>,
}

impl Rate {
    /// A limit with its whole burst unused at `now`.
    pub fn new(config: &RateConfig, now: Instant) -> Rate {
        GateClock::set(now);
        Rate { limiter: RateLimiter::direct_with_clock(config.quota(), GateClock) }
    }

    /// Takes room for one attempt at `now`.
    ///
    /// # Errors
    ///
    /// When there will be room for one.
    #[inline]
    pub fn check(&self, now: Instant) -> Result<(), Instant> {
        GateClock::set(now);
        self.limiter.check().map_err(|not_until| Instant::from_nanos(not_until.earliest_possible().0))
    }
}

/// The time that the gate was given, as governor wants it. Governor takes no time as a parameter, and asks on
/// the thread and within the call that set it.
#[derive(Debug)]
struct GateClock;

thread_local! {
    static GIVEN_NANOS: Cell<u64> = const { Cell::new(0) };
}

impl GateClock {
    #[inline]
    fn set(now: Instant) {
        GIVEN_NANOS.set(now.as_nanos().min(TIME_MAX_NANOS));
    }
}

impl GovernorClock for GateClock {
    type Instant = GateTime;

    #[inline]
    fn now(&self) -> GateTime {
        GateTime(GIVEN_NANOS.get())
    }
}

/// A reading of the client's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GateTime(u64);

impl Add<Nanos> for GateTime {
    type Output = GateTime;

    fn add(self, by: Nanos) -> GateTime {
        GateTime(self.0.saturating_add(by.as_u64()))
    }
}

impl Reference for GateTime {
    #[inline]
    fn duration_since(&self, earlier: GateTime) -> Nanos {
        Nanos::new(self.0.saturating_sub(earlier.0))
    }

    fn saturating_sub(&self, by: Nanos) -> GateTime {
        GateTime(self.0.saturating_sub(by.as_u64()))
    }
}

/// Governor adds burst × spacing to the time without checking. Both stay under a third of what 64 bits hold,
/// some 190 years.
const TIME_MAX_NANOS: u64 = u64::MAX / 3;
const HORIZON_NANOS: u64 = u64::MAX / 3;

/// A day: the longest period over which the vendors at hand count calls.
const PER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests;

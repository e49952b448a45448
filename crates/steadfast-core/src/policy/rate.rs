//! The rate limit: never more than so many attempts start in any period, wherever it begins.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::ops::Add;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock as GovernorClock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{as_nanos, invalid};
use crate::clock::Instant;
use crate::error::invalid::InputErrorExt;
use crate::error::{Error, field};
use crate::guard::Guard;

pub(crate) mod starts;

use starts::Starts;

/// The limit on attempts in a time.
///
/// A token bucket alone does not keep that promise. 25 a second with a burst of 25 lets 25 start at once, and 24 more
/// within the same second as the bucket refills. Made to keep it, a bucket must give up either the burst or the rate:
/// with a burst of all 25 it could refill at one a second. So the starts of the last period are remembered, and an
/// attempt may start once the one 25 before it is a whole period old. That gives the whole burst after a quiet time
/// and the whole rate without end.
///
/// A shorter burst is GCRA's, by the crate governor, which spaces what follows it evenly. Governor asks a clock for
/// the time; `GateClock` answers with the time that the gate was given. So one reading of the client's clock decides
/// the whole admission, and a test that moves time moves the limit too. The adapter also keeps governor's unchecked
/// additions far from the end of time, where they would panic.
///
/// A start is when the first byte may leave, and not when the gate let it through. In between lies the claim or the
/// renewal of a lease. A slow store may hold these up by any time, and then release many at once. So room is set aside
/// at the gate, counted from the start on, and given back by a call that never starts.
///
/// Room that is set aside and starts that are remembered are one number, so that setting aside is one atomic step, as
/// GCRA is. Starts of one moment are remembered as a number too. To forget what is old, the first of them takes a lock,
/// and so does a call that finds no room. A moment is a nanosecond. A limit with more calls than can be remembered one
/// by one has longer moments: a part of its period each. Every start in one counts as at its end.
///
/// Starts are counted here, not at the vendor: requests that left a second apart can arrive closer together. A limit
/// just below the vendor's leaves room for that.
///
/// ```
/// use std::time::Duration;
/// use steadfast::Policy;
/// use steadfast::policy::RateConfig;
///
/// // 150 calls in 30 s, of which at most 20 start at once.
/// let rate = RateConfig::new(150, Duration::from_secs(30)).burst(20);
/// assert!(Policy::background().rate(rate).validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RateConfig {
    /// Number of attempts that may start within any time of the length [`per`](RateConfig::per), wherever it begins.
    /// Default 25; at least 1. Over 512 those of each 500th of `per` are remembered together, and make room as one.
    pub calls: u32,
    /// The time that `calls` is counted in. Default 1 s.
    #[serde(with = "humantime_serde")]
    pub per: Duration,
    /// Number of attempts that may start at once after a quiet time; later ones are spaced evenly. Default: `calls`,
    /// which is also the most. 1 spaces every attempt.
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
            return Err(invalid(
                field!(rate.calls),
                "0 refuses every call; to stop calls use the kill switch",
            ));
        }
        if self.per.is_zero() {
            return Err(invalid(field!(rate.per), "zero is no time to count in"));
        }
        if self.per > PER_MAX {
            return Err(invalid(
                field!(rate.per),
                format!("{:?} is longer than the limit of {PER_MAX:?}", self.per),
            ));
        }
        if as_nanos(self.per) < u64::from(self.calls) {
            let reason = format!("{} in {:?} is more than one a nanosecond", self.calls, self.per);
            return Err(invalid(field!(rate.calls), reason).beside(field!(rate.per)));
        }
        match self.burst {
            Some(0) => Err(invalid(
                field!(rate.burst),
                "0 refuses every call; leave it out for a burst of rate.calls",
            )),
            Some(burst) if burst > self.calls => {
                let calls = field!(rate.calls);
                let reason =
                    format!("{burst} is more than {calls}, {}: no more than that may start", self.calls);
                Err(invalid(field!(rate.burst), reason).beside(calls))
            }
            _ => Ok(()),
        }
    }

    fn spacing_nanos(&self) -> u64 {
        as_nanos(self.per).div_ceil(u64::from(self.calls.max(1))).max(1)
    }

    /// Returns the quota that spaces the attempts behind a burst of less than all of them. Figures that
    /// [`validate`](RateConfig::validate) refuses are brought to the nearest that works.
    fn quota(&self) -> Option<Quota> {
        let burst = self.burst.filter(|&burst| burst < self.calls)?;
        let spacing = self.spacing_nanos().min(HORIZON_NANOS);
        let most = u32::try_from(HORIZON_NANOS / spacing).unwrap_or(u32::MAX);
        let quota = Quota::with_period(Duration::from_nanos(spacing))?;
        Some(quota.allow_burst(NonZeroU32::new(burst.min(most)).unwrap_or(NonZeroU32::MIN)))
    }
}

impl Default for RateConfig {
    fn default() -> RateConfig {
        RateConfig::new(25, Duration::from_secs(1))
    }
}

/// Rate limit at run time.
#[derive(Debug)]
pub struct Rate {
    calls: u32,
    /// Part of `calls` that is allowed now.
    allowed: AtomicU32,
    /// Part of `calls` that is taken: by starts that are remembered, and by those that are set aside.
    taken: AtomicU32,
    /// Length of the moments that starts are counted by.
    moment_nanos: u64,
    /// The end of the moment that is counted now. It only grows.
    counted_until: AtomicU64,
    /// All starts so far, wrapping. Each was taken room for before it is counted here.
    started: AtomicU32,
    starts: Mutex<Starts>,
    spacing: Option<RateLimiter<NotKeyed, InMemoryState, GateClock, NoOpMiddleware<GateTime>>>,
}

impl Rate {
    /// A limit with its whole burst unused at `now`.
    pub fn new(config: &RateConfig, now: Instant) -> Rate {
        let mut rate = Rate::rarely_used(config, now);
        rate.starts.get_mut().allocate();
        rate
    }

    /// Creates a limit as [`new`](Rate::new) does, without memory until it is used.
    pub(super) fn rarely_used(config: &RateConfig, now: Instant) -> Rate {
        GateClock::set(now);
        let spacing = config.quota().map(|quota| RateLimiter::direct_with_clock(quota, GateClock));
        let calls = config.calls.max(1);
        Rate {
            calls,
            allowed: AtomicU32::new(calls),
            taken: AtomicU32::new(0),
            moment_nanos: if calls > ONE_BY_ONE_MAX {
                as_nanos(config.per).div_ceil(MOMENTS).max(1)
            } else {
                1
            },
            counted_until: AtomicU64::new(0),
            started: AtomicU32::new(0),
            starts: Mutex::new(Starts::new(config)),
            spacing,
        }
    }

    /// Takes room for one attempt at `now`.
    ///
    /// # Errors
    ///
    /// When there will be room for one.
    #[cfg(any(test, feature = "testkit"))]
    #[inline]
    pub fn check(&self, now: Instant) -> Result<(), Instant> {
        self.reserve(now)?.begin(now);
        Ok(())
    }

    /// Sets room aside for one attempt that is to start soon.
    ///
    /// Between the gates and the first byte lies a write to the store, which may take long. An attempt that was let
    /// through and has not started yet may start at any moment, so that it takes room until it has, and for a period
    /// after.
    #[inline]
    pub(super) fn reserve(&self, now: Instant) -> Result<Start<'_>, Instant> {
        if !self.set_aside() {
            self.set_aside_after_forgetting(now)?;
        }
        // From here on the room is given back on every way out.
        let start = Start { rate: Some(self), beside: None };
        if let Some(spacing) = &self.spacing {
            GateClock::set(now);
            spacing.check().map_err(|not_until| Instant::from_nanos(not_until.earliest_possible().0))?;
        }
        Ok(start)
    }

    /// Takes room for one, if there is any beside what is remembered.
    #[inline]
    fn set_aside(&self) -> bool {
        let allowed = self.allowed.load(Ordering::Relaxed);
        let take = |taken: u32| (taken < allowed).then(|| taken + set_aside_for_one());
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Sets room aside once starts older than a period are forgotten. Else refuses with the time at which there will be
    /// room: a guess where all of it is set aside.
    #[cold]
    fn set_aside_after_forgetting(&self, now: Instant) -> Result<(), Instant> {
        let mut starts = self.starts.lock();
        self.forget(&mut starts, now);
        if self.set_aside() { Ok(()) } else { Err(starts.room_at(now, self.calls)) }
    }

    /// Whether there is room at `now` that costs nothing to ask for: it is given back if nothing starts.
    #[inline]
    pub(super) fn lends_room(&self) -> bool {
        self.spacing.is_none() && self.taken.load(Ordering::Relaxed) < self.allowed.load(Ordering::Relaxed)
    }

    /// Returns the number of attempts that may start at `now`. `None` for a limit that spaces them, which has no more
    /// than one at a time.
    pub(super) fn room(&self, now: Instant) -> Option<u32> {
        if self.spacing.is_some() {
            return None;
        }
        self.forget(&mut self.starts.lock(), now);
        let allowed = self.allowed.load(Ordering::Relaxed);
        Some(allowed.saturating_sub(self.taken.load(Ordering::Relaxed)))
    }

    /// Allows no more than so many starts in a period from now on; never more than the limit was made for.
    pub(super) fn allow(&self, calls: u32) {
        self.allowed.store(calls.min(self.calls), Ordering::Relaxed);
    }

    /// All starts so far, wrapping.
    pub(super) fn started(&self) -> u32 {
        self.started.load(Ordering::Relaxed)
    }

    /// Counts a start at `now`, for which room was taken before.
    #[inline]
    fn count(&self, now: Instant) {
        // One that comes here while another thread begins the next moment is counted in that: later, never earlier.
        if now.as_nanos() > self.counted_until.load(Ordering::Relaxed) {
            self.begin_moment(now);
        }
        // Released with the room that was taken for it: whoever forgets this start has seen that.
        self.started.fetch_add(1, Ordering::Release);
    }

    #[inline(never)]
    fn begin_moment(&self, now: Instant) {
        let mut starts = self.starts.lock();
        if now.as_nanos() > self.counted_until.load(Ordering::Relaxed) {
            self.end_moment(&mut starts);
            if starts.is_full() {
                // They are of more than a period, so that some of them are over.
                self.forget(&mut starts, now);
            }
            let until = now.as_nanos().div_ceil(self.moment_nanos).saturating_mul(self.moment_nanos);
            self.counted_until.store(until, Ordering::Relaxed);
        }
    }

    /// Remembers the starts counted so far. A later one of the same moment is one more of it.
    fn end_moment(&self, starts: &mut Starts) {
        let at = Instant::from_nanos(self.counted_until.load(Ordering::Relaxed));
        starts.remember(at, self.started.load(Ordering::Acquire));
    }

    /// Forgets what is a whole period old at `now`: there is room in its place.
    fn forget(&self, starts: &mut Starts, now: Instant) {
        self.end_moment(starts);
        self.taken.fetch_sub(starts.forget(now), Ordering::Relaxed);
    }
}

/// Room for one start. Dropped before it [began](Start::begin), nothing was sent, and the room is free again; the
/// spacing behind a short burst alone is not given back.
#[derive(Debug)]
pub(super) struct Start<'a> {
    rate: Option<&'a Rate>,
    /// A second limit that has set room aside for the same start.
    beside: Option<&'a Rate>,
}

impl<'a> Start<'a> {
    /// Combines one start for which two limits have set room aside.
    pub(super) fn and(mut self, mut other: Start<'a>) -> Start<'a> {
        self.beside = other.rate.take();
        self
    }

    /// The attempt starts at `now`. A second time changes nothing.
    #[inline]
    pub(super) fn begin(&mut self, now: Instant) {
        for rate in [self.rate.take(), self.beside.take()].into_iter().flatten() {
            let missing = 1 - set_aside_for_one();
            if missing > 0 {
                rate.taken.fetch_add(missing, Ordering::Relaxed);
            }
            // What was set aside is remembered from now on: the room stays taken.
            rate.count(now);
        }
    }
}

impl Drop for Start<'_> {
    #[inline]
    fn drop(&mut self) {
        for rate in [self.rate.take(), self.beside.take()].into_iter().flatten() {
            rate.taken.fetch_sub(set_aside_for_one(), Ordering::Relaxed);
        }
    }
}

/// Room that an attempt takes which was let through and has not started yet.
#[inline]
fn set_aside_for_one() -> u32 {
    Guard::RoomSetAside.keeps(1)
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

/// A limit of more calls than this does not remember them one by one: 8 kB at most, whatever the limit.
const ONE_BY_ONE_MAX: u32 = 512;

/// Number of moments in a period, for a limit that does not remember its starts one by one. Fewer than
/// [`ONE_BY_ONE_MAX`].
const MOMENTS: u64 = 500;

/// Governor adds burst × spacing to the time without checking. Both stay under a third of what 64 bits hold,
/// some 190 years.
const TIME_MAX_NANOS: u64 = u64::MAX / 3;
const HORIZON_NANOS: u64 = u64::MAX / 3;

/// A day: the longest period over which the vendors at hand count calls.
const PER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests;

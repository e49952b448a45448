//! The pace of recovery: a rate of its own, which climbs while the vendor answers well.

use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::invalid;
use super::rate::RateConfig;
use crate::clock::Instant;
use crate::error::invalid::InputErrorExt;
use crate::error::{Error, field};
use crate::guard::Guard;

pub(crate) mod part;

pub(crate) use part::Part;

/// Configuration of recovery's pace.
///
/// A backlog is no retry storm and no live traffic. Charged to the retry budget, 1,000 operations of a crash took
/// hours at a vendor in perfect health. Without any limit they would all reach a vendor that has just come back, in
/// the same second. The load that a vendor bears is only found by trying, so this is TCP's slow start (RFC 5681,
/// section 3.1). Each good answer raises the rate a little. A rate that is used doubles each second: 10/s are 200/s
/// after five seconds. Google's bulk writer for Firestore does the like, between a first and a highest number of
/// operations a second.
///
/// It falls fast. A failure halves the rate: once a second while good answers come between, and each time where none
/// does. Sixty that fail in a row take any rate to the floor. A 429, a pause and an open circuit take it back to the
/// start at least. The floor is one start in ten seconds and process, as the retry budget's. The reason is the same: a
/// floor that looks small is the whole load of a fleet. A rate that was not used for ten seconds proves nothing (RFC
/// 5681, section 4.1) and starts over. Linear growth after a fall, as TCP has it, was rejected. From 100/s to 200/s
/// would take a hundred seconds, and a vendor with one failure in a hundred would never get there.
///
/// Each send of a recovered operation is paid for here, and none by the retry budget of live calls; nor does it earn
/// into that. The first is paid before the operation is taken. A retry or a lookup in the same run is paid in debt. The
/// failure before it has halved the rate already, and the next operations wait until the debt is paid off. An operation
/// that needed no send gives its start back.
///
/// All gates come after this. Recovery is never faster than the rate limit, and has `share` of it and of the places
/// of the concurrency limit while live calls want the rest.
///
/// The rate is one for all dispatchers that deliver for an account from one store: each has a [`Part`] of the first and
/// of the highest rate. Each climbs by itself: that the sum of rates which double each second doubles too needs no word
/// between them. If one falls, all fall, as soon as they learn of it. Only the floor is each process's own.
///
/// ```
/// use steadfast::Policy;
/// use steadfast::policy::RecoveryConfig;
///
/// // From 5 operations a second to at most 50.
/// let recovery = RecoveryConfig::new(5, 50).share(0.25);
/// assert!(Policy::background().recovery(recovery).validate().is_ok());
///
/// let backwards = RecoveryConfig::new(50, 5);
/// assert!(Policy::background().recovery(backwards).validate().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RecoveryConfig {
    /// The first rate, in sends a second, over all processes that deliver for the account from one store. Default 10.
    pub start_per_second: u32,
    /// The highest rate, over all of them. Default 500: about what one process with a store in a file can write down.
    /// With a rate limit it is never over that.
    pub max_per_second: u32,
    /// Number of operations that each process carries on at once. Default 128: enough for 200 sends a second at a
    /// vendor that takes half a second for each. Each is held in memory with its request.
    pub at_once: u32,
    /// Recovery's part of the rate limit and of the concurrency limit while live calls want the rest, a fraction between
    /// 0 and 1. Default 0.5. Room that the other side does not want, each may have. Of the rate limit it is the part of all
    /// processes together that deliver for the account from one store.
    pub share: f64,
}

impl RecoveryConfig {
    /// Creates a pace from `start_per_second` up to `max_per_second`.
    pub fn new(start_per_second: u32, max_per_second: u32) -> RecoveryConfig {
        RecoveryConfig { start_per_second, max_per_second, at_once: 128, share: 0.5 }
    }

    /// Sets how many operations are carried on at once.
    #[must_use]
    pub fn at_once(mut self, at_once: u32) -> RecoveryConfig {
        self.at_once = at_once;
        self
    }

    /// Sets recovery's part of what it shares with live calls.
    #[must_use]
    pub fn share(mut self, share: f64) -> RecoveryConfig {
        self.share = share;
        self
    }

    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.start_per_second == 0 {
            return Err(invalid(
                field!(recovery.start_per_second),
                "0 never starts; to recover nothing, do not call keep_recovering",
            ));
        }
        if self.max_per_second < self.start_per_second {
            let start = field!(recovery.start_per_second);
            let reason = format!("{} is under {start}, {}", self.max_per_second, self.start_per_second);
            return Err(invalid(field!(recovery.max_per_second), reason).beside(start));
        }
        if self.max_per_second > PER_SECOND_MAX {
            let reason = format!("{} is over the limit of {PER_SECOND_MAX}", self.max_per_second);
            return Err(invalid(field!(recovery.max_per_second), reason));
        }
        if self.at_once == 0 {
            return Err(invalid(field!(recovery.at_once), "0 carries nothing on"));
        }
        if self.at_once > AT_ONCE_MAX {
            let reason = format!("{} is over the limit of {AT_ONCE_MAX}", self.at_once);
            return Err(invalid(field!(recovery.at_once), reason));
        }
        if !(self.share > 0.0 && self.share < 1.0) {
            let reason = format!("{} is not between 0 and 1: one of the two would have nothing", self.share);
            return Err(invalid(field!(recovery.share), reason));
        }
        Ok(())
    }
}

impl Default for RecoveryConfig {
    fn default() -> RecoveryConfig {
        RecoveryConfig::new(10, 500)
    }
}

/// Pace of recovery at run time.
#[derive(Debug)]
pub struct Recovery {
    /// First rate of all dispatchers together; `max` is the highest one.
    start: f64,
    max: f64,
    at_once: usize,
    pace: Mutex<Pace>,
}

#[derive(Debug)]
struct Pace {
    /// Number of dispatchers that share the rate, this one among them.
    dispatchers: f64,
    per_second: f64,
    /// Starts in hand; below zero, sends that are yet to be paid for.
    starts: f64,
    refilled_at: Instant,
    used_at: Instant,
    fell_at: Option<Instant>,
    /// The last fall that this process has seen the reason of, and whether the vendor asked for it.
    fell_for: Option<(Instant, Sign)>,
    /// No good answer has come since the rate fell.
    fails_in_a_row: bool,
}

/// Evidence of a recovered attempt about the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The vendor answered well.
    Good,
    /// The attempt failed.
    Failed,
    /// The vendor asked for less: a 429, a pause, an open circuit.
    TooMuch,
}

impl Recovery {
    /// The first rate, with one second's starts in hand. Figures that validation refuses are brought to the nearest
    /// that works.
    pub(super) fn new(
        config: &RecoveryConfig,
        rate: Option<&RateConfig>,
        concurrency: Option<u32>,
        now: Instant,
    ) -> Recovery {
        let limit = rate.map_or(f64::MAX, |rate| f64::from(rate.calls) / rate.per.as_secs_f64().max(1e-9));
        let max = f64::from(config.max_per_second).min(limit).max(FLOOR_PER_SECOND);
        let start = f64::from(config.start_per_second).min(max);
        let share = |places: u32| (f64::from(places) * config.share) as u32;
        let places = concurrency.map_or(u32::MAX, share);
        let pace = Pace {
            dispatchers: 1.0,
            per_second: start,
            starts: start.max(1.0),
            refilled_at: now,
            used_at: now,
            fell_at: None,
            fell_for: None,
            fails_in_a_row: false,
        };
        let at_once = config.at_once.min(places).max(1) as usize;
        Recovery { start, max, at_once, pace: Mutex::new(pace) }
    }

    /// Returns the number of sends a second that recovery may make at `now`.
    #[cfg(any(test, feature = "testkit"))]
    pub fn per_second(&self, now: Instant) -> f64 {
        self.refilled(now, |pace| pace.per_second)
    }

    /// Returns the number of operations that may be carried on at once.
    pub fn at_once(&self) -> usize {
        self.at_once
    }

    /// Returns the number of operations that may be taken at `now`.
    ///
    /// # Errors
    ///
    /// Else refuses with the time at which a batch of them may: a take is a write, and one for each operation would be
    /// as many.
    pub fn ready(&self, now: Instant) -> Result<usize, Instant> {
        self.refilled(now, |pace| {
            let batch = (pace.per_second * BATCH_SECONDS).floor().max(1.0);
            if pace.starts >= batch {
                return Ok(pace.starts as usize);
            }
            let seconds = (batch - pace.starts) / pace.per_second;
            // One nanosecond more, so that rounding does not have it come back for nothing.
            Err(now.plus(Duration::from_secs_f64(seconds.min(LONGEST_SECONDS)) + Duration::from_nanos(1)))
        })
    }

    /// Pays for `sends`, in debt if need be.
    pub fn pay(&self, sends: usize, now: Instant) {
        self.refilled(now, |pace| {
            pace.starts = (pace.starts - sends as f64).max(-DEBT_MAX);
            pace.used_at = pace.used_at.max(now);
        });
    }

    /// Gives a start back that came to no send.
    pub fn give_back(&self, now: Instant) {
        self.refilled(now, |pace| pace.starts += 1.0);
    }

    /// Says how a recovered attempt or lookup went.
    pub fn heed(&self, sign: Sign, now: Instant) {
        self.refilled(now, |pace| match sign {
            Sign::Good => {
                pace.fails_in_a_row = false;
                pace.per_second = (pace.per_second + GROWTH).min(self.max / pace.dispatchers);
            }
            Sign::Failed | Sign::TooMuch => {
                let is_new = pace.fell_at.is_none_or(|fell| now.since(fell) >= SECOND);
                if !is_new && !pace.fails_in_a_row {
                    return;
                }
                self.fall(pace, sign, now);
                pace.fell_for = Some((now, sign));
                pace.fails_in_a_row = true;
            }
        });
    }

    /// Lowers the rate to the first one: a gate is closed, and the vendor may be another when it opens again.
    pub fn restart(&self, now: Instant) {
        self.refilled(now, |pace| {
            pace.per_second = pace.per_second.min(self.start / pace.dispatchers);
            pace.starts = pace.starts.min(self.most(pace));
        });
    }

    /// Raises a rate that fell for a reason which was not the vendor's doing: it goes on at the first rate, if it is
    /// slower than that.
    pub(super) fn resume(&self, now: Instant) {
        self.refilled(now, |pace| {
            pace.per_second = pace.per_second.max(self.start / pace.dispatchers);
            pace.starts = pace.starts.max(1.0);
            pace.fails_in_a_row = false;
        });
    }

    /// The rate is shared by so many from now on. Who comes takes its part from those that are there; what one leaves
    /// they climb to by themselves.
    pub(super) fn divide(&self, dispatchers: u32, now: Instant) {
        let dispatchers = f64::from(dispatchers.max(1));
        self.refilled(now, |pace| {
            if dispatchers > pace.dispatchers {
                let floor = FLOOR_PER_SECOND.min(self.start / dispatchers);
                pace.per_second = (pace.per_second * pace.dispatchers / dispatchers).max(floor);
            }
            pace.dispatchers = dispatchers;
            pace.starts = pace.starts.min(self.most(pace));
        });
    }

    /// The last fall for a reason that this process has seen.
    pub fn fell(&self, now: Instant) -> Option<(Instant, Sign)> {
        self.refilled(now, |pace| pace.fell_for)
    }

    /// Applies a fall of another dispatcher, so long `ago`. One within a second after a fall of our own, or before it,
    /// had the same reason.
    pub fn heard(&self, sign: Sign, ago: Duration, now: Instant) {
        let at = Instant::from_nanos(now.as_nanos().saturating_sub(super::as_nanos(ago)));
        self.refilled(now, |pace| {
            if pace.fell_at.is_none_or(|fell| at > fell.plus(SECOND)) {
                self.fall(pace, sign, at);
            }
        });
    }

    fn fall(&self, pace: &mut Pace, sign: Sign, at: Instant) {
        let start = self.start / pace.dispatchers;
        let half = pace.per_second / Guard::RecoveryFalls.or(2.0, 1.0);
        let fallen = if sign == Sign::TooMuch { half.min(start) } else { half };
        pace.per_second = fallen.max(FLOOR_PER_SECOND.min(start));
        pace.starts = pace.starts.min(self.most(pace));
        pace.fell_at = Some(at);
    }

    fn refilled<T>(&self, now: Instant, then: impl FnOnce(&mut Pace) -> T) -> T {
        let mut pace = self.pace.lock();
        if now.since(pace.used_at) >= IDLE {
            pace.per_second = pace.per_second.min(self.start / pace.dispatchers);
        }
        let earned = now.since(pace.refilled_at).as_secs_f64() * pace.per_second;
        pace.refilled_at = pace.refilled_at.max(now);
        // Debt of a faster time is not to hold up a vendor that is back: at any rate ten seconds pay it off. Starts
        // earned since then count on top.
        let least = -(pace.per_second * DEBT_SECONDS).max(1.0);
        pace.starts = (pace.starts.max(least) + earned).min(self.most(&pace));
        then(&mut pace)
    }

    /// Returns the most starts in hand: one second's at first, and later no more than are taken together.
    fn most(&self, pace: &Pace) -> f64 {
        let burst = (self.start / pace.dispatchers).min(pace.per_second).max(1.0);
        burst.max(pace.per_second * BATCH_SECONDS * 2.0)
    }
}

/// Growth of the rate by a good answer: at so many a second it doubles in a second, and not before.
const GROWTH: f64 = std::f64::consts::LN_2;

/// The lowest rate, in sends a second: that of the retry budget's refill.
const FLOOR_PER_SECOND: f64 = 0.1;

/// Time whose operations are taken together: twenty writes a second at most.
const BATCH_SECONDS: f64 = 0.05;

/// Idle time after which the vendor may be another.
const IDLE: Duration = Duration::from_secs(10);

const SECOND: Duration = Duration::from_secs(1);

/// Time for which debt is paid off, at the most.
const DEBT_SECONDS: f64 = 10.0;

/// No debt of one payment is larger, at any rate.
const DEBT_MAX: f64 = 100.0;

/// Longest wait: at the floor, with all the debt there can be.
const LONGEST_SECONDS: f64 = 2_000.0;

/// Above this it is no recovery, and no vendor at hand bears it.
const PER_SECOND_MAX: u32 = 10_000;

/// Each may hold a request of a MiB.
const AT_ONCE_MAX: u32 = 4_096;

#[cfg(test)]
mod tests;

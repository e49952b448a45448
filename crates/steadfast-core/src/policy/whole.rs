//! [`Policy`] puts the configurations together and validates across them.

use std::time::Duration;

use super::{
    Backoff, BreakerConfig, BudgetConfig, InFlight, RateConfig, RecoveryConfig, Timeouts, concurrency,
    invalid, limits, pause,
};
use crate::error::invalid::InputErrorExt;
use crate::error::{Error, field};
use crate::policy::backoff::BackoffExt;
use crate::policy::timeout::TimeoutsExt;

/// Everything that decides how one vendor is called.
///
/// Start from [`Policy::background`] (the default) or [`Policy::interactive`] and change what differs. In a
/// file, a part that can be off is switched off with `false`: `breaker = false`.
///
/// ```
/// use std::time::Duration;
/// use steadfast::Policy;
/// use steadfast::policy::RateConfig;
///
/// let policy = Policy::interactive()
///     .rate(RateConfig::new(100, Duration::from_secs(1)))
///     .without_breaker();
/// assert!(policy.validate().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// The waits between attempts.
    pub backoff: Backoff,
    /// Limits to connect, for an attempt, and for the call.
    pub timeout: Timeouts,
    /// The longest that one answer of the vendor holds back all calls. Default 1 h. In the vendors file: `pause`, with
    /// `max`.
    pub pause_max: Duration,
    /// Breaker: when to stop calling a vendor that fails. Default on.
    pub breaker: Option<BreakerConfig>,
    /// Retry budget: the number of retries that the client may add to its calls. Default on.
    pub budget: Option<BudgetConfig>,
    /// Rate limit: the number of attempts that may start in a time. Default off: only the vendor's documentation has
    /// the number.
    pub rate: Option<RateConfig>,
    /// Concurrency limit: the number of attempts that may be under way at once. Default off, for the same reason. In
    /// the vendors file: with `max`, 64 if it is left out.
    pub concurrency: Option<u32>,
    /// Pace of recovery.
    pub recovery: RecoveryConfig,
    /// The largest request body, in bytes. Default 1 MiB: it is stored with its operation and held while it is
    /// retried. In the vendors file: `limits`, with `request_bytes_max`.
    pub request_bytes_max: usize,
    /// The largest reply body, in bytes. Default 8 MiB. A longer one is cut there and reported. In the vendors file:
    /// `limits`, with `reply_bytes_max`.
    pub reply_bytes_max: usize,
    /// Retention: the time for which a settled operation is on record, and its reply replayed. Default 7 days. In the
    /// vendors file: `record`, with `keep`.
    pub retention: Duration,
    /// Time by which a holder's lease is longer than its attempt, to write down the answer. Default 30 s: a store that
    /// needs longer for one write is itself an outage. In the vendors file: `record`, with `lease_margin`.
    pub lease_margin: Duration,
    /// Longest wait of a first attempt for our own gates, instead of a refusal at once. Default 0.
    pub admission_wait: Duration,
    /// Policy for a call whose key another call holds. Default [`InFlight::Refuse`].
    pub in_flight: InFlight,
    /// Number of lookups of an unknown outcome before it becomes a dead letter. Default 3, 0 for never.
    pub lookups_max: u32,
}

impl Policy {
    /// Policy for background work: the ladder 500 ms, 2 s, 5 s, 30 s; 5 s to connect, 30 s an attempt, 120 s in all.
    /// The default.
    pub fn background() -> Policy {
        Policy {
            backoff: Backoff::background(),
            timeout: Timeouts::background(),
            pause_max: pause::MAX,
            breaker: Some(BreakerConfig::default()),
            budget: Some(BudgetConfig::default()),
            rate: None,
            concurrency: None,
            recovery: RecoveryConfig::default(),
            request_bytes_max: limits::REQUEST_BYTES,
            reply_bytes_max: limits::REPLY_BYTES,
            retention: limits::RETENTION,
            lease_margin: limits::LEASE_MARGIN,
            admission_wait: Duration::ZERO,
            in_flight: InFlight::Refuse,
            lookups_max: 3,
        }
    }

    /// Policy for a call that a person waits for: 200, 400, 800 and 1,600 ms with equal jitter, so at most five
    /// attempts. It has 1 s to connect, 5 s an attempt, 10 s in all.
    pub fn interactive() -> Policy {
        Policy::background().backoff(Backoff::interactive()).timeout(Timeouts::interactive())
    }

    /// Sets the waits between attempts.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Policy {
        self.backoff = backoff;
        self
    }

    /// Sets the time limits.
    #[must_use]
    pub fn timeout(mut self, timeout: Timeouts) -> Policy {
        self.timeout = timeout;
        self
    }

    /// Sets how far a pause that the vendor asks for (`Retry-After`) is followed: the longest that one answer holds back
    /// all calls. A call whose answer asked for longer is not sent earlier: its operation is scheduled for the time that
    /// the vendor named. The others go on after this. Without a limit, one bad header (`Retry-After: 31536000` has been
    /// seen) switches the vendor off for a year.
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::Policy;
    ///
    /// // No vendor may hold us back for longer than ten minutes at a time.
    /// let policy = Policy::background().pause_max(Duration::from_secs(600));
    /// assert!(policy.validate().is_ok());
    /// ```
    #[must_use]
    pub fn pause_max(mut self, max: Duration) -> Policy {
        self.pause_max = max;
        self
    }

    /// Sets the circuit breaker.
    #[must_use]
    pub fn breaker(mut self, breaker: BreakerConfig) -> Policy {
        self.breaker = Some(breaker);
        self
    }

    /// Takes the breaker away: a failing vendor is called for ever. An outage then costs recovered operations their
    /// ladder: it looks like their own trouble.
    #[must_use]
    pub fn without_breaker(mut self) -> Policy {
        self.breaker = None;
        self
    }

    /// Sets the retry budget.
    #[must_use]
    pub fn budget(mut self, budget: BudgetConfig) -> Policy {
        self.budget = Some(budget);
        self
    }

    /// Takes the retry budget away: every call climbs its whole ladder, and their sum at the vendor has no limit.
    #[must_use]
    pub fn without_budget(mut self) -> Policy {
        self.budget = None;
        self
    }

    /// Sets the rate limit.
    #[must_use]
    pub fn rate(mut self, rate: RateConfig) -> Policy {
        self.rate = Some(rate);
        self
    }

    /// Takes the rate limit away.
    #[must_use]
    pub fn without_rate(mut self) -> Policy {
        self.rate = None;
        self
    }

    /// Sets the concurrency limit: at most `max` attempts are under way at once in this client, at least 1. A call over
    /// it is refused and does not wait in line: a queue in front of a slow vendor only moves the wait to where it cannot
    /// be seen.
    ///
    /// ```
    /// let policy = steadfast::Policy::background().concurrency(8);
    /// assert!(policy.validate().is_ok());
    /// ```
    #[must_use]
    pub fn concurrency(mut self, max: u32) -> Policy {
        self.concurrency = Some(max);
        self
    }

    /// Takes the concurrency limit away.
    #[must_use]
    pub fn without_concurrency(mut self) -> Policy {
        self.concurrency = None;
        self
    }

    /// Sets how fast recovery delivers.
    #[must_use]
    pub fn recovery(mut self, recovery: RecoveryConfig) -> Policy {
        self.recovery = recovery;
        self
    }

    /// Sets the largest request body, in bytes.
    #[must_use]
    pub fn request_bytes_max(mut self, bytes: usize) -> Policy {
        self.request_bytes_max = bytes;
        self
    }

    /// Sets the largest reply body, in bytes. Bodies are held in memory: without a limit, a vendor's proxy that answers
    /// with an endless page takes the process down.
    ///
    /// ```
    /// use steadfast::Policy;
    ///
    /// // 64 KiB out, 1 MiB back.
    /// let policy = Policy::background().request_bytes_max(64 * 1024).reply_bytes_max(1024 * 1024);
    /// assert!(policy.validate().is_ok());
    /// ```
    #[must_use]
    pub fn reply_bytes_max(mut self, bytes: usize) -> Policy {
        self.reply_bytes_max = bytes;
        self
    }

    /// Sets how long a settled operation is on record, and its reply replayed. A record without an end fills the store.
    /// One that ends too early forgets that a key was used while the vendor, or the caller, may still use it.
    ///
    /// A job that is run again or a queue that is replayed can repeat a payment by mistake, usually within the week. By
    /// then Stripe has forgotten the key ("Idempotent requests" in its API reference: after 24 hours). At least the
    /// vendor's own replay window and the longest that a call takes together: `build()` refuses less, and raises the
    /// default. A client can set another for routes, and a
    /// call for itself. Dead letters are kept until they are resolved.
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::Policy;
    ///
    /// let month = Duration::from_secs(30 * 86_400);
    /// assert!(Policy::background().retention(month).validate().is_ok());
    ///
    /// // Forgotten before its own call is over: refused.
    /// let minute = Duration::from_secs(60);
    /// assert!(Policy::background().retention(minute).validate().is_err());
    /// ```
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Policy {
        self.retention = retention;
        self
    }

    /// Sets how much longer than its attempt a holder's lease lasts.
    #[must_use]
    pub fn lease_margin(mut self, margin: Duration) -> Policy {
        self.lease_margin = margin;
        self
    }

    /// Sets how long a first attempt may wait for our own gates.
    #[must_use]
    pub fn admission_wait(mut self, wait: Duration) -> Policy {
        self.admission_wait = wait;
        self
    }

    /// Sets what a call does while another call holds its key.
    #[must_use]
    pub fn in_flight(mut self, in_flight: InFlight) -> Policy {
        self.in_flight = in_flight;
        self
    }

    /// Sets how often an unknown outcome is looked up.
    #[must_use]
    pub fn lookups_max(mut self, lookups_max: u32) -> Policy {
        self.lookups_max = lookups_max;
        self
    }

    /// Checks every part, and the parts against each other.
    ///
    /// # Errors
    ///
    /// A validation error that names the first field with an impossible value, the value and the reason.
    pub fn validate(&self) -> Result<(), Error> {
        self.backoff.validate()?;
        self.timeout.validate()?;
        pause::validate(self.pause_max)?;
        limits::validate_bodies(self.request_bytes_max, self.reply_bytes_max)?;
        limits::validate_record(self)?;
        if let Some(breaker) = &self.breaker {
            breaker.validate(self.timeout.attempt)?;
        }
        if let Some(budget) = &self.budget {
            budget.validate()?;
        }
        if let Some(rate) = &self.rate {
            rate.validate()?;
        }
        if let Some(max) = self.concurrency {
            concurrency::validate(max)?;
        }
        self.recovery.validate()?;
        if self.admission_wait > self.timeout.total {
            let total = field!(timeout.total);
            let reason =
                format!("{:?} is longer than {total}, {:?}", self.admission_wait, self.timeout.total);
            return Err(invalid(field!(admission_wait), reason).beside(total));
        }
        if self.lookups_max > LOOKUPS_MAX {
            let reason = format!("{} is over the limit of {LOOKUPS_MAX}", self.lookups_max);
            return Err(invalid(field!(lookups_max), reason));
        }
        Ok(())
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::background()
    }
}

/// Most lookups: one that could not tell this often will not tell.
const LOOKUPS_MAX: u32 = 100;

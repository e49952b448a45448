//! [`Policy`] puts the configurations together and validates across them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Backoff, BodyLimits, BreakerConfig, BudgetConfig, ConcurrencyConfig, InFlight, PauseConfig, RateConfig,
    RecordConfig, RecoveryConfig, Timeouts, invalid, switch,
};
use crate::error::{Error, field};

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Policy {
    /// The waits between attempts.
    pub backoff: Backoff,
    /// To connect, for an attempt, for the call.
    pub timeout: Timeouts,
    /// How far a pause that the vendor asks for is followed.
    pub pause: PauseConfig,
    /// When to stop calling a vendor that fails. Default on.
    #[serde(with = "switch")]
    pub breaker: Option<BreakerConfig>,
    /// How many retries the client may add to its calls. Default on.
    #[serde(with = "switch")]
    pub budget: Option<BudgetConfig>,
    /// How many attempts may start in a time. Default off: only the vendor's documentation has the number.
    #[serde(with = "switch")]
    pub rate: Option<RateConfig>,
    /// How many attempts may be under way at once. Default off, for the same reason.
    #[serde(with = "switch")]
    pub concurrency: Option<ConcurrencyConfig>,
    /// How fast recovery delivers.
    pub recovery: RecoveryConfig,
    /// How large bodies may be.
    pub limits: BodyLimits,
    /// The retention of records.
    pub record: RecordConfig,
    /// How long a first attempt may wait for our own gates instead of being refused at once. Default 0.
    #[serde(with = "humantime_serde")]
    pub admission_wait: Duration,
    /// What a call does while another call holds its key. Default [`InFlight::Refuse`].
    pub in_flight: InFlight,
    /// How often an unknown outcome is looked up before it becomes a dead letter. Default 3, 0 for never.
    pub look_ups_max: u32,
}

impl Policy {
    /// For background work: the ladder 500 ms, 2 s, 5 s, 30 s; 5 s to connect, 30 s an attempt, 120 s in all. The
    /// default.
    pub fn background() -> Policy {
        Policy {
            backoff: Backoff::background(),
            timeout: Timeouts::background(),
            pause: PauseConfig::default(),
            breaker: Some(BreakerConfig::default()),
            budget: Some(BudgetConfig::default()),
            rate: None,
            concurrency: None,
            recovery: RecoveryConfig::default(),
            limits: BodyLimits::default(),
            record: RecordConfig::default(),
            admission_wait: Duration::ZERO,
            in_flight: InFlight::Refuse,
            look_ups_max: 3,
        }
    }

    /// For a person who waits: 200, 400, 800 and 1,600 ms with equal jitter, so at most five attempts. It has 1 s to
    /// connect, 5 s an attempt, 10 s in all.
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

    /// Sets how far a vendor's request for a pause is followed.
    #[must_use]
    pub fn pause(mut self, pause: PauseConfig) -> Policy {
        self.pause = pause;
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

    /// Takes the retry budget away: every call climbs its whole ladder, whatever that adds up to at the vendor.
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

    /// Sets the concurrency limit.
    #[must_use]
    pub fn concurrency(mut self, concurrency: ConcurrencyConfig) -> Policy {
        self.concurrency = Some(concurrency);
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

    /// Sets the limits on bodies.
    #[must_use]
    pub fn limits(mut self, limits: BodyLimits) -> Policy {
        self.limits = limits;
        self
    }

    /// Sets the retention of records.
    #[must_use]
    pub fn record(mut self, record: RecordConfig) -> Policy {
        self.record = record;
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
    pub fn look_ups_max(mut self, look_ups_max: u32) -> Policy {
        self.look_ups_max = look_ups_max;
        self
    }

    /// The part of this policy that one call may override.
    pub fn for_call(&self) -> CallPolicy {
        CallPolicy { backoff: self.backoff.clone(), timeout: self.timeout }
    }

    /// Checks every part, and the parts against each other.
    ///
    /// # Errors
    ///
    /// A validation error that names the first field with an impossible value, the value and the reason.
    pub fn validate(&self) -> Result<(), Error> {
        self.backoff.validate()?;
        self.timeout.validate()?;
        self.pause.validate()?;
        self.limits.validate()?;
        self.record.validate(self.backoff.longest(), self.timeout.total)?;
        if let Some(breaker) = &self.breaker {
            breaker.validate(self.timeout.attempt)?;
        }
        if let Some(budget) = &self.budget {
            budget.validate()?;
        }
        if let Some(rate) = &self.rate {
            rate.validate()?;
        }
        if let Some(concurrency) = &self.concurrency {
            concurrency.validate()?;
        }
        self.recovery.validate()?;
        if self.admission_wait > self.timeout.total {
            let total = field!(timeout.total);
            let reason =
                format!("{:?} is longer than {total}, {:?}", self.admission_wait, self.timeout.total);
            return Err(invalid(field!(admission_wait), reason).beside(total));
        }
        if self.look_ups_max > LOOK_UPS_MAX {
            let reason = format!("{} is over the limit of {LOOK_UPS_MAX}", self.look_ups_max);
            return Err(invalid(field!(look_ups_max), reason));
        }
        Ok(())
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::background()
    }
}

/// The part of a policy that one call may override. All calls to a vendor share the rest: a call with a budget of its
/// own would be a way around the budget.
///
/// ```
#[doc = include_str!("../docs/setup/stripe.md")]
/// use steadfast::CallPolicy;
/// use steadfast::policy::Backoff;
///
/// // A page waits for this list: ten seconds at most, and one attempt.
/// let quick = CallPolicy::interactive().backoff(Backoff::none());
/// let reply = stripe.get("/v1/charges").policy(quick).send().await?;
/// assert_eq!(reply.attempts(), 1);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct CallPolicy {
    /// The waits between attempts.
    pub backoff: Backoff,
    /// To connect, for an attempt, for the call. The connect limit belongs to the connection pool and is the
    /// client's; a call cannot change it.
    pub timeout: Timeouts,
}

impl CallPolicy {
    /// As [`Policy::background`]. The default.
    pub fn background() -> CallPolicy {
        Policy::background().for_call()
    }

    /// As [`Policy::interactive`].
    pub fn interactive() -> CallPolicy {
        Policy::interactive().for_call()
    }

    /// Sets the waits between attempts.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> CallPolicy {
        self.backoff = backoff;
        self
    }

    /// Sets the time limits.
    #[must_use]
    pub fn timeout(mut self, timeout: Timeouts) -> CallPolicy {
        self.timeout = timeout;
        self
    }

    /// Checks both parts. What depends on the client's policy (how long records are kept, the breaker's window)
    /// is not checked here.
    ///
    /// # Errors
    ///
    /// A validation error that names the field and the reason.
    pub fn validate(&self) -> Result<(), Error> {
        self.backoff.validate()?;
        self.timeout.validate()
    }
}

/// A lookup that could not tell this often will not tell.
const LOOK_UPS_MAX: u32 = 100;

//! Conditions under which a circuit opens, its open time, and the probes that close it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::invalid::InputErrorExt;
use crate::error::{Error, Field, field};
use crate::policy::{check_ratio, check_window, invalid, switch};

/// Configuration of the breaker: when to stop calling a vendor that fails. Any one of the conditions opens the circuit;
/// each may be off.
///
/// **Conditions.** Failures in a row, or the share of failures or of slow calls over a sliding *time* window. One
/// call's failures count once until the vendor succeeds again, however often it is sent: see `row`. A window over the
/// last *n* calls was rejected: after long health it needs as many failures as it saw successes. A 429 is feedback on
/// our load and counts for nothing here; a refusal (4xx) proves life.
///
/// **Open time.** Starts at 1 s, doubles per failed round of probes, ends at 30 s. A breaker that is open for 30 s
/// from the start throws away the minute after the vendor's recovery. In the simulation of the [policy](super) that
/// was 11 % of the calls after the outage. Each time is drawn from the last fifth of its step, so that a fleet does
/// not probe in step, and never beyond it.
///
/// **Half-open.** A fixed number of probes at once, held by RAII permits: one that hangs keeps its place. Other breakers count probes when they complete.
/// Their clones admit too many at once, and a probe that is cancelled is never given back and wedges the circuit for
/// ever (tower-resilience#407, resilience4j#544, Polly#223). Here a place is taken at admission and given back by
/// `Drop`.
///
/// **Generations.** Every change of state begins a new generation, and a permit counts only in its own. A call that
/// was admitted before the circuit opened and fails after it has closed again says nothing about the vendor as it is
/// now.
///
/// **Cost.** Closed, a call that succeeds reads two words and writes one; open, a refusal is three loads. Only
/// failures, slow calls and probes take the lock, so that what they decide is decided once.
///
/// ```
/// use std::time::Duration;
/// use steadfast::Policy;
/// use steadfast::policy::BreakerConfig;
///
/// let breaker = BreakerConfig::default()
///     .consecutive_failures(10)
///     .slow_call(Duration::from_secs(8), 0.8); // 80 % took over 8 s
/// assert!(Policy::background().breaker(breaker).validate().is_ok());
///
/// // A circuit that never opens is a mistake, and is refused as one.
/// let never = BreakerConfig::default().consecutive_failures(None).failure_rate(None);
/// assert!(Policy::background().breaker(never).validate().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct BreakerConfig {
    /// Opens after this many failures in a row, each of another call or operation: its attempts count once.
    /// Default 5.
    #[serde(with = "switch")]
    pub consecutive_failures: Option<u32>,
    /// Opens when this share of the window's calls failed, 0 to 1. Default 0.5. One call's failures count once
    /// until the vendor succeeds again. A ratio of four decimals or more stands for the fraction that rounds to it:
    /// 0.6667 is two of three.
    #[serde(with = "switch")]
    pub failure_rate: Option<f64>,
    /// Opens when a share of the window's calls was slow. Default off: only the service knows what is slow.
    #[serde(with = "switch")]
    pub(crate) slow_call: Option<SlowCall>,
    /// Number of calls that the window must hold before a rate is looked at. Default 20: at half that, one unlucky
    /// handful of failures is a rate of 0.5.
    pub minimum_calls: u32,
    /// The time over which rates are measured. Default 60 s; at least an attempt's timeout.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// First open time of the circuit. Default 1 s: in the simulation of the [policy](crate::policy), an open time of
    /// 30 s threw away the minute after the vendor's recovery.
    #[serde(with = "humantime_serde")]
    pub open_base: Duration,
    /// The longest that it stays open; the time doubles from `open_base` to here with each failed round of
    /// probes. Default 30 s.
    #[serde(with = "humantime_serde")]
    pub open_cap: Duration,
    /// Number of probes of a round, all of which must succeed for the circuit to close. Default 3.
    pub probes: u32,
}

/// Latency that counts as slow, and the share of slow calls that opens the circuit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowCall {
    /// A call that takes longer than this is slow, whatever its outcome.
    #[serde(with = "humantime_serde")]
    pub over: Duration,
    /// Opens when this share of the window's calls was slow, 0 to 1.
    pub rate: f64,
}

impl BreakerConfig {
    /// Sets the number of failures in a row, or switches that condition off.
    #[must_use]
    pub fn consecutive_failures(mut self, failures: impl Into<Option<u32>>) -> BreakerConfig {
        self.consecutive_failures = failures.into();
        self
    }

    /// Sets the share of failures, or switches that condition off.
    #[must_use]
    pub fn failure_rate(mut self, rate: impl Into<Option<f64>>) -> BreakerConfig {
        self.failure_rate = rate.into();
        self
    }

    /// Opens the circuit when the share `rate` of the window's calls, 0 to 1, took longer than `over`. Default off: only
    /// the service knows what is slow. In the vendors file: `slow_call`, with `over` and `rate`.
    ///
    /// A call that takes longer than `over` is slow, whatever its outcome. `over` must be below the attempt's timeout.
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::Policy;
    /// use steadfast::policy::BreakerConfig;
    ///
    /// // Open when half of the calls take more than two seconds.
    /// let breaker = BreakerConfig::default().slow_call(Duration::from_secs(2), 0.5);
    /// assert!(Policy::background().breaker(breaker).validate().is_ok());
    ///
    /// // An attempt is cut off after 30 s: no call can take longer.
    /// let never = BreakerConfig::default().slow_call(Duration::from_secs(60), 0.5);
    /// assert!(Policy::background().breaker(never).validate().is_err());
    /// ```
    #[must_use]
    pub fn slow_call(mut self, over: Duration, rate: f64) -> BreakerConfig {
        self.slow_call = Some(SlowCall { over, rate });
        self
    }

    /// Switches the condition of [slow calls](BreakerConfig::slow_call) off.
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::policy::BreakerConfig;
    ///
    /// let breaker = BreakerConfig::default().slow_call(Duration::from_secs(2), 0.5);
    /// assert_eq!(breaker.without_slow_call(), BreakerConfig::default());
    /// ```
    #[must_use]
    pub fn without_slow_call(mut self) -> BreakerConfig {
        self.slow_call = None;
        self
    }

    /// Sets how many calls the window must hold before a rate is looked at.
    #[must_use]
    pub fn minimum_calls(mut self, calls: u32) -> BreakerConfig {
        self.minimum_calls = calls;
        self
    }

    /// Sets the time over which rates are measured.
    #[must_use]
    pub fn window(mut self, window: Duration) -> BreakerConfig {
        self.window = window;
        self
    }

    /// Sets how long the circuit stays open at first and at most.
    #[must_use]
    pub fn open(mut self, base: Duration, cap: Duration) -> BreakerConfig {
        self.open_base = base;
        self.open_cap = cap;
        self
    }

    /// Sets how many probes must succeed.
    #[must_use]
    pub fn probes(mut self, probes: u32) -> BreakerConfig {
        self.probes = probes;
        self
    }

    fn validate_open(&self) -> Result<(), Error> {
        if self.open_base.is_zero() {
            return Err(invalid(field!(breaker.open_base), "zero never keeps a call back"));
        }
        if self.open_cap < self.open_base {
            let base = field!(breaker.open_base);
            let reason = format!("{:?} is shorter than {base}, {:?}", self.open_cap, self.open_base);
            return Err(invalid(field!(breaker.open_cap), reason).beside(base));
        }
        if self.open_cap > OPEN_MAX {
            let reason = format!("{:?} is longer than the limit of {OPEN_MAX:?}", self.open_cap);
            return Err(invalid(field!(breaker.open_cap), reason));
        }
        if self.probes == 0 {
            return Err(invalid(
                field!(breaker.probes),
                "0 lets no call through, so that an open circuit never closes",
            ));
        }
        Ok(())
    }
}

impl BreakerConfig {
    pub(crate) fn validate(&self, attempt: Duration) -> Result<(), Error> {
        if self.consecutive_failures == Some(0) {
            return Err(invalid(
                field!(breaker.consecutive_failures),
                "0 would never close; switch it off with false",
            ));
        }
        if let Some(rate) = self.failure_rate {
            check_open_rate(field!(breaker.failure_rate), rate)?;
        }
        if let Some(slow) = &self.slow_call {
            check_open_rate(field!(breaker.slow_call.rate), slow.rate)?;
            if slow.over.is_zero() {
                return Err(invalid(field!(breaker.slow_call.over), "zero makes every call slow"));
            }
            if slow.over >= attempt {
                let field = field!(timeout.attempt);
                let reason = format!("{:?} is not below {field}, {attempt:?}: no call is slow", slow.over);
                return Err(invalid(field!(breaker.slow_call.over), reason).beside(field));
            }
        }
        if self.consecutive_failures.is_none() && self.failure_rate.is_none() && self.slow_call.is_none() {
            return Err(invalid(
                field!(breaker),
                "no condition is on, so that it never opens; switch it off with false",
            ));
        }
        if self.minimum_calls == 0 {
            return Err(invalid(field!(breaker.minimum_calls), "0 calls have no rate"));
        }
        check_window(field!(breaker.window), self.window)?;
        if self.window < attempt {
            let field = field!(timeout.attempt);
            let reason = format!(
                "{:?} is shorter than {field}, {attempt:?}: calls would leave the window before they time out",
                self.window
            );
            return Err(invalid(field!(breaker.window), reason).beside(field));
        }
        self.validate_open()
    }
}

impl Default for BreakerConfig {
    fn default() -> BreakerConfig {
        BreakerConfig {
            consecutive_failures: Some(5),
            failure_rate: Some(0.5),
            slow_call: None,
            minimum_calls: 20,
            window: Duration::from_secs(60),
            open_base: Duration::from_secs(1),
            open_cap: Duration::from_secs(30),
            probes: 3,
        }
    }
}

fn check_open_rate(field: Field, rate: f64) -> Result<(), Error> {
    check_ratio(field.clone(), rate)?;
    if rate == 0.0 { Err(invalid(field, "0 opens on health; switch it off with false")) } else { Ok(()) }
}

/// A circuit open for longer than a day is a kill switch, and there is one.
const OPEN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

//! The wait before the next attempt, and the end of trying.

use std::time::Duration;

use easy_ext::ext;
use serde::{Deserialize, Serialize};

use super::{as_nanos, invalid};
use crate::error::{Error, field};

/// The waits between attempts.
///
/// The waits are data, a ladder, not a formula: 500 ms, 2 s, 5 s, 30 s can be read, changed and argued about
/// where `base × factor^n` has to be computed first. Two things go wrong with jitter in the wild, and the
/// arithmetic here is laid out against both:
///
/// - *added after the cap*: a wait longer than the policy allows. Here every draw is inside the step;
/// - *lost at the cap*: `min(cap, draw)` turns every draw above the cap into the cap itself, so that exactly
///   the clients that have failed longest come back together. Here the *range* is capped, then drawn from.
///
/// Jitter does not prevent collapse. In a simulation, 1,000 clients called a vendor that was down for 60 s. The
/// ladder lost 99.7 % of the calls after the outage without jitter and 99.6 % with it. It spreads waits, and nothing
/// more; [`budget`](super::budget) is what bounds load.
///
/// ```
/// use std::time::Duration;
/// use steadfast::Policy;
/// use steadfast::policy::{Backoff, Jitter};
///
/// let (base, cap) = (Duration::from_millis(200), Duration::from_secs(5));
/// let backoff = Backoff::exponential(base, cap, 4).jitter(Jitter::Equal);
///
/// // The first retry comes after 100 to 200 ms; after the fourth there is none.
/// assert_eq!(backoff.wait(0, Duration::ZERO, 0.0), Some(Duration::from_millis(100)));
/// assert_eq!(backoff.wait(4, Duration::ZERO, 0.0), None);
/// assert!(Policy::background().backoff(backoff).validate().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Backoff {
    /// The longest wait before the first retry, the second, and so on. As many retries as steps. Default 500 ms,
    /// 2 s, 5 s, 30 s.
    #[serde(with = "ladder")]
    pub steps: Vec<Duration>,
    /// Draw of a wait from its step. Default [`Jitter::Full`].
    pub jitter: Jitter,
}

/// Way in which a wait is drawn from its step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Jitter {
    /// Uniform in `[0, step)`. Spreads widest; the default.
    #[default]
    Full,
    /// Uniform in `[step/2, step)`: never sooner than half the step.
    Equal,
    /// Uniform in `[first step, 3 × the previous wait)`, the upper end never beyond the last step. A ladder
    /// whose range would be narrower than half its upper end is drawn from that half, so that some jitter
    /// always remains.
    Decorrelated,
    /// The step itself. Clients that fail together come back together: for tests and single clients.
    None,
}

impl Backoff {
    /// Makes a ladder of as many retries as steps, with full jitter.
    pub fn ladder(steps: impl IntoIterator<Item = Duration>) -> Backoff {
        Backoff { steps: steps.into_iter().collect(), jitter: Jitter::Full }
    }

    /// `base`, twice that, and so on, never beyond `cap` (which wins over a longer `base`): `retries` steps, up
    /// to the limit of 64, with full jitter.
    pub fn exponential(base: Duration, cap: Duration, retries: u32) -> Backoff {
        let step = |retry: u32| base.saturating_mul(2u32.saturating_pow(retry)).min(cap);
        Backoff::ladder((0..retries.min(STEPS_MAX as u32)).map(step))
    }

    /// Makes one attempt and no retry.
    pub fn none() -> Backoff {
        Backoff::ladder([])
    }

    /// Waits for background work: 500 ms, 2 s, 5 s, 30 s. The default.
    pub fn background() -> Backoff {
        Backoff::ladder([500, 2_000, 5_000, 30_000].map(Duration::from_millis))
    }

    /// Waits for a call that a person waits for: 200, 400, 800 and 1,600 ms with equal jitter. No retry comes at once,
    /// and five attempts that fail quickly are over in 3 s.
    pub fn interactive() -> Backoff {
        Backoff::ladder([200, 400, 800, 1_600].map(Duration::from_millis)).jitter(Jitter::Equal)
    }

    /// Sets the jitter.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Backoff {
        self.jitter = jitter;
        self
    }

    /// The wait before retry number `retry` (0 for the first), or `None` if the ladder is spent.
    ///
    /// `previous` is the wait before this one (zero for the first; only decorrelated jitter looks at it).
    /// `unit` is a draw from `[0, 1)`; anything outside, NaN included, is brought inside.
    pub fn wait(&self, retry: u32, previous: Duration, unit: f64) -> Option<Duration> {
        let step = as_nanos(*self.steps.get(usize::try_from(retry).ok()?)?);
        let nanos = match self.jitter {
            Jitter::None => step,
            Jitter::Full => draw(0, step, unit),
            Jitter::Equal => draw(step / 2, step, unit),
            Jitter::Decorrelated => {
                let first = as_nanos(*self.steps.first()?);
                let cap = as_nanos(*self.steps.last()?);
                let upper = as_nanos(previous).max(first).saturating_mul(3).min(cap);
                draw(first.min(upper / 2), upper, unit)
            }
        };
        Some(Duration::from_nanos(nanos))
    }

    /// The longest that all waits together can be.
    pub fn longest(&self) -> Duration {
        let longest_step = match self.jitter {
            Jitter::Decorrelated => self.steps.last().copied(),
            _ => None,
        };
        self.steps.iter().fold(Duration::ZERO, |sum, step| sum.saturating_add(longest_step.unwrap_or(*step)))
    }
}

/// Methods that only the crates of this workspace call.
#[ext(BackoffExt)]
impl Backoff {
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn validate(&self) -> Result<(), Error> {
        if self.steps.len() > STEPS_MAX {
            let reason = format!("{} steps; at most {STEPS_MAX} are allowed", self.steps.len());
            return Err(invalid(field!(backoff.steps), reason));
        }
        let mut before = Duration::ZERO;
        for (index, &step) in self.steps.iter().enumerate() {
            let field = field!(backoff.steps[index]);
            if step.is_zero() {
                return Err(invalid(field, "zero would retry at once, without any wait"));
            }
            if step < before {
                return Err(invalid(
                    field,
                    format!("{step:?} is shorter than the step before it, {before:?}"),
                ));
            }
            if step > STEP_MAX {
                return Err(invalid(field, format!("{step:?} is longer than the limit of {STEP_MAX:?}")));
            }
            before = step;
        }
        Ok(())
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::background()
    }
}

/// Uniform in `[low, high)`; `low` if that is empty. Exact: the draw becomes 53 whole bits first, so that
/// rounding can never reach `high`, however large it is.
pub(super) fn draw(low: u64, high: u64, unit: f64) -> u64 {
    let unit = if unit > 0.0 { unit } else { 0.0 };
    let bits = ((unit * UNIT_STEPS as f64) as u64).min(UNIT_STEPS - 1);
    let span = u128::from(high.saturating_sub(low));
    low + ((span * u128::from(bits)) / u128::from(UNIT_STEPS)) as u64
}

/// A draw has 53 bits: what an `f64` in `[0, 1)` holds exactly.
const UNIT_STEPS: u64 = 1 << 53;

/// More retries than this is a queue, not a ladder; it bounds what is stored of an operation's attempts.
const STEPS_MAX: usize = 64;

/// The longest step: a week, the longest that a record of a payment is kept by default.
const STEP_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

mod ladder {
    use std::time::Duration;

    use humantime_serde::Serde;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(steps: &[Duration], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(steps.iter().map(|step| Serde::from(*step)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
        let steps = Vec::<Serde<Duration>>::deserialize(deserializer)?;
        Ok(steps.into_iter().map(Serde::into_inner).collect())
    }
}

#[cfg(test)]
mod tests;

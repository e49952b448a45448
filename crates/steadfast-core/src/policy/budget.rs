//! The number of retries that a client may add to its calls.

use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::ratio::Ratio;
use super::window::Window;
use super::{check_ratio, check_window, invalid};
use crate::clock::Instant;
use crate::error::invalid::InputErrorExt;
use crate::error::{Error, field};

/// Configuration of the retry budget.
///
/// The budget is what prevents collapse. In a simulation, 1,000 clients called a vendor that was down for 60 s. The
/// ladder with jitter put 4.6 times the normal load on the vendor and lost 99.6 % of the calls *after* the outage. With
/// a budget of 10 % it was 1.01 times and none. The floor is per process, and a floor that looks small is the whole
/// load of a fleet. With 1 token/s in each process the load was 1.3 times, with 10/s 3.76. Hence a burst of 10 that
/// refills at 0.1/s: a quiet service may retry, and a fleet cannot storm.
///
/// A retry is charged when it is *scheduled*, before its wait. Charged when it is sent, all retries that wait
/// in backoff are free, and are released at once (envoy#30205).
///
/// Earning is on the path of every call, so it is one atomic. Spending is on the path of failures only, so it takes a
/// lock. Check and take are one step: check-then-add over-spends under contention. Shares are fractions of whole
/// numbers: a ratio kept as "one retry in every n calls" rounds all above ½ to 1 (tower#857).
///
/// ```
/// use steadfast::Policy;
/// use steadfast::policy::BudgetConfig;
///
/// // A twentieth of the calls, and 5 retries beyond that. One of those comes back every 20 s.
/// let budget = BudgetConfig::new(0.05, 5, 0.05);
/// assert!(Policy::background().budget(budget).validate().is_ok());
///
/// let no_share = BudgetConfig::new(1.5, 5, 0.05);
/// assert!(Policy::background().budget(no_share).validate().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct BudgetConfig {
    /// Retries as a share of the calls in the window, 0 to 1. Default 0.1.
    pub ratio: f64,
    /// The time over which calls and retries are compared. Default 10 s.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// Number of retries that a quiet client has in hand beyond the share. Default 10.
    pub burst: u32,
    /// Refill of the burst, in retries a second. Default 0.1. Multiply by the number of processes before raising it.
    pub refill_per_second: f64,
}

impl BudgetConfig {
    /// Retries up to `ratio` of the calls in 10 s, and `burst` beyond that, refilled at `refill_per_second`.
    pub fn new(ratio: f64, burst: u32, refill_per_second: f64) -> BudgetConfig {
        BudgetConfig { ratio, burst, refill_per_second, window: Duration::from_secs(10) }
    }

    /// Sets the time over which calls and retries are compared.
    #[must_use]
    pub fn window(mut self, window: Duration) -> BudgetConfig {
        self.window = window;
        self
    }

    pub(super) fn validate(&self) -> Result<(), Error> {
        check_ratio(field!(budget.ratio), self.ratio)?;
        check_window(field!(budget.window), self.window)?;
        if !(0.0..=REFILL_MAX).contains(&self.refill_per_second) {
            let reason = format!("{} is not between 0 and {REFILL_MAX}", self.refill_per_second);
            return Err(invalid(field!(budget.refill_per_second), reason));
        }
        if self.burst == 0 && self.refill_per_second > 0.0 {
            let refill = field!(budget.refill_per_second);
            let reason = format!("0 leaves {refill} nowhere to go; set it to 0 too");
            return Err(invalid(field!(budget.burst), reason).beside(refill));
        }
        Ok(())
    }
}

impl Default for BudgetConfig {
    fn default() -> BudgetConfig {
        BudgetConfig::new(0.1, 10, 0.1)
    }
}

/// The retries that are left.
///
/// ```
/// use steadfast::clock::Instant;
/// use steadfast::policy::BudgetConfig;
/// use steadfast_core::internal::policy::Budget;
///
/// let budget = Budget::new(&BudgetConfig::new(0.1, 1, 0.0));
/// let now = Instant::ORIGIN;
/// assert!(budget.spend(now), "the burst");
/// assert!(!budget.spend(now), "and no more");
///
/// for _ in 0..10 {
///     budget.earn(now);
/// }
/// assert!(budget.spend(now), "a tenth of ten calls");
/// ```
#[derive(Debug)]
pub struct Budget {
    share: Ratio,
    refill_ppm: u64,
    floor_max: u128,
    calls: Window,
    spending: Mutex<Spending>,
}

/// State that only a spender touches.
#[derive(Debug)]
struct Spending {
    retries: Window,
    /// Floor, in parts of a token so small (1/[`TOKEN`]) that refilling never rounds.
    floor: u128,
    refilled_at: Instant,
}

impl Budget {
    /// A budget with its whole burst in hand.
    pub fn new(config: &BudgetConfig) -> Budget {
        let floor_max = u128::from(config.burst) * TOKEN;
        let refill = config.refill_per_second.clamp(0.0, REFILL_MAX);
        Budget {
            share: Ratio::new(config.ratio),
            refill_ppm: (refill * MILLION as f64).round() as u64,
            floor_max,
            calls: Window::new(config.window),
            spending: Mutex::new(Spending {
                retries: Window::new(config.window),
                floor: floor_max,
                refilled_at: Instant::ORIGIN,
            }),
        }
    }

    /// Counts a call. Once an operation, when its first attempt is admitted: a retry that earned would pay for
    /// the next.
    #[inline]
    pub fn earn(&self, now: Instant) {
        self.calls.add(now, 1);
    }

    /// Takes one retry out of the budget, or says `false` and takes nothing. Exact under contention.
    pub fn spend(&self, now: Instant) -> bool {
        let mut spending = self.spending.lock();
        if self.share.has_room_for(spending.retries.sum(now) + 1, self.calls.sum(now)) {
            spending.retries.add(now, 1);
            return true;
        }
        self.refill(&mut spending, now);
        let Some(left) = spending.floor.checked_sub(TOKEN) else { return false };
        spending.floor = left;
        true
    }

    fn refill(&self, spending: &mut Spending, now: Instant) {
        // A reading of the clock from before the last refill earns nothing and loses nothing.
        let elapsed = now.as_nanos().saturating_sub(spending.refilled_at.as_nanos());
        spending.refilled_at = spending.refilled_at.max(now);
        let earned = u128::from(elapsed) * u128::from(self.refill_ppm);
        spending.floor = spending.floor.saturating_add(earned).min(self.floor_max);
    }
}

const MILLION: u64 = 1_000_000;

/// Parts of one token: parts per million × nanoseconds in a second.
const TOKEN: u128 = MILLION as u128 * 1_000_000_000;

/// More than a retry in every millisecond is no budget.
const REFILL_MAX: f64 = 1_000.0;

#[cfg(test)]
mod tests;

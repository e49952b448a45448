//! Policies for calls to a vendor: when to wait, when to stop, when not to send at all.
//!
//! Each policy is one file: its configuration, its run-time state, the reasons for both, and its tests. [`Policy`]
//! puts the configurations together and validates across them. The run-time state of one client is read and switched
//! through `Client`, from `Client::engage_kill_switch` on.
//!
//! The defaults come from one simulation: 1,000 client processes of 5 calls/s each against a vendor sized for
//! 1.5 times that load, down for 60 s, medians of 5 seeds.
//!
//! | policy in each process | load during the outage ÷ normal | calls lost after it, % |
//! |---|---|---|
//! | no retry | 1.00 | 0.0 |
//! | ladder, no jitter | 4.20 | 99.7 |
//! | ladder, full jitter | 4.61 | 99.6 |
//! | + budget 10 %, floor 10/s a process | 3.76 | 99.2 |
//! | + budget 10 %, floor 1/s | 1.30 | 0.0 |
//! | + budget 10 %, floor 0 | 1.01 | 0.0 |
//! | + breaker, 5 failures, 30 s open | 0.02 | 0.7 |
//! | the same, open time ± 20 % | 0.02 | 11.0 |
//!
//! So jitter alone does not prevent collapse, and a budget does. A floor that looks small in one process is the load
//! of a fleet. A breaker that stays open for 30 s throws away the minute after recovery.

use std::time::Duration;

use crate::error::invalid::InputErrorExt;
use crate::error::{Error, Field, Input};

pub(crate) mod backoff;
pub(crate) mod breaker;
pub(crate) mod budget;
pub(crate) mod circuits;
pub(crate) mod concurrency;
pub(crate) mod credentials;
pub(crate) mod form;
pub(crate) mod gates;
pub(crate) mod in_flight;
pub(crate) mod limits;
pub(crate) mod pause;
pub(crate) mod rate;
pub(crate) mod ratio;
pub(crate) mod recovery;
pub(crate) mod switch;
pub(crate) mod timeout;
pub(crate) mod turns;
pub(crate) mod whole;
pub(crate) mod window;

pub use backoff::{Backoff, Jitter};
pub use breaker::{BreakerConfig, BreakerState, Mode};
pub use budget::BudgetConfig;
pub(crate) use gates::Outcome;
pub(crate) use in_flight::InFlight;
pub use rate::RateConfig;
pub use recovery::RecoveryConfig;
pub use timeout::Timeouts;
pub(crate) use whole::Policy;

fn invalid(field: Field, reason: impl Into<String>) -> Error {
    Error::invalid(Input::Policy, reason).at(field)
}

/// Refuses what is not a share: NaN, negative, over 1.
fn check_ratio(field: Field, ratio: f64) -> Result<(), Error> {
    if (0.0..=1.0).contains(&ratio) {
        Ok(())
    } else {
        Err(invalid(field, format!("{ratio} is not between 0 and 1")))
    }
}

/// Refuses a sliding window that its ten buckets cannot measure, or that outlives any use.
fn check_window(field: Field, window: Duration) -> Result<(), Error> {
    if window < WINDOW_MIN {
        return Err(invalid(field, format!("{window:?} is shorter than the limit of {WINDOW_MIN:?}")));
    }
    if window > WINDOW_MAX {
        return Err(invalid(field, format!("{window:?} is longer than the limit of {WINDOW_MAX:?}")));
    }
    Ok(())
}

fn as_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Shortest window: under it, a bucket's 32-bit epoch would come round in less than a year.
const WINDOW_MIN: Duration = Duration::from_millis(100);

/// A day: what happened yesterday says nothing about a vendor's health.
const WINDOW_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests;

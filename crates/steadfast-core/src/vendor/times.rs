//! Bounds of the times that the user of an adapter sets.

use std::time::Duration;

use crate::error::invalid::InputErrorExt;
use crate::error::{Error, Input};

/// The largest difference of a vendor's clock and a host's that may go unnoticed. Five minutes is what signed
/// requests commonly allow (Stripe's own webhooks do).
pub const CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);

/// Checks a settle time.
///
/// # Errors
///
/// A validation error for a time that makes each lookup worthless, or that keeps an operation from ever being looked up.
pub fn check_settle_time(time: Duration) -> Result<(), Error> {
    let problem = match time {
        Duration::ZERO => "zero; a lookup would miss a request that is still being processed",
        time if time > SETTLE_TIME_MAX => "over a day; an unknown outcome would wait as long",
        _ => return Ok(()),
    };
    Err(Error::invalid(Input::Other("settle_time"), problem))
}

/// Checks a replay window.
///
/// # Errors
///
/// A validation error for a window that no vendor documents: a key that is forgotten would be sent again.
pub fn check_window(window: Duration) -> Result<(), Error> {
    if window <= WINDOW_MAX {
        return Ok(());
    }
    let problem =
        format!("{window:?} is over {WINDOW_MAX:?}: a key that is forgotten would have a second effect");
    Err(Error::invalid(Input::Other("replay_window"), problem))
}

/// Far more than the adapters' defaults, which are below two minutes.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// The longest that is documented of Stripe (its v2 keys) and of Adyen (7 days), with a day to spare.
const WINDOW_MAX: Duration = Duration::from_secs(31 * 24 * 3600);

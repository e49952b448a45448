//! Three limits on time: to connect, for one attempt, for the whole call.

use std::time::Duration;

use easy_ext::ext;
use serde::{Deserialize, Serialize};

use super::invalid;
use crate::error::invalid::InputErrorExt;
use crate::error::{Error, field};

/// The time limits of a call.
///
/// They are separate because they fail differently. A connection that was never made has sent nothing, so the call
/// may be repeated whatever its method; an attempt that ran out may have taken effect. And only the total is what the
/// caller waits for. With a limit for each retry and none for all together, a request with a 30 s budget is still
/// being retried two minutes later.
///
/// ```
/// use std::time::Duration;
/// use steadfast::Policy;
/// use steadfast::policy::Timeouts;
///
/// let [connect, attempt, total] = [2, 10, 25].map(Duration::from_secs);
/// let good = Timeouts::new(connect, attempt, total);
/// assert!(Policy::interactive().timeout(good).validate().is_ok());
///
/// // An attempt that is longer than the whole call is refused.
/// let wrong = Timeouts::new(connect, total, attempt);
/// assert!(Policy::interactive().timeout(wrong).validate().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Timeouts {
    /// Limit to open a connection, TLS included. Default 5 s: a SYN that is lost is sent again after 1 s and 3 s (RFC
    /// 6298 section 2), so this outlives two losses. Never longer than [`attempt`](Timeouts::attempt). It may be equal:
    /// whichever runs out first, a request that got no connection has no effect.
    #[serde(with = "humantime_serde")]
    pub connect: Duration,
    /// Limit from sending to the last byte of the answer. Default 30 s. Each attempt gets this or what is left of the
    /// total, whichever is less. For a streamed reply it is to its head, and then for each chunk.
    ///
    /// An attempt that its caller's shorter deadline ends is no evidence about the vendor, and does not count for the
    /// breaker. Keep this below the deadlines that callers usually have, or a vendor that hangs goes unnoticed.
    #[serde(with = "humantime_serde")]
    pub attempt: Duration,
    /// Limit of the whole call: attempts, waits and lookups. Default 120 s.
    ///
    /// The call does not wait for a lookup that counts only after it, because the vendor's [settle
    /// time](crate::vendor::Vendor::settle_time) is longer. It ends at once with
    /// [`is_deadline`](crate::Error::is_deadline), and its [`retry_at`](crate::Error::retry_at) is when the lookup
    /// counts. Recovery makes it then, or a caller that sends the key again. So it
    /// is with [`interactive`](Timeouts::interactive) at each vendor whose settle time is shipped: 10 s at Postmark,
    /// 30 s at BigCommerce, 80 s at Stripe beyond its window.
    #[serde(with = "humantime_serde")]
    pub total: Duration,
}

impl Timeouts {
    /// Creates these three limits.
    pub fn new(connect: Duration, attempt: Duration, total: Duration) -> Timeouts {
        Timeouts { connect, attempt, total }
    }

    /// Limits for background work: 5 s, 30 s, 120 s. The default.
    pub fn background() -> Timeouts {
        Timeouts::new(Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120))
    }

    /// Limits for a call that a person waits for: 1 s, 5 s, 10 s. Ten seconds is where people stop waiting and press
    /// the button again (Nielsen, "Response Times: The 3 Important Limits", 1993).
    pub fn interactive() -> Timeouts {
        Timeouts::new(Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(10))
    }
}

/// Methods that only the crates of this workspace call.
#[ext(TimeoutsExt)]
impl Timeouts {
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn validate(&self) -> Result<(), Error> {
        let named = [
            (field!(timeout.connect), self.connect),
            (field!(timeout.attempt), self.attempt),
            (field!(timeout.total), self.total),
        ];
        for (field, limit) in named {
            if limit.is_zero() {
                return Err(invalid(field, "zero leaves no time to do anything"));
            }
        }
        if self.attempt > self.total {
            let total = field!(timeout.total);
            let reason = format!("{:?} is longer than {total}, {:?}", self.attempt, self.total);
            return Err(invalid(field!(timeout.attempt), reason).beside(total));
        }
        if self.connect > self.attempt {
            let attempt = field!(timeout.attempt);
            let reason = format!("{:?} is longer than {attempt}, {:?}", self.connect, self.attempt);
            return Err(invalid(field!(timeout.connect), reason).beside(attempt));
        }
        Ok(())
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts::background()
    }
}

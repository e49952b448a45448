//! Limits on bodies, which are held in memory, and the retention of records.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::invalid;
use crate::error::{Error, field};

/// How large bodies may be.
///
/// ```
/// use steadfast::Policy;
/// use steadfast::policy::BodyLimits;
///
/// // 64 KiB out, 1 MiB back.
/// let policy = Policy::background().limits(BodyLimits::new(64 * 1024, 1024 * 1024));
/// assert!(policy.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct BodyLimits {
    /// The largest request body, in bytes. Default 1 MiB: it is stored with its operation and held while it is
    /// retried.
    pub request_bytes_max: usize,
    /// The largest reply body, in bytes. Default 8 MiB. A longer one is cut there and reported.
    pub reply_bytes_max: usize,
}

impl BodyLimits {
    /// These two limits, in bytes.
    pub fn new(request_bytes_max: usize, reply_bytes_max: usize) -> BodyLimits {
        BodyLimits { request_bytes_max, reply_bytes_max }
    }

    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.request_bytes_max == 0 {
            return Err(invalid(field!(limits.request_bytes_max), "0 refuses every body"));
        }
        if self.reply_bytes_max == 0 {
            return Err(invalid(field!(limits.reply_bytes_max), "0 cuts every reply"));
        }
        Ok(())
    }
}

impl Default for BodyLimits {
    fn default() -> BodyLimits {
        BodyLimits::new(1024 * 1024, 8 * 1024 * 1024)
    }
}

/// The retention of records, and their leases.
///
/// Without a limit on bodies, a vendor's proxy that answers with an endless page takes the process down. A record
/// without an end fills the store; one that ends too early forgets that a key was used while the vendor, or the
/// caller, may still use it.
///
/// ```
/// use std::time::Duration;
/// use steadfast::Policy;
/// use steadfast::policy::RecordConfig;
///
/// let margin = Duration::from_secs(30);
/// let month = RecordConfig::new(Duration::from_secs(30 * 86_400), margin);
/// assert!(Policy::background().record(month).validate().is_ok());
///
/// // Forgotten before its own call is over: refused.
/// let minute = RecordConfig::new(Duration::from_secs(60), margin);
/// assert!(Policy::background().record(minute).validate().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RecordConfig {
    /// The retention: how long a settled operation is on record, and its reply replayed. Default 7 days. A job that
    /// is run again or a queue that is replayed can repeat a payment by mistake, usually within the week. By then
    /// Stripe has forgotten the key ("Idempotent requests" in its API reference: after 24 hours). At least the
    /// vendor's own replay window and the longest that a call takes together: `build()` refuses less, and raises the
    /// default. A client can set another for [routes](crate::ClientBuilder::retention), and a
    /// [call](crate::Call::retention) for itself. Dead letters are kept until they are resolved.
    /// In the vendors file: `keep`.
    #[serde(rename = "keep", with = "humantime_serde")]
    pub retention: Duration,
    /// How much longer than its attempt a holder's lease lasts: the time to write down the answer. Default
    /// 30 s: a store that needs longer for one write is itself an outage.
    #[serde(with = "humantime_serde")]
    pub lease_margin: Duration,
}

impl RecordConfig {
    /// How long settled operations are kept, and how long a lease outlives its attempt.
    pub fn new(retention: Duration, lease_margin: Duration) -> RecordConfig {
        RecordConfig { retention, lease_margin }
    }

    pub(super) fn validate(&self, ladder: Duration, total: Duration) -> Result<(), Error> {
        if self.retention < ladder {
            let steps = field!(backoff.steps);
            let reason =
                format!("{:?} is shorter than the waits of {steps} together, {ladder:?}", self.retention);
            return Err(invalid(field!(record.keep), reason).beside(steps));
        }
        if self.retention < total {
            let field = field!(timeout.total);
            let reason = format!("{:?} is shorter than {field}, {total:?}", self.retention);
            return Err(invalid(field!(record.keep), reason).beside(field));
        }
        if self.lease_margin.is_zero() {
            return Err(invalid(
                field!(record.lease_margin),
                "zero ends the lease before the answer can be written down",
            ));
        }
        Ok(())
    }
}

impl Default for RecordConfig {
    fn default() -> RecordConfig {
        RecordConfig::new(Duration::from_secs(7 * 24 * 60 * 60), Duration::from_secs(30))
    }
}

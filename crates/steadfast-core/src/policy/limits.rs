//! Limits on bodies, which are held in memory, and on records.

use std::time::Duration;

use super::{Policy, invalid};
use crate::error::invalid::InputErrorExt;
use crate::error::{Error, field};

pub(super) fn validate_bodies(request_bytes_max: usize, reply_bytes_max: usize) -> Result<(), Error> {
    if request_bytes_max == 0 {
        return Err(invalid(field!(limits.request_bytes_max), "0 refuses every body"));
    }
    if reply_bytes_max == 0 {
        return Err(invalid(field!(limits.reply_bytes_max), "0 cuts every reply"));
    }
    Ok(())
}

pub(super) fn validate_record(policy: &Policy) -> Result<(), Error> {
    let (retention, ladder, total) = (policy.retention, policy.backoff.longest(), policy.timeout.total);
    if retention < ladder {
        let steps = field!(backoff.steps);
        let reason = format!("{retention:?} is shorter than the waits of {steps} together, {ladder:?}");
        return Err(invalid(field!(record.keep), reason).beside(steps));
    }
    if retention < total {
        let field = field!(timeout.total);
        let reason = format!("{retention:?} is shorter than {field}, {total:?}");
        return Err(invalid(field!(record.keep), reason).beside(field));
    }
    if policy.lease_margin.is_zero() {
        return Err(invalid(
            field!(record.lease_margin),
            "zero ends the lease before the answer can be written down",
        ));
    }
    Ok(())
}

pub(super) const REQUEST_BYTES: usize = 1024 * 1024;
pub(super) const REPLY_BYTES: usize = 8 * 1024 * 1024;
#[allow(missing_docs, reason = "for the crates of this workspace alone")]
pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
pub(super) const LEASE_MARGIN: Duration = Duration::from_secs(30);

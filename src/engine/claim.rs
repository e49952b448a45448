//! The claim, and records of version 0.1, whose fingerprints have another derivation.

use std::time::Duration;

use super::{Engine, Work, limit};
use crate::clock::Instant;
use crate::operation::record::{Claim, Claimed};
use crate::operation::{Fingerprint, OperationId, Unstamped};
use crate::request::Request;
use crate::store::StoreError;

/// What a call asks for, to be held against what is on record under its key.
#[derive(Clone, Copy)]
pub(super) struct Offered<'a> {
    pub fingerprint: Fingerprint,
    /// `None` where it is on record already.
    pub unstamped: Option<&'a Unstamped>,
    /// As it was stamped.
    pub request: &'a Request,
}

impl Engine {
    /// The claim of a call's request, as it is stamped.
    pub(super) fn claim_of(
        &self,
        id: &OperationId,
        fingerprint: Fingerprint,
        wire_key: String,
        request: &Request,
        (work, keep): (&Work, Duration),
    ) -> Claim {
        Claim {
            id: id.clone(),
            fingerprint,
            wire_key,
            request: request.clone(),
            now: self.clock.wall(),
            lease: self.lease(work),
            keep,
            on_unknown: work.on_unknown,
            attempt_max: self.attempt_max(work),
            vendor_clock_ms: None,
            redact: self.redact.and(&work.redact),
        }
    }

    /// Claims; `None` if the store did not answer in time. `claim_with` makes the same claim with another fingerprint.
    ///
    /// The old derivation is made only where the record has another fingerprint: a first claim and a repeat pay
    /// nothing for it.
    pub(super) async fn claim(
        &self,
        claim: Claim,
        claim_with: impl Fn(Fingerprint) -> Claim,
        offered: Offered<'_>,
        deadline: Instant,
    ) -> Option<Result<Claimed, StoreError>> {
        let claimed = limit::within(&*self.clock, deadline, (*self.store).claim(claim)).await;
        let Some(Ok(Claimed::Mismatch { held })) = &claimed else { return claimed };
        if !self.is_of(*held, offered) {
            return claimed;
        }
        let claim = claim_with(*held);
        limit::within(&*self.clock, deadline, (*self.store).claim(claim)).await
    }

    /// Whether a fingerprint on record is that of the request which is offered, by this derivation or by that of
    /// version 0.1.
    pub(super) fn is_of(&self, held: Fingerprint, offered: Offered<'_>) -> bool {
        let Offered { fingerprint, unstamped, request } = offered;
        let account = || self.vendor.account(&request.headers);
        held == fingerprint
            || unstamped.is_some_and(|unstamped| held == unstamped.fingerprint_0_1(&account(), request))
    }
}

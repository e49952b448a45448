//! The claim, and records of version 0.1, whose fingerprints have another derivation.

use super::{Engine, limit};
use crate::clock::Instant;
use crate::operation::record::{Claim, Claimed};
use crate::operation::{Fingerprint, Unstamped};
use crate::request::Request;
use crate::store::StoreError;

impl Engine {
    /// Claims; `None` if the store did not answer in time. `claim_with` makes the same claim with another fingerprint.
    ///
    /// The old derivation is made only where the record has another fingerprint: a first claim and a repeat pay
    /// nothing for it.
    pub(super) async fn claim(
        &self,
        claim: Claim,
        claim_with: impl Fn(Fingerprint) -> Claim,
        unstamped: &Unstamped,
        deadline: Instant,
    ) -> Option<Result<Claimed, StoreError>> {
        let offered = claim.fingerprint;
        let claimed = limit::within(&*self.clock, deadline, (*self.store).claim(claim)).await;
        let Some(Ok(Claimed::Mismatch { held })) = &claimed else { return claimed };
        let claim = claim_with(*held);
        if !self.is_of(*held, offered, unstamped, &claim.request) {
            return claimed;
        }
        limit::within(&*self.clock, deadline, (*self.store).claim(claim)).await
    }

    /// Whether a fingerprint on record is that of the request which is offered, by this derivation or by that of
    /// version 0.1.
    pub(super) fn is_of(
        &self,
        held: Fingerprint,
        offered: Fingerprint,
        unstamped: &Unstamped,
        stamped: &Request,
    ) -> bool {
        let account = || self.vendor.account(&stamped.headers);
        held == offered || held == unstamped.fingerprint_0_1(&account(), stamped)
    }
}

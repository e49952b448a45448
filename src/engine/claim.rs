//! The claim, and records of version 0.1, whose fingerprints have another derivation.

use super::{Engine, Work, limit};
use crate::clock::Instant;
use crate::operation::record::{Claim, Claimed};
use crate::operation::{Fingerprint, OperationId, Scope, Unstamped};
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
        work: &Work,
    ) -> Claim {
        Claim {
            id: id.clone(),
            fingerprint,
            wire_key,
            request: request.clone(),
            now: self.clock.wall(),
            lease: self.lease(work),
            keep: self.policy.record.keep,
            on_unknown: work.on_unknown,
            attempt_max: self.attempt_max(work),
            vendor_clock_ms: None,
            redact: self.redact.and(&work.redact),
            predecessor: work.predecessor.clone(),
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
        let id = &claim.id.clone();
        let claimed = limit::within(&*self.clock, deadline, (*self.store).claim(claim)).await;
        let Some(Ok(Claimed::Mismatch { held })) = &claimed else { return claimed };
        let first_scope =
            if self.is_of(*held, offered) { None } else { self.first_scope(id, deadline).await };
        if !self.is_of_scope(*held, offered, first_scope.as_ref()) {
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

    /// As [`is_of`](Engine::is_of), of an operation that was first claimed in another scope, if it was: its fingerprint
    /// names the account of that.
    pub(super) fn is_of_scope(
        &self,
        held: Fingerprint,
        offered: Offered<'_>,
        first_scope: Option<&Scope>,
    ) -> bool {
        let account = first_scope.and_then(Scope::account);
        self.is_of(held, offered)
            || offered
                .unstamped
                .zip(account)
                .is_some_and(|(unstamped, account)| held == unstamped.fingerprint(&account, offered.request))
    }

    /// The scope of an adopted operation's first claim.
    async fn first_scope(&self, id: &OperationId, deadline: Instant) -> Option<Scope> {
        let record = limit::within(&*self.clock, deadline, (*self.store).get(id)).await?;
        record.ok().flatten()?.first_scope
    }
}

//! The claim, and adopted records, whose fingerprints name another account.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::operation::Unstamped;
use steadfast_core::internal::store::Outbox;
use steadfast_core::internal::vendor::Adapter;
use steadfast_core::operation::record::{Claim, Claimed};
use steadfast_core::operation::{Fingerprint, OperationId, Scope};
use steadfast_core::store::StoreError;
use steadfast_core::transport::Request;
use steadfast_core::{Disposition, Effect, Error, Obstacle};

use super::{Engine, Work};
use crate::limit;
use crate::telemetry::Whose;

/// A call's request under its key, to be compared with the record, and its deadline.
#[derive(Clone, Copy)]
pub(super) struct Offered<'a> {
    pub id: &'a OperationId,
    pub fingerprint: Fingerprint,
    /// `None` where it is on record already.
    pub unstamped: Option<&'a Unstamped>,
    /// As it was stamped.
    pub request: &'a Arc<Request>,
    pub deadline: Instant,
}

/// A keyed call that has a caller.
#[derive(Clone, Copy)]
pub(super) struct Keyed<'a> {
    pub offered: Offered<'a>,
    pub wire_key: &'a str,
    pub work: &'a Work,
    /// How long its record is kept once it is settled.
    pub keep: Duration,
    /// If it is left to a dispatcher: from when on.
    pub due: Option<Timestamp>,
    /// The row of the store's outbox that asks for it, if one does.
    pub row: Option<(&'a dyn Outbox, u64)>,
    pub started: Instant,
}

impl<'a> Keyed<'a> {
    /// The call's identity for its events.
    pub(super) fn whose(&self, vendor: &'a Adapter) -> Whose<'a> {
        let Offered { id, request, .. } = self.offered;
        Whose { vendor: &**vendor, request, operation: Some((id, self.wire_key)) }
    }
}

impl Engine {
    /// Claims the operation for the call's request, as it is stamped.
    ///
    /// The fingerprint with the account of another scope is made only where the record has another one: a first claim and
    /// a repeat pay nothing for it.
    ///
    /// # Errors
    ///
    /// The store's, or `None` if it did not answer in time.
    pub(super) async fn claim(&self, call: &Keyed<'_>) -> Result<Box<Claimed>, Option<StoreError>> {
        let Offered { fingerprint, .. } = call.offered;
        let claimed = self.claim_with(call, fingerprint).await?;
        let Claimed::Mismatch { held, .. } = *claimed else { return Ok(claimed) };
        let first_scope = Box::pin(self.first_scope(call.offered)).await;
        if self.is_of_first_scope(held, call.offered, first_scope.as_ref()) {
            self.claim_with(call, held).await
        } else {
            Ok(claimed)
        }
    }

    /// Boxed: a record is large, and is handed on through several futures.
    async fn claim_with(
        &self,
        call: &Keyed<'_>,
        fingerprint: Fingerprint,
    ) -> Result<Box<Claimed>, Option<StoreError>> {
        let claim = self.claim_of(call, fingerprint);
        let claim = match call.row {
            None => self.store.claim(claim),
            Some((outbox, number)) => Box::pin(async move {
                let frees_at = claim.now;
                // Somebody else admitted the row, so that the operation is on record.
                Ok(outbox.admit(number, claim).await?.unwrap_or(Claimed::Busy { frees_at }))
            }),
        };
        match limit::within(&*self.clock, call.offered.deadline, claim).await {
            Some(Ok(claimed)) => Ok(Box::new(claimed)),
            Some(Err(error)) => Err(Some(error)),
            None => Err(None),
        }
    }

    fn claim_of(&self, call: &Keyed<'_>, fingerprint: Fingerprint) -> Claim {
        let Keyed { offered, wire_key, work, keep, due, .. } = *call;
        let now = self.wall();
        Claim {
            id: offered.id.clone(),
            fingerprint,
            wire_key: wire_key.to_owned(),
            request: Arc::clone(offered.request),
            now,
            lease: self.lease(work),
            due,
            keep,
            on_unknown: work.on_unknown,
            attempt_max: self.attempt_max(work, &offered.request.url),
            vendor_clock_ms: self.vendor_clock.less_ours(now, || self.clock.now()),
            holder: Some(crate::holder::this_process()),
            redact: self.redact.and(&work.redact),
            predecessor: work.predecessor.clone(),
            sequence: work.sequence.clone(),
        }
    }

    /// Says whose an error of this call is.
    pub(super) fn named(&self, error: Error, offered: Offered<'_>) -> Error {
        self.in_context(error, offered.request, Some((offered.id, None)))
    }

    /// Adds the call's name to an error that has none. One from the record has the record's name.
    pub(super) fn named_if_it_is_not(&self, error: Error, offered: Offered<'_>) -> Error {
        if error.key().is_some() { error } else { self.named(error, offered) }
    }

    /// Whether a fingerprint on record is that of the request which is offered, with the account of the first scope: an
    /// adopted operation keeps its fingerprint.
    pub(super) fn is_of_first_scope(
        &self,
        held: Fingerprint,
        offered: Offered<'_>,
        first_scope: Option<&Scope>,
    ) -> bool {
        let account = first_scope.and_then(Scope::account);
        offered.unstamped.zip(account).is_some_and(|(unstamped, account)| {
            held == self.vendor.fingerprint(&account, &unstamped.request(offered.request))
        })
    }

    /// Returns the error for an operation that this call starts over and that stands in the way; nothing was sent. The effect is that operation's: a caller who is
    /// told *none* takes it for not paid.
    pub(super) fn in_the_way(&self, work: &Work, obstacle: Obstacle, effect: Effect) -> Error {
        let predecessor = work.predecessor.as_ref().map(ToString::to_string).unwrap_or_default();
        let (until, effect) = match obstacle {
            Obstacle::Open { until } => (until, effect),
            Obstacle::Absent => (None, self.effect_of_absent()),
            _ => (None, effect),
        };
        Error::new(Kind::InTheWay { predecessor, obstacle }, effect).with_retry_at(until)
    }

    /// The effect of an operation that is not on record by its present name. Below a former base URL it has
    /// another one.
    pub(super) fn effect_of_absent(&self) -> Effect {
        if self.former_base_urls.is_empty() { Effect::None } else { Effect::Unknown }
    }

    /// The scope of an adopted operation's first claim.
    async fn first_scope(&self, offered: Offered<'_>) -> Option<Scope> {
        let read = (*self.store).get(offered.id);
        let record = limit::within(&*self.clock, offered.deadline, read).await?;
        record.ok().flatten()?.first_scope
    }
}

/// The key belongs to another request, which has an effect and goes on by its own; nothing was sent of the one that is
/// offered.
pub(super) fn key_reused(
    held: Fingerprint,
    offered: Fingerprint,
    (effect, next): (Effect, Disposition),
) -> Error {
    let kind = Kind::KeyReused { held: held.to_string(), offered: offered.to_string() };
    Error::new(kind, effect).with_disposition(next)
}

//! What a call is told that does not get to send: what is on record of its operation, and nothing better.
//!
//! A gate that refuses, or a deadline of zero, knows nothing of the operation. Whoever is told "effect none" falls
//! back on another way to pay, so that word is said only after a look at the record. A store that cannot answer makes
//! it *unknown*.

use std::time::Duration;

use super::{Engine, Offered, key_reused, limit};
use crate::clock::{Instant, Timestamp};
use crate::error::{Disposition, Effect, Error, Kind, Refusal};
use crate::operation::OperationId;
use crate::operation::record::{Record, State};
use crate::reply::Reply;
use crate::store::{StoreError, StoreErrorKind};

/// What the record says to a call.
pub(super) enum Standing {
    /// Nothing: there is no record.
    Absent,
    /// The operation has ended, or the key is another request's: this is what the call is told.
    Told(Box<Result<Reply, Error>>),
    /// The same, and its time is over by our own clock: a claim, which the store judges, may find the key free.
    Over(Box<Result<Reply, Error>>),
    /// Its credentials were refused: the key is free again.
    Free { effect: Effect },
    /// Somebody holds it, or it waits for its next attempt.
    Open { effect: Effect, until: Timestamp },
    /// The store failed, or did not answer in time.
    CannotSay,
}

impl Standing {
    /// The effect as on record, and what happens next without the caller.
    fn word(&self) -> (Effect, Disposition) {
        match self {
            Standing::Absent => (Effect::None, Disposition::Ended),
            Standing::Free { effect } => (*effect, Disposition::Ended),
            Standing::Open { effect, until } => (*effect, Disposition::Continues { at: Some(*until) }),
            Standing::CannotSay => (Effect::Unknown, Disposition::Continues { at: None }),
            Standing::Told(told) | Standing::Over(told) => match &**told {
                Ok(_) => (Effect::Applied, Disposition::Ended),
                Err(error) => (error.effect(), error.disposition()),
            },
        }
    }
}

impl Engine {
    /// Looks at the record, until `deadline` or for [`STORE_GRACE`], whichever is later: a call without time is told the
    /// truth too. Writes nothing.
    pub(super) async fn standing(
        &self,
        id: &OperationId,
        offered: Offered<'_>,
        deadline: Instant,
    ) -> Standing {
        let until = deadline.max(self.clock.now().plus(STORE_GRACE));
        let record = match limit::within(&*self.clock, until, self.store.get(id)).await {
            Some(Ok(Some(record))) => record,
            Some(Ok(None)) => return Standing::Absent,
            Some(Err(_)) | None => return Standing::CannotSay,
        };
        // Whether it has expired is the store's to say, at the claim: our own clock may be ahead.
        let told: fn(_) -> _ =
            if record.has_expired(self.clock.wall()) { Standing::Over } else { Standing::Told };
        if !self.is_of(record.fingerprint, offered) {
            let reused = key_reused(record.fingerprint, offered.fingerprint);
            let reused = self.in_context(reused, &record.request, Some((id, None)));
            return told(Box::new(Err(reused)));
        }
        match record.state {
            // Its holder may be sending, or have died while it did.
            State::InProgress { lease_until } => {
                Standing::Open { effect: Effect::Unknown, until: lease_until }
            }
            State::Scheduled { at } => Standing::Open { effect: record.effect, until: at },
            State::Refused { refusal: Refusal::Unauthorized, .. } => Standing::Free { effect: record.effect },
            State::Succeeded { .. } | State::Refused { .. } | State::Dead { .. } => {
                let ended = self.replay(record);
                told(Box::new(self.with_cause_on_record(ended, id, until).await))
            }
        }
    }

    /// What a call is told that was refused before its claim: what became of the operation if it has ended, else the
    /// refusal with the effect as on record.
    pub(super) async fn refused_before_claim(
        &self,
        refused: Error,
        id: &OperationId,
        offered: Offered<'_>,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        let standing = self.standing(id, offered, deadline).await;
        let (effect, disposition) = standing.word();
        Err(match standing {
            Standing::Told(told) | Standing::Over(told) => return *told,
            // Earlier than that, the key would only be in progress.
            Standing::Open { until, .. } => refused.of_effect(effect).going_on(disposition).not_before(until),
            Standing::Absent | Standing::Free { .. } | Standing::CannotSay => {
                refused.of_effect(effect).going_on(disposition)
            }
        })
    }

    /// What a call is told without being sent or admitted, if the record alone decides that.
    pub(super) async fn told_at_once(
        &self,
        id: &OperationId,
        offered: Offered<'_>,
        deadline: Instant,
    ) -> Option<Result<Reply, Error>> {
        match self.standing(id, offered, deadline).await {
            Standing::Told(told) => Some(*told),
            Standing::Open { effect, until } if until > self.clock.wall() => {
                Some(Err(in_progress(effect, until)))
            }
            _ => None,
        }
    }

    /// What a call is told whose claim failed, or was not answered in time.
    pub(super) async fn not_claimed(
        &self,
        failure: Option<StoreError>,
        (id, offered): (&OperationId, Offered<'_>),
        deadline: Instant,
        lease: Duration,
    ) -> Result<Reply, Error> {
        let named = |error| self.in_context(error, offered.request, Some((id, None)));
        let until = self.clock.wall().plus(lease);
        match failure {
            // An earlier call's record may be there all the same.
            Some(source) if wrote_nothing(&source) => {
                let failed = Error::new(Kind::Store { doing: CLAIM }, Effect::None).with_source(source);
                self.refused_before_claim(named(failed), id, offered, deadline).await
            }
            Some(source) => Err(named(perhaps_claimed(CLAIM, until).with_source(source))),
            None => Err(named(perhaps_claimed("claim the operation in time", until))),
        }
    }

    /// What a call is told whose claim met somebody else's, which frees at `frees_at` at the latest.
    pub(super) async fn busy(
        &self,
        id: &OperationId,
        offered: Offered<'_>,
        deadline: Instant,
        frees_at: Timestamp,
    ) -> Result<Reply, Error> {
        match self.standing(id, offered, deadline).await {
            Standing::Told(told) | Standing::Over(told) => *told,
            Standing::Open { effect, until } => Err(in_progress(effect, until)),
            Standing::Absent | Standing::Free { .. } | Standing::CannotSay => {
                Err(in_progress(Effect::Unknown, frees_at))
            }
        }
    }

    /// Of a holder that was fenced out, or whose write failed or was not answered in time: the operation may have
    /// succeeded on record, by another's hand or by a write that was taken for lost, and then that is what became of
    /// this call. Else the call is told who has it now.
    pub(super) async fn unless_overtaken(
        &self,
        ended: Result<Reply, Error>,
        id: &OperationId,
        offered: Offered<'_>,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        let failed = match ended {
            Err(error) if error.is_store() => error,
            ended => return ended,
        };
        let standing = self.standing(id, offered, deadline).await;
        let (_, disposition) = standing.word();
        match standing {
            Standing::Told(told) | Standing::Over(told) if told.is_ok() => *told,
            Standing::CannotSay => Err(failed),
            // What this holder sent, the record need not know of.
            _ => Err(failed.going_on(disposition)),
        }
    }
}

/// The record's own word of an operation that has not ended.
pub(super) fn disposition(record: &Record) -> Disposition {
    match record.state {
        State::InProgress { lease_until: at } | State::Scheduled { at } => {
            Disposition::Continues { at: Some(at) }
        }
        State::Dead { .. } if record.resolved.is_none() => Disposition::AwaitsOperator,
        State::Dead { .. } | State::Succeeded { .. } | State::Refused { .. } => Disposition::Ended,
    }
}

/// A claim that failed and may be on file all the same: then it is carried out without its caller once the lease that
/// it asked for is over. The store has no way to withdraw it.
fn perhaps_claimed(doing: &'static str, until: Timestamp) -> Error {
    Error::new(Kind::Store { doing }, Effect::Unknown)
        .with_retry_at(Some(until))
        .going_on(Disposition::Continues { at: Some(until) })
}

/// Whether a claim that failed like this is provably not on file.
fn wrote_nothing(failure: &StoreError) -> bool {
    match failure.kind() {
        StoreErrorKind::Locked
        | StoreErrorKind::ReadOnly
        | StoreErrorKind::Absent
        | StoreErrorKind::Full
        | StoreErrorKind::Foreign
        | StoreErrorKind::Newer
        | StoreErrorKind::Sealed
        | StoreErrorKind::Invalid => true,
        // A commit that failed at the disk may have been written down; a writer that stopped, too.
        StoreErrorKind::Corrupt | StoreErrorKind::Stopped | StoreErrorKind::Other => false,
    }
}

fn in_progress(effect: Effect, until: Timestamp) -> Error {
    Error::new(Kind::InProgress, effect)
        .with_retry_at(Some(until))
        .going_on(Disposition::Continues { at: Some(until) })
}

const CLAIM: &str = "claim the operation";

/// What a look at the record, or the write of an outcome, may take where the call has no time left: a store in a file answers within a
/// millisecond, and one that is locked or far away within this.
pub(super) const STORE_GRACE: Duration = Duration::from_millis(250);

//! Stores, which record the operations: the [`Store`] trait and its backends.
//!
//! The trait is small for its implementors. A backend carries out the decisions of
//! [`operation::record`](crate::operation::record) atomically, and durably before it returns if it is a durable one.
//! It adds no semantics of its own. So the methods are few and general: one [`take`](Store::take) for every takeover,
//! one [`act`](Store::act) for every operator's action. With a method for each, every backend would repeat the state
//! machine, and every new action would break every backend. No method that a call needs has a default, so that a
//! backend cannot forget one. A store around another one is a [`Wrapper`], and implements only what it changes.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::{
    Act, AuditEntry, Claim, Claimed, Declined, Filter, Forbidden, Page, Record, Summary, Takeover, Tally,
    Transition,
};

// What stores are made of: none of it knows a database.
pub(crate) mod backlog;
pub(crate) mod codec;
pub(crate) mod columns;
pub(crate) mod copying;
pub(crate) mod filters;
pub(crate) mod footing;
pub(crate) mod heartbeat;
pub(crate) mod here;
pub(crate) mod look;
pub(crate) mod numbers;
pub(crate) mod outbox;
pub(crate) mod pages;
pub(crate) mod place;
pub(crate) mod reports;
pub(crate) mod restored;
#[cfg(any(test, feature = "testkit"))]
pub(crate) mod sample;
pub(crate) mod seals;
pub(crate) mod standing;
pub(crate) mod stored;
pub(crate) mod tenants;
pub(crate) mod upkeep;
pub(crate) mod waiters;
pub(crate) mod wakes;
pub(crate) mod wrapper;

pub(crate) mod error;
pub(crate) mod memory;
#[cfg(feature = "seal")]
pub(crate) mod seal;

pub(crate) use backlog::Backlog;
pub use copying::{Copied, CopyError, Copying, copy, give_up_copy};
pub use error::{StoreError, StoreErrorKind};
pub(crate) use heartbeat::{Heartbeat, Peer};
pub use here::{Here, Said, here};
pub(crate) use look::{Look, Sight, Waiting};
pub use memory::Memory;
pub(crate) use outbox::{Account, Outbox};
pub use outbox::{OutboxTally, Queued, Rejected};
#[cfg(feature = "seal")]
pub use seal::SealKeys;
pub(crate) use standing::{Stage, Standing};
use upkeep::AUDIT_MOVED;
pub(crate) use upkeep::{Head, Reseal, ResealedBatch, Restore, Row, Upkeep};
pub use upkeep::{Resealed, reseal};
pub use waiters::End;
pub(crate) use waiters::Waiters;
pub(crate) use wakes::Wakes;
pub use wrapper::Wrapper;

/// Keeps the record of every keyed call.
///
/// # Sequences
///
/// Of the operations that were enqueued into a [`Sequence`](crate::Sequence), one has the turn, and a store gives only
/// that one to a [`take`](Store::take). It keeps the rest of it in the commit that moves an operation of the sequence:
///
/// - A claim that is fresh gets a [position](crate::operation::record::Place::position) above all others of its sequence
///   that are on record, or that of its predecessor if both are of one sequence. Claims of one sequence commit one after
///   the other. So does an operation that is adopted, in its new account.
/// - After each write or removal of an operation in a sequence, the store asks
///   [`record::turn`](crate::operation::record::turn) who has the turn.
/// - Each time it reads a record to decide upon it or to give it away, it fills in [who is
///   ahead](crate::operation::record::Place::behind). The decisions then keep the order by themselves. A take is
///   cheap because it looks only among those that have the turn, or need none.
///
/// # Cancellation safety
///
/// A dropped future may or may not have written; what it wrote is whole. The engine treats a dropped claim as
/// an operation in progress until its lease runs out.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Carries out [`record::claim`](crate::operation::record::claim). The unique `(scope, key)` is the
    /// arbiter: of any number of claims at once, at most one is told that it holds the operation. A claim that
    /// starts a new life of a key replaces the record and its log.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]. Nothing was claimed; or it was, and the claim ends when the lease runs out.
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError>;

    /// Carries out [`Record::apply`] and gives the record as it now stands. The transition's reports go on the
    /// operation's log in the same commit, also when the transition is declined, unless there is no operation.
    ///
    /// `held` is the record as the holder was last given it. It names the operation, and it spares a durable store
    /// the reading of what no other process can have changed. While the record on file is in progress under the
    /// transition's fence, it differs from `held` only in what the transition sets anew. In any other case, what is on
    /// file decides and not `held`. A store writes no request here.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; the inner `Declined` says that the transition changed nothing, and why.
    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError>;

    /// Carries out [`Record::take`] on the operations that have waited longest, and gives those that are now
    /// the caller's. Of any number of takers at once, at most one is given an operation.
    ///
    /// Of what is due, each account that the taker [reaches](crate::operation::Scope::is_reached_by) has its turn,
    /// however much another one has. From one take to the next, in one process, none is passed over.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]. Nothing was taken; or it was, and is free again when the lease runs out.
    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError>;

    /// Carries out [`Record::act`], and keeps its [`AuditEntry`] in the same commit.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; the inner `Forbidden` says that nothing was changed, and why.
    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError>;

    /// Adds to an operation's log. Asks for no fence: what an attempt met stays true, also under another holder. A
    /// holder who writes a transition anyway adds its reports there, and saves a commit.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; [`Declined::Absent`] if there is no such operation.
    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError>;

    /// An operation's log, in the order in which it was written. Empty if there is none. It is purged with its
    /// operation.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError>;

    /// The record of an operation, if there is one.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError>;

    /// The phase's number and the fence of each of these operations; `None` where nothing is on record. It says that an
    /// operation has moved, and costs less than to read it.
    ///
    /// Default: they are read one after the other.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    #[doc(hidden)]
    async fn seen(&self, ids: &[OperationId]) -> Result<Vec<Option<(i64, u64)>>, StoreError> {
        let mut seen = Vec::with_capacity(ids.len());
        for id in ids {
            let record = self.get(id).await?;
            seen.push(record.map(|record| (numbers::phase_number(record.phase()), record.fence)));
        }
        Ok(seen)
    }

    /// A page of at most `limit` operations that match, in the order of their first claim, after the page
    /// that gave `after`. An operation that matches all the while is in exactly one page. At least one row is
    /// given if any matches, whatever the limit.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; also for a cursor that this store did not give, and for a filter with a
    /// [code](Filter::code), of kind [`Invalid`](StoreErrorKind::Invalid): a store reads no log of attempts to list.
    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError>;

    /// How many operations there are of each vendor in each phase, and the age of the oldest; by vendor, then
    /// by phase. A group that is empty is not given.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn tally(&self) -> Result<Vec<Tally>, StoreError>;

    /// A page of at most `limit` operators' actions, oldest first: on one operation, or on all. They outlive
    /// their operations.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; also for a cursor that this store did not give.
    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError>;

    /// What time it is in the store where the host's own clock says `now`.
    ///
    /// Default: `now`. A file and the memory of a process have no clock: each host that writes to them is believed, as
    /// far as [`believed`](Store::believed) goes. A server has one, and its store answers from what the server said last
    /// and the time that passed since. Nothing that is on record there is then compared with a host's own clock. Such a
    /// store carries out each command [`rebased`](Claim::rebased) on the server's now.
    fn time(&self, now: Timestamp) -> Timestamp {
        now
    }

    /// What time it is in the store for a host whose clock says `now`: earlier than that while the store doubts this
    /// clock, else `now` itself. See [`Notes`](crate::operation::record::Notes::now), which has
    /// [seen](crate::operation::record::Notes::saw) the claims, takes, looks and purges before. A store that only one
    /// clock writes to gives `now`.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; the host then takes its own clock for doubted.
    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError>;

    /// Removes at most `limit` records that expired at or before `now`, and says how many it removed. Unresolved dead
    /// letters and operations under way are never among them. The store keeps the highest fence of all that it ever
    /// removed, for [`record::claim`](crate::operation::record::claim), and keeps it as durably as the records.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; some may have been removed.
    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// What [`take`](Store::take) and [`purge`](Store::purge) would find, for all accounts of a dispatcher in one
    /// question. It changes nothing but what the store notes of the time, as a take does.
    ///
    /// Default: `None`. The dispatcher then takes for each of its accounts, and purges, to find out.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; of the kind [`Closed`](StoreErrorKind::Closed) where a take would be refused with it.
    #[doc(hidden)]
    async fn look(&self, look: &Look) -> Result<Option<Sight>, StoreError> {
        let _ = look;
        Ok(None)
    }

    /// Publishes the heartbeats of this process's dispatchers to the store's other dispatchers. It gives the last
    /// heartbeat of every dispatcher for the same accounts, the own ones included. It touches no operation.
    ///
    /// Default: `None`. Each dispatcher then delivers as if it were the only one.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    #[doc(hidden)]
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Option<Vec<Peer>>, StoreError> {
        let _ = heartbeat;
        Ok(None)
    }

    /// What waits at `now`, in groups, and what the dispatchers said last. It reads what is open and the dead letters
    /// alone, however many operations have ended.
    ///
    /// Default: `None`. The caller then goes through a list, and no dispatcher is told of.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    #[doc(hidden)]
    async fn backlog(&self, now: Timestamp) -> Result<Option<Backlog>, StoreError> {
        let _ = now;
        Ok(None)
    }

    /// The object that wakes the dispatchers of this process that deliver from this store. All holders of the store
    /// share it.
    ///
    /// Default: `None`. Then each client wakes its own dispatcher alone, and looks for itself.
    #[doc(hidden)]
    fn wakes(&self) -> Option<&Wakes> {
        None
    }

    /// The upkeep of the whole store by an operator's tool, such as [`reseal`]; `None` if the store has none.
    ///
    /// Default: `None`.
    #[doc(hidden)]
    fn upkeep(&self) -> Option<&dyn Upkeep> {
        None
    }

    /// The store's [outbox](crate::outbox), where callers put calls in transactions of their own; `None` if it has none.
    ///
    /// Default: `None`.
    #[doc(hidden)]
    fn outbox(&self) -> Option<&dyn Outbox> {
        None
    }

    /// Judges what the store stands on, for a client that calls a real vendor: gives warnings, each with what to do.
    ///
    /// Default: nothing is known against it.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](StoreErrorKind::Unsupported) where records would be lost or split: no such client is built.
    #[doc(hidden)]
    fn footing(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        (**self).claim(claim).await
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        (**self).transition(held, transition).await
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        (**self).take(take).await
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        (**self).act(id, act).await
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        (**self).append_evidence(id, reports).await
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        (**self).evidence(id).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        (**self).get(id).await
    }

    async fn seen(&self, ids: &[OperationId]) -> Result<Vec<Option<(i64, u64)>>, StoreError> {
        (**self).seen(ids).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        (**self).list(filter, after, limit).await
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        (**self).tally().await
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        (**self).audit(id, after, limit).await
    }

    fn time(&self, now: Timestamp) -> Timestamp {
        (**self).time(now)
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        (**self).believed(now).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        (**self).purge(now, limit).await
    }

    async fn look(&self, look: &Look) -> Result<Option<Sight>, StoreError> {
        (**self).look(look).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Option<Vec<Peer>>, StoreError> {
        (**self).heartbeat(heartbeat).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Option<Backlog>, StoreError> {
        (**self).backlog(now).await
    }

    fn wakes(&self) -> Option<&Wakes> {
        (**self).wakes()
    }

    fn upkeep(&self) -> Option<&dyn Upkeep> {
        (**self).upkeep()
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        (**self).outbox()
    }

    fn footing(&self) -> Result<Vec<String>, StoreError> {
        (**self).footing()
    }
}

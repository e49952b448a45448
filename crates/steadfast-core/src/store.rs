//! Stores, which record the operations: the [`Store`] trait and its backends.
//!
//! The trait is small for its implementors. A backend carries out the decisions of
//! [`operation::record`](crate::operation::record) atomically, and durably before it returns if it is a durable one.
//! It adds no semantics of its own. So the methods are few and general: one [`take`](Store::take) for every takeover,
//! one [`act`](Store::act) for every operator's action. With a method for each, every backend would repeat the state
//! machine, and every new action would break every backend. No method that a call needs has a default, so that a
//! backend cannot forget one. A store around another one is a [`Wrapper`], and implements only what it changes.
//!
//! # For authors of stores
//!
//! [`Store`] is what calls, recovery and operators need. Features that only some stores have are *capabilities*: a
//! trait each, which the store gives by a method of [`Store`] that returns `None` by default.
//!
//! | capability | method | who asks for it | without it |
//! |---|---|---|---|
//! | [`Delivery`] | [`delivery`](Store::delivery) | dispatchers, and calls that wait for another one | a dispatcher warns at its start. It takes to find out, and shares no rate with other processes |
//! | [`Outbox`] | [`outbox`](Store::outbox) | `enqueue_in` | the call is refused |
//! | [`Sealing`] | [`sealing`](Store::sealing) | [`reseal`] | it is refused |
//! | [`Maintenance`] | [`maintenance`](Store::maintenance) | [`copy()`], [`here()`], `steadfast terms` | it is refused |
//!
//! Each refusal names the store and the capability. A store has all of a capability or none of it. The few methods with
//! a default say what they leave out.
//!
//! `steadfast_testkit::contract` is the suite that a store passes: `check_store` for [`Store`], and one function for each
//! capability. `examples/file_store.rs` is a store in one file of records, with its run of the suite.

use std::fmt;

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
pub(crate) mod capability;
pub(crate) mod codec;
pub(crate) mod columns;
pub(crate) mod copying;
pub mod delivery;
pub(crate) mod filters;
pub(crate) mod footing;
pub(crate) mod heartbeat;
pub(crate) mod here;
pub(crate) mod look;
pub mod maintenance;
pub(crate) mod numbers;
pub mod outbox;
pub mod pages;
pub(crate) mod place;
pub(crate) mod queued;
pub(crate) mod renaming;
pub(crate) mod reports;
pub(crate) mod reseal;
pub(crate) mod resealing;
pub(crate) mod restored;
pub(crate) mod rows;
#[cfg(any(test, feature = "testkit"))]
pub(crate) mod sample;
pub mod sealing;
pub(crate) mod seals;
pub(crate) mod standing;
pub(crate) mod statement;
pub(crate) mod stored;
pub(crate) mod tenants;
pub(crate) mod text;
pub(crate) mod waiters;
pub(crate) mod wakes;
pub(crate) mod wrapper;

pub(crate) mod error;
pub(crate) mod memory;
#[cfg(feature = "seal")]
pub(crate) mod seal;

pub use copying::{Copied, CopyError, Copying, copy, give_up_copy};
use delivery::Delivery;
pub use error::{StoreError, StoreErrorKind};
pub use here::{Here, Said, here};
use maintenance::Maintenance;
pub use memory::Memory;
use outbox::Outbox;
pub use queued::{OutboxTally, Queued, Rejected};
pub use reseal::{Resealed, reseal};
#[cfg(feature = "seal")]
pub use seal::SealKeys;
use sealing::Sealing;
pub use waiters::End;
pub(crate) use waiters::Waiters;
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
    /// Carries out [`record::claim`](crate::operation::record::claim). The unique `(scope, key)` is the arbiter: of any
    /// number of claims at once, at most one is answered that it holds the operation. A claim that starts a new life of
    /// a key replaces the record and its log.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]. Nothing was claimed; or it was, and the claim ends when the lease runs out.
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError>;

    /// Carries out [`Record::apply`] and gives the record as it now stands. The transition's reports go on the
    /// operation's log in the same commit, also when the transition is declined, unless there is no operation.
    ///
    /// `held` is the record as the holder was last given it. It names the operation, and it spares a durable store the
    /// reading of what no other process can have changed. While the record on file is in progress under the
    /// transition's fence, it differs from `held` only in the values that the transition sets. In any other case, what
    /// is on file decides and not `held`. A store writes no request here.
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

    /// Returns the number of operations of each vendor in each phase, and the age of the oldest; by vendor, then by
    /// phase. A group that is empty is not given.
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

    /// Returns the time in the store at the moment at which the host's own clock reads `now`.
    ///
    /// Default: `now`. A file and the memory of a process have no clock: each host that writes to them is believed, as
    /// far as [`believed`](Store::believed) goes. A server has one, and its store answers from the server's last time
    /// and the time that passed since. Nothing that is on record there is then compared with a host's own clock. Such a
    /// store carries out each command [`rebased`](Claim::rebased) on the server's now.
    fn time(&self, now: Timestamp) -> Timestamp {
        now
    }

    /// Returns the time in the store for a host whose clock reads `now`: earlier than that while the store doubts this
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

    /// Registers the terms of an account if none are there, and removes them if `terms` is `None`. Gives what was there
    /// before. Terms are what all clients of an account must have alike, such as its base URL: without them, recovery
    /// could send one service's secret to another one's host. `account` is written as
    /// [`Takeover::account`](crate::operation::record::Takeover::account) is.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; `Closed` if the store is not open.
    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError>;

    /// Judges what the store stands on, for a client that calls a real vendor: gives warnings, each with what to do.
    ///
    /// Default: nothing is known against it.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](StoreErrorKind::Unsupported) where records would be lost or split: no such client is built.
    fn footing(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// The store's name in errors and warnings.
    ///
    /// Default: the name of its type.
    fn name(&self) -> &str {
        let path = std::any::type_name::<Self>();
        let path = path.split_once('<').map_or(path, |(path, _)| path);
        path.rsplit("::").next().unwrap_or(path)
    }

    /// Returns the capability that dispatchers need. Default: `None`.
    fn delivery(&self) -> Option<&dyn Delivery> {
        None
    }

    /// The store's [outbox](crate::outbox), where callers put calls in transactions of their own. Default: `None`.
    fn outbox(&self) -> Option<&dyn Outbox> {
        None
    }

    /// The keys of the store's requests and answers, changed by an operator's tool. Default: `None`.
    fn sealing(&self) -> Option<&dyn Sealing> {
        None
    }

    /// Work of an operator's tool on the whole store. Default: `None`.
    fn maintenance(&self) -> Option<&dyn Maintenance> {
        None
    }
}

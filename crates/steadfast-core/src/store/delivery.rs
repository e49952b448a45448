//! [`Delivery`]: what dispatchers ask of a store, beyond its takes.
//!
//! A dispatcher takes from any store. With this it looks for all of its accounts in one question, is woken for what is
//! enqueued, and shares the vendor's rate with the dispatchers of other processes.

use async_trait::async_trait;

use super::StoreError;
pub use super::backlog::{Backlog, Queue, queues};
pub use super::heartbeat::{Beat, Heartbeat, Peer};
pub use super::look::{Look, Sight, Waiting};
pub use super::wakes::Wakes;
use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::Phase;

/// A store that serves several dispatchers at once. See [`Store::delivery`](super::Store::delivery).
///
/// Its contract is `steadfast_testkit::contract::check_delivery`.
#[async_trait]
pub trait Delivery: Send + Sync {
    /// Returns the work that [`take`](super::Store::take) and [`purge`](super::Store::purge) would find, for all
    /// accounts of a dispatcher in one question. It changes nothing but what the store notes of the time, as a take
    /// does.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; of the kind [`Closed`](super::StoreErrorKind::Closed) where a take would be refused with it.
    async fn look(&self, look: &Look) -> Result<Sight, StoreError>;

    /// Publishes the heartbeats of this process's dispatchers to the store's other dispatchers. It gives the last
    /// heartbeat of every dispatcher for the same accounts, the own ones included. It touches no operation. It forgets a heartbeat after its own
    /// [`lasts`](Heartbeat::lasts).
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError>;

    /// Counts what is open at `now` in groups, and gives the last heartbeats. It reads open operations and dead letters
    /// alone, however many operations have ended. A store that cannot count lists them, and calls [`queues`].
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError>;

    /// The version of each of these operations, in their order; `None` where nothing is on record. A version that differs
    /// says that the operation has moved, and costs less than to read it.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError>;

    /// The object that wakes the dispatchers of this process that deliver from this store. All holders of the store
    /// share it, so that their clients are known to be of one store.
    fn wakes(&self) -> &Wakes;
}

/// The version of an operation: each move changes the phase or the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The phase.
    pub phase: Phase,
    /// The fence.
    pub fence: u64,
}

//! [`Sealing`]: the keys of what a store keeps, changed by an operator's tool.
//!
//! A store that seals is given its keys when it is opened, and reads and writes by them. This is for the change of a key:
//! each record is sealed anew, in small batches beside a running service.

use async_trait::async_trait;

use super::StoreError;
use crate::operation::OperationId;

/// A store whose requests and answers are sealed with a key of the service's own. See
/// [`Store::sealing`](super::Store::sealing).
///
/// Its contract is `steadfast_testkit::contract::check_sealing`.
#[async_trait]
pub trait Sealing: Send + Sync {
    /// Looks for the next rows whose request or answer is not sealed with the store's current key: not at all, or
    /// with an older key. Seals them anew, in one commit. A row that another process changes meanwhile is left as
    /// that one wrote it.
    ///
    /// [`reseal`](super::reseal()) calls this until nothing is left.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; [`Sealed`](super::StoreErrorKind::Sealed) if the store was given no key,
    /// [`Invalid`](super::StoreErrorKind::Invalid) for a cursor that this store did not give. The rows of earlier batches stay resealed.
    ///
    /// # Cancellation safety
    ///
    /// A batch is resealed as a whole, or not at all.
    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError>;

    /// Notes that the store is sealed, if no record is in the clear. Rows of the outbox do not count. Says whether it
    /// is noted.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn note_sealed(&self) -> Result<bool, StoreError>;

    /// Writes what the store keeps anew, without what was removed from it or is no longer there in the clear. Until
    /// then, a file's free space may still hold that. Copies and backups do.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; the same again completes it.
    ///
    /// # Cancellation safety
    ///
    /// What has begun is completed all the same.
    async fn wipe(&self) -> Result<(), StoreError>;
}

/// Which rows [`Sealing::reseal`] looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reseal {
    /// After the batch that gave this; `None` is from the beginning.
    pub after: Option<String>,
    /// At most so many; at least one.
    pub rows_max: usize,
    /// Whether nothing is changed and only counted.
    pub dry_run: bool,
}

/// What became of one batch.
#[derive(Debug, Default)]
pub struct ResealedBatch {
    /// Rows that were not sealed with the current key.
    pub found: u64,
    /// Of these, now sealed with it.
    pub resealed: u64,
    /// Of these, left because another process changed them meanwhile.
    pub changed: u64,
    /// Of these, left because they cannot be read.
    pub unreadable: Vec<(OperationId, StoreError)>,
    /// Where the next batch starts; `None` if this was the last.
    pub next: Option<String>,
}

//! [`Sealing`]: the change of a store's keys by an operator's tool.
//!
//! A store that seals is given its keys when it is opened, and reads and writes by them. At the change of a key, each
//! record is resealed, in small batches beside a running service.

use async_trait::async_trait;

use super::StoreError;
use crate::operation::OperationId;

/// A store whose requests and answers are sealed with a key of the service's own. See
/// [`Store::sealing`](super::Store::sealing).
///
/// Its contract is `steadfast_testkit::contract::check_sealing`.
#[async_trait]
pub trait Sealing: Send + Sync {
    /// Looks for the next rows whose request or answer is not sealed with the store's current key: not at all, or with
    /// an older key. Reseals them, in one commit. A row that another process changes meanwhile is left as that one
    /// wrote it.
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

    /// Rewrites the store's files, without values that were removed or are no longer there in the clear. Until then, a
    /// file's free space may still hold them. Copies and backups do.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; the same again completes it.
    ///
    /// # Cancellation safety
    ///
    /// Once it has begun, it is completed all the same.
    async fn wipe(&self) -> Result<(), StoreError>;
}

/// Rows that [`Sealing::reseal`] looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reseal {
    /// Cursor of the batch before; `None` is from the beginning.
    pub after: Option<String>,
    /// Most rows of the batch; at least one.
    pub rows_max: usize,
    /// Whether nothing is changed and only counted.
    pub dry_run: bool,
}

/// Result of one batch.
#[derive(Debug, Default)]
pub struct ResealedBatch {
    /// Rows that were not sealed with the current key.
    pub found: u64,
    /// Number of those that are now sealed with it.
    pub resealed: u64,
    /// Number of those that were left because another process changed them meanwhile.
    pub changed: u64,
    /// Those that were left because they cannot be read.
    pub unreadable: Vec<(OperationId, StoreError)>,
    /// Start of the next batch; `None` if this was the last.
    pub next: Option<String>,
}

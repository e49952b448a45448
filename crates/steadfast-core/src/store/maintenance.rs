//! [`Maintenance`]: work of an operator's tool on a whole store.
//!
//! It copies the store to another one, says where the store is, and shows what clients registered. No call of a service
//! needs it: a store without maintenance is a whole store.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::StoreError;
pub use super::place::{Facts, Judged, Noted, Place};
pub use super::standing::{Stage, Standing};
use crate::attempt::AttemptReport;
use crate::operation::OperationId;
use crate::operation::record::{AuditEntry, Notes, Record};

/// A store that can be the source and the target of a [copy](super::copy()), and knows its place. See
/// [`Store::maintenance`](super::Store::maintenance).
///
/// Its contract is `steadfast_testkit::contract::check_maintenance`.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// Returns the last warning of the store's server, for `steadfast check`: that it may forget a commit which it has
    /// acknowledged. Default: nothing.
    fn warning(&self) -> Option<&'static str> {
        None
    }

    /// Returns the values that the store keeps beside its records.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn head(&self) -> Result<Head, StoreError>;

    /// Sets the [`Standing`] to `to` if it is `from`, in one commit. Gives what it is then. From then on each claim,
    /// take, action, transition, purge and registration asks it first, in the transaction of its write.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError>;

    /// Writes all of this as it is, in one commit.
    ///
    /// # Errors
    ///
    /// A [`StoreError`], and nothing was written: `Closed` if the store is not [`Arriving`](Stage::Arriving) with this
    /// copy, `Locked` with the text [`AUDIT_MOVED`] if its audit record has another number of entries than
    /// [`audit_after`](Restore::audit_after).
    async fn restore(&self, restore: Restore) -> Result<(), StoreError>;

    /// Returns the store's place: the one on record, and the facts now.
    ///
    /// Default: no place, and none is noted.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn place(&self) -> Result<Place, StoreError> {
        Ok(Place::default())
    }

    /// Puts the place on record.
    ///
    /// Default: it is not kept.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn set_place(&self, _noted: &Noted) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Values that a store keeps beside its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// State of the store: open, or source or target of a copy.
    pub standing: Standing,
    /// Highest fence of any record that was removed, and the time that the store believes.
    pub notes: Notes,
    /// Number of entries of the audit record.
    pub audit: u64,
    /// Terms that clients have [registered](super::Store::register), by account.
    pub accounts: BTreeMap<String, String>,
}

/// A record with its log.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The record, not sealed.
    pub record: Record,
    /// Reports of its attempts.
    pub evidence: Vec<AttemptReport>,
}

/// Rows and notes that [`Maintenance::restore`] writes.
#[derive(Clone, Debug, Default)]
pub struct Restore {
    /// The copy that it is a part of, by the name in the target's [`Standing`].
    pub copy: String,
    /// Rows to write as they are: phase, fences and times included. A row of the same name gives way. It keeps its
    /// place in lists if its life is the same, by [`first_fence`](Record::first_fence); else it is the last.
    pub rows: Vec<Row>,
    /// Operations to remove; the notes stay as they are.
    pub gone: Vec<OperationId>,
    /// Number of entries that the audit record must have before. It is ignored if `audit` is empty.
    pub audit_after: u64,
    /// Entries to append to it.
    pub audit: Vec<AuditEntry>,
    /// Clock notes to put in place of the store's; the highest fence is kept if larger.
    pub notes: Option<Notes>,
    /// Terms of the accounts, in place of all that were registered.
    pub accounts: Option<BTreeMap<String, String>>,
}

/// Problem that [`Maintenance::restore`] reports if the audit record has another number of entries.
pub const AUDIT_MOVED: &str = "another process copies into the same store";

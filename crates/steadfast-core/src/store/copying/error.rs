//! [`CopyError`]: why a copy was refused, or ended.

use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::store::StoreError;

/// Reason for which records were not copied, or not all of them. `Display` writes one layer, the source the rest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// A process holds operations in the source. Nothing was changed.
    #[error("{} held in the source, the last until {last}; stop the service, and try again then", are(*.held))]
    Held {
        /// Number of operations.
        held: u64,
        /// End of the last lease, unless it is renewed.
        last: Timestamp,
    },
    /// Calls lie in the source's [outbox](crate::outbox), which is not copied. Nothing was changed, unless the copy had
    /// begun: then give it up first.
    #[error(
        "{} in the source's outbox ({rejected} rejected), and an outbox is not copied; let a dispatcher admit them, \
         mend or delete what was rejected (`steadfast outbox` lists it), and try again; give up a copy that has begun \
         before", lie(*.rows)
    )]
    Outbox {
        /// Number of rows.
        rows: u64,
        /// Number of them that were rejected.
        rejected: u64,
    },
    /// The target has records, or removed some. Nothing was changed.
    #[error("the target has records of its own; name a new store")]
    Occupied,
    /// Source and target are the same store. Nothing was changed.
    #[error("source and target are the same store")]
    SameStore,
    /// The source's records are being copied, or were copied, to another store. Nothing was changed.
    #[error("the source's records go to {other}; go on with that copy, or give it up")]
    Elsewhere {
        /// The other store.
        other: String,
    },
    /// The target is part of another copy. Nothing was changed.
    #[error("the target belongs to another copy, with {other}; name a new store")]
    OtherCopy {
        /// The other store of that copy.
        other: String,
    },
    /// The source is itself the target of a copy that is not complete. Nothing was changed.
    #[error("the source is incomplete: it is itself being copied from {other}")]
    Incomplete {
        /// The source of that copy.
        other: String,
    },
    /// The copy cannot be given up: it is complete, and the records live in the target. Nothing was changed.
    #[error("the copy is complete: the records are in {other} now")]
    Complete {
        /// The store that has the records.
        other: String,
    },
    /// Another process copies, or gave this copy up, at the same time.
    #[error("another process changed the {side}'s copy state")]
    Overtaken {
        /// `source` or `target`.
        side: &'static str,
    },
    /// A record in the target does not read as the one in the source.
    #[error("{} in the target is not as in the source, although it was written", .id)]
    Differs {
        /// The operation.
        id: Box<OperationId>,
    },
    /// The two stores do not have the same number of rows, or of entries of the audit record, or these differ.
    #[error("{what} differ: source {source_has}, target {target_has}")]
    Counts {
        /// Name of the rows that differ.
        what: &'static str,
        /// Number that the source has.
        source_has: u64,
        /// Number that the target has, or number of these that are the same.
        target_has: u64,
    },
    /// A store failed. The same again goes on.
    #[error("the {side} failed")]
    Store {
        /// `source` or `target`.
        side: &'static str,
        /// Failure of that store.
        source: StoreError,
    },
}

fn lie(rows: u64) -> String {
    if rows == 1 { "1 call lies".to_owned() } else { format!("{rows} calls lie") }
}

fn are(held: u64) -> String {
    if held == 1 { "1 operation is".to_owned() } else { format!("{held} operations are") }
}

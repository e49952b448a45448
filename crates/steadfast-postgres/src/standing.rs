//! Whether the store may be written to: see [`Standing`].
//!
//! Every write asks in its own statement, of the one row that a claim reads anyway. A statement reads from a
//! snapshot, so that one which found the store open might still write after it was closed. So the process that closes
//! it first takes a lock that no write goes together with ([`lock`]). All writes that have begun are over by then,
//! and those that come wait, and take their snapshot afterwards (READ COMMITTED).

use steadfast_core::internal::store::{Stage, Standing};
use steadfast_core::store::StoreError;

use super::row::Reader;
use super::schema::Schema;

/// Of the table `store_state` as `p`: what the store is there for, or null while it is open.
pub(super) const CLOSED: &str = "CASE WHEN p.stage > 0 THEN p.copy_state END";

/// Whether something may be written: [`Standing::check_new`], [`Standing::check_held`].
pub(super) type Allowed = fn(&Standing) -> Result<(), StoreError>;

/// Reads [`CLOSED`].
///
/// # Errors
///
/// Of the kind [`Closed`](crate::store::StoreErrorKind::Closed) if the store is, and for this.
pub(super) fn check(from: &mut Reader<'_>, allowed: Allowed) -> Result<(), StoreError> {
    let text = from.next::<Option<&str>>()?;
    allowed(&text.map(Standing::from_text).transpose()?.unwrap_or_default())
}

/// As the column has it. Statements compare: below 1 anything may be written, below 2 what a holder writes.
pub(super) fn number(stage: Stage) -> i16 {
    match stage {
        Stage::Open => 0,
        Stage::Leaving | Stage::Displaced => 1,
        Stage::Arriving => 2,
        Stage::Moved => 3,
    }
}

/// Waits for all that write or are about to, and keeps others from it until the end of the transaction. It waits for
/// two seconds, because later writers wait behind it: a service's own transaction that enqueues may be open for long.
/// The outbox comes first, as in the admission of a row.
pub(super) fn lock(schema: &Schema) -> String {
    format!(
        "SET LOCAL lock_timeout = '2s'; LOCK TABLE {schema}.outbox, {schema}.operation, {schema}.account IN EXCLUSIVE MODE; \
         SET LOCAL lock_timeout = 0"
    )
}

//! Stage of the store, which decides if it may be written to: see [`Standing`].
//!
//! Every write reads the stage in its own statement, from the one row that a claim reads anyway. A statement
//! reads from a snapshot, so one that saw an open store might still write after the store was closed. So the
//! process that closes the store first takes a lock that conflicts with every write ([`lock`]). All writes that
//! have begun are over by then. Later ones wait, and take their snapshot afterwards (READ COMMITTED).

use steadfast_core::internal::store::{Stage, Standing};
use steadfast_core::store::StoreError;

use super::row::Reader;
use super::schema::Schema;

/// Column of the table `store_state` as `p`: the copy state, or null while the store is open.
pub(super) const CLOSED: &str = "CASE WHEN p.stage > 0 THEN p.copy_state END";

/// Check for a kind of write: [`Standing::check_new`], [`Standing::check_held`].
pub(super) type Allowed = fn(&Standing) -> Result<(), StoreError>;

/// Reads [`CLOSED`] and checks it.
///
/// # Errors
///
/// [`Closed`](crate::store::StoreErrorKind::Closed) if the store is closed for this kind of write.
pub(super) fn check(from: &mut Reader<'_>, allowed: Allowed) -> Result<(), StoreError> {
    let text = from.next::<Option<&str>>()?;
    allowed(&text.map(Standing::from_text).transpose()?.unwrap_or_default())
}

/// Returns the number of a stage in the column. Statements compare: below 1 all writes are allowed, below 2
/// those of a holder.
pub(super) fn number(stage: Stage) -> i16 {
    match stage {
        Stage::Open => 0,
        Stage::Leaving | Stage::Displaced => 1,
        Stage::Arriving => 2,
        Stage::Moved => 3,
    }
}

/// Returns SQL that waits for all writers, and keeps others out until the end of the transaction. It waits for
/// two seconds, because later writers wait behind it: a service's own transaction that enqueues may be open for
/// long. The outbox comes first, as in the admission of a row.
pub(super) fn lock(schema: &Schema) -> String {
    format!(
        "SET LOCAL lock_timeout = '2s'; LOCK TABLE {schema}.outbox, {schema}.operation, {schema}.account IN EXCLUSIVE MODE; \
         SET LOCAL lock_timeout = 0"
    )
}

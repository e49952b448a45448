//! Reads of the outbox for operators and callers: why a row was rejected, which rows of a key wait, and which
//! are sealed with an older key.

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{
    Account, Anew, HEAD_BYTES, KeyId, RowReader, SEALED, SealedRow, Seals, Standing, read_outbox,
    read_queued, read_sealed_row,
};
use steadfast_core::operation::record::AuditEntry;
use steadfast_core::store::{Queued, StoreError};

use super::{REMOVE, RowAndSeal, to_number};
use crate::failure::ErrorContext;
use crate::rows::{self, Reader};
use crate::{notes, sealed, write};

pub(super) fn rejection(
    connection: &Connection,
    Account { namespace, vendor, account }: &Account,
    key: &str,
) -> Result<Option<String>, StoreError> {
    let doing = "look for a rejected row of the outbox";
    let values = [namespace, vendor, account, key];
    let reason = |row: &mut Reader<'_, '_>| Ok(row.text()?.map(str::to_owned));
    rows::first(connection, doing, (REJECTION, values), reason).map(Option::flatten)
}

/// Returns the rows under this key that were not rejected, without their bodies.
pub(super) fn under_key(
    connection: &Connection,
    Account { namespace, vendor, account }: &Account,
    key: &str,
) -> Result<Vec<RowAndSeal>, StoreError> {
    let doing = "look for the rows of a key in the outbox";
    let values = [namespace, vendor, account, key];
    rows::all(connection, doing, (UNDER_KEY, values), |row| read_outbox(row, 0))
}

/// Returns the rows under this key, of all accounts.
pub(super) fn of_key(connection: &Connection, key: &str) -> Result<Vec<Queued>, StoreError> {
    let doing = "look for the rows of a key in the outbox";
    let rows = rows::all(connection, doing, (OF_KEY, [key]), |row| read_queued(row, key))?;
    Ok(rows.into_iter().flatten().collect())
}

/// Removes a row. Returns true if it was there.
pub(super) fn remove(connection: &Connection, number: u64, entry: &AuditEntry) -> Result<bool, StoreError> {
    notes::check(connection, Standing::check_new)?;
    let doing = "remove a row of the outbox";
    let is_gone = rows::change(connection, doing, (REMOVE, [to_number(number)]))? > 0;
    if is_gone {
        write::append_audit(connection, entry)?;
    }
    Ok(is_gone)
}

/// Returns the next rows that are not sealed with this key.
pub(super) fn sealed_otherwise(
    connection: &Connection,
    key: &KeyId,
    (from, limit): (u64, usize),
) -> Result<Vec<SealedRow>, StoreError> {
    let doing = "look for rows of the outbox to seal";
    let head = [&[SEALED][..], key].concat();
    let values = params![from as i64, head, HEAD_BYTES as i64, limit as i64];
    rows::all(connection, doing, (SEALED_OTHERWISE, values), |row| read_sealed_row(row))
}

/// Writes resealed rows. Returns how many had not changed meanwhile.
pub(super) fn seal(connection: &Connection, rows: &[Anew], seals: &Seals) -> Result<u64, StoreError> {
    let doing = "seal rows of the outbox";
    sealed::note_use(connection, seals)?;
    let mut statement = connection.prepare_cached(SEAL).while_doing(doing)?;
    let mut written = 0;
    for Anew { number, old, new } in rows {
        written += statement.execute(params![number, old, new]).while_doing(doing)? as u64;
    }
    Ok(written)
}

const REJECTION: &str = "SELECT CASE WHEN rejected_at_ms IS NOT NULL THEN coalesce(rejected, '') END \
     FROM steadfast_outbox WHERE namespace = ?1 AND vendor = ?2 AND account = ?3 AND key = ?4 ORDER BY rejected_at_ms IS NULL DESC, number DESC LIMIT 1";

const UNDER_KEY: &str = "SELECT number, method, path, key, headers, content_type, NULL, NULL, sealed, due_ms, \
     on_unknown, retention_ms, redact, supersedes, origin, sequence, on_dead_letter, enqueued_at_ms FROM steadfast_outbox \
     WHERE namespace = ?1 AND vendor = ?2 AND account = ?3 AND key = ?4 AND rejected_at_ms IS NULL ORDER BY number";

const OF_KEY: &str = "SELECT number, namespace, vendor, account, method, path, enqueued_at_ms, due_ms, sequence, rejected \
     FROM steadfast_outbox WHERE key = ?1 ORDER BY number";

const SEALED_OTHERWISE: &str = "SELECT number, namespace, vendor, account, key, sealed FROM steadfast_outbox \
     WHERE number >= ?1 AND sealed IS NOT NULL AND substr(sealed, 1, ?3) <> ?2 ORDER BY number LIMIT ?4";

const SEAL: &str = "UPDATE steadfast_outbox SET sealed = ?3 WHERE number = ?1 AND sealed = ?2";

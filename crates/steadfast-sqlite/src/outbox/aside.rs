//! What an operator and a caller ask of the outbox: why a row was rejected, which rows of a key wait, and which are sealed
//! with an older key.

use rusqlite::{Connection, OptionalExtension, params};

use steadfast_core::internal::store::{
    Account, Anew, HEAD_BYTES, KeyId, SEALED, SealedRow, Seals, Standing, from_ms, name_of_row,
};
use steadfast_core::operation::record::AuditEntry;
use steadfast_core::store::{Queued, StoreError};

use super::row::{Texts, read};
use super::{Found, REMOVE, to_number};
use crate::failure::While;
use crate::{notes, sealed, write};

pub(super) fn rejection(
    connection: &Connection,
    Account { namespace, vendor, account }: &Account,
    key: &str,
) -> Result<Option<String>, StoreError> {
    let doing = "look for a rejected row of the outbox";
    let mut statement = connection.prepare_cached(REJECTION).while_doing(doing)?;
    let last = statement.query_row([namespace, vendor, account, key], |row| row.get::<_, Option<String>>(0));
    Ok(last.optional().while_doing(doing)?.flatten())
}

/// The rows under this key that were not rejected, without their bodies.
pub(super) fn under_key(
    connection: &Connection,
    Account { namespace, vendor, account }: &Account,
    key: &str,
) -> Result<Vec<Found>, StoreError> {
    let doing = "look for the rows of a key in the outbox";
    let mut statement = connection.prepare_cached(UNDER_KEY).while_doing(doing)?;
    let rows =
        statement.query_map([namespace, vendor, account, key], |row| read(row, 0)).while_doing(doing)?;
    rows.collect::<Result<_, _>>().while_doing(doing)
}

/// The rows under this key, of any account.
pub(super) fn of_key(connection: &Connection, key: &str) -> Result<Vec<Queued>, StoreError> {
    let doing = "look for the rows of a key in the outbox";
    let mut statement = connection.prepare_cached(OF_KEY).while_doing(doing)?;
    let rows = statement.query_map([key], |row| {
        let mut texts = Texts::of(row);
        let (namespace, vendor, account) = (texts.needed(1)?, texts.needed(2)?, texts.needed(3)?);
        let (method, path) = (texts.needed(4)?, texts.needed(5)?);
        let account = Account { namespace, vendor, account };
        let Some(id) = name_of_row(&account, (&method, &path), key) else { return Ok(None) };
        let (sequence, rejected) = (texts.at(8)?, texts.at(9)?);
        Ok(Some(Queued {
            number: row.get::<_, i64>(0)?.max(0) as u64,
            id,
            enqueued_at: from_ms(row.get(6)?),
            due: row.get::<_, Option<i64>>(7)?.map(from_ms),
            sequence,
            rejected,
        }))
    });
    let rows = rows.while_doing(doing)?.collect::<rusqlite::Result<Vec<_>>>();
    Ok(rows.while_doing(doing)?.into_iter().flatten().collect())
}

/// Removes a row; whether it was there.
pub(super) fn remove(connection: &Connection, number: u64, entry: &AuditEntry) -> Result<bool, StoreError> {
    notes::check(connection, Standing::check_new)?;
    let doing = "remove a row of the outbox";
    let mut statement = connection.prepare_cached(REMOVE).while_doing(doing)?;
    let is_gone = statement.execute(params![to_number(number)]).while_doing(doing)? > 0;
    if is_gone {
        write::log(connection, entry)?;
    }
    Ok(is_gone)
}

/// The next rows that are not sealed with this key.
pub(super) fn sealed_otherwise(
    connection: &Connection,
    key: &KeyId,
    (from, limit): (u64, usize),
) -> Result<Vec<SealedRow>, StoreError> {
    let doing = "look for rows of the outbox to seal";
    let head = [&[SEALED][..], key].concat();
    let mut statement = connection.prepare_cached(SEALED_OTHERWISE).while_doing(doing)?;
    let values = params![from as i64, head, HEAD_BYTES as i64, limit as i64];
    let rows = statement.query_map(values, |row| {
        let account = Account { namespace: row.get(1)?, vendor: row.get(2)?, account: row.get(3)? };
        Ok(SealedRow { number: row.get(0)?, account, key: row.get(4)?, sealed: row.get(5)? })
    });
    rows.while_doing(doing)?.collect::<Result<_, _>>().while_doing(doing)
}

/// Writes them, and says how many were not changed meanwhile.
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
     on_unknown, retention_ms, redact, supersedes, enqueued_at_ms, origin, sequence, on_dead_letter FROM steadfast_outbox \
     WHERE namespace = ?1 AND vendor = ?2 AND account = ?3 AND key = ?4 AND rejected_at_ms IS NULL ORDER BY number";

const OF_KEY: &str = "SELECT number, namespace, vendor, account, method, path, enqueued_at_ms, due_ms, sequence, rejected \
     FROM steadfast_outbox WHERE key = ?1 ORDER BY number";

const SEALED_OTHERWISE: &str = "SELECT number, namespace, vendor, account, key, sealed FROM steadfast_outbox \
     WHERE number >= ?1 AND sealed IS NOT NULL AND substr(sealed, 1, ?3) <> ?2 ORDER BY number LIMIT ?4";

const SEAL: &str = "UPDATE steadfast_outbox SET sealed = ?3 WHERE number = ?1 AND sealed = ?2";

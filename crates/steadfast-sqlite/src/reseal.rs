//! Resealing of rows: see [`seal_rows`](steadfast_core::internal::store::seal_rows).

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{
    FoundRows, HEAD_BYTES, KeyId, Reseal, ResealedRow, SEALED, Seals, read_blobs, start,
};
use steadfast_core::store::StoreError;

use super::failure::ErrorContext;
use super::rows::Reader;
use super::sealed;

/// Returns rows that are not sealed with the current key.
pub(super) fn find(connection: &Connection, reseal: &Reseal, key: &KeyId) -> Result<FoundRows, StoreError> {
    let doing = "look for operations to seal";
    let mut statement = connection.prepare_cached(FIND).while_doing(doing)?;
    let head = [&[SEALED][..], key].concat();
    let rows_max = reseal.rows_max.max(1);
    let values = params![start(reseal.after.as_deref())? as i64, head, HEAD_BYTES as i64, rows_max as i64];
    let mut rows = statement.query(values).while_doing(doing)?;
    let (mut found, mut bytes) = (FoundRows::default(), 0);
    while let Some(row) = rows.next().while_doing(doing)? {
        let (number, id, blobs) = read_blobs(&mut Reader::of(row))?;
        bytes += blobs.size();
        found.rows.push((number, id, blobs));
        if found.rows.len() == rows_max || bytes > BATCH_BYTES_MAX {
            found.next = Some((number + 1).to_string());
            break;
        }
    }
    Ok(found)
}

/// Writes resealed rows. Returns how many had not changed meanwhile.
pub(super) fn write(connection: &Connection, rows: &[ResealedRow], seals: &Seals) -> Result<u64, StoreError> {
    let doing = "seal operations";
    sealed::note_use(connection, seals)?;
    let mut statement = connection.prepare_cached(WRITE).while_doing(doing)?;
    let mut written = 0;
    for ResealedRow { number, id, old, new } in rows {
        let (scope, key) = (id.scope.as_str(), id.key.as_str());
        let values = params![number, scope, key, old.request, old.answer, new.request, new.answer];
        written += statement.execute(values).while_doing(doing)? as u64;
    }
    Ok(written)
}

/// Reads rows from the given number on, until it has found enough.
const FIND: &str = "SELECT number, scope, key, request, answer FROM operation WHERE number >= ?1 \
                    AND (substr(request, 1, ?3) <> ?2 OR substr(answer, 1, ?3) <> ?2) ORDER BY number LIMIT ?4";

const WRITE: &str = "UPDATE operation SET request = ?6, answer = ?7 \
                     WHERE number = ?1 AND scope = ?2 AND key = ?3 AND request = ?4 AND answer IS ?5";

/// Maximum of bytes that are read at once, and one row more: the size of one commit.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

#[cfg(all(test, feature = "seal"))]
mod tests;

//! Sealing rows anew: found on a reader, sealed on the caller's task, written in one commit.
//!
//! A row is written only if both its blobs are still those that were read. Nothing else of it is touched, so a
//! process that moves the operation meanwhile loses nothing, and neither does the row.

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{HEAD_BYTES, KeyId, Part, Reseal, ResealedBatch, SEALED, Seals, start};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::StoreError;

use super::failure::{While, damaged};
use super::sealed;

/// Rows that are not sealed with the current key.
#[derive(Default)]
pub(super) struct Found {
    rows: Vec<(i64, OperationId, Blobs)>,
    next: Option<String>,
}

/// A request, and an answer if there is one, as they are on file.
struct Blobs {
    request: Vec<u8>,
    answer: Option<Vec<u8>>,
}

/// A row with what is there and what is to be there.
pub(super) struct Resealed {
    number: i64,
    id: OperationId,
    old: Blobs,
    new: Blobs,
}

pub(super) fn find(connection: &Connection, reseal: &Reseal, key: &KeyId) -> Result<Found, StoreError> {
    let doing = "look for operations to seal";
    let mut statement = connection.prepare_cached(FIND).while_doing(doing)?;
    let head = [&[SEALED][..], key].concat();
    let rows_max = reseal.rows_max.max(1);
    let values = params![start(reseal.after.as_deref())? as i64, head, HEAD_BYTES as i64, rows_max as i64];
    let mut rows = statement.query(values).while_doing(doing)?;
    let (mut found, mut bytes) = (Found::default(), 0);
    while let Some(row) = rows.next().while_doing(doing)? {
        let read = || {
            let key = Key::new(row.get::<_, String>(2)?).map_err(|_| damaged(2, "no key"))?;
            let id = OperationId::new(Scope::from_stored(row.get::<_, String>(1)?), key);
            Ok::<_, rusqlite::Error>((row.get(0)?, id, Blobs { request: row.get(3)?, answer: row.get(4)? }))
        };
        let (number, id, blobs): (i64, _, Blobs) = read().while_doing(doing)?;
        bytes += blobs.request.len() + blobs.answer.as_ref().map_or(0, Vec::len);
        found.rows.push((number, id, blobs));
        if found.rows.len() == rows_max || bytes > BATCH_BYTES_MAX {
            found.next = Some((number + 1).to_string());
            break;
        }
    }
    Ok(found)
}

/// What is to be written. A row that cannot be read stays as it is.
pub(super) fn seal(found: Found, seals: &Seals) -> (ResealedBatch, Vec<Resealed>) {
    let mut batch =
        ResealedBatch { found: found.rows.len() as u64, next: found.next, ..ResealedBatch::default() };
    let mut rows = Vec::with_capacity(found.rows.len());
    for (number, id, old) in found.rows {
        let anew = |part, blob: &Vec<u8>| seals.seal(part, &id, seals.unseal(part, &id, blob.clone())?);
        let request = anew(Part::Request, &old.request);
        let answer = old.answer.as_ref().map(|blob| anew(Part::Answer, blob)).transpose();
        match request.and_then(|request| Ok(Blobs { request, answer: answer? })) {
            Ok(new) => rows.push(Resealed { number, id, old, new }),
            Err(why) => batch.unreadable.push((id, why)),
        }
    }
    (batch, rows)
}

/// Writes them, and says how many were not changed meanwhile.
pub(super) fn write(connection: &Connection, rows: &[Resealed], seals: &Seals) -> Result<u64, StoreError> {
    let doing = "seal operations";
    sealed::note_use(connection, seals)?;
    let mut statement = connection.prepare_cached(WRITE).while_doing(doing)?;
    let mut written = 0;
    for Resealed { number, id, old, new } in rows {
        let (scope, key) = (id.scope.as_str(), id.key.as_str());
        let values = params![number, scope, key, old.request, old.answer, new.request, new.answer];
        written += statement.execute(values).while_doing(doing)? as u64;
    }
    Ok(written)
}

/// Reads the rows from the first on that it is given, until it has found enough.
const FIND: &str = "SELECT number, scope, key, request, answer FROM operation WHERE number >= ?1 \
                    AND (substr(request, 1, ?3) <> ?2 OR substr(answer, 1, ?3) <> ?2) ORDER BY number LIMIT ?4";

const WRITE: &str = "UPDATE operation SET request = ?6, answer = ?7 \
                     WHERE number = ?1 AND scope = ?2 AND key = ?3 AND request = ?4 AND answer IS ?5";

/// So much is read at once, and one row more: what is written in one commit.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

#[cfg(all(test, feature = "seal"))]
mod tests;

//! Removal of rows. Their highest fence stays, so that no key's fence ever goes back.

use rusqlite::Connection;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::{RowReader, to_ms};
use steadfast_core::store::StoreError;

use super::{notes, outbox, rows, sequence};

/// Removes at most `limit` expired rows, and records the highest of their fences.
pub(super) fn expired(connection: &Connection, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let doing = "purge";
    let now = notes::record_time(connection, now)?.now(now);
    let sql = format!(
        "SELECT number, fence FROM operation WHERE phase > 2 AND until_ms <= ?1 AND {} \
         ORDER BY until_ms LIMIT ?2",
        outbox::is_purgeable()
    );
    let values = [to_ms(now), i64::try_from(limit).unwrap_or(i64::MAX)];
    let expired = rows::all(connection, doing, (&sql, values), |row| Ok((row.number()?, row.amount()?)))?;
    let Some(highest) = expired.iter().map(|(_, fence)| *fence).max() else { return Ok(0) };
    notes::removed(connection, Guard::PurgeNotesFence.keeps(highest))?;
    for (number, _) in &expired {
        remove(connection, *number)?;
    }
    Ok(expired.len())
}

pub(super) fn remove(connection: &Connection, number: i64) -> Result<(), StoreError> {
    sequence::leave(connection, number)?;
    let doing = "remove an operation";
    let sql = "DELETE FROM operation WHERE number = ?1";
    rows::change(connection, doing, (sql, [number])).map(drop)
}

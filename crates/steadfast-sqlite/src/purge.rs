//! Removing rows, and what stays of them: the highest of their fences, so that no key's fence ever goes back.

use rusqlite::{Connection, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::to_ms;
use steadfast_core::store::StoreError;

use super::failure::While;
use super::{notes, outbox, sequence};

/// Removes at most `limit` expired rows, and keeps the highest of their fences.
pub(super) fn expired(connection: &Connection, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let doing = "purge";
    let now = notes::saw(connection, now)?.now(now);
    let mut statement = connection
        .prepare_cached(&format!(
            "SELECT number, fence FROM operation WHERE phase > 2 AND until_ms <= ?1 AND {} \
             ORDER BY until_ms LIMIT ?2",
            outbox::not_spared()
        ))
        .while_doing(doing)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let expired = statement
        .query_map(params![to_ms(now), limit], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<(i64, i64)>>>)
        .while_doing(doing)?;
    let Some(highest) = expired.iter().map(|(_, fence)| *fence).max() else { return Ok(0) };
    notes::removed(connection, Guard::PurgeNotesFence.keeps(highest.max(0) as u64))?;
    for (number, _) in &expired {
        remove(connection, *number)?;
    }
    Ok(expired.len())
}

pub(super) fn remove(connection: &Connection, number: i64) -> Result<(), StoreError> {
    sequence::leave(connection, number)?;
    let doing = "remove an operation";
    let mut statement =
        connection.prepare_cached("DELETE FROM operation WHERE number = ?1").while_doing(doing)?;
    statement.execute([number]).while_doing(doing)?;
    Ok(())
}

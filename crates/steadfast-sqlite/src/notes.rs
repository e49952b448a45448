//! What the store notes beside its records, in a table of one row.
//!
//! Every claim needs them, and nearly none changes them. So the writer's thread keeps them from one transaction to
//! the next, for as long as no other process has written to the file: see [`transaction_began`].

use std::cell::Cell;

use rusqlite::Connection;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{RowReader, Stage, Standing, damaged, to_fence, to_ms};
use steadfast_core::operation::record::{Act, Notes};
use steadfast_core::store::StoreError;

use super::rows;

thread_local! {
    /// The notes on file, what the file is there for and whether it is sealed, if this thread is a writer that knows them.
    static KNOWN: Cell<Option<(Notes, Stage, bool)>> = const { Cell::new(None) };
    /// Whether this thread is in a transaction of a writer's, while no other process can change the file.
    static IN_TRANSACTION: Cell<bool> = const { Cell::new(false) };
}

/// A writer's transaction has begun. `unchanged` says that no other process has written to the file since the last
/// one of this thread.
pub(super) fn transaction_began(unchanged: bool) {
    IN_TRANSACTION.set(true);
    if !unchanged {
        KNOWN.set(None);
    }
}

/// It is over. What one that failed has written is not on file.
pub(super) fn transaction_ended(committed: bool) {
    IN_TRANSACTION.set(false);
    if !committed {
        KNOWN.set(None);
    }
}

/// The notes as they are.
pub(super) fn read(connection: &Connection) -> Result<Notes, StoreError> {
    known(connection).map(|(notes, ..)| notes)
}

/// Whether the file has said that no record is in the clear.
pub(super) fn is_sealed(connection: &Connection) -> Result<bool, StoreError> {
    known(connection).map(|(.., is_sealed)| is_sealed)
}

fn known(connection: &Connection) -> Result<(Notes, Stage, bool), StoreError> {
    let in_transaction = IN_TRANSACTION.get();
    if let Some(known) = KNOWN.get().filter(|_| in_transaction) {
        return Ok(known);
    }
    let (notes, standing, is_sealed) = read_all(connection)?;
    let known = (notes, standing.stage, is_sealed);
    if in_transaction {
        KNOWN.set(Some(known));
    }
    Ok(known)
}

/// The notes, and what the file is there for.
pub(super) fn read_from_file(connection: &Connection) -> Result<(Notes, Standing), StoreError> {
    read_all(connection).map(|(notes, standing, _)| (notes, standing))
}

fn read_all(connection: &Connection) -> Result<(Notes, Standing, bool), StoreError> {
    let doing = "read what the store notes";
    let sql = "SELECT purged_fence, believed_ms, doubted_from_ms, doubted_to_ms, copy_state, sealed FROM store_state";
    let read = rows::first(connection, doing, (sql, []), |row| {
        let purged = row.amount()?;
        let (believed, from, to) = (row.maybe_time()?, row.maybe_time()?, row.maybe_time()?);
        let standing = row.text()?.map(Standing::from_text).transpose()?.unwrap_or_default();
        Ok((Notes { purged, believed, doubted: from.zip(to) }, standing, row.flag()?))
    })?;
    read.ok_or_else(|| damaged("the table of what the store notes is empty"))
}

/// Refuses what a holder writes unless it may.
pub(super) fn check_held(connection: &Connection) -> Result<(), StoreError> {
    check(connection, Standing::check_held)
}

/// Whether the file may be written to, by its whole standing only if it is not open.
pub(super) fn check(
    connection: &Connection,
    is_allowed: impl Fn(&Standing) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (_, stage, _) = known(connection)?;
    is_allowed(&Standing { stage, ..Standing::default() })
        .or_else(|_| is_allowed(&read_from_file(connection)?.1))
}

/// Writes what the file is there for.
pub(super) fn stand(connection: &Connection, standing: &Standing) -> Result<(), StoreError> {
    KNOWN.set(None);
    let doing = "write what the store is there for";
    let sql = "UPDATE store_state SET copy_state = ?1";
    rows::change(connection, doing, (sql, [standing.to_text()?])).map(drop)
}

/// Notes that the file is sealed if no record is in the clear, whose blobs begin with another byte than `sealed`.
pub(super) fn seal(connection: &Connection, sealed: u8) -> Result<(), StoreError> {
    KNOWN.set(None);
    let doing = "note that the file is sealed";
    let sql = "UPDATE store_state SET sealed = 1 WHERE NOT sealed AND NOT EXISTS (SELECT 1 FROM operation \
               WHERE hex(substr(request, 1, 1)) <> ?1 OR hex(substr(answer, 1, 1)) <> ?1)";
    rows::change(connection, doing, (sql, [format!("{sealed:02X}")])).map(drop)
}

/// The notes with the time of a command, written down as often as they must be. Refused unless the store is open.
pub(super) fn saw(connection: &Connection, now: Timestamp) -> Result<Notes, StoreError> {
    check(connection, Standing::check_new)?;
    let mut notes = read(connection)?;
    let must_write = notes.saw(now);
    write(connection, &notes, must_write)?;
    Ok(notes)
}

/// An operator's action as it must be judged. Refused unless the store allows it.
pub(super) fn seen(connection: &Connection, act: &Act) -> Result<Act, StoreError> {
    check(connection, |standing| standing.check_act(&act.action))?;
    let mut notes = read(connection)?;
    let (act, must_write) = act.seen_by(&mut notes);
    write(connection, &notes, must_write)?;
    Ok(act)
}

pub(super) fn write(connection: &Connection, notes: &Notes, must_write: bool) -> Result<(), StoreError> {
    if must_write {
        KNOWN.set(None);
        let doing = "write what the store notes";
        let sql = "UPDATE store_state SET believed_ms = ?1, doubted_from_ms = ?2, doubted_to_ms = ?3";
        let (from, to) = notes.doubted.unzip();
        let times = [notes.believed, from, to].map(|time| time.map(to_ms));
        rows::change(connection, doing, (sql, times))?;
    }
    Ok(())
}

/// Raises the highest fence of any row that was removed to `fence`, if it is lower.
pub(super) fn removed(connection: &Connection, fence: u64) -> Result<(), StoreError> {
    KNOWN.set(None);
    let doing = "write the fences of what was purged";
    let sql = "UPDATE store_state SET purged_fence = ?1 WHERE purged_fence < ?1";
    rows::change(connection, doing, (sql, [to_fence(fence)])).map(drop)
}

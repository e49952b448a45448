//! Notes of the store beside its records, in a table of one row.
//!
//! Every claim needs them, and nearly none changes them. So the writer's thread caches them from one
//! transaction to the next, while no other process has written to the file: see [`transaction_began`].

use std::cell::Cell;

use rusqlite::Connection;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{RowReader, Stage, Standing, damaged, to_fence, to_ms};
use steadfast_core::operation::record::{Act, Notes};
use steadfast_core::store::StoreError;

use super::rows;

thread_local! {
    /// Cached notes, stage and seal of the file. `None` if this thread is no writer, or must read them.
    static KNOWN: Cell<Option<(Notes, Stage, bool)>> = const { Cell::new(None) };
    /// True while this thread is in a transaction of a writer, so that no other process can change the file.
    static IN_TRANSACTION: Cell<bool> = const { Cell::new(false) };
}

/// Marks the beginning of a writer's transaction. `unchanged` is true if no other process has written to the
/// file since the last one of this thread.
pub(super) fn transaction_began(unchanged: bool) {
    IN_TRANSACTION.set(true);
    if !unchanged {
        KNOWN.set(None);
    }
}

/// Marks the end of a writer's transaction. The writes of a failed one are not on file.
pub(super) fn transaction_ended(committed: bool) {
    IN_TRANSACTION.set(false);
    if !committed {
        KNOWN.set(None);
    }
}

/// Returns the current notes.
pub(super) fn read(connection: &Connection) -> Result<Notes, StoreError> {
    known(connection).map(|(notes, ..)| notes)
}

/// Returns true if the file records that no record is in the clear.
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

/// Reads the notes and the standing from the file.
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

/// Refuses a holder's write unless the standing allows it.
pub(super) fn check_held(connection: &Connection) -> Result<(), StoreError> {
    check(connection, Standing::check_held)
}

/// Checks that the file may be written to. Reads its whole standing only if it is not open.
pub(super) fn check(
    connection: &Connection,
    is_allowed: impl Fn(&Standing) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (_, stage, _) = known(connection)?;
    is_allowed(&Standing { stage, ..Standing::default() })
        .or_else(|_| is_allowed(&read_from_file(connection)?.1))
}

/// Writes the standing.
pub(super) fn stand(connection: &Connection, standing: &Standing) -> Result<(), StoreError> {
    KNOWN.set(None);
    let doing = "write the copy state";
    let sql = "UPDATE store_state SET copy_state = ?1";
    rows::change(connection, doing, (sql, [standing.to_text()?])).map(drop)
}

/// Records that the file is sealed if no record is in the clear, whose blobs begin with another byte than
/// `sealed`.
pub(super) fn seal(connection: &Connection, sealed: u8) -> Result<(), StoreError> {
    KNOWN.set(None);
    let doing = "record that the file is sealed";
    let sql = "UPDATE store_state SET sealed = 1 WHERE NOT sealed AND NOT EXISTS (SELECT 1 FROM operation \
               WHERE hex(substr(request, 1, 1)) <> ?1 OR hex(substr(answer, 1, 1)) <> ?1)";
    rows::change(connection, doing, (sql, [format!("{sealed:02X}")])).map(drop)
}

/// Records the time of a command, written as often as it must be, and returns the notes. Refuses unless the
/// store is open.
pub(super) fn record_time(connection: &Connection, now: Timestamp) -> Result<Notes, StoreError> {
    check(connection, Standing::check_new)?;
    let mut notes = read(connection)?;
    let must_write = notes.saw(now);
    write(connection, &notes, must_write)?;
    Ok(notes)
}

/// Returns an operator's action with the time that it is judged by. Refuses unless the store allows it.
pub(super) fn with_time(connection: &Connection, act: &Act) -> Result<Act, StoreError> {
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

/// Raises the highest purged fence to `fence`, if it is lower.
pub(super) fn removed(connection: &Connection, fence: u64) -> Result<(), StoreError> {
    KNOWN.set(None);
    let doing = "write the fences of what was purged";
    let sql = "UPDATE store_state SET purged_fence = ?1 WHERE purged_fence < ?1";
    rows::change(connection, doing, (sql, [to_fence(fence)])).map(drop)
}

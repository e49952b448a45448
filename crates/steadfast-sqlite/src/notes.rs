//! What the store notes beside its records, in a table of one row.
//!
//! Every claim needs them, and nearly none changes them. So the writer's thread keeps them from one transaction to
//! the next, for as long as no other process has written to the file: see [`transaction_began`].

use std::cell::Cell;

use rusqlite::{Connection, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{Stage, Standing, from_ms, to_fence, to_ms};
use steadfast_core::operation::record::{Act, Notes};
use steadfast_core::store::StoreError;

use super::failure::While;

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
    let mut statement = connection
        .prepare_cached(
            "SELECT purged_fence, believed_ms, doubted_from_ms, doubted_to_ms, copy_state, sealed FROM store_state",
        )
        .while_doing(doing)?;
    let read = statement.query_row([], |row| {
        let purged = row.get::<_, i64>(0)?.max(0) as u64;
        let time = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(from_ms));
        let notes = Notes { purged, believed: time(1)?, doubted: time(2)?.zip(time(3)?) };
        Ok((notes, row.get::<_, Option<String>>(4)?, row.get(5)?))
    });
    let (notes, standing, is_sealed) = read.while_doing(doing)?;
    Ok((notes, standing.as_deref().map(Standing::from_text).transpose()?.unwrap_or_default(), is_sealed))
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
    let mut statement =
        connection.prepare_cached("UPDATE store_state SET copy_state = ?1").while_doing(doing)?;
    statement.execute([standing.to_text()?]).while_doing(doing)?;
    Ok(())
}

/// Notes that the file is sealed if no record is in the clear, whose blobs begin with another byte than `sealed`.
pub(super) fn seal(connection: &Connection, sealed: u8) -> Result<(), StoreError> {
    KNOWN.set(None);
    let doing = "note that the file is sealed";
    let sql = "UPDATE store_state SET sealed = 1 WHERE NOT sealed AND NOT EXISTS (SELECT 1 FROM operation \
               WHERE hex(substr(request, 1, 1)) <> ?1 OR hex(substr(answer, 1, 1)) <> ?1)";
    let mut statement = connection.prepare_cached(sql).while_doing(doing)?;
    statement.execute([format!("{sealed:02X}")]).while_doing(doing).map(drop)
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
        let mut statement = connection
            .prepare_cached(
                "UPDATE store_state SET believed_ms = ?1, doubted_from_ms = ?2, doubted_to_ms = ?3",
            )
            .while_doing(doing)?;
        statement
            .execute(params![
                notes.believed.map(to_ms),
                notes.doubted.map(|(from, _)| to_ms(from)),
                notes.doubted.map(|(_, to)| to_ms(to)),
            ])
            .while_doing(doing)?;
    }
    Ok(())
}

/// Raises the highest fence of any row that was removed to `fence`, if it is lower.
pub(super) fn removed(connection: &Connection, fence: u64) -> Result<(), StoreError> {
    KNOWN.set(None);
    let doing = "write the fences of what was purged";
    let mut statement = connection
        .prepare_cached("UPDATE store_state SET purged_fence = ?1 WHERE purged_fence < ?1")
        .while_doing(doing)?;
    statement.execute([to_fence(fence)]).while_doing(doing)?;
    Ok(())
}

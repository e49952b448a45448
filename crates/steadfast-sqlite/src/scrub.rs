//! Secrets that version 0.1 stored with the headers of requests: which rows have some, and how a file loses them.
//!
//! Rows are looked through once, when the file's schema is brought up to date. From then on a table of their numbers
//! tells, at no cost to the calls.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params, params_from_iter};

use steadfast_core::internal::operation::hold_a_secret;
use steadfast_core::internal::store::{Part, Seals, codec};
use steadfast_core::operation::record::Record;
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::failure::While;
use super::open::{self, Settings};
use super::sealed;

/// Notes the rows whose requests hold secrets, in a file that had this version of the schema, within the transaction
/// of the migration. A row that cannot be read stays as it is: a reader of it is told so.
pub(super) fn mark(connection: &Connection, version: i64, seals: &Seals) -> Result<(), StoreError> {
    if version >= SINCE {
        return Ok(());
    }
    let doing = "look for secrets in stored headers";
    let mut statement =
        connection.prepare("SELECT number, scope, key, request FROM operation").while_doing(doing)?;
    let mut rows = statement.query([]).while_doing(doing)?;
    let mut found: Vec<i64> = Vec::new();
    while let Some(row) = rows.next().while_doing(doing)? {
        let read = || Ok::<_, rusqlite::Error>((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let (number, scope, key, blob): (i64, String, String, Vec<u8>) = read().while_doing(doing)?;
        let Ok(key) = Key::new(key) else { continue };
        let id = OperationId::new(Scope::from_stored(scope), key);
        let request = seals.unseal(Part::Request, &id, blob).and_then(codec::request);
        if request.is_ok_and(|request| hold_a_secret(&request.headers)) {
            found.push(number);
        }
    }
    found.into_iter().try_for_each(|number| mark_row(connection, number))
}

/// Notes that the request of a row holds secrets.
pub(super) fn mark_row(connection: &Connection, number: i64) -> Result<(), StoreError> {
    let sql = "INSERT INTO secret_headers (operation) VALUES (?1) ON CONFLICT DO NOTHING";
    execute(connection, sql, [number])
}

/// Notes it of a copy of the row `from`, if it is so of that one.
pub(super) fn mark_copy(connection: &Connection, (from, copy): (i64, i64)) -> Result<(), StoreError> {
    let sql = "INSERT INTO secret_headers (operation) SELECT ?2 FROM secret_headers WHERE operation = ?1 \
               ON CONFLICT DO NOTHING";
    execute(connection, sql, [from, copy])
}

/// Notes that it holds none, or is about to be removed.
pub(super) fn unmark_row(connection: &Connection, number: i64) -> Result<(), StoreError> {
    execute(connection, "DELETE FROM secret_headers WHERE operation = ?1", [number])
}

fn execute<const N: usize>(connection: &Connection, sql: &str, numbers: [i64; N]) -> Result<(), StoreError> {
    let doing = "note which rows hold secrets";
    let mut statement = connection.prepare_cached(sql).while_doing(doing)?;
    statement.execute(params_from_iter(numbers)).while_doing(doing)?;
    Ok(())
}

/// Says at the start that there are such rows, and what to do about them.
pub(super) fn warn_of_secrets(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let operations: i64 = connection
        .query_row("SELECT count(*) FROM secret_headers", [], |row| row.get(0))
        .while_doing("count the rows that hold secrets")?;
    if operations > 0 {
        tracing::warn!(
            operations,
            path = %path.display(),
            "{operations} operations in the store hold secrets in the headers of their requests, which version 0.1 \
             stored: `steadfast scrub` removes them"
        );
    }
    Ok(())
}

/// Writes the request of a record that was scrubbed, and whether it still holds secrets.
pub(super) fn write_request(
    connection: &Connection,
    (number, record): (i64, &Record),
    seals: &Seals,
) -> Result<(), StoreError> {
    let doing = "write a request without its secrets";
    let blob = seals.request(&record.id, &record.request)?;
    sealed::note_use(connection, seals)?;
    let mut statement = connection
        .prepare_cached("UPDATE operation SET request = ?2 WHERE number = ?1")
        .while_doing(doing)?;
    statement.execute(params![number, blob]).while_doing(doing)?;
    if record.holds_secrets() { mark_row(connection, number) } else { unmark_row(connection, number) }
}

/// A connection for [`wipe`], to a file that is a store.
pub(super) fn wiper(path: &Path, settings: Settings) -> Result<Connection, StoreError> {
    let doing = "write the file anew";
    open::find(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).while_doing(doing)?;
    connection.busy_handler(Some(settings.wait_for_lock)).while_doing(doing)?;
    connection
        .execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;",
        )
        .while_doing(doing)?;
    Ok(connection)
}

/// See [`Sqlite::wipe`](super::Sqlite::wipe). Free pages alone would not do: what was removed is in the gaps of pages
/// that are in use, too, and in the log. A `VACUUM` writes every page anew; the log that it fills is then
/// checkpointed and cut.
pub(super) fn wipe(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("VACUUM").while_doing("write the file anew")?;
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .while_doing("checkpoint the log")?;
    if busy == 0 {
        return Ok(());
    }
    let problem = "the file is written anew, but its log still holds what was removed, because somebody reads it; try again";
    Err(StoreError::new(problem).of_kind(StoreErrorKind::Locked))
}

/// The first version of the schema that notes such rows.
const SINCE: i64 = 7;

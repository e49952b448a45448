//! Rewrite of a file, without the bytes of rows that were removed or are now sealed.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use steadfast_core::store::{StoreError, StoreErrorKind};

use super::failure::ErrorContext;
use super::open::{self, Settings};

/// Opens a connection for [`wipe`], to a file that is a store.
pub(super) fn wiper(path: &Path, settings: Settings) -> Result<Connection, StoreError> {
    let doing = "rewrite the file";
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

/// Rewrites the file. See [`Sealing::wipe`](steadfast_core::store::sealing::Sealing::wipe). Free pages alone
/// would not do: removed bytes are also in the gaps of pages that are in use, and in the log. A `VACUUM` writes
/// every page anew; the log that it fills is then checkpointed and cut.
pub(super) fn wipe(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("VACUUM").while_doing("rewrite the file")?;
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .while_doing("checkpoint the log")?;
    if busy == 0 {
        return Ok(());
    }
    let problem = "the file is rewritten, but its log still holds the removed bytes, because another process reads it; retry";
    Err(StoreError::new(problem).of_kind(StoreErrorKind::Locked))
}

//! Opening a file: is it a store of ours, has it a known version, and may we write it?
//!
//! The first of these is checked first and read-only, so that another program's file stays as it is. It is
//! checked through SQLite and not by reading the header ourselves. Closing any descriptor of a file drops all
//! POSIX locks that the process holds on it (<https://www.sqlite.org/howtocorrupt.html>, section 2.2), those of
//! another store on the same file included. SQLite's own descriptors do not have that problem.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use steadfast_core::internal::store::Seals;
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::failure::{ErrorContext, failed};
use super::migrations::{FIRST_VERSION, MIGRATIONS, SCHEMA_VERSION};
use super::{facts, log, sealed};

/// Settings for opening a file. The default is that of [`Sqlite::open`](super::Sqlite::open).
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Busy handler: gets the number of tries so far while another connection holds the file. Returns true to
    /// wait, false to give up.
    pub wait_for_lock: fn(i32) -> bool,
    /// Maximum of pages of 4 KiB that the file may have. `None`: SQLite's own limit.
    pub pages_max: Option<u32>,
    /// True if a store is created where there is none.
    pub create: bool,
    /// True if the file may be on a network file system.
    pub network_fs: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { wait_for_lock: wait_five_seconds, pages_max: None, create: true, network_fs: false }
    }
}

/// Opens or creates a file, migrates its schema, and returns the connection that writes.
pub(super) fn writer(path: &Path, settings: Settings, seals: &Seals) -> Result<Connection, StoreError> {
    // One at a time in a process: the file that is created here is closed again, which must not happen while
    // another store has just locked it.
    let _turn = OPENING.lock();
    if settings.create {
        make(path)?;
        owner_of(path)?;
    } else {
        find(path)?;
    }
    let logged = fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).while_doing("open the file")?;
    if connection.is_readonly("main").while_doing("open the file")? {
        let problem = format!("{} is not writable", path.display());
        return Err(StoreError::new(problem).of_kind(StoreErrorKind::ReadOnly));
    }
    // Until the file is known to be ours, closing it must not checkpoint another program's log into it.
    let doing = "set up the connection";
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).while_doing(doing)?;
    connection.busy_handler(Some(settings.wait_for_lock)).while_doing(doing)?;
    let unused = check_seals(&connection, seals, logged)?;
    migrate(&connection, path, (&MIGRATIONS, settings.create))?;
    sealed::retire(&connection, seals, &unused)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).while_doing(doing)?;
    use_log(&connection, settings.wait_for_lock)?;
    connection.execute_batch("PRAGMA synchronous = NORMAL").while_doing(doing)?;
    facts::note(&connection, path)?;
    sealed::opened(&connection, seals, settings.create)?;
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
             PRAGMA cache_size = -{CACHE_KIB}; PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = {LOG_BYTES_KEPT};"
        ))
        .while_doing(doing)?;
    log::watch(&connection);
    if let Some(pages) = settings.pages_max {
        connection.execute_batch(&format!("PRAGMA max_page_count = {pages}")).while_doing(doing)?;
    }
    keep_statements(&connection)?;
    protect(path)?;
    Ok(connection)
}

/// Opens a connection that only reads, to a file that [`writer`] has opened.
pub(super) fn reader(path: &Path, settings: Settings) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let doing = "open the file for reading";
    let connection = Connection::open_with_flags(path, flags).while_doing(doing)?;
    connection.busy_handler(Some(settings.wait_for_lock)).while_doing(doing)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")
        .while_doing(doing)?;
    keep_statements(&connection)?;
    Ok(connection)
}

/// Caches prepared statements, with one plan for all values. Without the second, SQLite prepares a statement
/// with `LIMIT ?` again for each limit that it gets: 13 % of the processor time of `tests/crash`.
fn keep_statements(connection: &Connection) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .while_doing("set up the connection")
        .map(drop)
}

/// Creates an empty file that only its owner may read, if there is none. SQLite gives the files beside it the
/// same mode.
fn make(path: &Path) -> Result<(), StoreError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, MODE);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => {
            let kind = match error.kind() {
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                    StoreErrorKind::ReadOnly
                }
                std::io::ErrorKind::StorageFull => StoreErrorKind::Full,
                _ => StoreErrorKind::Other,
            };
            let problem = format!("{} cannot be created", path.display());
            Err(StoreError::with_source(problem, error).of_kind(kind))
        }
    }
}

/// Refuses a path without a store.
pub(super) fn find(path: &Path) -> Result<(), StoreError> {
    use std::io::ErrorKind::{NotADirectory, NotFound};

    let name = path.display();
    let problem = match fs::metadata(path) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => format!("there is no file {name}"),
        Err(error) => return Err(StoreError::with_source(format!("{name} cannot be looked at"), error)),
        Ok(found) if !found.is_file() => format!("{name} is not a file"),
        Ok(file) if file.len() == 0 => format!("{name} is an empty file, not a store"),
        Ok(_) => match owner_of(path)? {
            Owner::Ours => return Ok(()),
            Owner::Unclaimed => format!("{name} is not a store yet; the service that opens it makes it one"),
        },
    };
    Err(StoreError::new(problem).of_kind(StoreErrorKind::Absent))
}

/// Owner of a file.
enum Owner {
    /// Ours, by the first page.
    Ours,
    /// A store may be created in it.
    Unclaimed,
}

/// Reads from the file's first page if it is ours, or if it can become a store. Reads that page and no more:
/// `immutable` neither locks nor recovers, so nothing is written anywhere.
fn owner_of(path: &Path) -> Result<Owner, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let found = Connection::open_with_flags(immutable(path), flags).and_then(|connection| {
        // While another process checkpoints its log into the file, or after it died in that, the first page
        // counts pages that the file does not have yet. With this SQLite reads the page all the same.
        connection.execute_batch("PRAGMA writable_schema = ON")?;
        let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        Ok((pages, identity(&connection)?))
    });
    match found {
        Ok((0, _)) => Ok(Owner::Unclaimed),
        Ok((_, identity)) => judge(path, identity, SCHEMA_VERSION).map(|()| Owner::Ours),
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            if was_never_made(path) {
                return Ok(Owner::Unclaimed);
            }
            let problem = format!("{} is not a database: it belongs to another program", path.display());
            Err(StoreError::with_source(problem, error).of_kind(StoreErrorKind::Foreign))
        }
        // A file may look damaged without its log, but be whole with it: opening it with its log shows that.
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
            Ok(Owner::Ours)
        }
        Err(error) => Err(failed(&format!("read {}", path.display()), error)),
    }
}

/// Returns true if the power failed while the file's first transaction was written. Then its first page is not
/// there yet, and a journal beside it rolls back the rest when the file is opened with it.
fn was_never_made(path: &Path) -> bool {
    // Read without SQLite after all: a store that has this file open has written its first page, so that there
    // are no locks to lose.
    let mut header = [0xFF; HEADER_BYTES];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    if read.is_err() || header != [0; HEADER_BYTES] {
        return false;
    }
    // A connection that may not write reports that there is something to roll back, and leaves it.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let identified = Connection::open_with_flags(path, flags).and_then(|connection| identity(&connection));
    match identified {
        // Another process has just rolled it back, or is about to.
        Ok(_) => true,
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => true,
        Err(error) => {
            error.sqlite_error().map(|error| error.extended_code) == Some(ffi::SQLITE_READONLY_ROLLBACK)
        }
    }
}

/// Returns the application id and the schema's version.
fn identity(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let application = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok((application, version))
}

fn judge(path: &Path, (application, version): (i64, i64), newest: i64) -> Result<(), StoreError> {
    if application != APPLICATION_ID {
        let problem = format!("{} is another program's database", path.display());
        return Err(StoreError::new(problem).of_kind(StoreErrorKind::Foreign));
    }
    if (1..FIRST_VERSION).contains(&version) {
        let problem = format!(
            "{} has schema version {version}, which was never published and cannot be brought up to date; \
             finish what is open with the program that made it, and give this one a new file",
            path.display()
        );
        return Err(StoreError::new(problem).of_kind(StoreErrorKind::Older));
    }
    if version > newest {
        let problem = format!(
            "{} has schema version {version}; this release knows versions up to {newest}",
            path.display()
        );
        return Err(StoreError::new(problem).of_kind(StoreErrorKind::Newer));
    }
    Ok(())
}

/// Checks that the file can be read with the given keys, before anything is written to it. Returns the keys that
/// no row needs.
fn check_seals(connection: &Connection, seals: &Seals, logged: bool) -> Result<Vec<[u8; 8]>, StoreError> {
    let (application, _) = identity(connection).while_doing("read the file's application id")?;
    if application != APPLICATION_ID {
        // A new file, or another program's that is in its log alone: the migration checks that.
        return Ok(Vec::new());
    }
    let checked = sealed::check_file(connection, seals);
    if checked.is_err() && !logged {
        // There is no log to checkpoint into the file, so that closing it only removes the files that opening
        // it created.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .while_doing("close the file")?;
    }
    checked
}

/// Migrates the schema, in one transaction. A new file gets its identity in the same one, and before it is
/// switched to a write-ahead log. It is in the first page from the start, where [`owner_of`] reads it.
fn migrate(
    connection: &Connection,
    path: &Path,
    (migrations, create): (&[&str], bool),
) -> Result<(), StoreError> {
    let doing = "migrate the schema";
    let newest = FIRST_VERSION - 1 + migrations.len() as i64;
    connection.execute_batch("BEGIN IMMEDIATE").while_doing(doing)?;
    let migrated = (|| {
        let (mut application, version) = identity(connection).while_doing(doing)?;
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .while_doing(doing)?;
        if create && tables == 0 && (application, version) == (0, 0) {
            connection.pragma_update(None, "application_id", APPLICATION_ID).while_doing(doing)?;
            application = APPLICATION_ID;
        }
        judge(path, (application, version), newest)?;
        let applied = usize::try_from(version - FIRST_VERSION + 1).unwrap_or(0);
        for migration in migrations.iter().skip(applied) {
            connection.execute_batch(migration).while_doing(doing)?;
        }
        if version < newest {
            connection.pragma_update(None, "user_version", newest).while_doing(doing)?;
        }
        connection.execute_batch("COMMIT").while_doing(doing)
    })();
    if migrated.is_err() && !connection.is_autocommit() {
        // Returns this error: it is more precise than one of the rollback.
        let _ = connection.execute_batch("ROLLBACK");
    }
    migrated
}

/// Switches to a write-ahead log. SQLite does not call the busy handler here, so we do.
fn use_log(connection: &Connection, wait_for_lock: fn(i32) -> bool) -> Result<(), StoreError> {
    let doing = "switch to a write-ahead log";
    let mut tries = 0;
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(StoreError::new(format!("SQLite could not {doing}: it stays with {mode}")));
            }
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
                if !wait_for_lock(tries) {
                    return Err(failed(doing, error));
                }
                tries += 1;
            }
            Err(error) => return Err(failed(doing, error)),
        }
    }
}

/// Lets only the owner read the file, also one that was created by other means.
#[cfg(unix)]
fn protect(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt;

    for suffix in ["", "-wal", "-shm"] {
        let name = beside(path, suffix);
        match fs::set_permissions(&name, fs::Permissions::from_mode(MODE)) {
            Err(error) if suffix.is_empty() || error.kind() != std::io::ErrorKind::NotFound => {
                let problem = format!("{} cannot be protected: its mode cannot be set", name.display());
                return Err(StoreError::with_source(problem, error).of_kind(StoreErrorKind::ReadOnly));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn protect(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Returns the path of one of SQLite's files beside its own.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns `path` as a URI that opens it without locks and without its log.
fn immutable(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// Waits a millisecond, some five thousand times: about five seconds, longer than any commit and any checkpoint
/// of another process, and within a call's time. SQLite's own handler waits up to 100 ms between tries, which
/// starves one of two busy processes.
fn wait_five_seconds(tries: i32) -> bool {
    std::thread::park_timeout(Duration::from_millis(1));
    tries < 5_000
}

/// Application id, "STFD": no other program's in SQLite's list of them (`magic.txt`).
const APPLICATION_ID: i64 = 0x5354_4644;

/// Page cache of the writer, in KiB. SQLite's default of 2 MiB holds the upper pages of the indexes of a
/// million rows and little else. Also, the bundled SQLite counts the caches of all connections of the process
/// as one (`SQLITE_ENABLE_MEMORY_MANAGEMENT`). So the unused pages of one connection can take the place of
/// another's. At 2 MiB, with two busy files, each statement read the same root pages again.
const CACHE_KIB: u32 = 16 * 1024;

/// Bytes of the log that stay on disk after a burst. It is more than the log has when the writer checkpoints
/// it: otherwise it would be cut and grow again each time.
const LOG_BYTES_KEPT: u32 = 128 * 1024 * 1024;

/// Length of the header at the beginning of the first page
/// (<https://www.sqlite.org/fileformat.html#the_database_header>).
const HEADER_BYTES: usize = 100;

/// Mode of the files. Owner only: bodies hold personal data.
#[cfg(unix)]
const MODE: u32 = 0o600;

/// Maximum of cached statements: more than there are.
const STATEMENTS: usize = 64;

static OPENING: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_migration_is_applied_once_and_in_order_or_not_at_all() {
        let connection = Connection::open_in_memory().expect("opens");
        let path = Path::new("calls.db");
        let steps = ["CREATE TABLE t (x)", "INSERT INTO t VALUES (1)", "INSERT INTO t SELECT x + 1 FROM t"];
        let rows = || {
            connection.query_row("SELECT count(*), max(x) FROM t", [], |row| Ok((row.get(0)?, row.get(1)?)))
        };
        let version = || identity(&connection).expect("readable");
        migrate(&connection, path, (&steps[..1], true)).expect("a new file");
        migrate(&connection, path, (&steps[..2], true)).expect("one step");
        migrate(&connection, path, (&steps[..2], true)).expect("no step");
        assert_eq!((rows().expect("t"), version()), ((1, 1), (APPLICATION_ID, 21)));
        let broken = [steps[0], steps[1], steps[2], "INSERT INTO nowhere VALUES (1)"];
        migrate(&connection, path, (&broken, true)).expect_err("the last step fails");
        assert_eq!((rows().expect("t"), version()), ((1, 1), (APPLICATION_ID, 21)), "all or nothing");
        migrate(&connection, path, (&steps, true)).expect("the third step");
        assert_eq!((rows().expect("t"), version()), ((2, 2), (APPLICATION_ID, 22)));
        let error = migrate(&connection, path, (&steps[..2], true)).expect_err("an older release");
        assert_eq!(error.kind(), StoreErrorKind::Newer);
        assert_eq!(error.to_string(), "calls.db has schema version 22; this release knows versions up to 21");
    }
}

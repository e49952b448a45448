//! Facts of a file's [place](crate::store::place), read and recorded when it is opened, and the mount and links
//! of the file.
//!
//! They are read after the connection that writes has opened the file: an overlay has made its own copy of it
//! by then. A store with no records records where it was opened, so the note exists before the first operation.
//! That write is not synced by itself. The log is in order, so the first operation is on disk no earlier than
//! the note.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::internal::store::{
    Facts, Judged, Mount, Noted, Place, RowReader, Stage, Standing, footing,
};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::failure::ErrorContext;
use super::{notes, rows};

/// Compares the place on record with that of the file. Records the place, or that the store is displaced.
pub(super) fn note(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let found = facts(path);
    if judge(connection, &found)? != Judged::Same {
        let doing = "record the store's place";
        connection.execute_batch("BEGIN IMMEDIATE").while_doing(doing)?;
        // Another process may have recorded a place meanwhile.
        let noted = judge(connection, &found).and_then(|judged| {
            match judged {
                Judged::Same => {}
                Judged::Note(noted) => write(connection, &noted)?,
                Judged::Displaced(why) => notes::stand(connection, &Standing::displaced(why))?,
            }
            connection.execute_batch("COMMIT").while_doing(doing)
        });
        if noted.is_err() && !connection.is_autocommit() {
            // Returns this error: it is more precise than one of the rollback.
            let _ = connection.execute_batch("ROLLBACK");
        }
        noted?;
    }
    let standing = notes::read_from_file(connection)?.1;
    if standing.stage == Stage::Displaced {
        tracing::error!(
            path = %path.display(),
            reason = %standing,
            "the store is not where its records are from"
        );
    }
    Ok(())
}

fn judge(connection: &Connection, found: &Facts) -> Result<Judged, StoreError> {
    if notes::read_from_file(connection)?.1.stage != Stage::Open {
        return Ok(Judged::Same);
    }
    let place = Place { noted: noted(connection)?, found: found.clone() };
    place.judge(SystemClock::new().wall(), || is_used(connection))
}

/// Returns the place on record, and that of the file.
pub(super) fn place(connection: &Connection, path: &Path) -> Result<Place, StoreError> {
    Ok(Place { noted: noted(connection)?, found: facts(path) })
}

fn noted(connection: &Connection) -> Result<Option<Noted>, StoreError> {
    let doing = "read the store's place";
    let noted = rows::first(connection, doing, ("SELECT place FROM store_state", []), |row| {
        row.text()?.map(Noted::from_text).transpose()
    });
    noted.map(Option::flatten)
}

pub(super) fn write(connection: &Connection, noted: &Noted) -> Result<(), StoreError> {
    let doing = "write the store's place";
    let sql = "UPDATE store_state SET place = ?1";
    rows::change(connection, doing, (sql, [noted.to_text()?])).map(drop)
}

/// Returns true if anything is on record, was, or waits in the outbox.
pub(super) fn is_used(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT purged_fence > 0 OR EXISTS (SELECT 1 FROM operation) OR EXISTS (SELECT 1 FROM steadfast_outbox) \
               OR EXISTS (SELECT 1 FROM audit) FROM store_state";
    connection.query_row(sql, [], |row| row.get(0)).while_doing("check for records")
}

/// Returns the facts that distinguish this file from a copy. [`Facts::Unknown`] where the system or the file
/// system does not provide them: ext4 with small inodes has no birth time, and a program for musl cannot read
/// it.
fn facts(path: &Path) -> Facts {
    let Ok(file) = fs::metadata(path) else { return Facts::Unknown };
    let born = file.created().ok().and_then(|born| born.duration_since(std::time::UNIX_EPOCH).ok());
    let born_ns = born.and_then(|born| u64::try_from(born.as_nanos()).ok()).filter(|born| *born > 0);
    match (inode(&file), born_ns) {
        (Some(inode), Some(born_ns)) if !mount(path).is_some_and(|mount| mount.makes_identities_up()) => {
            Facts::File { inode, born_ns }
        }
        _ => Facts::Unknown,
    }
}

/// Checks that a client of a vendor may use the file: see [`footing`].
pub(super) fn footing(path: &Path, network_fs_allowed: bool) -> Result<Vec<String>, StoreError> {
    let links = fs::metadata(path).map_or(1, |file| links(&file));
    footing::judge(mount(path).as_ref(), links, network_fs_allowed).map_err(|problem| {
        let problem = format!("{} is not a safe place for a store: {problem}", path.display());
        StoreError::new(problem).of_kind(StoreErrorKind::Unsupported)
    })
}

/// Returns the mount of the file, where the system lists its mounts.
fn mount(path: &Path) -> Option<Mount> {
    let list = fs::read_to_string("/proc/self/mountinfo").ok()?;
    Mount::of(&fs::canonicalize(path).ok()?, &list)
}

#[cfg(unix)]
fn inode(file: &fs::Metadata) -> Option<u64> {
    Some(std::os::unix::fs::MetadataExt::ino(file))
}

#[cfg(not(unix))]
fn inode(_: &fs::Metadata) -> Option<u64> {
    None
}

#[cfg(unix)]
fn links(file: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(file)
}

#[cfg(not(unix))]
fn links(_: &fs::Metadata) -> u64 {
    1
}

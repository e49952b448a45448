//! Group commit: everything that waits when the disk is free goes into one transaction.
//!
//! A commit's cost is its sync, and a sync costs the same for one row and for a hundred. While one is under way
//! the queue fills; the next takes all of it. No timer: a lone caller never waits for company. A reply goes out
//! only after the commit of its group, so whatever was acknowledged is on disk.

use rusqlite::Connection;

use super::failure::While;
use super::lane::Job;
use super::log::Log;
use super::open;
use crate::store::{StoreError, StoreErrorKind};

/// What the writer's thread does with each batch.
pub(super) fn committer(mut log: Log) -> impl FnMut(&Connection, &mut Vec<Box<dyn Job>>) {
    move |connection, batch| {
        commit(connection, batch);
        log.after_group(connection);
    }
}

/// Carries out a batch in one transaction, and replies.
fn commit(connection: &Connection, batch: &mut Vec<Box<dyn Job>>) {
    batch.retain(|job| !job.is_moot());
    if batch.is_empty() {
        return;
    }
    match together(connection, batch) {
        Ok(()) => batch.drain(..).for_each(|job| job.reply(Ok(()))),
        // One job of many failed. Its neighbours are not to suffer for it: each for itself.
        Err(Ended { at: Step::Job, .. }) if batch.len() > 1 => {
            for mut job in batch.drain(..) {
                let ended = together(connection, std::slice::from_mut(&mut job));
                job.reply(ended.map_err(|ended| ended.error));
            }
        }
        Err(ended) => batch.drain(..).for_each(|job| job.reply(Err(ended.error.again()))),
    }
}

/// Why a transaction was rolled back, and where.
struct Ended {
    at: Step,
    error: StoreError,
}

enum Step {
    Begin,
    Job,
    Commit,
}

fn together(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> Result<(), Ended> {
    let ended = attempt(connection, jobs);
    if ended.is_err() && !connection.is_autocommit() {
        // If this fails too, the next BEGIN says so.
        let _ = connection.execute_batch("ROLLBACK");
    }
    ended
}

fn attempt(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> Result<(), Ended> {
    let at = |at| move |error| Ended { at, error };
    execute(connection, "BEGIN IMMEDIATE", "begin a transaction").map_err(at(Step::Begin))?;
    still_ours(connection).map_err(at(Step::Begin))?;
    // Asked again: to begin may have meant to wait for another process, for longer than some callers did.
    for job in jobs.iter_mut().filter(|job| !job.is_moot()) {
        job.run(connection).map_err(at(Step::Job))?;
    }
    execute(connection, "COMMIT", "commit").map_err(at(Step::Commit))
}

fn execute(connection: &Connection, sql: &str, doing: &str) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).while_doing(doing)?;
    statement.execute([]).while_doing(doing)?;
    Ok(())
}

/// A newer release in another process may have moved the schema on since the file was opened.
fn still_ours(connection: &Connection) -> Result<(), StoreError> {
    let doing = "read the schema's version";
    let mut statement = connection.prepare_cached("PRAGMA user_version").while_doing(doing)?;
    let version: i64 = statement.query_row([], |row| row.get(0)).while_doing(doing)?;
    if version == open::SCHEMA_VERSION {
        return Ok(());
    }
    let problem = format!("the file's schema is now {version}; this process knows {}", open::SCHEMA_VERSION);
    Err(StoreError::new(problem).of_kind(StoreErrorKind::Newer))
}

//! Group commit: all jobs that wait when the disk is free go into one transaction.
//!
//! A commit's cost is its sync, and a sync costs the same for one row and for a hundred. While one is in flight
//! the queue fills; the next takes all of it. There is no timer: a lone caller never waits for others. A reply
//! goes out only after the commit of its group, so each write that was acknowledged is on disk.

use rusqlite::Connection;

use steadfast_core::internal::ext::StoreErrorExt;
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::failure::{ErrorContext, failed, is_shared_memory};
use super::lane::Job;
use super::log::Log;
use super::prepared::Prepared;
use super::{migrations, notes};

/// Returns the work of the writer's thread on each batch.
pub(super) fn committer(mut log: Log) -> impl FnMut(&Prepared<'_>, &mut Vec<Box<dyn Job>>) {
    let mut last = None;
    move |connection, batch| {
        commit(connection, batch, &mut last);
        log.after_group(connection);
    }
}

/// Runs a batch in one transaction, and replies.
fn commit(connection: &Prepared<'_>, batch: &mut Vec<Box<dyn Job>>, last: &mut LastVersion) {
    batch.retain(|job| !job.is_abandoned());
    if batch.is_empty() {
        return;
    }
    match run_in_transaction(connection, batch, last) {
        Ok(()) => batch.drain(..).for_each(|job| job.reply(Ok(()))),
        // One job of many failed. The others must not fail with it: each gets its own transaction.
        Err(RolledBack { at: TransactionStep::Job, .. }) if batch.len() > 1 => {
            for mut job in batch.drain(..) {
                let outcome = run_in_transaction(connection, std::slice::from_mut(&mut job), last);
                job.reply(outcome.map_err(|outcome| outcome.error));
            }
        }
        Err(outcome) => batch.drain(..).for_each(|job| job.reply(Err(outcome.error.again()))),
    }
}

/// Error and step of a transaction that was rolled back.
struct RolledBack {
    at: TransactionStep,
    error: StoreError,
}

enum TransactionStep {
    Begin,
    Job,
    Commit,
}

/// SQLite's `data_version` as of this writer's last transaction: it changes when others write to the file.
/// `None` before the first.
type LastVersion = Option<i64>;

fn run_in_transaction(
    connection: &Prepared<'_>,
    jobs: &mut [Box<dyn Job>],
    last: &mut LastVersion,
) -> Result<(), RolledBack> {
    let outcome = attempt(connection, jobs, last);
    notes::transaction_ended(outcome.is_ok());
    if outcome.is_err() && !connection.is_autocommit() {
        // If this fails too, the next BEGIN fails.
        let _ = connection.execute_batch("ROLLBACK");
    }
    outcome
}

fn attempt(
    connection: &Prepared<'_>,
    jobs: &mut [Box<dyn Job>],
    last: &mut LastVersion,
) -> Result<(), RolledBack> {
    let at = |at| move |error| RolledBack { at, error };
    execute(connection, "BEGIN IMMEDIATE", "begin a transaction").map_err(at(TransactionStep::Begin))?;
    let unchanged = check_schema(connection, last).map_err(at(TransactionStep::Begin))?;
    notes::transaction_began(unchanged);
    // Checked again: BEGIN may have waited for another process, for longer than some callers did.
    for job in jobs.iter_mut().filter(|job| !job.is_abandoned()) {
        job.run(connection).map_err(at(TransactionStep::Job))?;
    }
    end(connection).map_err(at(TransactionStep::Commit))
}

/// Commits. The commit stands in the log before it is in the memory that connections share. If that memory
/// cannot grow then, a crash may lead SQLite to read the log anew and find the commit: it is not certain that
/// nothing was written.
fn end(connection: &Connection) -> Result<(), StoreError> {
    const DOING: &str = "commit";
    let mut statement = connection.prepare_cached("COMMIT").while_doing(DOING)?;
    statement.execute([]).map(drop).map_err(|error| {
        let is_in_the_log = is_shared_memory(&error);
        let failure = failed(DOING, error);
        if is_in_the_log { failure.of_kind(StoreErrorKind::Other) } else { failure }
    })
}

fn execute(connection: &Connection, sql: &str, doing: &str) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).while_doing(doing)?;
    statement.execute([]).while_doing(doing)?;
    Ok(())
}

/// Checks that the schema is still of this release: another process of a newer one may have migrated it since.
/// Returns true if no other process has written to the file since the last transaction.
fn check_schema(connection: &Connection, last: &mut LastVersion) -> Result<bool, StoreError> {
    let doing = "read the schema's version";
    let number = |pragma: &str| {
        let mut statement = connection.prepare_cached(pragma).while_doing(doing)?;
        statement.query_row([], |row| row.get::<_, i64>(0)).while_doing(doing)
    };
    // Within a write transaction, no other process writes.
    let written = Some(number("PRAGMA data_version")?);
    if written == *last {
        return Ok(true);
    }
    let version = number("PRAGMA user_version")?;
    if version == migrations::SCHEMA_VERSION {
        *last = written;
        return Ok(false);
    }
    let problem =
        format!("the file's schema is now {version}; this process knows {}", migrations::SCHEMA_VERSION);
    Err(StoreError::new(problem).of_kind(StoreErrorKind::Newer))
}

//! A record in SQLite's columns: see [`rows`](steadfast_core::internal::store::RowReader).

use std::sync::LazyLock;

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{Columns, RowReader, Stored, read_stored, redacted, to_fence, to_ms};
use steadfast_core::operation::record::Record;
use steadfast_core::operation::{Key, OperationId};
use steadfast_core::store::StoreError;
use steadfast_core::store::delivery::Version;

use super::failure::ErrorContext;
use super::prepared::Prepared;
use super::rows::{self, Reader};
use super::sequence::{self, PLACE};
use super::statements::{APPEND, UPDATE, UPDATE_KEEPING_ANSWER};

/// Columns of the table `operation` for [`read_operation`](steadfast_core::internal::store::read_operation). An
/// operation that waits for its turn has its time in `sequenced`.
pub(super) const OPERATION: &str = "scope, key, phase, coalesce(until_ms, \
     (SELECT m.at_ms FROM sequenced AS m WHERE m.operation = number)), detail, status, fence, attempts, effect, \
     claimed_at_ms, updated_at_ms, on_unknown, resolved, unknown_since_ms, lookups, resends_left, attempt_max_ms, \
     vendor_clock_ms, holder";

/// Columns for [`read_request`](steadfast_core::internal::store::read_request), after those and without
/// [`PLACE`].
pub(super) const REQUEST: &str =
    "number, retention_ms, first_fence, fingerprint, wire_key, redact, predecessor, first_scope";

/// Returns the columns for [`read_stored`].
pub(super) fn columns() -> &'static str {
    static COLUMNS: LazyLock<String> =
        LazyLock::new(|| format!("{OPERATION}, {REQUEST}, {PLACE}, request, answer"));
    &COLUMNS
}

pub(super) fn load(connection: &Connection, id: &OperationId) -> Result<Option<Stored>, StoreError> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT {} FROM operation WHERE scope = ?1 AND key = ?2", columns()));
    let name = [id.scope.as_str(), id.key.as_str()];
    rows::first(connection, "look for an operation", (&SELECT, name), |row| read_stored(row))
}

/// Returns the version of each of these operations; `None` where no record exists.
pub(super) fn versions(
    connection: &Connection,
    ids: &[OperationId],
) -> Result<Vec<Option<Version>>, StoreError> {
    let doing = "read the versions of operations";
    let sql = "SELECT phase, fence FROM operation WHERE scope = ?1 AND key = ?2";
    let version = |row: &mut Reader<'_, '_>| Ok(Version { phase: row.phase()?, fence: row.amount()? });
    let versions = ids.iter().map(|id| {
        let name = [id.scope.as_str(), id.key.as_str()];
        rows::first(connection, doing, (sql, name), version)
    });
    versions.collect()
}

/// Inserts the row of a life of a key that begins with this fence. Returns false if the name is taken.
pub(super) fn insert(
    connection: &Prepared<'_>,
    record: &Record,
    first_fence: u64,
    request: &[u8],
) -> Result<bool, StoreError> {
    let columns = Columns::of(record)?;
    let added = connection
        .insert()?
        .execute(params![
            record.id.scope.as_str(),
            record.id.key.as_str(),
            record.id.scope.vendor_path(),
            &record.fingerprint.as_bytes()[..],
            record.wire_key,
            columns.phase,
            columns.until,
            to_fence(first_fence),
            record.attempts,
            columns.effect,
            to_ms(record.claimed_at),
            to_ms(record.updated_at),
            columns.keep,
            columns.on_unknown,
            request,
            redacted(record)?,
            record.resends_left,
            columns.attempt_max,
            record.vendor_clock_ms,
            record.predecessor.as_ref().map(Key::as_str),
            record.holder.as_deref(),
        ])
        .while_doing("write a claim")?;
    Ok(added == 1)
}

/// Change of the stored answer.
#[derive(Clone, Copy)]
pub(super) enum AnswerChange<'a> {
    /// The answer stays as it is.
    Keep,
    /// The answer is replaced by this one, or removed.
    Set(Option<&'a [u8]>),
}

/// Updates a row from its record, and its sequence from the row.
pub(super) fn update(
    connection: &Connection,
    number: i64,
    record: &Record,
    answer: AnswerChange<'_>,
) -> Result<(), StoreError> {
    let columns = Columns::of(record)?;
    let doing = "write a transition";
    let head = params![
        number,
        columns.phase,
        columns.until,
        columns.fence,
        record.attempts,
        columns.effect,
        to_ms(record.claimed_at),
        to_ms(record.updated_at),
        columns.on_unknown,
        columns.detail,
        columns.status,
        columns.resolved,
        columns.unknown_since,
        record.lookups,
        record.resends_left,
        columns.attempt_max,
        record.vendor_clock_ms,
        record.holder.as_deref(),
    ];
    match answer {
        AnswerChange::Keep => {
            rows::change(connection, doing, (UPDATE_KEEPING_ANSWER, head))?;
        }
        AnswerChange::Set(bytes) => {
            let all: Vec<&dyn rusqlite::ToSql> = head.iter().copied().chain([&bytes as _]).collect();
            rows::change(connection, doing, (UPDATE, &all[..]))?;
        }
    }
    sequence::operation_updated(connection, number, record)
}

/// Updates the row of a record if it is in progress under the same fence, and adds to its log. Returns true if
/// it was.
pub(super) fn update_held(
    connection: &Prepared<'_>,
    record: &Record,
    answer: Option<&[u8]>,
    reports: &str,
) -> Result<bool, StoreError> {
    let columns = Columns::of(record)?;
    let changed = connection
        .update_held()?
        .execute(params![
            record.id.scope.as_str(),
            record.id.key.as_str(),
            columns.fence,
            columns.phase,
            columns.until,
            record.attempts,
            columns.effect,
            to_ms(record.updated_at),
            columns.detail,
            columns.status,
            answer,
            reports,
            to_ms(record.claimed_at),
            columns.unknown_since,
            record.lookups,
            record.resends_left,
        ])
        .while_doing("write a transition")?;
    Ok(changed == 1)
}

/// Adds to the log of an operation. Returns false if there is no record.
pub(super) fn append(connection: &Connection, id: &OperationId, reports: &str) -> Result<bool, StoreError> {
    let doing = "write evidence";
    let values = params![id.scope.as_str(), id.key.as_str(), reports];
    rows::change(connection, doing, (APPEND, values)).map(|changed| changed == 1)
}

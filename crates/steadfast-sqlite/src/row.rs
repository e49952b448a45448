//! A record in SQLite's columns: see [`columns`](crate::store::columns).

use std::sync::OnceLock;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{
    Columns, StateColumns, Stored, choice, duration, empty_request, from_ms, numbers, redacted, to_fence,
    to_ms,
};
use steadfast_core::operation::record::{Record, Resolved};
use steadfast_core::operation::{Fingerprint, Key, OperationId, RedactedFields, Scope};
use steadfast_core::store::StoreError;
use steadfast_core::store::delivery::Version;

use super::failure::{While, damaged};
use super::prepared::Prepared;
use super::sequence::{self, PLACE};
use super::statements::{APPEND, UPDATE, UPDATE_KEEPING_ANSWER};

/// The columns that [`without_bodies`] reads, in its order; [`PLACE`] comes after them.
pub(super) const COLUMNS: &str = "number, scope, key, fingerprint, wire_key, phase, until_ms, fence, attempts, \
     effect, claimed_at_ms, updated_at_ms, retention_ms, on_unknown, detail, status, resolved";

/// The columns that [`stored`] reads after [`COLUMNS`] and [`PLACE`], in its order.
pub(super) const REST: &str = "request, answer, redact, first_fence, unknown_since_ms, lookups, resends_left, \
     attempt_max_ms, vendor_clock_ms, predecessor, first_scope, holder";

/// Reads [`COLUMNS`] and [`PLACE`]: the row's number, and its record without request and answer.
pub(super) fn without_bodies(row: &Row<'_>) -> rusqlite::Result<(i64, Record)> {
    let time = |at| row.get::<_, i64>(at).map(|ms| Timestamp::from_millis(ms.max(0) as u64));
    let place = row.get::<_, Option<String>>(17)?.map(|text| sequence::place(&text, 17)).transpose()?;
    let (sequence, at) = place.map_or((None, None), |(place, at)| (Some(place), at));
    // Not in its own column while it waits for its turn.
    let until = row.get::<_, Option<i64>>(6)?.or(at);
    let columns = StateColumns { phase: row.get(5)?, until, detail: row.get(14)?, status: row.get(15)? };
    let state = columns.state().map_err(|problem| damaged(5, problem))?;
    let resolved: Option<String> = row.get(16)?;
    let resolved: Option<Resolved> = resolved
        .map(|text| serde_json::from_str(&text).map_err(|_| damaged(16, "no resolution")))
        .transpose()?;
    let key: String = row.get(2)?;
    let key = Key::new(key).map_err(|_| damaged(2, "no key"))?;
    let effect = numbers::effect(row.get(9)?);
    let record = Record {
        id: OperationId::new(Scope::from_stored(row.get::<_, String>(1)?), key),
        fingerprint: Fingerprint::from_bytes(row.get(3)?),
        wire_key: row.get(4)?,
        request: empty_request(),
        state,
        fence: row.get::<_, i64>(7)?.max(0) as u64,
        // A list shows none of these, so that it need not read past the blobs: see `stored`.
        first_fence: 0,
        unknown_since: None,
        look_ups: 0,
        resends_left: 0,
        attempt_max: Duration::ZERO,
        vendor_clock_ms: None,
        holder: None,
        predecessor: None,
        first_scope: None,
        redact: RedactedFields::NONE,
        attempts: row.get(8)?,
        effect,
        claimed_at: time(10)?,
        updated_at: time(11)?,
        keep: duration(row.get(12)?),
        on_unknown: choice(row.get(13)?),
        resolved,
        sequence,
    };
    Ok((row.get(0)?, record))
}

/// Reads [`COLUMNS`], [`PLACE`] and [`REST`].
pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let (number, mut record) = without_bodies(row)?;
    record.first_fence = row.get::<_, i64>(21)?.max(0) as u64;
    record.unknown_since = row.get::<_, Option<i64>>(22)?.map(from_ms);
    record.look_ups = row.get(23)?;
    record.resends_left = row.get(24)?;
    record.attempt_max = duration(row.get(25)?);
    record.vendor_clock_ms = row.get(26)?;
    let predecessor: Option<String> = row.get(27)?;
    record.predecessor =
        predecessor.map(|key| Key::new(key).map_err(|_| damaged(27, "no key"))).transpose()?;
    record.first_scope = row.get::<_, Option<String>>(28)?.map(Scope::from_stored);
    record.holder = row.get::<_, Option<String>>(29)?.map(Into::into);
    if let Some(names) = row.get::<_, Option<String>>(20)? {
        let names = serde_json::from_str(&names).map_err(|_| damaged(20, "no names of fields"))?;
        record.redact = RedactedFields::from_stored(names);
    }
    Ok(Stored { number, record, request: Some(row.get(18)?), answer: row.get(19)? })
}

pub(super) fn load(connection: &Connection, id: &OperationId) -> Result<Option<Stored>, StoreError> {
    let sql = SELECT_BY_NAME.get_or_init(|| {
        format!("SELECT {COLUMNS}, {PLACE}, {REST} FROM operation WHERE scope = ?1 AND key = ?2")
    });
    let mut statement = connection.prepare_cached(sql).while_doing("look for an operation")?;
    statement
        .query_row(params![id.scope.as_str(), id.key.as_str()], stored)
        .optional()
        .while_doing("look for an operation")
}

/// The version of each of these operations; `None` where nothing is on record.
pub(super) fn versions(
    connection: &Connection,
    ids: &[OperationId],
) -> Result<Vec<Option<Version>>, StoreError> {
    let doing = "look whether operations have moved";
    let sql = "SELECT phase, fence FROM operation WHERE scope = ?1 AND key = ?2";
    let mut statement = connection.prepare_cached(sql).while_doing(doing)?;
    let read = |row: &Row<'_>| {
        let phase = numbers::phase(row.get(0)?).ok_or_else(|| damaged(0, "no such phase"))?;
        Ok(Version { phase, fence: row.get::<_, i64>(1)?.max(0) as u64 })
    };
    let ids = ids.iter();
    let versions = ids.map(|id| statement.query_row([id.scope.as_str(), id.key.as_str()], read).optional());
    versions.collect::<rusqlite::Result<_>>().while_doing(doing)
}

/// Adds the row of a life of a key that begins with this fence, unless the name is taken; whether it did.
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

/// What becomes of the answer on file.
#[derive(Clone, Copy)]
pub(super) enum OnFile<'a> {
    /// It stays as it is.
    Kept,
    /// It is this one, or none.
    Now(Option<&'a [u8]>),
}

/// Brings a row in line with its record, and its sequence with the row.
pub(super) fn update(
    connection: &Connection,
    number: i64,
    record: &Record,
    answer: OnFile<'_>,
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
        record.look_ups,
        record.resends_left,
        columns.attempt_max,
        record.vendor_clock_ms,
        record.holder.as_deref(),
    ];
    match answer {
        OnFile::Kept => {
            let mut statement = connection.prepare_cached(UPDATE_KEEPING_ANSWER).while_doing(doing)?;
            statement.execute(head).while_doing(doing)?;
        }
        OnFile::Now(bytes) => {
            let mut statement = connection.prepare_cached(UPDATE).while_doing(doing)?;
            let all: Vec<&dyn rusqlite::ToSql> = head.iter().copied().chain([&bytes as _]).collect();
            statement.execute(&all[..]).while_doing(doing)?;
        }
    }
    sequence::moved(connection, number, record)
}

/// Brings the row of a record in line with it if it is in progress under the same fence, and adds to its log;
/// whether it was.
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
            record.look_ups,
            record.resends_left,
        ])
        .while_doing("write a transition")?;
    Ok(changed == 1)
}

/// Adds to the log of an operation; whether there is one.
pub(super) fn append(connection: &Connection, id: &OperationId, reports: &str) -> Result<bool, StoreError> {
    let doing = "write evidence";
    let mut statement = connection.prepare_cached(APPEND).while_doing(doing)?;
    let changed =
        statement.execute(params![id.scope.as_str(), id.key.as_str(), reports]).while_doing(doing)?;
    Ok(changed == 1)
}

static SELECT_BY_NAME: OnceLock<String> = OnceLock::new();

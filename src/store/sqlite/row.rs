//! A record in columns.
//!
//! The state machine decides by names, times, fences and effects; what a request or an answer holds never
//! matters to it. A row is therefore read *hollow*, with an empty request and an answer of the right status,
//! decided upon, and filled from its blobs by the caller's task: the one writer thread does not parse bodies.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use rusqlite::{Connection, OptionalExtension, Row, params};
use url::Url;

use super::codec;
use super::failure::While;
use super::numbers::{
    REASONS, REFUSALS, damaged, duration, duration_ms, from_ms, phase, phase_number, place, reason, refusal,
    to_fence, to_ms,
};
use super::seals::{Part, Seals};
use super::statements::{APPEND, INSERT, UPDATE, UPDATE_HELD, UPDATE_KEEPING_ANSWER};
use crate::answer::Answer;
use crate::clock::Timestamp;
use crate::operation::record::{Phase, Record, Resolved, State};
use crate::operation::{Fingerprint, Key, OperationId, RedactedFields, Scope};
use crate::policy::OnUnknown;
use crate::request::Request;
use crate::store::StoreError;

/// A record as it is in the file.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub number: i64,
    pub record: Record,
    /// The request, unless the record has it already.
    pub request: Option<Vec<u8>>,
    /// The answer, unless the record has it already or there is none.
    pub answer: Option<Vec<u8>>,
}

impl Stored {
    /// With the request in the record, and no longer beside it.
    pub(super) fn with_request(mut self, seals: &Seals) -> Result<Stored, StoreError> {
        if let Some(bytes) = self.request.take() {
            self.record.request = codec::request(seals.unseal(Part::Request, &self.record.id, bytes)?)?;
        }
        Ok(self)
    }

    /// The record, filled from its blobs.
    pub(super) fn whole(self, seals: &Seals) -> Result<Record, StoreError> {
        let Stored { mut record, answer, .. } = self.with_request(seals)?;
        let kept = match &mut record.state {
            State::InProgress { .. } | State::Scheduled { .. } => None,
            State::Succeeded { answer, .. } | State::Refused { answer, .. } => Some(answer),
            State::Dead { answer, .. } => answer.as_mut(),
        };
        if let Some((kept, bytes)) = kept.zip(answer) {
            *kept = codec::answer(seals.unseal(Part::Answer, &record.id, bytes)?)?;
        }
        Ok(record)
    }
}

/// The columns that [`hollow`] reads, in its order.
pub(super) const COLUMNS: &str = "number, scope, key, fingerprint, wire_key, phase, until_ms, fence, attempts, \
     effect, claimed_at_ms, updated_at_ms, keep_ms, on_unknown, detail, status, resolved";

/// The columns that [`stored`] reads after those, in its order.
pub(super) const REST: &str = "request, answer, redact, first_fence, unknown_since_ms, look_ups, resends_left, \
     attempt_max_ms, vendor_clock_ms, predecessor, first_scope";

/// Reads [`COLUMNS`]: the row's number, and its record without request and answer.
pub(super) fn hollow(row: &Row<'_>) -> rusqlite::Result<(i64, Record)> {
    let time = |at| row.get::<_, i64>(at).map(|ms| Timestamp::from_millis(ms.max(0) as u64));
    let until = row.get::<_, Option<i64>>(6)?.map_or(Timestamp::default(), from_ms);
    let answer = hollow_answer(row.get(15)?)?;
    let needed = || answer.clone().ok_or_else(|| damaged(15, "no status in a settled row"));
    let detail: Option<i64> = row.get(14)?;
    let dead = || Ok::<_, rusqlite::Error>(State::Dead { reason: reason(detail)?, answer: answer.clone() });
    let state = match phase(row.get(5)?).ok_or_else(|| damaged(5, "no such phase"))? {
        Phase::InProgress => State::InProgress { lease_until: until },
        Phase::Scheduled => State::Scheduled { at: until },
        Phase::Succeeded => State::Succeeded { answer: needed()?, reconciled: detail == Some(1) },
        Phase::Refused => State::Refused { refusal: refusal(detail)?, answer: needed()? },
        Phase::Dead | Phase::Resolved => dead()?,
    };
    let resolved: Option<String> = row.get(16)?;
    let resolved: Option<Resolved> = resolved
        .map(|text| serde_json::from_str(&text).map_err(|_| damaged(16, "no resolution")))
        .transpose()?;
    let key: String = row.get(2)?;
    let key = Key::new(key).map_err(|_| damaged(2, "no key"))?;
    let effect = codec::effect(&state, row.get(9)?);
    let record = Record {
        id: OperationId::new(Scope::from_stored(row.get::<_, String>(1)?), key),
        fingerprint: Fingerprint::from_bytes(row.get(3)?),
        wire_key: row.get(4)?,
        request: hollow_request(),
        state,
        fence: row.get::<_, i64>(7)?.max(0) as u64,
        // A list shows none of these, so that it need not read past the blobs: see `stored`.
        first_fence: 0,
        unknown_since: None,
        look_ups: 0,
        resends_left: 0,
        attempt_max: Duration::ZERO,
        vendor_clock_ms: None,
        predecessor: None,
        first_scope: None,
        redact: RedactedFields::NONE,
        attempts: row.get(8)?,
        effect,
        claimed_at: time(10)?,
        updated_at: time(11)?,
        keep: duration(row.get(12)?),
        on_unknown: if row.get::<_, i64>(13)? == 0 { OnUnknown::Park } else { OnUnknown::Resend },
        resolved,
    };
    Ok((row.get(0)?, record))
}

/// Reads [`COLUMNS`] and, after them, [`REST`].
pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let (number, mut record) = hollow(row)?;
    record.first_fence = row.get::<_, i64>(20)?.max(0) as u64;
    record.unknown_since = row.get::<_, Option<i64>>(21)?.map(from_ms);
    record.look_ups = row.get(22)?;
    record.resends_left = row.get(23)?;
    record.attempt_max = duration(row.get(24)?);
    record.vendor_clock_ms = row.get(25)?;
    let predecessor: Option<String> = row.get(26)?;
    record.predecessor =
        predecessor.map(|key| Key::new(key).map_err(|_| damaged(26, "no key"))).transpose()?;
    record.first_scope = row.get::<_, Option<String>>(27)?.map(Scope::from_stored);
    if let Some(names) = row.get::<_, Option<String>>(19)? {
        let names = serde_json::from_str(&names).map_err(|_| damaged(19, "no names of fields"))?;
        record.redact = RedactedFields::from_stored(names);
    }
    Ok(Stored { number, record, request: Some(row.get(17)?), answer: row.get(18)? })
}

pub(super) fn load(connection: &Connection, id: &OperationId) -> Result<Option<Stored>, StoreError> {
    let sql = SELECT_BY_NAME
        .get_or_init(|| format!("SELECT {COLUMNS}, {REST} FROM operation WHERE scope = ?1 AND key = ?2"));
    let mut statement = connection.prepare_cached(sql).while_doing("look for an operation")?;
    statement
        .query_row(params![id.scope.as_str(), id.key.as_str()], stored)
        .optional()
        .while_doing("look for an operation")
}

/// Adds the row of a life of a key that begins with this fence, unless the name is taken; whether it did.
pub(super) fn insert(
    connection: &Connection,
    record: &Record,
    first_fence: u64,
    request: &[u8],
) -> Result<bool, StoreError> {
    let columns = Columns::of(record)?;
    let mut statement = connection.prepare_cached(INSERT).while_doing("prepare a claim")?;
    let added = statement
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
            record.holds_secrets(),
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

/// Brings a row in line with its record.
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
    Ok(())
}

/// Brings the row of a record in line with it if it is in progress under the same fence, and adds to its log;
/// whether it was.
pub(super) fn update_held(
    connection: &Connection,
    record: &Record,
    answer: Option<&[u8]>,
    reports: &str,
) -> Result<bool, StoreError> {
    let columns = Columns::of(record)?;
    let doing = "write a transition";
    let mut statement = connection.prepare_cached(UPDATE_HELD).while_doing(doing)?;
    let changed = statement
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
        .while_doing(doing)?;
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

/// What is in columns under another form than in the record.
struct Columns {
    phase: i64,
    until: Option<i64>,
    fence: i64,
    effect: i64,
    keep: i64,
    on_unknown: i64,
    detail: Option<i64>,
    status: Option<u16>,
    resolved: Option<String>,
    unknown_since: Option<i64>,
    attempt_max: i64,
}

impl Columns {
    fn of(record: &Record) -> Result<Columns, StoreError> {
        let (detail, answer) = match &record.state {
            State::InProgress { .. } | State::Scheduled { .. } => (None, None),
            State::Succeeded { answer, reconciled } => (Some(i64::from(*reconciled)), Some(answer)),
            State::Refused { refusal, answer } => (place(&REFUSALS, refusal), Some(answer)),
            State::Dead { reason, answer } => (place(&REASONS, reason), answer.as_ref()),
        };
        let resolved = record.resolved.as_ref().map(serde_json::to_string).transpose();
        Ok(Columns {
            phase: phase_number(record.phase()),
            until: record.until().map(to_ms),
            fence: to_fence(record.fence),
            effect: codec::effect_number(record.effect),
            keep: duration_ms(record.keep),
            on_unknown: i64::from(record.on_unknown == OnUnknown::Resend),
            detail,
            status: answer.map(|answer| answer.status.as_u16()),
            unknown_since: record.unknown_since.map(to_ms),
            attempt_max: duration_ms(record.attempt_max),
            resolved: resolved
                .map_err(|error| StoreError::with_source("a resolution cannot be written", error))?,
        })
    }
}

fn redacted(record: &Record) -> Result<Option<String>, StoreError> {
    if record.redact.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(record.redact.names())
        .map(Some)
        .map_err(|error| StoreError::with_source("names of fields cannot be written", error))
}

fn hollow_request() -> Request {
    let url = Url::parse("about:blank").expect("a constant that parses");
    Request::new(Method::GET, url)
}

fn hollow_answer(status: Option<u16>) -> rusqlite::Result<Option<Answer>> {
    let Some(status) = status else { return Ok(None) };
    let status = StatusCode::from_u16(status).map_err(|_| damaged(15, "no such status"))?;
    Ok(Some(Answer::new(status, HeaderMap::new(), Bytes::new())))
}

static SELECT_BY_NAME: OnceLock<String> = OnceLock::new();

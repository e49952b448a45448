//! A record in Postgres' columns: see [`columns`](crate::store::columns).

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{
    Columns, StateColumns, Stored, choice, duration, empty_request, from_ms, numbers, to_ms,
};
use steadfast_core::operation::record::{Notes, Record, Resolved};
use steadfast_core::operation::{Fingerprint, Key, OperationId, RedactedFields, Scope};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::schema::Schema;
use super::sequence;

/// What [`operation`] reads, in its order: of the table `operation` as `o`.
pub(super) const OPERATION: &str = "o.scope, o.key, o.phase, o.until_ms, o.detail, o.status, o.fence, o.attempts, \
     o.effect, o.claimed_at_ms, o.updated_at_ms, o.on_unknown, o.resolved, o.unknown_since_ms, o.lookups, \
     o.resends_left, o.attempt_max_ms, o.vendor_clock_ms, o.holder";

/// What [`first_claim`] reads: of the table `request` as `r`.
pub(super) fn request(schema: &Schema) -> String {
    format!("{REQUEST}, {}", sequence::place_of(schema))
}

/// In the order in which it is read. The place in a sequence comes after it.
const REQUEST: &str = "r.number, r.retention_ms, r.first_fence, r.fingerprint, r.wire_key, r.redact, \
     r.predecessor, r.first_scope";

/// What [`Blobs`] reads after those, of the tables `request` as `r` and `outcome` as `a`.
pub(super) const BLOBS: &str = "r.request, a.answer";

/// A value of a statement and its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// Reads one column after the other.
pub(super) struct Reader<'a> {
    row: &'a Row,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn of(row: &'a Row) -> Reader<'a> {
        Reader { row, at: 0 }
    }

    pub(super) fn next<T: FromSql<'a>>(&mut self) -> Result<T, StoreError> {
        let at = self.at;
        self.at += 1;
        self.row.try_get(at).map_err(|error| {
            let problem = format!("column {at} of a stored row is not what was written");
            StoreError::with_source(problem, error).of_kind(StoreErrorKind::Corrupt)
        })
    }

    fn small(&mut self) -> Result<i64, StoreError> {
        self.next::<i16>().map(i64::from)
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.next::<i64>().map(from_ms)
    }

    fn count(&mut self) -> Result<u32, StoreError> {
        u32::try_from(self.next::<i64>()?).map_err(|_| damaged("a count is out of its range"))
    }

    fn fence(&mut self) -> Result<u64, StoreError> {
        self.next::<i64>().map(|fence| fence.max(0) as u64)
    }

    pub(super) fn key(&mut self) -> Result<Key, StoreError> {
        Key::new(self.next::<String>()?).map_err(|_| damaged("no key"))
    }

    pub(super) fn id(&mut self) -> Result<OperationId, StoreError> {
        let scope = Scope::from_stored(self.next::<String>()?);
        Ok(OperationId::new(scope, self.key()?))
    }
}

/// What a statement without requests and answers tells of an operation: without bodies, and without what the first
/// claim brought.
pub(super) fn operation(from: &mut Reader<'_>) -> Result<Record, StoreError> {
    let id = from.id()?;
    let columns = StateColumns {
        phase: from.small()?,
        until: from.next()?,
        detail: from.next::<Option<i16>>()?.map(i64::from),
        status: from.next::<Option<i16>>()?.map(|status| status.max(0) as u16),
    };
    let state = columns.state().map_err(damaged)?;
    let fence = from.fence()?;
    let attempts = from.count()?;
    let effect = numbers::effect(from.small()?);
    Ok(Record {
        id,
        state,
        fence,
        attempts,
        effect,
        claimed_at: from.time()?,
        updated_at: from.time()?,
        on_unknown: choice(from.small()?),
        resolved: from.next::<Option<String>>()?.map(|text| resolved(&text)).transpose()?,
        unknown_since: from.next::<Option<i64>>()?.map(from_ms),
        look_ups: from.count()?,
        resends_left: from.count()?,
        attempt_max: duration(from.next()?),
        vendor_clock_ms: from.next()?,
        holder: from.next::<Option<&str>>()?.map(Into::into),
        request: empty_request(),
        fingerprint: Fingerprint::from_bytes([0; 32]),
        wire_key: String::new(),
        first_fence: 0,
        keep: std::time::Duration::ZERO,
        redact: RedactedFields::NONE,
        predecessor: None,
        first_scope: None,
        sequence: None,
    })
}

/// Adds what the first claim brought, and gives the row's number.
pub(super) fn first_claim(record: &mut Record, from: &mut Reader<'_>) -> Result<i64, StoreError> {
    let number = from.next()?;
    record.keep = duration(from.next()?);
    record.first_fence = from.fence()?;
    let print: &[u8] = from.next()?;
    record.fingerprint = Fingerprint::from_bytes(print.try_into().map_err(|_| damaged("no fingerprint"))?);
    record.wire_key = from.next()?;
    if let Some(names) = from.next::<Option<String>>()? {
        let names = serde_json::from_str(&names).map_err(|_| damaged("no names of fields"))?;
        record.redact = RedactedFields::from_stored(names);
    }
    let predecessor: Option<String> = from.next()?;
    record.predecessor = predecessor.map(|key| Key::new(key).map_err(|_| damaged("no key"))).transpose()?;
    record.first_scope = from.next::<Option<String>>()?.map(Scope::from_stored);
    record.sequence = sequence::place(from)?;
    Ok(number)
}

/// A whole row: `record` is what [`operation`] gave, and the rest is read from [`request`] and [`BLOBS`].
pub(super) fn stored(mut record: Record, from: &mut Reader<'_>) -> Result<Stored, StoreError> {
    let number = first_claim(&mut record, from)?;
    Ok(Stored { number, record, request: Some(from.next()?), answer: from.next()? })
}

/// The server's time, and of the notes what [a command](super::statements::Statements::see) needs.
pub(super) fn notes(from: &mut Reader<'_>) -> Result<(Timestamp, Notes), StoreError> {
    let now = from.time()?;
    let believed = believed(from, now)?;
    Ok((now, Notes { purged: from.fence()?, believed, doubted: None }))
}

/// The time that the store believes at `now`. On file it is up to a minute older.
pub(super) fn believed(from: &mut Reader<'_>, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let mut noted = Notes { believed: from.next::<Option<i64>>()?.map(from_ms), ..Notes::default() };
    noted.saw(now);
    Ok(noted.believed)
}

fn resolved(text: &str) -> Result<Resolved, StoreError> {
    serde_json::from_str(text).map_err(|_| damaged("no resolution"))
}

pub(super) fn damaged(problem: &str) -> StoreError {
    let problem = format!("a stored row is not what was written: {problem}");
    StoreError::new(problem).of_kind(StoreErrorKind::Corrupt)
}

/// What changes of records, column by column: the values of a statement over many rows.
#[derive(Default)]
pub(super) struct Changes<'a> {
    scope: Vec<&'a str>,
    key: Vec<&'a str>,
    phase: Vec<i64>,
    until: Vec<Option<i64>>,
    fence: Vec<i64>,
    attempts: Vec<i64>,
    effect: Vec<i64>,
    claimed_at: Vec<i64>,
    updated_at: Vec<i64>,
    on_unknown: Vec<i64>,
    detail: Vec<Option<i64>>,
    status: Vec<Option<i64>>,
    resolved: Vec<Option<String>>,
    unknown_since: Vec<Option<i64>>,
    look_ups: Vec<i64>,
    resends_left: Vec<i64>,
    attempt_max: Vec<i64>,
    vendor_clock: Vec<Option<i64>>,
    holder: Vec<Option<&'a str>>,
}

impl<'a> Changes<'a> {
    /// The names of the values, in their order.
    pub(super) const NAMES: &'static str = "scope, key, phase, until_ms, fence, attempts, effect, claimed_at_ms, updated_at_ms, \
         on_unknown, detail, status, resolved, unknown_since_ms, lookups, resends_left, attempt_max_ms, vendor_clock_ms, \
         holder";

    /// Their places in a statement.
    pub(super) const PLACES: &'static str =
        "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19";

    pub(super) fn of(records: impl IntoIterator<Item = &'a Record>) -> Result<Changes<'a>, StoreError> {
        let mut changes = Changes::default();
        for record in records {
            changes.add(record)?;
        }
        Ok(changes)
    }

    fn add(&mut self, record: &'a Record) -> Result<(), StoreError> {
        let columns = Columns::of(record)?;
        self.scope.push(record.id.scope.as_str());
        self.key.push(record.id.key.as_str());
        self.phase.push(columns.phase);
        // Also of what waits for its turn: that has no `wake_ms`.
        self.until.push(record.until().map(to_ms));
        self.fence.push(columns.fence);
        self.attempts.push(record.attempts.into());
        self.effect.push(columns.effect);
        self.claimed_at.push(to_ms(record.claimed_at));
        self.updated_at.push(to_ms(record.updated_at));
        self.on_unknown.push(columns.on_unknown);
        self.detail.push(columns.detail);
        self.status.push(columns.status.map(i64::from));
        self.resolved.push(columns.resolved);
        self.unknown_since.push(columns.unknown_since);
        self.look_ups.push(record.look_ups.into());
        self.resends_left.push(record.resends_left.into());
        self.attempt_max.push(columns.attempt_max);
        self.vendor_clock.push(record.vendor_clock_ms);
        self.holder.push(record.holder.as_deref());
        Ok(())
    }

    pub(super) fn values(&self) -> Vec<Value<'_>> {
        vec![
            (&self.scope, Type::TEXT_ARRAY),
            (&self.key, Type::TEXT_ARRAY),
            (&self.phase, Type::INT8_ARRAY),
            (&self.until, Type::INT8_ARRAY),
            (&self.fence, Type::INT8_ARRAY),
            (&self.attempts, Type::INT8_ARRAY),
            (&self.effect, Type::INT8_ARRAY),
            (&self.claimed_at, Type::INT8_ARRAY),
            (&self.updated_at, Type::INT8_ARRAY),
            (&self.on_unknown, Type::INT8_ARRAY),
            (&self.detail, Type::INT8_ARRAY),
            (&self.status, Type::INT8_ARRAY),
            (&self.resolved, Type::TEXT_ARRAY),
            (&self.unknown_since, Type::INT8_ARRAY),
            (&self.look_ups, Type::INT8_ARRAY),
            (&self.resends_left, Type::INT8_ARRAY),
            (&self.attempt_max, Type::INT8_ARRAY),
            (&self.vendor_clock, Type::INT8_ARRAY),
            (&self.holder, Type::TEXT_ARRAY),
        ]
    }
}

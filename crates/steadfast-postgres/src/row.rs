//! A record in Postgres' columns: see [`rows`](steadfast_core::internal::store::RowReader).

use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Column, Row};

use steadfast_core::clock::Timestamp;
pub(super) use steadfast_core::internal::store::damaged;
use steadfast_core::internal::store::{Columns, RowReader, to_ms};
use steadfast_core::operation::record::{Notes, Record};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::schema::Schema;
use super::sequence;

/// Columns of the table `operation` as `o`, for
/// [`read_operation`](steadfast_core::internal::store::read_operation).
pub(super) const OPERATION: &str = "o.scope, o.key, o.phase, o.until_ms, o.detail, o.status, o.fence, o.attempts, \
     o.effect, o.claimed_at_ms, o.updated_at_ms, o.on_unknown, o.resolved, o.unknown_since_ms, o.lookups, \
     o.resends_left, o.attempt_max_ms, o.vendor_clock_ms, o.holder";

/// Returns the columns of the table `request` as `r`, for
/// [`read_request`](steadfast_core::internal::store::read_request).
pub(super) fn request(schema: &Schema) -> String {
    format!("{REQUEST}, {}", sequence::place_of(schema))
}

/// Columns of a request, without the place in a sequence, which comes after them.
const REQUEST: &str = "r.number, r.retention_ms, r.first_fence, r.fingerprint, r.wire_key, r.redact, \
     r.predecessor, r.first_scope";

/// Columns of the tables `request` as `r` and `outcome` as `a`, for
/// [`read_rest`](steadfast_core::internal::store::read_rest), after those of the request.
pub(super) const BLOBS: &str = "r.request, a.answer";

/// A statement's value and its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// Reader of one column after the other.
pub(super) struct Reader<'a> {
    row: &'a Row,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn of(row: &'a Row) -> Reader<'a> {
        Reader { row, at: 0 }
    }

    /// Returns a reader of the first row. The statement must return at least one.
    pub(super) fn first(rows: &'a [Row]) -> Result<Reader<'a>, StoreError> {
        rows.first().map(Reader::of).ok_or_else(|| damaged("no answer"))
    }

    pub(super) fn next<T: FromSql<'a>>(&mut self) -> Result<T, StoreError> {
        let at = self.at;
        self.at += 1;
        self.row.try_get(at).map_err(|error| {
            let problem = format!("column {at} of a stored row is not what was written");
            StoreError::with_source(problem, error).of_kind(StoreErrorKind::Corrupt)
        })
    }
}

impl<'a> RowReader<'a> for Reader<'a> {
    fn int(&mut self) -> Result<Option<i64>, StoreError> {
        match self.row.columns().get(self.at).map(Column::type_) {
            Some(&Type::INT2) => self.next::<Option<i16>>().map(|number| number.map(i64::from)),
            Some(&Type::BOOL) => self.next::<Option<bool>>().map(|is_true| is_true.map(i64::from)),
            _ => self.next(),
        }
    }

    fn text(&mut self) -> Result<Option<&'a str>, StoreError> {
        self.next()
    }

    fn blob(&mut self) -> Result<Option<&'a [u8]>, StoreError> {
        self.next()
    }
}

/// Reads the server's time, and the notes that [a command](super::statements::Statements::see) needs.
pub(super) fn notes(from: &mut Reader<'_>) -> Result<(Timestamp, Notes), StoreError> {
    let now = from.time()?;
    let believed = believed(from, now)?;
    Ok((now, Notes { purged: from.amount()?, believed, doubted: None }))
}

/// Reads the time that the store believes at `now`. The stored one is up to a minute older.
pub(super) fn believed(from: &mut Reader<'_>, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let mut noted = Notes { believed: from.maybe_time()?, ..Notes::default() };
    noted.saw(now);
    Ok(noted.believed)
}

/// Columns of records that can change: the values of a statement over many rows.
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
    lookups: Vec<i64>,
    resends_left: Vec<i64>,
    attempt_max: Vec<i64>,
    vendor_clock: Vec<Option<i64>>,
    holder: Vec<Option<&'a str>>,
}

impl<'a> Changes<'a> {
    /// Names of the columns, in their order.
    pub(super) const NAMES: &'static str = "scope, key, phase, until_ms, fence, attempts, effect, claimed_at_ms, updated_at_ms, \
         on_unknown, detail, status, resolved, unknown_since_ms, lookups, resends_left, attempt_max_ms, vendor_clock_ms, \
         holder";

    /// Parameters of the columns in a statement.
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
        // Also for an operation that waits for its turn: it has no `wake_ms`.
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
        self.lookups.push(record.lookups.into());
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
            (&self.lookups, Type::INT8_ARRAY),
            (&self.resends_left, Type::INT8_ARRAY),
            (&self.attempt_max, Type::INT8_ARRAY),
            (&self.vendor_clock, Type::INT8_ARRAY),
            (&self.holder, Type::TEXT_ARRAY),
        ]
    }
}

//! The rows of a database, read once for all of them: a [`RowReader`] gives one column after the other, and the
//! functions here make records of them. Which columns a statement has, and where they come from, is the database's own.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::time::Duration;

use serde::Deserialize;

use super::backlog::Queue;
use super::columns::{StateColumns, sequence_place};
use super::heartbeat::Peer;
use super::numbers::{choice, duration, effect, from_ms, phase};
use super::stored::{Stored, empty_request};
use crate::clock::Timestamp;
use crate::operation::record::{AuditEntry, Phase, Place, Record, Tally};
use crate::operation::{Fingerprint, Key, OperationId, RedactedFields, Scope};
use crate::store::{StoreError, StoreErrorKind};

/// Reads one column of a row after the other. Each method takes the next one.
///
/// # Errors
///
/// `Corrupt` for a column of another type, and for what no release of this crate would have written.
pub trait RowReader<'r> {
    /// A whole number, or a truth value as 1 and 0.
    fn int(&mut self) -> Result<Option<i64>, StoreError>;

    fn text(&mut self) -> Result<Option<&'r str>, StoreError>;

    /// Bytes; those of a text where the database keeps one among bytes.
    fn blob(&mut self) -> Result<Option<&'r [u8]>, StoreError>;

    /// Reads a text that another program may have written. A mistake in it goes to `problem`, unless there is one.
    fn text_of_others(&mut self, _problem: &mut Option<String>) -> Result<Option<String>, StoreError> {
        self.text().map(|text| text.map(str::to_owned))
    }

    fn number(&mut self) -> Result<i64, StoreError> {
        self.int()?.ok_or_else(|| damaged("no number"))
    }

    fn flag(&mut self) -> Result<bool, StoreError> {
        self.number().map(|number| number != 0)
    }

    /// A fence, or how many there are of something.
    fn amount(&mut self) -> Result<u64, StoreError> {
        self.number().map(|number| number.max(0) as u64)
    }

    fn count(&mut self) -> Result<u32, StoreError> {
        u32::try_from(self.number()?).map_err(|_| damaged("a count is out of its range"))
    }

    fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.number().map(from_ms)
    }

    fn maybe_time(&mut self) -> Result<Option<Timestamp>, StoreError> {
        self.int().map(|time| time.map(from_ms))
    }

    fn string(&mut self) -> Result<String, StoreError> {
        self.text()?.map(str::to_owned).ok_or_else(|| damaged("no text"))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        self.blob()?.map(<[u8]>::to_vec).ok_or_else(|| damaged("no bytes"))
    }

    fn scope(&mut self) -> Result<Scope, StoreError> {
        self.string().map(Scope::from_stored)
    }

    fn phase(&mut self) -> Result<Phase, StoreError> {
        phase(self.number()?).ok_or_else(|| damaged("no such phase"))
    }

    /// Scope and key.
    fn id(&mut self) -> Result<OperationId, StoreError> {
        let (scope, key) = (self.scope()?, self.string()?);
        Ok(OperationId::new(scope, key_of(key)?))
    }
}

fn key_of(text: String) -> Result<Key, StoreError> {
    Key::new(text).map_err(|_| damaged("no key"))
}

pub fn damaged(problem: &str) -> StoreError {
    let problem = format!("a stored row is not what was written: {problem}");
    StoreError::new(problem).of_kind(StoreErrorKind::Corrupt)
}

/// Reads the part of an operation that changes. It has neither the bodies nor the part that [`read_request`] adds.
///
/// ```text
/// scope, key, phase, until, detail, status, fence, attempts, effect, claimed at, updated at, choice for an unknown outcome,
/// resolution, unknown since, lookups, resends left, longest attempt, vendor's clock, holder
/// ```
pub fn read_operation<'r>(row: &mut impl RowReader<'r>) -> Result<Record, StoreError> {
    let id = row.id()?;
    let (phase, until, detail) = (row.number()?, row.int()?, row.int()?);
    let status = row.int()?.map(|status| status.max(0) as u16);
    let state = StateColumns { phase, until, detail, status }.state().map_err(damaged)?;
    Ok(Record {
        id,
        state,
        fence: row.amount()?,
        attempts: row.count()?,
        effect: effect(row.number()?),
        claimed_at: row.time()?,
        updated_at: row.time()?,
        on_unknown: choice(row.number()?),
        resolved: row.text()?.map(|text| json(text, "no resolution")).transpose()?,
        unknown_since: row.maybe_time()?,
        lookups: row.count()?,
        resends_left: row.count()?,
        attempt_max: duration(row.number()?),
        vendor_clock_ms: row.int()?,
        holder: row.text()?.map(Into::into),
        request: empty_request(),
        fingerprint: Fingerprint::from_bytes([0; 32]),
        wire_key: String::new(),
        first_fence: 0,
        keep: Duration::ZERO,
        redact: RedactedFields::NONE,
        predecessor: None,
        first_scope: None,
        sequence: None,
    })
}

/// Reads the part of an operation that its first claim brought. Returns the row's number.
///
/// ```text
/// number, retention, first fence, fingerprint, wire key, redacted fields, predecessor, first scope, place in a sequence
/// ```
pub fn read_request<'r>(record: &mut Record, row: &mut impl RowReader<'r>) -> Result<i64, StoreError> {
    let number = row.number()?;
    record.keep = duration(row.number()?);
    record.first_fence = row.amount()?;
    let print = row.blob()?.and_then(|print| print.try_into().ok());
    record.fingerprint = Fingerprint::from_bytes(print.ok_or_else(|| damaged("no fingerprint"))?);
    record.wire_key = row.string()?;
    if let Some(names) = row.text()? {
        record.redact = RedactedFields::from_stored(json(names, "no names of fields")?);
    }
    record.predecessor = row.text()?.map(|key| key_of(key.to_owned())).transpose()?;
    record.first_scope = row.text()?.map(|scope| Scope::from_stored(scope.to_owned()));
    record.sequence = read_place(row)?;
    Ok(number)
}

/// A whole row: what [`read_operation`] and [`read_request`] read, the request, the answer.
pub fn read_stored<'r>(row: &mut impl RowReader<'r>) -> Result<Stored, StoreError> {
    let record = read_operation(row)?;
    read_rest(record, row)
}

/// The rest of a whole row: what [`read_request`] reads, the request, the answer.
pub fn read_rest<'r>(mut record: Record, row: &mut impl RowReader<'r>) -> Result<Stored, StoreError> {
    let number = read_request(&mut record, row)?;
    Ok(Stored { number, record, request: Some(row.bytes()?), answer: row.blob()?.map(<[u8]>::to_vec) })
}

/// Name, whether dead letters are skipped, position; and of the operation that has the turn: scope, key, phase, end of lease
/// or wait.
#[derive(Deserialize)]
struct StoredPlace(String, bool, u64, Option<String>, Option<String>, Option<i64>, Option<i64>);

/// An operation's place in a sequence, one column of JSON; null for most.
pub fn read_place<'r>(row: &mut impl RowReader<'r>) -> Result<Option<Box<Place>>, StoreError> {
    let Some(text) = row.text()? else { return Ok(None) };
    let StoredPlace(name, skips, position, scope, key, phase, until) = json(text, "no place in a sequence")?;
    sequence_place((name, skips, position), (scope, key, phase, until)).map(Some).map_err(damaged)
}

/// Vendor, phase, how many, the earliest last move.
pub fn read_tally<'r>(row: &mut impl RowReader<'r>) -> Result<Tally, StoreError> {
    Ok(Tally { vendor: row.string()?, phase: row.phase()?, count: row.amount()?, oldest: row.time()? })
}

/// Number, scope, key, action, by, why, time, phases before and after.
pub fn read_entry<'r>(row: &mut impl RowReader<'r>) -> Result<(i64, AuditEntry), StoreError> {
    let number = row.number()?;
    let entry = AuditEntry {
        id: row.id()?,
        action: json(&row.string()?, "no action")?,
        by: row.string()?,
        why: row.string()?,
        at: row.time()?,
        before: row.phase()?,
        after: row.phase()?,
    };
    Ok((number, entry))
}

/// Scope, phase, how many, overdue, behind, tried, late, the next time, and [what moved last](LAST_TIME_LEN).
pub fn read_queue<'r>(row: &mut impl RowReader<'r>) -> Result<Queue, StoreError> {
    Ok(Queue {
        scope: row.scope()?,
        phase: row.phase()?,
        count: row.amount()?,
        overdue: row.amount()?,
        behind: row.amount()?,
        tried: row.amount()?,
        late: row.amount()?,
        next: row.maybe_time()?,
        last: row.text()?.and_then(|last| Key::new(last.get(1 + LAST_TIME_LEN..)?).ok()),
    })
}

/// Digits of a time that stands before a key, behind one digit for whether it was sent: the greatest text moved last.
pub const LAST_TIME_LEN: usize = 19;

/// Account, dispatcher, status, age in milliseconds.
pub fn read_peer<'r>(row: &mut impl RowReader<'r>) -> Result<Peer, StoreError> {
    Ok(Peer {
        account: row.string()?,
        dispatcher: row.string()?,
        says: row.string()?,
        ago: duration(row.number()?),
    })
}

fn json<'a, T: Deserialize<'a>>(text: &'a str, problem: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| damaged(problem))
}

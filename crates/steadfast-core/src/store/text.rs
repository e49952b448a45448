//! A record as one text: for stores that keep values, and not columns.

use serde::{Deserialize, Serialize};

use super::codec;
use super::columns::{Columns, StateColumns};
use super::numbers::{choice, duration, duration_ms, effect, from_ms, to_ms};
use super::stored::answer_of;
use super::{StoreError, StoreErrorKind};
use crate::operation::record::{Place, Record, Resolved};
use crate::operation::{Fingerprint, Key, OperationId, RedactedFields, Scope, Sequence};

impl Record {
    /// The record as one line of JSON, for a store that keeps it as a value. Its fields may be more in a later version,
    /// which reads what this one wrote. Who has the [turn](Place::behind) of its sequence is no part of it.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]: a header or a body is too long.
    pub fn to_text(&self) -> Result<String, StoreError> {
        let Columns { phase, effect, on_unknown, detail, status, .. } = Columns::of(self)?;
        let answer = answer_of(&mut self.state.clone())
            .map(|answer| codec::answer_bytes(answer).map(|bytes| hex(&bytes)))
            .transpose()?;
        let text = Text {
            id: self.id.clone(),
            fingerprint: self.fingerprint,
            wire_key: self.wire_key.clone(),
            request: hex(&codec::request_bytes(&self.request)?),
            answer,
            state: (phase, self.until().map(to_ms), detail, status),
            fences: (self.first_fence, self.fence),
            attempts: self.attempts,
            effect,
            unknown_since_ms: self.unknown_since.map(to_ms),
            lookups: self.lookups,
            resends_left: self.resends_left,
            attempt_max_ms: duration_ms(self.attempt_max),
            vendor_clock_ms: self.vendor_clock_ms,
            holder: self.holder.as_deref().map(str::to_owned),
            claimed_at_ms: to_ms(self.claimed_at),
            updated_at_ms: to_ms(self.updated_at),
            keep_ms: duration_ms(self.keep),
            on_unknown,
            redact: self.redact.names().to_vec(),
            resolved: self.resolved.clone(),
            predecessor: self.predecessor.clone(),
            first_scope: self.first_scope.clone(),
            sequence: self.sequence.as_deref().map(|place| {
                let Place { sequence, position, .. } = place;
                (sequence.name().to_owned(), sequence.skips_dead_letters(), *position)
            }),
        };
        serde_json::to_string(&text)
            .map_err(|error| StoreError::with_source("a record cannot be written", error))
    }

    /// Decodes the text of [`to_text`](Record::to_text).
    ///
    /// # Errors
    ///
    /// A [`StoreError`] of kind [`Corrupt`](StoreErrorKind::Corrupt).
    pub fn from_text(text: &str) -> Result<Record, StoreError> {
        let text: Text = serde_json::from_str(text).map_err(|error| {
            StoreError::with_source("a stored record cannot be read", error).of_kind(StoreErrorKind::Corrupt)
        })?;
        let (phase, until, detail, status) = text.state;
        let mut state = StateColumns { phase, until, detail, status }.state().map_err(corrupt)?;
        if let Some((answer, bytes)) = answer_of(&mut state).zip(text.answer) {
            *answer = codec::answer(bytes_of(&bytes)?)?;
        }
        let place = |(name, skips, position): (String, bool, u64)| {
            let sequence = Sequence::new(name);
            let sequence = if skips { sequence.skip_dead_letters() } else { sequence };
            Box::new(Place::new(sequence, position, None))
        };
        Ok(Record {
            id: text.id,
            fingerprint: text.fingerprint,
            wire_key: text.wire_key,
            request: codec::request(bytes_of(&text.request)?)?.into(),
            state,
            fence: text.fences.1,
            first_fence: text.fences.0,
            attempts: text.attempts,
            effect: effect(text.effect),
            unknown_since: text.unknown_since_ms.map(from_ms),
            lookups: text.lookups,
            resends_left: text.resends_left,
            attempt_max: duration(text.attempt_max_ms),
            vendor_clock_ms: text.vendor_clock_ms,
            holder: text.holder.map(Into::into),
            claimed_at: from_ms(text.claimed_at_ms),
            updated_at: from_ms(text.updated_at_ms),
            keep: duration(text.keep_ms),
            on_unknown: choice(text.on_unknown),
            redact: RedactedFields::from_stored(text.redact),
            resolved: text.resolved,
            predecessor: text.predecessor,
            first_scope: text.first_scope,
            sequence: text.sequence.map(place),
        })
    }
}

/// The numbers are those of the columns of our databases.
#[derive(Serialize, Deserialize)]
struct Text {
    id: OperationId,
    fingerprint: Fingerprint,
    wire_key: String,
    /// Request in hexadecimal digits, as the answer is.
    request: String,
    answer: Option<String>,
    /// Phase, its end, its detail and its status.
    state: (i64, Option<i64>, Option<i64>, Option<u16>),
    /// The first one and the last one.
    fences: (u64, u64),
    attempts: u32,
    effect: i64,
    unknown_since_ms: Option<i64>,
    lookups: u32,
    resends_left: u32,
    attempt_max_ms: i64,
    vendor_clock_ms: Option<i64>,
    holder: Option<String>,
    claimed_at_ms: i64,
    updated_at_ms: i64,
    keep_ms: i64,
    on_unknown: i64,
    redact: Vec<String>,
    resolved: Option<Resolved>,
    predecessor: Option<Key>,
    first_scope: Option<Scope>,
    /// Name, whether it skips dead letters, and position.
    sequence: Option<(String, bool, u64)>,
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, StoreError> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?);
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| corrupt("no hexadecimal digits"))
}

fn corrupt(problem: &'static str) -> StoreError {
    StoreError::new(format!("a stored record cannot be read: {problem}")).of_kind(StoreErrorKind::Corrupt)
}

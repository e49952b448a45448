//! A record in columns, as every database has it: which number or text stands for what.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use http::StatusCode;

use super::numbers::{
    REASONS, REFUSALS, choice_number, duration_ms, effect_number, from_ms, phase, phase_number, place,
    reason, refusal, to_fence, to_ms,
};
use super::stored::empty_answer;
use crate::clock::Timestamp;
use crate::operation::record::{Ahead, Phase, Place, Record, State};
use crate::operation::{Key, OperationId, Scope, Sequence};
use crate::store::StoreError;

/// Values that columns have in another form than the record.
pub struct Columns {
    pub phase: i64,
    pub until: Option<i64>,
    pub fence: i64,
    pub effect: i64,
    pub keep: i64,
    pub on_unknown: i64,
    pub detail: Option<i64>,
    pub status: Option<u16>,
    pub resolved: Option<String>,
    pub unknown_since: Option<i64>,
    pub attempt_max: i64,
}

impl Columns {
    pub fn of(record: &Record) -> Result<Columns, StoreError> {
        let (detail, answer) = match &record.state {
            State::InProgress { .. } | State::Scheduled { .. } => (None, None),
            State::Succeeded { answer, reconciled } => (Some(i64::from(*reconciled)), Some(answer)),
            State::Refused { refusal, answer } => (place(&REFUSALS, refusal), Some(answer)),
            State::Dead { reason, answer } => (place(&REASONS, reason), answer.as_ref()),
        };
        let waits = record.phase() == Phase::Scheduled && record.waits_for().is_some();
        let resolved = record.resolved.as_ref().map(serde_json::to_string).transpose();
        Ok(Columns {
            phase: phase_number(record.phase()),
            // What waits for its turn is found by no time.
            until: record.until().filter(|_| !waits).map(to_ms),
            fence: to_fence(record.fence),
            effect: effect_number(record.effect),
            keep: duration_ms(record.keep),
            on_unknown: choice_number(record.on_unknown),
            detail,
            status: answer.map(|answer| answer.status.as_u16()),
            unknown_since: record.unknown_since.map(to_ms),
            attempt_max: duration_ms(record.attempt_max),
            resolved: resolved
                .map_err(|error| StoreError::with_source("a resolution cannot be written", error))?,
        })
    }
}

/// The columns that say in which state an operation is.
pub struct StateColumns {
    pub phase: i64,
    pub until: Option<i64>,
    pub detail: Option<i64>,
    pub status: Option<u16>,
}

impl StateColumns {
    /// The state, with an empty answer; or what no release of this crate would have written.
    pub fn state(&self) -> Result<State, &'static str> {
        let until = self.until.map_or(Timestamp::default(), from_ms);
        let status = self.status.map(StatusCode::from_u16).transpose().map_err(|_| "no such status")?;
        let answer = status.map(empty_answer);
        let needed = || answer.clone().ok_or("no status in a settled row");
        Ok(match phase(self.phase).ok_or("no such phase")? {
            Phase::InProgress => State::InProgress { lease_until: until },
            Phase::Scheduled => State::Scheduled { at: until },
            Phase::Succeeded => State::Succeeded { answer: needed()?, reconciled: self.detail == Some(1) },
            Phase::Refused => {
                let refusal = refusal(self.detail).ok_or("no such refusal")?;
                State::Refused { refusal, answer: needed()? }
            }
            Phase::Dead | Phase::Resolved => {
                State::Dead { reason: reason(self.detail).ok_or("no such reason")?, answer }
            }
        })
    }
}

/// A place in a sequence, with who has the turn if that is another one: scope, key, phase, and the end of a lease or
/// a wait.
pub fn sequence_place(
    (name, skips, position): (String, bool, u64),
    (scope, key, number, until): (Option<String>, Option<String>, Option<i64>, Option<i64>),
) -> Result<Box<Place>, &'static str> {
    let sequence = Sequence::new(name);
    let sequence = if skips { sequence.skip_dead_letters() } else { sequence };
    let ahead = match (scope, key, number) {
        (Some(scope), Some(key), Some(number)) => {
            let key = Key::new(key).map_err(|_| "no key")?;
            let phase = phase(number).ok_or("no such phase")?;
            let until = until.filter(|_| matches!(phase, Phase::InProgress | Phase::Scheduled)).map(from_ms);
            Some(Ahead::new(OperationId::new(Scope::from_stored(scope), key), phase, until))
        }
        _ => None,
    };
    Ok(Box::new(Place::new(sequence, position, ahead)))
}

/// The names of the fields that are never shown, as text.
pub fn redacted(record: &Record) -> Result<Option<String>, StoreError> {
    if record.redact.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(record.redact.names())
        .map(Some)
        .map_err(|error| StoreError::with_source("names of fields cannot be written", error))
}

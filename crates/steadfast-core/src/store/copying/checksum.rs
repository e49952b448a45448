//! A checksum of all that a row says, the same in every store. It covers the record, the log, and the request and the
//! answer as they are before they are sealed.

use std::fmt::Debug;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::answer::Answer;
use crate::clock::Timestamp;
use crate::operation::Key;
use crate::operation::record::{Record, State};
use crate::store::maintenance::Row;
use crate::store::{StoreError, codec};

pub(super) fn checksum(row: &Row) -> Result<[u8; 32], StoreError> {
    let mut sum = Sum(Sha256::new());
    let Row { record, evidence } = row;
    sum.record(record)?;
    let unwritable = |error| StoreError::with_source("a record cannot be written as text", error);
    sum.text(&serde_json::to_string(&record.resolved).map_err(unwritable)?);
    for report in evidence {
        sum.text(&serde_json::to_string(report).map_err(unwritable)?);
    }
    Ok(sum.0.finalize().into())
}

/// The answer that a state holds, if it holds one.
pub(super) fn answer(state: &State) -> Option<&Answer> {
    match state {
        State::InProgress { .. } | State::Scheduled { .. } => None,
        State::Succeeded { answer, .. } | State::Refused { answer, .. } => Some(answer),
        State::Dead { answer, .. } => answer.as_ref(),
    }
}

/// Each part with its length before it, so that no two rows come to the same bytes.
struct Sum(Sha256);

impl Sum {
    /// All fields by name: a new one does not compile until it is part of the checksum.
    fn record(&mut self, record: &Record) -> Result<(), StoreError> {
        let Record {
            id,
            fingerprint,
            wire_key,
            request,
            state,
            fence,
            first_fence,
            attempts,
            effect,
            unknown_since,
            lookups,
            resends_left,
            attempt_max,
            vendor_clock_ms,
            holder,
            claimed_at,
            updated_at,
            keep,
            on_unknown,
            redact,
            resolved: _, // as JSON, by `checksum`
            predecessor,
            first_scope,
            sequence,
        } = record;
        // Whose turn it is follows from the others.
        if let Some(place) = sequence {
            self.text(place.sequence.name());
            self.number(place.position);
            self.number(u64::from(place.sequence.skips_dead_letters()));
        }
        self.text(id.scope.as_str());
        self.text(id.key.as_str());
        self.bytes(fingerprint.as_bytes());
        self.text(wire_key);
        self.bytes(&codec::request_bytes(request)?);
        self.state(state)?;
        for number in [*fence, *first_fence, u64::from(*attempts), u64::from(*lookups)] {
            self.number(number);
        }
        self.number(u64::from(*resends_left));
        self.shown(effect);
        self.shown(&unknown_since.map(millis));
        self.duration(*attempt_max);
        self.shown(vendor_clock_ms);
        self.shown(holder);
        self.number(millis(*claimed_at));
        self.number(millis(*updated_at));
        self.duration(*keep);
        self.shown(on_unknown);
        self.shown(&redact.names());
        self.shown(&predecessor.as_ref().map(Key::as_str));
        self.shown(&first_scope.as_ref().map(|scope| scope.as_str()));
        Ok(())
    }

    fn state(&mut self, state: &State) -> Result<(), StoreError> {
        match state {
            State::InProgress { lease_until } => self.shown(&("in progress", millis(*lease_until))),
            State::Scheduled { at } => self.shown(&("scheduled", millis(*at))),
            State::Succeeded { reconciled, .. } => self.shown(&("succeeded", reconciled)),
            State::Refused { refusal, .. } => self.shown(&("refused", refusal)),
            State::Dead { reason, .. } => self.shown(&("dead", reason)),
        }
        let answer = answer(state).map(codec::answer_bytes).transpose()?;
        self.bytes(&answer.unwrap_or_default());
        Ok(())
    }

    /// Adds a value by its `Debug` form, which nothing here shares with another value.
    fn shown(&mut self, value: &impl Debug) {
        self.text(&format!("{value:?}"));
    }

    fn duration(&mut self, duration: Duration) {
        self.number(millis(Timestamp::default().plus(duration)));
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}

/// Returns a time as a column of 64 bits with a sign keeps it: to the millisecond, and not beyond its range.
fn millis(time: Timestamp) -> u64 {
    time.as_millis().min(i64::MAX as u64)
}

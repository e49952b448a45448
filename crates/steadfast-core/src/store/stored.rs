//! A record as it is on file: its columns, and beside them two blobs.
//!
//! The state machine decides by names, times, fences and effects; what a request or an answer holds never matters to
//! it. So a row is read *without bodies*: with an empty request, and an answer of the right status. The decision is
//! made on that. Then the caller's task fills it from its blobs: the writing thread does not parse bodies.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::codec;
use super::seals::{Part, Seals};
use crate::answer::Answer;
use crate::operation::record::{Record, State};
use crate::request::{Request, RequestExt};
use crate::store::StoreError;

/// A record as it is on file.
#[derive(Clone, Debug)]
pub struct Stored {
    pub number: i64,
    pub record: Record,
    /// The request, unless the record has it already.
    pub request: Option<Vec<u8>>,
    /// The answer, unless the record has it already or there is none.
    pub answer: Option<Vec<u8>>,
}

impl Stored {
    /// Refuses a row for one of whose blobs no key is at hand. It is called before anything is written to the row.
    pub fn check(&self, seals: &Seals) -> Result<(), StoreError> {
        [&self.request, &self.answer].into_iter().flatten().try_for_each(|blob| seals.check(blob))
    }

    /// The record, filled from its blobs.
    pub fn whole(self, seals: &Seals) -> Result<Record, StoreError> {
        fill(self.record, (self.request, self.answer), seals)
    }
}

/// A record with its request and its answer from these blobs, as far as there are any. One whose state has no answer
/// gets none.
pub fn fill(
    mut record: Record,
    (request, answer): (Option<Vec<u8>>, Option<Vec<u8>>),
    seals: &Seals,
) -> Result<Record, StoreError> {
    if let Some(bytes) = request {
        record.request = codec::request(seals.unseal(Part::Request, &record.id, bytes)?)?.into();
    }
    if let Some((kept, bytes)) = answer_of(&mut record.state).zip(answer) {
        *kept = codec::answer(seals.unseal(Part::Answer, &record.id, bytes)?)?;
    }
    Ok(record)
}

/// The answer that a state holds, if it holds one.
pub fn answer_of(state: &mut State) -> Option<&mut Answer> {
    match state {
        State::InProgress { .. } | State::Scheduled { .. } => None,
        State::Succeeded { answer, .. } | State::Refused { answer, .. } => Some(answer),
        State::Dead { answer, .. } => answer.as_mut(),
    }
}

/// Stands for a request that is in a blob.
pub fn empty_request() -> Arc<Request> {
    static EMPTY: LazyLock<Arc<Request>> = LazyLock::new(|| Arc::new(Request::empty()));
    Arc::clone(&EMPTY)
}

/// Stands for an answer that is in a blob.
pub fn empty_answer(status: StatusCode) -> Answer {
    Answer::new(status, HeaderMap::new(), Bytes::new())
}

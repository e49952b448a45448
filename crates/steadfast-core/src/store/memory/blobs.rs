//! Requests and answers as blobs beside a record without bodies, as in a file.

use super::Inner;
use crate::answer::Answer;
use crate::operation::record::{Claimed, Record};
use crate::request::Request;
use crate::store::stored::{answer_of, empty_answer, empty_request};
use crate::store::{StoreError, codec};

/// The request and the answer of a row, as they are in a file: one piece of memory each. As headers and bodies they are
/// dozens, and an answer as it was received keeps its connection's whole buffer, of 8 KiB or more. With them a keyed POST
/// over loopback makes 1.2 times as many calls a second (`benches/loopback.rs`, 16 tasks).
pub(super) struct Blobs {
    pub(super) request: Box<[u8]>,
    pub(super) answer: Option<Box<[u8]>>,
}

impl Blobs {
    /// Takes request and answer out of a record.
    pub(super) fn of(record: &mut Record) -> Result<Blobs, StoreError> {
        let answer = answer_of(&mut record.state).map(|answer| answer_blob(answer)).transpose()?;
        let blobs = Blobs { answer, ..Blobs::of_request(&record.request)? };
        record.request = empty_request();
        if let Some(answer) = answer_of(&mut record.state) {
            *answer = empty_answer(answer.status);
        }
        Ok(blobs)
    }

    /// Encodes an operation that has no answer yet.
    pub(super) fn of_request(request: &Request) -> Result<Blobs, StoreError> {
        Ok(Blobs { request: codec::request_bytes(request)?.into(), answer: None })
    }
}

/// An answer, as it is kept.
pub(super) fn answer_blob(answer: &Answer) -> Result<Box<[u8]>, StoreError> {
    Ok(codec::answer_bytes(answer)?.into())
}

/// A copy of a record without bodies, of one that has no answer.
pub(super) fn hollow(record: &mut Record) -> Record {
    let request = std::mem::replace(&mut record.request, empty_request());
    let hollow = record.clone();
    record.request = request;
    hollow
}

impl Inner {
    /// Fills what a claim found from the row's blobs. In place: a record is large.
    pub(super) fn fill_found(&self, claimed: &mut Claimed) -> Result<(), StoreError> {
        if let Claimed::TakenOver(record) | Claimed::Freed(record) | Claimed::Settled(record) = claimed
            && let Some(row) = self.rows.get(&record.id)
        {
            *record = row.fill(record.clone())?;
        }
        Ok(())
    }
}

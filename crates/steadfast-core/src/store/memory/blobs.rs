//! Requests and answers as blobs beside a record without bodies, as in a file.

use super::ending::{Ending, move_time};
use super::{Inner, Row};
use crate::answer::Answer;
use crate::operation::record::{Claimed, Declined, Record, StateExt, Transition};
use crate::request::Request;
use crate::store::stored::{answer_of, empty_answer, empty_request};
use crate::store::{StoreError, codec};

/// The request and the answer of a row, as they are in a file: one piece of memory each. As headers and bodies they are
/// dozens, and an answer as it was received keeps its connection's whole buffer, of 8 KiB or more. With them a keyed POST
/// over loopback makes 1.2 times as many calls a second (`benches/loopback.rs`, 16 tasks).
pub(super) struct Blobs {
    request: Box<[u8]>,
    answer: Option<Box<[u8]>>,
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

    /// Of an operation that has no answer yet.
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

impl Row {
    /// The record, filled from its blobs.
    pub(super) fn whole(&self) -> Result<Record, StoreError> {
        self.fill(self.record.clone())
    }

    /// What became of the row's record, with its request and, if it still has one, its answer.
    pub(super) fn fill(&self, record: Record) -> Result<Record, StoreError> {
        let mut record = self.fill_request(record)?;
        if let Some((kept, bytes)) = answer_of(&mut record.state).zip(self.blobs.answer.as_deref()) {
            *kept = codec::answer(bytes.to_vec())?;
        }
        Ok(record)
    }

    /// What became of the row's record, with its request. Its answer, if it has one, is new and whole.
    pub(super) fn fill_request(&self, mut record: Record) -> Result<Record, StoreError> {
        record.request = codec::request(self.blobs.request.to_vec())?.into();
        Ok(record)
    }

    /// Carries a transition out in place, and gives the record as it is then, whole.
    pub(super) fn transition(
        &mut self,
        held: &Record,
        mut transition: Transition,
        blob: Option<Box<[u8]>>,
        ending: &mut Ending,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let brought = transition.to.answer_mut().map(|answer| {
            let empty = empty_answer(answer.status);
            std::mem::replace(answer, empty)
        });
        let request_of_held = (held.fence == self.record.fence).then(|| held.request.clone());
        if let Err(declined) = self.apply(transition, ending) {
            return Ok(Err(declined));
        }
        self.blobs.answer = blob;
        let mut record = self.record.clone();
        if let Some((answer, brought)) = answer_of(&mut record.state).zip(brought) {
            *answer = brought;
        }
        match request_of_held {
            Some(request) => record.request = request,
            None => record = self.fill_request(record)?,
        }
        Ok(Ok(record))
    }

    /// Replaces the record by what settles it, whose answer is whole. The request stays.
    pub(super) fn settle(&mut self, mut record: Record, ending: &mut Ending) -> Result<(), StoreError> {
        if let Some(answer) = answer_of(&mut record.state) {
            self.blobs.answer = Some(answer_blob(answer)?);
            *answer = empty_answer(answer.status);
        }
        let before = self.ends();
        self.record = record;
        move_time(ending, (self.number, self.record.id.scope.account_path()), before, self.ends());
        Ok(())
    }
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

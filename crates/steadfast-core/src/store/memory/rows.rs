//! Rows that come, change and go, in step with everything that refers to them.

use std::sync::Arc;

use super::blobs::{Blobs, answer_blob};
use super::ending::{Bucket, Ending, ends, move_time};
use super::sequence::without_turn;
use super::{Inner, Memory};
use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::{AuditEntry, Declined, Record, StateExt, Transition};
use crate::store::stored::{answer_of, empty_answer};
use crate::store::{StoreError, codec};

/// A record, as it is kept.
pub(super) struct Row {
    pub(super) number: u64,
    /// The record without bodies: they are in `blobs`.
    pub(super) record: Record,
    pub(super) blobs: Blobs,
    pub(super) evidence: Vec<AttemptReport>,
    /// Whether another operation of its sequence has the turn.
    pub(super) waits: bool,
}

impl Row {
    pub(super) fn replace(&mut self, mut record: Record, blobs: Blobs, ending: &mut Ending) {
        without_turn(&mut record);
        let (before, now) = (self.ends(), ends(&record, self.waits));
        move_time(ending, (self.number, record.id.scope.account_path()), before, now);
        (self.record, self.blobs) = (record, blobs);
    }

    /// Adds to the operation's log. Its first reports are kept as they come, which is without slack: one of 100 bytes
    /// would else take 400 for as long as the record is kept.
    pub(super) fn note(&mut self, mut reports: Vec<AttemptReport>) {
        if self.evidence.is_empty() {
            self.evidence = reports;
        } else {
            self.evidence.append(&mut reports);
        }
    }

    /// Carries a transition out in place.
    pub(super) fn apply(&mut self, transition: Transition, ending: &mut Ending) -> Result<(), Declined> {
        let before = self.ends();
        self.record.apply_here(transition)?;
        move_time(ending, (self.number, self.record.id.scope.account_path()), before, self.ends());
        Ok(())
    }

    pub(super) fn ends(&self) -> Option<(Bucket, Timestamp)> {
        ends(&self.record, self.waits)
    }

    /// The record, filled from its blobs.
    pub(super) fn whole(&self) -> Result<Record, StoreError> {
        self.fill(self.record.clone())
    }

    /// Fills in the row's request and, if the record still has one, its answer.
    pub(super) fn fill(&self, record: Record) -> Result<Record, StoreError> {
        let mut record = self.fill_request(record)?;
        if let Some((kept, bytes)) = answer_of(&mut record.state).zip(self.blobs.answer.as_deref()) {
            *kept = codec::answer(bytes.to_vec())?;
        }
        Ok(record)
    }

    /// Fills in the row's request. The record's answer, if it has one, is new and whole.
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
    /// Writes a record that is whole. Nothing is written if it cannot be.
    pub(super) fn put(&mut self, mut record: Record) -> Result<(), StoreError> {
        let blobs = Blobs::of(&mut record)?;
        match self.rows.get_mut(&record.id) {
            Some(row) => {
                let id = record.sequence.is_some().then(|| record.id.clone());
                row.replace(record, blobs, &mut self.ending);
                if let Some(id) = id {
                    self.moved_in_sequence(&id);
                }
            }
            None => self.add(record, blobs),
        }
        Ok(())
    }

    /// A record whose name is not there yet, without its bodies.
    pub(super) fn add(&mut self, mut record: Record, blobs: Blobs) {
        let (id, number) = (Arc::new(record.id.clone()), self.next);
        self.next += 1;
        self.order.insert(number, id.clone());
        without_turn(&mut record);
        let is_sequenced = record.sequence.is_some();
        move_time(&mut self.ending, (number, id.scope.account_path()), None, ends(&record, false));
        let row = Row { number, record, blobs, evidence: Vec::new(), waits: false };
        self.rows.insert(id.clone(), Box::new(row));
        if is_sequenced {
            self.enter_sequence(&id);
        }
    }

    pub(super) fn log(&mut self, entry: AuditEntry) {
        self.audit.push_back(entry);
        if self.audit.len() > Memory::AUDIT_MAX {
            self.audit.pop_front();
            self.audit_first += 1;
        }
    }

    /// Removes a record, and remembers its fence.
    pub(super) fn remove(&mut self, id: &OperationId) {
        let Some(row) = self.rows.remove(id) else { return };
        self.order.remove(&row.number);
        self.notes.purged = self.notes.purged.max(row.record.fence);
        move_time(&mut self.ending, (row.number, id.scope.account_path()), row.ends(), None);
        self.leave_sequence(&row.record);
    }
}

//! Rows that come, change and go, in step with everything that refers to them.

use std::sync::Arc;

use super::blobs::Blobs;
use super::ending::{Bucket, Ending, ends, move_time};
use super::sequence::without_turn;
use super::{Inner, Memory, Row};
use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::{AuditEntry, Declined, Record, Transition};
use crate::store::StoreError;

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

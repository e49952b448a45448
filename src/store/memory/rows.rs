//! Rows that come, change and go, in step with everything that refers to them.

use std::sync::Arc;

use super::ending::{Ending, begin_time, end_time};
use super::sealed::Blobs;
use super::sequence::without_turn;
use super::{Inner, Memory, Row};
use crate::operation::OperationId;
use crate::operation::record::{AuditEntry, Record};
use crate::store::StoreError;
use crate::store::seals::Seals;

impl Row {
    pub(super) fn replace(&mut self, mut record: Record, blobs: Option<Blobs>, ending: &mut Ending) {
        end_time(ending, self);
        without_turn(&mut record);
        (self.record, self.blobs) = (record, blobs);
        begin_time(ending, self);
    }
}

impl Inner {
    /// Writes a record that is whole. Nothing is written if it cannot be sealed.
    pub(super) fn put(&mut self, mut record: Record, seals: &Seals) -> Result<(), StoreError> {
        match self.rows.get_mut(&record.id) {
            Some(row) => {
                let (id, blobs) = (row.id.clone(), Blobs::of(&mut record, seals)?);
                row.replace(record, blobs, &mut self.ending);
                self.moved_in_sequence(&id);
                Ok(())
            }
            None => self.add(record, seals),
        }
    }

    /// A record whose name is not there yet.
    pub(super) fn add(&mut self, mut record: Record, seals: &Seals) -> Result<(), StoreError> {
        let blobs = Blobs::of(&mut record, seals)?;
        let (id, number) = (Arc::new(record.id.clone()), self.next);
        self.next += 1;
        self.order.insert(number, id.clone());
        without_turn(&mut record);
        let row = Row { id: id.clone(), number, record, blobs, evidence: Vec::new(), waits: false };
        begin_time(&mut self.ending, &row);
        self.rows.insert(id.clone(), Box::new(row));
        self.enter_sequence(&id);
        Ok(())
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
        end_time(&mut self.ending, &row);
        self.leave_sequence(&row.record);
    }
}

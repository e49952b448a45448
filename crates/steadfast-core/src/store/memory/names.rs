//! Operations that go on under another name: see [`renaming`](crate::store::renaming).

use std::borrow::Cow;

use super::{Inner, full};
use crate::clock::Timestamp;
use crate::guard::Guard;
use crate::operation::record::{Claim, Forbidden, Record, RecordExt};
use crate::operation::{OperationId, Scope};
use crate::store::StoreError;
use crate::store::renaming::{Superseding, superseding};

impl Inner {
    /// Decides the effect of a claim on the operation that it starts over.
    pub(super) fn superseding(&self, claim: &Claim) -> Superseding {
        let Some(predecessor) = &claim.predecessor else { return Superseding::Nothing };
        let old = OperationId::new(claim.id.scope.clone(), predecessor.clone());
        let on_record = |id| self.rows.get(id).map(|row| &row.record);
        superseding(&Record::first(claim.clone()), on_record(&claim.id), on_record(&old), &self.notes)
    }

    /// Closes it.
    pub(super) fn supersede(&mut self, superseding: Superseding) -> Result<(), StoreError> {
        if let Superseding::Close(closed) = superseding {
            let (closed, entry) = *closed;
            if let Some(row) = self.rows.get(&closed.id) {
                let closed = row.fill(closed)?;
                self.put(closed)?;
            }
            self.log(entry);
        }
        Ok(())
    }

    /// Writes an operation down under its name in the scope `to`.
    pub(super) fn adopt(
        &mut self,
        old: &OperationId,
        (to, now): (&Scope, Timestamp),
        records_max: usize,
    ) -> Result<Result<(), Forbidden>, StoreError> {
        let id = OperationId::new(to.clone(), old.key.clone());
        // Not by the operator's clock alone, which may be days ahead.
        let believed = self.notes.now(now);
        if Guard::NameTaken.keeps(self.rows.get(&id).is_some_and(|held| !held.record.has_expired(believed))) {
            return Ok(Err(Forbidden::NameTaken));
        }
        self.remove(&id);
        if self.rows.len() >= records_max {
            return Err(full(records_max));
        }
        let Some(row) = self.rows.get(old) else { return Ok(Err(Forbidden::Absent)) };
        let record = match row.whole()?.adopted(to, now, self.notes.purged) {
            Ok(record) => record,
            Err(forbidden) => return Ok(Err(forbidden)),
        };
        let evidence = row.evidence.clone();
        self.put(record)?;
        if let Some(row) = self.rows.get_mut(&id) {
            row.evidence = evidence;
        }
        Ok(Ok(()))
    }

    /// Settles what carries on under other names an operation that has succeeded late.
    pub(super) fn settle_heirs(&mut self, record: &Record) -> Result<(), StoreError> {
        let Some(mut id) = record.heir() else { return Ok(()) };
        let mut former = Cow::Borrowed(record);
        while let Some(row) = self.rows.get_mut(&id)
            && let Some(heir) = row.record.settled_by(&former)
        {
            row.settle(heir.clone(), &mut self.ending)?;
            if heir.sequence.is_some() {
                self.moved_in_sequence(&id);
            }
            let Some(next) = heir.heir() else { break };
            (id, former) = (next, Cow::Owned(heir));
        }
        Ok(())
    }
}

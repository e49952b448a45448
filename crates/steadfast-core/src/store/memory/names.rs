//! Operations that go on under another name: see [`crate::operation::record::supersede`] and [`Record::adopted`].

use std::borrow::Cow;

use super::{Inner, full};
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::Obstacle;
use crate::guard::Guard;
use crate::operation::record::{self, AuditEntry, Claim, Claimed, Forbidden, Record};
use crate::operation::{OperationId, Scope};
use crate::store::StoreError;

/// What a claim makes of the predecessor that it names.
type Superseded = Result<Option<(Record, AuditEntry)>, (Obstacle, Effect)>;

impl Inner {
    /// `None` if the claim names no predecessor.
    pub(super) fn supersede(&self, claim: &Claim) -> Option<Superseded> {
        let old = OperationId::new(claim.id.scope.clone(), claim.predecessor.clone()?);
        let old = self.rows.get(&old).map(|row| &row.record);
        Some(record::supersede(old, &claim.id.key, (claim.now, self.notes.now(claim.now))))
    }

    /// Writes that down; or gives what a first claim is told whose predecessor is in the way.
    pub(super) fn superseded(
        &mut self,
        superseded: Option<Superseded>,
        claimed: &Claimed,
    ) -> Result<Option<Claimed>, StoreError> {
        match superseded {
            Some(Err((obstacle, effect))) if matches!(claimed, Claimed::Fresh(_)) => {
                return Ok(Some(Claimed::InTheWay { obstacle, effect }));
            }
            Some(Ok(Some((closed, entry)))) if !matches!(claimed, Claimed::Mismatch { .. }) => {
                if let Some(row) = self.rows.get(&closed.id) {
                    let closed = row.fill(closed)?;
                    self.put(closed)?;
                }
                self.log(entry);
            }
            _ => {}
        }
        Ok(None)
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

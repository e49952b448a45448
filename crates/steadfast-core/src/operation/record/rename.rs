//! Operations that no client can carry on with, because account, namespace or vendor have another name by now: they are
//! adopted by the new name, or cancelled.
//!
//! A request under the old name was sent with the wire key that follows from that name. That key is on record and
//! stays: the vendor knows the effect by it. The record under the old name is closed, so that a process which still has
//! that name can neither carry on with it nor claim it.

use std::time::Duration;

use easy_ext::ext;

use super::take::Taker;
use super::{Act, Forbidden, Place, Record, Resolution, Resolved, State};
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::{Reason, Refusal};
use crate::guard::Guard;
use crate::operation::record::RecordExt;
use crate::operation::{OperationId, Scope};

impl Record {
    /// Returns the operation under its new name, as an adoption by `to` writes it beside [`Record::act`]'s record. An
    /// open operation stays due at its time; one that a dead holder left is due at once, and its effect unknown. A
    /// settled operation is settled under both names, so that neither sends it again.
    ///
    /// `purged` is as in [`claim`](super::claim).
    ///
    /// # Errors
    ///
    /// [`Forbidden`]: a process holds it, or it was adopted before.
    pub fn adopted(&self, to: &Scope, now: Timestamp, purged: u64) -> Result<Record, Forbidden> {
        let mut record = match self.state {
            State::InProgress { .. } => {
                Record { state: State::Scheduled { at: now }, ..self.in_nobodys_hands(now)? }
            }
            State::Scheduled { .. } => self.in_nobodys_hands(now)?,
            State::Dead { .. } if self.is_adopted() => return Err(Forbidden::Resolved),
            State::Succeeded { .. } | State::Refused { .. } | State::Dead { .. } => self.clone(),
        };
        record.first_scope = Some(self.first_scope.clone().unwrap_or_else(|| self.id.scope.clone()));
        record.id.scope = to.clone();
        // It enters the sequence of that name in its new account, behind those that are there.
        record.sequence =
            record.sequence.map(|place| Box::new(Place { position: 0, behind: None, ..*place }));
        record.fence = record.fence.max(purged);
        Ok(record.after_fence_of_its_own())
    }

    /// The name under which it was carried on, if it has succeeded after that: by a late success of an earlier holder.
    pub fn heir(&self) -> Option<OperationId> {
        match (&self.state, self.resolved.as_ref().map(|resolved| &resolved.resolution)) {
            (State::Succeeded { .. }, Some(Resolution::Adopted { scope })) => {
                Some(OperationId::new(scope.clone(), self.id.key.clone()))
            }
            _ => None,
        }
    }

    /// The [heir](Record::heir)'s record as the success of the name that it was adopted from settles it: it is the same
    /// operation at the vendor. `None` if nothing changes: it is settled, or it is of another life of the key. A store
    /// writes it in the commit of that success.
    pub fn settled_by(&self, former: &Record) -> Option<Record> {
        let is_the_same = self.first_scope.is_some() && self.wire_key == former.wire_key;
        (is_the_same && self.is_open_to_proof()).then(|| {
            let mut record = self.clone();
            record.settle_by_proof(former.state.clone(), former.updated_at);
            record
        })
    }

    /// Returns the tombstone left under the old name. A caller who uses the old name learns that the operation goes on
    /// elsewhere.
    pub(super) fn left_behind(&self, to: &Scope, act: &Act) -> Result<Record, Forbidden> {
        let mut record = match &self.state {
            State::Succeeded { .. } => return Ok(self.clone()),
            State::Refused { .. } if !self.is_freed() => return Ok(self.clone()),
            State::Dead { .. } if self.is_adopted() => return Err(Forbidden::Resolved),
            State::Dead { reason, answer } => {
                self.moved(State::Dead { reason: *reason, answer: answer.clone() }, act.now)
            }
            State::Refused { answer, .. } => {
                self.moved(State::Dead { reason: Reason::Closed, answer: Some(answer.clone()) }, act.now)
            }
            State::InProgress { .. } | State::Scheduled { .. } => self.closed(act.now)?,
        };
        record.fence = record.fence.max(self.fence.saturating_add(1));
        record.effect = Effect::Unknown;
        record.unknown_since = record.unknown_since.or(Some(act.now));
        record.resolved =
            Guard::Tombstone.keeps(Some(resolved(Resolution::Adopted { scope: to.clone() }, act)));
        record.updated_at = self.ended_at(act.now);
        Ok(record)
    }

    /// A dead letter, closed by a person, of what waits or was left. Its effect is as on record.
    pub(super) fn cancel(&self, act: &Act) -> Result<Record, Forbidden> {
        let mut record = self.closed(act.now)?;
        record.resolved = Some(resolved(Resolution::Cancelled, act));
        record.updated_at = self.ended_at(act.now);
        Ok(record)
    }

    /// Closes an operation of a copy of the store that is open, or waits for a person: the original carries it out, or
    /// did. No lease counts, since its holder is there. A late write of a holder here changes nothing.
    pub(super) fn disown(&self, act: &Act) -> Result<Record, Forbidden> {
        let closed = match &self.state {
            State::InProgress { .. } | State::Scheduled { .. } => {
                State::Dead { reason: Reason::Closed, answer: None }
            }
            // The word *not applied* allows a redrive, here and there.
            state @ State::Dead { .. } if self.resolved.is_none() || self.is_not_applied() => state.clone(),
            State::Succeeded { .. } | State::Refused { .. } | State::Dead { .. } => {
                return Err(Forbidden::NotOpen);
            }
        };
        let mut record = self.moved(closed, act.now);
        record.fence = self.fence.saturating_add(1);
        record.effect = Effect::Unknown;
        record.unknown_since = self.unknown_since.or(Some(act.now));
        record.resolved = Some(resolved(Resolution::Disowned, act));
        record.updated_at = self.ended_at(act.now);
        Ok(record)
    }

    fn is_not_applied(&self) -> bool {
        self.resolved.as_ref().is_some_and(|resolved| resolved.resolution == Resolution::NotApplied)
    }

    fn closed(&self, now: Timestamp) -> Result<Record, Forbidden> {
        let left = self.in_nobodys_hands(now)?;
        Ok(left.moved(State::Dead { reason: Reason::Closed, answer: None }, now))
    }

    /// Returns the record scheduled and without a holder, under the next fence, so that a late write of an earlier
    /// holder changes nothing.
    fn in_nobodys_hands(&self, now: Timestamp) -> Result<Record, Forbidden> {
        match self.state {
            State::Scheduled { .. } => {
                Ok(Record { fence: self.fence.saturating_add(1), updated_at: now, ..self.clone() })
            }
            State::InProgress { .. } => {
                let (attempt_max, vendor_clock_ms) = (self.attempt_max, self.vendor_clock_ms);
                let (lease, holder) = (Duration::ZERO, self.holder.as_ref());
                let taker = Taker { now, lease, attempt_max, vendor_clock_ms, holder };
                let left = self.left_to(taker);
                left.or_else(|| Guard::HeldNotCancelled.is_out().then(|| self.clone())).ok_or(Forbidden::Held)
            }
            State::Succeeded { .. } | State::Refused { .. } | State::Dead { .. } => Err(Forbidden::NotOpen),
        }
    }

    /// No holder under the old name has anything to say under the new one.
    fn after_fence_of_its_own(self) -> Record {
        let fence = self.fence;
        self.after_fence(fence)
    }
}

/// Methods that only the crates of this workspace call.
#[ext(RecordNameExt)]
impl Record {
    /// Whether it is carried on under another name.
    pub fn is_adopted(&self) -> bool {
        let resolved = self.resolved.as_ref().map(|resolved| &resolved.resolution);
        matches!(resolved, Some(Resolution::Adopted { .. }))
    }

    /// Whether its credentials were refused, so that its key is free.
    pub fn is_freed(&self) -> bool {
        matches!(self.state, State::Refused { refusal: Refusal::Unauthorized, .. })
    }
}

fn resolved(resolution: Resolution, act: &Act) -> Resolved {
    Resolved { resolution, by: act.by.clone(), why: act.why.clone(), at: act.now }
}

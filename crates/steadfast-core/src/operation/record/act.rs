//! The actions of an operator on an operation, and their audit record.
//!
//! One [`Act`] for every kind of action, decided by [`Record::act`]. A store carries out one operation and writes one
//! [`AuditEntry`] with it, in the same transaction. So no action is without its trace. A method for each action would
//! let one backend forget one.
//!
//! A person's word does not touch the machine's evidence: [`Record::effect`] stays what the attempts showed, and
//! the word stands beside it. Only a redrive after *not applied* acts on the word.

use std::fmt;

use easy_ext::ext;
use serde::{Deserialize, Serialize};

use super::forbidden::Forbidden;
use super::notes::Notes;
use super::view::Phase;
use super::{CLOCKS_DIFFER_MAX, Record, State};
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::guard::Guard;
use crate::operation::OnUnknown;
use crate::operation::{Key, OperationId, Scope};

/// An operator's action, with its author and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The action.
    pub action: Action,
    /// Name of the operator. At most [`Act::BY_BYTES_MAX`].
    pub by: String,
    /// Reason of the operator. At most [`Act::WHY_BYTES_MAX`]; only a redrive that is not forced may do without.
    pub why: String,
    /// Time in the store, as for [`Claim::now`](super::Claim::now).
    pub now: Timestamp,
    /// The fence of the record that the operator looked at, so that an operation that has moved on since is
    /// left alone. `None` acts on the record that is there.
    pub fence: Option<u64>,
}

/// Kind of an operator's action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Resolves a dead letter: records what became of it. The letter may expire from then on.
    Resolve(Resolution),
    /// Takes a resolution back: the dead letter is open again. Not if its effect is now sought under another name
    /// ([`Resolution::is_final`]).
    Reopen,
    /// Takes [`Resolution::Replaced`] back: the key of the replacement was taken by another operation before the
    /// replacement was recorded. The dead letter is open again. Only an edit finds this out, and does it.
    NotReplaced {
        /// The successor's key.
        key: Key,
    },
    /// Makes a dead letter due at once. A letter that was resolved as not applied may be redriven too; any other
    /// resolution stands in the way.
    Redrive {
        /// True to send once although the operation may have taken effect and neither the vendor's window nor a lookup
        /// can tell. This is the only action that risks a second effect.
        forced: bool,
    },
    /// Cancels what is scheduled, or in progress with a lease that has run out: it becomes a dead letter that is
    /// closed. Its effect stays as on record. Refused while a process holds it.
    Cancel,
    /// Carries the operation on under the name that it has in another scope, whose account, namespace or vendor has
    /// taken the old one's place; see [`Record::adopted`]. Refused while a process holds it, and if the new name is
    /// on record.
    Adopt {
        /// The new scope.
        to: Scope,
    },
    /// Leaves what is open to the store's original, which carries it out. In this copy it becomes a dead letter that is
    /// closed, of unknown effect. Only in a store that a person has called a copy.
    Disown,
    /// Changes nothing, and is on the audit record: a body was looked at, a key was made from another.
    Note,
    /// Changes nothing by itself, and is on the audit record: an operator now purges a record that has expired.
    Purge,
}

/// The resolution of a dead letter: what became of it, on a person's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resolution {
    /// The operation took effect.
    Applied {
        /// The vendor's name for what was made. At most [`Act::BY_BYTES_MAX`].
        vendor_id: String,
    },
    /// The operation did not take effect.
    NotApplied,
    /// The operation took effect, or part of it did, and that was undone. A late success does not promote it.
    Compensated,
    /// The operation was edited and is now another one, in the same scope.
    Replaced {
        /// That operation's key.
        key: Key,
    },
    /// The service started over under another key, in the same scope: see
    /// `Call::supersedes`.
    Superseded {
        /// The successor's key.
        key: Key,
    },
    /// The operation was given up before it came to an end.
    Cancelled,
    /// The operation is carried on under the name that it has in this scope.
    Adopted {
        /// The scope.
        scope: Scope,
    },
    /// The original of the store, of which this one is a copy, carries the operation out.
    Disowned,
}

impl Action {
    /// The action's name in the JSON forms.
    pub const fn name(&self) -> &'static str {
        match self {
            Action::Resolve(_) => "resolve",
            Action::Reopen => "reopen",
            Action::NotReplaced { .. } => "not_replaced",
            Action::Redrive { .. } => "redrive",
            Action::Cancel => "cancel",
            Action::Adopt { .. } => "adopt",
            Action::Disown => "disown",
            Action::Note => "note",
            Action::Purge => "purge",
        }
    }
}

impl fmt::Display for Action {
    /// Writes the action for people, such as `resolve, applied as po_1` or `redrive by force`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Action::Resolve(resolution) => write!(f, ", {resolution}"),
            Action::Redrive { forced: true } => f.write_str(" by force"),
            Action::Adopt { to } => write!(f, " as {to}"),
            Action::NotReplaced { key } => write!(f, " by {key}"),
            Action::Redrive { forced: false }
            | Action::Reopen
            | Action::Cancel
            | Action::Disown
            | Action::Note
            | Action::Purge => Ok(()),
        }
    }
}

impl Resolution {
    /// The resolution's name in the JSON forms.
    pub const fn name(&self) -> &'static str {
        match self {
            Resolution::Applied { .. } => "applied",
            Resolution::NotApplied => "not_applied",
            Resolution::Compensated => "compensated",
            Resolution::Replaced { .. } => "replaced",
            Resolution::Superseded { .. } => "superseded",
            Resolution::Cancelled => "cancelled",
            Resolution::Adopted { .. } => "adopted",
            Resolution::Disowned => "disowned",
        }
    }
}

impl Resolution {
    /// Whether it cannot be taken back: the effect is sought under another name by now.
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Resolution::Replaced { .. }
                | Resolution::Superseded { .. }
                | Resolution::Adopted { .. }
                | Resolution::Disowned
        )
    }
}

impl fmt::Display for Resolution {
    /// Writes the resolution for people, such as `applied as po_1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resolution::Applied { vendor_id } => write!(f, "applied as {vendor_id}"),
            Resolution::NotApplied => f.write_str("not applied"),
            Resolution::Compensated => f.write_str("compensated"),
            Resolution::Replaced { key } => write!(f, "replaced by key {key}"),
            Resolution::Superseded { key } => write!(f, "started over as key {key}"),
            Resolution::Cancelled => f.write_str("cancelled"),
            Resolution::Adopted { scope } => write!(f, "carried on as {scope}"),
            Resolution::Disowned => f.write_str("left to the store's original"),
        }
    }
}

/// A resolution with its circumstances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// Resolution that a person gave.
    pub resolution: Resolution,
    /// Name of that person.
    pub by: String,
    /// Reason that the person gave.
    pub why: String,
    /// Time of the resolution.
    #[serde(with = "crate::attempt::millis")]
    pub at: Timestamp,
}

/// One operator's action on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The operation.
    pub id: OperationId,
    /// The action.
    pub action: Action,
    /// Name of the operator.
    pub by: String,
    /// Reason that the operator gave.
    pub why: String,
    /// Time of the action.
    pub at: Timestamp,
    /// Phase of the operation before the action.
    pub before: Phase,
    /// Phase of the operation after it.
    pub after: Phase,
}

impl Act {
    /// The longest name of a person, and the longest name of a thing at a vendor's, in bytes: that of a key.
    pub const BY_BYTES_MAX: usize = 255;

    /// The longest reason, in bytes: a paragraph, not a file.
    pub const WHY_BYTES_MAX: usize = 4096;

    /// Returns the action as a store must judge it, and `true` if the notes must be written down (see [`Notes::saw`]).
    /// For an action that asks whether a record has expired, `notes` see its time: that is not for the operator's clock
    /// alone.
    pub fn seen_by(&self, notes: &mut Notes) -> (Act, bool) {
        if self.action != Action::Purge {
            return (self.clone(), false);
        }
        let must_write = notes.saw(self.now);
        (Act { now: notes.now(self.now), ..self.clone() }, must_write)
    }

    /// Moves the action's time to `now`, the store's own clock.
    #[must_use]
    pub fn rebased(self, now: Timestamp) -> Act {
        Act { now, ..self }
    }
}

/// Methods that only the crates of this workspace call.
#[ext(ActExt)]
impl Act {
    /// Refuses an action without the name or the reason that it must have.
    pub fn check(&self) -> Result<(), Forbidden> {
        let vendor_id = match &self.action {
            Action::Resolve(Resolution::Applied { vendor_id }) => Some(vendor_id.as_str()),
            _ => None,
        };
        let why_needed = self.action != Action::Redrive { forced: false };
        let blank = |text: &str| text.trim().is_empty();
        if blank(&self.by) || (why_needed && blank(&self.why)) || vendor_id.is_some_and(blank) {
            return Err(Forbidden::Unexplained);
        }
        let long = |text: &str, bytes_max: usize| text.len() > bytes_max;
        if long(&self.by, Act::BY_BYTES_MAX)
            || long(&self.why, Act::WHY_BYTES_MAX)
            || vendor_id.is_some_and(|id| long(id, Act::BY_BYTES_MAX))
        {
            return Err(Forbidden::TooLong);
        }
        Ok(())
    }

    /// Returns the audit entry of a cancelled row of the outbox: a call that is no operation yet.
    pub fn on_row(&self, id: &OperationId) -> Result<AuditEntry, Forbidden> {
        self.check()?;
        Ok(AuditEntry {
            id: id.clone(),
            action: self.action.clone(),
            by: self.by.clone(),
            why: self.why.clone(),
            at: self.now,
            before: Phase::Scheduled,
            after: Phase::Resolved,
        })
    }
}

impl Record {
    /// The record after an operator's action and what is kept of the action, or why it is not allowed.
    ///
    /// # Errors
    ///
    /// [`Forbidden`], and the record stays as it is.
    pub fn act(&self, act: &Act) -> Result<(Record, AuditEntry), Forbidden> {
        act.check()?;
        if act.fence.is_some_and(|fence| fence != self.fence) {
            return Err(Forbidden::Moved);
        }
        let record = match &act.action {
            Action::Resolve(resolution) => self.resolve(resolution, act)?,
            Action::Reopen => self.reopen(act.now)?,
            Action::NotReplaced { key } => self.not_replaced(key, act.now)?,
            Action::Redrive { forced } => self.redrive(*forced, act.now)?,
            Action::Cancel => self.cancel(act)?,
            Action::Disown => self.disown(act)?,
            Action::Adopt { to } => self.left_behind(to, act)?,
            Action::Note => self.clone(),
            Action::Purge if self.expires_at().is_some_and(|at| at <= act.now) => self.clone(),
            Action::Purge => return Err(Forbidden::NotExpired),
        };
        let entry = AuditEntry {
            id: self.id.clone(),
            action: act.action.clone(),
            by: act.by.clone(),
            why: act.why.clone(),
            at: act.now,
            before: self.phase(),
            after: record.phase(),
        };
        Ok((record, entry))
    }

    fn resolve(&self, resolution: &Resolution, act: &Act) -> Result<Record, Forbidden> {
        match self.phase() {
            Phase::Dead => {}
            Phase::Resolved => return Err(Forbidden::Resolved),
            _ => return Err(Forbidden::NotDead),
        }
        let denies = matches!(resolution, Resolution::NotApplied | Resolution::Replaced { .. });
        if denies && self.may_be_under_way(act.now) {
            return Err(Forbidden::Held);
        }
        let mut record = self.clone();
        let (by, why) = (act.by.clone(), act.why.clone());
        record.resolved = Some(Resolved { resolution: resolution.clone(), by, why, at: act.now });
        record.updated_at = self.ended_at(act.now);
        Ok(record)
    }

    fn reopen(&self, now: Timestamp) -> Result<Record, Forbidden> {
        match self.resolution() {
            Some(resolution) if resolution.is_final() => Err(Forbidden::Resolved),
            Some(_) => Ok(Record { resolved: None, updated_at: now, ..self.clone() }),
            None if self.phase() == Phase::Dead => Err(Forbidden::NotResolved),
            None => Err(Forbidden::NotDead),
        }
    }

    fn not_replaced(&self, by: &Key, now: Timestamp) -> Result<Record, Forbidden> {
        match self.resolution() {
            Some(Resolution::Replaced { key }) if key == by => {
                Ok(Record { resolved: None, updated_at: now, ..self.clone() })
            }
            Some(_) => Err(Forbidden::Resolved),
            None if self.phase() == Phase::Dead => Err(Forbidden::NotResolved),
            None => Err(Forbidden::NotDead),
        }
    }

    /// Makes the operation due now, under the next fence: then a late write of an earlier holder changes nothing.
    ///
    /// If the attempts proved that nothing took effect, the vendor holds nothing under the key and its window starts
    /// over. If only a person says so, the window goes on from the first claim: should the person be wrong, a lookup
    /// still reaches back far enough.
    fn redrive(&self, forced: bool, now: Timestamp) -> Result<Record, Forbidden> {
        let was_not_applied = match (self.phase(), self.resolution()) {
            (Phase::Dead, _) => false,
            (Phase::Resolved, Some(Resolution::NotApplied)) => true,
            (Phase::Resolved, _) => return Err(Forbidden::Resolved),
            _ => return Err(Forbidden::NotDead),
        };
        if forced && self.may_be_under_way(now) {
            return Err(Forbidden::Held);
        }
        let mut record = self.moved(State::Scheduled { at: now }, now);
        record.resolved = None;
        record.fence = self.fence.saturating_add(1);
        // A ladder of its own. The log keeps what the attempts before it met.
        record.attempts = 0;
        record.lookups = 0;
        // Force is one send that may be a second effect, and not a ladder of them. From then on the adapter
        // decides what may be repeated.
        record.on_unknown = match self.on_unknown {
            OnUnknown::Resend => OnUnknown::ByMethod,
            kept => kept,
        };
        if self.effect == Effect::None {
            // By the operator's clock: nobody knows the vendor's beside that.
            (record.claimed_at, record.vendor_clock_ms) = (now, None);
        }
        if was_not_applied {
            record.effect = Effect::None;
            record.unknown_since = None;
        }
        // Spent by a send that needs it: what is not applied is sent without it, and once.
        record.resends_left =
            u32::from(forced && !Guard::ForceForUnknown.keeps(record.effect == Effect::None));
        Ok(record)
    }

    /// Whether the last request of a holder that is gone may still arrive. A look at the vendor proves nothing until then.
    fn may_be_under_way(&self, now: Timestamp) -> bool {
        let longest = now.plus(CLOCKS_DIFFER_MAX).plus(self.attempt_max);
        Guard::LastRequestAwaited.holds()
            && self.effect == Effect::Unknown
            && self.unknown_since.is_some_and(|ended| ended > now && ended <= longest)
    }

    fn resolution(&self) -> Option<&Resolution> {
        self.resolved.as_ref().map(|resolved| &resolved.resolution)
    }
}

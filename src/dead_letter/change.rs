//! A change of dead letters: who signs for it, what it may do, and what it did.

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::Forbidden;

/// How to change dead letters: who signs for it, and what it may do.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::Effect;
/// use steadfast::dead_letter::Change;
/// use steadfast::operation::record::Filter;
///
/// // First count, then do it.
/// let not_applied = Filter { effect: Some(Effect::None), ..Filter::default() };
/// let counted = letters.redrive_all(&not_applied, &Change::by("ada").dry_run()).await?;
/// assert_eq!(counted.done, 1);
/// letters.redrive_all(&not_applied, &Change::by("ada")).await?;
///
/// // The service's own client sends it, through its gates.
/// assert_eq!(postmark.recover(10).await?.succeeded, 1);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The operator's name, kept on the audit record. At most
    /// [`Act::BY_BYTES_MAX`](crate::operation::record::Act::BY_BYTES_MAX) bytes.
    pub by: String,
    /// The reason, kept on the audit record. At most
    /// [`Act::WHY_BYTES_MAX`](crate::operation::record::Act::WHY_BYTES_MAX) bytes. A redrive of what is safe needs none.
    pub why: String,
    /// Whether to send what may have taken effect, although neither the vendor's window, nor a lookup, nor the method
    /// makes that safe. It needs a reason, and risks a second effect. Only redrives and edits ask for it.
    pub force: bool,
    /// Whether to send a PUT, a PATCH or a DELETE, although it replaces or removes what was written since. It needs a
    /// reason. A request with `If-Match` or `If-Unmodified-Since` does not need this: the vendor refuses it if it is
    /// too late. Only redrives ask for it.
    pub overwrite: bool,
    /// Whether this is a dry run: it counts, changes nothing, and needs neither name nor reason.
    pub dry_run: bool,
}

/// What a change did, or what its dry run would do.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::dead_letter::{Change, Outcome};
/// use steadfast::operation::record::Filter;
///
/// # let letters = steadfast::dead_letter::DeadLetters::new(store.clone());
/// let all = Filter::default();
/// let outcome: Outcome = letters.redrive_all(&all, &Change::by("ada")).await?;
/// assert_eq!((outcome.matched, outcome.done, outcome.held_back), (2, 1, 1));
/// // Without a client of the vendor, the rules that make it safe are not known.
/// let (_, why) = &outcome.why_held_back[0];
/// assert_eq!(why.code(), "no_rules");
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Whether nothing was changed and only counted.
    pub dry_run: bool,
    /// Operations that matched or were named. What an earlier adoption has done is not among them.
    pub matched: u64,
    /// Of these, changed: a redrive made them due, an adoption gave them the new name. In
    /// the dry run of a redrive or an adoption: those that would be.
    pub done: u64,
    /// Of these, due only by force.
    pub forced: u64,
    /// Of these, looked up before anything is sent: it is only sent if the lookup proves that it did not take effect.
    pub looked_up: u64,
    /// The others: not changed.
    pub held_back: u64,
    /// The reasons, each with how many were held back for it.
    pub reasons: Vec<(Forbidden, u64)>,
    /// The first of the others with the reason, at most [`Outcome::HELD_BACK_SHOWN_MAX`].
    pub why_held_back: Vec<(OperationId, Forbidden)>,
    /// The time at which a filter was frozen. Given as
    /// [`Filter::updated_before`](crate::operation::record::Filter::updated_before), it selects the same letters again.
    /// `None` without a filter.
    pub frozen_at: Option<Timestamp>,
    pub(super) of: Of,
}

/// Of which change it is the outcome. Its JSON form calls what was done by that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Redrive,
    Adoption,
    Resolution,
    Cancellation,
}

impl Change {
    /// A change of what is safe to change, signed by an operator.
    pub fn by(name: impl Into<String>) -> Change {
        Change { by: name.into(), why: String::new(), force: false, overwrite: false, dry_run: false }
    }

    /// With a reason.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Change {
        self.why = why.into();
        self
    }

    /// Also sends what is not safe to send.
    #[must_use]
    pub fn force(mut self) -> Change {
        self.force = true;
        self
    }

    /// Also sends what overwrites later writes.
    #[must_use]
    pub fn overwrite(mut self) -> Change {
        self.overwrite = true;
        self
    }

    /// Makes it a dry run.
    #[must_use]
    pub fn dry_run(mut self) -> Change {
        self.dry_run = true;
        self
    }

    pub(super) fn outcome(&self, of: Of) -> Outcome {
        Outcome {
            dry_run: self.dry_run,
            matched: 0,
            done: 0,
            forced: 0,
            looked_up: 0,
            held_back: 0,
            reasons: Vec::new(),
            why_held_back: Vec::new(),
            frozen_at: None,
            of,
        }
    }
}

impl Outcome {
    /// How many of those that were held back are named.
    pub const HELD_BACK_SHOWN_MAX: usize = 100;

    pub(super) fn hold_back(&mut self, id: OperationId, why: Forbidden) {
        self.held_back += 1;
        match self.reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((why, 1)),
        }
        if self.why_held_back.len() < Outcome::HELD_BACK_SHOWN_MAX {
            self.why_held_back.push((id, why));
        }
    }
}

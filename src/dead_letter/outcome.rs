//! The outcome of a change of dead letters.

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::Forbidden;

use super::{Change, DeadLetterError};

/// Outcome of a change, or of its dry run.
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
    /// Operations that matched or were named. Those that an earlier adoption has moved are not among them.
    pub matched: u64,
    /// Number of those that were changed: a redrive made them due, an adoption gave them the new name. In the dry run
    /// of a redrive or an adoption: those that would be.
    pub done: u64,
    /// Number of those that are due only by force.
    pub forced: u64,
    /// Number of those that are looked up before anything is sent: each is only sent if the lookup proves that it did
    /// not take effect.
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

/// Kind of the change. Its JSON form calls what was done by that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Redrive,
    Adoption,
    Resolution,
    Cancellation,
}

impl Outcome {
    /// Number of operations held back that are named.
    pub const HELD_BACK_SHOWN_MAX: usize = 100;

    /// Starts the outcome of a change that has not begun.
    pub(super) fn new(how: &Change, of: Of) -> Outcome {
        Outcome {
            dry_run: how.dry_run,
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

    /// Notes a refusal as held back; any other error ends the change.
    pub(super) fn note<T>(
        &mut self,
        id: &OperationId,
        done: Result<T, DeadLetterError>,
    ) -> Result<(), DeadLetterError> {
        match done {
            Ok(_) => self.done += 1,
            Err(DeadLetterError::Refused { why, .. }) => self.hold_back(id.clone(), why),
            Err(DeadLetterError::Absent(_)) => {
                self.hold_back(id.clone(), Forbidden::Absent);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

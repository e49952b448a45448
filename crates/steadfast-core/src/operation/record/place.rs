//! An operation's place in its [`Sequence`], and whose turn it is.
//!
//! In each sequence at most one operation has the *turn*. It is the one that may be taken; all others wait, whatever
//! time they are due. The turn goes to the earliest operation that [holds](Record::holds_sequence) the sequence. It
//! stays where it is while a process is sending: a predecessor that is redriven meanwhile waits for the end of that.
//!
//! So a store keeps two things for each sequence: which operations hold it, by position, and which one has the turn.
//! Both change only in the commit that moves one of its operations. A take is then as cheap as without sequences. It
//! looks among what is due for those that need no turn or have it, and never through a line of waiting ones.

use easy_ext::ext;

use super::{Phase, Record, State};
use crate::clock::Timestamp;
use crate::error::Refusal;
use crate::guard::Guard;
use crate::operation::{OperationId, Sequence};

/// Place of an operation in its sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The sequence, within the operation's [account](crate::operation::Scope::account_path), and whether the
    /// operation's dead letter holds it.
    pub sequence: Sequence,
    /// Its position. Those of a sequence that were accepted later have higher ones; there may be gaps. An operation that
    /// starts another one over has that one's position.
    pub position: u64,
    /// The operation that has the turn; `None` if it is this one. A store fills it in each time it reads the record,
    /// and so it is as of that reading.
    pub behind: Option<Box<Ahead>>,
}

/// The operation that has the turn of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ahead {
    /// Its name.
    pub id: OperationId,
    /// Phase of that operation: a dead letter holds the sequence until a person has dealt with it.
    pub phase: Phase,
    /// End of its lease, or time of its next attempt; `None` for a dead letter.
    pub until: Option<Timestamp>,
}

impl Place {
    /// A place, as a store keeps it.
    pub fn new(sequence: Sequence, position: u64, behind: Option<Ahead>) -> Place {
        Place { sequence, position, behind: behind.map(Box::new) }
    }
}

impl Ahead {
    /// The operation that has the turn, as a store reads it.
    pub fn new(id: OperationId, phase: Phase, until: Option<Timestamp>) -> Ahead {
        Ahead { id, phase, until }
    }
}

impl Record {
    /// Whether those behind it in its sequence wait for it: it has not ended, or it is an open dead letter that the
    /// call did not say to skip.
    pub fn holds_sequence(&self) -> bool {
        let Some(place) = &self.sequence else { return false };
        match self.state {
            State::InProgress { .. } => true,
            State::Scheduled { .. } => self.attempts == 0 || Guard::RetryHoldsSequence.holds(),
            State::Dead { .. } => {
                let holds = self.resolved.is_none() && !place.sequence.skips_dead_letters();
                Guard::DeadLetterHoldsSequence.keeps(holds)
            }
            State::Succeeded { .. } | State::Refused { .. } => false,
        }
    }

    /// The operation that has the turn, if this one waits for it: until then it can be neither taken nor claimed.
    pub fn waits_for(&self) -> Option<&Ahead> {
        let may_be_sent = match self.state {
            State::Scheduled { .. } => true,
            // Its key is free again.
            State::Refused { refusal: Refusal::Unauthorized, .. } => true,
            State::InProgress { .. }
            | State::Succeeded { .. }
            | State::Refused { .. }
            | State::Dead { .. } => false,
        };
        let behind = self.sequence.as_ref().filter(|_| may_be_sent)?.behind.as_deref();
        Guard::SequenceOrder.keeps(behind)
    }
}

/// Methods that only the crates of this workspace call.
#[ext(RecordPlaceExt)]
impl Record {
    /// Returns the time to ask again for an operation that [waits](Record::waits_for) for its turn: when it is due
    /// itself and the one ahead frees, as far as that is known. It is not known when an operator deals with a dead
    /// letter, nor how many wait between the two. It is then the longest exchange from now.
    pub fn turn_at(&self, now: Timestamp) -> Option<Timestamp> {
        let ahead = self.waits_for()?;
        let due = match self.state {
            State::Scheduled { at } => Some(at),
            _ => None,
        };
        let known = ahead.until.max(due).filter(|known| *known > now);
        Some(known.unwrap_or_else(|| now.plus(self.attempt_max)))
    }
}

/// Returns the operation that has the turn of a sequence from now on. `current` has had it, and is in progress or not;
/// `None` if it no longer [holds](Record::holds_sequence) the sequence. `first` is the earliest that does.
///
/// A store asks this in the commit of each change of the holder of a sequence: an operation enters, ends, is redriven,
/// reopened or removed, or releases its lease.
pub fn turn<T>(current: Option<(T, Phase)>, first: Option<T>) -> Option<T> {
    match current {
        Some((one, Phase::InProgress)) if Guard::OneAtATime.holds() => Some(one),
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_goes_to_the_first_unless_the_current_one_is_in_progress() {
        for (current, first, expected) in [
            (None, None, None),
            (None, Some(2), Some(2)),
            (Some((2, Phase::Scheduled)), Some(2), Some(2)),
            (Some((2, Phase::Scheduled)), Some(1), Some(1)),
            (Some((2, Phase::Dead)), Some(1), Some(1)),
            (Some((2, Phase::InProgress)), Some(1), Some(2)),
        ] {
            assert_eq!(turn(current, first), expected, "{current:?} {first:?}");
        }
    }
}

//! The meaning of a claim's answer.

use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::{Disposition, Obstacle};
use crate::guard::Guard;
use crate::operation::Fingerprint;
use crate::operation::record::{Claimed, Record};
use crate::store::error::wrote_nothing;
use crate::store::{StoreError, StoreErrorKind};

/// The reason for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// A caller sends, and waits for the answer.
    Send,
    /// A caller leaves it to a dispatcher.
    Enqueue,
    /// A dispatcher records a row of the outbox.
    Admit,
}

/// The meaning of a claim's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// The operation is this call's, and nothing was sent before.
    Send(Record),
    /// The operation is this call's, and something may have been sent before.
    CarryOn {
        /// Its record.
        record: Record,
        /// Whether an earlier caller was told that it goes on by itself.
        is_accepted: bool,
    },
    /// It is on record now, as due.
    Recorded(Record),
    /// It was on record before, and goes on as it was.
    OnRecord,
    /// It has ended: its end is the call's.
    Ended(Record),
    /// Another call holds it.
    Held {
        /// When it frees at the latest.
        frees_at: Timestamp,
    },
    /// The key belongs to another request.
    OtherRequest {
        /// The fingerprint on record.
        held: Fingerprint,
        /// Effect of the request on record.
        effect: Effect,
        /// Its disposition.
        next: Disposition,
    },
    /// The operation that it starts over stands in the way.
    InTheWay {
        /// The obstacle.
        obstacle: Obstacle,
        /// Effect of that operation.
        effect: Effect,
    },
    /// The operation that it starts over has not ended: the row is admitted later.
    Later,
}

/// The meaning of a store's answer to a claim.
pub fn meaning(claimed: Claimed, intent: Intent) -> Meaning {
    use Intent::{Admit, Enqueue, Send};
    match (claimed, intent) {
        (Claimed::Fresh(record), Send) => Meaning::Send(record),
        (Claimed::TakenOver(record), Send) => Meaning::CarryOn { record, is_accepted: true },
        (Claimed::Freed(record), Send) => Meaning::CarryOn { record, is_accepted: false },
        (Claimed::Fresh(record) | Claimed::TakenOver(record) | Claimed::Freed(record), Enqueue | Admit) => {
            Meaning::Recorded(record)
        }
        (Claimed::Settled(record), Send | Enqueue) => Meaning::Ended(record),
        (Claimed::Busy { frees_at }, Send) => Meaning::Held { frees_at },
        (Claimed::Busy { .. }, Enqueue | Admit) | (Claimed::Settled(_), Admit) => Meaning::OnRecord,
        (Claimed::Mismatch { held, effect, next }, _) => Meaning::OtherRequest { held, effect, next },
        (Claimed::InTheWay { obstacle: Obstacle::Open { .. }, .. }, Admit) => Meaning::Later,
        (Claimed::InTheWay { obstacle, effect }, _) => Meaning::InTheWay { obstacle, effect },
    }
}

/// The meaning of a claim that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimFailure {
    /// The store may be a copy: only what has ended is known.
    Displaced,
    /// The store cannot hold it, however often it is tried.
    NotHeld,
    /// Nothing was written.
    WroteNothing,
    /// It may be on file all the same.
    PerhapsClaimed,
}

/// The meaning of a store's failure to claim; `None` if it did not answer in time.
pub fn claim_failure(failure: Option<&StoreError>) -> ClaimFailure {
    let Some(failure) = failure else { return ClaimFailure::PerhapsClaimed };
    match failure.kind() {
        StoreErrorKind::Displaced => ClaimFailure::Displaced,
        StoreErrorKind::Invalid if Guard::NotHeldIsRejected.holds() => ClaimFailure::NotHeld,
        _ if wrote_nothing(failure) || Guard::FailedClaim.is_out() => ClaimFailure::WroteNothing,
        _ => ClaimFailure::PerhapsClaimed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_may_be_on_file_unless_the_store_turned_it_away() {
        use StoreErrorKind::{Closed, Corrupt, Displaced, Full, Invalid, Lost, Other, Stopped, Unreachable};
        for (kinds, expected) in [
            (&[Corrupt, Lost, Stopped, Other][..], ClaimFailure::PerhapsClaimed),
            (&[Full, Closed, Unreachable], ClaimFailure::WroteNothing),
            (&[Invalid], ClaimFailure::NotHeld),
            (&[Displaced], ClaimFailure::Displaced),
        ] {
            for kind in kinds {
                let failure = StoreError::new("no").of_kind(*kind);
                assert_eq!(claim_failure(Some(&failure)), expected, "{kind:?}");
            }
        }
        assert_eq!(claim_failure(None), ClaimFailure::PerhapsClaimed);
    }
}

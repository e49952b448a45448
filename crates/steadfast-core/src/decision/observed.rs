//! The result of a step that a driver carried out.

use std::time::Duration;

use super::log::refuses_credentials;
use super::{Context, Goal, LogFacts, Progress, RefusedAs};
use crate::clock::{Instant, Timestamp};
use crate::effect::Effect;
use crate::error::{Gate, Refusal};
use crate::guard::Guard;
use crate::policy::gates::Outcome as Health;
use crate::transport::SendErrorKind;
use crate::vendor::{SpeaksFor, Verdict};

/// The result of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    /// The operation was taken from the store, by a caller or by recovery.
    Taken(TakenOperation),
    /// The operation was claimed, or a call without a key begins. An admission is in hand.
    Claimed {
        /// When the gates let the call through.
        admitted_at: Instant,
        /// True while the vendor asks to be left alone.
        is_paused: bool,
    },
    /// A goal was set. Nothing is in hand.
    Pursued,
    /// The operation's log was read; `None` if the store did not say.
    Log(Option<LogFacts>),
    /// The retry budget was asked.
    Charged {
        /// Whether it had the price of a retry.
        is_paid: bool,
    },
    /// The gates let the next send or lookup through. The admission is in hand.
    Admitted {
        /// True while the vendor asks to be left alone.
        is_paused: bool,
    },
    /// A gate refused.
    HeldBack {
        /// The gate.
        gate: Gate,
        /// When the gate may open; `None` if it does not know.
        retry_at: Option<Instant>,
    },
    /// The process stops, and the call has nothing under way.
    Stopping {
        /// End of the pause that the vendor asked this process for.
        paused_until: Option<Instant>,
    },
    /// The lease was renewed.
    Renewed {
        /// End of the lease.
        until: Instant,
        /// When the record was written.
        updated_at: Timestamp,
        /// True while the vendor asks to be left alone.
        is_paused: bool,
    },
    /// The wait is over.
    Woken,
    /// An attempt has ended.
    Attempted(Attempted),
    /// A page of a lookup was answered, or failed.
    LookedUp {
        /// The result.
        looked: LookedUp,
        /// The wait that the answer asks for.
        asked_wait: Option<Duration>,
        /// End of the exchange.
        ended: Instant,
    },
    /// The gate knows of the credentials that were refused.
    CredentialsNoted,
    /// The ending is on record, or needs no record.
    Written {
        /// When the write began.
        began: Instant,
    },
    /// The record was read once more after a slow write.
    Reread {
        /// Whether it is as this holder wrote it.
        is_unchanged: bool,
        /// When the read began.
        asked: Instant,
    },
    /// A write failed, or another process holds the operation. The driver has the error.
    Failed,
}

impl Observed {
    /// Whether the step after it may be a wait with jitter. A driver draws a number for no other.
    pub fn takes_draw(&self, progress: &Progress, now: Instant) -> bool {
        let is_asked_to_wait = progress.left_alone_until().is_some_and(|until| until > now);
        match (self, progress.goal()) {
            (Observed::HeldBack { .. } | Observed::Charged { is_paid: false }, _) => true,
            (Observed::Pursued, Goal::Retry) | (Observed::CredentialsNoted, Goal::Lookup(_)) => true,
            (Observed::Pursued, Goal::Lookup(_)) | (Observed::Stopping { .. }, _) => is_asked_to_wait,
            (Observed::LookedUp { looked: LookedUp::Failed { meets_refusal, .. }, .. }, _) => !meets_refusal,
            (Observed::CredentialsNoted, _) => {
                is_asked_to_wait || matches!(progress.refused_as(), Some(RefusedAs::AtTimes { .. }))
            }
            _ => false,
        }
    }
}

/// An operation that was taken from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenOperation {
    /// False where it belongs to another account than the client's secret.
    pub is_ours: bool,
    /// False where its URL is neither below the client's base URL nor below a former one.
    pub is_addressed: bool,
    /// True where it has waited for its account's credentials for too long.
    pub is_given_up: bool,
    /// Whether the vendor has a lookup for it.
    pub has_lookup: bool,
}

/// One attempt, over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempted {
    /// Beginning of the exchange.
    pub began: Instant,
    /// End of the exchange.
    pub ended: Instant,
    /// The adapter's word on it, with a wait that is believed.
    pub verdict: Verdict,
    /// The answer's status; `None` if no whole answer came.
    pub status: Option<u16>,
    /// Why no answer came; `None` if one did.
    pub failure: Option<SendErrorKind>,
    /// The wait that the answer asks for.
    pub asked_wait: Option<Duration>,
    /// Whether the vendor has a lookup for the operation. Not asked for a success.
    pub has_lookup: bool,
    /// Its meaning for the vendor's health.
    pub health: Health,
    /// Whose circuit is not closed; `None` if none is.
    pub down: Option<Down>,
    /// When another call was last answered, by a breaker in normal mode; `None` without such a breaker.
    pub answered_at: Option<Instant>,
}

/// The outcome of an attempt. An adapter that calls a lost answer a yes or a no is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The vendor did it.
    Done {
        /// Whether it is the answer to an earlier request.
        replayed: bool,
    },
    /// A definite no to this attempt.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Which attempts it is a no to.
        speaks_for: SpeaksFor,
    },
    /// Another attempt may help.
    Retry {
        /// Effect of this attempt.
        effect: Effect,
    },
    /// It may have taken effect, and another send cannot help.
    Unknown,
}

impl AttemptOutcome {
    /// The outcome of an attempt with this verdict.
    pub fn of(verdict: &Verdict, is_answered: bool) -> AttemptOutcome {
        match (verdict, is_answered) {
            (Verdict::Done { replayed }, true) => AttemptOutcome::Done { replayed: *replayed },
            (Verdict::Refused { refusal, speaks_for }, true) => {
                AttemptOutcome::Refused { refusal: *refusal, speaks_for: *speaks_for }
            }
            (Verdict::Retry { effect, .. }, _) => AttemptOutcome::Retry { effect: *effect },
            (Verdict::Done { .. } | Verdict::Refused { .. } | Verdict::Unknown, _) => AttemptOutcome::Unknown,
        }
    }

    /// Effect of the attempt itself.
    pub const fn effect(self) -> Effect {
        match self {
            AttemptOutcome::Done { .. } => Effect::Applied,
            AttemptOutcome::Refused { .. } => Effect::None,
            AttemptOutcome::Retry { effect } => effect,
            AttemptOutcome::Unknown => Effect::Unknown,
        }
    }
}

impl Attempted {
    /// The outcome of the attempt.
    pub fn outcome(&self) -> AttemptOutcome {
        AttemptOutcome::of(&self.verdict, self.status.is_some())
    }
}

/// Whether an answer refuses the credentials of an operation that goes on by itself.
pub fn meets_refusal(context: &Context<'_>, verdict: &Verdict, status: Option<u16>) -> bool {
    let is_accepted = context.recorded.is_some_and(|recorded| recorded.is_accepted);
    let by_adapter = matches!(verdict, Verdict::Refused { refusal: Refusal::Unauthorized, .. });
    let is_refused = status.is_some_and(|status| refuses_credentials(status, by_adapter));
    Guard::CredentialsHold.keeps(is_accepted && is_refused)
}

/// Whose circuit is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    /// The account's.
    Account,
    /// The route's alone.
    Route,
}

/// The result of one page of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookedUp {
    /// The effect, in the shape of the lost answer.
    Found,
    /// No effect is listed.
    Absent,
    /// It was answered, and cannot tell.
    CannotTell,
    /// It was not answered, or not by the vendor.
    Failed {
        /// Whether the credentials of an operation that goes on by itself were refused.
        meets_refusal: bool,
        /// Whose circuit is not closed.
        down: Option<Down>,
    },
    /// There is another page.
    More,
}

impl LookedUp {
    /// Whether the lookup was made: one that failed is not, and uses up none of those that the policy allows.
    pub(super) fn is_answered(self) -> bool {
        match self {
            LookedUp::Found | LookedUp::Absent | LookedUp::CannotTell => true,
            LookedUp::Failed { .. } => Guard::FailedLookup.is_out(),
            LookedUp::More => false,
        }
    }
}

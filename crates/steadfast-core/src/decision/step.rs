//! The steps that a driver can carry out.

use std::time::Duration;

use super::Progress;
use crate::clock::Instant;
use crate::effect::Effect;
use crate::error::{Gate, Reason, Refusal, Step as Next};

/// One step of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Sets a goal, and gives back an admission that is in hand.
    Pursue(Goal),
    /// Reads the operation's log.
    ReadLog(LogQuestion),
    /// Charges the retry budget for the send that comes at `until`.
    Charge(Planned),
    /// Asks the gates.
    Admit(Errand),
    /// Renews the lease, with an admission in hand or for the wait that is planned.
    Renew {
        /// How long the hold has to last, beside the policy's margin.
        needed: Duration,
        /// Whether the next send may be a second effect: the record counts it before it leaves.
        spends_resend: bool,
        /// The wait that comes after it.
        wait: Option<Planned>,
    },
    /// Waits, unless the process stops.
    Wait(Planned),
    /// Sends the request.
    Send,
    /// Asks for a page of the lookup.
    Lookup,
    /// Tells the gate of refused credentials.
    NoteCredentials(RefusedAs),
    /// Writes the call's end to the record. A call without one has nothing to write.
    Write(CallEnd),
    /// Reads the record once more: the write took so long that another process may have acted since.
    Reread,
    /// Tells the caller, and ends the run.
    Tell(CallerAnswer),
}

/// The reason for which the log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogQuestion {
    /// Whether the last attempt of an earlier run can be repeated.
    Resume,
    /// The meaning of this run's last attempt.
    Attempt,
    /// Whether a lookup's miss is believed.
    Miss,
    /// Whose the refusal of credentials is that a lookup met.
    Lookup,
}

/// The aim of the steps that follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// To carry on with an operation that was taken over.
    Resume,
    /// To send.
    Send(Errand),
    /// To send again, after the ladder's next wait.
    Retry,
    /// To find out by a lookup.
    Lookup(Search),
    /// To end by the result of a lookup.
    Conclude {
        /// Why it was looked up.
        purpose: Purpose,
        /// The result.
        concluded: Concluded,
    },
}

/// The kind of request that the gates are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// A send that cannot be a second effect.
    Send,
    /// A send that may be a second effect, which the caller accepted.
    SendAtRisk,
    /// A lookup.
    Lookup,
}

/// A lookup, from the first question to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Why it is made.
    pub purpose: Purpose,
    /// When to ask; `None` for the end of the settle time.
    pub at: Option<Instant>,
    /// Lookups that failed, one after the other.
    pub failures: u32,
    /// The wait before the last of them.
    pub wait: Duration,
}

impl Search {
    /// A search that begins.
    pub const fn new(purpose: Purpose) -> Search {
        Search { purpose, at: None, failures: 0, wait: Duration::ZERO }
    }
}

/// Why an operation is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A send without it may be a second effect.
    BeforeSend,
    /// No send helps or is allowed. The reason is that of the dead letter where the lookup cannot tell.
    Settle(Reason),
    /// The vendor calls the request a duplicate of what may be the operation's own effect.
    Duplicate,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concluded {
    /// The effect was found.
    Found,
    /// No send took effect.
    Absent,
    /// The vendor cannot tell, or has no lookup.
    CannotTell,
}

/// A wait that is decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// End of the wait.
    pub until: Instant,
    /// Reason for it.
    pub why: Why,
    /// The ladder's own part of it.
    pub rung: Duration,
}

/// The reason for a wait, or for a postponed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The ladder's next attempt.
    Retry,
    /// A lookup that is not believed yet, or failed.
    Lookup,
    /// A gate.
    Gate(Gate),
    /// The call's time is over, or too short for what comes next.
    OutOfTime(Option<Next>),
    /// The operation is another client's to carry on.
    NotOurs,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It took effect.
    Success(Success),
    /// The vendor refused it.
    Refused(Refusal),
    /// It waits for a person. A call without a key fails with its last answer.
    DeadLetter(Reason),
    /// It goes on later, without its caller.
    Postponed(Postponed),
}

/// How a success was learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// By the answer to this call's own send.
    Fresh,
    /// By the vendor's record of an earlier send.
    Replayed,
    /// By a lookup.
    Reconciled,
}

/// An operation that is left to the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Postponed {
    /// When it is due.
    pub at: Instant,
    /// Reason for it.
    pub why: Why,
    /// The wait that the ladder asked for; `None` where something else postponed it.
    pub rung: Option<Duration>,
}

/// Whose refusal it is that an operation's credentials met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedAs {
    /// The account's: its operations wait.
    Account,
    /// Perhaps the operation's own: other calls of the account are answered well.
    AtTimes {
        /// Refusals in a row before this one.
        refusals: usize,
    },
    /// The operation's own: others are answered well, and it has climbed its ladder.
    Alone,
}

impl RefusedAs {
    /// Whether the operation stays due.
    pub const fn goes_on(self) -> bool {
        !matches!(self, RefusedAs::Alone)
    }
}

/// The caller's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerAnswer {
    /// The ending that was written, with this effect.
    End(Effect),
    /// The failure that the driver has in hand.
    Failure,
}

impl Step {
    /// The end of an operation that no send can help: a dead letter, or a lookup where an attempt may have taken effect.
    pub(super) fn give_up(progress: &Progress, reason: Reason) -> Step {
        match progress.effect() {
            Effect::None => Step::Write(CallEnd::DeadLetter(reason)),
            Effect::Unknown | Effect::Applied => Step::lookup(Purpose::Settle(reason)),
        }
    }

    pub(super) const fn lookup(purpose: Purpose) -> Step {
        Step::Pursue(Goal::Lookup(Search::new(purpose)))
    }

    pub(super) const SEND: Step = Step::Pursue(Goal::Send(Errand::Send));
}

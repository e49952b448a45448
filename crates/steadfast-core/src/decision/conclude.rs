//! The end of a search.

use super::situation::Situation;
use super::{Concluded, Ending, Errand, Purpose, Step, Success};
use crate::error::Reason;
use crate::operation::record::resend::{LookUp, Ruling};

/// Ends the call by what a lookup found, or sends what it proved absent.
///
/// Where no further send can help, and no attempt had an effect, a definite no to the last one is the outcome after all.
pub(super) fn conclude(situation: &Situation<'_>, purpose: Purpose, concluded: Concluded) -> Step {
    let dead_letter = |reason| Step::Write(Ending::DeadLetter(reason));
    match (purpose, concluded) {
        (_, Concluded::Found) => Step::Write(Ending::Success(Success::Reconciled)),
        (Purpose::BeforeSend, Concluded::Absent) => Step::SEND,
        (Purpose::BeforeSend, Concluded::CannotTell) => match situation.ruling_after(LookUp::CannotTell) {
            Ruling::Send(_) => Step::Admit(Errand::Send),
            Ruling::SendAtRisk => Step::Admit(Errand::SendAtRisk),
            Ruling::Stop(reason) => dead_letter(reason),
            // There was one, and it cannot tell.
            Ruling::LookUpFirst => dead_letter(Reason::Unknown),
        },
        (Purpose::Settle(_), Concluded::Absent) => match situation.progress.last().refusal {
            Some(refusal) => Step::Write(Ending::Refused(refusal)),
            None => dead_letter(Reason::Exhausted),
        },
        (Purpose::Settle(reason), Concluded::CannotTell) => dead_letter(reason),
        (Purpose::Duplicate, Concluded::Absent | Concluded::CannotTell) => dead_letter(Reason::Unknown),
    }
}

//! Before a send: what allows it.

use super::situation::Situation;
use super::{Ending, Errand, Purpose, Step};
use crate::operation::record::resend::Ruling;

/// Asks the gates for a send that may be made, and for a lookup where it may not be made yet.
pub(super) fn clear(situation: &Situation<'_>) -> Step {
    match situation.ruling() {
        Ruling::Send(_) => Step::Admit(Errand::Send),
        Ruling::SendAtRisk => Step::Admit(Errand::SendAtRisk),
        Ruling::LookUpFirst => Step::look_up(Purpose::BeforeSend),
        Ruling::Stop(reason) => Step::Write(Ending::DeadLetter(reason)),
    }
}

//! A wait is over.

use super::situation::Situation;
use super::{Errand, Goal, Step, Why};

/// Asks the gates for what was waited for. After the ladder's wait it is first asked what allows the send: the wait has
/// used the vendor's window up.
pub(super) fn woken(situation: &Situation<'_>) -> Step {
    let progress = situation.progress;
    match (progress.goal(), progress.planned().map(|planned| planned.why)) {
        (Goal::LookUp(_), _) => Step::Admit(Errand::LookUp),
        (Goal::Send(errand), Some(Why::Gate(_))) => Step::Admit(errand),
        _ => Step::SEND,
    }
}

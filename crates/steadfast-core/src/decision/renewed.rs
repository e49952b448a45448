//! The lease was renewed: for a send, a lookup, or a wait.

use super::situation::Situation;
use super::{Errand, Goal, Step};
use crate::guard::Guard;
use crate::operation::record::resend::Ruling;

/// Goes on with what the lease was renewed for.
///
/// Waiting for the gates uses the vendor's window up too. And the renewal tells a server's time, by which a host learns
/// that it has slept: its own clocks may not. So a send is asked for once more. Another call may have been told meanwhile
/// to leave the vendor alone.
pub(super) fn renewed(situation: &Situation<'_>, is_paused: bool) -> Step {
    let progress = situation.progress;
    if let Some(planned) = progress.planned() {
        return Step::Wait(planned);
    }
    let goal = progress.goal();
    if situation.heeds_pause(is_paused) {
        return Step::Pursue(goal);
    }
    match goal {
        Goal::LookUp(_) => Step::LookUp,
        Goal::Send(Errand::Send)
            if Guard::AskedAgain.holds() && !matches!(situation.ruling(), Ruling::Send(_)) =>
        {
            Step::Pursue(goal)
        }
        _ => Step::Send,
    }
}

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
        Goal::Lookup(_) => Step::Lookup,
        Goal::Send(Errand::Send)
            if Guard::AskedAgain.holds() && !matches!(situation.ruling(), Ruling::Send(_)) =>
        {
            Step::Pursue(goal)
        }
        _ => Step::Send,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{NOW, Sample, at, check, ms, wait};
    use crate::decision::{Observed, Purpose, Search, Why};
    use crate::effect::Effect;

    #[test]
    fn what_the_lease_was_renewed_for_goes_on_if_it_still_may() {
        let renewed = |is_paused| Observed::Renewed { until: at(60_000), updated_at: NOW.wall, is_paused };
        let renews = |call: Sample, errand, wait| {
            let step = Step::Renew { needed: ms(20_000), spends_resend: false, wait };
            call.did(Step::Admit(errand)).did(step)
        };
        let planned = wait(at(40_000), Why::Retry, 500);
        let search = Goal::Lookup(Search::new(Purpose::BeforeSend));
        let resent = || Sample::held(|record| (record.effect, record.resends_left) = (Effect::Unknown, 1));
        let in_window = || renews(Sample::unknown().replayed(), Errand::Send, None);
        check([
            (renews(Sample::claimed(), Errand::Send, Some(planned)), renewed(true), Step::Wait(planned)),
            (renews(Sample::claimed(), Errand::Send, None), renewed(false), Step::Send),
            (renews(Sample::claimed(), Errand::Send, None), renewed(true), Step::SEND),
            (renews(resent(), Errand::SendAtRisk, None), renewed(false), Step::Send),
            (renews(resent(), Errand::Send, None), renewed(false), Step::SEND),
            (in_window(), renewed(false), Step::Send),
            (in_window().later(24 * 3_600_000), renewed(false), Step::SEND),
            (renews(Sample::unknown().wants(search), Errand::Lookup, None), renewed(false), Step::Lookup),
            (
                renews(Sample::unknown().wants(search), Errand::Lookup, None),
                renewed(true),
                Step::Pursue(search),
            ),
        ]);
    }
}

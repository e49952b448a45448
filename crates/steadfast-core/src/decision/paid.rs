//! The retry budget was asked, when the retry was decided on: retries that wait are load already.

use super::situation::Situation;
use super::{Goal, Step, Why};
use crate::error::Gate;

/// Goes on, or postpones by at least the wait that was decided on, and by up to the ladder's last step. A spent budget
/// fills slowly, and what comes back at the first step would only be refused and written down again.
pub(super) fn charged(situation: &Situation<'_>, is_paid: bool) -> Step {
    let Situation { context, progress, now, draw } = *situation;
    let planned = progress.planned();
    match (is_paid, planned) {
        (true, Some(planned)) if progress.goal() == Goal::Retry => situation.wait(planned),
        (true, _) => Step::Pursue(Goal::Resume),
        (false, planned) => {
            let last = context.backoff.steps.last().copied().unwrap_or_default();
            let least = planned.map_or_else(
                || situation.first_step(),
                |planned| planned.until.since(now.at).max(planned.rung),
            );
            let at = now.at.plus(least.max(last.mul_f64(draw)));
            situation.postpone_after(
                planned.map(|planned| planned.until.since(now.at)),
                at,
                Why::Gate(Gate::Budget),
            )
        }
    }
}

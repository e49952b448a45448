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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Observed;
    use crate::decision::sample::{Sample, TAKEN, at, check, ms, postponed, wait};

    #[test]
    fn what_is_paid_goes_on_and_what_is_not_is_due_later() {
        let paid = |is_paid| Observed::Charged { is_paid };
        let planned = wait(at(500), Why::Retry, 500);
        let retries = || Sample::claimed().wants(Goal::Retry).did(Step::Charge(planned));
        let takes = || {
            let call = Sample::unknown().seen(&Observed::Taken(TAKEN));
            call.did(Step::Charge(wait(at(0), Why::Retry, 500)))
        };
        let due = |after_ms, rung_ms| postponed(at(after_ms), Why::Gate(Gate::Budget), Some(ms(rung_ms)));
        check([
            (retries(), paid(true), Step::Wait(planned)),
            (retries(), paid(false), due(500, 500)),
            (retries().drawn(0.5), paid(false), due(1_000, 500)),
            (takes(), paid(true), Step::Pursue(Goal::Resume)),
            (takes(), paid(false), due(500, 0)),
            (takes().drawn(1.0), paid(false), due(2_000, 0)),
        ]);
    }
}

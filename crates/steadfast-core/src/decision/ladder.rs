//! After an attempt that another one may help.

use super::outage::{self, Outage};
use super::situation::Situation;
use super::{Planned, Step, Why};
use crate::error::{Reason, Step as Next};
use crate::guard::Guard;
use crate::transport::SendErrorKind;

/// Waits for the ladder's next rung, or ends the call. With the ladder spent, a lookup may still find the effect.
pub(super) fn retry(situation: &Situation<'_>) -> Step {
    let Situation { context, progress, now, draw } = *situation;
    let last = progress.last();
    // A request that cannot be built is built no better a second time.
    let is_hopeless =
        last.attempted.is_some_and(|attempted| attempted.failure == Some(SendErrorKind::Request));
    let step = progress.steps_taken().saturating_sub(1);
    let rung = context.backoff.wait(step, progress.rung(), draw).filter(|_| !is_hopeless);
    let Some(rung) = rung.max(last.outage.map(|outage| outage::wait(situation, outage))) else {
        return Step::give_up(progress, Reason::Exhausted);
    };
    let until = situation.not_early(now.at.plus(rung));
    let planned = Planned { until, why: Why::Retry, rung };
    // Behind an open circuit, who probes next is chosen among all that wait.
    let is_down = last.outage == Some(Outage::Down);
    if !context.retries_allowed || is_down || situation.is_over_the_cap() {
        return situation.postpone_after(Some(until.since(now.at)), until, Why::Retry);
    }
    if until >= context.deadline {
        let next = (now.at < context.deadline).then_some(Next::Attempt);
        return situation.postpone_after(Some(until.since(now.at)), until, Why::OutOfTime(next));
    }
    if Guard::RetryPays.keeps(!context.is_recovery) {
        return Step::Charge(planned);
    }
    situation.wait(planned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{Sample, at, check, dead_letter, lost, ms, postponed, put_off, wait};
    use crate::decision::{Attempted, Down, Goal, Observed, Purpose};

    fn after(call: Sample, attempts: &[Attempted]) -> Sample {
        let seen = |call: Sample, attempted: &Attempted| call.seen(&Observed::Attempted(*attempted));
        attempts.iter().fold(call, seen).wants(Goal::Retry)
    }

    #[test]
    fn the_next_rung_is_paid_for_or_left_to_the_schedule_or_the_call_ends() {
        let charge = |until_ms, rung_ms| Step::Charge(wait(at(until_ms), Why::Retry, rung_ms));
        let due = |after_ms, why| postponed(at(after_ms), why, Some(ms(after_ms)));
        let asks = |wait_ms| Attempted { asked_wait: Some(ms(wait_ms)), ..put_off() };
        let unbuilt = Attempted { failure: Some(SendErrorKind::Request), ..lost() };
        let down = Attempted { down: Some(Down::Account), ..lost() };
        let ends_at = |call: Sample, end_ms| call.with(|context| context.deadline = at(end_ms));
        let claimed = Sample::claimed;
        let rows = [
            (after(claimed(), &[put_off()]), charge(500, 500)),
            (after(claimed(), &[put_off(); 2]), charge(2_000, 2_000)),
            (after(claimed(), &[put_off(); 3]), dead_letter(Reason::Exhausted)),
            (after(claimed(), &[lost(); 3]), Step::lookup(Purpose::Settle(Reason::Exhausted))),
            (after(claimed(), &[unbuilt]), Step::lookup(Purpose::Settle(Reason::Exhausted))),
            (after(claimed(), &[asks(10_000)]), charge(10_000, 500)),
            (after(claimed(), &[asks(10_000)]).drawn(1.0), charge(11_000, 500)),
            (after(claimed(), &[asks(30_000)]), charge(30_000, 500)),
            (after(claimed(), &[asks(30_001)]), due(30_001, Why::Retry)),
            (
                after(claimed(), &[put_off()]).with(|context| context.retries_allowed = false),
                due(500, Why::Retry),
            ),
            (ends_at(after(claimed(), &[put_off()]), 500), due(500, Why::OutOfTime(Some(Next::Attempt)))),
            (ends_at(after(claimed(), &[put_off()]), 0), due(500, Why::OutOfTime(None))),
            (after(Sample::taken(), &[put_off()]), Step::Wait(wait(at(500), Why::Retry, 500))),
            (after(Sample::taken(), &[down]), due(500, Why::Retry)),
        ];
        check(rows.map(|(call, step)| (call, Observed::Pursued, step)));
    }
}

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

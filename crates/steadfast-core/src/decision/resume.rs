//! An operation that was taken from the store.

use super::situation::Situation;
use super::{Ending, LogFacts, Planned, Purpose, Reading, Step, Taken, Why};
use crate::effect::Effect;
use crate::error::Reason;
use crate::guard::Guard;

/// Ends or hands back what is not to be sent, and has a caller pay for what is.
///
/// The next send of a caller is charged as a retry, unless it is known to be the first. Recovery pays by its own rate.
pub(super) fn taken(situation: &Situation<'_>, taken: &Taken) -> Step {
    let Situation { context, progress, now, .. } = *situation;
    if taken.is_given_up {
        return Step::Write(Ending::DeadLetter(Reason::Credentials));
    }
    // Another client's secret would send it elsewhere.
    if Guard::OwnSecret.keeps(!taken.is_ours) {
        return situation.postpone(now.at, Why::NotOurs);
    }
    // Not even a lookup: a person has to say which of the two addresses is wrong.
    if !taken.is_addressed {
        return Step::Write(Ending::DeadLetter(Reason::Elsewhere));
    }
    let is_first = progress.attempts() == 0 && progress.effect() == Effect::None;
    if Guard::TakeoverPays.keeps(!is_first && !context.is_recovery) {
        let rung = situation.first_step();
        return Step::Charge(Planned { until: now.at, why: Why::Retry, rung });
    }
    Step::Pursue(super::Goal::Resume)
}

/// Looks up what no send can help, and sends the rest.
///
/// - Nothing but a lookup is left of the ladder, which was postponed for its settle time. Another send would begin that
///   time anew, again and again.
/// - The last attempt, of whichever run, ended with [`Verdict::Unknown`](crate::vendor::Verdict::Unknown). No further
///   send helps, although the vendor's window is open and one would do no harm. Stripe replays a 500 that it has stored
///   for as long as that. Only the operation's log knows. A log that cannot be read says no: the next send then tells.
pub(super) fn resume(situation: &Situation<'_>, log: Option<Option<&LogFacts>>) -> Step {
    let Situation { context, progress, .. } = *situation;
    if progress.effect() != Effect::Unknown || !progress.has_look_up() {
        return Step::SEND;
    }
    if progress.steps_taken() as usize > context.backoff.steps.len() {
        return Step::look_up(Purpose::Settle(Reason::Exhausted));
    }
    match log {
        None if progress.attempts() > 0 => Step::ReadLog(Reading::Resume),
        Some(Some(log)) if log.is_last_unknown => Step::look_up(Purpose::Settle(Reason::Unknown)),
        _ => Step::SEND,
    }
}

//! An operation that was taken from the store.

use super::situation::Situation;
use super::{CallEnd, LogFacts, LogQuestion, Planned, Purpose, Step, TakenOperation, Why};
use crate::effect::Effect;
use crate::error::Reason;
use crate::guard::Guard;

/// Ends or hands back what is not to be sent, and has a caller pay for what is.
///
/// The next send of a caller is charged as a retry, unless it is known to be the first. Recovery pays by its own rate.
pub(super) fn taken(situation: &Situation<'_>, taken: &TakenOperation) -> Step {
    let Situation { context, progress, now, .. } = *situation;
    if taken.is_given_up {
        return Step::Write(CallEnd::DeadLetter(Reason::Credentials));
    }
    // Another client's secret would send it elsewhere.
    if Guard::OwnSecret.keeps(!taken.is_ours) {
        return situation.postpone(now.at, Why::NotOurs);
    }
    // Not even a lookup: a person has to say which of the two addresses is wrong.
    if !taken.is_addressed {
        return Step::Write(CallEnd::DeadLetter(Reason::Elsewhere));
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
    if progress.effect() != Effect::Unknown || !progress.has_lookup() {
        return Step::SEND;
    }
    if progress.steps_taken() as usize > context.backoff.steps.len() {
        return Step::lookup(Purpose::Settle(Reason::Exhausted));
    }
    match log {
        None if progress.attempts() > 0 => Step::ReadLog(LogQuestion::Resume),
        Some(Some(log)) if log.is_last_unknown => Step::lookup(Purpose::Settle(Reason::Unknown)),
        _ => Step::SEND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{Sample, TAKEN, at, check, dead_letter, log, postponed, wait};
    use crate::decision::{Goal, Observed};

    #[test]
    fn what_was_taken_is_paid_for_or_handed_back_or_ends() {
        let charge = Step::Charge(wait(at(0), Why::Retry, 500));
        let taken = |call: Sample, taken, step| (call, Observed::Taken(taken), step);
        check([
            taken(Sample::taken(), TAKEN, Step::Pursue(Goal::Resume)),
            taken(Sample::unknown(), TAKEN, charge),
            taken(Sample::unknown().recovered(), TAKEN, Step::Pursue(Goal::Resume)),
            taken(Sample::held(|record| record.attempts = 1), TAKEN, charge),
            taken(Sample::held(|record| record.effect = Effect::Unknown), TAKEN, charge),
            taken(Sample::held(|_| {}), TAKEN, Step::Pursue(Goal::Resume)),
            taken(
                Sample::taken(),
                TakenOperation { is_given_up: true, ..TAKEN },
                dead_letter(Reason::Credentials),
            ),
            taken(
                Sample::taken(),
                TakenOperation { is_addressed: false, ..TAKEN },
                dead_letter(Reason::Elsewhere),
            ),
            taken(
                Sample::taken(),
                TakenOperation { is_ours: false, is_addressed: false, ..TAKEN },
                postponed(at(0), Why::NotOurs, None),
            ),
        ]);
    }

    #[test]
    fn what_no_send_can_help_is_looked_up_and_the_rest_is_sent() {
        let spent = |record: &mut crate::operation::record::Record| {
            (record.attempts, record.effect) = (3, Effect::Unknown);
        };
        let is_unknown = LogFacts { is_last_unknown: true, ..log() };
        let read = || Sample::unknown().looked_up().did(Step::ReadLog(LogQuestion::Resume));
        check([
            (Sample::taken().looked_up(), Observed::Pursued, Step::SEND),
            (Sample::unknown().wants(Goal::Resume), Observed::Pursued, Step::SEND),
            (Sample::unknown().looked_up(), Observed::Pursued, Step::ReadLog(LogQuestion::Resume)),
            (read(), Observed::Log(Some(log())), Step::SEND),
            (read(), Observed::Log(None), Step::SEND),
            (read(), Observed::Log(Some(is_unknown)), Step::lookup(Purpose::Settle(Reason::Unknown))),
            (
                Sample::held(spent).looked_up(),
                Observed::Pursued,
                Step::lookup(Purpose::Settle(Reason::Exhausted)),
            ),
        ]);
    }
}

//! Before a send: what allows it.

use super::situation::Situation;
use super::{CallEnd, Errand, Purpose, Step};
use crate::operation::record::resend::Ruling;

/// Asks the gates for a send that may be made, and for a lookup where it may not be made yet.
pub(super) fn clear(situation: &Situation<'_>) -> Step {
    match situation.ruling() {
        Ruling::Send(_) => Step::Admit(Errand::Send),
        Ruling::SendAtRisk => Step::Admit(Errand::SendAtRisk),
        Ruling::LookupFirst => Step::lookup(Purpose::BeforeSend),
        Ruling::Stop(reason) => Step::Write(CallEnd::DeadLetter(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Observed;
    use crate::decision::sample::{Sample, check, dead_letter, ms};
    use crate::effect::Effect;
    use crate::error::Reason;
    use crate::operation::record::resend::Repeat;

    #[test]
    fn what_may_be_sent_asks_the_gates_and_what_may_not_is_looked_up_or_ends() {
        let resent =
            |left| Sample::held(|record| (record.effect, record.resends_left) = (Effect::Unknown, left));
        let asked = |lookups| {
            let call = Sample::held(|record| (record.effect, record.lookups) = (Effect::Unknown, lookups));
            call.looked_up()
        };
        let lookup = Step::lookup(Purpose::BeforeSend);
        // The vendor's day, less five minutes and the longest attempt.
        let window = ms((24 * 3_600 - 320) * 1_000);
        let rows = [
            (Sample::plain(), Step::Admit(Errand::Send)),
            (Sample::claimed(), Step::Admit(Errand::Send)),
            (resent(0), dead_letter(Reason::Unknown)),
            (resent(1), Step::Admit(Errand::SendAtRisk)),
            (resent(0).with(|context| context.repeat = Repeat::Idempotent), Step::Admit(Errand::Send)),
            (asked(0), lookup),
            (asked(1), lookup),
            (asked(2), dead_letter(Reason::Unknown)),
            (asked(0).with(|context| context.lookups_max = 0), dead_letter(Reason::Unknown)),
            (asked(0).replayed(), Step::Admit(Errand::Send)),
            (Sample::unknown_for(window - ms(1)).replayed(), Step::Admit(Errand::Send)),
            (Sample::unknown_for(window).replayed(), dead_letter(Reason::Expired)),
        ];
        check(rows.map(|(call, step)| {
            (call.wants(super::super::Goal::Send(Errand::Send)), Observed::Pursued, step)
        }));
    }
}

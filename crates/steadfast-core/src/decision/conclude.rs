//! The end of a search.

use super::situation::Situation;
use super::{CallEnd, Concluded, Errand, Purpose, Step, Success};
use crate::error::Reason;
use crate::operation::record::resend::{Lookup, Ruling};

/// Ends the call by what a lookup found, or sends what it proved absent.
///
/// Where no further send can help, and no attempt had an effect, a definite no to the last one is the outcome after all.
pub(super) fn conclude(situation: &Situation<'_>, purpose: Purpose, concluded: Concluded) -> Step {
    let dead_letter = |reason| Step::Write(CallEnd::DeadLetter(reason));
    match (purpose, concluded) {
        (_, Concluded::Found) => Step::Write(CallEnd::Success(Success::Reconciled)),
        (Purpose::BeforeSend, Concluded::Absent) => Step::SEND,
        (Purpose::BeforeSend, Concluded::CannotTell) => match situation.ruling_after(Lookup::CannotTell) {
            Ruling::Send(_) => Step::Admit(Errand::Send),
            Ruling::SendAtRisk => Step::Admit(Errand::SendAtRisk),
            Ruling::Stop(reason) => dead_letter(reason),
            // There was one, and it cannot tell.
            Ruling::LookupFirst => dead_letter(Reason::Unknown),
        },
        (Purpose::Settle(_), Concluded::Absent) => match situation.progress.last().refusal {
            Some(refusal) => Step::Write(CallEnd::Refused(refusal)),
            None => dead_letter(Reason::Exhausted),
        },
        (Purpose::Settle(reason), Concluded::CannotTell) => dead_letter(reason),
        (Purpose::Duplicate, Concluded::Absent | Concluded::CannotTell) => dead_letter(Reason::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{Sample, check, dead_letter, refused};
    use crate::decision::{Goal, Observed};
    use crate::effect::Effect;
    use crate::error::Refusal;
    use crate::operation::record::resend::Repeat;

    #[test]
    fn what_was_found_is_the_outcome_and_what_is_absent_is_sent_or_ends() {
        use Concluded::{Absent, CannotTell, Found};
        use Purpose::{BeforeSend, Duplicate, Settle};

        let success = Step::Write(CallEnd::Success(Success::Reconciled));
        let settles = Settle(Reason::Exhausted);
        let no = || Sample::unknown().seen(&Observed::Attempted(refused(Refusal::Rejected)));
        let resent = || Sample::held(|record| (record.effect, record.resends_left) = (Effect::Unknown, 1));
        let repeats = |context: &mut super::super::Context<'_>| context.repeat = Repeat::Idempotent;
        let rows = [
            (Sample::unknown(), BeforeSend, Found, success),
            (Sample::unknown(), settles, Found, success),
            (Sample::unknown(), Duplicate, Found, success),
            (Sample::unknown(), BeforeSend, Absent, Step::SEND),
            (Sample::unknown(), BeforeSend, CannotTell, dead_letter(Reason::Unknown)),
            (resent(), BeforeSend, CannotTell, Step::Admit(Errand::SendAtRisk)),
            (Sample::unknown().with(repeats), BeforeSend, CannotTell, Step::Admit(Errand::Send)),
            (Sample::unknown(), settles, Absent, dead_letter(Reason::Exhausted)),
            (no(), settles, Absent, Step::Write(CallEnd::Refused(Refusal::Rejected))),
            (no(), Settle(Reason::Expired), CannotTell, dead_letter(Reason::Expired)),
            (Sample::unknown(), Duplicate, Absent, dead_letter(Reason::Unknown)),
            (resent(), Duplicate, CannotTell, dead_letter(Reason::Unknown)),
        ];
        check(rows.map(|(call, purpose, concluded, step)| {
            (call.wants(Goal::Conclude { purpose, concluded }), Observed::Pursued, step)
        }));
    }
}

//! After an attempt.

use super::situation::Situation;
use super::{
    AttemptOutcome, Attempted, CallEnd, Goal, LogFacts, LogQuestion, Phase, Purpose, Step, Success, Why,
    meets_refusal,
};
use crate::error::{Reason, Refusal, Step as Next};
use crate::guard::Guard;
use crate::operation::record::resend::{self, Ruling};
use crate::vendor::SpeaksFor;

/// Ends the call by an answer that is its outcome, and finds the way on from any other.
///
/// `log` is `None` until the operation's log was read.
pub(super) fn attempted(
    situation: &Situation<'_>,
    attempted: &Attempted,
    log: Option<Option<&LogFacts>>,
) -> Step {
    if meets_refusal(situation.context, &attempted.verdict, attempted.status) {
        let refused_as = situation.refused_as(log);
        return refused_as.map_or(Step::ReadLog(LogQuestion::Attempt), Step::NoteCredentials);
    }
    match attempted.outcome() {
        AttemptOutcome::Done { replayed } => {
            Step::Write(CallEnd::Success(if replayed { Success::Replayed } else { Success::Fresh }))
        }
        AttemptOutcome::Refused { refusal: Refusal::Duplicate, speaks_for } => {
            match Guard::OwnDuplicate.keeps(may_be_own(situation, speaks_for, log)) {
                None => Step::Write(CallEnd::Refused(Refusal::Duplicate)),
                Some(Own::Perhaps) => Step::lookup(Purpose::Duplicate),
                Some(Own::ByLog) => Step::ReadLog(LogQuestion::Attempt),
            }
        }
        AttemptOutcome::Refused { refusal, speaks_for } if situation.is_settled_by(speaks_for) => {
            Step::Write(CallEnd::Refused(refusal))
        }
        AttemptOutcome::Refused { refusal, .. } => refused_but_unknown(situation, refusal),
        AttemptOutcome::Retry { .. } if situation.progress.last().is_open => {
            Step::ReadLog(LogQuestion::Attempt)
        }
        AttemptOutcome::Retry { .. } => may_be_retried(situation),
        AttemptOutcome::Unknown => Step::lookup(Purpose::Settle(Reason::Unknown)),
    }
}

/// A definite no to the last attempt alone: an earlier one may have taken effect all the same.
///
/// While the vendor replays, the next attempt may be answered with the earlier one's outcome. Not so where the key
/// belongs to another request: that will not change. Else, and once the ladder is spent, a lookup decides.
fn refused_but_unknown(situation: &Situation<'_>, refusal: Refusal) -> Step {
    let is_replayed = matches!(situation.ruling(), Ruling::Send(resend::Why::WindowOpen { .. }));
    if is_replayed && refusal != Refusal::KeyReused {
        return Step::Pursue(Goal::Retry);
    }
    Step::lookup(Purpose::Settle(Reason::Unknown))
}

fn may_be_retried(situation: &Situation<'_>) -> Step {
    let (context, now) = (situation.context, situation.now.at);
    let lookup_at = situation.settled_at().max(situation.progress.left_alone_until().unwrap_or_default());
    match situation.ruling() {
        Ruling::Stop(reason) => Step::Write(CallEnd::DeadLetter(reason)),
        // No wait of this call's reaches the lookup: recovery makes it.
        Ruling::LookupFirst if lookup_at >= context.deadline => {
            let next = (now < context.deadline).then_some(Next::Lookup);
            situation.postpone(lookup_at, Why::OutOfTime(next))
        }
        _ => Step::Pursue(Goal::Retry),
    }
}

enum Own {
    Perhaps,
    ByLog,
}

/// Whether a duplicate may be what an earlier send of this operation made.
///
/// A lookup's miss, and a person's word, are on record as no effect. The process that takes the operation over then knows
/// from its log alone that a send before was in doubt. A log that cannot be read excludes nothing.
fn may_be_own(
    situation: &Situation<'_>,
    speaks_for: SpeaksFor,
    log: Option<Option<&LogFacts>>,
) -> Option<Own> {
    if situation.progress.phase() == Phase::ProvenAbsent || !situation.is_settled_by(speaks_for) {
        return Some(Own::Perhaps);
    }
    if situation.context.recorded.is_none_or(|recorded| recorded.is_first_hold) {
        return None;
    }
    match log {
        None => Some(Own::ByLog),
        Some(log) => log.is_none_or(|log| log.was_in_doubt).then_some(Own::Perhaps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{
        Sample, answered, at, check, dead_letter, log, lost, postponed, put_off, refused,
    };
    use crate::decision::{Concluded, Observed, RefusedAs};
    use crate::effect::Effect;
    use crate::policy::gates::Outcome as Health;
    use crate::vendor::Verdict;

    const RETRY: Step = Step::Pursue(Goal::Retry);

    fn settle(reason: Reason) -> Step {
        Step::lookup(Purpose::Settle(reason))
    }

    #[test]
    fn an_answer_is_the_outcome_where_nothing_is_in_doubt() {
        let success = |how| Step::Write(CallEnd::Success(how));
        let no = |refusal| Step::Write(CallEnd::Refused(refusal));
        let done = |replayed| answered(200, Verdict::Done { replayed });
        let both = Verdict::Refused { refusal: Refusal::Rejected, speaks_for: SpeaksFor::EarlierToo };
        let looked = Attempted { has_lookup: true, ..lost() };
        let unsaid = Attempted { status: None, ..done(false) };
        let unbelieved = Attempted { status: None, ..refused(Refusal::Rejected) };
        let ends_at = |call: Sample, end_ms| call.with(|context| context.deadline = at(end_ms));
        let later = postponed(at(35_000), Why::OutOfTime(Some(Next::Lookup)), None);
        let (claimed, unknown) = (Sample::claimed, Sample::unknown);
        let rows = [
            (claimed(), done(false), success(Success::Fresh)),
            (unknown(), done(true), success(Success::Replayed)),
            (claimed(), unsaid, settle(Reason::Unknown)),
            (claimed(), refused(Refusal::Rejected), no(Refusal::Rejected)),
            (claimed(), unbelieved, settle(Reason::Unknown)),
            (unknown(), answered(422, both), no(Refusal::Rejected)),
            (unknown(), refused(Refusal::Rejected), settle(Reason::Unknown)),
            (unknown().replayed(), refused(Refusal::Rejected), RETRY),
            (unknown().replayed(), refused(Refusal::KeyReused), settle(Reason::Unknown)),
            (claimed(), answered(500, Verdict::Unknown), settle(Reason::Unknown)),
            (claimed(), put_off(), RETRY),
            (claimed(), lost(), dead_letter(Reason::Unknown)),
            (claimed().replayed(), lost(), RETRY),
            (claimed(), looked, RETRY),
            (ends_at(claimed(), 35_001), looked, RETRY),
            (ends_at(claimed(), 35_000), looked, later),
        ];
        check(rows.map(|(call, attempted, step)| (call, Observed::Attempted(attempted), step)));
    }

    #[test]
    fn what_a_duplicate_a_quiet_failure_or_a_401_means_the_log_may_have_to_say() {
        let duplicate = refused(Refusal::Duplicate);
        let unauthorized = answered(401, refused(Refusal::Unauthorized).verdict);
        let quiet = Attempted { health: Health::Failure, answered_at: Some(at(0)), ..put_off() };
        let proven = || {
            let absent = Goal::Conclude { purpose: Purpose::BeforeSend, concluded: Concluded::Absent };
            Sample::unknown().wants(absent)
        };
        let second = || Sample::held(|record| (record.fence, record.attempts) = (2, 1));
        let read = |attempted| {
            let call = second().seen(&Observed::Attempted(attempted));
            call.did(Step::ReadLog(LogQuestion::Attempt))
        };
        let in_doubt = LogFacts { was_in_doubt: true, ..log() };
        let theirs = Step::Write(CallEnd::Refused(Refusal::Duplicate));
        let perhaps_own = Step::lookup(Purpose::Duplicate);
        let ask = Step::ReadLog(LogQuestion::Attempt);
        let accounts = Step::NoteCredentials(RefusedAs::Account);
        check([
            (Sample::claimed(), Observed::Attempted(duplicate), theirs),
            (proven(), Observed::Attempted(duplicate), perhaps_own),
            (Sample::unknown(), Observed::Attempted(duplicate), perhaps_own),
            (second(), Observed::Attempted(duplicate), ask),
            (read(duplicate), Observed::Log(Some(log())), theirs),
            (read(duplicate), Observed::Log(Some(in_doubt)), perhaps_own),
            (read(duplicate), Observed::Log(None), perhaps_own),
            (Sample::taken(), Observed::Attempted(quiet), ask),
            (Sample::claimed(), Observed::Attempted(quiet), RETRY),
            (
                Sample::claimed(),
                Observed::Attempted(unauthorized),
                Step::Write(CallEnd::Refused(Refusal::Unauthorized)),
            ),
            (Sample::taken(), Observed::Attempted(unauthorized), accounts),
            (second(), Observed::Attempted(unauthorized), ask),
            (read(unauthorized), Observed::Log(None), accounts),
            (
                second(),
                Observed::Attempted(answered(403, unauthorized.verdict)),
                Step::Write(CallEnd::Refused(Refusal::Unauthorized)),
            ),
        ]);
        assert_eq!(duplicate.outcome().effect(), Effect::None);
    }
}

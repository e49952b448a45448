//! The call's end is on record.
//!
//! From that write on another process may take the operation and send it: because it is due, because its key is free
//! again, or because a person redrives it. A process that stood still since then knows nothing of that, so that its word
//! *none* is as old as the write. It looks at the record again. Both clocks count: where the machine slept, its own
//! monotonic clock stood still.

use std::time::Duration;

use super::situation::Situation;
use super::{CallEnd, CallerAnswer, Step};
use crate::clock::Instant;
use crate::effect::Effect;
use crate::error::Refusal;
use crate::guard::Guard;

/// Tells the caller, or reads the record again after a write that took long.
pub(super) fn written(situation: &Situation<'_>, began: Instant) -> Step {
    let Situation { context, progress, .. } = *situation;
    let is_let_go = match progress.ending() {
        Some(CallEnd::Refused(refusal)) => refusal == Refusal::Unauthorized,
        Some(CallEnd::DeadLetter(_) | CallEnd::Postponed(_)) => true,
        Some(CallEnd::Success(_)) | None => false,
    };
    let is_old = !is_recent(situation, began) && progress.effect() == Effect::None;
    if is_let_go && is_old && context.is_operation() {
        return Step::Reread;
    }
    Step::Tell(CallerAnswer::End(progress.effect()))
}

/// Tells the caller no effect only if the record is as it was written, a moment ago.
pub(super) fn reread(situation: &Situation<'_>, is_unchanged: bool, asked: Instant) -> Step {
    let is_known = is_unchanged && is_recent(situation, asked);
    Step::Tell(CallerAnswer::End(if is_known { situation.progress.effect() } else { Effect::Unknown }))
}

fn is_recent(situation: &Situation<'_>, since: Instant) -> bool {
    let Situation { progress, now, .. } = *situation;
    let by_wall = progress.stored_at().map_or(Duration::ZERO, |stored_at| now.wall.since(stored_at));
    Guard::FreedLongAgo.is_out() || now.at.since(since).max(by_wall) <= STORE_GRACE
}

/// The time that a look at the record, or the write of an outcome, may take where the call has no time left. A store in a file
/// answers within a millisecond, and one that is locked or far away within this.
pub const STORE_GRACE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{Sample, at, check, dead_letter, postponed};
    use crate::decision::{Observed, Success, Why};
    use crate::error::Reason;

    #[test]
    fn no_effect_is_told_as_long_as_it_is_known() {
        use Effect::{None, Unknown};

        let tell = |effect| Step::Tell(CallerAnswer::End(effect));
        let wrote = |call: Sample, step, slow_ms| call.did(step).later(slow_ms);
        let (dead, due) = (dead_letter(Reason::Exhausted), postponed(at(0), Why::Retry, Option::None));
        let success = Step::Write(CallEnd::Success(Success::Fresh));
        let no = |refusal| Step::Write(CallEnd::Refused(refusal));
        let (fast, slow) = (250, 251);
        let rows = [
            (wrote(Sample::claimed(), dead, fast), tell(None)),
            (wrote(Sample::claimed(), dead, slow), Step::Reread),
            (wrote(Sample::claimed(), due, fast), tell(None)),
            (wrote(Sample::claimed(), due, slow), Step::Reread),
            (wrote(Sample::claimed(), due, 0).slept(fast), tell(None)),
            (wrote(Sample::claimed(), due, 0).slept(slow), Step::Reread),
            (wrote(Sample::unknown(), due, slow), tell(Unknown)),
            (wrote(Sample::claimed(), no(Refusal::Unauthorized), slow), Step::Reread),
            (wrote(Sample::claimed(), no(Refusal::Rejected), slow), tell(None)),
            (wrote(Sample::unknown(), no(Refusal::Rejected), slow), tell(None)),
            (wrote(Sample::claimed(), success, slow), tell(None)),
            (wrote(Sample::plain(), due, slow), tell(None)),
        ];
        check(rows.map(|(call, step)| (call, Observed::Written { began: at(0) }, step)));
        let reread = |is_unchanged| Observed::Reread { is_unchanged, asked: at(0) };
        check([
            (Sample::claimed().did(dead).later(fast), reread(true), tell(None)),
            (Sample::claimed().did(dead).later(fast), reread(false), tell(Unknown)),
            (Sample::claimed().did(dead).later(slow), reread(true), tell(Unknown)),
            (Sample::claimed().did(dead).did(Step::Reread).slept(slow), reread(true), tell(Unknown)),
            (Sample::claimed().did(dead).slept(slow).did(Step::Reread), reread(true), tell(None)),
        ]);
    }
}

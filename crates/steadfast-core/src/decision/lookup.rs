//! Before a lookup.
//!
//! A lookup is believed only after the vendor's settle time, counted from the end of the last attempt that may have taken
//! effect. An index lags, and a request that timed out here may still be executing there. It goes through the same gates
//! as every call.

use super::situation::{Situation, grown};
use super::{Concluded, Errand, Goal, Planned, Search, Step, Why};
use crate::error::Step as Next;

/// Waits for the settle time and for the vendor's own wait, or leaves the lookup to the schedule.
pub(super) fn plan(situation: &Situation<'_>, search: Search) -> Step {
    let Situation { context, progress, now, .. } = *situation;
    let is_over = progress.phase().lookups() >= context.lookups_max;
    let undecided = Goal::Conclude { purpose: search.purpose, concluded: Concluded::CannotTell };
    if !progress.has_lookup() || is_over {
        return Step::Pursue(undecided);
    }
    let mut at = search.at.unwrap_or_else(|| situation.settled_at());
    if !situation.asked().is_zero() {
        at = situation.not_early(at);
    }
    if at >= context.deadline || situation.is_over_the_cap() || situation.is_too_long_to_sleep(at) {
        if situation.is_past_keeping() {
            return Step::Pursue(undecided);
        }
        return postponed(situation, search, at);
    }
    if at > now.at {
        return situation.wait(Planned { until: at, why: Why::Lookup, rung: std::time::Duration::ZERO });
    }
    Step::Admit(Errand::Lookup)
}

/// Leaves the lookup to the schedule. Where it has failed for all of a call's time, it is made the later the longer the
/// effect has been unknown. A lookup that a vendor refuses for good is then not made every few seconds.
fn postponed(situation: &Situation<'_>, search: Search, at: crate::clock::Instant) -> Step {
    let Situation { context, progress, now, .. } = *situation;
    let much_later = now.at.plus(grown(progress.unknown_for(now.at)));
    let at = if search.failures > 0 { at.max(much_later) } else { at };
    if at >= context.deadline {
        let next = (now.at < context.deadline).then_some(Next::Lookup);
        return situation.postpone(at, Why::OutOfTime(next));
    }
    // The vendor asked for more than a call waits out.
    situation.postpone(at, Why::Retry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{Sample, answered, at, check, lost, ms, postponed, wait};
    use crate::decision::{Attempted, Observed, Purpose};
    use crate::effect::Effect;

    #[test]
    fn a_lookup_waits_for_the_settle_time_as_long_as_the_call_has_time() {
        let new = Search::new(Purpose::BeforeSend);
        let (now, soon) = (Search { at: Some(at(0)), ..new }, Search { at: Some(at(3_000)), ..new });
        let failed = Search { failures: 1, ..now };
        let cannot_tell =
            Step::Pursue(Goal::Conclude { purpose: Purpose::BeforeSend, concluded: Concluded::CannotTell });
        let unknown = || Sample::unknown().looked_up();
        let asked = |lookups| {
            Sample::held(|record| (record.effect, record.lookups) = (Effect::Unknown, lookups)).looked_up()
        };
        let hours = |hours: u64| Sample::unknown_for(ms(hours * 3_600_000)).looked_up();
        // Another process's send ends with the longest attempt, after 20 s at most; 30 s is the settle time.
        let settled = wait(at(50_000), Why::Lookup, 0);
        let renewal = Step::Renew { needed: ms(70_000), spends_resend: false, wait: Some(settled) };
        let due = |after_ms, why| postponed(at(after_ms), why, None);
        let no_time = Why::OutOfTime(Some(Next::Lookup));
        let failed_there = Attempted { has_lookup: true, ..answered(500, lost().verdict) };
        let sent = |call: Sample, attempts: &[Attempted]| {
            let seen = |call: Sample, attempted: &Attempted| call.seen(&Observed::Attempted(*attempted));
            attempts.iter().fold(call, seen).recovered().wants(Goal::Lookup(new))
        };
        let over = |call: Sample| call.with(|context| context.deadline = at(0));
        let rows = [
            (Sample::unknown().wants(Goal::Lookup(now)), cannot_tell),
            (asked(1).wants(Goal::Lookup(now)), Step::Admit(Errand::Lookup)),
            (asked(2).wants(Goal::Lookup(now)), cannot_tell),
            (unknown().wants(Goal::Lookup(new)), renewal),
            (unknown().recovered().wants(Goal::Lookup(new)), due(50_000, Why::Retry)),
            (hours(1).wants(Goal::Lookup(new)), Step::Admit(Errand::Lookup)),
            // What was queued is on its way for longer than what is answered after it, also where another process sent it.
            (sent(Sample::claimed(), &[lost(), failed_there]), due(35_000, Why::Retry)),
            (sent(Sample::claimed(), &[failed_there]), due(30_000, Why::Retry)),
            (sent(Sample::unknown(), &[failed_there]), due(50_000, Why::Retry)),
            (unknown().wants(Goal::Lookup(soon)), Step::Wait(wait(at(3_000), Why::Lookup, 0))),
            (over(unknown()).wants(Goal::Lookup(now)), due(0, Why::OutOfTime(None))),
            (
                unknown().with(|context| context.deadline = at(3_000)).wants(Goal::Lookup(soon)),
                due(3_000, no_time),
            ),
            // Unknown for five hours: a lookup that failed comes again after half an hour.
            (over(hours(5)).wants(Goal::Lookup(failed)), due(1_800_000, Why::OutOfTime(None))),
            (over(hours(72)).wants(Goal::Lookup(now)), cannot_tell),
            (over(hours(71)).wants(Goal::Lookup(now)), due(0, Why::OutOfTime(None))),
        ];
        check(rows.map(|(call, step)| (call, Observed::Pursued, step)));
    }
}

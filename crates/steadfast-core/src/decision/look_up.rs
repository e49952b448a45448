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
    let is_over = progress.phase().look_ups() >= context.look_ups_max;
    let undecided = Goal::Conclude { purpose: search.purpose, concluded: Concluded::CannotTell };
    if !progress.has_look_up() || is_over {
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
        return situation.wait(Planned { until: at, why: Why::LookUp, rung: std::time::Duration::ZERO });
    }
    Step::Admit(Errand::LookUp)
}

/// Leaves the lookup to the schedule. Where it has failed for all of a call's time, it is made the later the longer the
/// effect has been unknown. A lookup that a vendor refuses for good is then not made every few seconds.
fn postponed(situation: &Situation<'_>, search: Search, at: crate::clock::Instant) -> Step {
    let Situation { context, progress, now, .. } = *situation;
    let much_later = now.at.plus(grown(progress.unknown_for(now.at)));
    let at = if search.failures > 0 { at.max(much_later) } else { at };
    if at >= context.deadline {
        let next = (now.at < context.deadline).then_some(Next::LookUp);
        return situation.postpone(at, Why::OutOfTime(next));
    }
    // The vendor asked for more than a call waits out.
    situation.postpone(at, Why::Retry)
}

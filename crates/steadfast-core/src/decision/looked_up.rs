//! After a page of a lookup.
//!
//! A lookup that failed is not a lookup. It is tried again on the ladder, and once the call's time is over by recovery.
//! Those that were answered are counted, over all runs.

use std::time::Duration;

use super::situation::Situation;
use super::{Concluded, Errand, Goal, LogFacts, LookedUp, Purpose, Reading, Search, Step};

/// Asks for the next page, asks again later, or ends the search.
pub(super) fn looked_up(
    situation: &Situation<'_>,
    goal: Goal,
    looked: LookedUp,
    log: Option<Option<&LogFacts>>,
) -> Step {
    let Situation { context, progress, now, .. } = *situation;
    // No driver looks up without a search. A new one asks at the end of the settle time.
    let search = match goal {
        Goal::LookUp(search) => search,
        _ => Search::new(Purpose::BeforeSend),
    };
    let conclude = |concluded| Step::Pursue(Goal::Conclude { purpose: search.purpose, concluded });
    match looked {
        LookedUp::Found => conclude(Concluded::Found),
        LookedUp::Absent if context.asks_log_for_miss() && log.is_none() => Step::ReadLog(Reading::Miss),
        LookedUp::Absent => conclude(Concluded::Absent),
        LookedUp::More => Step::Admit(Errand::LookUp),
        LookedUp::Failed { meets_refusal: true, .. } if progress.refused_as().is_none() => {
            let refused_as = situation.refused_as(log);
            refused_as.map_or(Step::ReadLog(Reading::LookUp), Step::NoteCredentials)
        }
        LookedUp::Failed { down, .. } if !looked.is_answered() => {
            // Recovery does not wait out an open circuit, so that its time would never be over: it would be postponed for
            // ever.
            if context.is_recovery && down.is_some() && situation.is_past_keeping() {
                return conclude(Concluded::CannotTell);
            }
            Step::Pursue(Goal::LookUp(failed(situation, search)))
        }
        LookedUp::CannotTell | LookedUp::Failed { .. } => {
            let gap = context.settle_time.max(LOOK_UP_GAP_MIN);
            Step::Pursue(Goal::LookUp(Search { at: Some(now.at.plus(gap)), ..Search::new(search.purpose) }))
        }
    }
}

/// The search after a failure: at the next step of the ladder; from its end on at its last one, but not before
/// [`LADDER_SPENT_GAP`].
fn failed(situation: &Situation<'_>, search: Search) -> Search {
    let Situation { context, now, draw, .. } = *situation;
    let steps = context.backoff.steps.len();
    let last = u32::try_from(steps.saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = context.backoff.wait(search.failures.min(last), search.wait, draw).unwrap_or_default();
    let is_spent = steps <= search.failures as usize;
    let floor = if is_spent { LADDER_SPENT_GAP.mul_f64(f64::midpoint(1.0, draw)) } else { LOOK_UP_GAP_MIN };
    let at = Some(now.at.plus(wait.max(floor)));
    Search { at, failures: search.failures.saturating_add(1), wait, ..search }
}

/// A bound on pages, should an adapter never stop asking for the next.
pub const PAGES_MAX: u32 = 50;

/// Between two lookups where the vendor needs no settle time, and where the ladder's wait is drawn as none.
const LOOK_UP_GAP_MIN: Duration = Duration::from_secs(1);

/// The wait between two lookups that failed, once as many did as the ladder has steps: half of it to all of it. So a
/// policy with a short ladder, or none, does not ask a vendor that is down every second. It is the shipped ladder's
/// last step.
const LADDER_SPENT_GAP: Duration = Duration::from_secs(30);

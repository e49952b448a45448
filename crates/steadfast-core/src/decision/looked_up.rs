//! After a page of a lookup.
//!
//! A lookup that failed is not a lookup. It is tried again on the ladder, and once the call's time is over by recovery.
//! Those that were answered are counted, over all runs.

use std::time::Duration;

use super::situation::Situation;
use super::{Concluded, Errand, Goal, LogFacts, LogQuestion, LookedUp, Purpose, Search, Step};

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
        Goal::Lookup(search) => search,
        _ => Search::new(Purpose::BeforeSend),
    };
    let conclude = |concluded| Step::Pursue(Goal::Conclude { purpose: search.purpose, concluded });
    match looked {
        LookedUp::Found => conclude(Concluded::Found),
        LookedUp::Absent if context.asks_log_for_miss() && log.is_none() => Step::ReadLog(LogQuestion::Miss),
        LookedUp::Absent => conclude(Concluded::Absent),
        LookedUp::More => Step::Admit(Errand::Lookup),
        LookedUp::Failed { meets_refusal: true, .. } if progress.refused_as().is_none() => {
            let refused_as = situation.refused_as(log);
            refused_as.map_or(Step::ReadLog(LogQuestion::Lookup), Step::NoteCredentials)
        }
        LookedUp::Failed { down, .. } if !looked.is_answered() => {
            // Recovery does not wait out an open circuit, so that its time would never be over: it would be postponed for
            // ever.
            if context.is_recovery && down.is_some() && situation.is_past_keeping() {
                return conclude(Concluded::CannotTell);
            }
            Step::Pursue(Goal::Lookup(failed(situation, search)))
        }
        LookedUp::CannotTell | LookedUp::Failed { .. } => {
            let gap = context.settle_time.max(LOOKUP_GAP_MIN);
            Step::Pursue(Goal::Lookup(Search { at: Some(now.at.plus(gap)), ..Search::new(search.purpose) }))
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
    let floor = if is_spent { LADDER_SPENT_GAP.mul_f64(f64::midpoint(1.0, draw)) } else { LOOKUP_GAP_MIN };
    let at = Some(now.at.plus(wait.max(floor)));
    Search { at, failures: search.failures.saturating_add(1), wait, ..search }
}

/// A bound on pages, should an adapter never stop asking for the next.
pub const PAGES_MAX: u32 = 50;

/// Between two lookups where the vendor needs no settle time, and where the ladder's wait is drawn as none.
const LOOKUP_GAP_MIN: Duration = Duration::from_secs(1);

/// The wait between two lookups that failed, once as many did as the ladder has steps: half of it to all of it. So a
/// policy with a short ladder, or none, does not ask a vendor that is down every second. It is the shipped ladder's
/// last step.
const LADDER_SPENT_GAP: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{NOW, Sample, at, check, log, ms};
    use crate::decision::{Down, Observed, RefusedAs};

    #[test]
    fn an_answer_ends_the_search_and_a_failure_is_asked_again() {
        let new = Search::new(Purpose::BeforeSend);
        let conclude = |concluded| Step::Pursue(Goal::Conclude { purpose: Purpose::BeforeSend, concluded });
        let again = |after_ms, failures, wait_ms| {
            let search = Search { at: Some(at(after_ms)), failures, wait: ms(wait_ms), ..new };
            Step::Pursue(Goal::Lookup(search))
        };
        let failed = |meets_refusal, down| LookedUp::Failed { meets_refusal, down };
        let unknown = || Sample::unknown().wants(Goal::Lookup(new));
        let after = |failures| Sample::unknown().wants(Goal::Lookup(Search { failures, ..new }));
        let days = |days: u64| Sample::unknown_for(ms(days * 24 * 3_600_000)).wants(Goal::Lookup(new));
        let rows = [
            (unknown(), LookedUp::Found, conclude(Concluded::Found)),
            (unknown(), LookedUp::Absent, conclude(Concluded::Absent)),
            (unknown(), LookedUp::More, Step::Admit(Errand::Lookup)),
            (unknown(), LookedUp::CannotTell, again(30_000, 0, 0)),
            (
                unknown().with(|context| context.settle_time = Duration::ZERO),
                LookedUp::CannotTell,
                again(1_000, 0, 0),
            ),
            (unknown(), failed(false, None), again(1_000, 1, 500)),
            (after(1), failed(false, None), again(2_000, 2, 2_000)),
            (after(2), failed(false, None), again(15_000, 3, 2_000)),
            (after(2).drawn(1.0), failed(false, None), again(30_000, 3, 2_000)),
            (unknown(), failed(true, None), Step::ReadLog(LogQuestion::Lookup)),
            (
                Sample::taken().wants(Goal::Lookup(new)),
                failed(true, None),
                Step::NoteCredentials(RefusedAs::Account),
            ),
            (days(3).recovered(), failed(false, Some(Down::Account)), conclude(Concluded::CannotTell)),
            (days(3), failed(false, Some(Down::Account)), again(1_000, 1, 500)),
            (days(2).recovered(), failed(false, Some(Down::Account)), again(1_000, 1, 500)),
        ];
        let missed = Observed::LookedUp { looked: LookedUp::Absent, asked_wait: None, ended: at(0) };
        let partial = |call: Sample| call.with(|context| context.lists_deleted = false);
        let read = || partial(unknown()).seen(&missed).did(Step::ReadLog(LogQuestion::Miss));
        let doubted =
            |ago_ms| Observed::Log(Some(LogFacts { first_doubt: NOW.wall.minus(ms(ago_ms)), ..log() }));
        check([
            (partial(unknown()), missed.clone(), Step::ReadLog(LogQuestion::Miss)),
            (read(), doubted(3_600_000), conclude(Concluded::Absent)),
            (read(), doubted(3_600_001), again(30_000, 0, 0)),
            (read(), Observed::Log(None), again(30_000, 0, 0)),
        ]);
        check(rows.map(|(call, looked, step)| {
            (call, Observed::LookedUp { looked, asked_wait: None, ended: at(0) }, step)
        }));
    }
}

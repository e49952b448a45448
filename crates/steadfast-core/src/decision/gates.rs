//! A gate refused.

use std::time::Duration;

use super::situation::Situation;
use super::waits::{spread, spread_over};
use super::{Planned, Step, Why};
use crate::clock::Instant;
use crate::error::Gate;

/// Waits for the gate as long as the call has time.
pub(super) fn held_back(situation: &Situation<'_>, gate: Gate, retry_at: Option<Instant>) -> Step {
    let Situation { context, now, draw, .. } = *situation;
    let known = ask_again_at(gate, retry_at, now.at, draw);
    let until = known.unwrap_or_else(|| now.at.plus(situation.first_step()));
    if until >= context.deadline {
        return situation.postpone(until, Why::Gate(gate));
    }
    situation.wait(Planned { until, why: Why::Gate(gate), rung: Duration::ZERO })
}

/// When to ask the gates again, a little later than they said; `None` if only a person can tell.
pub fn ask_again_at(gate: Gate, retry_at: Option<Instant>, now: Instant, draw: f64) -> Option<Instant> {
    let at = match gate {
        // Nothing says when a call ends; they end often.
        Gate::Concurrency => now.plus(CONCURRENCY_PAUSE),
        _ => retry_at?,
    };
    let jitter = if gate == Gate::Pause { spread_over(at.since(now), draw) } else { spread(draw) };
    Some(at.plus(jitter))
}

/// Between two looks at a full concurrency limit, before the spread: short beside a vendor's latency, long beside what a
/// look costs.
const CONCURRENCY_PAUSE: Duration = Duration::from_millis(5);

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Observed;
    use crate::decision::sample::{Sample, at, check, ms, postponed, wait};

    #[test]
    fn a_gate_that_may_open_in_time_is_waited_for() {
        let held = |gate, after_ms: Option<u64>| Observed::HeldBack { gate, retry_at: after_ms.map(at) };
        let waits = |until_ms, gate| Step::Wait(wait(at(until_ms), Why::Gate(gate), 0));
        let planned = wait(at(40_000), Why::Gate(Gate::Breaker), 0);
        let (breaker, pause) = (Gate::Breaker, Gate::Pause);
        check([
            (Sample::claimed(), held(breaker, Some(2_000)), waits(2_000, breaker)),
            (Sample::claimed().drawn(1.0), held(breaker, Some(2_000)), waits(2_050, breaker)),
            (Sample::claimed().drawn(1.0), held(pause, Some(10_000)), waits(11_000, pause)),
            (Sample::claimed(), held(Gate::Concurrency, None), waits(5, Gate::Concurrency)),
            (Sample::claimed(), held(Gate::KillSwitch, None), waits(500, Gate::KillSwitch)),
            (Sample::claimed(), held(breaker, Some(60_000)), postponed(at(60_000), Why::Gate(breaker), None)),
            (Sample::plain(), held(breaker, Some(59_999)), waits(59_999, breaker)),
            (
                Sample::claimed(),
                held(breaker, Some(40_000)),
                Step::Renew { needed: ms(60_000), spends_resend: false, wait: Some(planned) },
            ),
            (Sample::taken(), held(breaker, Some(5_000)), waits(5_000, breaker)),
            (Sample::taken(), held(breaker, Some(5_001)), postponed(at(5_001), Why::Retry, None)),
        ]);
    }
}

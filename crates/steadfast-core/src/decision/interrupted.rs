//! The process stops.

use super::situation::Situation;
use super::{Planned, Step, Why};
use crate::clock::Instant;

/// Lets go of the operation. Where only this process's own gates held it up, another one may take it at once, or when
/// the pause is over that the vendor asked for. A longer wait stays as it was.
pub(super) fn stopping(situation: &Situation<'_>, paused_until: Option<Instant>) -> Step {
    let at = match situation.progress.planned() {
        Some(Planned { until, why: Why::Retry | Why::Lookup, .. }) => until,
        _ => paused_until.unwrap_or(situation.now.at),
    };
    situation.postpone(at, Why::Retry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Observed;
    use crate::decision::sample::{Sample, at, check, postponed, wait};
    use crate::error::Gate;

    #[test]
    fn a_wait_of_the_operations_own_stays_and_one_for_a_gate_ends() {
        let waits = |why| Sample::taken().did(Step::Wait(wait(at(3_000), why, 0)));
        let stops = |paused_ms: Option<u64>| Observed::Stopping { paused_until: paused_ms.map(at) };
        let due = |after_ms| postponed(at(after_ms), Why::Retry, None);
        check([
            (Sample::taken(), stops(None), due(0)),
            (Sample::taken(), stops(Some(9_000)), due(9_000)),
            (waits(Why::Retry), stops(Some(9_000)), due(3_000)),
            (waits(Why::Lookup), stops(None), due(3_000)),
            (waits(Why::Gate(Gate::Rate)), stops(None), due(0)),
            (waits(Why::Gate(Gate::Pause)), stops(Some(9_000)), due(9_000)),
        ]);
    }
}

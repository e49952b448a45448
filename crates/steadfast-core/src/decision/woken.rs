//! A wait is over.

use super::situation::Situation;
use super::{Errand, Goal, Step, Why};

/// Asks the gates for what was waited for. After the ladder's wait it is first asked what allows the send: the wait has
/// used the vendor's window up.
pub(super) fn woken(situation: &Situation<'_>) -> Step {
    let progress = situation.progress;
    match (progress.goal(), progress.planned().map(|planned| planned.why)) {
        (Goal::Lookup(_), _) => Step::Admit(Errand::Lookup),
        (Goal::Send(errand), Some(Why::Gate(_))) => Step::Admit(errand),
        _ => Step::SEND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{Sample, at, check, wait};
    use crate::decision::{Observed, Purpose, Search};
    use crate::error::Gate;

    #[test]
    fn what_was_waited_for_asks_the_gates() {
        let waits = |call: Sample, why| call.did(Step::Wait(wait(at(0), why, 0)));
        let search = Goal::Lookup(Search::new(Purpose::BeforeSend));
        let gate = Why::Gate(Gate::Rate);
        let at_risk = || Sample::unknown().did(Step::Admit(Errand::SendAtRisk));
        check([
            (waits(Sample::claimed(), gate), Observed::Woken, Step::Admit(Errand::Send)),
            (waits(at_risk(), gate), Observed::Woken, Step::Admit(Errand::SendAtRisk)),
            (waits(at_risk(), Why::Retry), Observed::Woken, Step::SEND),
            (waits(Sample::claimed().wants(Goal::Retry), Why::Retry), Observed::Woken, Step::SEND),
            (
                waits(Sample::unknown().wants(search), Why::Lookup),
                Observed::Woken,
                Step::Admit(Errand::Lookup),
            ),
            (waits(Sample::unknown().wants(search), gate), Observed::Woken, Step::Admit(Errand::Lookup)),
        ]);
    }
}

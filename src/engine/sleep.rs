//! The step that waits.

use steadfast_core::internal::decision::{Observed, Planned, Why};

use super::leaving::Shutdown;
use super::run::Run;
use crate::telemetry;

/// Waits until the time that is planned, unless the process stops.
pub(super) async fn wait(run: &mut Run<'_>, planned: Planned) -> Observed {
    note(run, planned);
    let clock = &run.engine.clock;
    let stopping = |run: &Run<'_>| Observed::Stopping {
        paused_until: run.engine.gates.pause().until(run.engine.clock.now()),
    };
    if run.is_leaving() {
        return stopping(run);
    }
    let wait = planned.until.since(clock.now());
    match planned.why {
        Why::Retry => {
            let met = (run.in_hand.answer.as_ref(), run.in_hand.failure.as_ref());
            telemetry::waiting(run.whose(), run.progress.attempts(), wait, met);
        }
        Why::Gate(gate) => telemetry::held_back(run.whose(), gate, wait),
        Why::Lookup | Why::OutOfTime(_) | Why::NotOurs => {}
    }
    let slept = clock.sleep_until(planned.until);
    let Some(leaving) = run.leaving().cloned() else {
        slept.await;
        return Observed::Woken;
    };
    tokio::select! {
        biased;
        () = Shutdown::said(leaving) => stopping(run),
        () = slept => Observed::Woken,
    }
}

/// Leaves the ladder's wait on the call's log.
pub(super) fn note(run: &mut Run<'_>, planned: Planned) {
    if planned.why == Why::Retry {
        run.log.note_wait(planned.until.since(run.engine.clock.now()));
    }
}

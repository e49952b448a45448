//! The driver: carries out the steps of a call.
//!
//! It decides nothing. [`next_step`] names the step, the step's own file carries it out, and what came of it goes back.

use steadfast_core::Error;
#[cfg(feature = "testkit")]
use steadfast_core::internal::decision::tape;
use steadfast_core::internal::decision::{Observed, Step, next_step};
use steadfast_core::internal::policy::Admission;

use super::run::Run;
use super::{admit, attempt, conclude, lookup, record_log, renew, settle, sleep};
use crate::reply::Reply;

/// Drives a call to its end that the gates let through.
pub(super) fn drive_admitted<'r, 'a>(
    run: &'r mut Run<'a>,
    admission: Admission<'a>,
) -> impl Future<Output = Result<Reply, Error>> + use<'r, 'a> {
    let first = Observed::Claimed { admitted_at: admission.admitted_at(), is_paused: run.is_paused() };
    run.in_hand.admission = Some(admission);
    drive(run, first)
}

/// Drives a call to its end.
///
/// Dropping the future gives back what it holds of the gates. An operation stays in progress on record until its lease
/// runs out, and is then recovered.
pub(super) async fn drive(run: &mut Run<'_>, first: Observed) -> Result<Reply, Error> {
    #[cfg(feature = "testkit")]
    {
        run.tape = tape::begin(&run.context, &run.progress);
    }
    let mut step = advance(run, &first);
    loop {
        let observed = match step {
            // A first send and its write are the way of nearly every call. All other steps are boxed.
            Step::Send => attempt::send(run).await,
            Step::Write(_) => settle::write(run).await,
            Step::Tell(told) => return conclude::tell(run, told).await,
            Step::Pursue(_) => {
                run.in_hand.admission = None;
                lookup::leave_line(run);
                Observed::Pursued
            }
            step => Box::pin(carry_out(run, step)).await,
        };
        step = advance(run, &observed);
    }
}

/// The step after what was observed.
fn advance(run: &mut Run<'_>, observed: &Observed) -> Step {
    let now = run.now();
    run.progress.observe(&run.context, observed, now);
    let is_drawn = observed.takes_draw(&run.progress, now.at);
    let draw = if is_drawn { run.engine.random.unit() } else { 0.0 };
    let step = next_step(&run.context, &run.progress, observed, now, draw);
    #[cfg(feature = "testkit")]
    if let Some(tape) = run.tape {
        tape::note(tape, observed, now, draw, step);
    }
    run.progress.follow(&step, now);
    step
}

async fn carry_out(run: &mut Run<'_>, step: Step) -> Observed {
    match step {
        Step::ReadLog(_) => record_log::read(run).await,
        Step::Charge(planned) => admit::charge(run, planned),
        Step::Admit(errand) => admit::ask(run, errand),
        Step::Renew { needed, spends_resend, wait } => renew::renew(run, needed, spends_resend, wait).await,
        Step::Wait(planned) => sleep::wait(run, planned).await,
        Step::Lookup => lookup::ask(run).await,
        Step::NoteCredentials(refused_as) => admit::note_credentials(run, refused_as),
        Step::Reread => record_log::reread(run).await,
        Step::Pursue(_) | Step::Send | Step::Write(_) | Step::Tell(_) => Observed::Pursued,
    }
}

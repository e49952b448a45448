//! The step that renews the lease.

use std::time::Duration;

use steadfast_core::internal::decision::{Evidence, Observed, Planned};

use super::run::Run;
use super::sleep;

/// Renews the lease for a send, a lookup or a wait.
pub(super) async fn renew(
    run: &mut Run<'_>,
    needed: Duration,
    spends_resend: bool,
    wait: Option<Planned>,
) -> Observed {
    if let Some(planned) = wait {
        sleep::note(run, planned);
    }
    let evidence = Evidence::of(&run.context, &run.progress, spends_resend, run.now());
    let deadline = run.context.deadline;
    let (Some(hold), Some(lease)) = (&mut run.hold, run.progress.lease()) else { return Observed::Failed };
    let lines = run.log.unwritten().to_vec();
    match hold.renew_in_time(lease, needed, evidence, lines, deadline).await {
        Ok(until) => {
            let updated_at = hold.record.updated_at;
            run.log.mark_written();
            Observed::Renewed { until, updated_at, is_paused: run.is_paused() }
        }
        Err(error) => {
            // Its lines may be on record all the same. Twice is better than never.
            run.in_hand.error = Some(run.in_context(error));
            Observed::Failed
        }
    }
}

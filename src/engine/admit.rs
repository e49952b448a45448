//! The steps that ask this client's own gates.

use steadfast_core::Gate;
use steadfast_core::clock::Instant;
use steadfast_core::internal::decision::{Errand, Observed, Planned, RefusedAs};
use steadfast_core::internal::policy::{Admission, Refusal};
use steadfast_core::operation::RouteName;
use steadfast_core::transport::Request;

use super::run::Run;
use crate::telemetry;

/// Charges the retry budget.
pub(super) fn charge(run: &mut Run<'_>, planned: Planned) -> Observed {
    let now = run.engine.clock.now();
    run.log.note_wait(planned.until.since(now));
    let is_paid = run.engine.gates.budget().is_none_or(|budget| budget.spend(now));
    Observed::Charged { is_paid }
}

/// Asks the gates for a send or a lookup.
pub(super) fn ask(run: &mut Run<'_>, errand: Errand) -> Observed {
    run.in_hand.admission = None;
    let now = run.engine.clock.now();
    if run.is_leaving() {
        return Observed::Stopping { paused_until: run.engine.gates.pause().until(now) };
    }
    let question = match errand {
        Errand::Lookup => run.in_hand.question.take().or_else(|| run.first_question().map(Box::new)),
        Errand::Send | Errand::SendAtRisk => None,
    };
    let admitted = admit(run, question.as_deref().unwrap_or(run.request), now);
    run.in_hand.question = question;
    match admitted {
        Ok(admission) => {
            run.in_hand.admission = Some(admission);
            run.in_hand.turn = None;
            Observed::Admitted { is_paused: run.is_paused() }
        }
        Err(Refusal { gate, retry_at }) => {
            if run.context.is_recovery && gate == Gate::Rate && run.in_hand.turn.is_none() {
                run.in_hand.turn = run.engine.gates.wait_for_turn(now);
            }
            Observed::HeldBack { gate, retry_at }
        }
    }
}

/// Asks as a caller, or as recovery, which pays for every send after the first: that was paid for when the operation was
/// taken.
fn admit<'a>(run: &Run<'a>, request: &Request, now: Instant) -> Result<Admission<'a>, Refusal> {
    let (engine, gates) = (run.engine, &run.engine.gates);
    let route = engine.route_if_asked(request);
    if !run.context.is_recovery {
        return gates.admit_to(route.as_deref(), now);
    }
    let held = run.hold.as_ref().filter(|_| gates.credentials().any());
    let account = held.map(|hold| hold.record.id.scope.account_path());
    if let Some(path) = account {
        let refused = |at| Refusal { gate: Gate::Credentials, retry_at: Some(at) };
        gates.credentials().check(path, now).map_err(refused)?;
    }
    let admission = gates.admit_recovered_to(route.as_deref(), now)?;
    if let Some(path) = account {
        gates.credentials().probes(path, now, run.context.attempt_max);
    }
    if run.progress.admitted() > 0 {
        gates.recovery().pay(1, now);
    }
    Ok(admission)
}

/// Tells the gate of the account's credentials whose a refusal is.
pub(super) fn note_credentials(run: &mut Run<'_>, refused_as: RefusedAs) -> Observed {
    let (engine, credentials) = (run.engine, run.engine.gates.credentials());
    let (Some(hold), Some((begun, ended))) = (&run.hold, run.in_hand.exchanged) else {
        return Observed::CredentialsNoted;
    };
    let scope = &hold.record.id.scope;
    let (path, route) = (scope.account_path(), RouteName::of(scope.route()));
    if refused_as != RefusedAs::Account {
        credentials.undecided(path, ended);
    } else if credentials.refused((path, route), begun, ended) {
        telemetry::credentials::held(engine.vendor.name(), path);
    }
    Observed::CredentialsNoted
}

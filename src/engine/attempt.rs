//! The step that sends.

use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::attempt::report;
use steadfast_core::internal::decision::{
    AttemptOutcome, Attempted, Down, Now, Observed, UNAUTHORIZED, meets_refusal,
};
use steadfast_core::internal::error::Chain;
use steadfast_core::internal::ext::{SendErrorExt, VerdictExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::operation::Window;
use steadfast_core::internal::policy::{Admission, Outcome as Health, Sign};
use steadfast_core::policy::{BreakerState, Mode};
use steadfast_core::transport::{Answer, Request, SendError};
use steadfast_core::vendor::{Attempt, Verdict, wait};
use steadfast_core::{Effect, Refusal};

use super::exchange::{Bounds, Exchanged};
use super::run::Run;
use crate::telemetry;

/// Sends once, and accounts for it.
///
/// Dropping the future releases the admission without counting it.
pub(super) async fn send(run: &mut Run<'_>) -> Observed {
    let engine = run.engine;
    let Some(mut admission) = run.in_hand.admission.take() else { return Observed::Failed };
    let admitted = admission.admitted_at();
    admission.begin(engine.clock.now());
    let begun = admission.admitted_at();
    let (bounds, mut aside) = (bounds(run, &admission), run.aside.take());
    let body = aside.as_mut().map(|aside| &mut aside.body);
    let exchanged = engine.exchange(run.request, bounds, admitted, begun, body).await;
    run.aside = aside;
    let ended = exchanged.ended;
    let health = exchanged.health();
    let kept = match run.aside.as_deref_mut() {
        Some(aside) => aside.keep(admission, ended),
        None => Some(admission),
    };
    if let Some(admission) = kept {
        account(run, admission, run.request, &exchanged);
    }
    run.in_hand.exchanged = Some((begun, ended));
    let mut outcome = exchanged.outcome;
    if let Err(failure) = &mut outcome {
        failure.note_host(&run.request.url);
    }
    if run.hold.is_some() && outcome.is_ok() {
        engine.latency.note(ended.since(begun));
    }
    let verdict = judge(run, &outcome, ended);
    let attempted = Attempted {
        began: begun,
        ended,
        verdict,
        status: outcome.as_ref().ok().map(|answer| answer.status.as_u16()),
        failure: outcome.as_ref().err().map(SendError::kind),
        asked_wait: asked_wait(run, &verdict, &outcome, ended),
        has_lookup: !matches!(verdict, Verdict::Done { .. }) && run.first_question().is_some(),
        health,
        down: (health == Health::Failure).then(|| down(run, ended)).flatten(),
        answered_at: run
            .context
            .is_recovery
            .then(|| engine.gates.breaker())
            .flatten()
            .filter(|breaker| breaker.mode() == Mode::Normal)
            .map(|breaker| breaker.answered_at()),
    };
    if !meets_refusal(&run.context, &verdict, attempted.status) {
        note_accepted(run, &verdict, ended);
    }
    let number = run.progress.attempts().saturating_add(1);
    let latency = ended.since(begun);
    telemetry::attempted((run.whose(), &engine.meters), number, &outcome, &verdict, latency);
    leave_line(run, number, attempted.outcome(), &verdict, &outcome, latency);
    if let Some(aside) = run.aside.as_deref_mut()
        && !matches!(attempted.outcome(), AttemptOutcome::Done { .. })
    {
        aside.drop_body();
    }
    (run.in_hand.answer, run.in_hand.failure) = match outcome {
        Ok(answer) => (Some(answer), None),
        Err(failure) => (None, Some(failure)),
    };
    Observed::Attempted(attempted)
}

/// Asks the adapter for its word, and learns the vendor's clock by the answer.
fn judge(run: &Run<'_>, outcome: &Result<Answer, SendError>, ended: Instant) -> Verdict {
    let (engine, progress) = (run.engine, &run.progress);
    let is_keyed = run.hold.is_some();
    let now = Now { wall: engine.wall(), at: ended };
    let is_first = progress.attempts() == 0 && progress.effect() == Effect::None;
    let attempt = Attempt::new(run.request, is_keyed, outcome.as_ref(), now.wall)
        .after(progress.effect())
        .in_window(matches!(progress.window(&run.context, now), Window::Open { .. }));
    let verdict = engine.vendor.classify(&attempt).believed();
    // What is replayed may carry the date of its first answer.
    let is_fresh = is_keyed && is_first && matches!(verdict, Verdict::Done { replayed: false });
    if let Ok(answer) = outcome
        && (is_fresh || Guard::FirstAnswersDate.is_out())
    {
        engine.vendor_clock.learn(answer, now.wall, ended);
    }
    verdict
}

/// The limits of an exchange of this call.
pub(super) fn bounds(run: &Run<'_>, admission: &Admission<'_>) -> Bounds {
    let lease = Guard::StopAt.keeps(run.progress.lease());
    let deadline = run.context.deadline;
    Bounds {
        attempt: run.context.attempt_max,
        until: lease.map_or(deadline, |lease| lease.stop_at().min(deadline)),
        pass_deadline_on: run.pass_deadline_on,
        retries_allowed: run.context.retries_allowed,
        is_held: run.hold.is_some(),
        new_connection: run.progress.is_unanswered(),
        is_probe: admission.is_probe(),
    }
}

/// The wait that an answer asks for. It holds all callers back, up to the policy's cap. It counts beside any error, also
/// one that ends its own call, and from a lookup as from an attempt.
pub(super) fn asked_wait(
    run: &Run<'_>,
    verdict: &Verdict,
    outcome: &Result<Answer, SendError>,
    ended: Instant,
) -> Option<Duration> {
    let engine = run.engine;
    let asked = match (verdict, outcome) {
        (Verdict::Retry { not_before, .. }, _) => *not_before,
        // What ends a call has no room for a wait, so that the standard's is read here. A redirect's speaks of the
        // redirect alone (RFC 9110, section 10.2.3).
        (Verdict::Refused { .. } | Verdict::Unknown, Ok(answer)) if !answer.status.is_redirection() => {
            wait::asked(answer.status, &answer.headers, engine.wall()).map(wait::believed)
        }
        _ => None,
    };
    if let Some(asked) = asked {
        engine.gates.pause().hold_until(ended, asked);
    }
    asked
}

/// Tells the gates how an exchange went, and which request it was.
#[inline]
pub(super) fn account(run: &mut Run<'_>, admission: Admission<'_>, request: &Request, exchanged: &Exchanged) {
    let (health, ended) = (exchanged.health(), exchanged.ended);
    let says_something = if admission.asks_for_route(health, ended) {
        let call = (health == Health::Failure).then(|| run.number());
        admission.settle_to(&run.engine.route_of(request), call, health, ended)
    } else {
        admission.settle(health, ended);
        true
    };
    // What one route or one operation fails at is no reason to send less to others.
    if run.context.is_recovery
        && let Some(sign) = exchanged.sign().filter(|sign| says_something || *sign != Sign::Failed)
    {
        run.engine.gates.recovery().heed(sign, ended);
    }
}

/// Tells the gate of the account's credentials of an answer that did not refuse them.
pub(super) fn note_accepted(run: &Run<'_>, verdict: &Verdict, ended: Instant) {
    let (engine, credentials) = (run.engine, run.engine.gates.credentials());
    if !credentials.any() {
        return;
    }
    let of_call;
    let scope = match &run.hold {
        Some(hold) => &hold.record.id.scope,
        None => {
            of_call = engine.scope_of(run.request);
            &of_call
        }
    };
    let path = scope.account_path();
    match verdict {
        Verdict::Done { .. } if credentials.answered(path, ended).is_some() => {
            telemetry::credentials::released(engine.vendor.name(), path);
        }
        Verdict::Done { .. } => {}
        _ if run.context.is_recovery => credentials.undecided(path, ended),
        _ => {}
    }
}

/// Whose circuit is not closed, for recovery.
pub(super) fn down(run: &Run<'_>, now: Instant) -> Option<Down> {
    let gates = &run.engine.gates;
    let is_open = gates.breaker().filter(|_| run.context.is_recovery).is_some_and(|breaker| {
        breaker.mode() != Mode::ForcedClosed && breaker.state(now) != BreakerState::Closed
    });
    if is_open {
        return Some(Down::Account);
    }
    let circuits = gates.circuits().filter(|circuits| run.context.is_recovery && circuits.any())?;
    circuits.is_open(&run.engine.route_of(run.request)).then_some(Down::Route)
}

/// Leaves a line on the call's log. A success of a call without a key leaves none: it has no log.
fn leave_line(
    run: &mut Run<'_>,
    number: u32,
    judged: AttemptOutcome,
    verdict: &Verdict,
    outcome: &Result<Answer, SendError>,
    latency: Duration,
) {
    if run.hold.is_none() && matches!(judged, AttemptOutcome::Done { .. }) {
        return;
    }
    let name = match (judged, verdict) {
        (AttemptOutcome::Unknown, _) => Verdict::Unknown.name(),
        (_, Verdict::Refused { refusal: Refusal::Unauthorized, .. }) => UNAUTHORIZED,
        _ => verdict.name(),
    };
    let mut line = report(number, run.engine.wall().minus(latency), name, judged.effect());
    line.latency = latency;
    line.status = outcome.as_ref().ok().map(|answer| answer.status.as_u16());
    line.failure_kind = outcome.as_ref().err().map(SendError::kind);
    line.failure = outcome.as_ref().err().map(|failure| Chain(failure).to_string());
    run.log.push(line);
}

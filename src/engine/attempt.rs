//! One attempt: authorise, send, judge, account.

use std::time::Duration;

use http::StatusCode;

use steadfast_core::clock::Instant;
use steadfast_core::internal::attempt::report;
use steadfast_core::internal::error::Chain;
use steadfast_core::internal::ext::{SendErrorExt, VerdictExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::operation::Window;
use steadfast_core::internal::policy::Admission;
use steadfast_core::transport::{Answer, SendError};
use steadfast_core::vendor::{Attempt, SpeaksFor, Verdict};
use steadfast_core::{Effect, Error, Refusal};

use super::credentials::{RefusedAs, name_in_log};
use super::exchange::{Bounds, Exchanged};
use super::phase::{Last, Run};
use crate::telemetry;

/// An attempt's verdict, with the answer that a final one must have.
pub(super) enum Judged {
    Done { answer: Answer, replayed: bool },
    Refused { answer: Answer, refusal: Refusal, speaks_for: SpeaksFor },
    Retry,
    Unknown,
}

/// What the hold on an operation needs before a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// Nothing: the claim was made a moment ago, or the operation was taken a moment ago, and nothing came between.
    Claimed,
    /// A renewal.
    ///
    /// The lease that we measure may be over for all other processes: the wall clock was set, or the machine slept,
    /// while our own clock knows nothing of it. Another process may then have taken the operation, looked it up and sent
    /// it, or found that it never took effect and ended it so. Neither the method nor the vendor's key helps
    /// against the second: what we sent then would be the only effect, of an operation that failed without one.
    /// So every send but the one right behind the claim or the take asks the store again, by a renewal under our fence.
    /// It costs a write where a wait came before anyway.
    ToRenew,
}

impl<'a> Run<'a> {
    /// Makes sure of the hold for one attempt, and says when the attempt begins: a claim, or a renewed lease, comes
    /// between that and its admission.
    pub(super) async fn hold_for(&mut self, lease: Lease, admitted: Instant) -> Result<Instant, Error> {
        if self.hold.is_none() {
            return Ok(admitted);
        }
        match lease {
            Lease::ToRenew if Guard::RenewBeforeSend.holds() => {
                self.renew_lease(self.timeout.attempt).await?;
                Ok(self.engine.clock.now())
            }
            _ => self.keep_lease(self.timeout.attempt).await,
        }
    }

    /// Sends once and judges what came of it. What is left to know is in `self.last`.
    ///
    /// Dropping the future releases the admission without counting it; a keyed operation stays in progress on
    /// record until its lease runs out.
    pub(super) async fn attempt(&mut self, mut admission: Admission<'a>, begins: Instant) -> Judged {
        let engine = self.engine;
        let admitted = admission.admitted_at();
        admission.begin(begins);
        let begun = admission.admitted_at();
        let (bounds, mut aside) = (self.bounds(&admission), self.aside.take());
        let body = aside.as_mut().map(|aside| &mut aside.body);
        let exchanged = engine.exchange(self.request, bounds, admitted, begun, body).await;
        self.aside = aside;
        if let Some(admission) = self.keep(admission, exchanged.ended) {
            self.account(admission, self.request, &exchanged);
        }
        self.unanswered = exchanged.is_unanswered();
        let outage = self.outage_of(&exchanged).await;
        let Exchanged { mut outcome, ended, .. } = exchanged;
        if let Err(failure) = &mut outcome {
            failure.note_host(&self.request.url);
        }
        self.attempts = self.attempts.saturating_add(1);
        if self.hold.is_some() && outcome.is_ok() {
            engine.latency.note(ended.since(begun));
        }

        let is_first = self.attempts == 1 && self.phase.effect() == Effect::None;
        let keyed = self.hold.is_some();
        let judged_at = engine.wall();
        let attempt = Attempt::new(self.request, keyed, outcome.as_ref(), judged_at)
            .after(self.phase.effect())
            .in_window(matches!(self.window_at(|| (judged_at, ended)), Window::Open { .. }));
        let verdict = engine.vendor.classify(&attempt).believed();
        self.heed(&verdict, &outcome, ended);
        self.heed_credentials(&verdict, &outcome, (begun, ended)).await;
        // What is replayed may carry the date of its first answer.
        let is_fresh = keyed && is_first && matches!(verdict, Verdict::Done { replayed: false });
        if let Ok(answer) = &outcome
            && (is_fresh || Guard::FirstAnswersDate.is_out())
        {
            engine.vendor_clock.learn(answer, judged_at, ended);
        }
        let labels = (self.whose(), &engine.meters);
        telemetry::attempted(labels, self.attempts, &outcome, &verdict, ended.since(begun));
        let judged = self.judge(verdict, outcome, begun, ended);
        if !matches!(judged, Judged::Done { .. }) {
            self.drop_aside();
        }
        let is_spared = match judged {
            _ if self.refused_as.is_some_and(RefusedAs::goes_on) => true,
            Judged::Retry => outage.is_some(),
            Judged::Done { .. } | Judged::Refused { .. } | Judged::Unknown => false,
        };
        if is_spared {
            self.spared = self.spared.saturating_add(1);
            self.last.outage = outage;
        }
        judged
    }

    /// What an exchange of this call may take.
    pub(super) fn bounds(&self, admission: &Admission<'_>) -> Bounds {
        let until = self
            .hold
            .as_ref()
            .filter(|_| Guard::StopAt.holds())
            .map_or(self.deadline, |hold| hold.stop_at().min(self.deadline));
        let (pass_deadline_on, retries_allowed) = (self.pass_deadline_on, self.retries_allowed);
        Bounds {
            attempt: self.timeout.attempt,
            until,
            pass_deadline_on,
            retries_allowed,
            is_held: self.hold.is_some(),
            new_connection: self.unanswered,
            is_probe: admission.is_probe(),
        }
    }

    fn judge(
        &mut self,
        verdict: Verdict,
        outcome: Result<Answer, SendError>,
        begun: Instant,
        ended: Instant,
    ) -> Judged {
        let queued = if outcome.is_ok() { Duration::ZERO } else { self.engine.queue_max(&self.request.url) };
        let (outcome, judged) = match (verdict, outcome) {
            (Verdict::Done { replayed }, Ok(answer)) => {
                if self.hold.is_some() {
                    // For the operation's log; an unkeyed call has none.
                    self.report(Ok(answer.status), verdict, Effect::Applied, begun, ended);
                }
                return Judged::Done { answer, replayed };
            }
            (Verdict::Refused { refusal, speaks_for }, Ok(answer)) => {
                self.report(Ok(answer.status), verdict, Effect::None, begun, ended);
                return Judged::Refused { answer, refusal, speaks_for };
            }
            (Verdict::Retry { effect, .. }, outcome) => {
                self.note(effect, queued);
                self.report(met(&outcome), verdict, effect, begun, ended);
                (outcome, Judged::Retry)
            }
            // An adapter that calls a lost answer a yes or a no is not believed.
            (Verdict::Done { .. } | Verdict::Refused { .. } | Verdict::Unknown, outcome) => {
                self.note(Effect::Unknown, queued);
                self.report(met(&outcome), Verdict::Unknown, Effect::Unknown, begun, ended);
                (outcome, Judged::Unknown)
            }
        };
        self.last = match outcome {
            Ok(answer) => Last { answer: Some(answer), ..Last::default() },
            Err(failure) => Last { failure: Some(failure), ..Last::default() },
        };
        judged
    }

    fn report(
        &mut self,
        met: Result<StatusCode, &SendError>,
        verdict: Verdict,
        effect: Effect,
        begun: Instant,
        ended: Instant,
    ) {
        let latency = ended.since(begun);
        // Most calls have one attempt, and `push` alone makes room for four.
        self.reports.reserve_exact(1);
        let started_at = self.engine.wall().minus(latency);
        let mut report = report(self.attempts, started_at, name_in_log(&verdict), effect);
        report.latency = latency;
        report.status = met.ok().map(|status| status.as_u16());
        report.failure_kind = met.err().map(SendError::kind);
        report.failure = met.err().map(|failure| Chain(failure).to_string());
        self.reports.push(report);
    }
}

fn met(outcome: &Result<Answer, SendError>) -> Result<StatusCode, &SendError> {
    outcome.as_ref().map(|answer| answer.status)
}

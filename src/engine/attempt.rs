//! One attempt: authorise, send, judge, account.

use std::time::Duration;

use http::{HeaderValue, StatusCode};

use super::limit;
use super::run::{Last, Run};
use crate::answer::Answer;
use crate::attempt::AttemptReport;
use crate::clock::Instant;
use crate::error::{Chain, Effect, Error, Refusal};
use crate::inbound;
use crate::policy::{Admission, Outcome};
use crate::request::Request;
use crate::telemetry;
use crate::transport::{Limits, Progress, SendError};
use crate::vendor::{Attempt, Verdict};

/// An attempt's verdict, with the answer that a final one must have.
pub(super) enum Judged {
    Done { answer: Answer, replayed: bool },
    Refused { answer: Answer, refusal: Refusal },
    Retry { not_before: Option<Duration> },
    Unknown,
}

impl<'a> Run<'a> {
    /// Sends once and judges what came of it. What is left to know is in `self.last`.
    ///
    /// Dropping the future releases the admission without counting it; a keyed operation stays in progress on
    /// record until its lease runs out.
    pub(super) async fn attempt(&mut self, mut admission: Admission<'a>) -> Result<Judged, Error> {
        let engine = self.engine;
        if self.hold.is_some() {
            // The claim, or a renewed lease, came between.
            self.hold_on_to_send().await?;
            admission.begin(engine.clock.now());
        }
        let begun = admission.admitted_at();
        let (outcome, ended) = self.exchange(self.request.clone(), begun).await;
        let outcome = outcome.map_err(|failure| failure.on_the_way_to(&self.request.url));
        self.attempts = self.attempts.saturating_add(1);

        let keyed = self.hold.is_some();
        let judged_at = engine.clock.wall();
        let attempt = Attempt::new(self.request, keyed, outcome.as_ref(), judged_at).after(self.effect);
        let verdict = engine.vendor.classify(&attempt);
        admission.settle(liveness(&outcome), ended);
        if let Verdict::Retry { not_before: Some(wait), .. } = verdict {
            engine.gates.pause().hold_until(ended, wait);
        }
        let labels = (self.whose(), &engine.meters);
        telemetry::attempted(labels, self.attempts, &outcome, &verdict, ended.since(begun));
        Ok(self.judge(verdict, outcome, begun, ended))
    }

    /// Sends one request under the attempt's limits, with the vendor's secrets added on this copy alone.
    pub(super) async fn exchange(
        &self,
        mut outgoing: Request,
        begun: Instant,
    ) -> (Result<Answer, SendError>, Instant) {
        let engine = self.engine;
        engine.vendor.authorize(&mut outgoing);
        let mut until = begun.plus(self.timeout.attempt).min(self.deadline);
        if let Some(hold) = &self.hold {
            until = until.min(hold.stop_at());
        }
        if self.pass_deadline_on {
            pass_on(&mut outgoing, until.since(begun));
        }
        // A safe method has no effect to be unknown, and its call is spared the allocation.
        let progress = if outgoing.method.is_safe() { Progress::unwatched() } else { Progress::new() };
        let limits = Limits::new(engine.policy.limits.reply_bytes_max).watched(&progress);
        let exchange = engine.transport.send(outgoing, limits);
        let outcome = limit::within(&*engine.clock, until, exchange)
            .await
            .unwrap_or_else(|| Err(SendError::out_of_time(&progress)));
        (outcome, engine.clock.now())
    }

    fn judge(
        &mut self,
        verdict: Verdict,
        outcome: Result<Answer, SendError>,
        begun: Instant,
        ended: Instant,
    ) -> Judged {
        let (outcome, judged) = match (verdict, outcome) {
            (Verdict::Done { replayed }, Ok(answer)) => {
                if self.hold.is_some() {
                    // For the operation's log; an unkeyed call has none.
                    self.report(Ok(answer.status), verdict, self.effect, begun, ended);
                }
                return Judged::Done { answer, replayed };
            }
            (Verdict::Refused(refusal), Ok(answer)) => {
                self.report(Ok(answer.status), verdict, Effect::None, begun, ended);
                return Judged::Refused { answer, refusal };
            }
            (Verdict::Retry { effect, not_before }, outcome) => {
                self.note(effect);
                self.report(met(&outcome), verdict, effect, begun, ended);
                (outcome, Judged::Retry { not_before })
            }
            // An adapter that calls a lost answer a yes or a no is not believed.
            (Verdict::Done { .. } | Verdict::Refused(_) | Verdict::Unknown, outcome) => {
                self.note(Effect::Unknown);
                self.report(met(&outcome), Verdict::Unknown, Effect::Unknown, begun, ended);
                (outcome, Judged::Unknown)
            }
        };
        self.last = match outcome {
            Ok(answer) => Last { answer: Some(answer), failure: None },
            Err(failure) => Last { answer: None, failure: Some(failure) },
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
        self.reports.push(AttemptReport {
            number: self.attempts,
            started_at: self.engine.clock.wall().minus(latency),
            latency,
            status: met.ok().map(|status| status.as_u16()),
            failure: met.err().map(|failure| Chain(failure).to_string()),
            verdict: verdict.name().to_owned(),
            effect,
            wait: None,
        });
    }
}

/// What an outcome says of the vendor's health. A refusal proves life; a 429 is feedback on load and no
/// failure.
pub(super) fn liveness(outcome: &Result<Answer, SendError>) -> Outcome {
    match outcome {
        Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => Outcome::Neutral,
        Ok(answer) if answer.status.is_server_error() => Outcome::Failure,
        Ok(_) => Outcome::Success,
        Err(_) => Outcome::Failure,
    }
}

fn met(outcome: &Result<Answer, SendError>) -> Result<StatusCode, &SendError> {
    outcome.as_ref().map(|answer| answer.status)
}

fn pass_on(request: &mut Request, left: Duration) {
    if let Ok(value) = HeaderValue::from_str(&inbound::format_timeout(left)) {
        request.headers.insert(inbound::X_REQUEST_TIMEOUT, value);
    }
}

//! One attempt: authorise, send, judge, account.

use std::time::Duration;

use http::{HeaderValue, StatusCode};

use super::limit;
use super::liveness::Exchanged;
use super::run::{Last, Run};
use crate::answer::Answer;
use crate::attempt::AttemptReport;
use crate::clock::Instant;
use crate::error::{Chain, Effect, Error, Refusal};
use crate::inbound;
use crate::policy::Admission;
use crate::request::Request;
use crate::telemetry;
use crate::transport::{Limits, Progress, SendError};
use crate::vendor::{Attempt, SpeaksFor, Verdict};

/// An attempt's verdict, with the answer that a final one must have.
pub(super) enum Judged {
    Done { answer: Answer, replayed: bool },
    Refused { answer: Answer, refusal: Refusal, speaks_for: SpeaksFor },
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
        let admitted = admission.admitted_at();
        let begins = if self.hold.is_some() {
            // The claim, or a renewed lease, came between.
            self.hold_on_to_send().await?;
            engine.clock.now()
        } else {
            admitted
        };
        admission.begin(begins);
        let begun = admission.admitted_at();
        let exchanged = self.exchange(self.request.clone(), admitted, begun).await;
        self.account(admission, &exchanged);
        let Exchanged { outcome, ended, .. } = exchanged;
        let outcome = outcome.map_err(|failure| failure.on_the_way_to(&self.request.url));
        self.attempts = self.attempts.saturating_add(1);

        let keyed = self.hold.is_some();
        let judged_at = engine.clock.wall();
        let attempt = Attempt::new(self.request, keyed, outcome.as_ref(), judged_at)
            .after(self.effect)
            .in_window(self.window_is_open());
        let verdict = engine.vendor.classify(&attempt);
        self.heed(&verdict, &outcome, ended);
        let labels = (self.whose(), &engine.meters);
        telemetry::attempted(labels, self.attempts, &outcome, &verdict, ended.since(begun));
        Ok(self.judge(verdict, outcome, begun, ended))
    }

    /// Sends one request under the attempt's limits, with the vendor's secrets added on this copy alone.
    ///
    /// `admitted` is when the gates let it through. A write to the record may come between that and `begun`: where
    /// the attempt's timeout is the whole call's, as a policy may say, the write's time is the vendor's loss, and
    /// not a reason to overlook that the vendor hangs.
    pub(super) async fn exchange(
        &self,
        mut outgoing: Request,
        admitted: Instant,
        begun: Instant,
    ) -> Exchanged {
        let engine = self.engine;
        engine.vendor.authorize(&mut outgoing);
        let mut until = begun.plus(self.timeout.attempt).min(self.deadline);
        if let Some(hold) = &self.hold {
            until = until.min(hold.stop_at());
        }
        if self.pass_deadline_on {
            pass_on(&mut outgoing, until.since(begun), self.retries_allowed);
        }
        // A safe method has no effect to be unknown, and its call is spared the allocation.
        let progress = if outgoing.method.is_safe() { Progress::unwatched() } else { Progress::new() };
        let limits = Limits::new(engine.policy.limits.reply_bytes_max).watched(&progress);
        let exchange = engine.transport.send(outgoing, limits);
        let answered = limit::within(&*engine.clock, until, exchange).await;
        let cut_short = answered.is_none() && until < admitted.plus(self.timeout.attempt);
        let outcome = answered.unwrap_or_else(|| Err(SendError::out_of_time(&progress)));
        Exchanged { outcome, ended: engine.clock.now(), cut_short }
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
                    self.report(Ok(answer.status), verdict, Effect::Applied, begun, ended);
                }
                return Judged::Done { answer, replayed };
            }
            (Verdict::Refused { refusal, speaks_for }, Ok(answer)) => {
                self.report(Ok(answer.status), verdict, Effect::None, begun, ended);
                return Judged::Refused { answer, refusal, speaks_for };
            }
            (Verdict::Retry { effect, not_before }, outcome) => {
                self.note(effect);
                self.report(met(&outcome), verdict, effect, begun, ended);
                (outcome, Judged::Retry { not_before })
            }
            // An adapter that calls a lost answer a yes or a no is not believed.
            (Verdict::Done { .. } | Verdict::Refused { .. } | Verdict::Unknown, outcome) => {
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

fn met(outcome: &Result<Answer, SendError>) -> Result<StatusCode, &SendError> {
    outcome.as_ref().map(|answer| answer.status)
}

/// Whoever retries above us also stands above the vendor: the mark goes on, so that no layer below multiplies the sends.
fn pass_on(request: &mut Request, left: Duration, retries_allowed: bool) {
    if !retries_allowed {
        request.headers.insert(inbound::X_DO_NOT_RETRY, HeaderValue::from_static("true"));
    }
    if let Ok(value) = HeaderValue::from_str(&inbound::format_timeout(left)) {
        request.headers.insert(inbound::X_REQUEST_TIMEOUT, value);
    }
}

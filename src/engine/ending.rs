//! What is written to the record of a call, and what its caller is told.

use std::time::Duration;

use super::hold::Evidence;
use super::phase::{Phase, Run};
use crate::answer::Answer;
use crate::error::{Effect, Error, Kind};
use crate::reply::{Obtained, Reply};
use crate::telemetry::Whose;
use crate::transport::SendErrorKind;

impl Run<'_> {
    /// Writes the success down. A store that fails is tried again while the hold and the call's time last: what the
    /// vendor said is in hand, and only the record of it keeps others from looking for it.
    pub(super) async fn settle(&mut self, reply: Reply) -> Result<Reply, Error> {
        let reconciled = reply.obtained() == Obtained::Reconciled;
        let mut pause = WRITE_PAUSE_MIN;
        loop {
            let reports_before = self.reports_written;
            let evidence = self.evidence();
            let Some(hold) = &mut self.hold else { return Ok(reply) };
            let error = match hold.succeed(reply.answer().clone(), reconciled, evidence).await {
                Ok(()) => {
                    let record = &hold.record;
                    return Ok(reply.keyed(record.id.key.as_str().to_owned(), record.wire_key.clone()));
                }
                Err(error) => error,
            };
            let clock = &self.engine.clock;
            let again_at = clock.now().plus(pause);
            if error.is_fenced() || again_at >= self.deadline.min(hold.stop_at()) {
                // On record it is still in progress; the vendor's word is in hand all the same.
                let error = error.of_effect(Effect::Applied).with_answer(Some(reply.answer().clone()));
                return Err(self.in_context(error));
            }
            clock.sleep_until(again_at).await;
            pause = pause.saturating_mul(2).min(WRITE_PAUSE_MAX);
            self.reports_written = reports_before;
        }
    }

    /// What the next write to the record says of the attempts. Their reports go with the one write after them.
    pub(super) fn evidence(&mut self) -> Evidence {
        let reports = self.reports.get(self.reports_written..).unwrap_or_default().to_vec();
        self.reports_written = self.reports.len();
        let clock = &self.engine.clock;
        let unknown_since = match self.phase {
            Phase::Unknown { since: Some(since), .. } => Some(clock.wall().minus(clock.now().since(since))),
            _ => self.hold.as_ref().and_then(|hold| hold.record.unknown_since),
        };
        Evidence {
            attempts: self.attempts,
            effect: self.phase.effect(),
            unknown_since,
            look_ups: self.phase.look_ups(),
            resends_left: self.resends_left,
            reports,
        }
    }

    /// What the call's events say of whose they are.
    pub(super) fn whose(&self) -> Whose<'_> {
        let record = self.hold.as_ref().map(|hold| &hold.record);
        Whose {
            vendor: &**self.engine.vendor,
            request: self.request,
            operation: record.map(|record| (&record.id, record.wire_key.as_str())),
        }
    }

    /// The last attempt's failure.
    pub(super) fn dependency(&self) -> Kind {
        Kind::Dependency { timeout: self.timed_out(), rate_limited: self.rate_limited() }
    }

    pub(super) fn timed_out(&self) -> bool {
        let gateway = |answer: &Answer| answer.status == http::StatusCode::GATEWAY_TIMEOUT;
        self.last.failed_with() == Some(SendErrorKind::Timeout)
            || self.last.answer.as_ref().is_some_and(gateway)
    }

    pub(super) fn rate_limited(&self) -> bool {
        self.last.answer.as_ref().is_some_and(Answer::is_rate_limit)
    }

    pub(super) fn in_context(&mut self, error: Error) -> Error {
        let reports = std::mem::take(&mut self.reports);
        let operation = self.hold.as_ref().map(|hold| (&hold.record.id, Some(hold.record.wire_key.as_str())));
        let error = error.with_attempts(reports).after_waiting(self.waited);
        self.engine.in_context(error, self.request, operation)
    }
}

/// Between two tries to write an outcome down, doubled up to the most: a lock is let go of within milliseconds, a
/// store that restarts comes back within seconds.
const WRITE_PAUSE_MIN: Duration = Duration::from_millis(50);
const WRITE_PAUSE_MAX: Duration = Duration::from_secs(2);

/// The error for a reply that was cut at the limit. It is settled all the same: its status is known.
pub(super) fn too_large(limit_bytes: usize, answer: Answer) -> Error {
    Error::new(Kind::ReplyTooLarge { limit_bytes }, Effect::Applied).with_answer(Some(answer))
}

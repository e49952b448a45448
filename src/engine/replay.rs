//! What an operation that has ended answers, without sending anything.

use super::{Engine, ending, limit};
use crate::answer::Answer;
use crate::clock::Instant;
use crate::error::{Disposition, Effect, Error, Kind};
use crate::operation::OperationId;
use crate::operation::record::{Record, State};
use crate::reply::{Obtained, Reply};
use crate::telemetry::{self, Whose};

impl Engine {
    /// What a settled operation answers, without sending anything.
    pub(super) fn replay(&self, record: Record) -> Result<Reply, Error> {
        if matches!(record.state, State::Succeeded { .. }) {
            telemetry::replayed(Whose::of(&**self.vendor, &record), "record");
        }
        let disposition = disposition(&record);
        let Record { id, wire_key, request, state, attempts, effect, .. } = record;
        let named = |error: Error| self.in_context(error, &request, Some((&id, Some(&wire_key))));
        match state {
            State::Succeeded { answer, reconciled } => {
                let limit_bytes = self.policy.reply_bytes_max;
                if let Some(unreadable) = ending::unreadable(limit_bytes, &request, &answer) {
                    return Err(named(unreadable));
                }
                let obtained = if reconciled { Obtained::Reconciled } else { Obtained::Replayed };
                let mut reply = Reply::new(answer, obtained, attempts);
                reply.name(id.key, wire_key);
                Ok(reply)
            }
            State::Refused { refusal, answer } => {
                let kind = Kind::Refused { refusal, status: answer.status.as_u16() };
                Err(named(Error::new(kind, Effect::None).with_answer(Some(answer))))
            }
            State::Dead { reason, answer } => {
                let rate_limited = answer.as_ref().is_some_and(Answer::is_rate_limit);
                let kind = Kind::DeadLetter { reason, timeout: false, rate_limited };
                Err(named(Error::new(kind, effect).with_answer(answer).going_on(disposition)))
            }
            State::InProgress { lease_until: at } | State::Scheduled { at } => {
                Err(named(Error::new(Kind::InProgress, effect).with_retry_at(Some(at)).going_on(disposition)))
            }
        }
    }

    /// Of a dead letter without an answer only the log of its attempts knows why. It is read for the caller that asks
    /// again; a store that cannot say, or not in time, changes nothing about the error.
    pub(super) async fn with_cause_on_record(
        &self,
        ended: Result<Reply, Error>,
        id: &OperationId,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        match ended {
            Err(error) if error.is_dead_letter() && error.answer().is_none() => {
                let read = Box::pin(limit::within(&*self.clock, deadline, self.store.evidence(id)));
                let reports = read.await.and_then(Result::ok).unwrap_or_default();
                Err(error.because_of(reports.into_iter().rev().find_map(|report| report.failure)))
            }
            ended => ended,
        }
    }
}

/// The record's own word of what goes on.
fn disposition(record: &Record) -> Disposition {
    match record.state {
        State::InProgress { lease_until: at } | State::Scheduled { at } => {
            Disposition::Continues { at: Some(at) }
        }
        State::Dead { .. } if record.resolved.is_none() => Disposition::AwaitsOperator,
        State::Dead { .. } if record.is_adopted() => Disposition::Continues { at: None },
        State::Dead { .. } | State::Succeeded { .. } | State::Refused { .. } => Disposition::Ended,
    }
}

//! The answer of an operation that has ended, without a send.

use steadfast_core::clock::Instant;
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{AnswerExt, ErrorExt, RecordExt};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Record, State};
use steadfast_core::transport::{Answer, SendErrorKind};
use steadfast_core::{Effect, Error};

use super::{Engine, conclude};
use crate::limit;
use crate::reply::{Obtained, Reply};
use crate::telemetry::{self, Whose};

impl Engine {
    /// The answer of a settled operation, without a send.
    pub(super) fn replay(&self, record: Record) -> Result<Reply, Error> {
        if matches!(record.state, State::Succeeded { .. }) {
            telemetry::replayed(Whose::of(&**self.vendor, &record), "record");
        }
        let disposition = record.disposition();
        let Record { id, wire_key, request, state, attempts, effect, .. } = record;
        let named = |error: Error| self.in_context(error, &request, Some((&id, Some(&wire_key))));
        match state {
            State::Succeeded { answer, reconciled } => {
                let limit_bytes = self.policy.reply_bytes_max;
                if let Some(unreadable) = conclude::unreadable(limit_bytes, &request, &answer) {
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
                let timeout = answer.as_ref().is_some_and(Answer::is_gateway_timeout);
                let kind = Kind::DeadLetter { reason, timeout, rate_limited };
                Err(named(Error::new(kind, effect).with_answer(answer).with_disposition(disposition)))
            }
            State::InProgress { lease_until: at } | State::Scheduled { at } => Err(named(
                Error::new(Kind::InProgress, effect).with_retry_at(Some(at)).with_disposition(disposition),
            )),
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
                let mut reports = read.await.and_then(Result::ok).unwrap_or_default();
                let last = reports.iter().rposition(|report| !report.is_lookup());
                let met = last.and_then(|place| reports[place].failure_kind);
                let why = reports.drain(..).rev().find_map(|report| report.failure);
                let error = if met == Some(SendErrorKind::Timeout) { error.timed_out() } else { error };
                Err(error.with_cause(why))
            }
            ended => ended,
        }
    }
}

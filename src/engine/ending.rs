//! What is written to the record of a call, and what its caller is told.

use http::header;

use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{AnswerExt, ErrorExt};
use steadfast_core::operation::record::State;
use steadfast_core::transport::{Answer, Request, SendErrorKind};
use steadfast_core::{Effect, Error, Reason, Refusal};

use super::hold::Evidence;
use super::phase::{Phase, Run};
use crate::reply::{Obtained, Reply};
use crate::telemetry::{self, Whose};

impl Run<'_> {
    /// What an answer is to the caller.
    pub(super) fn reply(&self, answer: Answer, obtained: Obtained) -> Reply {
        Reply::new(answer, obtained, self.attempts).after_waiting(self.waited)
    }

    /// Whether a reply can be read. By reference: a reply is large.
    pub(super) fn check_readable(&mut self, reply: &Reply) -> Result<(), Error> {
        match unreadable(self.engine.policy.reply_bytes_max, self.request, reply.answer()) {
            None => Ok(()),
            Some(error) => Err(self.in_context(error)),
        }
    }

    /// Writes a success down, and names the operation in its reply.
    pub(super) async fn settle(&mut self, reply: &mut Reply) -> Result<(), Error> {
        let reconciled = reply.obtained() == Obtained::Reconciled;
        let to = || State::Succeeded { answer: reply.answer().clone(), reconciled };
        if let Err(error) = self.write_down("record the outcome", to).await {
            // On record it is still in progress; the vendor's word is in hand all the same.
            let error = error.of_effect(Effect::Applied).with_answer(Some(reply.answer().clone()));
            return Err(self.in_context(error));
        }
        if let Some(hold) = &self.hold {
            reply.name(hold.record.id.key.clone(), hold.record.wire_key.clone());
        }
        Ok(())
    }

    /// A definite no that is the operation's outcome.
    pub(super) async fn refused(&mut self, refusal: Refusal, answer: Answer) -> Error {
        if self.hold.is_some() {
            self.phase = Phase::NotApplied;
        }
        let began = self.engine.clock.now();
        let to = || State::Refused { refusal, answer: answer.clone() };
        if let Err(error) = self.write_down("record the outcome", to).await {
            return self.in_context(error.with_answer(Some(answer)));
        }
        // The key is free again: whoever has the right credentials may have sent it since.
        let is_free = refusal == Refusal::Unauthorized;
        let effect = if is_free { self.effect_since_let_go(began).await } else { self.phase.effect() };
        let kind = Kind::Refused { refusal, status: answer.status.as_u16() };
        let error = Error::new(kind, effect).with_answer(Some(answer));
        let freed = self.hold.as_ref().filter(|_| is_free);
        let next = match freed {
            Some(hold) => Box::pin(self.engine.next_of_freed(&hold.record)).await,
            None => None,
        };
        self.in_context(match next {
            Some(next) => error.going_on(next),
            None => error,
        })
    }

    /// Ends a keyed call as a dead letter, an unkeyed one with what its last attempt met.
    pub(super) async fn dead_letter(&mut self, reason: Reason) -> Error {
        let (began, answer) = (self.engine.clock.now(), self.last.answer.clone());
        let mut kind = self.dependency();
        let to = || State::Dead { reason, answer: answer.clone() };
        if let Err(error) = self.write_down("record the dead letter", to).await {
            return self.in_context(error.with_answer(answer));
        }
        if let Some(hold) = &self.hold {
            let met = (answer.as_ref(), self.last.failure.as_ref());
            telemetry::dead_letter(&**self.engine.vendor, &hold.record, reason, met);
            kind = Kind::DeadLetter { reason, timeout: self.timed_out(), rate_limited: self.rate_limited() };
        }
        // A person may have redriven it since.
        let effect = self.effect_since_let_go(began).await;
        let error = Error::new(kind, effect).with_answer(answer).because_of(self.last.failure.take());
        self.in_context(error)
    }

    /// What the next write to the record says of the attempts. Their reports go with the one write after them.
    pub(super) fn evidence(&mut self) -> Evidence {
        let reports = self.reports.get(self.reports_written..).unwrap_or_default().to_vec();
        self.reports_written = self.reports.len();
        let unknown_since = self.hold.as_ref().and_then(|hold| match self.phase {
            Phase::Unknown { since: Some(since), .. } => Some(hold.on_record(since)),
            _ => hold.record.unknown_since,
        });
        Evidence {
            attempts: self.steps_taken(),
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
        self.last.failed_with() == Some(SendErrorKind::Timeout)
            || self.last.answer.as_ref().is_some_and(Answer::is_gateway_timeout)
    }

    pub(super) fn rate_limited(&self) -> bool {
        self.last.answer.as_ref().is_some_and(Answer::is_rate_limit)
    }

    pub(super) fn in_context(&mut self, error: Error) -> Error {
        let mut reports = std::mem::take(&mut self.reports);
        // A caller's attempts are what it sent; lookups are on the operation's log.
        reports.retain(|report| !report.is_look_up());
        let operation = self.hold.as_ref().map(|hold| (&hold.record.id, Some(hold.record.wire_key.as_str())));
        let error = error.with_attempts(reports).after_waiting(self.waited);
        self.engine.in_context(error, self.request, operation)
    }
}

/// Why the answer to a call that succeeded cannot be read, if it cannot. It is settled all the same: its status is known.
///
/// A call that says itself which encodings it takes reads them itself.
pub(super) fn unreadable(limit_bytes: usize, request: &Request, answer: &Answer) -> Option<Error> {
    let of_kind = |kind| Error::new(kind, Effect::Applied).with_answer(Some(answer.clone()));
    if answer.cut {
        return Some(of_kind(Kind::ReplyTooLarge { limit_bytes }));
    }
    let is_packed =
        answer.headers.contains_key(header::CONTENT_ENCODING) && std::str::from_utf8(&answer.body).is_err();
    let is_callers = request.headers.contains_key(header::ACCEPT_ENCODING);
    (is_packed && !is_callers).then(|| of_kind(Kind::ReplyUnreadable).with_source(NOT_UNPACKED))
}

const NOT_UNPACKED: &str = "its Content-Encoding is none that was asked for, or it is damaged";

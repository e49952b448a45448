//! How a call ends: what is written to the record, and what the caller is told.

use super::hold::Evidence;
use super::look_up::Looked;
use super::run::{Last, Run};
use crate::answer::Answer;
use crate::clock::Instant;
use crate::error::{Effect, Error, Kind, Reason, Refusal};
use crate::reply::{Obtained, Reply};
use crate::telemetry;
use crate::transport::SendErrorKind;

impl Run<'_> {
    pub(super) async fn succeed(&mut self, answer: Answer, obtained: Obtained) -> Result<Reply, Error> {
        let mut reply = Reply::new(answer, obtained, self.attempts).after_waiting(self.waited);
        if self.hold.is_some() {
            reply = Box::pin(self.settle(reply)).await?;
        }
        if reply.answer().cut {
            let error = too_large(self.engine.policy.limits.reply_bytes_max, reply.answer().clone());
            return Err(self.in_context(error));
        }
        Ok(reply)
    }

    async fn settle(&mut self, reply: Reply) -> Result<Reply, Error> {
        let evidence = self.evidence();
        let Some(hold) = &mut self.hold else { return Ok(reply) };
        let reconciled = reply.obtained() == Obtained::Reconciled;
        match hold.succeed(reply.answer().clone(), reconciled, evidence).await {
            Ok(()) => {
                let record = &hold.record;
                Ok(reply.keyed(record.id.key.as_str().to_owned(), record.wire_key.clone()))
            }
            Err(error) => {
                let error = error.with_answer(Some(reply.answer().clone()));
                Err(self.in_context(error))
            }
        }
    }

    /// A definite no. It is the operation's outcome unless an earlier attempt may have taken effect and this
    /// answer does not speak for it: a vendor that replays would have shown the earlier outcome, one that
    /// does not has only judged the resend.
    pub(super) async fn refused(&mut self, refusal: Refusal, answer: Answer) -> Error {
        let speaks_for_all =
            self.effect == Effect::None || (self.window_is_open() && refusal != Refusal::Unauthorized);
        if !speaks_for_all && self.hold.is_some() {
            self.last = Last { answer: Some(answer), failure: None };
            return self.bury(Reason::Unknown).await;
        }
        if speaks_for_all {
            self.effect = Effect::None;
        }
        let evidence = self.evidence();
        if let Some(hold) = &mut self.hold
            && let Err(error) = hold.refuse(refusal, answer.clone(), evidence).await
        {
            return self.in_context(error.with_answer(Some(answer)));
        }
        let kind = Kind::Refused { refusal, status: answer.status.as_u16() };
        self.in_context(Error::new(kind, self.effect).with_answer(Some(answer)))
    }

    /// The vendor holds such a resource, although a look-up had not shown it: the miss may have come too early
    /// and the resource be our own first send's. Another miss is no proof now.
    pub(super) async fn perhaps_our_own(&mut self, duplicate: Answer) -> Result<Reply, Error> {
        self.note(Effect::Unknown);
        self.last = Last { answer: Some(duplicate), failure: None };
        match self.look_up().await? {
            Looked::Found(answer) => self.succeed(answer, Obtained::Reconciled).await,
            Looked::Absent | Looked::CannotTell => Err(self.bury(Reason::Unknown).await),
        }
    }

    /// The ladder is spent. What may have taken effect is looked up once more before it is given up.
    pub(super) async fn exhausted(&mut self) -> Result<Reply, Error> {
        if self.effect == Effect::None {
            return Err(self.bury(Reason::Exhausted).await);
        }
        self.look_up_or_bury(Reason::Exhausted).await
    }

    /// No further send can help or is allowed: the look-up decides, or nobody does.
    pub(super) async fn look_up_or_bury(&mut self, reason: Reason) -> Result<Reply, Error> {
        match self.look_up().await? {
            Looked::Found(answer) => self.succeed(answer, Obtained::Reconciled).await,
            Looked::Absent => {
                self.effect = Effect::None;
                Err(self.bury(Reason::Exhausted).await)
            }
            Looked::CannotTell => Err(self.bury(reason).await),
        }
    }

    /// Ends a keyed call as a dead letter, an unkeyed one with what its last attempt met.
    pub(super) async fn bury(&mut self, reason: Reason) -> Error {
        let answer = self.last.answer.clone();
        let evidence = self.evidence();
        let mut kind = self.dependency();
        if let Some(hold) = &mut self.hold {
            if let Err(error) = hold.bury(reason, answer.clone(), evidence).await {
                return self.in_context(error.with_answer(answer));
            }
            let met = (answer.as_ref(), self.last.failure.as_ref());
            telemetry::dead_letter(&**self.engine.vendor, &hold.record, reason, met);
            kind = Kind::DeadLetter { reason, timeout: self.timed_out(), rate_limited: self.rate_limited() };
        }
        let error = Error::new(kind, self.effect).with_answer(answer).because_of(self.last.failure.take());
        self.in_context(error)
    }

    /// Ends this call but not its operation: what is keyed is scheduled and carries on when its key is sent
    /// again.
    pub(super) async fn postpone(&mut self, at: Instant, kind: Kind) -> Error {
        let clock = &self.engine.clock;
        let at = clock.wall().plus(at.since(clock.now()));
        let evidence = self.evidence();
        if let Some(hold) = &mut self.hold
            && let Err(error) = hold.schedule(at, evidence).await
        {
            return self.in_context(error);
        }
        let answer = self.last.answer.clone();
        let error = Error::new(kind, self.effect).with_retry_at(Some(at)).with_answer(answer);
        let error = error.because_of(self.last.failure.take());
        self.in_context(error)
    }

    /// Lets go of an operation that is not this client's to carry on: somebody else may take it at once.
    pub(super) async fn hand_back(&mut self) -> Error {
        let now = self.engine.clock.now();
        self.postpone(now, Kind::Fenced).await
    }

    /// What the next write to the record says of the attempts. Their reports go with the one write after them.
    pub(super) fn evidence(&mut self) -> Evidence {
        let reports = self.reports.get(self.reports_written..).unwrap_or_default().to_vec();
        self.reports_written = self.reports.len();
        let clock = &self.engine.clock;
        let on_record = self.hold.as_ref().and_then(|hold| hold.record.unknown_since);
        Evidence {
            attempts: self.attempts,
            effect: self.effect,
            unknown_since: self
                .unknown_since
                .map(|since| clock.wall().minus(clock.now().since(since)))
                .or(on_record),
            look_ups: self.look_ups,
            resends_left: self.resends_left,
            reports,
        }
    }

    /// The last attempt's failure.
    pub(super) fn dependency(&self) -> Kind {
        Kind::Dependency { timeout: self.timed_out(), rate_limited: self.rate_limited() }
    }

    fn timed_out(&self) -> bool {
        self.last.failed_with() == Some(SendErrorKind::Timeout)
    }

    fn rate_limited(&self) -> bool {
        self.last.answer.as_ref().is_some_and(|answer| answer.status == http::StatusCode::TOO_MANY_REQUESTS)
    }

    pub(super) fn in_context(&mut self, error: Error) -> Error {
        let reports = std::mem::take(&mut self.reports);
        let operation = self.hold.as_ref().map(|hold| (&hold.record.id, Some(hold.record.wire_key.as_str())));
        let error = error.with_attempts(reports).after_waiting(self.waited);
        self.engine.in_context(error, self.request, operation)
    }
}

/// The error for a reply that was cut at the limit. It is settled all the same: its status is known.
pub(super) fn too_large(limit_bytes: usize, answer: Answer) -> Error {
    Error::new(Kind::ReplyTooLarge { limit_bytes }, Effect::Unknown).with_answer(Some(answer))
}

//! How a call ends: what is written to the record, and what the caller is told.

use std::time::Duration;

use super::hold::Evidence;
use super::look_up::Looked;
use super::run::{Last, Run};
use crate::answer::Answer;
use crate::clock::Instant;
use crate::error::{Disposition, Effect, Error, Kind, Reason, Refusal, Step};
use crate::reply::{Obtained, Reply};
use crate::telemetry;
use crate::transport::SendErrorKind;
use crate::vendor::SpeaksFor;

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

    /// Writes the success down. A store that fails is tried again while the hold and the call's time last: what the
    /// vendor said is in hand, and only the record of it keeps others from looking for it.
    async fn settle(&mut self, reply: Reply) -> Result<Reply, Error> {
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

    /// Whether a definite no to the last attempt is the operation's outcome: no earlier attempt may have taken
    /// effect, or the adapter says that the no speaks for those too. An unkeyed call has no outcome but its last
    /// answer, and a safe method no effect.
    pub(super) fn is_settled_by(&self, speaks_for: SpeaksFor) -> bool {
        self.effect == Effect::None
            || speaks_for == SpeaksFor::EarlierToo
            || self.hold.is_none()
            || self.request.method.is_safe()
    }

    /// A definite no that is the operation's outcome.
    pub(super) async fn refused(&mut self, refusal: Refusal, answer: Answer) -> Error {
        if self.hold.is_some() {
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

    /// A definite no to the last attempt alone: an earlier one may have taken effect all the same.
    ///
    /// While the vendor replays, the next attempt may be answered with the earlier one's outcome. Not so where the key
    /// belongs to another request: that will not change. Else a look-up decides, and where it proves that the earlier
    /// attempts had no effect, the no is the outcome after all.
    pub(super) async fn refused_but_unknown(
        &mut self,
        refusal: Refusal,
        answer: Answer,
    ) -> Result<Option<Reply>, Error> {
        self.last = Last { answer: Some(answer.clone()), failure: None };
        if self.window_is_open() && refusal != Refusal::KeyReused {
            return self.wait_for_next_rung(None).await;
        }
        match self.look_up().await? {
            Looked::Found(found) => self.succeed(found, Obtained::Reconciled).await.map(Some),
            Looked::Absent => Err(self.refused(refusal, answer).await),
            Looked::CannotTell => Err(self.bury(Reason::Unknown).await),
        }
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
        let mut error = Error::new(kind, self.effect).with_retry_at(Some(at)).with_answer(answer);
        if self.hold.is_some() {
            error = error.going_on(Disposition::Continues { at: Some(at) });
        }
        let error = error.because_of(self.last.failure.take());
        self.in_context(error)
    }

    /// Ends this call because its deadline has passed, or comes before the `next` step is due.
    pub(super) async fn out_of_time(&mut self, due: Instant, next: Step) -> Error {
        let is_over = self.engine.clock.now() >= self.deadline;
        let budget = self.deadline.since(self.started);
        self.postpone(due, Kind::Deadline { budget, next: (!is_over).then_some(next) }).await
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
        let gateway = |answer: &Answer| answer.status == http::StatusCode::GATEWAY_TIMEOUT;
        self.last.failed_with() == Some(SendErrorKind::Timeout)
            || self.last.answer.as_ref().is_some_and(gateway)
    }

    fn rate_limited(&self) -> bool {
        self.last.answer.as_ref().is_some_and(Answer::is_rate_limit)
    }

    pub(super) fn in_context(&mut self, error: Error) -> Error {
        let mut reports = std::mem::take(&mut self.reports);
        // A caller's attempts are what it sent; look-ups are on the operation's log.
        reports.retain(|report| !report.is_look_up());
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

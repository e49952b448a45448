//! The loop of one call, its rules for waiting and giving up, and its ends.
//!
//! What the loop turns on is [`may_send`](crate::operation::record::may_send): after an outcome that may have taken
//! effect, it says whether another send is safe, must wait for a lookup, or may not be. It is asked before every send,
//! because every wait uses the vendor's window up.

use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::error::{Kind, Step};
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::operation::{LookUp, Ruling, Why};
use steadfast_core::internal::policy::Admission;
use steadfast_core::operation::record::State;
use steadfast_core::transport::{Answer, SendErrorKind};
use steadfast_core::vendor::SpeaksFor;
use steadfast_core::{AttemptReport, Disposition, Effect, Error, Gate, Reason, Refusal};

use super::attempt::{Judged, Lease};
use super::look_up::Looked;
use super::outage::Outage;
use super::phase::{Last, Phase, Run};
use crate::reply::{Obtained, Reply};
use crate::telemetry;

/// What allows the next send.
enum Cleared {
    /// It cannot be a second effect, as long as the rule says so.
    Safe,
    /// It can, and that was accepted and is about to be written down.
    AtRisk,
    /// Nothing: the operation was found.
    Over(Box<Reply>),
}

impl<'a> Run<'a> {
    /// Carries on with an operation that was taken over. For a caller, its next send is charged as a retry, unless it
    /// is known to be the first. Recovery pays by its own rate.
    pub(super) async fn resume(&mut self) -> Result<Reply, Error> {
        let is_first = self.attempts == 0 && self.phase.effect() == Effect::None;
        if Guard::TakeoverPays.keeps(!is_first && !self.recovered) && !self.afford_retry() {
            return Err(self.out_of_budget(self.first_step()).await);
        }
        if self.is_left_to_a_look_up() {
            return self.exhausted().await;
        }
        if self.is_beyond_sending().await {
            return self.look_up_or_dead_letter(Reason::Unknown).await;
        }
        self.drive(None).await
    }

    /// Sends until the call has an end. `claimed` is the admission that the claim was made with: its send comes right
    /// behind the claim.
    pub(super) async fn drive(&mut self, mut claimed: Option<Admission<'a>>) -> Result<Reply, Error> {
        // The gates, or another call's outcome, were waited for before this run began.
        let began = claimed.as_ref().map_or_else(|| self.engine.clock.now(), Admission::admitted_at);
        self.waited = began.since(self.started);
        loop {
            let cleared = match self.ruling() {
                Ruling::Send(_) => Cleared::Safe,
                _ => {
                    drop(claimed.take());
                    Box::pin(self.clear()).await?
                }
            };
            if let Cleared::Over(reply) = cleared {
                return Ok(*reply);
            }
            let is_safe = matches!(cleared, Cleared::Safe);
            let at_once = claimed.take().or_else(|| is_safe.then(|| self.admit_behind_take()).flatten());
            let (permit, lease) = match at_once {
                Some(permit) => (permit, Lease::Claimed),
                None => (Box::pin(self.admit_again(self.request)).await?, Lease::ToRenew),
            };
            if matches!(cleared, Cleared::AtRisk) {
                // The renewal before the send writes it down. Not earlier: a gate that refuses would use it up.
                self.resends_left = self.resends_left.saturating_sub(Guard::ResendCounted.keeps(1));
            }
            let begins = self.hold_for(lease, permit.admitted_at()).await?;
            // Waiting for the gates uses the window up too. And the renewal tells a server's time, by which a host
            // learns that it has slept: its own clocks may not.
            let is_asked_again = lease == Lease::ToRenew && is_safe && Guard::AskedAgain.holds();
            if is_asked_again && !matches!(self.ruling(), Ruling::Send(_)) {
                continue;
            }
            if self.is_asked_to_wait(begins) {
                // Another call was told so while this one wrote. What it may repeat is on record, and is not used twice.
                let put_off = Guard::PutOffIsNotUsed.keeps(matches!(cleared, Cleared::AtRisk));
                self.resends_left = self.resends_left.saturating_add(u32::from(put_off));
                continue;
            }
            let judged = self.attempt(permit, begins).await;
            if let Judged::Done { answer, replayed } = judged {
                if replayed {
                    telemetry::replayed(self.whose(), "vendor");
                }
                let obtained = if replayed { Obtained::Replayed } else { Obtained::Fresh };
                // As `succeed`, whose future would have the answer twice.
                let mut reply = self.reply(answer, obtained);
                if self.hold.is_some() {
                    self.settle(&mut reply).await?;
                }
                self.check_readable(&reply)?;
                return Ok(reply);
            }
            if let Some(reply) = Box::pin(self.after_failure(judged)).await? {
                return Ok(reply);
            }
        }
    }

    /// Before a send that could be a second effect: what else allows it.
    async fn clear(&mut self) -> Result<Cleared, Error> {
        let mut ruling = self.ruling();
        if ruling == Ruling::LookUpFirst {
            ruling = match self.look_up().await? {
                Looked::Found(answer) => {
                    let reply = self.succeed(answer, Obtained::Reconciled).await?;
                    return Ok(Cleared::Over(Box::new(reply)));
                }
                Looked::Absent => {
                    self.phase = Phase::ProvenAbsent;
                    self.ruling()
                }
                Looked::CannotTell => self.ruling_after(LookUp::CannotTell),
            };
        }
        match ruling {
            Ruling::Send(_) => Ok(Cleared::Safe),
            Ruling::SendAtRisk => Ok(Cleared::AtRisk),
            Ruling::Stop(reason) => Err(self.dead_letter(reason).await),
            // There was one, and it cannot tell.
            Ruling::LookUpFirst => Err(self.dead_letter(Reason::Unknown).await),
        }
    }

    /// After an attempt that is not done: the call's end, or `None` once another attempt is due.
    async fn after_failure(&mut self, judged: Judged) -> Result<Option<Reply>, Error> {
        if let Some(whose) = self.refused_as {
            if let Judged::Refused { answer, .. } = judged {
                self.last.answer = Some(answer);
            }
            return self.after_refused_credentials(whose).await.map(Some);
        }
        match judged {
            Judged::Done { answer, .. } => self.succeed(answer, Obtained::Fresh).await.map(Some),
            Judged::Refused { answer, refusal: Refusal::Duplicate, speaks_for } => {
                if Guard::OwnDuplicate.keeps(self.may_be_our_own(speaks_for).await) {
                    return self.look_up_duplicate(answer).await.map(Some);
                }
                Err(self.refused(Refusal::Duplicate, answer).await)
            }
            Judged::Refused { answer, refusal, speaks_for } if self.is_settled_by(speaks_for) => {
                Err(self.refused(refusal, answer).await)
            }
            Judged::Refused { answer, refusal, .. } => self.refused_but_unknown(refusal, answer).await,
            Judged::Retry => match (self.ruling(), self.look_up_at()) {
                (Ruling::Stop(reason), _) => Err(self.dead_letter(reason).await),
                // No wait of this call's reaches the lookup: recovery makes it.
                (Ruling::LookUpFirst, at) if at >= self.deadline => {
                    Err(self.out_of_time(at, Step::LookUp).await)
                }
                _ => self.wait_for_next_rung().await,
            },
            Judged::Unknown => self.look_up_or_dead_letter(Reason::Unknown).await.map(Some),
        }
    }

    /// Waits for the ladder's next rung, or ends the call: with the ladder spent, a lookup may still find the
    /// effect.
    async fn wait_for_next_rung(&mut self) -> Result<Option<Reply>, Error> {
        let unit = self.engine.random.unit();
        let retry = self.steps_taken().saturating_sub(1);
        // A request that cannot be built is built no better a second time.
        let hopeless = self.last.failed_with() == Some(SendErrorKind::Request);
        let rung = self.backoff.wait(retry, self.wait_before, unit).filter(|_| !hopeless);
        let outage = self.last.outage.map(|outage| self.outage_wait(outage, unit));
        let Some(rung) = rung.max(outage) else {
            return self.exhausted().await.map(Some);
        };
        let now = self.engine.clock.now();
        let at = self.not_early(now.plus(rung), unit);
        let wait = at.since(now);
        self.report_wait(wait);
        // Behind an open circuit, who probes next is chosen among all that wait.
        let is_down = self.last.outage == Some(Outage::Down);
        if !self.retries_allowed || is_down || self.is_over_the_cap(self.asked()) {
            return Err(self.postpone(at, self.dependency()).await);
        }
        if at >= self.deadline {
            return Err(self.out_of_time(at, Step::Attempt).await);
        }
        if Guard::RetryPays.keeps(!self.recovered) && !self.afford_retry() {
            return Err(self.out_of_budget(wait).await);
        }
        self.wait_before = rung;
        telemetry::waiting(
            self.whose(),
            self.attempts,
            wait,
            (self.last.answer.as_ref(), self.last.failure.as_ref()),
        );
        self.sleep_until(at).await?;
        Ok(None)
    }

    /// Looks the effect up, or ends the call where that has to wait for longer than the call can.
    async fn look_up(&mut self) -> Result<Looked, Error> {
        match self.looked_up().await? {
            Ok(looked) => Ok(looked),
            Err(at) if at >= self.deadline => Err(self.out_of_time(at, Step::LookUp).await),
            // The vendor asked for more than a call waits out.
            Err(at) => Err(self.postpone(at, self.dependency()).await),
        }
    }

    /// Whether a definite no to the last attempt is the operation's outcome: no earlier attempt may have taken
    /// effect, or the adapter says that the no speaks for those too. An unkeyed call has no outcome but its last
    /// answer, and a safe method no effect.
    fn is_settled_by(&self, speaks_for: SpeaksFor) -> bool {
        self.phase.effect() == Effect::None
            || speaks_for == SpeaksFor::EarlierToo
            || Guard::SpeaksFor.is_out()
            || self.hold.is_none()
            || self.request.method.is_safe()
    }

    /// A definite no to the last attempt alone: an earlier one may have taken effect all the same.
    ///
    /// While the vendor replays, the next attempt may be answered with the earlier one's outcome. Not so where the key
    /// belongs to another request: that will not change. Else, and once the ladder is spent, a lookup decides.
    async fn refused_but_unknown(
        &mut self,
        refusal: Refusal,
        answer: Answer,
    ) -> Result<Option<Reply>, Error> {
        self.last = Last { answer: Some(answer), refusal: Some(refusal), ..Last::default() };
        let is_replayed = matches!(self.ruling(), Ruling::Send(Why::WindowOpen { .. }));
        if is_replayed && refusal != Refusal::KeyReused {
            return self.wait_for_next_rung().await;
        }
        self.look_up_or_dead_letter(Reason::Unknown).await.map(Some)
    }

    /// Whether a duplicate may be what an earlier send of this operation made.
    ///
    /// A lookup's miss, and a person's word, are on record as no effect. The process that takes the operation over
    /// then knows from its log alone that a send before was in doubt. A log that cannot be read excludes nothing.
    async fn may_be_our_own(&self, speaks_for: SpeaksFor) -> bool {
        if matches!(self.phase, Phase::ProvenAbsent) || !self.is_settled_by(speaks_for) {
            return true;
        }
        let Some(record) = self.hold.as_ref().map(|hold| &hold.record) else { return false };
        if record.fence == record.first_fence {
            return false;
        }
        let was_in_doubt = |report: &AttemptReport| {
            Guard::LookUpInLog.keeps(report.is_look_up()) || report.effect == Effect::Unknown
        };
        let log = Box::pin(self.log_of(record)).await;
        log.is_none_or(|reports| reports.iter().any(was_in_doubt))
    }

    /// The vendor holds such a resource, although a lookup had not shown it: the miss may have come too early
    /// and the resource be our own first send's. Another miss is no proof now.
    async fn look_up_duplicate(&mut self, duplicate: Answer) -> Result<Reply, Error> {
        self.note(Effect::Unknown, Duration::ZERO);
        self.last = Last { answer: Some(duplicate), ..Last::default() };
        match self.look_up().await? {
            Looked::Found(answer) => self.succeed(answer, Obtained::Reconciled).await,
            Looked::Absent | Looked::CannotTell => Err(self.dead_letter(Reason::Unknown).await),
        }
    }

    /// The ladder is spent. What may have taken effect is looked up once more before it is given up.
    async fn exhausted(&mut self) -> Result<Reply, Error> {
        self.exhausted_by(Reason::Exhausted).await
    }

    pub(super) async fn exhausted_by(&mut self, reason: Reason) -> Result<Reply, Error> {
        if self.phase.effect() == Effect::None {
            return Err(self.dead_letter(reason).await);
        }
        self.look_up_or_dead_letter(reason).await
    }

    /// No further send can help or is allowed: only the lookup can decide. Where it proves that no attempt had an effect,
    /// a definite no to the last one is the outcome after all.
    async fn look_up_or_dead_letter(&mut self, reason: Reason) -> Result<Reply, Error> {
        match self.look_up().await? {
            Looked::Found(answer) => self.succeed(answer, Obtained::Reconciled).await,
            Looked::Absent => {
                self.phase = Phase::ProvenAbsent;
                let Some((refusal, answer)) = self.last.refusal.zip(self.last.answer.clone()) else {
                    return Err(self.dead_letter(Reason::Exhausted).await);
                };
                Err(self.refused(refusal, answer).await)
            }
            Looked::CannotTell => Err(self.dead_letter(reason).await),
        }
    }

    async fn succeed(&mut self, answer: Answer, obtained: Obtained) -> Result<Reply, Error> {
        let mut reply = self.reply(answer, obtained);
        if self.hold.is_some() {
            Box::pin(self.settle(&mut reply)).await?;
        }
        self.check_readable(&reply)?;
        Ok(reply)
    }

    /// Ends this call but not its operation: what is keyed is scheduled and carries on when its key is sent
    /// again, or a dispatcher takes it. One of this process is woken for it.
    pub(super) async fn postpone(&mut self, at: Instant, kind: Kind) -> Error {
        let postponed = self.schedule(at, kind).await;
        // At the time that is on record: it is of the store's own clock.
        if let Some(record) = self.hold.as_ref().map(|hold| &hold.record)
            && let State::Scheduled { at } = record.state
        {
            self.engine.wakes.wake(Some(&record.id.scope), at);
        }
        postponed
    }

    /// Puts the operation off until `at`, or until the vendor no longer asks this process to be left alone. Nothing else keeps
    /// a wait beyond the policy's cap, and the process that takes the operation next does not know it.
    pub(super) async fn schedule(&mut self, at: Instant, kind: Kind) -> Error {
        let began = self.engine.clock.now();
        let is_early = self.left_alone_until.is_some_and(|until| at < until);
        let at = if is_early { self.not_early(at, self.engine.random.unit()) } else { at };
        let at = self.engine.wall().plus(at.since(began));
        if let Err(error) = self.write_down("schedule the next attempt", || State::Scheduled { at }).await {
            return self.in_context(error);
        }
        let effect = self.effect_since_let_go(began).await;
        let answer = self.last.answer.clone();
        let mut error = Error::new(kind, effect).with_retry_at(Some(at)).with_answer(answer);
        if self.hold.is_some() {
            error = error.going_on(Disposition::Continues { at: Some(at) });
        }
        let error = error.because_of(self.last.failure.take());
        self.in_context(error)
    }

    /// Ends this call because its deadline has passed, or comes before the `next` step is due.
    async fn out_of_time(&mut self, due: Instant, next: Step) -> Error {
        let is_over = self.engine.clock.now() >= self.deadline;
        let budget = self.deadline.since(self.started);
        self.postpone(due, Kind::Deadline { budget, next: (!is_over).then_some(next) }).await
    }

    /// Postpones by at least `wait`, and by up to the ladder's last step. A spent budget fills slowly, and what comes
    /// back at the first step would only be refused and written down again.
    async fn out_of_budget(&mut self, wait: Duration) -> Error {
        let last = self.backoff.steps.last().copied().unwrap_or_default();
        let wait = wait.max(last.mul_f64(self.engine.random.unit()));
        let at = self.engine.clock.now().plus(wait);
        self.postpone(at, Kind::Gate(Gate::Budget)).await
    }

    /// Lets go of an operation that is not this client's to carry on: another process may take it at once. This process
    /// is not woken for it, or it would take it again and again.
    pub(super) async fn hand_back(&mut self) -> Error {
        let now = self.engine.clock.now();
        self.schedule(now, Kind::Fenced).await
    }

    /// Charged when the retry is decided on, not when it is sent: retries that wait are load already.
    fn afford_retry(&self) -> bool {
        let afforded = self.engine.gates.budget().is_none_or(|budget| budget.spend(self.engine.clock.now()));
        if !afforded {
            telemetry::refused(self.whose(), Gate::Budget);
        }
        afforded
    }
}

//! One call under way: the loop, and the rules for waiting, resending and giving up.
//!
//! The rule that the loop turns on is [`Run::resend_is_safe`]: after an outcome that may have taken effect,
//! only an idempotent method or an open replay window allows another send. It is asked before every send,
//! because every wait burns the window.

use std::time::Duration;

use super::attempt::Judged;
use super::hold::Hold;
use super::look_up::Looked;
use super::waits::spread_over;
use super::{Engine, Work};
use crate::answer::Answer;
use crate::attempt::AttemptReport;
use crate::clock::Instant;
use crate::error::{Disposition, Effect, Error, Gate, Kind, Reason, Refusal, Step};
use crate::policy::{Admission, Backoff, OnUnknown, Timeouts};
use crate::reply::{Obtained, Reply};
use crate::request::Request;
use crate::telemetry::{self, Whose};
use crate::transport::{SendError, SendErrorKind};
use crate::vendor::is_idempotent;

pub(super) struct Run<'a> {
    pub(super) engine: &'a Engine,
    pub(super) request: &'a Request,
    /// Boxed: most calls have none, and a record is large.
    pub(super) hold: Option<Box<Hold<'a>>>,
    pub(super) timeout: Timeouts,
    pub(super) started: Instant,
    pub(super) deadline: Instant,
    pub(super) pass_deadline_on: bool,
    /// Attempts over the operation's whole life.
    pub(super) attempts: u32,
    /// Whether any of them may have taken effect.
    pub(super) effect: Effect,
    /// When this run's last attempt that may have taken effect ended.
    pub(super) unknown_since: Option<Instant>,
    /// Look-ups that were answered since the last such attempt, of whichever run.
    pub(super) look_ups: u32,
    /// How many more sends may be a second effect.
    pub(super) resends_left: u32,
    pub(super) reports: Vec<AttemptReport>,
    /// How many of them went with a write to the record.
    pub(super) reports_written: usize,
    /// Time spent in waits, all told.
    pub(super) waited: Duration,
    pub(super) backoff: &'a Backoff,
    pub(super) retries_allowed: bool,
    /// The caller accepted a second effect for this resend.
    resend_accepted: bool,
    /// A look-up's miss was taken for proof that an attempt had no effect.
    absence_believed: bool,
    /// Nothing came between the claim and what follows.
    just_claimed: bool,
    /// Nobody waits for it.
    pub(super) recovered: bool,
    /// Attempts and look-ups of a recovered operation that were admitted in this run.
    pub(super) starts: u32,
    wait_before: Duration,
    /// The latest that the vendor asked this call to wait for.
    pub(super) left_alone_until: Instant,
    /// Tells a call without a key from all others once it has failed.
    pub(super) number: Option<u64>,
    pub(super) last: Last,
}

/// What the last attempt met, for the error that may come of it.
#[derive(Default)]
pub(super) struct Last {
    pub(super) answer: Option<Answer>,
    pub(super) failure: Option<SendError>,
}

impl Last {
    pub(super) fn failed_with(&self) -> Option<SendErrorKind> {
        self.failure.as_ref().map(SendError::kind)
    }
}

impl<'a> Run<'a> {
    /// `request` is the one on record, for an operation.
    pub(super) fn new(
        engine: &'a Engine,
        work: &'a Work,
        request: &'a Request,
        hold: Option<Box<Hold<'a>>>,
        started: Instant,
        deadline: Instant,
    ) -> Run<'a> {
        let (backoff, timeout) = match &work.policy {
            Some(own) => (&own.backoff, own.timeout),
            None => (&engine.policy.backoff, engine.policy.timeout),
        };
        let hold = hold.map(|hold| hold.for_call_until(deadline));
        let record = hold.as_ref().map(|hold| &hold.record);
        let look_ups = record.map_or(0, |record| record.look_ups);
        let asked_for = u32::from(work.on_unknown == OnUnknown::Resend);
        let resends_left = record.map_or(asked_for, |record| record.resends_left);
        Run {
            engine,
            request,
            attempts: record.map_or(0, |record| record.attempts),
            effect: record.map_or(Effect::None, |record| record.effect),
            hold,
            timeout,
            started,
            deadline,
            pass_deadline_on: work.pass_deadline_on,
            unknown_since: None,
            look_ups,
            resends_left,
            reports: Vec::new(),
            reports_written: 0,
            waited: Duration::ZERO,
            backoff,
            retries_allowed: work.retries_allowed,
            resend_accepted: false,
            absence_believed: false,
            just_claimed: false,
            recovered: work.recovered,
            starts: 0,
            wait_before: Duration::ZERO,
            left_alone_until: Instant::ORIGIN,
            number: None,
            last: Last::default(),
        }
    }

    /// Carries on with an operation that was taken over. For a caller, its next send is charged as a retry, unless it
    /// is known to be the first. Recovery pays by its own rate.
    pub(super) async fn resume(&mut self) -> Result<Reply, Error> {
        let is_first = self.attempts == 0 && self.effect == Effect::None;
        if !is_first && !self.recovered && !self.afford_retry() {
            return Err(self.out_of_budget(self.first_step()).await);
        }
        if self.recovered && self.is_left_to_a_look_up() {
            return self.exhausted().await;
        }
        self.drive(None).await
    }

    pub(super) async fn drive(&mut self, mut admission: Option<Admission<'a>>) -> Result<Reply, Error> {
        // The gates were waited for before this run began.
        self.waited =
            admission.as_ref().map_or(Duration::ZERO, |gate| gate.admitted_at().since(self.started));
        self.just_claimed = admission.is_some();
        loop {
            if !self.resend_is_safe() && !self.resend_accepted {
                drop(admission.take());
                if let Some(reply) = Box::pin(self.look_up_first()).await? {
                    return Ok(reply);
                }
            }
            let permit = match admission.take() {
                Some(permit) => permit,
                None => Box::pin(self.admit_again()).await?,
            };
            if self.window_closed_while_waiting() {
                continue;
            }
            let judged = self.attempt(permit).await?;
            self.resend_accepted = false;
            if let Judged::Done { answer, replayed } = judged {
                if replayed {
                    telemetry::replayed(self.whose(), "vendor");
                }
                let obtained = if replayed { Obtained::Replayed } else { Obtained::Fresh };
                return self.succeed(answer, obtained).await;
            }
            if let Some(reply) = Box::pin(self.after_failure(judged)).await? {
                return Ok(reply);
            }
        }
    }

    /// Before a resend that could be a second effect: what a look-up finds, or `None` if the resend may go.
    async fn look_up_first(&mut self) -> Result<Option<Reply>, Error> {
        match self.look_up().await? {
            Looked::Found(answer) => return self.succeed(answer, Obtained::Reconciled).await.map(Some),
            Looked::Absent => {
                self.effect = Effect::None;
                self.absence_believed = true;
            }
            // The renewal before the send writes it down.
            Looked::CannotTell if self.resends_left > 0 => {
                self.resends_left -= 1;
                self.resend_accepted = true;
            }
            Looked::CannotTell => return Err(self.bury(self.why_stuck()).await),
        }
        Ok(None)
    }

    /// After an attempt that is not done: the call's end, or `None` once another attempt is due.
    async fn after_failure(&mut self, judged: Judged) -> Result<Option<Reply>, Error> {
        match judged {
            Judged::Done { answer, .. } => self.succeed(answer, Obtained::Fresh).await.map(Some),
            Judged::Refused { answer, refusal: Refusal::Duplicate, speaks_for }
                if self.absence_believed || !self.is_settled_by(speaks_for) =>
            {
                self.perhaps_our_own(answer).await.map(Some)
            }
            Judged::Refused { answer, refusal, speaks_for } if self.is_settled_by(speaks_for) => {
                Err(self.refused(refusal, answer).await)
            }
            Judged::Refused { answer, refusal, .. } => self.refused_but_unknown(refusal, answer).await,
            Judged::Retry { .. } if !self.can_go_on() => Err(self.bury(Reason::Unknown).await),
            Judged::Retry { not_before } => self.wait_for_next_rung(not_before).await,
            Judged::Unknown => self.look_up_or_bury(Reason::Unknown).await.map(Some),
        }
    }

    /// Whether another send cannot cause a second effect.
    fn resend_is_safe(&self) -> bool {
        self.effect == Effect::None || is_idempotent(&self.request.method) || self.window_is_open()
    }

    /// Whether the vendor would still answer a resend from its own record. Counted on the wall clock from the
    /// first claim, so that it holds across restarts.
    pub(super) fn window_is_open(&self) -> bool {
        let Some(hold) = &self.hold else { return false };
        self.engine
            .vendor
            .replay_window(self.request)
            .is_some_and(|window| self.engine.clock.wall().since(hold.record.claimed_at) < window)
    }

    /// Waiting for the gates burns the window too.
    fn window_closed_while_waiting(&self) -> bool {
        !self.resend_is_safe() && !self.resend_accepted
    }

    /// Whether anything can follow an attempt of unknown effect: a safe resend, a look-up, or the caller's
    /// word that a duplicate is better than none.
    fn can_go_on(&self) -> bool {
        self.resend_is_safe() || self.resends_left > 0 || self.has_look_up()
    }

    fn why_stuck(&self) -> Reason {
        match self.engine.vendor.replay_window(self.request) {
            Some(_) => Reason::Expired,
            None => Reason::Unknown,
        }
    }

    /// Notes what an attempt may have done. A safe method (RFC 9110, section 9.2.1) does nothing, so that its last
    /// definite answer is the call's, whatever came before it.
    pub(super) fn note(&mut self, effect: Effect) {
        if effect == Effect::Unknown && !self.request.method.is_safe() {
            self.effect = Effect::Unknown;
            self.unknown_since = Some(self.engine.clock.now());
            self.look_ups = 0;
        }
    }

    /// Waits for the ladder's next rung, or ends the call: with the ladder spent, a look-up may still find the
    /// effect.
    pub(super) async fn wait_for_next_rung(
        &mut self,
        not_before: Option<Duration>,
    ) -> Result<Option<Reply>, Error> {
        let unit = self.engine.random.unit();
        let retry = self.attempts.saturating_sub(1);
        // A request that cannot be built is built no better a second time.
        let hopeless = self.last.failed_with() == Some(SendErrorKind::Request);
        let Some(rung) = self.backoff.wait(retry, self.wait_before, unit).filter(|_| !hopeless) else {
            return self.exhausted().await.map(Some);
        };
        // A vendor's wait is a floor: it is never cut, and jitter only ever comes on top of it.
        let asked = not_before.map(|wait| wait.saturating_add(spread_over(wait, unit)));
        let wait = asked.map_or(rung, |asked| asked.max(rung));
        let at = self.engine.clock.now().plus(wait);
        self.report_wait(wait);
        if !self.retries_allowed || not_before.is_some_and(|asked| self.is_over_the_cap(asked)) {
            return Err(self.postpone(at, self.dependency()).await);
        }
        if at >= self.deadline {
            return Err(self.out_of_time(at, Step::Attempt).await);
        }
        if !self.recovered && !self.afford_retry() {
            return Err(self.out_of_budget(wait).await);
        }
        self.wait_before = rung;
        telemetry::waiting(self.whose(), self.attempts, wait);
        self.sleep_until(at).await?;
        Ok(None)
    }

    /// Postpones by at least `wait`, and by up to the ladder's last step: a budget that is spent fills slowly, and
    /// what comes back at the first step would only be refused and written down again.
    async fn out_of_budget(&mut self, wait: Duration) -> Error {
        let last = self.backoff.steps.last().copied().unwrap_or_default();
        let wait = wait.max(last.mul_f64(self.engine.random.unit()));
        let at = self.engine.clock.now().plus(wait);
        self.postpone(at, Kind::Gate(Gate::Budget)).await
    }

    /// Charged when the retry is decided on, not when it is sent: retries that wait are load already.
    fn afford_retry(&self) -> bool {
        let afforded = self.engine.gates.budget().is_none_or(|budget| budget.spend(self.engine.clock.now()));
        if !afforded {
            telemetry::refused(self.whose(), Gate::Budget);
        }
        afforded
    }

    pub(super) async fn keep_lease(&mut self, needed: Duration) -> Result<(), Error> {
        if self.hold.as_ref().is_none_or(|hold| hold.lasts(needed)) {
            return Ok(());
        }
        self.renew_lease(needed).await
    }

    /// Makes sure of the hold before a send.
    ///
    /// The lease that we measure may be over for everybody else: the wall clock was set, or the machine slept,
    /// while our own clock knows nothing of it. Somebody may then have taken the operation, looked it up and sent
    /// it, or found that it never took effect and ended it so. Neither the method nor the vendor's key helps
    /// against the second: what we sent then would be the only effect, of an operation that failed without one.
    /// So every send but the one right behind the claim asks the store again, by a renewal under our fence. It
    /// costs a write where a wait came before anyway.
    pub(super) async fn hold_on_to_send(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.just_claimed) {
            return self.keep_lease(self.timeout.attempt).await;
        }
        self.renew_lease(self.timeout.attempt).await
    }

    /// A store that wrote in time may still answer when the new lease is over, and somebody else hold the
    /// operation by then. It is asked again, and a second answer that comes too late is believed no more.
    async fn renew_lease(&mut self, needed: Duration) -> Result<(), Error> {
        for _ in 0..RENEWALS_MAX {
            let evidence = self.evidence();
            let Some(hold) = &mut self.hold else { return Ok(()) };
            let renewed = hold.renew(needed, evidence).await;
            if renewed.is_err() || hold.lasts(Duration::ZERO) {
                return renewed.map_err(|error| self.in_context(error));
            }
        }
        let at = self.hold.as_ref().and_then(|hold| hold.record.until());
        let error = Error::new(Kind::Store { doing: "renew the lease in time" }, Effect::Unknown);
        Err(self.in_context(error.going_on(Disposition::Continues { at }).with_retry_at(at)))
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
}

/// A store this slow twice in a row is no store to send by; recovery carries on.
const RENEWALS_MAX: u32 = 2;

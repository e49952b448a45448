//! The one loop: `claim → [ admit → send → classify → wait ] → settle`, with everything injected.
//!
//! [`Engine::call`] decides whether a call is an operation, claims it, and hands it to a [`run::Run`], which
//! holds the loop. What the loop needs of one attempt is in [`attempt`], of a look-up in [`look_up`], of the
//! record in [`hold`].

use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::Duration;

use crate::answer::Answer;
use crate::clock::{Clock, Instant};
use crate::error::{Context, Effect, Error, Gate, Kind, Origin as _};
use crate::operation::record::{Claimed, Record, State};
use crate::operation::{Fingerprint, Key, OperationId, RedactedFields, Unstamped, fingerprint};
use crate::policy::{Admission, CallPolicy, Gates, OnUnknown, Policy, Refusal as GateRefusal};
use crate::random::Random;
use crate::reply::{Obtained, Reply};
use crate::request::Request;
use crate::store::Store;
use crate::telemetry::{self, Whose};
use crate::transport::Transport;
use crate::vendor::Adapter;

mod attempt;
mod claim;
mod ending;
mod hold;
mod limit;
mod liveness;
mod look_up;
mod on_record;
mod patience;
mod recovery;
mod run;
mod waits;

use claim::Offered;
use hold::Hold;
pub(crate) use patience::SLEEP_MAX;
use run::Run;
use waits::{spread, spread_over};

/// Everything one client is made of.
#[derive(Debug)]
pub(crate) struct Engine {
    pub vendor: Arc<Adapter>,
    /// What calls' URLs are cloned from: see [`with_room`](crate::call::with_room).
    pub base_with_room: url::Url,
    pub store: Arc<dyn Store>,
    pub transport: Arc<dyn Transport>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub policy: Policy,
    pub gates: Gates,
    pub namespace: String,
    /// What is never shown of any of this client's operations.
    pub redact: RedactedFields,
    pub generated_keys: AtomicU16,
    pub meters: telemetry::Meters,
}

/// What one call asks for beside its request.
#[derive(Debug)]
pub(crate) struct Work {
    /// `None` for a call that is no operation.
    pub key: Option<Key>,
    /// What this call overrides of the vendor's policy.
    pub policy: Option<CallPolicy>,
    /// What the caller's own caller still allows.
    pub deadline: Option<Duration>,
    /// Somebody above us already retries.
    pub retries_allowed: bool,
    /// Whether the deadline goes out again in `X-Request-Timeout`.
    pub pass_deadline_on: bool,
    pub on_unknown: OnUnknown,
    /// Nobody waits for it: it goes at recovery's own rate, and long waits are left to the schedule.
    pub recovered: bool,
    /// What is never shown of this operation, beside what its client names.
    pub redact: RedactedFields,
}

impl Work {
    fn time_allowed(&self, policy: &Policy) -> Duration {
        let total = self.policy.as_ref().map_or(policy.timeout.total, |own| own.timeout.total);
        self.deadline.map_or(total, |deadline| deadline.min(total))
    }
}

impl Engine {
    /// Carries a call that `started` just now through to its end, or to the end of its time.
    pub(crate) async fn call(
        &self,
        request: &mut Request,
        work: &mut Work,
        started: Instant,
    ) -> Result<Reply, Error> {
        let deadline = started.plus(work.time_allowed(&self.policy));
        match work.key.take() {
            // Boxed, as is all that a healthy plain call does not need: it would make each call's future, which is
            // moved about, several times as large.
            Some(key) => Box::pin(self.keyed(request, work, key, started, deadline)).await,
            None if deadline <= started => Err(self.in_context(no_time(), request, None)),
            None => {
                let whose = Whose { vendor: &**self.vendor, request, operation: None };
                let admission = self
                    .admit_first(whose, started, deadline)
                    .await
                    .map_err(|refused| self.in_context(refused, request, None))?;
                self.earn(&admission);
                let mut run = Run::new(self, work, request, None, started, deadline);
                run.drive(Some(admission)).await
            }
        }
    }

    async fn keyed(
        &self,
        request: &mut Request,
        work: &Work,
        key: Key,
        started: Instant,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        let fingerprint = fingerprint(&self.vendor.account(&request.headers), request);
        let unstamped = Unstamped::of(request);
        let id = OperationId::new(self.scope_of(request), key);
        let stamped = self.vendor.stamp(id.wire_key(), request);
        let named = |error| self.in_context(error, request, Some((&id, None)));
        let wire_key = stamped.map_err(named)?;
        let whose = Whose { vendor: &**self.vendor, request, operation: Some((&id, &wire_key)) };
        telemetry::named(whose);
        let offered = Offered { fingerprint, unstamped: Some(&unstamped), request };

        if deadline <= started {
            let refused = named(no_time());
            return Box::pin(self.refused_before_claim(refused, &id, offered, deadline)).await;
        }
        // What is answered from the record must not use up the rate, which is for what is sent. A look costs a clean
        // call more than a claim that finds the same, so that only a client with a rate limit looks.
        if self.policy.rate.is_some()
            && let Some(told) = Box::pin(self.told_at_once(&id, offered, deadline)).await
        {
            return told.map_err(|error| self.named_if_it_is_not(error, request, &id));
        }
        // Asked before the claim, so that a refusal writes nothing.
        let admission = match self.admit_first(whose, started, deadline).await {
            Ok(admission) => admission,
            Err(refused) => {
                let refused = named(refused);
                return Box::pin(self.refused_before_claim(refused, &id, offered, deadline)).await;
            }
        };
        let claim_with = |fingerprint| self.claim_of(&id, fingerprint, wire_key.clone(), request, work);
        let claim = claim_with(fingerprint);
        let lease = claim.lease;
        let lease_until = self.clock.now().plus(lease);
        // What is known by now is boxed, and no record lives on through the awaits below: each would be part of
        // every call's future.
        let claimed = self.claim(claim, claim_with, offered, deadline).await;
        let hold = match claimed {
            Some(Ok(Claimed::Fresh(record))) => {
                self.earn(&admission);
                Box::new(Hold::new(self, record, lease_until))
            }
            Some(Ok(Claimed::TakenOver(record))) => {
                // Not the first send: it is charged and admitted as the retry that it is.
                self.earn(&admission);
                drop(admission);
                telemetry::taken_over(&**self.vendor, &record);
                let hold = Box::new(Hold::new(self, record, lease_until));
                return Box::pin(self.carry_on_with(hold, work, started, deadline)).await;
            }
            Some(Ok(Claimed::Settled(record))) => {
                drop(admission);
                let ended = self.replay(record);
                return self.with_cause_on_record(ended, &id, deadline).await;
            }
            Some(Ok(Claimed::Busy { frees_at })) => {
                drop(admission);
                let told = Box::pin(self.busy(&id, offered, deadline, frees_at)).await;
                return told.map_err(|error| self.named_if_it_is_not(error, request, &id));
            }
            Some(Ok(Claimed::Mismatch { held })) => return Err(named(key_reused(held, fingerprint))),
            Some(Err(failure)) => {
                drop(admission);
                return Box::pin(self.not_claimed(Some(failure), (&id, offered), deadline, lease)).await;
            }
            None => {
                drop(admission);
                return Box::pin(self.not_claimed(None, (&id, offered), deadline, lease)).await;
            }
        };
        let mut run = Run::new(self, work, request, Some(hold), started, deadline);
        let ended = run.drive(Some(admission)).await;
        Box::pin(self.unless_overtaken(ended, &id, offered, deadline)).await
    }

    /// Asks the gates for the first attempt, and waits for them as long as the policy allows.
    async fn admit_first(
        &self,
        whose: Whose<'_>,
        started: Instant,
        deadline: Instant,
    ) -> Result<Admission<'_>, Error> {
        let patience = started.plus(self.policy.admission_wait).min(deadline);
        let mut now = started;
        loop {
            let refusal = match self.gates.admit(now) {
                Ok(admission) => return Ok(admission),
                Err(refusal) => refusal,
            };
            match self.come_back(refusal, now) {
                Some(at) if at < patience => {
                    telemetry::held_back(whose, refusal.gate, at.since(now));
                    self.clock.sleep_until(at).await;
                    now = self.clock.now();
                }
                _ => {
                    telemetry::refused(whose, refusal.gate);
                    let retry_at = refusal.retry_at.map(|at| self.clock.wall().plus(at.since(now)));
                    return Err(Error::refused_by(refusal.gate, retry_at, Effect::None));
                }
            }
        }
    }

    /// A call that goes out earns its part of a retry. One that is answered from the record does not: it puts no
    /// load on the vendor that a share of it could be allowed for.
    fn earn(&self, admission: &Admission<'_>) {
        if let Some(budget) = self.gates.budget() {
            budget.earn(admission.admitted_at());
        }
    }

    /// When to ask the gates again after a refusal, a little later than they said; `None` if only a person can
    /// tell.
    pub(crate) fn come_back(&self, refusal: GateRefusal, now: Instant) -> Option<Instant> {
        let at = match refusal.gate {
            // Nobody knows when a call ends; they end often.
            Gate::Concurrency => Some(now.plus(CONCURRENCY_PAUSE)),
            _ => refusal.retry_at,
        };
        let unit = self.random.unit();
        at.map(|at| {
            at.plus(if refusal.gate == Gate::Pause { spread_over(at.since(now), unit) } else { spread(unit) })
        })
    }

    /// What a settled operation answers, without sending anything.
    fn replay(&self, record: Record) -> Result<Reply, Error> {
        if matches!(record.state, State::Succeeded { .. }) {
            telemetry::replayed(Whose::of(&**self.vendor, &record), "record");
        }
        let disposition = on_record::disposition(&record);
        let Record { id, wire_key, request, state, attempts, effect, .. } = record;
        let named = |error: Error| self.in_context(error, &request, Some((&id, Some(&wire_key))));
        match state {
            State::Succeeded { answer, reconciled } => {
                if answer.cut {
                    return Err(named(ending::too_large(self.policy.limits.reply_bytes_max, answer)));
                }
                let obtained = if reconciled { Obtained::Reconciled } else { Obtained::Replayed };
                Ok(Reply::new(answer, obtained, attempts).keyed(id.key.as_str().to_owned(), wire_key))
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

    /// Of a dead letter without an answer only the log of its attempts knows why. It is read for whoever asks again;
    /// a store that cannot say, or not in time, changes nothing about the error.
    async fn with_cause_on_record(
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

    /// How long a holder may need for one attempt and what surrounds it.
    fn lease(&self, work: &Work) -> Duration {
        self.attempt_max(work).saturating_add(self.policy.record.lease_margin)
    }

    /// The longest exchange of a call.
    fn attempt_max(&self, work: &Work) -> Duration {
        work.policy.as_ref().map_or(self.policy.timeout.attempt, |own| own.timeout.attempt)
    }

    /// What the record told is named after the record, what we say ourselves is not named yet.
    fn named_if_it_is_not(&self, error: Error, request: &Request, id: &OperationId) -> Error {
        if error.key().is_some() { error } else { self.in_context(error, request, Some((id, None))) }
    }

    fn in_context(
        &self,
        error: Error,
        request: &Request,
        operation: Option<(&OperationId, Option<&str>)>,
    ) -> Error {
        let call = self.vendor.context(&request.method, &request.url);
        error.with_context(match operation {
            None => call,
            Some((id, wire_key)) => Context {
                operation: Some(id.scope.as_str().to_owned()),
                key: Some(id.key.as_str().to_owned()),
                wire_key: wire_key.map(str::to_owned),
                ..call
            },
        })
    }
}

/// A call whose time was over when it began.
fn no_time() -> Error {
    Error::new(Kind::Deadline { budget: Duration::ZERO, next: None }, Effect::None)
}

/// The key belongs to another request; nothing was sent.
fn key_reused(held: Fingerprint, offered: Fingerprint) -> Error {
    let kind = Kind::KeyReused { held: held.to_string(), offered: offered.to_string() };
    Error::new(kind, Effect::None)
}

/// Between two looks at a full concurrency limit, before the spread: short beside a vendor's latency, long
/// beside what a look costs.
const CONCURRENCY_PAUSE: Duration = Duration::from_millis(5);

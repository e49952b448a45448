//! The beginning of a call, up to its first attempt: its name, the gates, the claim, and what it is told if it does not
//! get to send.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::decision::STORE_GRACE;
use steadfast_core::internal::decision::claim::{Intent, Meaning, meaning};
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{ErrorExt, RequestExt};
use steadfast_core::internal::operation::Unstamped;
use steadfast_core::internal::policy::Admission;
use steadfast_core::operation::record::Record;
use steadfast_core::operation::{Fingerprint, Key, OperationId};
use steadfast_core::transport::Request;
use steadfast_core::{Effect, Error, InFlight};

use super::claim::{Keyed, Offered, key_reused};
use super::hold::Hold;
use super::run::Run;
use super::{Engine, Times, Work, driver};

use crate::reply::Reply;
use crate::telemetry::{self, Whose};

/// Why a call got no reply.
pub(super) enum Stop {
    With(Error),
    /// Another call holds the key or has taken the operation over, or the operation is scheduled for a time before the
    /// deadline: what the call is told unless it waits.
    Held(Error),
}

/// A keyed call's operation.
#[derive(Debug)]
pub(crate) struct Named {
    pub id: OperationId,
    pub wire_key: String,
    fingerprint: Fingerprint,
    unstamped: Unstamped,
    pub(super) keep: Duration,
}

impl Named {
    /// The operation of this name, of which `record` may be on record.
    pub(super) fn by_name(id: OperationId, request: &Request, record: Option<&Record>) -> Named {
        let fingerprint = record.map_or(Fingerprint::from_bytes([0; 32]), |record| record.fingerprint);
        let wire_key = record.map_or_else(|| id.wire_key().to_string(), |record| record.wire_key.clone());
        let keep = record.map_or(Duration::MAX, |record| record.keep);
        Named { id, wire_key, fingerprint, unstamped: Unstamped::of(request), keep }
    }

    /// The stamped request under its key, without a deadline.
    pub(super) fn offered<'a>(&'a self, request: &'a Arc<Request>) -> Offered<'a> {
        let Named { id, fingerprint, unstamped, .. } = self;
        let deadline = Instant::ORIGIN;
        Offered { id, fingerprint: *fingerprint, unstamped: Some(unstamped), request, deadline }
    }

    /// The call, from when and until when it lasts.
    pub(super) fn call<'a>(
        &'a self,
        request: &'a Arc<Request>,
        work: &'a Work,
        (started, deadline): (Instant, Instant),
    ) -> Keyed<'a> {
        let offered = Offered { deadline, ..self.offered(request) };
        Keyed { offered, wire_key: &self.wire_key, work, keep: self.keep, due: None, row: None, started }
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
        let deadline = started.plus(work.time_allowed(&self.policy, started));
        match work.key.take() {
            Some(key) => self.keyed(request, work, key, started, deadline).await,
            None if deadline <= started => Err(self.in_context(no_time(), request, None)),
            None => {
                let whose = Whose { vendor: &**self.vendor, request, operation: None };
                let admission = self
                    .admit_first(whose, started, deadline)
                    .await
                    .map_err(|refused| self.in_context(refused, request, None))?;
                self.earn(&admission);
                let mut run = Run::new(self, work, request, None, started, deadline);
                driver::drive_admitted(&mut run, admission).await
            }
        }
    }

    /// Asks the gates for the first attempt, and waits for them from `began` on, as long as the policy allows.
    pub(super) async fn admit_first(
        &self,
        whose: Whose<'_>,
        began: Instant,
        deadline: Instant,
    ) -> Result<Admission<'_>, Error> {
        let patience = began.plus(self.policy.admission_wait).min(deadline);
        let mut now = began;
        loop {
            let refusal = match self.gates.admit_to(self.route_if_asked(whose.request).as_deref(), now) {
                Ok(admission) => return Ok(admission),
                Err(refusal) => refusal,
            };
            match self.ask_again_at(refusal, now).filter(|at| *at < patience) {
                Some(at) => {
                    telemetry::held_back(whose, refusal.gate, at.since(now));
                    self.clock.sleep_until(at).await;
                    now = self.clock.now();
                }
                None => {
                    telemetry::refused(whose, refusal.gate);
                    let retry_at = refusal.retry_at.map(|at| self.wall().plus(at.since(now)));
                    return Err(Error::refused_by(refusal.gate, retry_at, Effect::None));
                }
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
        let named = self.name_of_call(request, work, key, deadline).await?;
        // The record shares the request, so that none is copied. The caller has it back once the call has ended.
        let shared = Arc::new(mem::replace(request, Request::empty()));
        let ended = self.carry_out(&named, &shared, work, (started, deadline)).await;
        *request = Arc::unwrap_or_clone(shared);
        ended
    }

    async fn carry_out(
        &self,
        named: &Named,
        request: &Arc<Request>,
        work: &Work,
        (started, deadline): (Instant, Instant),
    ) -> Result<Reply, Error> {
        let call = named.call(request, work, (started, deadline));
        let offered = call.offered;
        telemetry::named(call.whose(&self.vendor));

        if deadline <= started {
            let refused = self.named(no_time(), offered);
            return Box::pin(self.refused_before_claim(refused, call)).await.map_err(Stop::into_error);
        }
        let told = match self.begin(&call, started).await {
            Err(Stop::Held(told)) if work.in_flight == InFlight::Wait => told,
            ended => return ended.map_err(Stop::into_error),
        };
        Box::pin(self.wait_for_holder(call, told)).await
    }

    /// Stamps the request, and gives the operation its name.
    pub(super) fn name(&self, request: &mut Request, work: &Work, key: Key) -> Result<Named, Error> {
        self.name_at(request, work, key, None).map_err(|(refused, _)| refused)
    }

    /// The names that the operation had below former base URLs: by one of them it may be on record.
    pub(super) fn former_names(
        &self,
        request: &Request,
        work: &Work,
        key: &Key,
    ) -> Result<Vec<Named>, Error> {
        let paths = self.former_paths(request.url.path());
        let named = paths.map(|path| self.name_at(&mut request.clone(), work, key.clone(), Some(&path)));
        named.collect::<Result<_, _>>().map_err(|(refused, _)| refused)
    }

    /// The same, with the name that it is on record by if its vendor has moved since. A refusal has the
    /// effect that is on record: an earlier version of the service may have sent the key with a request that was right.
    pub(super) async fn name_on_record(
        &self,
        request: &mut Request,
        work: &Work,
        key: Key,
        deadline: Instant,
    ) -> Result<Named, Error> {
        let former = match self.former_base_urls.is_empty() {
            true => None,
            false => {
                let until = deadline.max(self.clock.now().plus(STORE_GRACE));
                Box::pin(self.former_name(request, &key, until)).await?
            }
        };
        match self.name_at(request, work, key, former.as_deref()) {
            Ok(named) => Ok(named),
            Err((refused, id)) => Err(Box::pin(self.as_on_record(refused, &id, deadline)).await),
        }
    }

    /// The same for a call that has a caller. Refused where the account's terms are not this client's.
    pub(super) async fn name_of_call(
        &self,
        request: &mut Request,
        work: &Work,
        key: Key,
        deadline: Instant,
    ) -> Result<Named, Error> {
        let named = self.name_on_record(request, work, key, deadline).await?;
        match self.disagreement.check() {
            Ok(()) => Ok(named),
            Err(refused) => {
                let refused = self.in_context(refused, request, Some((&named.id, None)));
                Err(Box::pin(self.as_on_record(refused, &named.id, deadline)).await)
            }
        }
    }

    fn name_at(
        &self,
        request: &mut Request,
        work: &Work,
        key: Key,
        former: Option<&str>,
    ) -> Result<Named, (Error, OperationId)> {
        let account = self.vendor.account(&request.headers);
        let (scope, fingerprint) = match former {
            None => (self.scope_of(request), self.vendor.fingerprint(&account, request)),
            Some(path) => {
                let mut before = request.clone();
                before.url.set_path(path);
                (self.scope_of(&before), self.vendor.fingerprint(&account, &before))
            }
        };
        drop(account);
        let unstamped = Unstamped::of(request);
        let id = OperationId::new(scope, key);
        let stamped = self.vendor.stamp(id.wire_key(), request);
        let made = stamped.and_then(|wire_key| {
            self.secrets.check(request)?;
            Ok((wire_key, self.keep(request, work)?))
        });
        match made {
            Ok((wire_key, keep)) => Ok(Named { id, fingerprint, unstamped, wire_key, keep }),
            Err(refused) => Err((self.in_context(refused, request, Some((&id, None))), id)),
        }
    }

    /// Gates, claim, and the loop if the operation is this call's. `began` is now, as far as the gates are concerned.
    pub(super) async fn begin(&self, call: &Keyed<'_>, began: Instant) -> Result<Reply, Stop> {
        let deadline = call.offered.deadline;
        // What is answered from the record must not use up the rate, which is for what is sent, nor wait for it. A look
        // costs a clean call more than a claim that finds the same, so that nobody looks while there is room to lend.
        //
        // What most calls do not come to is boxed. The way of every keyed call is not: it is part of the call's own future,
        // and takes nothing from the allocator.
        if !self.gates.lend_room()
            && let Some(told) = Box::pin(self.answer_from_record(*call)).await
        {
            return told;
        }
        let admission = match self.admit_first(call.whose(&self.vendor), began, deadline).await {
            Ok(admission) => admission,
            Err(refused) => {
                let refused = self.named(refused, call.offered);
                return Box::pin(self.refused_before_claim(refused, *call)).await;
            }
        };
        let lease_until = self.clock.now().plus(self.lease(call.work));
        let claimed = match self.claim(call).await {
            Ok(claimed) => claimed,
            Err(failure) => {
                drop(admission);
                return Box::pin(self.not_claimed(failure, *call)).await;
            }
        };
        let record = match meaning(*claimed, Intent::Send) {
            Meaning::Send(record) => record,
            other => return Box::pin(self.not_the_first(call, other, (admission, lease_until))).await,
        };
        self.earn(&admission);
        let hold = Hold::new(self, record, lease_until);
        let fence = hold.record.fence;
        match self.send(call, hold, admission).await {
            Err(error) if error.is_store() => {
                Ok(Box::pin(self.unless_overtaken(error, call.offered, fence)).await?)
            }
            ended => Ok(ended?),
        }
    }

    /// Sends an operation that was not sent before.
    async fn send<'a>(
        &'a self,
        call: &Keyed<'a>,
        hold: Box<Hold<'a>>,
        admission: Admission<'a>,
    ) -> Result<Reply, Error> {
        let Keyed { offered: Offered { request, deadline, .. }, work, started, .. } = *call;
        let mut run = Run::new(self, work, request, Some(hold), started, deadline);
        driver::drive_admitted(&mut run, admission).await
    }

    /// Ends or carries on a call that found its operation on record. The admission is dropped before anything else: a
    /// call that does not send keeps no other from sending.
    async fn not_the_first(
        &self,
        call: &Keyed<'_>,
        meaning: Meaning,
        (admission, lease_until): (Admission<'_>, Instant),
    ) -> Result<Reply, Stop> {
        let Keyed { offered, work, .. } = *call;
        if let Meaning::CarryOn { .. } = meaning {
            self.earn(&admission);
        }
        drop(admission);
        match meaning {
            // A first claim does not come here; taken for another, it is no less safe.
            Meaning::Send(record)
            | Meaning::Recorded(record)
            | Meaning::CarryOn { record, is_accepted: false } => {
                self.take_over(call, record, lease_until, false).await
            }
            Meaning::CarryOn { record, is_accepted: true } => {
                self.take_over(call, record, lease_until, true).await
            }
            Meaning::Ended(record) => {
                Ok(self.with_cause_on_record(self.replay(record), offered.id, offered.deadline).await?)
            }
            Meaning::Held { frees_at } => Box::pin(self.busy(*call, frees_at)).await,
            Meaning::OnRecord | Meaning::Later => Box::pin(self.busy(*call, self.wall())).await,
            Meaning::OtherRequest { held, effect, next } => {
                Err(self.named(key_reused(held, offered.fingerprint, (effect, next)), offered).into())
            }
            Meaning::InTheWay { obstacle, effect } => {
                Err(self.named(self.in_the_way(work, obstacle, effect), offered).into())
            }
        }
    }

    /// Carries on with an operation that is on record. Not the first send: it is charged and admitted as the retry that it
    /// is.
    async fn take_over(
        &self,
        call: &Keyed<'_>,
        record: Record,
        lease_until: Instant,
        is_accepted: bool,
    ) -> Result<Reply, Stop> {
        telemetry::taken_over(&**self.vendor, &record);
        let mut hold = Hold::new(self, record, lease_until);
        hold.is_accepted = is_accepted;
        let times = Times { started: call.started, deadline: call.offered.deadline };
        Ok(Box::pin(self.carry_on_with(hold, call.work, times, None)).await?)
    }
}

impl Stop {
    pub(super) fn into_error(self) -> Error {
        match self {
            Stop::With(error) | Stop::Held(error) => error,
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        if error.is_fenced() { Stop::Held(error) } else { Stop::With(error) }
    }
}

/// A call whose time was over when it began.
pub(super) fn no_time() -> Error {
    Error::new(Kind::Deadline { budget: Duration::ZERO, next: None }, Effect::None)
}

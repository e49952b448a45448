//! One process's hold on an operation: its record, and every write it makes to it.

use std::mem;
use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::decision::{Evidence, Lease, Settling};
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{ErrorExt, RecordExt, WakesExt};
use steadfast_core::operation::record::{Record, State, Transition};
use steadfast_core::{AttemptReport, Disposition, Effect, Error};

use super::Engine;
use crate::limit;
use crate::telemetry;

/// The operation as this process holds it.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    engine: &'a Engine,
    /// The record as of the last write.
    pub record: Record,
    /// A caller was told that it goes on by itself: a later holder does not end it for want of credentials.
    pub is_accepted: bool,
    /// The lease as it was at the claim or the take.
    pub lease: Lease,
    /// The last send of unknown effect before this hold; `None` if there was none.
    pub settling: Option<Settling>,
}

impl<'a> Hold<'a> {
    /// `lease_until` was computed before the claim was made.
    pub(super) fn new(engine: &'a Engine, record: Record, lease_until: Instant) -> Box<Hold<'a>> {
        let lease = Lease::of(&record, lease_until, engine.policy.lease_margin, engine.clock.now());
        let is_accepted = record.fence != record.first_fence;
        Box::new(Hold { engine, record, is_accepted, lease, settling: None })
    }

    /// A write that fails after the vendor may have answered is reported with effect unknown, and never leads to
    /// another send. The record stays in progress until its lease runs out and it is recovered. A write that is
    /// declined ends the call: the process that took the operation decides.
    ///
    /// It is not waited for beyond `until`.
    pub(super) async fn write(
        &mut self,
        doing: &'static str,
        transition: Transition,
        until: Instant,
    ) -> Result<(), Error> {
        let clock = &*self.engine.clock;
        let written = (*self.engine.store).transition(&self.record, transition);
        let Some(written) = limit::within(clock, until, written).await else {
            return Err(self.unwritten(doing));
        };
        match written {
            Ok(Ok(record)) => {
                self.update(record);
                Ok(())
            }
            Ok(Err(declined)) => {
                telemetry::declined(&**self.engine.vendor, &self.record, doing, declined);
                let error = Error::new(Kind::Fenced, Effect::Unknown);
                Err(error.with_disposition(Disposition::Continues { at: None }))
            }
            Err(source) => Err(self.unwritten(doing).with_source(source)),
        }
    }

    /// The write of a state, with what is known of the attempts.
    pub(super) fn transition(
        &self,
        to: State,
        evidence: Evidence,
        reports: Vec<AttemptReport>,
    ) -> Transition {
        let Evidence { attempts, effect, unknown_since, lookups, resends_left } = evidence;
        let (fence, now) = (self.record.fence, self.engine.wall());
        Transition { fence, now, attempts, effect, unknown_since, lookups, resends_left, to, reports }
    }

    /// Takes over the record as it was written. Callers that wait for the outcome are told once there is one.
    fn update(&mut self, record: Record) {
        self.record = record;
        if self.record.may_have_happened_twice() {
            telemetry::may_have_happened_twice(&**self.engine.vendor, &self.record);
        }
        if !matches!(self.record.state, State::InProgress { .. }) {
            self.engine.wakes.waiting().moved(&self.record);
            self.engine.pass_turn(&self.record);
        }
    }

    /// Whether an outcome whose write was taken for lost is on record. Under our fence no other process writes one,
    /// but for a late success, which is no less true than ours.
    pub(super) async fn is_written(&mut self, to: &State, until: Instant) -> bool {
        let read = limit::within(&*self.engine.clock, until, self.engine.store.get(&self.record.id)).await;
        let Some(Ok(Some(record))) = read else { return false };
        let is_ours = record.fence == self.record.fence && is_same(to, &record.state);
        if is_ours {
            self.update(record);
        }
        is_ours
    }

    /// A write that may not be on file: the record stays in progress until its lease runs out, and is recovered.
    fn unwritten(&self, doing: &'static str) -> Error {
        let at = self.record.until();
        Error::new(Kind::Store { doing }, Effect::Unknown)
            .with_disposition(Disposition::Continues { at })
            .with_retry_at(at)
    }

    /// Extends the lease to `needed` from now, and the margin. Returns its new end.
    ///
    /// A store that wrote in time may still answer when the new lease is over, and another process hold the operation by
    /// then. It is asked again, and a second answer that comes too late is believed no more. Nothing is sent once the
    /// call's time is over, so that the lease is not needed any more then.
    pub(super) async fn renew_in_time(
        &mut self,
        mut lease: Lease,
        needed: Duration,
        evidence: Evidence,
        mut lines: Vec<AttemptReport>,
        deadline: Instant,
    ) -> Result<Instant, Error> {
        let lasts = needed.saturating_add(self.engine.policy.lease_margin);
        for _ in 0..RENEWALS_MAX {
            let now = self.engine.clock.now();
            let lease_until = self.engine.wall().plus(lasts);
            let renewal = self.transition(State::InProgress { lease_until }, evidence, mem::take(&mut lines));
            self.write("renew the lease", renewal, deadline).await?;
            lease.renew(now.plus(lasts));
            if lease.lasts(self.engine.clock.now(), Duration::ZERO) {
                return Ok(lease.until());
            }
        }
        let at = self.record.until();
        let error = Error::new(Kind::Store { doing: "renew the lease in time" }, Effect::Unknown);
        Err(error.with_disposition(Disposition::Continues { at }).with_retry_at(at))
    }
}

/// Whether two are the same but for their times and answers.
pub(super) fn is_same(one: &State, other: &State) -> bool {
    mem::discriminant(one) == mem::discriminant(other)
}

/// A store this slow twice in a row is no store to send by; recovery carries on.
const RENEWALS_MAX: u32 = 2;

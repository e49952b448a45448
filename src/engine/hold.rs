//! One process's hold on an operation: its fence, its lease, and every write it makes to the record.

use std::time::Duration;

use super::on_record::STORE_GRACE;
use super::{Engine, limit};
use crate::answer::Answer;
use crate::attempt::AttemptReport;
use crate::clock::{Instant, Timestamp};
use crate::error::{Disposition, Effect, Error, Kind, Reason, Refusal};
use crate::operation::record::{Event, Record, Transition};
use crate::telemetry;

/// The operation as this process holds it.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    engine: &'a Engine,
    /// The record as of the last write.
    pub record: Record,
    /// On our own monotonic clock, so that a wall clock that jumps cannot make us overstay.
    lease_until: Instant,
    /// The end of the call's time: no write is waited for beyond it.
    deadline: Instant,
    /// When this hold began, and how long after the first claim that was.
    began: (Instant, Duration),
}

impl<'a> Hold<'a> {
    /// `lease_until` was computed before the claim was made, so it is no later than what the store wrote.
    pub(super) fn new(engine: &'a Engine, record: Record, lease_until: Instant) -> Hold<'a> {
        let age = engine.clock.wall().since(record.claimed_at);
        Hold { engine, record, lease_until, deadline: lease_until, began: (engine.clock.now(), age) }
    }

    /// The time since the first claim. What passed while this process held the operation is on our own monotonic
    /// clock, so that a wall clock which is set back makes it no shorter.
    pub(super) fn measured(&self) -> Duration {
        let (began, age) = self.began;
        age.saturating_add(self.engine.clock.now().since(began))
    }

    /// The same hold, for a call that has time until `deadline`.
    pub(super) fn for_call_until(mut self: Box<Self>, deadline: Instant) -> Box<Self> {
        self.deadline = deadline;
        self
    }

    /// The latest moment at which this holder may still be sending: half the margin before anybody else may
    /// take the operation.
    pub(super) fn stop_at(&self) -> Instant {
        let margin = self.engine.policy.record.lease_margin / 2;
        Instant::from_nanos(self.lease_until.as_nanos().saturating_sub(margin.as_nanos() as u64))
    }

    /// Whether the hold lasts for `needed` from now, with the margin to spare.
    pub(super) fn lasts(&self, needed: Duration) -> bool {
        self.engine.clock.now().plus(needed) < self.stop_at()
    }

    /// Extends the hold to `needed` from now, and the margin.
    pub(super) async fn renew(&mut self, needed: Duration, evidence: Evidence) -> Result<(), Error> {
        let now = self.engine.clock.now();
        let lease = needed.saturating_add(self.engine.policy.record.lease_margin);
        let lease_until = self.engine.clock.wall().plus(lease);
        self.write("renew the lease", Event::Renew { lease_until }, evidence).await?;
        self.lease_until = now.plus(lease);
        Ok(())
    }

    // The four below give `write`'s own future: an `async fn` around it would hold all that is written twice.

    pub(super) fn schedule(&mut self, at: Timestamp, evidence: Evidence) -> impl Future<Output = Written> {
        self.write("schedule the next attempt", Event::Schedule { at }, evidence)
    }

    pub(super) fn succeed(
        &mut self,
        answer: Answer,
        reconciled: bool,
        evidence: Evidence,
    ) -> impl Future<Output = Written> {
        self.write("record the outcome", Event::Succeed { answer, reconciled }, evidence)
    }

    pub(super) fn refuse(
        &mut self,
        refusal: Refusal,
        answer: Answer,
        evidence: Evidence,
    ) -> impl Future<Output = Written> {
        self.write("record the outcome", Event::Refuse { refusal, answer }, evidence)
    }

    pub(super) fn bury(
        &mut self,
        reason: Reason,
        answer: Option<Answer>,
        evidence: Evidence,
    ) -> impl Future<Output = Written> {
        self.write("record the dead letter", Event::Bury { reason, answer }, evidence)
    }

    /// A write that fails after the vendor may have answered is reported with effect unknown, and never leads
    /// to another send: the record stays in progress until its lease runs out and it is recovered. A write that
    /// is declined ends the call: whoever took the operation has the say.
    async fn write(&mut self, doing: &'static str, event: Event, evidence: Evidence) -> Written {
        let Evidence { attempts, effect, unknown_since, look_ups, resends_left, reports } = evidence;
        let (fence, now) = (self.record.fence, self.engine.clock.wall());
        let renews = matches!(event, Event::Renew { .. });
        let transition = Transition {
            fence,
            now,
            attempts,
            effect,
            unknown_since,
            look_ups,
            resends_left,
            event,
            reports,
        };
        // A renewal comes before a send, and nothing is sent once the time is over. An outcome has a little more.
        let clock = &*self.engine.clock;
        let until = if renews { self.deadline } else { self.deadline.max(clock.now().plus(STORE_GRACE)) };
        let written = (*self.engine.store).transition(&self.record, transition);
        let Some(written) = limit::within(clock, until, written).await else {
            return Err(self.unwritten(doing));
        };
        match written {
            Ok(Ok(record)) => {
                self.record = record;
                Ok(())
            }
            Ok(Err(declined)) => {
                telemetry::declined(&**self.engine.vendor, &self.record, doing, declined);
                let error = Error::new(Kind::Fenced, Effect::Unknown);
                Err(error.going_on(Disposition::Continues { at: None }))
            }
            Err(source) => Err(self.unwritten(doing).with_source(source)),
        }
    }

    /// A write that may not be on file: the record stays in progress until its lease runs out, and is recovered.
    fn unwritten(&self, doing: &'static str) -> Error {
        let at = self.record.until();
        Error::new(Kind::Store { doing }, Effect::Unknown)
            .going_on(Disposition::Continues { at })
            .with_retry_at(at)
    }
}

/// Whether a write to the record was done.
type Written = Result<(), Error>;

/// What a write says of the attempts so far.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    pub attempts: u32,
    pub effect: Effect,
    pub unknown_since: Option<Timestamp>,
    pub look_ups: u32,
    pub resends_left: u32,
    /// What the attempts since the last write met.
    pub reports: Vec<AttemptReport>,
}

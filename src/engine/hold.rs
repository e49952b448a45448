//! One process's hold on an operation: its fence, its lease, and every write it makes to the record.

use std::mem;
use std::time::Duration;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{ErrorExt, RecordExt, WakesExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::operation::record::{Record, State, Transition};
use steadfast_core::{AttemptReport, Disposition, Effect, Error};

use super::on_record::STORE_GRACE;
use super::phase::{Phase, Run};
use super::settling::{Moment, Settling};
use super::{Engine, limit};
use crate::telemetry;

/// The operation as this process holds it.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    engine: &'a Engine,
    /// The record as of the last write.
    pub record: Record,
    /// A caller was told that it goes on by itself: a later holder does not end it for want of credentials.
    pub is_accepted: bool,
    /// On our own monotonic clock, so that a wall clock that jumps cannot make us overstay.
    lease_until: Instant,
    /// The end of the call's time: no write is waited for beyond it.
    deadline: Instant,
    /// When this hold began, and how long after the first claim that was.
    began: (Instant, Duration),
    /// What the wall clock said then.
    wall: Timestamp,
    /// What is known of the last send of unknown effect, if there was one before this hold.
    pub settling: Option<Settling>,
}

impl<'a> Hold<'a> {
    /// `lease_until` was computed before the claim was made, so it is no later than what the store wrote. The hold began
    /// when the claim was made, by the time that the claim said: the wall clock may have been set while the store wrote.
    pub(super) fn new(engine: &'a Engine, record: Record, lease_until: Instant) -> Box<Hold<'a>> {
        let age = record.updated_at.since(record.claimed_at);
        let lease = record.until().map_or(Duration::ZERO, |until| until.since(record.updated_at));
        let claimed = Instant::from_nanos(lease_until.as_nanos().saturating_sub(lease.as_nanos() as u64));
        let (began, wall) = ((claimed.min(engine.clock.now()), age), record.updated_at);
        let is_accepted = record.fence != record.first_fence;
        Box::new(Hold {
            engine,
            record,
            is_accepted,
            lease_until,
            deadline: lease_until,
            began,
            wall,
            settling: None,
        })
    }

    /// A moment of this hold, for the record. A wall clock that is set during a hold makes it no earlier than it was:
    /// a settle time counts from it.
    pub(super) fn on_record(&self, at: Instant) -> Timestamp {
        let (began, _) = self.began;
        let now = self.engine.clock.now();
        let by_now = self.engine.wall().plus(at.since(now)).minus(now.since(at));
        by_now.max(Guard::SendNoEarlier.keeps(self.wall.plus(at.since(began))))
    }

    /// The time from the first claim to `now`. What passed while this process held the operation is on our own monotonic
    /// clock, so that a wall clock which is set back makes it no shorter.
    pub(super) fn measured(&self, now: Instant) -> Duration {
        let (began, age) = self.began;
        age.saturating_add(now.since(began))
    }

    /// The same hold, for a call that has time until `deadline`.
    pub(super) fn for_call_until(mut self: Box<Self>, deadline: Instant) -> Box<Self> {
        self.deadline = deadline;
        self
    }

    /// The latest moment at which this holder may still be sending: half the margin before another process may
    /// take the operation.
    pub(super) fn stop_at(&self) -> Instant {
        let margin = Guard::LeaseMargin.keeps(self.engine.policy.lease_margin / 2);
        Instant::from_nanos(self.lease_until.as_nanos().saturating_sub(margin.as_nanos() as u64))
    }

    /// When another process may take the operation. A send stops [before](Hold::stop_at); a write may still be made:
    /// under a fence that moved it changes nothing that is not proof.
    pub(super) fn over_at(&self) -> Instant {
        self.lease_until
    }

    /// Whether the store gave us the operation no longer than [`MOMENT`] ago, by our own clock and by the wall clock.
    pub(super) fn began_a_moment_ago(&self, now: Instant) -> bool {
        let (began, _) = self.began;
        let by_wall = self.engine.wall().since(self.wall);
        now.since(began).max(Guard::FreshByBothClocks.keeps(by_wall)) <= MOMENT
    }

    /// Whether the hold lasts for `needed` from now, with the margin to spare.
    pub(super) fn lasts(&self, needed: Duration) -> bool {
        self.lasts_from(self.engine.clock.now(), needed)
    }

    pub(super) fn lasts_from(&self, now: Instant, needed: Duration) -> bool {
        now.plus(needed) < self.stop_at()
    }

    /// Extends the hold to `needed` from now, and the margin.
    pub(super) async fn renew(&mut self, needed: Duration, evidence: Evidence) -> Result<(), Error> {
        let now = self.engine.clock.now();
        let lease = needed.saturating_add(self.engine.policy.lease_margin);
        let lease_until = self.engine.wall().plus(lease);
        // Nothing is sent once the call's time is over, so that the lease is not needed any more then.
        let renewal = self.transition(State::InProgress { lease_until }, evidence);
        self.write("renew the lease", renewal, self.deadline).await?;
        self.lease_until = now.plus(lease);
        Ok(())
    }

    /// A write that fails after the vendor may have answered is reported with effect unknown, and never leads to
    /// another send. The record stays in progress until its lease runs out and it is recovered. A write that is
    /// declined ends the call: the process that took the operation decides.
    ///
    /// It is not waited for beyond `until`.
    async fn write(&mut self, doing: &'static str, transition: Transition, until: Instant) -> Written {
        let clock = &*self.engine.clock;
        let written = (*self.engine.store).transition(&self.record, transition);
        let Some(written) = limit::within(clock, until, written).await else {
            return Err(self.unwritten(doing));
        };
        match written {
            Ok(Ok(record)) => {
                self.now_stands(record);
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

    pub(super) fn transition(&self, to: State, evidence: Evidence) -> Transition {
        let Evidence { attempts, effect, unknown_since, look_ups, resends_left, reports } = evidence;
        let (fence, now) = (self.record.fence, self.engine.wall());
        Transition { fence, now, attempts, effect, unknown_since, look_ups, resends_left, to, reports }
    }

    /// Notes what is on record now. Callers that wait for the outcome are told once there is one.
    fn now_stands(&mut self, record: Record) {
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
    async fn is_written(&mut self, to: &State, until: Instant) -> bool {
        let read = limit::within(&*self.engine.clock, until, self.engine.store.get(&self.record.id)).await;
        let Some(Ok(Some(record))) = read else { return false };
        let is_ours = record.fence == self.record.fence && is_same(to, &record.state);
        if is_ours {
            self.now_stands(record);
        }
        is_ours
    }

    /// A write that may not be on file: the record stays in progress until its lease runs out, and is recovered.
    fn unwritten(&self, doing: &'static str) -> Error {
        let at = self.record.until();
        Error::new(Kind::Store { doing }, Effect::Unknown)
            .going_on(Disposition::Continues { at })
            .with_retry_at(at)
    }

    /// A store that wrote in time may still answer when the new lease is over, and another process hold the
    /// operation by then. It is asked again, and a second answer that comes too late is believed no more.
    pub(super) async fn renew_in_time(
        &mut self,
        needed: Duration,
        mut evidence: Evidence,
    ) -> Result<(), Error> {
        for _ in 0..RENEWALS_MAX {
            let again = Evidence { reports: Vec::new(), ..evidence };
            self.renew(needed, evidence).await?;
            if self.lasts(Duration::ZERO) {
                return Ok(());
            }
            evidence = again;
        }
        let at = self.record.until();
        let error = Error::new(Kind::Store { doing: "renew the lease in time" }, Effect::Unknown);
        Err(error.going_on(Disposition::Continues { at }).with_retry_at(at))
    }
}

impl Run<'_> {
    /// Writes an outcome down. A store that fails is tried again while the hold and the call's time last. We have the
    /// vendor's answer, and only the record of it spares other processes the search for it. A call whose time is over
    /// has [`STORE_GRACE`]. What the vendor said is then written down without the caller, while the hold lasts.
    ///
    /// No permit is held by now: a store that hangs keeps no other call from the vendor.
    pub(super) async fn write_down(&mut self, doing: &'static str, to: impl Fn() -> State) -> Written {
        if self.hold.is_none() {
            return Ok(());
        }
        let clock = &self.engine.clock;
        let until = self.deadline.max(clock.now().plus(STORE_GRACE));
        let mut pause = WRITE_PAUSE_MIN;
        loop {
            let reports_before = self.reports_written;
            let evidence = self.evidence();
            let Some(hold) = &mut self.hold else { return Ok(()) };
            let transition = hold.transition(to(), evidence);
            let Err(error) = hold.write(doing, transition, until).await else {
                self.note_unknown();
                return Ok(());
            };
            let again_at = clock.now().plus(pause);
            let (to, over_at) = (to(), hold.over_at());
            if error.is_fenced() || again_at >= over_at || Guard::WriteAgain.is_out() {
                return Err(error);
            }
            if again_at >= until {
                if is_vendors_word(&to) {
                    self.reports_written = reports_before;
                    self.go_on_writing(to, over_at);
                }
                return Err(error);
            }
            clock.sleep_until(again_at).await;
            if hold.is_written(&to, until).await {
                self.note_unknown();
                return Ok(());
            }
            pause = pause.saturating_mul(2).min(WRITE_PAUSE_MAX);
            self.reports_written = reports_before;
        }
    }

    /// Remembers what this process measured of an operation that it lets go of.
    fn note_unknown(&self) {
        let Some(hold) = &self.hold else { return };
        let (let_go, record) = (&self.engine.let_go, &hold.record);
        if !matches!(record.state, State::Scheduled { .. }) {
            return let_go.forget(&record.id);
        }
        let ended = match self.phase {
            Phase::Unknown { since: Some(ours), .. } => Some(Moment::of(ours)),
            Phase::Unknown { since: None, .. } => hold.settling.map(Settling::ended),
            Phase::NotApplied | Phase::ProvenAbsent => None,
        };
        if let Some(ended) = ended {
            let_go.note(record, ended, self.unknown_for(), self.engine.clock.now());
        }
    }
}

/// Whether it is an outcome that only this process has heard of.
const fn is_vendors_word(state: &State) -> bool {
    matches!(state, State::Succeeded { .. } | State::Refused { .. })
}

/// Whether two are the same but for their times and answers.
pub(super) fn is_same(one: &State, other: &State) -> bool {
    mem::discriminant(one) == mem::discriminant(other)
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

/// Far above what a store needs for an answer, and far below any lease.
const MOMENT: Duration = Duration::from_secs(1);

/// Between two tries to write an outcome down, doubled up to the most: a lock is let go of within milliseconds, a
/// store that restarts comes back within seconds.
pub(super) const WRITE_PAUSE_MIN: Duration = Duration::from_millis(50);
pub(super) const WRITE_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A store this slow twice in a row is no store to send by; recovery carries on.
const RENEWALS_MAX: u32 = 2;

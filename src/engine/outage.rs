//! An attempt of recovery that failed because the vendor is down for all callers.
//!
//! The ladder bounds what one operation may cost while the vendor is well: after so many failures the trouble is the
//! operation's own, and a person is told. In an outage a failure says nothing of the operation. Recovery sends one
//! operation after the other as the probes of the open circuit. If they counted as steps of their ladders, an outage
//! of an hour would end some operations as dead letters, only because it was their turn. So such an attempt is no
//! step.
//!
//! The breaker says whether the vendor is down: it is not closed when the attempt has failed. Without a breaker an
//! outage looks like the operation's own trouble, and each attempt is a step.
//!
//! A service that makes few calls learns of an outage by one operation, or a handful: too few to open a circuit, and
//! their ladders are climbed within 40 seconds. So a second failure is a step only if another call was answered since
//! the one before it: the vendor is well, and the trouble is the operation's own. Where no call was answered, the two
//! cannot be told apart. Then the operation goes on at the ladder's last wait, and its steps count again once it is
//! an hour old.
//!
//! A host without file descriptors, ports or memory fails every call alike. Such a failure is no step, for a day.
//!
//! What the vendor never takes does not keep the circuit from closing: see [`circuits`](crate::policy::circuits). So the
//! wait behind an open circuit is no longer than the circuit's own, and once the vendor is back all is due. After a day
//! each attempt is a step again: every operation ends, and a person is told. Behind the circuit of a route alone it is so
//! after an hour: whether the route is down or the operation is poison cannot be told apart.

use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::policy::Outcome;
use steadfast_core::policy::{BreakerState, Mode};

use super::exchange::Exchanged;
use super::look_up::{LOOK_UP_GAP_MAX, LOOK_UPS_LAST, grown};
use super::phase::Run;

/// Why a failure says nothing of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    /// The circuit is not closed.
    Down,
    /// No call was answered since the failure before it.
    Unseen,
    /// It is this host's own.
    Local,
}

/// Whose circuit is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Down {
    Account,
    Route,
}

impl Run<'_> {
    /// Whether an exchange of recovery failed for a reason that may be all callers', and is therefore no step of the
    /// ladder. What this host lacks is all callers' also where one waits: its time bounds that.
    pub(super) async fn outage_of(&mut self, exchanged: &Exchanged) -> Option<Outage> {
        let before = self.failed_at.replace(exchanged.ended);
        let lasts = self.engine.policy.retention.min(LOOK_UPS_LAST);
        if exchanged.is_local() && !self.backoff.steps.is_empty() {
            return (self.age() < lasts).then_some(Outage::Local);
        }
        if !self.recovered || exchanged.liveness() != Outcome::Failure {
            return None;
        }
        if let Some(down) = self.down(exchanged.ended) {
            let lasts = if down == Down::Account { lasts } else { lasts.min(UNSEEN_LAST) };
            return (self.age() < lasts).then_some(Outage::Down);
        }
        if self.age() >= lasts.min(UNSEEN_LAST) || Guard::QuietOutage.is_out() {
            return None;
        }
        let breaker = self.engine.gates.breaker().filter(|breaker| breaker.mode() == Mode::Normal)?;
        let before = match before {
            Some(before) => before,
            None => Box::pin(self.last_of_an_earlier_run()).await?,
        };
        (breaker.answered_at() <= before).then_some(Outage::Unseen)
    }

    /// When the last attempt ended of those that are on its log, if there are any. Counts them.
    async fn last_of_an_earlier_run(&mut self) -> Option<Instant> {
        let record = self.hold.as_ref().map(|hold| &hold.record)?;
        let reports = self.log_of(record).await?;
        let sends = || reports.iter().filter(|report| !report.is_look_up());
        let last = sends().next_back()?;
        let ended = last.started_at.plus(last.latency);
        self.spared_before = (sends().count() as u32).saturating_sub(record.attempts);
        Some(self.engine.instant_of(ended))
    }

    /// After a lookup that failed: whether no other will be made. A recovered operation does not wait out an open
    /// circuit, so that its time would never be over: it would be postponed for ever.
    pub(super) fn is_ended_by_an_outage(&self) -> bool {
        self.recovered && self.down(self.engine.clock.now()).is_some() && self.is_past_keeping()
    }

    fn down(&self, now: Instant) -> Option<Down> {
        let (gates, route) = (&self.engine.gates, || self.engine.route_of(self.request));
        let is_open = gates.breaker().is_some_and(|breaker| {
            breaker.mode() != Mode::ForcedClosed && breaker.state(now) != BreakerState::Closed
        });
        if is_open {
            return Some(Down::Account);
        }
        let circuits = gates.circuits().filter(|circuits| circuits.any())?;
        circuits.is_open(&route()).then_some(Down::Route)
    }

    /// The attempts that are steps of the ladder.
    pub(super) const fn steps_taken(&self) -> u32 {
        self.attempts.saturating_sub(self.spared)
    }

    /// After an attempt that was no step: half of a tenth of the operation's age to all of it. While nothing but this
    /// operation tells of an outage it is the ladder's wait, or that of its last step, where that is longer.
    pub(super) fn outage_wait(&self, outage: Outage, unit: f64) -> Duration {
        let most = if outage == Outage::Down { DOWN_WAIT_MAX } else { LOOK_UP_GAP_MAX };
        let by_age = grown(self.age()).min(most).mul_f64(f64::midpoint(1.0, unit)).max(self.first_step());
        match outage {
            Outage::Down => by_age,
            Outage::Unseen | Outage::Local => {
                let last = self.backoff.steps.len().saturating_sub(1) as u32;
                let tried = self.attempts.saturating_add(self.spared_before).saturating_sub(1);
                let rung = self.backoff.wait(tried.min(last), self.wait_before, unit);
                rung.unwrap_or_default().max(by_age)
            }
        }
    }

    /// The time since the first claim.
    pub(super) fn age(&self) -> Duration {
        let now = self.engine.wall();
        self.hold.as_ref().map_or(Duration::ZERO, |hold| now.since(hold.record.claimed_at))
    }
}

/// The longest wait after an attempt that a circuit which is open spared: the circuit's own. What failed comes after what
/// did not, so that no longer wait is needed to keep it from the probes; and once the vendor is back, all is due.
const DOWN_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long an operation is spared its ladder while only its own failures, or its route's, tell of an outage. It is longer than most
/// outages. It is so short that an operator does not hear a day late of a request which the vendor never takes.
const UNSEEN_LAST: Duration = Duration::from_secs(60 * 60);

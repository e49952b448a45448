//! An attempt of recovery that failed because the vendor is down for everybody.
//!
//! The ladder bounds what one operation may cost while the vendor is well: after so many failures the trouble is the
//! operation's own, and a person is told. In an outage a failure says nothing of the operation. Recovery sends one
//! operation after the other as the probes of the open circuit; counted as steps of their ladders, an outage of an hour
//! would end some of them as dead letters, for no reason but their turn. So such an attempt is no step.
//!
//! It is the breaker that says whether the vendor is down: it is not closed when the attempt has failed. Without a
//! breaker nobody can tell an outage from the operation's own trouble, and each attempt is a step.
//!
//! What the vendor never takes would keep the circuit from closing if it were every second probe. So the wait grows with
//! the operation's age, as it does for look-ups that fail. And after a day each attempt is a step again: every operation
//! ends, and a person is told.

use std::time::Duration;

use super::exchange::Exchanged;
use super::look_up::{LOOK_UPS_LAST, grown};
use super::phase::Run;
use crate::clock::Instant;
use crate::policy::{BreakerState, Mode, Outcome};

impl Run<'_> {
    /// Whether an exchange of recovery failed while the circuit is not closed, and is therefore no step of the ladder.
    pub(super) fn is_of_an_outage(&self, exchanged: &Exchanged) -> bool {
        if !self.recovered || exchanged.liveness() != Outcome::Failure {
            return false;
        }
        self.is_down(exchanged.ended) && self.age() < self.engine.policy.record.keep.min(LOOK_UPS_LAST)
    }

    /// After a look-up that failed: whether no other will be made. A recovered operation does not wait out an open
    /// circuit, so that its time would never be over: it would be postponed for ever.
    pub(super) fn is_ended_by_an_outage(&self) -> bool {
        self.recovered && self.is_down(self.engine.clock.now()) && self.is_past_keeping()
    }

    fn is_down(&self, now: Instant) -> bool {
        self.engine.gates.breaker().is_some_and(|breaker| {
            breaker.mode() != Mode::ForcedClosed && breaker.state(now) != BreakerState::Closed
        })
    }

    /// The attempts that are steps of the ladder.
    pub(super) const fn steps_taken(&self) -> u32 {
        self.attempts.saturating_sub(self.spared)
    }

    /// After an attempt that was no step: half of a tenth of the operation's age to all of it.
    pub(super) fn outage_wait(&self, unit: f64) -> Duration {
        grown(self.age()).mul_f64(f64::midpoint(1.0, unit)).max(self.first_step())
    }

    /// The time since the first claim.
    fn age(&self) -> Duration {
        let now = self.engine.wall();
        self.hold.as_ref().map_or(Duration::ZERO, |hold| now.since(hold.record.claimed_at))
    }
}

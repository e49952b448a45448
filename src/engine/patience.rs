//! How long a call waits in memory, for its gates and for its next step, and what a recovered operation leaves to the
//! schedule instead.

use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::policy::{Admission, Refusal as GateRefusal};
use steadfast_core::transport::Request;
use steadfast_core::vendor::Verdict;
use steadfast_core::{Effect, Error, Gate};

use super::phase::Run;
use crate::telemetry;

impl<'a> Run<'a> {
    /// Asks the gates for an attempt or a lookup after the first, and waits for them as long as time allows.
    pub(super) async fn admit_again(&mut self, request: &Request) -> Result<Admission<'a>, Error> {
        let engine = self.engine;
        let mut turn = None;
        loop {
            if self.is_leaving() {
                return Err(self.let_go().await);
            }
            let now = engine.clock.now();
            let admitted = if self.recovered {
                self.admit_recovered(request, now)
            } else {
                engine.gates.admit_to(engine.route_if_asked(request).as_deref(), now)
            };
            let refusal = match admitted {
                Ok(admission) => return Ok(admission),
                Err(refusal) => refusal,
            };
            if self.recovered && refusal.gate == Gate::Rate && turn.is_none() {
                turn = engine.gates.wait_for_turn(now);
            }
            let ask_again_at = self.engine.ask_again_at(refusal, now);
            let at = ask_again_at.unwrap_or_else(|| now.plus(self.first_step()));
            if at >= self.deadline {
                telemetry::refused(self.whose(), refusal.gate);
                return Err(self.postpone(at, Kind::Gate(refusal.gate)).await);
            }
            telemetry::held_back(self.whose(), refusal.gate, at.since(now));
            if !self.slept_until(at).await? {
                return Err(self.let_go().await);
            }
        }
    }

    /// Asks the gates for the first send of an operation that was taken a moment ago, without waiting for them: its take
    /// is as good as a renewal. `None` where anything came between, or its effect is unknown.
    pub(super) fn admit_behind_take(&mut self) -> Option<Admission<'a>> {
        let is_first = self.recovered && self.starts == 0 && self.waited.is_zero();
        if !is_first || self.phase.effect() != Effect::None || self.is_leaving() {
            return None;
        }
        let now = self.engine.clock.now();
        self.hold.as_ref().filter(|hold| hold.began_a_moment_ago(now))?;
        self.admit_recovered(self.request, now).ok()
    }

    /// Asks the gates as recovery, and pays for every send after the first, which was paid for when the operation was
    /// taken.
    fn admit_recovered(&mut self, request: &Request, now: Instant) -> Result<Admission<'a>, GateRefusal> {
        let admission = self.admit_of_account(request, now)?;
        if self.starts > 0 {
            self.engine.gates.recovery().pay(1, now);
        }
        self.starts += 1;
        Ok(admission)
    }

    /// Whether the vendor asks to be left alone by now. What was admitted may have been written down since then, and
    /// another call have been told so meanwhile. A call without a key leaves at once.
    pub(super) fn is_asked_to_wait(&self, now: Instant) -> bool {
        let is_paused = self.hold.is_some() && self.engine.gates.pause().until(now).is_some();
        Guard::PauseAskedAgain.keeps(is_paused)
    }

    /// Sleeps with the lease kept for the sleep and the attempt after it.
    ///
    /// # Errors
    ///
    /// The store's. And a recovered operation does not sleep for long: it is scheduled for that time, and what it
    /// occupied is free for another. Nor does it sleep on in a process that stops.
    pub(super) async fn sleep_until(&mut self, at: Instant) -> Result<(), Error> {
        if self.is_leaving() || !self.slept_until(at).await? {
            let kind = self.dependency();
            return Err(self.postpone(at, kind).await);
        }
        Ok(())
    }

    /// As [`sleep_until`](Run::sleep_until). `false` if the process stops meanwhile, and the operation is to be let go of.
    async fn slept_until(&mut self, at: Instant) -> Result<bool, Error> {
        let wait = at.since(self.engine.clock.now());
        if self.is_too_long_to_sleep(at) {
            let kind = self.dependency();
            return Err(self.postpone(at, kind).await);
        }
        self.keep_lease(wait.saturating_add(self.timeout.attempt)).await?;
        if !self.sleep_unless_leaving(at).await {
            return Ok(false);
        }
        self.waited = self.waited.saturating_add(wait);
        Ok(true)
    }

    /// Whether a recovered operation leaves the wait until `at` to the schedule.
    pub(super) fn is_too_long_to_sleep(&self, at: Instant) -> bool {
        self.recovered && at.since(self.engine.clock.now()) > SLEEP_MAX
    }

    /// Whether nothing but a lookup is left of the ladder, which was postponed for its settle time. Another send would
    /// begin that time anew, again and again.
    pub(super) fn is_left_to_a_look_up(&self) -> bool {
        let is_spent = self.steps_taken() as usize > self.backoff.steps.len();
        is_spent && self.phase.effect() == Effect::Unknown && self.has_look_up()
    }

    /// Whether the last attempt, of whichever run, ended with [`Verdict::Unknown`]: no further send helps, although the
    /// vendor's window is open and one would do no harm. Stripe replays a 500 that it has stored for as long as that.
    /// Sent again at each takeover, the operation would begin its settle time anew each time.
    ///
    /// Only its log knows. A log that cannot be read says no: the next send then tells.
    pub(super) async fn is_beyond_sending(&self) -> bool {
        let in_doubt = self.attempts > 0 && self.phase.effect() == Effect::Unknown && self.has_look_up();
        let Some(record) = self.hold.as_ref().map(|hold| &hold.record).filter(|_| in_doubt) else {
            return false;
        };
        let reports = Box::pin(self.log_of(record)).await.unwrap_or_default();
        let last = reports.iter().rev().find(|report| !report.is_look_up());
        last.is_some_and(|report| report.verdict == Verdict::Unknown.name())
    }
}

/// The longest that a recovered operation waits in memory, where it keeps others from being taken. The ladder's first
/// three steps are within it, so that most retries cost no write to the schedule and none to be taken again.
pub(crate) const SLEEP_MAX: Duration = Duration::from_secs(5);

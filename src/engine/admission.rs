//! The gates before a call's first attempt: asked before the claim, so that a refusal writes nothing.

use std::time::Duration;

use super::Engine;
use super::waits::{spread, spread_over};
use crate::clock::Instant;
use crate::error::{Effect, Error, Gate};
use crate::policy::{Admission, Refusal};
use crate::telemetry::{self, Whose};

impl Engine {
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
            let refusal = match self.gates.admit(now) {
                Ok(admission) => return Ok(admission),
                Err(refusal) => refusal,
            };
            match self.ask_again_at(refusal, now) {
                Some(at) if at < patience => {
                    telemetry::held_back(whose, refusal.gate, at.since(now));
                    self.clock.sleep_until(at).await;
                    now = self.clock.now();
                }
                _ => {
                    telemetry::refused(whose, refusal.gate);
                    let retry_at = refusal.retry_at.map(|at| self.wall().plus(at.since(now)));
                    return Err(Error::refused_by(refusal.gate, retry_at, Effect::None));
                }
            }
        }
    }

    /// Credits the retry budget for a call that is sent. A replay is not credited, because it puts no load on the
    /// vendor.
    pub(super) fn earn(&self, admission: &Admission<'_>) {
        if let Some(budget) = self.gates.budget() {
            budget.earn(admission.admitted_at());
        }
    }

    /// When to ask the gates again after a refusal, a little later than they said; `None` if only a person can
    /// tell.
    pub(crate) fn ask_again_at(&self, refusal: Refusal, now: Instant) -> Option<Instant> {
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
}

/// Between two looks at a full concurrency limit, before the spread: short beside a vendor's latency, long
/// beside what a look costs.
const CONCURRENCY_PAUSE: Duration = Duration::from_millis(5);

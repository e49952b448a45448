//! How long a vendor asked to be left alone, and when its callers come back.
//!
//! A wait that an answer asks for holds back every call to the vendor, up to the policy's cap. It counts beside any
//! error, also one that ends its own call, and from a lookup as from an attempt. The call that was told waits for all
//! of it.

use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::guard::Guard;
use steadfast_core::transport::{Answer, SendError};
use steadfast_core::vendor::{Verdict, wait};

use super::phase::Run;

impl Run<'_> {
    /// Holds all callers back for what the vendor asked, and remembers it for this call.
    pub(super) fn heed(&mut self, verdict: &Verdict, outcome: &Result<Answer, SendError>, ended: Instant) {
        let engine = self.engine;
        let asked = match (verdict, outcome) {
            (Verdict::Retry { not_before, .. }, _) => *not_before,
            // What ends a call has no room for a wait, so that the standard's is read here. A redirect's speaks of
            // the redirect alone (RFC 9110, section 10.2.3).
            (Verdict::Refused { .. } | Verdict::Unknown, Ok(answer)) if !answer.status.is_redirection() => {
                wait::asked(answer.status, &answer.headers, engine.wall()).map(wait::believed)
            }
            _ => None,
        };
        if let Some(asked) = asked {
            engine.gates.pause().hold_until(ended, asked);
            self.left_alone_until = self.left_alone_until.max(Some(ended.plus(asked)));
        }
    }

    /// Until when the vendor asks to be left alone, if that is not over.
    fn left_alone(&self, now: Instant) -> Option<Instant> {
        Guard::NeverEarly.keeps(self.left_alone_until.filter(|until| *until >= now))
    }

    /// How much longer the vendor asks to be left alone.
    pub(super) fn asked(&self) -> Duration {
        let now = self.engine.clock.now();
        self.left_alone(now).map_or(Duration::ZERO, |until| until.since(now))
    }

    /// `at`, or when the vendor no longer asks to be left alone. A vendor's wait is a floor: it is never cut, and jitter
    /// only ever comes on top of it.
    pub(super) fn not_early(&self, at: Instant, unit: f64) -> Instant {
        let now = self.engine.clock.now();
        let left_alone = self.left_alone(now);
        left_alone.map_or(at, |until| at.max(until.plus(spread_over(until.since(now), unit))))
    }

    pub(super) fn report_wait(&mut self, wait: Duration) {
        if let Some(report) = self.reports.iter_mut().rev().find(|report| !report.is_look_up()) {
            report.wait = Some(wait);
        }
    }

    /// What to wait where the vendor does not say: the ladder's first step, never nothing.
    pub(super) fn first_step(&self) -> Duration {
        self.backoff.steps.first().copied().unwrap_or(FALLBACK_STEP).max(Duration::from_millis(1))
    }

    /// Whether a vendor's wait is beyond what a call waits out: over the policy's cap it is for the schedule.
    pub(super) fn is_over_the_cap(&self, wait: Duration) -> bool {
        wait > self.engine.policy.pause_max
    }
}

/// Added to a wait that a vendor asked many callers for: up to a tenth of it. So they come back over a time that
/// grows with their number. Never below the spread of a gate's wait, and never over half a minute.
pub(super) fn spread_over(wait: Duration, unit: f64) -> Duration {
    (wait / SPREAD_PART).clamp(SPREAD_MIN, SPREAD_MAX).mul_f64(unit)
}

/// A little positive jitter behind a time that many callers were told, so that they do not all come at once.
pub(super) fn spread(unit: f64) -> Duration {
    SPREAD_MIN.mul_f64(unit)
}

const SPREAD_PART: u32 = 10;
const FALLBACK_STEP: Duration = Duration::from_millis(500);

/// Long enough to spread callers over several scheduler ticks, short beside any wait it follows.
const SPREAD_MIN: Duration = Duration::from_millis(50);

/// Beside waits of over five minutes: later than that only costs time.
const SPREAD_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_wait_between_50_ms_and_30_s() {
        for (wait_ms, most_ms) in [
            (0, 50),
            (500, 50),
            (501, 50),
            (2_000, 200),
            (60_000, 6_000),
            (300_000, 30_000),
            (86_400_000, 30_000),
        ] {
            let wait = Duration::from_millis(wait_ms);
            assert_eq!(spread_over(wait, 0.0), Duration::ZERO);
            let most = spread_over(wait, 1.0);
            assert_eq!(most.as_millis(), most_ms, "{wait:?}");
            assert_eq!(spread_over(wait, 0.5), most / 2);
        }
        assert_eq!(spread_over(Duration::MAX, 1.0), SPREAD_MAX);
    }
}

//! [`Opening`]: connections that are opened one at a time, at growing pauses while they fail.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use steadfast_core::Random;
use steadfast_core::clock::Instant;
use steadfast_core::internal::ext::StoreErrorExt;
use steadfast_core::internal::random::SystemRandom;
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::connect::{Connect, Connected};
use super::failure::advice;

/// Queue of callers that need a new connection. A server that comes back gets one attempt at a time.
pub(super) struct Opening {
    connect: Arc<Connect>,
    turn: tokio::sync::Mutex<Pauses>,
    /// Error of the last attempt, for callers that never had their turn. `None` after a success.
    last: Mutex<Option<StoreError>>,
}

#[derive(Default)]
struct Pauses {
    failed: u32,
    /// No caller tries before this time.
    not_before: Instant,
}

impl Opening {
    pub(super) fn new(connect: Arc<Connect>) -> Opening {
        Opening { connect, turn: tokio::sync::Mutex::default(), last: Mutex::new(None) }
    }

    /// Returns a new connection, or `Err` with the value that `alternative` returned meanwhile.
    ///
    /// # Errors
    ///
    /// The connection's error: at once if waiting does not help, else after `wait`.
    pub(super) async fn within<T>(
        &self,
        wait: Duration,
        alternative: impl Fn() -> Option<T>,
    ) -> Result<Result<Connected, T>, StoreError> {
        match self.connect.within(wait, self.until(alternative)).await {
            Some(opened) => opened,
            None => Err(self.last.lock().as_ref().map_or_else(
                || {
                    let place = self.connect.address.place();
                    let problem =
                        format!("no connection to Postgres at {place} within {wait:?}: {}", advice(BUSY));
                    StoreError::new(problem).of_kind(BUSY)
                },
                StoreError::again,
            )),
        }
    }

    async fn until<T>(
        &self,
        alternative: impl Fn() -> Option<T>,
    ) -> Result<Result<Connected, T>, StoreError> {
        if let Some(found) = alternative() {
            return Ok(Err(found));
        }
        let mut pauses = self.turn.lock().await;
        loop {
            if let Some(found) = alternative() {
                return Ok(Err(found));
            }
            let now = self.connect.clock.now();
            if now < pauses.not_before {
                // Another caller just got an error that waiting does not help.
                let last = self.last.lock().as_ref().map(StoreError::again);
                if let Some(lasting) = last.filter(|last| !is_transient(last.kind())) {
                    return Err(lasting);
                }
                self.connect.clock.sleep_until(pauses.not_before).await;
            }
            match self.connect.connect().await {
                Ok(connected) => {
                    *pauses = Pauses::default();
                    *self.last.lock() = None;
                    return Ok(Ok(connected));
                }
                Err(error) => {
                    pauses.failed = pauses.failed.saturating_add(1);
                    pauses.not_before = self.connect.clock.now().plus(pause(pauses.failed, &SystemRandom));
                    *self.last.lock() = Some(error.again());
                    if !is_transient(error.kind()) {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// Returns true if the error may pass by waiting: a server that restarts or fails over. A wrong password does
/// not.
fn is_transient(kind: StoreErrorKind) -> bool {
    matches!(
        kind,
        StoreErrorKind::Unreachable
            | StoreErrorKind::Busy
            | StoreErrorKind::Lost
            | StoreErrorKind::Locked
            | StoreErrorKind::TimedOut
            | StoreErrorKind::ReadOnly
    )
}

/// Returns the pause after so many failures in a row: it doubles, and never is less than half of that. A
/// restart takes a second, and 50 ms after it the store is back. A server that is down for a night gets two
/// attempts in three seconds.
fn pause(failed: u32, random: &dyn Random) -> Duration {
    let step = PAUSE_MIN.saturating_mul(2u32.saturating_pow(failed.saturating_sub(1))).min(PAUSE_MAX);
    step.mul_f64((1.0 + random.unit()) / 2.0)
}

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

const BUSY: StoreErrorKind = StoreErrorKind::Busy;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct FixedRandom(u64);

    impl Random for FixedRandom {
        fn next_u64(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn pauses_grow_to_a_limit_and_are_spread_over_their_upper_half() {
        let millis = |failed, lot| pause(failed, &FixedRandom(lot)).as_millis();
        assert_eq!([1, 2, 3, 6, 7, 99].map(|failed| millis(failed, 0)), [25, 50, 100, 800, 1000, 1000]);
        assert_eq!([1, 2, 7, u32::MAX].map(|failed| millis(failed, u64::MAX)), [50, 100, 2000, 2000]);
    }
}

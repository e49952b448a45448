//! Time of the vendor's last answer, and the form in which a breaker is shown.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Breaker, STATE, STATE_BITS};
use crate::clock::Instant;
use crate::policy::Outcome;

/// The end of the last call that proved the vendor to be alive.
#[derive(Debug, Default)]
pub(super) struct Answered(AtomicU64);

impl Answered {
    /// A race between two answers leaves the time of either. Of those within [`MOMENT`] the first is noted: each call reads
    /// what lies beside it, and would wait for the write of every other.
    #[inline]
    pub(super) fn note(&self, outcome: Outcome, now: Instant) {
        let noted = self.0.load(Ordering::Relaxed);
        if outcome == Outcome::Success && now.as_nanos() > noted.saturating_add(MOMENT) {
            self.0.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    pub(super) fn at(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A moment, in nanoseconds: far less than a failure takes.
const MOMENT: u64 = 100_000;

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("Breaker")
            .field("mode", &self.mode())
            .field("state", &["closed", "open", "half-open", ""][(word & STATE) as usize])
            .field("generation", &(word >> STATE_BITS))
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

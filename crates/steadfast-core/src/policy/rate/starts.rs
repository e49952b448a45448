//! Memory of a rate limit: the starts of the last period.

use std::collections::VecDeque;
use std::time::Duration;

use super::{ONE_BY_ONE_MAX, RateConfig};
use crate::clock::Instant;

/// The starts of the last period, in batches: those of one moment.
///
/// A batch is forgotten once its moment is a whole period old, so that what starts within any period is in those
/// remembered.
#[derive(Debug)]
pub(super) struct Starts {
    per: Duration,
    /// The end of each moment, and how many had started until then. Oldest first.
    pub(super) batches: VecDeque<(Instant, u32)>,
    /// Most batches that there are.
    batches_max: usize,
    /// Cumulative count of starts at the end of the last batch that was forgotten.
    forgotten: u32,
    /// Cumulative count of starts at the end of the last batch.
    remembered: u32,
}

impl Starts {
    pub(super) fn new(config: &RateConfig) -> Starts {
        let batches_max = config.calls.clamp(1, ONE_BY_ONE_MAX) as usize + 1;
        Starts { per: config.per, batches: VecDeque::new(), batches_max, forgotten: 0, remembered: 0 }
    }

    /// Sets the memory aside that it will ever need.
    pub(super) fn allocate(&mut self) {
        self.batches.reserve_exact(self.batches_max);
    }

    pub(super) fn is_full(&self) -> bool {
        self.batches.len() == self.batches_max
    }

    /// Notes that by `at` so many had started.
    pub(super) fn remember(&mut self, at: Instant, started: u32) {
        if started != self.remembered {
            self.remembered = started;
            if self.batches.capacity() == 0 {
                self.allocate();
            }
            match self.batches.back_mut() {
                Some((last, until)) if *last == at => *until = started,
                _ => self.batches.push_back((at, started)),
            }
        }
    }

    /// Forgets what is a whole period old at `now`, and says how many starts that were.
    pub(super) fn forget(&mut self, now: Instant) -> u32 {
        let old = self.batches.partition_point(|(at, _)| at.plus(self.per) <= now);
        let Some((_, until)) = self.batches.drain(..old).next_back() else { return 0 };
        let starts = until.wrapping_sub(self.forgotten);
        self.forgotten = until;
        starts
    }

    /// Returns the time at which there will be room: a guess where all of it is set aside.
    pub(super) fn room_at(&self, now: Instant, calls: u32) -> Instant {
        let guess = now.plus(self.per / calls).max(now.plus(Duration::from_nanos(1)));
        self.batches.front().map_or(guess, |(oldest, _)| oldest.plus(self.per))
    }
}

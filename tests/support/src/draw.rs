//! Chance of a schedule: streams that a seed repeats.

use std::ops::Range;
use std::time::Duration;

use steadfast::Random as _;
use steadfast::testkit::SeededRandom;

/// A stream of chance.
#[derive(Debug)]
pub struct Draw(SeededRandom);

impl Draw {
    /// The stream of this name.
    pub fn new(seed: u64, name: u64) -> Draw {
        // Neighbouring seeds of one generator are not independent streams; its outputs are.
        let start = SeededRandom::new(seed).next_u64() ^ SeededRandom::new(!name).next_u64();
        Draw(SeededRandom::new(start))
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    pub fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn within(&self, range: Range<Duration>) -> Duration {
        let span = u64::try_from((range.end - range.start).as_micros()).expect("short");
        range.start + Duration::from_micros(self.below(span))
    }

    pub fn index(&self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("a small number")
    }
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

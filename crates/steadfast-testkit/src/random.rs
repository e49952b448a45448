//! Randomness under the test's control: jitter at its ends, or a stream that a seed repeats.

use std::sync::atomic::{AtomicU64, Ordering};

use steadfast_core::Random;

use super::{GOLDEN, mix};

/// A source that always returns the same number. Jitter is then exact: test a wait at 0, at ½ and at [just
/// under 1](FixedRandom::just_under_one).
///
/// Values that are *generated* from it, such as keys, are always the same as well; a test in which two calls
/// need different generated keys uses [`SeededRandom`].
///
/// ```
/// use steadfast::Random;
/// use steadfast::testkit::FixedRandom;
///
/// assert_eq!(FixedRandom::at(0.5).unit(), 0.5);
/// assert!(FixedRandom::just_under_one().unit() < 1.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedRandom(u64);

impl FixedRandom {
    /// Returns a source of `unit`, rounded down to a step of 2⁻⁵³ and clamped to `[0, 1)`: 1 and more are [just
    /// under one](FixedRandom::just_under_one), negative numbers and NaN are 0.
    pub fn at(unit: f64) -> FixedRandom {
        // A float-to-integer cast saturates, and makes NaN zero.
        let steps = (unit * STEPS as f64) as u64;
        FixedRandom(steps.min(STEPS - 1) << 11)
    }

    /// Returns a source of the greatest number that [`Random::unit`] can return, 1 − 2⁻⁵³.
    pub const fn just_under_one() -> FixedRandom {
        FixedRandom((STEPS - 1) << 11)
    }
}

impl Random for FixedRandom {
    fn next_u64(&self) -> u64 {
        self.0
    }
}

/// A stream of numbers that is the same for the same seed, on every machine and in every version
/// (SplitMix64). Not for secrets.
///
/// Callers on several threads share the one stream: every number is used, but the scheduler decides which
/// caller gets it.
///
/// ```
/// use steadfast::Random;
/// use steadfast::testkit::SeededRandom;
///
/// let (first, again) = (SeededRandom::new(7), SeededRandom::new(7));
/// assert_eq!(first.next_u64(), again.next_u64());
/// ```
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// Returns the stream of this seed, from its beginning.
    pub const fn new(seed: u64) -> SeededRandom {
        SeededRandom(AtomicU64::new(seed))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        mix(self.0.fetch_add(GOLDEN, Ordering::Relaxed).wrapping_add(GOLDEN))
    }
}

/// Number of steps that [`Random::unit`] divides `[0, 1)` into.
const STEPS: u64 = 1 << 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_unit_is_given_exactly() {
        for unit in [0.0, 0.25, 0.5, 0.75, 1.0 - f64::EPSILON / 2.0] {
            assert_eq!(FixedRandom::at(unit).unit(), unit);
        }
    }

    #[test]
    fn a_fixed_unit_never_leaves_the_half_open_interval() {
        let most = FixedRandom::just_under_one();
        assert_eq!(most.unit(), 1.0 - f64::EPSILON / 2.0);
        assert_eq!([FixedRandom::at(1.0), FixedRandom::at(f64::INFINITY)], [most; 2]);
        assert_eq!([FixedRandom::at(-1.0), FixedRandom::at(f64::NAN)], [FixedRandom::at(0.0); 2]);
    }

    #[test]
    fn a_seed_gives_splitmix64s_published_stream() {
        // The first three outputs for seed 1234567, as in the test vectors that accompany SplitMix64's
        // implementations (Rosetta Code, "Pseudo-random numbers/Splitmix64").
        let random = SeededRandom::new(1_234_567);
        let stream: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(stream, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}

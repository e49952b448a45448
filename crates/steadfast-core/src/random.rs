//! Randomness, injected: jitter is exact in a test and spread in production.

use std::fmt;

use rand::Rng;

/// The source of jitter and generated keys.
///
/// The operating system is the default; `testkit` has a seeded and a fixed one.
///
pub trait Random: fmt::Debug + Send + Sync + 'static {
    /// Uniform over all `u64`.
    fn next_u64(&self) -> u64;

    /// Uniform in `[0, 1)`, in steps of 2⁻⁵³: never 1, so that a full jitter stays under its step.
    fn unit(&self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The thread's generator, seeded by the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        rand::rng().next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Constant(u64);

    impl Random for Constant {
        fn next_u64(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn the_unit_interval_is_half_open() {
        assert_eq!(Constant(0).unit(), 0.0);
        assert!(Constant(u64::MAX).unit() < 1.0);
    }
}

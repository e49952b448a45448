//! [`Part`]: one process's part of a rate that several share.

use std::time::Duration;

/// One dispatcher's part of an account's recovery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Number of dispatchers that deliver for the account, this one among them.
    pub dispatchers: u32,
    /// Its place among them, from 0.
    pub place: u32,
    /// Number of live attempts that start in a second, in all processes that reported theirs.
    pub live_per_second: f64,
}

impl Part {
    /// All of it.
    pub const WHOLE: Part = Part { dispatchers: 1, place: 0, live_per_second: 0.0 };

    /// Returns this dispatcher's part of `calls` in each `per`: of what live calls leave, or of recovery's `share` if
    /// that is more. The remainder of the division goes to the first ones, one each: so that all parts together are no
    /// more than the whole. A part may be none.
    pub fn of(&self, calls: u32, headroom: u32, (per, share): (Duration, f64)) -> u32 {
        if *self == Part::WHOLE {
            return calls;
        }
        let live = (self.live_per_second * per.as_secs_f64()).ceil() as u32;
        let left = calls.saturating_sub(headroom).saturating_sub(live);
        let all = left.max((f64::from(calls) * share) as u32).max(1);
        let dispatchers = self.dispatchers.max(1);
        all / dispatchers + u32::from(self.place < all % dispatchers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(dispatchers: u32, live_per_second: f64, calls: u32, per_secs: u64) -> Vec<u32> {
        let per = Duration::from_secs(per_secs);
        let part = |place| Part { dispatchers, place, live_per_second }.of(calls, calls / 20, (per, 0.5));
        (0..dispatchers).map(part).collect()
    }

    #[test]
    fn the_parts_are_the_rest_beside_live_calls() {
        assert_eq!(Part::WHOLE.of(200, 10, (Duration::from_secs(1), 0.5)), 200, "who is alone needs no part");
        assert_eq!(parts(1, 20.0, 200, 1), [170], "beside live calls of another process");
        assert_eq!(parts(2, 0.0, 200, 1), [95, 95]);
        assert_eq!(parts(5, 33.3, 200, 1), [32, 31, 31, 31, 31]);
        assert_eq!(parts(2, 180.0, 200, 1), [50, 50], "never less than its share");
        assert_eq!(parts(2, f64::INFINITY, 200, 1), [50, 50]);
        assert_eq!(parts(3, 1.0, 150, 30), [38, 38, 37], "113 in half a minute");
    }

    #[test]
    fn a_limit_smaller_than_their_number_leaves_some_without_a_part() {
        assert_eq!(parts(3, 0.0, 1, 1), [1, 0, 0]);
        assert_eq!(parts(3, 9.0, 1, 1), [1, 0, 0], "and somebody delivers");
        for dispatchers in 1..20 {
            assert_eq!(parts(dispatchers, 0.5, 100, 1).iter().sum::<u32>(), 94, "{dispatchers}");
        }
    }
}

//! A count over a sliding time window, without a lock.
//!
//! Ten buckets, each one atomic word that holds its epoch (which tenth of a window it counts) and its count. A call
//! that adds to a bucket of an older epoch replaces it, in one compare-and-swap. Nothing has to run on a timer, and a
//! count that is older than the window is gone, also if it was not read in time. A count window over the last *n*
//! calls was rejected. After long health it needs as many failures as it saw successes, and one written without
//! eviction never trips at all.
//!
//! Every event is counted exactly, under any contention. The window's edge is as coarse as a bucket: at any time it
//! covers between nine tenths and the whole of its length.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::as_nanos;
use crate::clock::Instant;

const BUCKETS: usize = 10;

#[derive(Debug)]
pub struct Window {
    width_nanos: u64,
    buckets: [AtomicU64; BUCKETS],
}

impl Window {
    /// An empty window of `length`.
    pub fn new(length: Duration) -> Window {
        let width_nanos = as_nanos(length).div_ceil(BUCKETS as u64).max(1);
        Window { width_nanos, buckets: Default::default() }
    }

    /// Counts `n` at `now`. An event longer ago than the window is no longer counted.
    #[inline]
    pub fn add(&self, now: Instant, n: u32) {
        let tick = now.as_nanos() / self.width_nanos;
        let epoch = tick as u32;
        let bucket = &self.buckets[(tick % BUCKETS as u64) as usize];
        let mut held = bucket.load(Ordering::Relaxed);
        loop {
            let (held_epoch, count) = unpack(held);
            let next = match age(epoch, held_epoch) {
                0 => pack(epoch, count.saturating_add(n)),
                // The bucket already counts a later turn, so this event is a whole window old.
                negative if negative < 0 && count > 0 => return,
                _ => pack(epoch, n),
            };
            match bucket.compare_exchange_weak(held, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => held = seen,
            }
        }
    }

    /// Returns the count in the window that ends at `now`.
    pub fn sum(&self, now: Instant) -> u64 {
        let epoch = (now.as_nanos() / self.width_nanos) as u32;
        let live = |bucket: &AtomicU64| {
            let (held_epoch, count) = unpack(bucket.load(Ordering::Relaxed));
            // Another thread may have read the clock a little later than this one: what it counted is counted.
            let is_live = age(epoch, held_epoch).unsigned_abs() < BUCKETS as u32;
            if is_live { u64::from(count) } else { 0 }
        };
        self.buckets.iter().map(live).sum()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        for bucket in &self.buckets {
            bucket.store(0, Ordering::Relaxed);
        }
    }
}

/// Returns the number of turns of the window's wheel that `held` is behind `now`; negative if ahead. Right as long as
/// they are less than 2³¹ buckets apart, which is half a year at the shortest window.
#[inline]
fn age(now: u32, held: u32) -> i32 {
    now.wrapping_sub(held) as i32
}

#[inline]
fn pack(epoch: u32, count: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(count)
}

#[inline]
fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * SECOND)
    }

    #[test]
    fn counts_older_than_the_window_are_gone_even_if_unread() {
        let window = Window::new(Duration::from_secs(10));
        window.add(at(0), 3);
        window.add(at(5), 4);
        assert_eq!(window.sum(at(9)), 7);
        assert_eq!(window.sum(at(10)), 4);
        assert_eq!(window.sum(at(15)), 0);
        window.add(at(100), 1);
        assert_eq!(window.sum(at(100)), 1);
    }

    #[test]
    fn a_bucket_that_comes_round_again_starts_from_nothing() {
        let window = Window::new(Duration::from_secs(10));
        window.add(at(0), 9);
        window.add(at(10), 1);
        assert_eq!(window.sum(at(10)), 1);
        // A reading of the clock from a whole window ago changes nothing.
        window.add(at(0), 5);
        assert_eq!(window.sum(at(10)), 1);
    }

    #[test]
    fn a_slightly_later_reading_of_the_clock_is_counted() {
        let window = Window::new(Duration::from_secs(10));
        window.add(at(1), 1);
        assert_eq!(window.sum(at(0)), 1);
    }

    #[test]
    fn every_point_in_time_can_be_counted_at() {
        for length in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(60), Duration::MAX] {
            for now in [0, 1, u64::MAX / 2, u64::MAX] {
                let window = Window::new(length);
                window.add(Instant::from_nanos(now), u32::MAX);
                window.add(Instant::from_nanos(now), 1);
                assert_eq!(window.sum(Instant::from_nanos(now)), u64::from(u32::MAX), "{length:?} at {now}");
            }
        }
    }

    #[test]
    fn counting_is_exact_under_contention_while_buckets_turn() {
        let window = Window::new(Duration::from_secs(10));
        let turn = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for second in 0..100 {
                        // All four find the bucket of an older epoch at once.
                        turn.wait();
                        (0..100).for_each(|_| window.add(at(second), 1));
                    }
                });
            }
        });
        // The last ten seconds, 100 from each thread in each.
        assert_eq!(window.sum(at(99)), 4_000);
        window.clear();
        assert_eq!(window.sum(at(99)), 0);
    }
}

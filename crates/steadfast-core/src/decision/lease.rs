//! The lease of an operation, as its holder measures it.

use std::time::Duration;

use super::Now;
use crate::clock::{Instant, Timestamp};
use crate::guard::Guard;
use crate::operation::record::Record;

/// The times of one hold on an operation. They are on the holder's monotonic clock, so that a wall clock that jumps
/// cannot make it overstay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    until: Instant,
    margin: Duration,
    began: Instant,
    /// Time from the first claim to the beginning of this hold.
    age: Duration,
    /// Wall clock at the beginning.
    wall: Timestamp,
}

impl Lease {
    /// The lease of a record as it was claimed or taken.
    ///
    /// `until` was computed before the claim was made, so it is no later than what the store wrote. The hold began
    /// when the claim was made, by the time that the claim said: the wall clock may have been set while the store
    /// wrote.
    pub fn of(record: &Record, until: Instant, margin: Duration, now: Instant) -> Lease {
        let lasts = record.until().map_or(Duration::ZERO, |until| until.since(record.updated_at));
        let claimed = Instant::from_nanos(until.as_nanos().saturating_sub(lasts.as_nanos() as u64));
        let age = record.updated_at.since(record.claimed_at);
        Lease { until, margin, began: claimed.min(now), age, wall: record.updated_at }
    }

    /// Another process may take the operation from here on. A send stops [before](Lease::stop_at); a write may still be
    /// made: under a fence that moved it changes nothing that is not proof.
    pub const fn until(&self) -> Instant {
        self.until
    }

    /// The latest moment at which this holder may still be sending: half the margin before another process may take the
    /// operation.
    pub fn stop_at(&self) -> Instant {
        let margin = Guard::LeaseMargin.keeps(self.margin / 2);
        Instant::from_nanos(self.until.as_nanos().saturating_sub(margin.as_nanos() as u64))
    }

    /// Whether the hold lasts for `needed` from `now`, with the margin to spare.
    pub fn lasts(&self, now: Instant, needed: Duration) -> bool {
        now.plus(needed) < self.stop_at()
    }

    /// Time from the first claim to `now`. The time of this hold is on the monotonic clock, so that a wall clock
    /// which is set back makes it no shorter.
    pub fn measured(&self, now: Instant) -> Duration {
        self.age.saturating_add(now.since(self.began))
    }

    /// Whether the store gave the operation no longer than [`MOMENT`] ago, by both clocks.
    pub fn is_fresh(&self, now: Now) -> bool {
        let by_wall = now.wall.since(self.wall);
        now.at.since(self.began).max(Guard::FreshByBothClocks.keeps(by_wall)) <= MOMENT
    }

    /// A moment of this hold, for the record. A wall clock that is set during a hold makes it no earlier than it was:
    /// a settle time counts from it.
    pub fn on_record(&self, at: Instant, now: Now) -> Timestamp {
        let by_now = now.wall.plus(at.since(now.at)).minus(now.at.since(at));
        by_now.max(Guard::SendNoEarlier.keeps(self.wall.plus(at.since(self.began))))
    }

    /// The lease after a renewal.
    pub fn renew(&mut self, until: Instant) {
        self.until = until;
    }
}

/// Far above what a store needs for an answer, and far below any lease.
const MOMENT: Duration = Duration::from_secs(1);

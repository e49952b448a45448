//! When a send of unknown effect has ended for certain, where this process did not make it.
//!
//! The settle time counts from there. The record says when the send ended, by the clock of the host that wrote it.
//! Two clocks that the store believes may differ by [`TWO_CLOCKS_DIFFER_MAX`], so the time since then counts less
//! that. A host whose clock the store doubts, or whose clock was set ahead while it ran, counts nothing by the
//! record. Beside the record stands our own measure: what we took over has ended when the longest exchange is over,
//! counted from the first time that we held it.
//!
//! The one that is over first counts. The measure goes on, whether or not another process holds the operation, until
//! it is sent again. Else hosts that take it one after the other would all wait, and none would ever look.

use std::time::Duration;

use crate::clock::{Instant, Timestamp};
use crate::guard::Guard;
use crate::operation::record::{CLOCKS_DIFFER_MAX, Record};

/// The last send of unknown effect of an operation that this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settling {
    /// By when it has ended.
    pub ended: Moment,
    /// When this process took the operation.
    pub taken: Instant,
    /// For how long the effect was unknown by then, for certain.
    pub unknown_for: Duration,
    /// For how long this process had known of the operation by then.
    pub known_for: Duration,
}

impl Settling {
    /// Of a record that was taken a moment ago; `None` if its effect is known. `believed` is what time it was in the
    /// store.
    pub fn of(record: &Record, taken: Instant, believed: Option<Timestamp>) -> Option<Settling> {
        let since = record.unknown_since?;
        let wall = record.updated_at;
        let longest = taken.plus(since.since(wall).max(record.attempt_max));
        let mut settling = Settling {
            ended: Moment::of(longest),
            taken,
            unknown_for: Duration::ZERO,
            known_for: Duration::ZERO,
        };
        let is_doubted =
            |believed: &Timestamp| Guard::DoubtedClock.keeps(wall > believed.plus(CLOCKS_DIFFER_MAX));
        if let Some(believed) = believed.filter(|believed| !is_doubted(believed)) {
            let latest = since.plus(Guard::ClocksDiffer.keeps(TWO_CLOCKS_DIFFER_MAX));
            let by_record = Moment::of(taken.plus(latest.since(wall))).minus(wall.since(latest));
            settling.ended = settling.ended.min(by_record);
            settling.unknown_for = wall.min(believed).since(since);
        }
        Some(settling)
    }

    /// For how long this process has known of the operation.
    pub fn known_for(self, now: Instant) -> Duration {
        self.known_for.saturating_add(now.since(self.taken))
    }

    /// When a settle time of this length is over.
    pub fn over_at(self, settle: Duration) -> Instant {
        self.ended.plus(settle)
    }

    /// For how long the effect has been unknown. The time since the take is on our own monotonic clock.
    pub fn unknown_for(self, now: Instant) -> Duration {
        self.unknown_for.saturating_add(now.since(self.taken))
    }
}

/// A point on our own monotonic clock, which may lie before its origin: the process may be younger than the send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i128);

impl Moment {
    /// The moment of the clock's own time.
    pub const fn of(at: Instant) -> Moment {
        Moment(at.as_nanos() as i128)
    }

    const fn minus(self, time: Duration) -> Moment {
        Moment(self.0 - time.as_nanos() as i128)
    }

    /// The origin, if it is not after that.
    pub fn plus(self, time: Duration) -> Instant {
        let nanos = self.0.saturating_add(time.as_nanos() as i128).max(0);
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A store believes a clock that is by [`CLOCKS_DIFFER_MAX`] from the time that it believes. So the writer may have
/// been that far behind it, and the reader that far ahead.
const TWO_CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(2 * CLOCKS_DIFFER_MAX.as_secs());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::record::{Claim, RecordExt};
    use crate::operation::{Key, OperationId, Scope};
    use crate::store::sample::claim_at;

    const ATTEMPT: Duration = Duration::from_secs(30);
    const SETTLE: Duration = Duration::from_secs(60);

    fn wall(at_s: u64) -> Timestamp {
        Timestamp::from_millis(at_s * 1_000)
    }

    fn at(at_s: u64) -> Instant {
        Instant::ORIGIN.plus(Duration::from_secs(at_s))
    }

    /// Taken at 10,000 s by the taker's wall clock.
    fn taken(key: &str, unknown_since_s: u64) -> Record {
        let id = OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new(key).expect("a key"));
        let claim = claim_at(&id, wall(10_000));
        let mut record =
            Record::first(Claim { lease: ATTEMPT, keep: ATTEMPT, attempt_max: ATTEMPT, ..claim });
        record.unknown_since = Some(wall(unknown_since_s));
        record
    }

    #[test]
    fn what_another_sent_has_ended_when_the_record_says_so_for_certain_or_the_longest_exchange_is_over() {
        let right = Some(wall(10_000));
        for (unknown_since, believed, over_after) in [
            // The last holder's lease has just run out.
            (10_030, right, 30 + 60),
            (10_000, right, 30 + 60),
            // An hour ago by the record.
            (6_400, right, 0),
            // Eleven minutes ago: one of them for certain.
            (9_340, right, 0),
            (9_360, right, 20),
            (9_390, right, 50),
            (9_420, right, 60 + 20),
            (9_429, right, 60 + 29),
            (9_440, right, 60 + 30),
            // The store doubts the taker's clock, or did not answer.
            (6_400, Some(wall(9_699)), 60 + 30),
            (6_400, Some(wall(9_700)), 0),
            (6_400, None, 60 + 30),
        ] {
            let settling = Settling::of(&taken("k", unknown_since), at(5), believed).expect("it is unknown");
            let over = settling.over_at(SETTLE);
            let expected = if over_after == 0 { Instant::ORIGIN } else { at(5 + over_after) };
            assert!(over == expected || (over_after == 0 && over <= at(5)), "{unknown_since}: {over:?}");
        }
    }

    #[test]
    fn it_is_unknown_for_as_long_as_a_believed_clock_says() {
        // Within what clocks may differ by, the earlier of the two counts.
        for (believed, unknown_for) in
            [(Some(10_000), 3_600), (Some(9_800), 3_400), (Some(10_200), 3_600), (Some(9_000), 0), (None, 0)]
        {
            let believed = believed.map(wall);
            let settling = Settling::of(&taken("k", 6_400), at(5), believed).expect("it is unknown");
            assert_eq!(settling.unknown_for(at(7)).as_secs(), unknown_for + 2);
        }
    }
}

//! How much of the settle time is over where this process did not send what may have taken effect.
//!
//! The rule is in the head of `operation/record/take.rs`: two clocks that the store believes may differ, so that what a
//! record says to have passed is counted less [`CLOCKS_DIFFER_MAX`], and in most cases the settle time begins anew with
//! the take. An operation that this process let go of, and takes again with nobody in between, goes on where it was:
//! else a call that is shorter than the settle time would never come to the look-up.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Instant, Timestamp};
use crate::operation::OperationId;
use crate::operation::record::{CLOCKS_DIFFER_MAX, Record};

/// Since when an operation's effect is unknown, as far as its holder can tell when it takes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    taken: Instant,
    /// By the record, as far as it lies behind the take; by our own measure, if that is more.
    on_record: Duration,
    /// A request may be under way for so long after the take.
    under_way: Duration,
    /// What of the settle time is over at the take, for certain.
    counted: Duration,
}

impl Settling {
    /// Of a record that was taken a moment ago; `None` if its effect is known. `let_go` is when the settle time began
    /// as this process measured it, if it did.
    pub(super) fn of(record: &Record, taken: Instant, let_go: Option<Instant>) -> Option<Settling> {
        let since = record.unknown_since?;
        // Both by the taker's clock, as it was at the take.
        let on_record = record.updated_at.since(since);
        let under_way = since.since(record.updated_at);
        let by_clocks = on_record.saturating_sub(CLOCKS_DIFFER_MAX);
        let Some(began) = let_go else {
            return Some(Settling { taken, on_record, under_way, counted: by_clocks });
        };
        let measured = taken.since(began);
        Some(Settling {
            taken,
            on_record: on_record.max(measured),
            under_way: began.since(taken),
            counted: by_clocks.max(measured),
        })
    }

    /// When a settle time of this length is over.
    pub(super) fn over_at(self, settle: Duration) -> Instant {
        self.taken.plus(self.under_way).plus(settle.saturating_sub(self.counted))
    }

    /// When it began; no earlier than this process's clock did.
    pub(super) fn began(self) -> Instant {
        let from = self.taken.plus(self.under_way).as_nanos();
        Instant::from_nanos(from.saturating_sub(u64::try_from(self.counted.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// For how long the effect has been unknown. What passed since the take is on our own monotonic clock.
    pub(super) fn unknown_for(self, now: Instant) -> Duration {
        self.on_record.saturating_add(now.since(self.taken))
    }

    /// `since`, which is on record, as it must be written down now: our wall clock may have been set since the take, and
    /// whoever takes the operation next counts by it.
    pub(super) fn written_at(self, since: Timestamp, wall: Timestamp, now: Instant) -> Timestamp {
        let passed = now.since(self.taken);
        let ahead = self.under_way.saturating_sub(passed);
        let ago = self.on_record.saturating_add(passed.saturating_sub(self.under_way));
        let exact = if ahead.is_zero() { wall.minus(ago) } else { wall.plus(ahead) };
        let differ = exact.since(since).max(since.since(exact));
        if differ > WALL_AGREES { exact } else { since }
    }
}

/// The operations of unknown effect that this process has let go of.
#[derive(Debug, Default)]
pub(crate) struct LetGo(Mutex<HashMap<OperationId, (u64, Instant)>>);

impl LetGo {
    /// Its holder under `fence` has let go of it. Its settle time `began` on our own clock.
    pub(super) fn note(&self, id: &OperationId, fence: u64, began: Instant, now: Instant) {
        let mut operations = self.0.lock();
        if operations.len() >= NOTED_MAX && !operations.contains_key(id) {
            // By then the record's own times say enough.
            operations.retain(|_, (_, began)| now.since(*began) < NOTED_FOR);
            if operations.len() >= NOTED_MAX {
                return;
            }
        }
        operations.insert(id.clone(), (fence, began));
    }

    /// When the settle time of an operation that is held under `fence` began; `None` if somebody else held it since, or
    /// nothing is known.
    pub(super) fn recall(&self, id: &OperationId, fence: u64) -> Option<Instant> {
        let (let_go, began) = self.0.lock().remove(id)?;
        (let_go.checked_add(1) == Some(fence)).then_some(began)
    }
}

/// A few MiB. A process that lets go of more within minutes counts by the record's times.
const NOTED_MAX: usize = 10_000;

/// Far above a settle time and what clocks may differ by.
const NOTED_FOR: Duration = Duration::from_secs(3600);

/// What a store may take to answer a take. Less than that is no step of the clock.
const WALL_AGREES: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Key, Scope};

    fn operation(key: &str) -> OperationId {
        OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new(key).expect("a key"))
    }

    fn at_s(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn only_the_very_next_fence_goes_on_where_it_was() {
        let (let_go, id) = (LetGo::default(), operation("k"));
        for (fence, recalled) in [(4, None), (5, Some(at_s(7))), (6, None)] {
            let_go.note(&id, 4, at_s(7), at_s(8));
            assert_eq!(let_go.recall(&id, fence), recalled, "fence {fence}");
            assert_eq!(let_go.recall(&id, fence), None, "once");
        }
        assert_eq!(let_go.recall(&operation("other"), 5), None);
    }

    #[test]
    fn what_is_noted_is_bounded_and_the_oldest_gives_way() {
        let let_go = LetGo::default();
        for nth in 0..NOTED_MAX {
            let_go.note(&operation(&format!("{nth}")), 1, at_s(10), at_s(10));
        }
        let_go.note(&operation("more"), 1, at_s(20), at_s(20));
        assert_eq!(let_go.recall(&operation("more"), 2), None, "full");
        let later = at_s(10).plus(NOTED_FOR);
        let_go.note(&operation("later"), 1, later, later);
        assert_eq!(let_go.recall(&operation("later"), 2), Some(later));
        assert_eq!(let_go.recall(&operation("0"), 2), None);
    }
}

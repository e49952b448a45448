//! How many attempts may be under way at once.
//!
//! A counter, not a semaphore: no call waits in line here. A queue in front of a slow vendor only moves the wait to
//! where it cannot be seen, and a call that is refused at once can still be scheduled. The count goes up by
//! compare-and-swap, not by add-then-undo: an undo shows other callers a limit that is full for an instant when it is
//! not.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{invalid, switch};
use crate::error::{Error, field};

/// How the vendors file writes the limit: a table with `max`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Form {
    max: u32,
}

impl Default for Form {
    fn default() -> Form {
        Form { max: MAX }
    }
}

pub(super) fn serialize<S: Serializer>(max: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    switch::serialize(&max.map(|max| Form { max }), serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Ok(switch::deserialize::<Form, D>(deserializer)?.map(|form| form.max))
}

pub(super) fn validate(max: u32) -> Result<(), Error> {
    if max == 0 {
        return Err(invalid(
            field!(concurrency.max),
            "0 refuses every call; to stop calls use the kill switch",
        ));
    }
    Ok(())
}

/// The limit of an empty table.
const MAX: u32 = 64;

/// The attempts under way.
#[derive(Debug)]
pub(super) struct Concurrency {
    max: u32,
    under_way: AtomicU32,
}

impl Concurrency {
    pub(super) fn new(max: u32) -> Concurrency {
        Concurrency { max, under_way: AtomicU32::new(0) }
    }

    /// Takes a place, or `None` if all are taken. The place is given back when it is dropped.
    #[inline]
    pub(super) fn enter(&self) -> Option<Place<'_>> {
        let raise = |count: u32| (count < self.max).then(|| count + 1);
        // Built only on success: a place that is made counts down when it is dropped.
        let entered = self.under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
        entered.ok().map(|_| Place { concurrency: Some(self) })
    }

    /// A place that was [lent](Place::lend).
    pub(super) fn lent(&self) -> Place<'_> {
        Place { concurrency: Some(self) }
    }

    /// How many more there is room for.
    pub(super) fn free(&self) -> u32 {
        self.max.saturating_sub(self.under_way())
    }

    pub(super) fn under_way(&self) -> u32 {
        self.under_way.load(Ordering::Relaxed)
    }
}

/// One place among the attempts under way.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// `None` once it was lent.
    concurrency: Option<&'a Concurrency>,
}

impl Place<'_> {
    /// Keeps the place taken. Says that there is one.
    pub(super) fn lend(mut self) -> bool {
        self.concurrency.take().is_some()
    }
}

impl Drop for Place<'_> {
    #[inline]
    fn drop(&mut self) {
        // Never under zero: every place was counted when it was made, and is dropped once.
        if let Some(concurrency) = self.concurrency {
            concurrency.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exact_and_a_dropped_place_is_free_again() {
        let gate = Concurrency::new(2);
        let first = gate.enter();
        let second = gate.enter();
        assert!(first.is_some() && second.is_some());
        assert!(gate.enter().is_none());
        assert_eq!(gate.under_way(), 2);
        drop(first);
        assert_eq!(gate.under_way(), 1);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn no_more_than_the_limit_are_ever_under_way() {
        let gate = Concurrency::new(3);
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if let Some(place) = gate.enter() {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(place);
                        }
                    }
                });
            }
        });
        assert_eq!(gate.under_way(), 0);
    }
}

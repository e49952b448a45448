//! The limit on attempts under way at once.
//!
//! A counter, not a semaphore: no call waits in line here. A queue in front of a slow vendor only moves the wait to
//! where it cannot be seen, and a call that is refused at once can still be scheduled. The count goes up by
//! compare-and-swap, not by add-then-undo: an undo shows other callers a limit that is full for an instant when it is
//! not.
//!
//! A streamed reply has its place for as long as its caller reads. A body that is not read is no more work for the vendor
//! than an idle connection, and its caller may have forgotten it. If it kept its place for ever, as many of them as
//! there are places would stop the client. So a call that finds every place taken takes those of the bodies that were not
//! read for their time. A caller that reads on takes a place again, also where none is free: what has begun is not
//! refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{invalid, switch};
use crate::clock::Instant;
use crate::error::{Error, field};

/// Form of the limit in the vendors file: a table with `max`.
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
    /// The bodies that are streamed.
    streamed: Mutex<Vec<Arc<Streamed>>>,
}

/// A body that is streamed.
#[derive(Debug)]
pub(super) struct Streamed {
    /// Time for which the body may be left unread.
    idle: Duration,
    state: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    has_place: bool,
    /// Time at which its caller last asked for more.
    last: Instant,
}

impl Reading {
    /// Whether it has a place that another call may take.
    fn is_left(&self, idle: Duration, now: Instant) -> bool {
        self.has_place && now.since(self.last) >= idle
    }
}

impl Concurrency {
    pub(super) fn new(max: u32) -> Concurrency {
        Concurrency { max, under_way: AtomicU32::new(0), streamed: Mutex::default() }
    }

    /// Takes a place, or `None` if all are taken. The place is given back when it is dropped.
    #[inline]
    pub(super) fn enter(&self) -> Option<Place<'_>> {
        let raise = |count: u32| (count < self.max).then(|| count + 1);
        // Built only on success: a place that is made counts down when it is dropped.
        let entered = self.under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
        entered.ok().map(|_| Place { concurrency: Some(self) })
    }

    /// Takes the places of the bodies that are not read, and says how many these were.
    #[cold]
    pub(super) fn take_from_unread(&self, now: Instant) -> u32 {
        let mut taken = 0;
        for streamed in &*self.streamed.lock() {
            let mut reading = streamed.state.lock();
            if reading.is_left(streamed.idle, now) {
                reading.has_place = false;
                self.under_way.fetch_sub(1, Ordering::Relaxed);
                taken += 1;
            }
        }
        taken
    }

    /// The caller of a streamed body asks for more.
    pub(super) fn is_read(&self, streamed: &Streamed, now: Instant) {
        let mut reading = streamed.state.lock();
        reading.last = now;
        if !reading.has_place {
            reading.has_place = true;
            self.under_way.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A streamed body has ended.
    pub(super) fn has_ended(&self, streamed: &Arc<Streamed>) {
        self.streamed.lock().retain(|other| !Arc::ptr_eq(other, streamed));
        if streamed.state.lock().has_place {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of attempts that there is room for, with the places of the bodies that are not read. It takes
    /// none.
    pub(super) fn room(&self, now: Instant) -> u32 {
        let free = self.max.saturating_sub(self.under_way());
        if free > 0 {
            return free;
        }
        let unread =
            self.streamed.lock().iter().filter(|body| body.state.lock().is_left(body.idle, now)).count();
        self.max.saturating_add(unread as u32).saturating_sub(self.under_way())
    }

    pub(super) fn under_way(&self) -> u32 {
        self.under_way.load(Ordering::Relaxed)
    }
}

/// A place among the attempts under way.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// `None` once it was lent.
    concurrency: Option<&'a Concurrency>,
}

impl Place<'_> {
    /// Leaves the place to a body that is streamed, which may be unread for `idle`.
    pub(super) fn lend(mut self, now: Instant, idle: Duration) -> Option<Arc<Streamed>> {
        let concurrency = self.concurrency.take()?;
        let state = Mutex::new(Reading { has_place: true, last: now });
        let streamed = Arc::new(Streamed { idle, state });
        concurrency.streamed.lock().push(Arc::clone(&streamed));
        Some(streamed)
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
    fn an_unread_body_gives_its_place_up_once_and_takes_it_again() {
        let (gate, idle) = (Concurrency::new(2), Duration::from_secs(30));
        let at = |secs| Instant::ORIGIN.plus(Duration::from_secs(secs));
        let lend = || gate.enter().and_then(|place| place.lend(at(0), idle)).expect("a place");
        let (unread, read) = (lend(), lend());
        gate.is_read(&read, at(10));
        assert_eq!((gate.under_way(), gate.take_from_unread(at(29))), (2, 0));
        assert_eq!((gate.take_from_unread(at(30)), gate.take_from_unread(at(39))), (1, 0));
        assert_eq!(gate.under_way(), 1);
        let other = gate.enter();
        assert!(other.is_some() && gate.enter().is_none());
        // It is read on, over the limit, and is counted.
        gate.is_read(&unread, at(31));
        assert_eq!((gate.under_way(), gate.room(at(31))), (3, 0));
        drop(other);
        assert!(gate.enter().is_none());
        assert_eq!((gate.room(at(60)), gate.room(at(61)), gate.under_way()), (1, 2, 2));
        assert_eq!(gate.take_from_unread(at(61)), 2);
        gate.is_read(&read, at(61));
        for body in [unread, read] {
            gate.has_ended(&body);
        }
        assert_eq!((gate.under_way(), gate.streamed.lock().len()), (0, 0));
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

//! [`Wakes`]: wakes the dispatchers of a process at once when something is enqueued.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Weak};

use easy_ext::ext;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Waiters;
use crate::clock::Timestamp;
use crate::operation::Scope;

/// Wakes the dispatchers of this process that deliver from one store, each at the time at which something is due.
///
/// A store has one and gives it as [`Delivery::wakes`](super::delivery::Delivery::wakes). Clients of the store then
/// share it: an operation that one of them enqueues or postpones wakes the dispatcher of another, and their dispatcher
/// looks once for all of them. A store that learns of operations which *other processes* enqueue, such as by a
/// notification of its database, calls [`wake`](Wakes::wake) for it. An operation without a wake is found by looking.
/// Clones wake the same dispatchers.
///
/// ```
/// use steadfast_core::clock::{Clock, SystemClock};
/// use steadfast_core::store::delivery::Wakes;
///
/// // In a store that listens to its database: something was enqueued, and it did not say what.
/// let wakes = Wakes::new();
/// wakes.wake(None, SystemClock::new().wall());
/// ```
#[derive(Clone, Default)]
pub struct Wakes {
    sleepers: Arc<Mutex<Vec<Weak<Sleeper>>>>,
    /// The calls of this process that wait for an operation of the store.
    waiting: Arc<Waiters>,
}

impl Wakes {
    /// Wakes no call yet.
    pub fn new() -> Wakes {
        Wakes::default()
    }

    /// Wakes the dispatchers at `due`, by the wall clock that the records' times are of; at once if that has passed.
    /// `scope` is the operation's, if it is known: then no caller has to look for it first.
    ///
    /// Does not block. It costs next to nothing where no dispatcher runs.
    pub fn wake(&self, scope: Option<&Scope>, due: Timestamp) {
        let mut sleepers = self.sleepers.lock();
        sleepers.retain(|sleeper| sleeper.strong_count() > 0);
        for sleeper in sleepers.iter().filter_map(Weak::upgrade) {
            sleeper.wake(scope, due);
        }
    }
}

/// Methods of [`Wakes`] that only the dispatchers and calls of this workspace use.
#[ext(WakesExt)]
pub impl Wakes {
    /// Registered to be woken, until it is dropped.
    fn sleeper(&self) -> Arc<Sleeper> {
        let sleeper = Arc::new(Sleeper::default());
        self.sleepers.lock().push(Arc::downgrade(&sleeper));
        sleeper
    }

    /// Whether both wake the same dispatchers: their stores are one.
    fn is_same(&self, other: &Wakes) -> bool {
        Arc::ptr_eq(&self.sleepers, &other.sleepers)
    }

    /// The calls of this process that wait for an operation of the store.
    fn waiting(&self) -> &Arc<Waiters> {
        &self.waiting
    }
}

impl fmt::Debug for Wakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakes")
            .field("dispatchers", &self.sleepers.lock().len())
            .field("waiting", &self.waiting)
            .finish()
    }
}

/// Waiter of a dispatcher for its wakes.
#[derive(Debug, Default)]
pub struct Sleeper {
    /// Wakes that were announced, the earliest first. An empty path stands for any account.
    announced: Mutex<BTreeSet<(Timestamp, String)>>,
    /// Notified if one is earlier than all before.
    pub woken: Notify,
}

impl Sleeper {
    fn wake(&self, scope: Option<&Scope>, due: Timestamp) {
        let path = scope.map_or("", Scope::account_path);
        let mut announced = self.announced.lock();
        let is_first = announced.first().is_none_or(|(first, _)| due < *first);
        if !announced.insert((due, path.to_owned())) {
            return;
        }
        if announced.len() > ANNOUNCED_MAX {
            announced.pop_last();
        }
        drop(announced);
        if is_first {
            self.woken.notify_one();
        }
    }

    /// Notes what its own look has found.
    pub fn tell(&self, scope: &Scope, due: Timestamp) {
        self.wake(Some(scope), due);
    }

    /// The accounts with something due at `now`, each once, and when there is more.
    pub fn due(&self, now: Timestamp) -> (BTreeSet<String>, Option<Timestamp>) {
        let mut announced = self.announced.lock();
        let mut due = BTreeSet::new();
        while announced.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(announced.pop_first().map(|(_, path)| path));
        }
        (due, announced.first().map(|(at, _)| *at))
    }
}

/// Number of future times that a dispatcher remembers, at some dozen bytes each. Of more, those that are due last are
/// forgotten, and found by looking.
const ANNOUNCED_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn a_waiter_wakes_for_each_account_at_its_time() {
        let at = Timestamp::from_millis;
        let scope = |account| Scope::new("prod", "stripe", account, &Method::POST, "/v1/charges");
        let wakes = Wakes::new();
        wakes.wake(None, at(1));
        let sleeper = wakes.sleeper();
        assert_eq!(sleeper.due(at(9)), (BTreeSet::new(), None), "nobody was there to be told");
        for (account, due) in [("b", 5), ("a", 5), ("a", 5), ("a", 7)] {
            wakes.wake(Some(&scope(account)), at(due));
        }
        assert_eq!(sleeper.due(at(4)), (BTreeSet::new(), Some(at(5))));
        let both = ["prod/stripe/a".to_owned(), "prod/stripe/b".to_owned()];
        assert_eq!(sleeper.due(at(5)), (BTreeSet::from(both), Some(at(7))));
        drop(sleeper);
        wakes.wake(None, at(9));
        assert_eq!(
            format!("{wakes:?}"),
            "Wakes { dispatchers: 0, waiting: Waiters { calls: 0, operations: 0, .. } }",
            "who has gone is forgotten"
        );
    }

    #[test]
    fn overflow_drops_the_latest_wakes() {
        let wakes = Wakes::new();
        let sleeper = wakes.sleeper();
        for due in (0..2 * ANNOUNCED_MAX as u64).rev() {
            wakes.wake(None, Timestamp::from_millis(due));
        }
        let mut left = 0;
        while let (due, Some(next)) = sleeper.due(Timestamp::from_millis(left)) {
            assert_eq!((due.len(), next.as_millis()), (1, left + 1));
            left += 1;
        }
        assert_eq!(left + 1, ANNOUNCED_MAX as u64);
    }
}

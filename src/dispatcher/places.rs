//! The limit on operations of one vendor that are carried on at once, over all of its accounts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::Client;

/// The places of one vendor in one dispatcher. Its accounts may be in several stores, each of which is delivered from by
/// itself: the places are taken and given back exactly.
#[derive(Debug)]
pub(super) struct Places {
    at_once: usize,
    taken: AtomicUsize,
    /// All places of the dispatcher that an operation has, of whichever vendor.
    under_way: Arc<AtomicUsize>,
}

/// A place, until it is dropped: kept for an operation that a take may find, and then that operation's.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    is_used: bool,
}

impl Place {
    /// An operation is carried on in it.
    pub(super) fn used(mut self) -> Place {
        self.is_used = true;
        self.places.under_way.fetch_add(1, Ordering::Relaxed);
        self
    }
}

impl Places {
    pub(super) fn new(at_once: usize, under_way: &Arc<AtomicUsize>) -> Arc<Places> {
        Arc::new(Places { at_once: at_once.max(1), taken: AtomicUsize::new(0), under_way: under_way.clone() })
    }

    /// The places of each vendor of these clients: `at_once`, or else what the policies say; where they differ, the
    /// most that one of them says.
    pub(super) fn of_each(
        clients: &[Client],
        at_once: Option<usize>,
        under_way: &Arc<AtomicUsize>,
    ) -> BTreeMap<String, Arc<Places>> {
        let mut most: BTreeMap<String, usize> = BTreeMap::new();
        for client in clients {
            let own = at_once.unwrap_or_else(|| client.engine.gates.recovery().at_once());
            let most = most.entry(client.vendor().to_owned()).or_default();
            *most = own.max(*most);
        }
        most.into_iter().map(|(vendor, at_once)| (vendor, Places::new(at_once, under_way))).collect()
    }

    pub(super) const fn at_once(&self) -> usize {
        self.at_once
    }

    pub(super) fn free(&self) -> usize {
        self.at_once.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Reserves at most `wanted` of those that are free.
    pub(super) fn hold(self: &Arc<Places>, wanted: usize) -> Vec<Place> {
        let mut held = 0;
        let more = |taken: usize| {
            held = wanted.min(self.at_once.saturating_sub(taken));
            Some(taken + held)
        };
        // It always gives some, so that it never fails.
        let _ = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        (0..held).map(|_| Place { places: Arc::clone(self), is_used: false }).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.fetch_sub(1, Ordering::Relaxed);
        if self.is_used {
            self.places.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::Stripe;
    use steadfast_core::Policy;
    use steadfast_core::policy::RecoveryConfig;

    #[test]
    fn no_more_places_are_held_than_exist() {
        let under_way = Arc::new(AtomicUsize::new(0));
        let places = Places::new(3, &under_way);
        let first = places.hold(2);
        let second = places.hold(2);
        assert_eq!((first.len(), second.len(), places.free()), (2, 1, 0));
        assert_eq!(places.hold(1).len(), 0);
        let count = || under_way.load(Ordering::Relaxed);
        assert_eq!(count(), 0, "kept for a take, which may find nothing");
        let used: Vec<Place> = second.into_iter().map(Place::used).collect();
        assert_eq!(count(), 1);
        drop(first);
        assert_eq!((places.free(), count()), (2, 1));
        drop(used);
        assert_eq!((places.free(), count()), (3, 0));
    }

    #[test]
    fn a_vendors_places_are_the_largest_of_its_clients() {
        let client = |account: &str, at_once| {
            let policy = Policy::background().recovery(RecoveryConfig::new(10, 500).at_once(at_once));
            Client::builder(Stripe::new("sk_test_123").account(account)).policy(policy).build().unwrap()
        };
        let clients = [client("a", 2), client("b", 4), client("c", 3)];
        let at_once = |given| Places::of_each(&clients, given, &Arc::default())["stripe"].at_once();
        assert_eq!((at_once(None), at_once(Some(7))), (4, 7));
    }
}

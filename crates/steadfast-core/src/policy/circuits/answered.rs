//! The routes that were answered well of late.

use super::{REMEMBERED, ROUTES_MAX, WELL_FOR};
use crate::clock::Instant;

/// The last good answers of some routes, each route by its hash.
#[derive(Debug)]
pub(super) struct Answered([(u64, Instant); ROUTES_MAX]);

impl Default for Answered {
    fn default() -> Answered {
        Answered([(0, Instant::ORIGIN); ROUTES_MAX])
    }
}

impl Answered {
    pub(super) fn note(&mut self, route: u64, now: Instant) {
        let own = self.0.iter().position(|(hash, _)| *hash == route);
        let oldest = || (0..ROUTES_MAX).min_by_key(|nth| self.0.get(*nth).map(|(_, at)| *at));
        let place = own.or_else(oldest).and_then(|place| self.0.get_mut(place));
        if let Some(place) = place {
            *place = (route, now);
        }
    }

    /// Whether a route is one that works, as far as is known.
    pub(super) fn has_worked(&self, route: u64, now: Instant) -> bool {
        self.0.iter().any(|(hash, at)| *hash == route && now.since(*at) < REMEMBERED)
    }

    pub(super) fn others_are_well(&self, route: u64, now: Instant) -> bool {
        let is_recent = |at: Instant| at != Instant::ORIGIN && now.since(at) < WELL_FOR;
        self.0.iter().any(|(hash, at)| *hash != route && is_recent(*at))
    }
}

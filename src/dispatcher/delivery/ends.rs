//! What the end of operations means for those that wait for their places.

use super::{Delivery, Turn};
use crate::clock::Instant;

impl Delivery {
    /// Some operations have ended. Whether that is a reason to take again, now or sooner than was thought.
    pub(super) fn places_came(&mut self) -> bool {
        let (now, under_way) = (self.clock.now(), &self.under_way);
        let mut is_reason = false;
        for (member, turn) in self.members.iter_mut().enumerate() {
            if turn.wants() {
                is_reason |= turn.places_came(now, under_way.of(member));
            }
        }
        is_reason
    }
}

impl Turn {
    /// Some operations have ended, and `carried` of this client's are under way. Whether there is anything new for it to
    /// wait for, or nothing any more. Many short operations that end one by one would each be a take of one: so the pause
    /// between two takes stands, until half of the places are free.
    fn places_came(&mut self, now: Instant, carried: usize) -> bool {
        let waited = std::mem::take(&mut self.waits_for_place);
        let is_over = (waited || self.pauses) && self.member.has_half(carried);
        if is_over {
            (self.not_before, self.pauses) = (self.not_before.min(now), false);
        }
        waited || is_over
    }
}

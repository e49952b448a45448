//! What the end of operations means for those that wait for their places.

use super::Delivery;

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

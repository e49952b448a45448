//! A client in the line: what it has to take, and when it may.

use std::time::Duration;

use steadfast_core::clock::Instant;

use super::super::member::{GAP, Member, Next};
use crate::admission::Admission;

/// A client in the line.
pub(super) struct Turn {
    pub(super) member: Member,
    /// Earliest time of the next take.
    pub(super) not_before: Instant,
    /// True if it has no place: one that ends is a reason to try again.
    pub(super) waits_for_place: bool,
    /// True if only the pause between two takes keeps it from taking.
    pub(super) pauses: bool,
    /// True if its work was found by looking, and not by a wake.
    pub(super) by_look: bool,
    /// True if a wake announced that it has something due.
    pub(super) is_told: bool,
    /// Whether rows of the outbox wait for it, as far as the last look knows, and where it is among them.
    pub(super) has_rows: bool,
    pub(super) admission: Admission,
}

impl Turn {
    pub(super) fn new(member: Member) -> Turn {
        Turn {
            member,
            not_before: Instant::ORIGIN,
            waits_for_place: false,
            pauses: false,
            by_look: false,
            is_told: false,
            has_rows: false,
            admission: Admission::default(),
        }
    }

    /// Whether the client's terms are those of the account's other services: nothing is carried on for it otherwise.
    pub(super) fn agrees(&self) -> bool {
        self.member.client.engine.disagreement.check().is_ok()
    }

    /// Allows a probe again of operations that were left out, once their time has come.
    pub(super) fn probe_again(&mut self) {
        if self.member.again_in().is_some_and(|wait| wait.is_zero()) {
            (self.member.has.due, self.member.again_at) = (true, None);
        }
    }

    /// Whether it has something to take.
    pub(super) fn wants(&self) -> bool {
        self.member.has.any() && self.agrees()
    }

    pub(super) fn may_take(&self, now: Instant) -> bool {
        self.wants() && self.not_before <= now
    }

    /// The client's clock may have another origin than the loop's: only its waits are taken from it.
    pub(super) fn wait_for(&mut self, next: Next, now: Instant, period: Duration, one_will_end: bool) {
        let by_its_clock = self.member.now();
        let wait = match next {
            Next::Place if one_will_end => {
                self.waits_for_place = true;
                return;
            }
            // Other stores' operations of this vendor have them all: nobody here says when one ends.
            Next::Place => GAP,
            Next::At(at) => at.since(by_its_clock),
            Next::Closed(until) => until.map_or(period, |until| until.since(by_its_clock)).min(period),
        };
        self.not_before = now.plus(wait);
    }

    /// Notes that some operations have ended, and `carried` of this client's are under way. Returns true if there is
    /// anything new for it to wait for, or nothing any more. Many short operations that end one by one would each be a
    /// take of one: so the pause between two takes stands, until half of the places are free.
    pub(super) fn places_came(&mut self, now: Instant, carried: usize) -> bool {
        let waited = std::mem::take(&mut self.waits_for_place);
        let is_over = (waited || self.pauses) && self.member.has_half(carried);
        if is_over {
            (self.not_before, self.pauses) = (self.not_before.min(now), false);
        }
        waited || is_over
    }

    /// Whether rows wait for it that it may admit.
    pub(super) fn may_admit(&self) -> bool {
        self.has_rows && self.agrees()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::places::Places;
    use super::*;
    use crate::client::Client;
    use crate::vendor::Stripe;

    const PERIOD: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn turn() -> Turn {
        let client = Client::builder(Stripe::new("sk_test_123")).build().unwrap();
        Turn::new(Member::new(&client, Places::new(8, &Arc::default())))
    }

    /// An operator may open it sooner, without a wake.
    #[test]
    fn a_gate_that_is_closed_for_long_is_asked_again_after_the_period() {
        let mut turn = turn();
        let now = turn.member.now();
        for until in [None, Some(now.plus(HOUR))] {
            turn.wait_for(Next::Closed(until), now, PERIOD, false);
            assert_eq!((turn.not_before, turn.waits_for_place), (now.plus(PERIOD), false), "{until:?}");
        }
    }

    /// Others, who may deliver, are not told that it does.
    #[tokio::test]
    async fn who_has_other_terms_wants_nothing() {
        let mut turn = turn();
        (turn.member.has.due, turn.has_rows) = (true, true);
        assert!(turn.wants() && turn.may_admit());
        let engine = &turn.member.client.engine;
        let theirs = r#"{"base_url":"https://eu.stripe.test/"}"#;
        engine.store.register(&turn.member.account, Some(theirs)).await.unwrap();
        engine.register().await.unwrap().unwrap_err();
        assert!(!turn.wants() && !turn.may_admit());
    }

    #[test]
    fn places_that_another_stores_operations_have_are_asked_for_again() {
        let mut turn = turn();
        let now = turn.member.now();
        turn.wait_for(Next::Place, now, PERIOD, false);
        assert_eq!((turn.not_before, turn.waits_for_place), (now.plus(GAP), false));
        turn.wait_for(Next::Place, now, PERIOD, true);
        assert!(turn.waits_for_place, "one of its own will end, and says so");
    }
}

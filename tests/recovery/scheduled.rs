//! Calls that are recorded now and sent later: none too early, and no time is lost.

use std::time::Duration;

use serde_json::json;
use steadfast::clock::Clock as _;
use steadfast::operation::Scope;
use steadfast::operation::record::{Action, Filter, Phase, Record, Resolution, State};
use steadfast::store::Store;
use steadfast::testkit::TestClock;
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{Postmark, Stripe};
use steadfast::{Call, Client, Effect, InFlight};

use crate::second_effects::{Bench, DAY, at};
use support::commands;

const HOUR: Duration = Duration::from_secs(3600);

impl Bench {
    fn stripe(&self, clock: &TestClock) -> Client {
        self.in_namespace("prod", Stripe::new("sk_test_1"), Bench::policy().lookups_max(0), clock)
    }

    async fn in_phase(&self, phase: Phase) -> Record {
        let page = self.store.list(&Filter::default(), None, 100).await.expect("works");
        let row = page.rows.iter().find(|row| row.phase == phase).expect("on record");
        self.store.get(&row.id).await.expect("works").expect("on record")
    }
}

fn remind(client: &Client) -> Call {
    client.post("/v1/invoices/in_1/send").key("in_1/remind")
}

/// A host whose clock was ahead recorded a reminder for tomorrow. To every other host, and to itself once its clock was
/// right, that was a schedule of a wrong clock, which holds nobody back: the reminder was sent at once.
#[tokio::test]
async fn what_a_clock_that_was_ahead_left_for_later_is_not_sent_before_its_time() {
    for ahead in [HOUR, 2 * DAY] {
        for bench in Bench::each() {
            let right = at(Duration::ZERO);
            let time = right.wall().plus(3 * DAY);
            let call = remind(&bench.stripe(&at(ahead)));
            let reminder = call.at(time).enqueue().await.expect("it is recorded");
            let client = bench.stripe(&right);
            for passed in [Duration::ZERO, HOUR, DAY] {
                right.set_wall(time.minus(3 * DAY).plus(passed));
                assert_eq!(client.recover(8).await.expect("a store").taken, 0, "{passed:?} of three days");
                let told = remind(&client).in_flight(InFlight::Wait).send().await.expect_err("not yet");
                assert!(told.is_in_progress() && told.effect() == Effect::None, "{told}");
            }
            assert_eq!(bench.network.requests().len(), 0);
            right.set_wall(time);
            let _ = bench.network.clone().status(200);
            assert_eq!(client.recover(8).await.expect("a store").succeeded, 1);
            reminder.wait(Duration::ZERO).await.expect("it is sent");
        }
    }
}

/// A call that such a host wants sent now does not wait until the others' clocks are where its own was.
#[tokio::test]
async fn what_a_clock_that_was_ahead_left_for_now_is_sent_at_once() {
    for bench in Bench::each() {
        remind(&bench.stripe(&at(2 * DAY))).enqueue().await.expect("it is recorded");
        let _ = bench.network.clone().status(200);
        let client = bench.stripe(&at(Duration::ZERO));
        assert_eq!(client.recover(8).await.expect("a store").succeeded, 1);
    }
}

/// A person said that a message was not sent, and redrove it. Its first send stays on record, should the person be wrong.
/// Adopted by another name, it was taken for one that was never sent: the vendor's window, and what a lookup may find,
/// began anew.
#[tokio::test]
async fn an_adoption_does_not_forget_when_it_was_first_sent() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let _ = bench.network.clone().fail(SendErrorKind::Reset);
        let mail = json!({"From": "a@x.test", "To": "b@x.test", "TextBody": "hello"});
        let old = bench.in_namespace("old", Postmark::new("token"), Bench::policy().lookups_max(0), &clock);
        old.post("/email").key("mail-1").json(&mail).send().await.expect_err("nobody can tell");
        let dead = bench.in_phase(Phase::Dead).await;
        clock.advance(HOUR);
        bench.act(&dead.id, Action::Resolve(Resolution::NotApplied), clock.wall()).await.expect("allowed");
        let redriven =
            bench.act(&dead.id, Action::Redrive { forced: false }, clock.wall()).await.expect("allowed");
        assert_eq!((redriven.effect, redriven.claimed_at), (Effect::None, dead.claimed_at));
        let to = Scope::from_stored(dead.id.scope.as_str().replacen("old/", "new/", 1));
        bench.act(&redriven.id, Action::Adopt { to }, clock.wall()).await.expect("allowed");
        let take = commands::takeover(Phase::Scheduled, clock.wall());
        let taken = bench.store.take(take).await.expect("works").remove(0);
        assert_eq!(taken.id.scope.as_str().split('/').next(), Some("new"));
        assert_eq!(taken.claimed_at, dead.claimed_at);
    }
}

/// The farthest time that a call can be left for is no trap for whoever reads it.
#[tokio::test]
async fn what_is_left_for_the_end_of_time_is_told_and_cancelled() {
    for bench in Bench::each() {
        let client = bench.stripe(&at(Duration::ZERO));
        let reminder = remind(&client).after(Duration::MAX).enqueue().await.expect("it is recorded");
        let again = remind(&client).after(HOUR).enqueue().await.expect("it is there");
        assert!(!again.is_new());
        let told = again.wait(HOUR).await.expect_err("not yet");
        assert!(told.is_in_progress() && told.retry_at().is_some(), "{told} {told:?}");
        assert_eq!(client.recover(8).await.expect("a store").taken, 0);
        reminder.cancel("no").await.expect("nobody holds it");
        let record = bench.store.get(reminder.id()).await.expect("works").expect("on record");
        assert!(matches!(record.state, State::Dead { .. }));
    }
}

/// A caller without time left is told the same by every store, and of what is on record.
#[tokio::test]
async fn what_has_no_time_left_is_not_recorded_and_says_so() {
    for bench in Bench::each() {
        let client = bench.stripe(&at(Duration::ZERO));
        let told = remind(&client).deadline(Duration::ZERO).enqueue().await.expect_err("no time");
        assert!(told.is_deadline() && told.effect() == Effect::None, "{told}");
        let page = bench.store.list(&Filter::default(), None, 100).await.expect("works");
        assert!(page.rows.is_empty());
        remind(&client).enqueue().await.expect("it is recorded");
        let told = remind(&client).deadline(Duration::ZERO).enqueue().await;
        assert!(told.as_ref().is_err_and(|told| told.is_deadline()), "{told:?}");
    }
}

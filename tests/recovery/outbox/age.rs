//! Rows that wait for long, and callers that ask for their operation meanwhile.

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock::Clock as _;
use steadfast::dead_letter::Change;
use steadfast::operation::record::{Filter, Phase, Takeover};
use steadfast::store::Store as _;
use steadfast::testkit::ScriptedTransport;
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Disposition, Effect};

use super::bench::{Shop, deliver};
use support::commands;

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A day longer than records are kept by default.
const LONG: Duration = Duration::from_secs(8 * 24 * 60 * 60);

impl Shop {
    /// Commits the call, without an order.
    fn commit(&self, call: Call) {
        drop(call.blocking_enqueue_in(&self.connection()).expect("it is written").committed());
    }

    fn set_aside(&self) {
        self.sql("UPDATE steadfast_outbox SET rejected_at_ms = 1, rejected = 'no such origin'");
    }

    fn put_back(&self) {
        self.sql("UPDATE steadfast_outbox SET rejected_at_ms = NULL, rejected = NULL");
    }

    async fn purge(&self) -> usize {
        self.store.purge(self.clock.wall(), 100).await.expect("a store")
    }

    /// Lets time pass that the store believes: it is told of it twice, with an hour between.
    async fn pass(&self, time: Duration) {
        self.clock.advance(time.saturating_sub(HOUR));
        self.touch().await;
        self.clock.advance(HOUR);
        self.touch().await;
    }

    /// A command that takes nothing.
    async fn touch(&self) {
        let take = commands::takeover(Phase::Scheduled, self.clock.wall());
        let take = Takeover { account: Some("default/stripe/nobody".to_owned()), ..take };
        assert_eq!(self.store.take(take).await.expect("a store").len(), 0);
    }
}

/// The service makes the call of a rejected row again, and an operator puts the row back after the record's time.
#[tokio::test]
async fn a_row_that_is_put_back_is_a_repeat_of_the_call_that_was_made_meanwhile() {
    let shop = Shop::open();
    shop.commit(shop.charge(42));
    shop.set_aside();
    shop.charge(42).send().await.expect("charged");
    shop.charge(43).send().await.expect("charged");
    shop.pass(LONG).await;
    assert_eq!(shop.purge().await, 1, "the record of a row's key stays");
    shop.put_back();
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.count("steadfast_outbox")), (2, 0));
    assert_eq!(shop.purge().await, 1, "the row is gone");

    // An operator who has looked has it sent: it is a call of now.
    shop.commit(shop.charge(42));
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.count("steadfast_outbox")), (3, 0));
}

/// A redeploy with a short retention: the row is committed while its key is on record, and a dispatcher comes when that is
/// over.
#[tokio::test]
async fn a_row_of_a_repeat_finds_the_outcome_that_was_on_record_when_it_was_written() {
    const TEN_MINUTES: Duration = Duration::from_secs(600);
    let call = |shop: &Shop| shop.charge(42).retention(2 * DAY);
    for purges in [false, true] {
        let shop = Shop::open();
        let first = call(&shop).send().await.expect("charged");
        shop.pass(2 * DAY - TEN_MINUTES).await;
        let repeat = call(&shop).blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
        shop.pass(HOUR + TEN_MINUTES).await;
        if purges {
            assert_eq!(shop.purge().await, 0);
        }
        shop.deliver().await;
        assert_eq!((shop.fake.ledger().count(), shop.count("steadfast_outbox")), (1, 0), "purges: {purges}");
        let told = repeat.wait(Duration::ZERO).await.expect("it is on record");
        assert_eq!(told.bytes(), first.bytes());
        // Of now it is another call.
        shop.commit(call(&shop));
        shop.deliver().await;
        assert_eq!((shop.fake.ledger().count(), shop.count("steadfast_outbox")), (2, 0));
    }
}

/// Nothing was ever sent, however long no dispatcher came.
#[tokio::test]
async fn a_row_that_waited_for_a_month_is_delivered() {
    let shop = Shop::open();
    shop.commit(shop.charge(42));
    shop.pass(4 * LONG).await;
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.rejected().await.len()), (1, 0));
}

/// The operation that a row starts over is on record for as long as the row waits.
#[tokio::test]
async fn a_row_that_starts_an_operation_over_finds_it_however_late() {
    let shop = Shop::open();
    let broken = shop.stripe.post("/v1/charges").key("order-42/charge").form(&[("amount", "x")]);
    let refused = broken.send().await.expect_err("it is refused");
    assert!(refused.is_refused(), "{refused}");
    shop.pass(LONG - 2 * DAY).await;
    shop.commit(shop.charge(43).supersedes("order-42/charge"));
    shop.pass(LONG).await;
    assert_eq!(shop.purge().await, 0);
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.rejected().await.len()), (1, 0));
}

/// A store that was told a time in a month by one host believes no other one less.
#[tokio::test]
async fn a_host_that_is_a_month_ahead_finds_no_row_too_old() {
    let shop = Shop::open();
    shop.commit(shop.charge(42));
    shop.touch().await;
    let right = shop.clock.wall();
    shop.clock.set_wall(right.plus(30 * DAY));
    shop.deliver().await;
    assert_eq!(shop.rejected().await.len(), 0);
    assert_eq!((shop.fake.ledger().count(), shop.count("steadfast_outbox")), (1, 0));
}

/// Before a dispatcher has recorded it, the caller's next call is refused by a gate, or has no time.
#[tokio::test]
async fn who_is_refused_while_its_row_waits_is_told_that_it_goes_on() {
    let shop = Shop::open();
    let word = async |call: Call| {
        let error = call.send().await.expect_err("it is refused");
        (error.effect(), error.disposition())
    };
    let goes_on = (Effect::None, Disposition::Continues { at: None });
    let nothing = (Effect::None, Disposition::Ended);
    shop.commit(shop.charge(42));
    shop.stripe.engage_kill_switch();
    assert_eq!(word(shop.charge(42)).await, goes_on);
    assert_eq!(word(shop.charge(42).deadline(Duration::ZERO)).await, goes_on);

    // Of another key, route or account no row waits.
    let customer = || shop.stripe.post("/v1/customers").key("order-42/charge").form(&[("name", "Ann")]);
    assert_eq!(word(shop.charge(43)).await, nothing);
    assert_eq!(word(customer()).await, nothing);
    assert_eq!(word(shop.charge(42).header("stripe-account", "acct_1")).await, nothing);
    shop.commit(customer());
    assert_eq!(word(customer()).await, goes_on);

    // Nor does a look at what is on record say that there is nothing.
    let told = shop.charge(42).recorded().await.expect_err("it waits");
    assert!(told.is_in_progress() && told.effect() == Effect::None, "{told}");
    assert!(shop.charge(43).recorded().await.expect("a store").is_none());

    // A row that was rejected goes nowhere.
    shop.set_aside();
    assert_eq!(word(shop.charge(42)).await, nothing);
    shop.put_back();
    shop.stripe.release_kill_switch();
    shop.deliver().await;
    assert_eq!(shop.fake.ledger().count(), 2);
    shop.charge(42).send().await.expect("it is on record");
}

/// The operation that a row starts over has not ended: the row waits, and is no mistake.
#[tokio::test]
async fn a_row_waits_for_the_end_of_what_it_starts_over() {
    let shop = Shop::open();
    shop.charge(42).after(DAY).enqueue().await.expect("it is recorded");
    shop.commit(shop.charge(43).supersedes("order-42/charge"));
    shop.deliver().await;
    assert_eq!((shop.waiting(), shop.rejected().await.len()), (1, 0));
    let all = shop.store.list(&Filter::default(), None, 10).await.expect("a store").rows;
    assert_eq!(all.len(), 1);

    let first = shop.charge(42).after(DAY).enqueue().await.expect("it is there");
    first.cancel("another amount").await.expect("it is cancelled");
    shop.deliver().await;
    assert_eq!((shop.count("steadfast_outbox"), shop.fake.ledger().count()), (0, 1));
}

/// Its handle is asked for by the key alone, once the time of what it is a repeat of is over.
#[tokio::test]
async fn a_handle_by_key_is_told_what_a_row_came_to_and_that_it_is_forgotten() {
    for is_purged in [false, true] {
        let shop = Shop::open();
        let call = || shop.charge(42).retention(2 * DAY);
        let first = call().send().await.expect("charged");
        shop.pass(2 * DAY - HOUR).await;
        shop.commit(call());
        shop.pass(2 * HOUR).await;
        let handle = call().handle().await.expect("a store").expect("its row waits");
        assert!(handle.wait(Duration::ZERO).await.expect_err("no dispatcher has seen it").is_in_progress());
        shop.deliver().await;
        assert_eq!((shop.fake.ledger().count(), shop.count("steadfast_outbox")), (1, 0), "it was a repeat");
        if !is_purged {
            let told = handle.wait(Duration::ZERO).await.expect("what stands");
            assert_eq!(told.bytes(), first.bytes());
            continue;
        }
        assert_eq!(shop.purge().await, 1);
        let gone = handle.wait(Duration::ZERO).await.expect_err("it is forgotten");
        assert!(gone.is_store() && !gone.is_in_progress(), "{gone}");
        assert_eq!((gone.effect(), gone.disposition()), (Effect::Unknown, Disposition::Ended));
    }
}

/// So is the handle of the call itself, once its own time is over; and a row that nobody has admitted waits for ever.
#[tokio::test]
async fn a_row_whose_record_is_gone_is_forgotten_and_one_that_waits_is_not() {
    for is_delivered in [false, true] {
        let shop = Shop::open();
        let call = shop.charge(42).retention(2 * DAY);
        let handle = call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
        if is_delivered {
            shop.deliver().await;
        }
        shop.pass(4 * DAY).await;
        assert_eq!(shop.purge().await, usize::from(is_delivered));
        let told = handle.wait(Duration::ZERO).await.expect_err("it has no record");
        assert_eq!((told.is_in_progress(), told.is_store()), (!is_delivered, is_delivered), "{told}");
    }
}

/// The vendor has moved: the row is written below its new base URL, and recorded by the name that its key had before.
#[tokio::test]
async fn a_row_that_is_recorded_by_a_former_name_is_found_by_its_handle() {
    let shop = Shop::open();
    let client = |base: &str| {
        let client = Client::builder(Stripe::new("sk_test_123").base_url(base)).clock(shop.clock.clone());
        client.store(Arc::clone(&shop.store)).transport(ScriptedTransport::new().status(200))
    };
    const FORMER: &str = "https://old.example/base";
    let before = client(FORMER).build().expect("a client");
    let call = |client: &Client, cents: u32| {
        client.post("/v1/charges").key("order-42").form(&[("amount", cents)]).retention(2 * DAY)
    };
    let first = call(&before, 1000).send().await.expect("charged");
    shop.store.register("default/stripe/test", None).await.expect("forgets");
    let now = client("https://api.stripe.com").former_base_url(FORMER).build().expect("a client");
    shop.pass(DAY).await;
    let repeat = call(&now, 1000).blocking_enqueue_in(&shop.connection()).expect("written").committed();
    deliver(&now).await;
    let told = repeat.wait(Duration::ZERO).await.expect("a repeat");
    assert_eq!((told.bytes(), shop.count("steadfast_outbox")), (first.bytes(), 0));

    // Its time is over: a row begins it anew, by the same name.
    shop.pass(2 * DAY).await;
    let anew = call(&now, 2000).blocking_enqueue_in(&shop.connection()).expect("written").committed();
    let by_key = call(&now, 1).handle().await.expect("a store").expect("its row waits");
    for handle in [&anew, &by_key] {
        assert!(handle.wait(Duration::ZERO).await.expect_err("it waits").is_in_progress());
    }
    now.recover(0).await.expect("a store");
    deliver(&now).await;
    for handle in [&anew, &by_key] {
        assert_eq!(handle.wait(Duration::ZERO).await.expect("it is delivered").status(), 200);
    }
}

/// A row that a person took out of the outbox is not redriven: there is nothing to redrive.
#[tokio::test]
async fn who_waits_for_a_call_that_was_taken_back_is_advised_what_can_be_done() {
    let shop = Shop::open();
    for is_recorded in [false, true] {
        let call = shop.charge(42 + u64::from(is_recorded));
        let handle = call.blocking_enqueue_in(&shop.connection()).expect("it is written").committed();
        if is_recorded {
            handle.cancel("not wanted").await.expect("it waits");
        } else {
            let letters = shop.letters().with_client(&shop.stripe);
            let row = letters.queued("order-42/charge").await.expect("a store").remove(0);
            assert!(letters.cancel_queued(&row, &Change::by("ann").because("twice")).await.expect("a store"));
        }
        let told = handle.wait(Duration::ZERO).await.expect_err("it was taken back");
        assert_eq!((told.is_dead_letter(), told.effect()), (true, Effect::None), "{told}");
        let advice = "; if it is wanted after all, send it under a new key";
        assert!(told.to_string().contains(advice) && !told.to_string().contains("redrive"), "{told}");
    }
}

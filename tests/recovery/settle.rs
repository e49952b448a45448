//! A settle time that is longer than any call of the client may take.

use std::time::Duration;

use http::Method;
use serde_json::json;
use steadfast::clock::{Clock as _, Timestamp};
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::Record;
use steadfast::policy::RecoveryConfig;
use steadfast::testkit::fakes::{BigCommerceFake, InProcess};
use steadfast::testkit::{Fault, ScriptedTransport, TestClock};
use steadfast::vendor::BigCommerce;
use steadfast::{Disposition, Effect, Error, Policy};

use crate::delivery::shop::phases;
use crate::delivery::time::on_virtual_time;
use support::acme::Acme;
use support::rig::{Rig, plain, secs, until};

const SETTLE: Duration = Duration::from_secs(30);

struct Shop {
    rig: Rig<InProcess>,
    fake: BigCommerceFake,
}

impl Shop {
    /// The shipped preset and the adapter's own figures: 10 s for a call, 30 s until a lookup counts.
    fn new(clock: &TestClock) -> Shop {
        let fake = BigCommerceFake::builder().customer(7).test_clock(clock).in_process();
        let vendor = BigCommerce::new("abc123", "token").base_url(fake.url());
        let setup = Rig::of(vendor).policy(Policy::interactive()).network(fake.transport()).clock(clock);
        Shop { rig: setup.build(), fake }
    }

    /// The error that the caller of an order is told whose first send meets `fault`.
    async fn order(&self, fault: Fault) -> Error {
        self.fake.plan().when("/stores", Method::POST, fault);
        let call = self
            .rig
            .client
            .post("/v2/orders")
            .key("order-42")
            .json(&json!({"customer_id": 7, "billing_address": {"zip": "12345"}, "products": [{"product_id": 1, "quantity": 1}]}));
        call.send().await.expect_err("its answer is lost")
    }

    async fn record(&self) -> Record {
        self.rig.record("order-42").await
    }

    /// Waits until the order has ended.
    async fn at_rest(&self, limit: Duration) -> Duration {
        let began = self.rig.clock.now();
        while !phases(&self.rig.store).await.keys().all(|phase| {
            use steadfast::operation::record::Phase::{InProgress, Scheduled};
            !matches!(phase, InProgress | Scheduled)
        }) {
            assert!(self.rig.clock.now().since(began) < limit, "{:?}", self.record().await);
            self.rig.clock.latency(Duration::from_millis(100)).await;
        }
        self.rig.clock.now().since(began)
    }
}

/// The caller is told that the lookup comes after its time, and when; and does not wait for what cannot come.
#[test]
fn a_call_that_has_no_time_for_the_settle_time_is_told_so_at_once() {
    on_virtual_time(|clock, _| async move {
        let shop = Shop::new(&clock);
        let told = shop.order(Fault::DropAfterApply).await;
        let lost_at = clock.wall();
        assert!(told.is_deadline() && told.to_string().contains("lookup"), "{told}");
        assert_eq!(clock.now(), steadfast::clock::Instant::ORIGIN, "it did not wait");
        let due = lost_at.plus(SETTLE);
        assert_eq!(told.retry_at().map(Timestamp::from), Some(due), "{told}");
        let word = (told.effect(), told.disposition());
        assert_eq!(word, (Effect::Unknown, Disposition::Continues { at: Some(due) }), "{told}");
    });
}

#[test]
fn recovery_makes_the_lookup_as_soon_as_it_counts() {
    on_virtual_time(|clock, _| async move {
        let shop = Shop::new(&clock);
        let _dispatcher = shop.rig.client.keep_recovering(PERIOD);
        shop.order(Fault::DropAfterApply).await;
        let took = shop.at_rest(secs(60)).await;
        assert!((SETTLE..SETTLE + secs(2)).contains(&took), "{took:?}");
        let record = shop.record().await;
        assert_eq!((record.effect, record.attempts, shop.fake.ledger().count()), (Effect::Applied, 1, 1));
    });
}

#[test]
fn what_never_arrived_is_sent_once_more_after_it() {
    on_virtual_time(|clock, _| async move {
        let shop = Shop::new(&clock);
        let _dispatcher = shop.rig.client.keep_recovering(PERIOD);
        shop.order(Fault::Reset).await;
        let took = shop.at_rest(secs(60)).await;
        assert!((SETTLE..SETTLE + secs(2)).contains(&took), "{took:?}");
        let record = shop.record().await;
        assert_eq!((record.effect, record.attempts, shop.fake.ledger().count()), (Effect::Applied, 2, 1));
    });
}

/// Ten minutes in which no lookup is answered. The settle time is over once and for all.
#[test]
fn lookups_that_fail_for_long_do_not_starve_it() {
    on_virtual_time(|clock, _| async move {
        let shop = Shop::new(&clock);
        let _dispatcher = shop.rig.client.keep_recovering(PERIOD);
        shop.order(Fault::DropAfterApply).await;
        shop.fake.plan().whenever("/stores", Method::GET, Fault::Error500Before);
        clock.latency(secs(600)).await;
        assert_eq!(shop.record().await.lookups, 0, "one that failed is no lookup");
        shop.fake.plan().clear();
        let took = shop.at_rest(secs(180)).await;
        let record = shop.record().await;
        assert_eq!((record.effect, record.attempts, shop.fake.ledger().count()), (Effect::Applied, 1, 1));
        assert!(took < secs(120), "{took:?}: a tenth of the time, and a period");
    });
}

/// At one start a second. A settle time that is left to the schedule is no send, and what is behind it does not wait for it.
#[test]
fn what_waits_for_its_settle_time_gives_its_start_back() {
    on_virtual_time(|clock, _| async move {
        let mut vendor = Acme::searchable();
        vendor.settle = secs(60);
        let rig = Rig::of(vendor.clone()).network(ScriptedTransport::new().hang()).clock(&clock).build();
        let left = tokio::spawn(rig.charge().send());
        until(|| !rig.network.requests().is_empty()).await;
        left.abort();
        clock.advance(secs(3_600));
        let policy = plain().recovery(RecoveryConfig::new(1, 1));
        let heir = rig.beside(vendor).network(ScriptedTransport::new().status(200)).policy(policy).build();
        heir.client.post("/charges").key("order-43").enqueue().await.expect("it is recorded");
        let began = clock.now();
        let recovered = heir.client.recover(2).await.expect("the store works");
        assert_eq!((recovered.taken, recovered.postponed, recovered.succeeded), (2, 1, 1));
        assert_eq!(clock.now(), began);
    });
}

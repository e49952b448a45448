//! A service that makes few calls: an outage is met by one operation, or a handful, and no circuit opens.

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock::Clock as _;
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::Phase;
use steadfast::store::{Memory, Store};
use steadfast::testkit::TestClock;
use steadfast::{Client, Policy};

use crate::delivery::shop::{Vendor, phases};
use crate::delivery::time::on_virtual_time;
use support::rig::secs;

/// A shop that is down from the beginning, and a client with a dispatcher.
fn shop(clock: &TestClock) -> (Vendor, Arc<dyn Store>, Client) {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let vendor = Vendor::new(clock);
    vendor.with(|seen| seen.down = true);
    let client = vendor.client(&store, Policy::background());
    (vendor, store, client)
}

async fn enqueue(client: &Client, key: &str) {
    let charge = client.post("/v1/charges").key(key).form(&[("amount", "1000")]);
    charge.enqueue().await.expect("recorded");
}

/// Enqueues what the vendor never takes, and ends the outage.
async fn poison(clock: &TestClock, vendor: &Vendor, client: &Client) {
    enqueue(client, "poison").await;
    clock.latency(Duration::from_millis(100)).await;
    vendor.with(|seen| {
        seen.never_takes = seen.sent.keys().next().cloned();
        seen.down = false;
    });
}

#[test]
fn one_operation_outlives_an_outage_that_it_meets_alone() {
    for lasts in [60, 600, 3_000] {
        on_virtual_time(|clock, _| async move {
            let (vendor, store, client) = shop(&clock);
            let dispatcher = client.keep_recovering(PERIOD);
            enqueue(&client, "alone").await;
            clock.latency(secs(lasts)).await;
            // Its attempts go on at the ladder's last wait, and at a tenth of its age.
            let sent = vendor.with(|seen| std::mem::replace(&mut seen.down, false).then_some(seen.requests));
            let sent = sent.expect("it was down");
            assert!(sent <= 10 + (lasts / 20).min(90) as usize, "{sent} attempts in {lasts} s");
            clock.latency(Duration::from_secs(lasts / 8).max(secs(35))).await;
            assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Succeeded, 1)]);
            assert_eq!(dispatcher.stop(secs(1)).await, 0);
        });
    }
}

/// A process that dies in the outage: the next one goes on with it.
#[test]
fn so_it_does_where_processes_come_and_go() {
    on_virtual_time(|clock, _| async move {
        let (vendor, store, client) = shop(&clock);
        enqueue(&client, "alone").await;
        for _ in 0..12 {
            let client = vendor.client(&store, Policy::background());
            let dispatcher = client.keep_recovering(PERIOD);
            clock.latency(secs(50)).await;
            dispatcher.stop(secs(1)).await;
        }
        vendor.with(|seen| seen.down = false);
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(120)).await;
        assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Succeeded, 1)]);
    });
}

/// A call that the vendor never takes, beside calls that it answers: a person is told after the ladder, as ever.
#[test]
fn what_fails_beside_calls_that_are_answered_spends_its_ladder() {
    on_virtual_time(|clock, _| async move {
        let (vendor, store, client) = shop(&clock);
        let _dispatcher = client.keep_recovering(PERIOD);
        poison(&clock, &vendor, &client).await;
        let calls = async |lasts: u64| {
            let until = clock.now().plus(secs(lasts));
            while clock.now() < until {
                client.get("/v1/charges").send().await.expect("it is answered");
                clock.latency(Duration::from_millis(200)).await;
            }
        };
        calls(45).await;
        let sent = vendor.with(|seen| seen.sent.values().copied().max());
        assert!(
            sent.is_some_and(|sent| (5..=7).contains(&sent)),
            "{sent:?}: each rung once, in 37.5 s at most"
        );
        // Whether it took effect is looked up after the vendor's settle time.
        calls(600).await;
        assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Dead, 1)]);
        assert_eq!(vendor.with(|seen| seen.sent.values().copied().max()), sent, "and sent no more");
    });
}

/// And where nothing else is ever sent, within two hours.
#[test]
fn what_is_never_taken_and_stands_alone_ends_too() {
    on_virtual_time(|clock, _| async move {
        let (vendor, store, client) = shop(&clock);
        let _dispatcher = client.keep_recovering(PERIOD);
        poison(&clock, &vendor, &client).await;
        clock.latency(secs(3_500)).await;
        assert_eq!(phases(&store).await.get(&Phase::Dead), None);
        clock.latency(secs(3_700)).await;
        assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Dead, 1)]);
        let sent = vendor.with(|seen| seen.requests);
        assert!(sent <= 80, "{sent} attempts");
    });
}

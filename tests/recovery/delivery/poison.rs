//! Poison: operations that the vendor never takes. They hold up no others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use steadfast::Policy;
use steadfast::clock::{Clock as _, Instant};
use steadfast::dispatcher::PERIOD;
use steadfast::policy::{BreakerState, RateConfig};
use steadfast::store::{Memory, Sqlite, Store};
use steadfast::testkit::TestClock;
use steadfast::transport::Request;

use super::ruled::{Ruled, Sent, enqueue, letters};
use super::time::{Watched, on_virtual_time};
use super::{ms, print, secs};
use support::in_memory;

fn is_poison(request: &Request) -> bool {
    request.body.starts_with(b"amount=666")
}

fn never_takes_poison(request: &Request, _: Instant) -> u16 {
    if is_poison(request) { 500 } else { 200 }
}

async fn poison(client: &steadfast::Client, path: impl Fn(usize) -> String, count: usize) {
    for nth in 0..count {
        let call = client.post(&path(nth)).key(format!("poison-{nth}")).form(&[("amount", "666")]);
        call.enqueue().await.expect("recorded");
    }
}

/// Not a lookup, which has no key.
fn is_good(sent: &Sent) -> bool {
    sent.status == 200 && !sent.key.is_empty()
}

/// When the first was answered well after `began`.
fn first_good(vendor: &Ruled, began: Instant) -> Option<Duration> {
    vendor.sent().iter().find(|sent| is_good(sent)).map(|sent| sent.at.since(began))
}

/// The keys of those that failed.
fn failed(vendor: &Ruled) -> BTreeSet<String> {
    vendor.sent().into_iter().filter(|sent| sent.status == 500).map(|sent| sent.key).collect()
}

fn good(vendor: &Ruled, from: Instant, to: Instant) -> usize {
    let is_within = |sent: &&Sent| is_good(sent) && sent.at >= from && sent.at < to;
    vendor.sent().iter().filter(is_within).count()
}

/// A thousand of them wait before fifty orders of other routes, which then come at five a second beside live calls on so
/// many routes.
async fn on_other_routes(
    clock: TestClock,
    store: Arc<dyn Store>,
    path: impl Fn(usize) -> String,
    live_on: usize,
) {
    let vendor = Ruled::new(&clock, never_takes_poison);
    let client = vendor.client(&store, Policy::background());
    poison(&client, path, 1_000).await;
    enqueue(&client, "/v1/charges", 50).await;
    let began = clock.now();
    let _dispatcher = client.keep_recovering(PERIOD);
    let (mut live, mut refused) = (0, 0);
    while clock.now().since(began) < secs(120) {
        let nth = clock.now().since(began).as_millis();
        let later = client.post("/v1/refunds").key(format!("later-{nth}")).form(&[("amount", "1")]);
        later.enqueue().await.expect("recorded");
        let path = ["/v1/charges", "/v1/customers"][live % live_on];
        let call = client.post(path).key(format!("live-{nth}")).form(&[("amount", "1")]);
        live += 1;
        refused += usize::from(call.deadline(secs(1)).send().await.is_err());
        clock.latency(ms(150)).await;
    }
    let first = first_good(&vendor, began).expect("some are good");
    let delivered = good(&vendor, began.plus(secs(60)), clock.now());
    let failed = vendor.sent().iter().filter(|sent| sent.status == 500).count();
    print(&format!(
        "first after {first:?}; {delivered} good in the second minute; {refused} of {live} live refused; {failed} failed; open: {:?}",
        client.open_routes()
    ));
    assert!(first <= secs(5), "{first:?}");
    assert!(refused * 100 <= live, "{refused} of {live} live calls were refused");
    // As many as were enqueued and called in that time.
    assert!(delivered * 10 >= live * 9, "{delivered} of {live} in the second minute");
    assert_eq!(client.breaker_state(), Some(BreakerState::Closed));
}

#[test]
fn a_thousand_on_another_route_hold_up_nothing() {
    on_virtual_time(|clock, _| {
        on_other_routes(clock, Arc::new(Memory::new()), |nth| format!("/v1/invoices/in_{nth}/send"), 1)
    });
}

#[test]
fn nor_do_they_in_a_file() {
    let place = in_memory::directory();
    on_virtual_time(|clock, at_work| {
        let store = Sqlite::open(place.path().join("calls.db")).expect("opens");
        let path = |nth| format!("/v1/invoices/in_{nth}/void");
        on_other_routes(clock, Arc::new(Watched::new(store, at_work)), path, 1)
    });
}

#[test]
fn nor_do_they_on_several_other_routes() {
    for (routes, live_on) in [(2, 1), (3, 2), (5, 1)] {
        let path = move |nth: usize| format!("/v1/{}/in_{nth}/void", PLACES[nth % routes]);
        on_virtual_time(|clock, _| on_other_routes(clock, Arc::new(Memory::new()), path, live_on));
    }
}

const PLACES: [&str; 5] = ["payouts", "invoices", "transfers", "coupons", "disputes"];

/// Live calls begin a minute after those that fail on so many other routes, one each `gap`: none is refused.
fn live_calls_are_not_refused(poisons: usize, routes: usize, gap: Duration, lasts: Duration) {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, never_takes_poison);
        let client = vendor.client(&store, Policy::background());
        poison(&client, |nth| format!("/v1/{}/in_{nth}/void", PLACES[nth % routes]), poisons).await;
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(60)).await;
        assert_ne!(client.breaker_state(), Some(BreakerState::Closed), "nothing else was sent");
        let began = clock.now();
        let (mut live, mut refused) = (0, 0);
        while clock.now().since(began) < lasts {
            let call = client.post("/v1/charges").key(format!("live-{live}")).form(&[("amount", "1")]);
            live += 1;
            refused += usize::from(call.deadline(secs(1)).send().await.is_err());
            clock.latency(gap).await;
        }
        let failed = vendor.sent().len() - live;
        print(&format!(
            "{refused} of {live} live refused, one each {gap:?}; {failed} failed on {routes} routes"
        ));
        assert_eq!(refused, 0);
    });
}

#[test]
fn live_calls_that_begin_later_find_no_circuit_open() {
    for routes in [1, 2, 5] {
        live_calls_are_not_refused(1_000, routes, ms(150), secs(120));
    }
}

#[test]
fn nor_do_rare_ones() {
    live_calls_are_not_refused(30, 1, secs(10), secs(3_600));
    live_calls_are_not_refused(30, 3, secs(10), secs(3_600));
    live_calls_are_not_refused(30, 2, secs(90), secs(3_600));
}

#[test]
fn nor_do_they_where_ids_look_like_words() {
    let word = |nth: usize| -> String {
        let letter = |nth: usize| char::from(b'a' + u8::try_from(nth % 26).expect("a letter"));
        format!("/v1/shops/{}{}{}", letter(nth), letter(nth / 26), letter(nth / 676))
    };
    on_virtual_time(|clock, _| on_other_routes(clock, Arc::new(Memory::new()), word, 1));
}

#[test]
fn a_thousand_on_the_orders_own_route_hold_them_up_until_each_has_failed_once() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, never_takes_poison);
        let client = vendor.client(&store, Policy::background());
        poison(&client, |_| "/v1/charges".to_owned(), 1_000).await;
        enqueue(&client, "/v1/charges", 50).await;
        let began = clock.now();
        let _dispatcher = client.keep_recovering(PERIOD);
        let mut each_failed_at = None;
        let mut nth = 0;
        while each_failed_at.is_none_or(|at: Instant| clock.now().since(at) < secs(120)) {
            let later = client.post("/v1/charges").key(format!("later-{nth}")).form(&[("amount", "1")]);
            later.enqueue().await.expect("recorded");
            nth += 1;
            clock.latency(ms(500)).await;
            if each_failed_at.is_none() && nth % 20 == 0 {
                each_failed_at = (failed(&vendor).len() == 1_000).then(|| clock.now());
            }
            assert!(clock.now().since(began) < secs(600), "not each was tried once within ten minutes");
        }
        let first = first_good(&vendor, began).expect("some are good");
        let each = each_failed_at.expect("each failed once");
        let before = good(&vendor, began.plus(secs(60)), each);
        let delivered = good(&vendor, each.plus(secs(30)), each.plus(secs(120)));
        print(&format!(
            "first after {first:?}, each failed once after {:?}, {before} of {} from the first minute until then, then {delivered} of 180",
            each.since(began),
            each.since(began).as_secs() * 2 - 120,
        ));
        assert!(first <= secs(30), "{first:?}");
        assert!(delivered * 10 >= 180 * 9, "{delivered} of 180");
        // And it is not so late that they are.
        assert!(before as u64 * 10 >= (each.since(began).as_secs() * 2 - 120) * 9, "{before}");
    });
}

#[test]
fn twenty_minutes_of_a_vendor_that_is_down_are_gone_within_forty_seconds() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, |_, _| 503);
        let client = vendor.client(&store, Policy::background().rate(RateConfig::new(200, secs(1))));
        let dispatcher = client.keep_recovering(PERIOD);
        for _ in 0..1_200 {
            let nth = clock.now().as_nanos();
            for call in 0..4 {
                let path = ["/v1/charges", "/v1/refunds"][call % 2];
                let call = client.post(path).key(format!("{nth}-{call}")).form(&[("amount", "1")]);
                call.enqueue().await.expect("recorded");
            }
            clock.latency(secs(1)).await;
        }
        enqueue(&client, "/v1/charges", 200).await;
        let failed = vendor.sent().len();
        vendor.turn(|_, _| 200);
        while client.breaker_state() != Some(BreakerState::Closed) || !client.open_routes().is_empty() {
            clock.latency(ms(50)).await;
        }
        let closed = clock.now();
        while vendor.executed() < 5_000 {
            clock.latency(ms(250)).await;
            assert!(clock.now().since(closed) < secs(40), "{} are delivered", vendor.executed());
        }
        print(&format!(
            "gone {:?} after the circuit closed; {failed} requests while it was down",
            clock.now().since(closed)
        ));
        assert!(failed <= 160, "{failed}: as many as its probes are");
        assert_eq!(letters(&store).await, []);
        dispatcher.stop(secs(1)).await;
    });
}

#[test]
fn orders_that_come_when_only_those_were_sent_for_minutes_wait_for_nothing() {
    for (routes, before) in [(1, secs(60)), (3, secs(600))] {
        on_virtual_time(|clock, _| async move {
            let store: Arc<dyn Store> = Arc::new(Memory::new());
            let vendor = Ruled::new(&clock, never_takes_poison);
            let client = vendor.client(&store, Policy::background());
            poison(&client, |nth| format!("/v1/{}/in_{nth}/void", PLACES[nth % routes]), 1_000).await;
            let _dispatcher = client.keep_recovering(PERIOD);
            clock.latency(before).await;
            assert_ne!(client.breaker_state(), Some(BreakerState::Closed), "nothing else was sent");
            let began = clock.now();
            enqueue(&client, "/v1/charges", 50).await;
            while vendor.executed() < 50 {
                clock.latency(ms(100)).await;
                assert!(clock.now().since(began) < secs(20), "{} of 50", vendor.executed());
            }
            let first = first_good(&vendor, began).expect("all are good");
            print(&format!("first after {first:?}, all after {:?}", clock.now().since(began)));
            assert!(first <= secs(5), "{first:?}");
        });
    }
}

/// Calls to so many routes in turn, one each `gap`, and a backlog of a thousand: two minutes at a vendor that is well, and
/// ten at one that is down. Gives how many requests that saw.
fn requests_while_it_is_down(routes: usize, gap: Duration) -> usize {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, |_, _| 200);
        let client = vendor.client(&store, Policy::background());
        let call = |nth: usize| {
            let end = ["", "/void", "/close", "/verify"][nth % routes / PLACES.len()];
            let path = format!("/v1/{}{end}", PLACES[nth % routes % PLACES.len()]);
            client.post(&path).key(format!("call-{nth}")).form(&[("amount", "1")])
        };
        let _dispatcher = client.keep_recovering(PERIOD);
        let mut nth = 0;
        let mut sent_before = 0;
        for (lasts, is_down) in [(secs(120), false), (secs(600), true)] {
            if is_down {
                for _ in 0..1_000 {
                    nth += 1;
                    call(nth).enqueue().await.expect("recorded");
                }
                sent_before = vendor.sent().len();
                vendor.turn(|_, _| 503);
            }
            let began = clock.now();
            while clock.now().since(began) < lasts {
                nth += 1;
                assert_eq!(call(nth).deadline(secs(1)).send().await.is_err(), is_down);
                clock.latency(gap).await;
            }
        }
        let requests = vendor.sent().len() - sent_before;
        print(&format!("{requests} requests in ten minutes on {routes} routes, one call each {gap:?}"));
        requests
    })
}

#[test]
fn a_vendor_that_is_down_is_left_alone_however_many_routes_are_called() {
    for (routes, gap) in [(1, ms(200)), (5, ms(200)), (20, ms(200)), (20, secs(3))] {
        let requests = requests_while_it_is_down(routes, gap);
        assert!(requests <= 60 + routes, "{requests}: its probes, and one of each route");
    }
}

/// All that waits has failed. The store is asked for something else each two seconds.
#[test]
fn the_store_of_a_vendor_that_is_down_is_left_alone_too() {
    on_virtual_time(|clock, at_work| async move {
        let watched = Arc::new(Watched::new(Memory::new(), at_work));
        let store: Arc<dyn Store> = watched.clone();
        let vendor = Ruled::new(&clock, |_, _| 503);
        let client = vendor.client(&store, Policy::background());
        enqueue(&client, "/v1/charges", 20).await;
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(120)).await;
        assert_ne!(client.breaker_state(), Some(BreakerState::Closed));
        let before = watched.takes.load(Ordering::Relaxed);
        clock.latency(secs(60)).await;
        let takes = watched.takes.load(Ordering::Relaxed) - before;
        assert!((30..=45).contains(&takes), "{takes} takes, with those of its probes");
        // That they failed is still known when it is back.
        vendor.turn(|_, _| 200);
        clock.latency(secs(300)).await;
        assert_eq!(vendor.executed(), 20);
        let before = watched.takes.load(Ordering::Relaxed);
        for nth in 0..10 {
            let call = client.post("/v1/charges").key(format!("later-{nth}")).form(&[("amount", "1")]);
            call.enqueue().await.expect("recorded");
            clock.latency(secs(5)).await;
        }
        let takes = watched.takes.load(Ordering::Relaxed) - before;
        assert!(
            vendor.executed() == 30 && takes <= 25,
            "{takes} takes: of what was not tried, and of what was"
        );
    });
}

/// A call that one route alone is down for is told within an hour or so, and not a day later.
#[test]
fn a_route_that_stays_down_makes_dead_letters_after_an_hour() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, never_takes_poison);
        let client = vendor.client(&store, Policy::background());
        // Of a kind that is not looked up.
        poison(&client, |_| "/v1/quotes".to_owned(), 6).await;
        let _dispatcher = client.keep_recovering(PERIOD);
        for minute in 0..100 {
            let charge = client.post("/v1/charges").key(format!("live-{minute}")).form(&[("amount", "1")]);
            charge.send().await.expect("the vendor is well");
            clock.latency(secs(60)).await;
        }
        assert_eq!(letters(&store).await.len(), 6);
    });
}

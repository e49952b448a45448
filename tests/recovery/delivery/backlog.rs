//! A backlog: at a healthy vendor it is delivered at the rate that the vendor bears, at one that is down it waits.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use support::in_memory;

use steadfast::Policy;
use steadfast::clock::{Clock as _, Instant};
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::Phase;
use steadfast::policy::{RateConfig, RecoveryConfig};
use steadfast::store::{Memory, Sqlite, Store};
use steadfast::testkit::TestClock;

use super::shop::{Vendor, delivered, ended, phases};
use super::time::{Watched, on_virtual_time};
use super::{ms, print, secs};

fn memory(at_work: Arc<AtomicUsize>) -> Arc<dyn Store> {
    Arc::new(Watched::new(Memory::new(), at_work))
}

fn two_hundred_a_second() -> Policy {
    Policy::background().rate(RateConfig::new(200, secs(1)))
}

/// So many operations of a dead process, and a vendor that bears 200 requests a second.
async fn backlog(clock: TestClock, store: Arc<dyn Store>, operations: usize) -> Duration {
    let vendor = Vendor::new(&clock);
    vendor.crash(&store, operations).await;
    vendor.with(|seen| seen.limit = Some(200));
    let client = vendor.client(&store, two_hundred_a_second());
    let dispatcher = client.keep_recovering(PERIOD);
    // The time that the vendor bears it in, and ten seconds until the rate has climbed there.
    let longest = Duration::from_millis(operations as u64 * 5) + secs(10);
    let took = delivered(&vendor, &store, operations as u64, longest).await;
    print(&format!("{operations} operations in {took:?}"));
    assert_eq!(dispatcher.stop(secs(1)).await, 0);
    vendor.with(|seen| {
        assert_eq!(
            (seen.refused, seen.requests),
            (0, operations),
            "each is sent once more, and none is refused"
        );
        assert!(seen.most_in_a_second <= 200, "{} in a second", seen.most_in_a_second);
        assert_eq!(seen.executed.len(), operations);
        assert!(seen.executed.values().all(|times| *times == 1));
    });
    assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Succeeded, operations as u64)]);
    took
}

/// Finding D9.
#[test]
fn ten_thousand_of_a_crash_are_delivered_within_a_minute_at_200_a_second() {
    let took = on_virtual_time(|clock, at_work| backlog(clock, memory(at_work), 10_000));
    assert!(took > secs(50), "{took:?}: the vendor bears no more than 200 a second");
}

/// D9: Fewer of them unless `STEADFAST_LONG` is set: how long it takes is measured above, and here that a file gives them all.
#[test]
fn so_they_are_from_a_file() {
    let operations = if std::env::var_os("STEADFAST_LONG").is_some() { 10_000 } else { 2_000 };
    let place = in_memory::directory();
    on_virtual_time(|clock, at_work| {
        let store = Sqlite::open(place.path().join("calls.db")).expect("opens");
        backlog(clock, Arc::new(Watched::new(store, at_work)), operations)
    });
}

/// Finding D9.
#[test]
fn a_backlog_spends_nothing_of_the_live_calls_retries_and_earns_nothing() {
    on_virtual_time(|clock, at_work| async move {
        let store = memory(at_work);
        let vendor = Vendor::new(&clock);
        vendor.crash(&store, 500).await;
        let client = vendor.client(&store, Policy::background());
        let _dispatcher = client.keep_recovering(PERIOD);
        delivered(&vendor, &store, 500, secs(30)).await;
        let budget = client.gates().budget().expect("the default has one");
        let left = std::iter::from_fn(|| budget.spend(clock.now()).then_some(())).count();
        assert_eq!(left, 10, "the burst, as at the start");
    });
}

/// How many requests a vendor sees that goes down for ten minutes with a backlog before it, and how many operations of
/// that are dead letters in the end.
async fn outage(clock: TestClock, store: Arc<dyn Store>, policy: Policy) -> (usize, u64) {
    let vendor = Vendor::new(&clock);
    vendor.crash(&store, 1_000).await;
    let client = vendor.client(&store, policy);
    let dispatcher = client.keep_recovering(PERIOD);
    vendor.clock.latency(secs(2)).await;
    vendor.with(|seen| {
        seen.down = true;
        seen.requests = 0;
    });
    vendor.clock.latency(secs(600)).await;
    let seen = vendor.with(|seen| {
        seen.down = false;
        seen.requests
    });
    let (_, dead) = ended(&vendor, &store, 1_000, secs(120)).await;
    vendor.with(|seen| {
        assert!(seen.executed.values().all(|times| *times == 1));
        assert_eq!(seen.executed.len() as u64, 1_000 - dead);
    });
    drop(dispatcher);
    (seen, dead)
}

#[test]
fn a_vendor_that_is_down_sees_a_trickle_and_what_was_not_tried_to_the_end_is_delivered_after_it() {
    let (with_breaker, dead) =
        on_virtual_time(|clock, at_work| outage(clock, memory(at_work), Policy::background()));
    print(&format!("{with_breaker} requests in an outage of ten minutes"));
    assert!(with_breaker <= 60, "{with_breaker} requests in ten minutes");
    assert_eq!(dead, 0, "a probe of the open circuit is no step of the ladder");
    // An operation that goes through the whole ladder while nothing holds it back ends there, as it would for a
    // caller.
    let policy = Policy::background().without_breaker();
    let (without, dead) = on_virtual_time(|clock, at_work| outage(clock, memory(at_work), policy));
    print(&format!("{without} without a breaker, {dead} dead letters"));
    assert!(without <= 150, "{without} requests in ten minutes without a breaker");
    assert!(dead <= 10, "{dead} of 1,000 spent their ladder");
}

/// Calls by a caller who tries 100 times a second beside a backlog: how many were refused, and how many of the
/// backlog were delivered meanwhile.
async fn beside(clock: TestClock, store: Arc<dyn Store>, live_per_second: u64) -> (usize, u64) {
    let vendor = Vendor::new(&clock);
    vendor.crash(&store, 5_000).await;
    let client = vendor.client(&store, two_hundred_a_second());
    let _dispatcher = client.keep_recovering(PERIOD);
    vendor.clock.latency(secs(8)).await;
    let before = phases(&store).await[&Phase::Succeeded];
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..live_per_second * 10 {
        calls.spawn(client.get("/v1/charges").send());
        vendor.clock.latency(Duration::from_nanos(1_000_000_000 / live_per_second)).await;
    }
    let after = phases(&store).await[&Phase::Succeeded];
    let mut refused = 0;
    while let Some(call) = calls.join_next().await {
        refused += usize::from(call.expect("no panic").is_err());
    }
    print(&format!("{refused} of {} calls refused, {} recovered", live_per_second * 10, after - before));
    (refused, after - before)
}

#[test]
fn neither_live_calls_nor_recovery_are_starved_of_the_rate_limit() {
    let play = |live| on_virtual_time(move |clock, at_work| beside(clock, memory(at_work), live));
    // Together more than the limit, the calls no more than their half.
    let (refused, delivered) = play(90);
    assert!(refused <= 45, "{refused} of 900 calls: half a second's, until recovery has made room");
    assert!(delivered >= 900, "{delivered} of a backlog in ten seconds");
    // Calls that want all of it, and more.
    let (refused, delivered) = play(400);
    assert!((2_700..=3_200).contains(&refused), "{refused} of 4,000 calls at 100/s");
    assert!((900..=1_100).contains(&delivered), "{delivered} of a backlog in ten seconds: half of the limit");
}

#[test]
fn a_rate_of_ones_own_is_the_most_that_recovery_sends() {
    on_virtual_time(|clock, at_work| async move {
        let store = memory(at_work);
        let vendor = Vendor::new(&clock);
        vendor.crash(&store, 300).await;
        let client = vendor.client(&store, Policy::background().recovery(RecoveryConfig::new(5, 20)));
        let _dispatcher = client.keep_recovering(PERIOD);
        let took = delivered(&vendor, &store, 300, secs(60)).await;
        assert!(took > secs(14), "{took:?}");
        vendor.with(|seen| assert!(seen.most_in_a_second <= 22, "{} in a second", seen.most_in_a_second));
        assert!(clock.now() > Instant::ORIGIN.plus(ms(1)));
    });
}

/// Also after a pause that is shorter than what makes a rate old. A live call was asked for it, or an operator did.
#[test]
fn after_a_pause_it_begins_with_the_first_rate() {
    on_virtual_time(|clock, at_work| async move {
        let (vendor, store) = (Vendor::new(&clock), memory(at_work));
        vendor.crash(&store, 5_000).await;
        let client = vendor.client(&store, Policy::background().recovery(RecoveryConfig::new(10, 100)));
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(10)).await;
        let rate = || client.gates().recovery().per_second(clock.now());
        assert_eq!(rate(), 100.0);
        client.pause_for(secs(3));
        clock.latency(ms(2_900)).await;
        // The requests under way have been answered well since.
        assert!(rate() < 25.0, "{}", rate());
    });
}

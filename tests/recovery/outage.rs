//! An outage of an hour: every operation that was on record is delivered after it.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use steadfast::clock::Clock as _;
use steadfast::dead_letter::DeadLetters;
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::Phase;
use steadfast::store::{Memory, Store};
use steadfast::testkit::{ScriptedTransport, SeededRandom, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::{Client, Policy};

use crate::delivery::ruled::{Ruled, enqueue};
use crate::delivery::shop::{Vendor, delivered, phases};
use crate::delivery::time::on_virtual_time;
use support::acme::Acme;
use support::rig::{Rig, secs};

const OUTAGE: Duration = Duration::from_secs(3_600);

/// 1,000 operations of a dead process, and a vendor that goes down for an hour as soon as the first are delivered. How
/// many requests it sees meanwhile, and how long delivery takes after it.
async fn outage(clock: TestClock, policy: Policy) -> (usize, Duration) {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let vendor = Vendor::new(&clock);
    vendor.crash(&store, 1_000).await;
    let client = vendor.client(&store, policy);
    let _dispatcher = client.keep_recovering(PERIOD);
    clock.latency(secs(2)).await;
    vendor.with(|seen| (seen.down, seen.requests) = (true, 0));
    clock.latency(OUTAGE).await;
    let requests = vendor.with(|seen| {
        seen.down = false;
        seen.requests
    });
    let took = delivered(&vendor, &store, 1_000, OUTAGE).await;
    vendor.with(|seen| {
        assert_eq!(seen.executed.len(), 1_000);
        assert!(seen.executed.values().all(|times| *times == 1), "each once");
    });
    (requests, took)
}

#[test]
fn an_outage_of_an_hour_makes_no_dead_letter() {
    for policy in [Policy::background(), Policy::interactive()] {
        let (requests, took) = on_virtual_time(|clock, _| outage(clock, policy));
        // A probe every half minute, and those that opened the circuit.
        assert!(requests <= 180, "{requests} requests in an hour");
        assert!(took <= secs(420), "{took:?}: a tenth of the outage for those that were its probes");
    }
}

/// So many hours of rounds, one each 20 s. A dispatcher would confer with others each second of them.
async fn recovered_for(client: &Client, clock: &TestClock, hours: u64) {
    let until = clock.now().plus(secs(hours * 3_600));
    while clock.now() < until {
        client.recover(16).await.expect("the store works");
        clock.latency(secs(20)).await;
    }
}

/// A vendor that never comes back. Every operation ends all the same: it is spared for a day, and its lookups for
/// another.
#[test]
fn an_outage_without_an_end_ends_every_operation() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Vendor::new(&clock);
        vendor.crash(&store, 10).await;
        vendor.with(|seen| (seen.down, seen.requests) = (true, 0));
        let client = vendor.client(&store, Policy::background());
        recovered_for(&client, &clock, 23).await;
        let dead = phases(&store).await.get(&Phase::Dead).copied().unwrap_or(0);
        assert_eq!(dead, 0, "the vendor is down for everybody");
        recovered_for(&client, &clock, 27).await;
        assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Dead, 10)]);
        let requests = vendor.with(|seen| seen.requests);
        // A probe each time that the circuit has been open: for 24 to 30 seconds.
        assert!(requests <= 48 * 3_600 / 26, "{requests} requests in two days");
    });
}

/// A call that may be sent again at any time has no window that ends, and no lookup.
#[test]
fn a_method_that_may_be_repeated_for_ever_is_not() {
    on_virtual_time(|clock, _| async move {
        let network = ScriptedTransport::new().always_fail(SendErrorKind::Reset);
        let setup = Rig::of(Acme::new()).policy(Policy::background()).network(network).clock(&clock);
        let Rig { client, store, .. } = setup.random(SeededRandom::new(7)).build();
        // They open the circuit.
        for number in 0..5 {
            let write = client.request(Method::PUT, "/price").key(format!("price-{number}"));
            assert!(write.deadline(Duration::from_millis(1)).send().await.is_err());
        }
        recovered_for(&client, &clock, 23).await;
        assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Scheduled, 5)]);
        recovered_for(&client, &clock, 4).await;
        assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Dead, 5)]);
    });
}

/// One operation that the vendor never takes, and hardly any other traffic. Were it each second probe, the circuit would
/// stay open for everybody after the outage.
#[test]
fn an_operation_that_always_fails_does_not_keep_the_circuit_open() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Vendor::new(&clock);
        // Of the two, the second was not executed.
        vendor.crash(&store, 2).await;
        vendor.with(|seen| {
            seen.down = true;
            seen.never_takes = seen.sent.keys().nth(1).cloned();
        });
        let client = vendor.client(&store, Policy::background());
        let calls = async |count: usize| {
            let mut refused = 0;
            for _ in 0..count {
                refused += usize::from(client.get("/v1/charges").send().await.is_err());
                clock.latency(secs(60)).await;
            }
            refused
        };
        // By live calls, before recovery begins.
        assert_eq!(calls(5).await, 5);
        let _dispatcher = client.keep_recovering(PERIOD);
        assert_eq!(calls(5).await, 5, "an outage of ten minutes");
        vendor.with(|seen| seen.down = false);
        let refused = calls(60).await;
        assert!(refused <= 10, "{refused} of 60 calls, at a vendor that is well");
        let phases = phases(&store).await;
        assert_eq!((phases[&Phase::Succeeded], phases.get(&Phase::Dead)), (1, Some(&1)), "{phases:?}");
    });
}

/// A probe may take as long as an attempt may. Meanwhile the circuit is no more closed than before it.
#[test]
fn a_circuit_that_is_being_probed_is_shown_as_what_keeps_its_account_and_since_when() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let mut vendor = Ruled::new(&clock, |_, _| 502);
        vendor.latency = secs(20);
        let client = vendor.client(&store, Policy::background());
        enqueue(&client, "/v1/charges", 20).await;
        let _dispatcher = client.keep_recovering(PERIOD);
        let letters = DeadLetters::new(Arc::clone(&store)).with_clock(clock.clone());
        let mut since = Vec::new();
        for _ in 0..120 {
            clock.latency(secs(1)).await;
            let status = letters.status().await.expect("a store");
            let circuit = status.accounts[0].closed.iter().find(|closed| closed.gate == "circuit");
            since.push(circuit.and_then(|circuit| circuit.since));
        }
        let opened = since.iter().position(Option::is_some).expect("it opens");
        assert!(opened < 60, "{since:?}");
        assert!(since[opened..].iter().all(|at| *at == since[opened]), "{since:?}");
    });
}

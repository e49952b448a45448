//! Several processes deliver for one account from one store: together as fast as one may, and no faster.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use support::in_memory;
use support::rig::Rig;

use steadfast::clock::Clock as _;
use steadfast::dispatcher::{Dispatcher, PERIOD};
use steadfast::operation::record::Phase;
use steadfast::policy::{RateConfig, RecoveryConfig};
use steadfast::store::{Memory, Sqlite, Store};
use steadfast::testkit::{SeededRandom, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Client, Policy};
use steadfast_core::store::delivery::{Beat, Heartbeat};

use super::shop::{Vendor, delivered, phases};
use super::time::{Watched, on_virtual_time};
use super::{ms, print, secs};

/// Each process has the same vendors file, and so the whole of the vendor's limit in it.
fn two_hundred_a_second() -> Policy {
    Policy::background().rate(RateConfig::new(200, secs(1)))
}

/// One store, as each of several processes has it.
struct Stores {
    at_work: Arc<AtomicUsize>,
    memory: Arc<Memory>,
    file: Option<tempfile::TempDir>,
}

impl Stores {
    fn in_memory(at_work: Arc<AtomicUsize>) -> Stores {
        Stores { at_work, memory: Arc::new(Memory::new()), file: None }
    }

    fn in_a_file(at_work: Arc<AtomicUsize>) -> Stores {
        let place = in_memory::directory();
        Stores { file: Some(place), ..Stores::in_memory(at_work) }
    }

    fn of_a_process(&self) -> Arc<dyn Store> {
        let at_work = self.at_work.clone();
        let open = |place: &Path| Sqlite::open(place.join("calls.db")).expect("opens");
        match &self.file {
            Some(place) => Arc::new(Watched::new(open(place.path()), at_work)),
            None => Arc::new(Watched::new(self.memory.clone(), at_work)),
        }
    }
}

/// A process of its own, with a dispatcher.
fn process(vendor: &Vendor, stores: &Stores, policy: Policy, seed: u64) -> (Client, Dispatcher) {
    let setup = Rig::of(Stripe::new("sk_test_123")).policy(policy).network(vendor.clone());
    let setup = setup.clock(&vendor.clock).random(SeededRandom::new(seed));
    let client = setup.store(stores.of_a_process()).client();
    let dispatcher = client.keep_recovering(PERIOD);
    (client, dispatcher)
}

/// How long `count` operations of a crash take with so many processes at a vendor that bears 200 a second.
async fn deliver(clock: TestClock, stores: Stores, (processes, count): (u64, usize)) -> Duration {
    let vendor = Vendor::new(&clock);
    let store = stores.of_a_process();
    vendor.crash(&store, count).await;
    vendor.with(|seen| seen.limit = Some(200));
    let dispatchers: Vec<_> =
        (0..processes).map(|seed| process(&vendor, &stores, two_hundred_a_second(), seed)).collect();
    let took = delivered(&vendor, &store, count as u64, secs(60)).await;
    vendor.with(|seen| {
        let most = seen.most_in_a_second;
        print(&format!("{processes} processes: {count} in {took:?}, at most {most} in a second"));
        assert_eq!((seen.refused, seen.requests), (0, count), "each is sent once, and none is refused");
        assert!(seen.executed.values().all(|times| *times == 1));
    });
    drop(dispatchers);
    took
}

#[test]
fn together_processes_are_as_fast_as_the_vendor_bears_and_no_faster() {
    for processes in [1, 2, 5] {
        let took =
            on_virtual_time(|clock, at_work| deliver(clock, Stores::in_memory(at_work), (processes, 3_000)));
        // The climb is 10, 20, 40 … a second: five seconds, and then 190/s.
        assert!(took > secs(15) && took < secs(22), "{processes} processes: {took:?}");
    }
}

#[test]
fn so_they_are_on_one_file() {
    let took = on_virtual_time(|clock, at_work| deliver(clock, Stores::in_a_file(at_work), (3, 1_500)));
    assert!(took < secs(14), "{took:?}");
}

/// Calls of five processes beside a backlog, 100 a second in all: from before it, or from one moment on. Of the vendor's
/// refusals, how many there were in the first six seconds of calls and after that; how many calls were lost, and how many
/// operations were delivered in the last ten seconds.
async fn beside_calls(clock: TestClock, stores: Stores, calls_are_first: bool) -> [usize; 4] {
    let vendor = Vendor::new(&clock);
    let store = stores.of_a_process();
    vendor.crash(&store, 5_000).await;
    vendor.with(|seen| seen.limit = Some(200));
    let processes: Vec<_> =
        (0..5).map(|seed| process(&vendor, &stores, two_hundred_a_second(), seed)).collect();
    if !calls_are_first {
        clock.latency(secs(8)).await;
    }
    let (mut calls, mut early, mut before) = (tokio::task::JoinSet::new(), 0, 0);
    for number in 0..1_600 {
        if number == 600 {
            (early, before) = (vendor.with(|seen| seen.refused), phases(&store).await[&Phase::Succeeded]);
        }
        calls.spawn(processes[number % 5].0.get("/v1/charges").send());
        clock.latency(ms(10)).await;
    }
    let delivered = phases(&store).await[&Phase::Succeeded] - before;
    let mut lost = 0;
    while let Some(call) = calls.join_next().await {
        lost += usize::from(call.expect("no panic").is_err());
    }
    let late = vendor.with(|seen| seen.refused) - early;
    print(&format!(
        "refused: {early}, then {late}; {lost} of 1,600 calls lost, {delivered} recovered in 10 s"
    ));
    [early, late, lost, delivered as usize]
}

#[test]
fn live_calls_of_all_processes_have_room_beside_a_backlog() {
    let play = |calls_are_first| {
        on_virtual_time(move |clock, at_work| {
            beside_calls(clock, Stores::in_memory(at_work), calls_are_first)
        })
    };
    let [early, late, lost, delivered] = play(true);
    assert_eq!((early, late, lost), (0, 0, 0), "no call is refused, and none waits");
    assert!((950..=1_000).contains(&delivered), "its half: {delivered}");
    // Of a surge in one process others learn within two seconds. Until then, the vendor refuses what is too much.
    let [early, late, lost, delivered] = play(false);
    assert!(early <= 300 && late == 0 && lost <= 150, "{early} refused, then {late}; {lost} lost");
    assert!(delivered >= 300, "it climbs again: {delivered}");
}

/// The trouble that one process meets is for all of them.
#[test]
fn where_one_process_falls_back_all_do() {
    on_virtual_time(|clock, at_work| async move {
        let (vendor, stores) = (Vendor::new(&clock), Stores::in_memory(at_work));
        let store = stores.of_a_process();
        vendor.crash(&store, 5_000).await;
        let policy = || Policy::background().recovery(RecoveryConfig::new(10, 100));
        let (one, _one) = process(&vendor, &stores, policy(), 1);
        let (two, _two) = process(&vendor, &stores, policy(), 2);
        clock.latency(secs(10)).await;
        let rate = |client: &Client| client.gates().recovery().per_second(clock.now());
        assert_eq!((rate(&one), rate(&two)), (50.0, 50.0), "half each");

        // Only the first hears of it.
        one.pause_for(secs(30));
        clock.latency(ms(2_500)).await;
        assert!(two.pause_left().is_some(), "told within a second, heard within another");
        let before = vendor.with(|seen| seen.requests);
        clock.latency(secs(20)).await;
        assert_eq!(vendor.with(|seen| seen.requests), before, "nobody sends");
        two.end_pause();
        clock.latency(secs(5)).await;
        assert!(two.pause_left().is_none(), "an operator's word counts");
        let alone = vendor.with(|seen| seen.requests) - before;
        assert!(alone > 100, "and who may deliver has all of it: {alone}");
    });
}

/// A process that is gone: its part is the others' after the time that its word lasts, or at once if it said so.
#[test]
fn what_a_process_had_is_for_those_that_are_left() {
    for says_so in [true, false] {
        on_virtual_time(|clock, at_work| async move {
            let (vendor, stores) = (Vendor::new(&clock), Stores::in_memory(at_work));
            let store = stores.of_a_process();
            vendor.crash(&store, 5_000).await;
            let policy = || Policy::background().recovery(RecoveryConfig::new(10, 100));
            let (one, _one) = process(&vendor, &stores, policy(), 1);
            let (_, two) = process(&vendor, &stores, policy(), 2);
            clock.latency(secs(10)).await;
            let rate = || one.gates().recovery().per_second(clock.now());
            assert_eq!(rate(), 50.0);
            if says_so {
                assert_eq!(two.stop(secs(5)).await, 0);
            } else {
                drop(two);
                clock.latency(secs(4)).await;
                assert_eq!(rate(), 50.0, "nobody knows yet");
            }
            clock.latency(ms(3_600)).await;
            assert_eq!(rate(), 100.0);
        });
    }
}

/// Until it has heard them it may believe that the whole rate is its own.
#[test]
fn a_process_that_comes_takes_one_before_it_has_heard_the_others() {
    on_virtual_time(|clock, at_work| async move {
        let (vendor, stores) = (Vendor::new(&clock), Stores::in_memory(at_work));
        let store = stores.of_a_process();
        vendor.crash(&store, 1_000).await;
        let policy = || Policy::background().recovery(RecoveryConfig::new(100, 100));
        let (_, _first) = process(&vendor, &stores, policy(), 1);
        clock.latency(secs(3)).await;
        let of_second = Vendor::new(&clock);
        let (_, _second) = process(&of_second, &stores, policy(), 2);
        // Less than the pause between two takes.
        clock.latency(ms(15)).await;
        assert_eq!(of_second.with(|seen| seen.requests), 1);
    });
}

/// A circuit that opens and closes again is each process's own: what it called lately, it will call again.
#[test]
fn one_that_delivers_alone_leaves_room_for_the_calls_of_a_process_that_waits_for_a_gate() {
    on_virtual_time(|clock, at_work| async move {
        let (vendor, stores) = (Vendor::new(&clock), Stores::in_memory(at_work));
        let store = stores.of_a_process();
        vendor.crash(&store, 5_000).await;
        let (_, _delivers) = process(&vendor, &stores, two_hundred_a_second(), 1);
        let beat = || Beat {
            account: "default/stripe/test".to_owned(),
            dispatcher: "another".to_owned(),
            says: Some(r#"{"delivers":false,"live_per_second":80.0}"#.to_owned()),
        };
        let mut requests = 0;
        for second in 0..20 {
            let heartbeat = Heartbeat { now: clock.wall(), lasts: secs(5), beats: vec![beat()] };
            store.delivery().expect("it has").heartbeat(&heartbeat).await.expect("a store");
            clock.latency(secs(1)).await;
            if second == 9 {
                requests = vendor.with(|seen| seen.requests);
            }
        }
        let recovered = vendor.with(|seen| seen.requests) - requests;
        assert!((1_000..=1_200).contains(&recovered), "200 a second, less 80: {recovered} in 10 s");
    });
}

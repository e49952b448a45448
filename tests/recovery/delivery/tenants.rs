//! One client, a platform's, with the operations of many connected accounts.

use std::sync::Arc;

use steadfast::Policy;
use steadfast::clock::Clock as _;
use steadfast::dispatcher::Dispatcher;
use steadfast::policy::RecoveryConfig;
use steadfast::store::{Memory, Sqlite, Store};
use steadfast::testkit::TestClock;
use support::in_memory;

use super::shop::Vendor;
use super::time::{Watched, on_virtual_time};
use super::{ms, secs};

/// One tenant has a backlog that lasts for minutes. Then another one's call comes, and a hundred others' after it.
async fn one_beside_many(clock: TestClock, store: Arc<dyn Store>, places: usize) {
    let vendor = Vendor::new(&clock);
    let client = vendor.client(&store, Policy::background().recovery(RecoveryConfig::new(500, 500)));
    let call = |account: String, key: String| {
        client.post("/v1/charges").header("stripe-account", account).key(key).form(&[("amount", "1000")])
    };
    for number in 0..2_000 {
        call("acct_many".to_owned(), format!("many-{number}")).enqueue().await.expect("recorded");
    }
    let dispatcher = Dispatcher::over([&client]).at_once(places).start();
    clock.latency(secs(10)).await;
    let began = clock.now();
    let late = call("acct_one".to_owned(), "one".to_owned()).enqueue().await.expect("recorded");
    late.wait(secs(60)).await.expect("it is delivered");
    let took = clock.now().since(began);
    assert!(took <= ms(400), "{took:?}: the end of one operation, and its own, 150 ms each");

    let began = clock.now();
    let mut handles = Vec::new();
    for account in 0..100 {
        let charge = call(format!("acct_{account}"), format!("each-{account}"));
        handles.push(charge.enqueue().await.expect("recorded"));
    }
    for handle in handles {
        handle.wait(secs(60)).await.expect("it is delivered");
    }
    // As many rounds of the places as there are accounts, the first among them.
    let took = clock.now().since(began);
    let rounds = 101_usize.div_ceil(places) as u32 + 2;
    assert!(took <= ms(200) * rounds, "{took:?} for 100 accounts with {places} places");
    assert!(vendor.with(|seen| seen.requests) < 2_000, "there was a backlog all the while");
    drop(dispatcher);
}

#[test]
fn one_tenants_backlog_does_not_starve_anothers_one() {
    for places in [1, 8] {
        on_virtual_time(|clock, _| one_beside_many(clock, Arc::new(Memory::new()), places));
    }
}

#[test]
fn nor_does_it_in_a_file() {
    let place = in_memory::directory();
    on_virtual_time(|clock, at_work| {
        let store = Sqlite::open(place.path().join("calls.db")).expect("opens");
        one_beside_many(clock, Arc::new(Watched::new(store, at_work)), 8)
    });
}

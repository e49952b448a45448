//! Expired operations go as fast as they come.

use std::sync::Arc;
use std::time::Duration;

use steadfast::Policy;
use steadfast::dispatcher::PERIOD;
use steadfast::policy::Timeouts;
use steadfast::store::{Sqlite, Store};
use steadfast::testkit::TestClock;
use steadfast::vendor::{KeyPlace, Keyed, KeyedConfig};
use support::in_memory;

use super::shop::{Vendor, phases};
use super::time::{Watched, on_virtual_time};
use super::{ms, print, secs};

/// 1,000 calls a second with records that are kept for `keep`, for ten times as long. How many records there are, at
/// most, and how large the file is, each second.
async fn calls(
    clock: TestClock,
    store: Arc<dyn Store>,
    keep: Duration,
    size: impl Fn() -> u64,
) -> Vec<(u64, u64)> {
    let mut vendor = Vendor::new(&clock);
    vendor.latency = ms(1);
    let mut timeout = Timeouts::interactive();
    (timeout.connect, timeout.attempt, timeout.total) = (ms(500), ms(500), secs(1).min(keep));
    let policy = Policy::interactive().timeout(timeout).retention(keep).lease_margin(ms(500));
    let policy = policy.backoff(steadfast::policy::Backoff::none());
    // No vendor whose window is a day lets anybody forget within a minute.
    let mut acme = KeyedConfig::new("acme", "https://api.acme.test");
    acme.key = Some(KeyPlace::Header("idempotency-key".to_owned()));
    let acme = Keyed::new(acme, "secret");
    let client = vendor.client_of(acme, &store, policy);
    let _dispatcher = client.keep_recovering(PERIOD);
    let mut seen = Vec::new();
    for second in 0..keep.as_secs() * 10 {
        for tenth in 0..10 {
            let mut calls = tokio::task::JoinSet::new();
            for number in 0..100 {
                let key = format!("{second}/{tenth}/{number}");
                calls.spawn(client.post("/v1/charges").key(key).form(&[("amount", "1000")]).send());
            }
            while let Some(call) = calls.join_next().await {
                call.expect("no panic").expect("a healthy vendor");
            }
            clock.latency(ms(99)).await;
        }
        seen.push((phases(&store).await.values().sum(), size()));
        // The vendor need not remember either.
        vendor.with(|seen| (seen.sent, seen.executed) = Default::default());
    }
    seen
}

/// Finding D8.
#[test]
fn a_thousand_calls_a_second_leave_a_file_of_a_steady_size() {
    // In its long form a minute's retention over ten minutes.
    let keep = if std::env::var_os("STEADFAST_LONG").is_some() { secs(60) } else { secs(2) };
    let place = in_memory::directory();
    let path = place.path().join("calls.db");
    let size = || std::fs::metadata(&path).expect("a file").len();
    let seen = on_virtual_time(|clock, at_work| {
        let store = Sqlite::open(&path).expect("opens");
        calls(clock, Arc::new(Watched::new(store, at_work)), keep, size)
    });
    // Steady from when the first records expire, with a second until they are looked for.
    let steady = keep.as_secs() as usize + 2;
    let (records, _) = seen[steady];
    let (most, largest) = seen.iter().fold((0, 0), |most, now| (most.0.max(now.0), most.1.max(now.1)));
    let (_, first) = seen[steady..].iter().find(|(_, size)| *size > 0).expect("some seconds");
    print(&format!("{records} records and {first} bytes after {steady} s; at most {most} and {largest}"));
    assert!(most <= keep.as_secs() * 1_000 + 2_500, "{most} records: those kept and two seconds' more");
    assert!(largest <= first * 2, "{largest} bytes after {first}");
}

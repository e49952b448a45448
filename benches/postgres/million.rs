//! Claims beside a million settled rows, and while many of them are purged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steadfast::dispatcher::Dispatcher;
use steadfast::store::Postgres;
use tokio::runtime::Runtime;

use crate::load::{self, Ledger};
use crate::{CALLERS, bench, call, calls_a_second, open};
use support::server::Server;

pub fn settled_rows(server: &Server, runtime: &Runtime, rounds: usize) {
    let rows = if bench::is_quick() { 20_000 } else { 1_000_000 };
    let time = Duration::from_secs(if bench::is_quick() { 1 } else { 2 });
    println!("{rows} settled rows: medians of {rounds} interleaved rounds of {time:?}, {CALLERS} callers");
    let (empty, full) = (open(server, "empty"), open(server, "million"));
    let later = "8640000000";
    fill(server, (0, rows), later);
    let samples = bench::interleave::<2>(rounds, |variant| {
        let store = if variant == 0 { &empty } else { &full };
        runtime.block_on(calls_a_second(store, CALLERS, time))
    });
    let [beside_none, beside_all] = &samples;
    println!(
        "claim + settle: empty {:>6.0}/s  full {:>6.0}/s  time × {:.2}  target 1.3",
        bench::median(beside_none),
        bench::median(beside_all),
        bench::median_ratio(beside_none, beside_all)
    );
    purged(server, runtime, &full, rows / 10);
}

/// A tenth as many more, whose time is over. A dispatcher purges them at its own pace.
fn purged(server: &Server, runtime: &Runtime, store: &Arc<Postgres>, expired: usize) {
    fill(server, (10_000_000, expired), "-1000");
    let left = || -> usize {
        server
            .sql("SELECT count(*) FROM million.operation WHERE key LIKE 'old-1_______'")
            .parse()
            .expect("a count")
    };
    let client = load::client(store, 64, &Ledger::new(1));
    let (took, mut waits) = runtime.block_on(async {
        let is_over = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> =
            (0..16).map(|_| tokio::spawn(timed(Arc::clone(store), Arc::clone(&is_over)))).collect();
        let began = Instant::now();
        let dispatcher = Dispatcher::over([&client]).start();
        while tokio::task::block_in_place(left) > 0 && began.elapsed() < Duration::from_secs(180) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let took = began.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let mut waits = Vec::new();
        for caller in callers {
            waits.extend(caller.await.expect("no panic"));
        }
        dispatcher.stop(Duration::from_secs(30)).await;
        (took, waits)
    });
    waits.sort_unstable();
    println!(
        "purge of {expired} in {took:.1?}, {} left; {} calls of 16 callers beside it: p50 {:.1?}  p99 {:.1?}  target 50 ms",
        left(),
        waits.len(),
        load::at(&waits, 50),
        load::at(&waits, 99)
    );
}

/// A claim with its settlement, again and again: how long each took.
async fn timed(store: Arc<Postgres>, is_over: Arc<AtomicBool>) -> Vec<u64> {
    let mut waits = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        call(&store).await;
        waits.push(began.elapsed().as_micros() as u64);
    }
    waits
}

/// Rows as they are on record once they are settled, whose time is over in so many milliseconds.
fn fill(server: &Server, (from, rows): (usize, usize), until_in: &str) {
    server.sql(&format!(
        "INSERT INTO million.operation (scope, key, vendor, phase, until_ms, wake_ms, fence, attempts, effect, \
         claimed_at_ms, updated_at_ms, on_unknown, lookups, resends_left, attempt_max_ms, status, detail) \
         SELECT '{SCOPE}', 'old-' || n, 'prod/stripe', 3, now + {until_in}, now + {until_in}, 1, 1, 2, now, now, 0, 0, 0, \
         20000, 200, 0 FROM million.store_now() AS now, generate_series({from}, {from} + {rows} - 1) AS n; \
         INSERT INTO million.request (scope, key, retention_ms, first_fence, fingerprint, wire_key, request) \
         SELECT '{SCOPE}', 'old-' || n, 86400000, 1, '\\x07', 'w', '\\x01' \
         FROM generate_series({from}, {from} + {rows} - 1) AS n; \
         INSERT INTO million.outcome (scope, key, reports, answer) SELECT '{SCOPE}', 'old-' || n, '', repeat('x', 200)::bytea \
         FROM generate_series({from}, {from} + {rows} - 1) AS n"
    ));
}

const SCOPE: &str = "prod/stripe/acct_1/POST /v1/charges";

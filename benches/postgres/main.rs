//! The cost of durable calls on Postgres.
//!
//! - *Claim and settle* of a 1 KiB reply at 64 callers, beside `pgbench -c 64` with the same two statements on the same
//!   tables, a row at a time as a program without batches has them.
//! - *Enqueue, deliver, settle*: a call of 1 KiB is enqueued by each of 64 and of 256 callers, one after the other, and a
//!   dispatcher with as many places delivers it to a transport that does nothing; beside the job queue `awa`, if it was
//!   built: `cargo build --release -p peer-awa` in `benches/peers`.
//! - *Accepted to started*, where nothing else happens, in one process and across two; and what an idle dispatcher costs.
//! - *Horizon*: delivery beside a transaction that holds the horizon of vacuum, for `HORIZON_S` seconds (default 60).
//! - *Chaos*: delivery after a restart, killed backends, no free connection, killed dispatchers.
//! - *Ten* dispatchers at one backlog of 100,000.
//! - *Million*: claims beside a million settled rows, and while 100,000 are purged.
//!
//! It starts a server of its own with the defaults of Postgres (`fsync` and `synchronous_commit` on). Rounds are
//! interleaved, a ratio is taken within its round, and printed are medians.
//!
//! `cargo bench --bench postgres --features postgres,testkit`; `-- --test` is one short round. Words after `--` run those
//! parts alone: `calls`, `deliver`, `start`, `idle`, `horizon`, `chaos`, `ten`, `million`.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark reads the clock and prints"
)]

#[path = "../support/mod.rs"]
mod bench;
mod chaos;
mod deliver;
mod horizon;
mod load;
mod many;
mod million;
mod start;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use steadfast::http::{HeaderMap, StatusCode};
use steadfast::operation::record::State;
use steadfast::store::{Postgres, Store};
use steadfast::transport::Answer;
use tokio::runtime::Runtime;

use support::server::Server;

const CALLERS: usize = 64;
const ROUNDS: usize = 11;
const BODY: &str = match std::str::from_utf8(&[b'x'; 1024]) {
    Ok(body) => body,
    Err(_) => "",
};
/// As Postgres has them by default.
const SETTINGS: &[&str] = &["fsync = on", "shared_buffers = 128MB", "max_connections = 100"];
/// The bound that the store is held to.
const RATIO_MIN: f64 = 2.0;

fn main() {
    let Some(server) = Server::start(SETTINGS) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let rounds = if bench::is_quick() { 1 } else { ROUNDS };
    if cfg!(debug_assertions) {
        println!("built without optimisation");
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_asked = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let run = |part: &str, measure: &dyn Fn()| {
        if is_asked(part) {
            measure();
        }
    };
    run("calls", &|| claim_and_settle(&server, &runtime, rounds));
    run("deliver", &|| deliver::enqueue_and_deliver(&server, &runtime, rounds));
    run("start", &|| start::accepted_to_started(&server, &runtime));
    run("idle", &|| start::idle(&server, &runtime));
    run("horizon", &|| horizon::held(&server, &runtime));
    run("chaos", &|| chaos::events(&runtime));
    run("ten", &|| many::ten_dispatchers(&server, &runtime));
    run("million", &|| million::settled_rows(&server, &runtime, rounds.min(9)));
}

fn claim_and_settle(server: &Server, runtime: &Runtime, rounds: usize) {
    let time = Duration::from_secs(if bench::is_quick() { 1 } else { 3 });
    let store = open(server, "bench");
    std::fs::write(server.directory().join("script"), SCRIPT.replace("{body}", BODY)).expect("written");
    println!("claim + settle: medians of {rounds} interleaved rounds of {time:?}, {CALLERS} callers");
    let samples = bench::interleave::<3>(rounds, |variant| match variant {
        0 => pgbench(server, time),
        1 => runtime.block_on(calls_a_second(&store, CALLERS, time)),
        _ => runtime.block_on(calls_a_second(&store, 1, time)),
    });
    let [pgbench, ours, alone] = &samples;
    println!(
        "pgbench {:>6.0}/s  steadfast {:>6.0}/s  ratio {:.2}  target {RATIO_MIN}",
        bench::median(pgbench),
        bench::median(ours),
        bench::median_ratio(ours, pgbench),
    );
    println!("one caller: {:.0} µs a call", 1e6 / bench::median(alone));
}

fn open(server: &Server, schema: &str) -> Arc<Postgres> {
    let builder = Postgres::builder(&server.url(schema)).expect("a URL of the rig");
    Arc::new(builder.open().expect("the store opens"))
}

async fn calls_a_second(store: &Arc<Postgres>, callers: usize, time: Duration) -> f64 {
    let began = Instant::now();
    let callers = (0..callers).map(|_| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let mut calls = 0_u32;
            while began.elapsed() < time {
                call(&store).await;
                calls += 1;
            }
            calls
        })
    });
    let mut calls = 0;
    for caller in callers.collect::<Vec<_>>() {
        calls += caller.await.expect("no panic");
    }
    f64::from(calls) / began.elapsed().as_secs_f64()
}

async fn call(store: &Postgres) {
    let key = format!("order-{:x}", rand::random::<u64>());
    let id = support::calls::named("prod/stripe/acct_1/POST /v1/charges", &key);
    let held = support::calls::held(store, support::calls::claim_of(store, &id)).await;
    let answer = Answer::new(StatusCode::OK, HeaderMap::new(), Bytes::from_static(BODY.as_bytes()));
    let done = support::calls::step(store, &held, State::Succeeded { answer, reconciled: false });
    store.transition(&held, done).await.expect("the store works").expect("it is held");
}

fn pgbench(server: &Server, time: Duration) -> f64 {
    let said = Command::new("pgbench")
        .args(["-n", "-M", "prepared", "-c", &CALLERS.to_string(), "-j", "2", "-U", "postgres"])
        .args(["-T", &time.as_secs().max(1).to_string(), "-p", &server.port().to_string(), "-h"])
        .arg(server.directory())
        .arg("-f")
        .arg(server.directory().join("script"))
        .arg("postgres")
        .output()
        .expect("pgbench runs");
    let text = String::from_utf8_lossy(&said.stdout);
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&said.stderr)))
}

/// The same rows in the same tables, by two commits.
const SCRIPT: &str = "\\set k random(1, 9000000000000000000)
WITH started AS (INSERT INTO bench.operation (scope, key, vendor, phase, until_ms, wake_ms, fence, attempts, effect, \
claimed_at_ms, updated_at_ms, on_unknown, lookups, resends_left, attempt_max_ms) \
SELECT 'prod/stripe/acct_1/POST /v1/charges', 'order-' || :k, 'prod/stripe', 1, now + 600000, now + 600000, purged_fence + 1, 0, \
0, now, now, 0, 0, 0, 20000 FROM bench.store_now() AS now, bench.store_state ON CONFLICT (scope, key) DO NOTHING \
RETURNING scope, key, fence) INSERT INTO bench.request (scope, key, retention_ms, first_fence, fingerprint, wire_key, \
request) SELECT scope, key, 86400000, fence, '\\x0707070707070707070707070707070707070707070707070707070707070707', \
'0e5a3c1e-8c1a-8b7e-9a53-1c6a1a3c1e8c', '\\x0104000000504f53541d00000068747470733a2f2f76656e646f722e746573742f' FROM started;
WITH clock AS (SELECT bench.store_now() AS now), moved AS (UPDATE bench.operation SET phase = 3, until_ms = now + 86400000, \
wake_ms = now + 86400000, attempts = 1, effect = 2, updated_at_ms = now, detail = 0, status = 200 FROM clock \
WHERE scope = 'prod/stripe/acct_1/POST /v1/charges' AND key = 'order-' || :k AND fence = 1 AND phase = 1 \
RETURNING scope, key) INSERT INTO bench.outcome (scope, key, reports, answer) SELECT scope, key, '', '{body}'::bytea FROM moved;
";

//! Calls a second and their latency over loopback: steadfast with all gates on against bare reqwest.
//!
//! The calls are real ones (`support/real.rs`): a PUT, and a POST with a key, which goes on record in memory or in an
//! SQLite file. The server is the least that keeps its connections (`support/server.rs`), on a thread of its own; the
//! clients share a runtime of two workers. reqwest is measured as it comes and with a timeout of its own, which is what
//! the ratios are to. Rounds are interleaved and ratios taken within a round.
//!
//! `cargo bench --bench loopback`; `-- --quick` runs one short round. `-- --one` has a single thread for the clients,
//! pinned to one core, and the server on another.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

#[path = "support/real.rs"]
mod real;
#[path = "support/server.rs"]
mod server;
mod support;

use std::time::{Duration, Instant};

use http::Method;
use steadfast::Client;
use steadfast::store::Sqlite;
use tokio::runtime::Runtime;

use real::Keys;
use support::{PATH, Plain, all_gates};

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(400);
/// The bound that the library is held to at 16 and at 128 tasks: a PUT, a keyed POST that is recorded in memory.
const PUT_MIN: f64 = 0.97;
const POST_MIN: f64 = 0.85;
/// The caller that the ratios are to.
const TIMED: usize = 1;

fn main() {
    let (rounds, length) = if support::is_quick() { (1, Duration::from_millis(50)) } else { (ROUNDS, ROUND) };
    let base = format!("http://{}", server::start(|| real::pin_if_one(1)));
    let runtime = real::runtime();
    let threads = if real::is_one() { "one pinned thread" } else { "two workers" };
    println!("loopback: medians of {rounds} interleaved rounds of {length:?}, all gates on, {threads}");
    for tasks in [1, 16, 128] {
        let directory = tempfile::tempdir().expect("a directory");
        let put = [
            ("reqwest", Caller::bare(reqwest::Client::new(), &base, Method::PUT)),
            ("reqwest with a timeout", Caller::bare(real::with_timeout(), &base, Method::PUT)),
            ("steadfast", Caller::ours(client(&base).build(), Method::PUT)),
        ];
        compare(&runtime, "PUT", &put, tasks, rounds, length, PUT_MIN);
        let file = Sqlite::open(directory.path().join("calls.db")).expect("a file");
        let post = [
            ("reqwest", Caller::bare(reqwest::Client::new(), &base, Method::POST)),
            ("reqwest with a timeout", Caller::bare(real::with_timeout(), &base, Method::POST)),
            ("steadfast, in memory", Caller::ours(client(&base).build(), Method::POST)),
            ("steadfast, SQLite", Caller::ours(client(&base).store(file).build(), Method::POST)),
        ];
        compare(&runtime, "POST", &post, tasks, rounds, length, POST_MIN);
    }
}

fn client(base: &str) -> steadfast::ClientBuilder {
    Client::builder(Plain::at(base)).policy(all_gates())
}

/// Measures all callers in turns, and prints each beside reqwest with its timeout.
fn compare(
    runtime: &Runtime,
    name: &str,
    callers: &[(&str, Caller)],
    tasks: usize,
    rounds: usize,
    length: Duration,
    least: f64,
) {
    for (_, caller) in callers {
        runtime.block_on(run(caller, tasks, Duration::from_millis(20)));
    }
    let mut latencies = vec![Vec::new(); callers.len()];
    let mut rates = vec![Vec::new(); callers.len()];
    for round in 0..rounds {
        for turn in 0..callers.len() {
            let variant = (round + turn) % callers.len();
            let rate = measure(runtime, &callers[variant].1, tasks, length, &mut latencies[variant]);
            rates[variant].push(rate);
        }
    }
    for (variant, (caller, _)) in callers.iter().enumerate() {
        let sorted = &mut latencies[variant];
        sorted.sort_unstable();
        let is_held = tasks > 1 && variant == TIMED + 1;
        let target = if is_held { format!("  target {least}") } else { String::new() };
        println!(
            "{name:<4} {tasks:>3} tasks  {caller:<22} {:>7.0} calls/s  p50 {:>6.0} µs  p99 {:>6.0} µs  × {:.3}{target}",
            support::median(&rates[variant]),
            percentile(sorted, 50),
            percentile(sorted, 99),
            support::median_ratio(&rates[variant], &rates[TIMED]),
        );
    }
}

#[derive(Clone)]
struct Caller {
    client: Kind,
    method: Method,
    keys: Keys,
}

#[derive(Clone)]
enum Kind {
    Bare(reqwest::Client, String),
    Ours(Client),
}

impl Caller {
    fn bare(client: reqwest::Client, base: &str, method: Method) -> Caller {
        Caller { client: Kind::Bare(client, format!("{base}{PATH}")), method, keys: Keys::default() }
    }

    fn ours(client: Result<Client, steadfast::Error>, method: Method) -> Caller {
        Caller { client: Kind::Ours(client.expect("a client")), method, keys: Keys::default() }
    }

    async fn once(&self) {
        match &self.client {
            Kind::Bare(client, url) => real::bare(client, &self.method, url, &self.keys).await,
            Kind::Ours(client) => real::ours(client, &self.method, &self.keys).await,
        }
    }
}

/// Calls a second in one round; its latencies are added to `latencies`, in nanoseconds.
fn measure(
    runtime: &Runtime,
    caller: &Caller,
    tasks: usize,
    length: Duration,
    latencies: &mut Vec<u64>,
) -> f64 {
    let start = Instant::now();
    let all = runtime.block_on(run(caller, tasks, length));
    let rate = all.len() as f64 / start.elapsed().as_secs_f64();
    latencies.extend(all);
    rate
}

async fn run(caller: &Caller, tasks: usize, length: Duration) -> Vec<u64> {
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move {
                let start = Instant::now();
                let mut took = Vec::with_capacity(4096);
                let mut begun = start;
                while begun.duration_since(start) < length {
                    caller.once().await;
                    let ended = Instant::now();
                    took.push(ended.duration_since(begun).as_nanos() as u64);
                    begun = ended;
                }
                took
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in running {
        all.extend(task.await.expect("the task does not panic"));
    }
    all
}

/// In microseconds.
fn percentile(sorted: &[u64], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(f64::NAN, |nanos| *nanos as f64 / 1_000.0)
}

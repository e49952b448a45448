//! Calls a second and their latency over loopback: steadfast with all gates on against bare reqwest.
//!
//! The server is the least that keeps its connections (`support/server.rs`), on a thread of its own; the
//! clients share a runtime of two workers. Bare reqwest is measured twice: as it comes, and as the library
//! sets it up (no redirects, no retries). Rounds are interleaved and ratios taken within a round.
//!
//! `cargo bench --bench loopback`; `-- --quick` runs one short round.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

#[path = "support/server.rs"]
mod server;
mod support;

use std::time::{Duration, Instant};

use http::{HeaderValue, header};
use steadfast::Client;
use tokio::runtime::Runtime;

use support::{Plain, SECRET, all_gates};

const THREADS: usize = 2;
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(400);
/// What the library is held to at 16 and at 128 tasks.
const RATIO_MIN: f64 = 0.97;
const NAMES: [&str; 3] = ["reqwest", "reqwest, set up alike", "steadfast"];

fn main() {
    let (rounds, length) = if support::is_quick() { (1, Duration::from_millis(50)) } else { (ROUNDS, ROUND) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime with two workers");
    let url = format!("http://{}", server::start());
    println!("loopback: medians of {rounds} interleaved rounds of {length:?}, all gates on");
    for tasks in [1, 16, 128] {
        let world = World::new(&url);
        let mut latencies = [const { Vec::new() }; 3];
        for caller in &world.callers {
            runtime.block_on(run(caller, tasks, Duration::from_millis(20)));
        }
        let rates = support::interleave::<3>(rounds, |variant| {
            measure(&runtime, &world.callers[variant], tasks, length, &mut latencies[variant])
        });
        for (variant, name) in NAMES.iter().enumerate() {
            let sorted = &mut latencies[variant];
            sorted.sort_unstable();
            println!(
                "{tasks:>3} tasks  {name:<22} {:>7.0} calls/s  p50 {:>6.0} µs  p99 {:>6.0} µs",
                support::median(&rates[variant]),
                percentile(sorted, 50),
                percentile(sorted, 99),
            );
        }
        let target = if tasks == 1 { "-".to_owned() } else { RATIO_MIN.to_string() };
        println!(
            "{tasks:>3} tasks  steadfast ÷ reqwest {:.3} (set up alike {:.3})  target {target}",
            support::median_ratio(&rates[2], &rates[0]),
            support::median_ratio(&rates[2], &rates[1]),
        );
    }
}

struct World {
    callers: [Caller; 3],
}

#[derive(Clone)]
enum Caller {
    Bare { client: reqwest::Client, url: String },
    Ours(Client),
}

impl World {
    fn new(base: &str) -> World {
        let alike = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(Duration::from_secs(5));
        let url = format!("{base}/v1/things");
        let ours = Client::builder(Plain::at(base)).policy(all_gates()).build().expect("a client");
        World {
            callers: [
                Caller::Bare { client: reqwest::Client::new(), url: url.clone() },
                Caller::Bare { client: alike.build().expect("a client"), url },
                Caller::Ours(ours),
            ],
        }
    }
}

impl Caller {
    async fn once(&self) -> usize {
        match self {
            Caller::Bare { client, url } => {
                let secret = HeaderValue::from_static(SECRET);
                let response = client.get(url).header(header::AUTHORIZATION, secret).send().await;
                response.expect("an answer").bytes().await.expect("a body").len()
            }
            Caller::Ours(client) => client.get("/v1/things").send().await.expect("a reply").bytes().len(),
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
                    assert_eq!(caller.once().await, 20);
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

//! The cost of a whole call through the public API, with a transport that does everything but the network,
//! against building the same reqwest request and response bare.
//!
//! All gates are on. Figures are medians over interleaved rounds; a ratio is taken within its round. `call` is
//! what one call takes on its thread (wall time × busy threads ÷ calls).
//!
//! `cargo bench --bench call`; `-- --quick` runs one short round.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use steadfast::Client;
use steadfast::store::Memory;
use tokio::runtime::Runtime;

use support::{BASE, CHARGE, Nowhere, PATH, Plain, all_gates, bare_get, bare_post};

const THREADS: usize = 2;
const ROUNDS: usize = 31;
const CALLS: u64 = 40_000;
/// The bound that the library is held to, for a GET on one task.
const RATIO_MAX: f64 = 1.35;

fn main() {
    let (rounds, calls) = if support::is_quick() { (1, 400) } else { (ROUNDS, CALLS) };
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let two = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime with two workers");
    println!("call: medians of {rounds} interleaved rounds of {calls} calls, all gates on");
    for (name, bare, ours) in [("GET", Work::BareGet, Work::Get), ("keyed POST", Work::BarePost, Work::Post)]
    {
        for tasks in [1, 2, 8, 64] {
            let runtime = if tasks == 1 { &one } else { &two };
            let samples = support::interleave::<2>(rounds, |variant| {
                measure(runtime, if variant == 0 { bare } else { ours }, tasks, calls)
            });
            let [bare, ours] = [&samples[0], &samples[1]];
            let target = if name == "GET" && tasks == 1 { RATIO_MAX.to_string() } else { "-".to_owned() };
            println!(
                "{name:<10} {tasks:>3} tasks  reqwest {:>6.0} ns  steadfast {:>6.0} ns  ratio {:.2}  target {target}",
                support::median(bare),
                support::median(ours),
                support::median_ratio(ours, bare),
            );
        }
    }
}

#[derive(Clone, Copy)]
enum Work {
    BareGet,
    Get,
    BarePost,
    Post,
}

/// Nanoseconds a call on its thread.
fn measure(runtime: &Runtime, work: Work, tasks: usize, calls: u64) -> f64 {
    let world = Arc::new(World::new());
    let each = calls / tasks as u64;
    let busy = tasks.min(THREADS) as f64;
    runtime.block_on(async {
        // Things that are made once, and the caches, are not what is measured.
        world.run(work, each.min(200)).await;
        let start = Instant::now();
        let running: Vec<_> = (0..tasks)
            .map(|_| {
                let world = Arc::clone(&world);
                tokio::spawn(async move { world.run(work, each).await })
            })
            .collect();
        for task in running {
            task.await.expect("the task does not panic");
        }
        start.elapsed().as_nanos() as f64 * busy / (each * tasks as u64) as f64
    })
}

/// New for each measurement, so that the store starts empty.
struct World {
    reqwest: reqwest::Client,
    client: Client,
    keys: AtomicU64,
}

impl World {
    fn new() -> World {
        let client = Client::builder(Plain::at(BASE))
            .policy(all_gates())
            .store(Memory::new())
            .transport(Nowhere)
            .build()
            .expect("a client");
        World { reqwest: reqwest::Client::new(), client, keys: AtomicU64::new(0) }
    }

    async fn run(&self, work: Work, calls: u64) {
        for _ in 0..calls {
            black_box(self.once(work).await);
        }
    }

    async fn once(&self, work: Work) -> usize {
        match work {
            Work::BareGet => bare_get(&self.reqwest).await,
            Work::Get => {
                let reply = self.client.get(PATH).send().await.expect("a reply");
                reply.bytes().len()
            }
            Work::BarePost => bare_post(&self.reqwest, &self.key()).await,
            Work::Post => {
                let call = self.client.post(PATH).key(self.key()).json(&CHARGE);
                call.send().await.expect("a reply").bytes().len()
            }
        }
    }

    fn key(&self) -> String {
        format!("order-{}/charge", self.keys.fetch_add(1, Ordering::Relaxed))
    }
}

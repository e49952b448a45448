//! The peers, side by side in one run: what each adds to a ready future, to an exchange without a network, and
//! how many calls a second each makes over loopback. There the calls are real ones (`../../support/real.rs`): a PUT, and
//! a POST with a key. The first of them, which the others are compared to, is reqwest with a timeout of its own.
//!
//! Each does what its users would have it do and as much of a policy as it has (see `callers.rs`). Rounds are
//! interleaved; every figure is a median over the rounds, and what is added or divided is taken within a round.
//!
//! `cargo run --release` here; `-- --quick` runs one short round, `-- --loopback` that part alone. `-- --one` has a
//! single thread for the clients, pinned to one core, and the server on another.

mod callers;
mod loopback;
#[path = "../../support/real.rs"]
mod real;
#[path = "../../support/server.rs"]
mod server;
#[path = "../../support/mod.rs"]
mod support;

use std::time::Instant;

use http::Method;
use tokio::runtime::Runtime;

use callers::Caller;

const THREADS: usize = 2;
const ROUNDS: usize = 15;

/// Measures nanoseconds of wall time a call: runtime, tasks, calls in all.
type Measure = Box<dyn Fn(&Runtime, usize, u64) -> f64>;

fn main() {
    let quick = support::is_quick();
    let rounds = if quick { 1 } else { ROUNDS };
    let calls = |full: u64| if quick { full / 100 } else { full };
    let runtime = real::runtime();
    let _entered = runtime.enter();

    if !std::env::args().any(|argument| argument == "--loopback") {
        println!("gates: added ns a call over a ready future, {rounds} rounds of {} calls", calls(100_000));
        for tasks in [1, 64] {
            compare(&runtime, callers::gates(), tasks, rounds, calls(100_000), Show::Added);
        }
        println!("exchange without a network, {rounds} rounds of {} calls", calls(20_000));
        for tasks in [1, 64] {
            compare(&runtime, callers::nowhere(), tasks, rounds, calls(20_000), Show::Times);
        }
    }
    let base = format!("http://{}", server::start(|| real::pin_if_one(1)));
    for method in [Method::PUT, Method::POST] {
        println!("loopback, {method}, {rounds} rounds of {} calls", calls(8_000));
        for tasks in [16, 128] {
            compare(&runtime, loopback::contestants(&base, &method), tasks, rounds, calls(8_000), Show::Rate);
        }
    }
}

enum Show {
    Added,
    Times,
    Rate,
}

/// Measures all in turns and prints each beside the first.
fn compare(
    runtime: &Runtime,
    contestants: Vec<(&'static str, Measure)>,
    tasks: usize,
    rounds: usize,
    calls: u64,
    show: Show,
) {
    for (_, measure) in &contestants {
        measure(runtime, tasks, calls.min(1_000));
    }
    let mut samples = vec![Vec::new(); contestants.len()];
    for round in 0..rounds {
        for turn in 0..contestants.len() {
            let variant = (round + turn) % contestants.len();
            samples[variant].push(contestants[variant].1(runtime, tasks, calls));
        }
    }
    let busy = tasks.min(if real::is_one() { 1 } else { THREADS }) as f64;
    for ((name, _), took) in contestants.iter().zip(&samples) {
        let times = support::median_ratio(took, &samples[0]);
        match show {
            Show::Added => {
                let added: Vec<f64> = took.iter().zip(&samples[0]).map(|(ours, base)| ours - base).collect();
                println!("{tasks:>3} tasks  {name:<36} {:>8.0} ns", support::median(&added) * busy);
            }
            Show::Times => {
                println!(
                    "{tasks:>3} tasks  {name:<36} {:>8.0} ns  × {times:.2}",
                    support::median(took) * busy
                );
            }
            Show::Rate => {
                let rate = 1e9 / support::median(took);
                println!("{tasks:>3} tasks  {name:<36} {rate:>8.0} calls/s  × {:.3}", 1.0 / times);
            }
        }
    }
}

/// One contestant: every task works on a clone of `caller`.
fn contestant<C: Caller>(name: &'static str, caller: C) -> (&'static str, Measure) {
    let measure = move |runtime: &Runtime, tasks: usize, calls: u64| {
        let each = (calls / tasks as u64).max(1);
        runtime.block_on(async {
            let start = Instant::now();
            let running: Vec<_> = (0..tasks)
                .map(|_| {
                    let mut caller = caller.clone();
                    tokio::spawn(async move {
                        for _ in 0..each {
                            caller.once().await;
                        }
                    })
                })
                .collect();
            for task in running {
                task.await.expect("the task does not panic");
            }
            start.elapsed().as_nanos() as f64 / (each * tasks as u64) as f64
        })
    };
    (name, Box::new(measure))
}

//! The cost of the gates alone: nanoseconds a call, added to a future that is ready.
//!
//! All gates are on, with limits too large to refuse. Rounds are interleaved: each measures the ready future
//! alone, the same with one reading of the clock and four atomics (the least that any policy could cost), and
//! the same through the gates, in turning order, so that a machine that slows down slows down all three. The figure
//! that is printed is the median over the rounds of the difference to the ready future in the same round.
//!
//! Two figures each: `call` is what one call takes on its thread (wall time × busy threads ÷ calls), `wall` is
//! wall time ÷ calls. On one task they are the same.
//!
//! `cargo bench --bench gates`; `-- --test` runs one short round.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as WallInstant};

use steadfast::Policy;
use steadfast::clock::{Clock, SystemClock};
use steadfast::policy::{BreakerConfig, BudgetConfig, RateConfig};
use steadfast_core::internal::policy::{Gates, Outcome};
use steadfast_core::internal::random::SystemRandom;

const THREADS: usize = 2;
const ROUNDS: usize = 15;
const CALLS: u64 = 400_000;
const NAMES: [&str; 3] = ["ready future", "clock + four atomics", "gates"];

fn main() {
    let quick = std::env::args().any(|argument| argument == "--test");
    let (rounds, calls) = if quick { (1, 2_000) } else { (ROUNDS, CALLS) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime with two workers");
    println!("gates: added ns over a ready future, medians of {rounds} interleaved rounds of {calls} calls");
    for tasks in [1, 2, 8, 64] {
        let added = runtime.block_on(interleave(tasks, rounds, calls));
        let busy = tasks.min(THREADS) as f64;
        for (name, wall) in NAMES.iter().zip(added).skip(1) {
            println!("{tasks:>3} tasks  {name:<22} call {:>7.1}  wall {:>7.1}", wall * busy, wall);
        }
    }
    let (refusal, with_clock) = refusal(rounds, calls);
    println!("refusal by an open circuit: {refusal:.1} ns; with the reading of the clock {with_clock:.1} ns");
}

/// Wall nanoseconds a call for each of [`NAMES`], less those of the ready future.
async fn interleave(tasks: usize, rounds: usize, calls: u64) -> [f64; 3] {
    let world = Arc::new(World::new());
    let mut samples = [const { Vec::new() }; 3];
    for round in 0..rounds {
        let mut measured = [0.0; 3];
        for turn in 0..3 {
            let variant = (round + turn) % 3;
            measured[variant] = measure(&world, variant, tasks, calls).await;
        }
        for (variant, sample) in samples.iter_mut().enumerate() {
            sample.push(measured[variant] - measured[0]);
        }
    }
    samples.map(|mut sample| median(&mut sample))
}

async fn measure(world: &Arc<World>, variant: usize, tasks: usize, calls: u64) -> f64 {
    let each = calls / tasks as u64;
    let start = WallInstant::now();
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let world = Arc::clone(world);
            tokio::spawn(async move {
                for _ in 0..each {
                    match variant {
                        0 => world.bare().await,
                        1 => world.atomics().await,
                        _ => world.gated().await,
                    }
                }
            })
        })
        .collect();
    for task in running {
        task.await.expect("the task does not panic");
    }
    start.elapsed().as_nanos() as f64 / (each * tasks as u64) as f64
}

struct World {
    clock: Arc<dyn Clock>,
    gates: Gates,
    atomics: [AtomicU64; 4],
}

impl World {
    fn new() -> World {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let policy = Policy::background()
            .breaker(BreakerConfig::default())
            .budget(BudgetConfig::default())
            .concurrency(1_000_000)
            .rate(RateConfig::new(1_000_000_000, Duration::from_secs(1)));
        policy.validate().expect("a policy that cannot refuse is valid");
        let gates = Gates::new(&policy, Arc::clone(&clock), Arc::new(SystemRandom));
        World { clock, gates, atomics: Default::default() }
    }

    async fn bare(&self) {
        black_box(ready().await);
    }

    async fn atomics(&self) {
        let now = self.clock.now().as_nanos();
        self.atomics[0].fetch_add(1, Ordering::Relaxed);
        self.atomics[1].fetch_max(now, Ordering::Relaxed);
        black_box(ready().await);
        self.atomics[2].fetch_add(1, Ordering::Relaxed);
        self.atomics[3].fetch_add(1, Ordering::Relaxed);
    }

    async fn gated(&self) {
        let now = self.clock.now();
        let admission = self.gates.admit(now).expect("the limits are too large to refuse");
        if let Some(budget) = self.gates.budget() {
            budget.earn(now);
        }
        black_box(ready().await);
        admission.settle(Outcome::Success, self.clock.now());
    }
}

async fn ready() -> u64 {
    black_box(1)
}

fn refusal(rounds: usize, calls: u64) -> (f64, f64) {
    let hour = Duration::from_secs(3_600);
    let policy = Policy::background().breaker(BreakerConfig::default().open(hour, hour));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let gates = Gates::new(&policy, Arc::clone(&clock), Arc::new(SystemRandom));
    for _ in 0..5 {
        let now = clock.now();
        gates.admit(now).expect("closed until the fifth failure").settle(Outcome::Failure, now);
    }
    let now = clock.now();
    let mut bare = Vec::new();
    let mut with_clock = Vec::new();
    for _ in 0..rounds {
        let start = WallInstant::now();
        for _ in 0..calls {
            assert!(black_box(&gates).admit(black_box(now)).is_err());
        }
        bare.push(start.elapsed().as_nanos() as f64 / calls as f64);
        let start = WallInstant::now();
        for _ in 0..calls {
            assert!(black_box(&gates).admit(clock.now()).is_err());
        }
        with_clock.push(start.elapsed().as_nanos() as f64 / calls as f64);
    }
    (median(&mut bare), median(&mut with_clock))
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

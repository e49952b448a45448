//! Clients, crashes and vendors on virtual time: many short schedules, each of them repeatable from its seed.
//!
//! One schedule has up to three processes on one store, up to four operations, some sent by two callers at once,
//! and whatever may go wrong: faults at the vendors and on the way to them, requests that arrive after their
//! caller has given up, processes that die or stand still at any moment or exactly around an operation of the
//! store, a store that fails before or after it has done what it was asked, a wall clock that is set, operators
//! who redrive. Then everything is left to come to rest, and every operation is held against the vendors'
//! ledgers by the promise: succeeded is one effect and the vendor's own reply, refused or of no effect is none,
//! unknown is none or one. Nothing stays under way, nothing is lost.
//!
//! `STEADFAST_SIM_SEED=n` repeats the schedule of a seed and prints what happened, `STEADFAST_SIM_SCHEDULES=n`
//! says how many to run, and `STEADFAST_SIM_FIRST=n` the first seed of them.
//!
//! What is not demanded, because the design does not promise it: see `process.rs` for a process that stands still
//! between its last check and its first byte. The wall clock is never off by more than the four minutes that are
//! within the adapters' allowance of five, and the windows that they are told leave room for that. The settle
//! time covers a lease, the longest way to a vendor and the vendors' lag. Nobody gives a person's word, and
//! nobody accepts a second effect.

#[path = "../teeth/guards.rs"]
mod guards;

#[allow(dead_code, reason = "the world uses the rest of it")]
#[path = "../hosts/adyen.rs"]
mod adyen;
#[allow(dead_code, reason = "the world uses the rest of it")]
#[path = "../hosts/by_key.rs"]
mod by_key;
#[path = "../hosts/draw.rs"]
mod draw;
#[path = "../hosts/keyed.rs"]
mod keyed;
#[path = "../hosts/process.rs"]
mod process;
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
#[path = "../hosts/promise.rs"]
mod promise;
#[path = "../hosts/run.rs"]
mod run;
#[path = "../hosts/shared_store.rs"]
mod shared_store;
#[path = "../hosts/stripe_routes.rs"]
mod stripe_routes;

mod audit;
mod cast;
mod network;
mod plan;
mod teeth;
mod vendors;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::run::{Stopwatch, number, print};
use world::{Outcome, run};

/// As many as take a few seconds in a debug build.
const SCHEDULES: u64 = 2_000;

#[test]
fn the_promise_holds_whatever_happens() {
    if let Some(seed) = number("STEADFAST_SIM_SEED") {
        let outcome = run(seed, None);
        assert!(outcome.breaches.is_empty(), "{}", story(seed, &outcome));
        print(&story(seed, &outcome));
        return;
    }
    let first = number("STEADFAST_SIM_FIRST").unwrap_or(0);
    let count = number("STEADFAST_SIM_SCHEDULES").unwrap_or(SCHEDULES);
    let stopwatch = Stopwatch::start();
    let next = AtomicU64::new(first);
    let total: Mutex<BTreeMap<&'static str, u64>> = Mutex::default();
    let broken: Mutex<Option<u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || broken.lock().is_some() {
                        return;
                    }
                    let outcome = run(seed, None);
                    if !outcome.breaches.is_empty() {
                        broken.lock().get_or_insert(seed);
                    }
                    let mut total = total.lock();
                    for (name, times) in outcome.happened {
                        *total.entry(name).or_default() += times;
                    }
                }
            });
        }
    });
    let total = total.into_inner();
    print(&format!(
        "{count} schedules from seed {first}, {:.0} a minute: {total:?}",
        stopwatch.a_minute(count)
    ));
    if let Some(seed) = broken.into_inner() {
        panic!("{}", story(seed, &run(seed, None)));
    }
    if count >= SCHEDULES {
        for name in EVERY_RUN_HAS {
            assert!(
                total.get(name).is_some_and(|times| *times > 0),
                "no {name} in this run: it proves little"
            );
        }
    }
}

#[test]
fn a_seed_repeats_its_schedule_exactly() {
    for seed in (0..60).step_by(3) {
        let (once, again) = (run(seed, None), run(seed, None));
        assert!(once.trace.len() > 3, "seed {seed} has a story");
        assert_eq!(once.trace, again.trace, "seed {seed}");
        assert_eq!(once.happened, again.happened, "seed {seed}");
    }
    assert_ne!(run(0, None).trace, run(1, None).trace);
}

/// A run without one of these has not met what it is there for.
const EVERY_RUN_HAS: [&str; 15] = [
    "succeeded",
    "succeeded, looked up",
    "refused",
    "dead without effect",
    "unknown, applied",
    "unknown, not applied",
    "taken over",
    "crashes",
    "pauses",
    "store failures",
    "wall clock jumps",
    "redrives under way",
    "letters redriven",
    "letters held back",
    "faults",
];

/// What happened in a schedule, and how to see it again.
fn story(seed: u64, outcome: &Outcome) -> String {
    let lines = outcome.trace.join("\n");
    format!(
        "{:#?}\n{lines}\n{:?}\nSTEADFAST_SIM_SEED={seed} cargo test --features testkit --test simulation",
        plan::Schedule::of(seed),
        outcome.breaches,
    )
}

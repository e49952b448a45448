//! Hosts, clocks, networks and vendors as they are, on the shipped defaults: many short schedules, each repeatable
//! from its seed.
//!
//! It takes the presets and the adapters as they are shipped, a vendor's window that is exactly what it documents, and
//! hosts whose wall clocks are off by seconds to days. And it audits everything that anybody was told, at the moment
//! when it was told: each effect, each reply, each dead letter, and what became of it later.
//!
//! Some callers commit a call into the store's outbox instead of sending it, or beside it: see `outbox`.
//!
//! Each way to break the promise is a [`Kind`]. Those that cannot be mended are in [`KNOWN`], with what the page of limits says of them
//! and a seed that shows them: the run fails on any other, and on an entry whose seed shows it no more.
//!
//! `STEADFAST_WORLD_SEED=n` repeats the schedule of a seed and prints what happened, `STEADFAST_WORLD_SCHEDULES=n`
//! says how many to run, and `STEADFAST_WORLD_FIRST=n` the first seed of them.

mod process;
mod shared_store;

mod allowed;
pub mod audit;
mod card;
mod cast;
mod copied;
pub mod course;
mod desk;
mod exact;
mod extras;
mod facts;
mod network;
mod outbox;
mod plain;
mod plan;
mod promised;
mod queue;
mod store;
mod vendors;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::world::audit::Kind;
use crate::world::course::{Outcome, run};
use steadfast_core::internal::decision::tape;
use support::run::{Stopwatch, number, print};

/// As many as take a few seconds in a debug build.
const SCHEDULES: u64 = 300;

/// Of each kind of breach.
const SEEDS_NAMED: usize = 12;

/// The limits that `src/docs/limits.md` has under "What it cannot do": the words, and a seed that shows it. The audit
/// tells these from all others by the fact that causes them: see `allowed`.
const KNOWN: [(Kind, &str, u64); 5] = [
    (Kind::SecondEffectOfAWrongClock, WRONG_CLOCK, 10_252),
    (Kind::RefusedOfAWrongClock, WRONG_CLOCK, 412),
    (Kind::SecondEffectOfAServerAhead, SERVER_AHEAD, 500_489),
    (Kind::NoneToldOfAServerAhead, SERVER_AHEAD, 3_027_880),
    (Kind::FoundInEarlierLifeOfAServerAhead, SERVER_AHEAD, 7_875_727),
];

const SERVER_AHEAD: &str = "Outlast a wall clock that is days ahead for longer than an hour";

const WRONG_CLOCK: &str = "Make up for a clock that is wrong and that nothing on record shows to be";

#[test]
fn nobody_is_told_what_is_not_so() {
    if let Some(seed) = number("STEADFAST_WORLD_SEED") {
        print(&story(seed, &run(seed, true)));
        return;
    }
    let first = number("STEADFAST_WORLD_FIRST").unwrap_or(0);
    let count = number("STEADFAST_WORLD_SCHEDULES").unwrap_or(SCHEDULES);
    let stopwatch = Stopwatch::start();
    let (next, operations) = (AtomicU64::new(first), AtomicU64::new(0));
    let found: Mutex<BTreeMap<Kind, Vec<u64>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let outcome = run(seed, false);
                    operations.fetch_add(outcome.operations as u64, Ordering::Relaxed);
                    let mut found = found.lock();
                    for kind in outcome.breaches.into_keys() {
                        found.entry(kind).or_default().push(seed);
                    }
                }
            });
        }
    });
    let mut found = found.into_inner();
    let (operations, speed) = (operations.into_inner(), stopwatch.a_minute(count));
    print(&format!("{count} schedules from seed {first} with {operations} operations, {speed:.0} a minute"));
    print(&format!("schedules by kind: {:?}", cast::tally(first..first + count)));
    for (kind, seeds) in &mut found {
        seeds.sort_unstable();
        let first = &seeds[..seeds.len().min(SEEDS_NAMED)];
        print(&format!("{kind:?}: {} schedules, the first are seeds {first:?}", seeds.len()));
    }
    let is_known = |kind: &Kind| KNOWN.iter().any(|(known, ..)| known == kind);
    for (kind, seeds) in found.iter().filter(|(kind, _)| !is_known(kind)) {
        print(&format!("{kind:?} is named by no limit\n{}", story(seeds[0], &run(seeds[0], true))));
    }
    assert!(found.keys().all(is_known), "breaches that the page of limits does not name");
}

#[test]
fn every_known_limit_is_still_there() {
    let limits = include_str!("../../src/docs/limits.md");
    for (kind, words, seed) in KNOWN {
        assert!(limits.contains(&format!("- {words}")), "src/docs/limits.md no longer says: {words}");
        assert!(
            run(seed, false).breaches.contains_key(&kind),
            "{words}: seed {seed} shows no {kind:?} any more. Is it mended? Then the entry goes. Else give it another seed"
        );
    }
}

#[test]
fn a_seed_repeats_its_schedule_exactly() {
    for seed in 0..40 {
        let (once, again) = (run(seed, true), run(seed, true));
        assert!(!once.trace.is_empty(), "seed {seed} has a story");
        assert_eq!(once.trace, again.trace, "seed {seed}");
        assert_eq!(once.breaches, again.breaches, "seed {seed}");
    }
    assert_ne!(run(0, true).trace, run(1, true).trace);
}

/// The acts of a driver are what the decision says, step by step, without a store, a clock or a network.
#[test]
fn each_run_of_the_driver_replays_through_the_decision() {
    let mut steps = 0;
    for seed in 0..60 {
        let (_, tapes) = tape::record(|| run(seed, false));
        for tape in tapes {
            steps += tape.len();
            tape.replay().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        }
    }
    assert!(steps > 5_000, "{steps} steps");
}

/// The story of what happened in a schedule, and how to see it again.
fn story(seed: u64, outcome: &Outcome) -> String {
    let lines = outcome.trace.join("\n");
    format!(
        "{:#?}\n{lines}\n{:#?}\nSTEADFAST_WORLD_SEED={seed} cargo test --features testkit,sqlite --test proofs world",
        plan::Schedule::of(seed),
        outcome.breaches,
    )
}

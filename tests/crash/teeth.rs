//! Measures whether a run finds a rule that is missing. Each of [`OUT`] is taken out of all drivers, and the proofs
//! are run in their short form and in their long one.
//!
//! It is a measurement that takes half an hour, so it is run by hand, with the features of the test command:
//!
//! ```sh
//! cargo test --test crash -- --ignored --nocapture the_short_run_finds_what_the_long_one_does
//! ```
//!
//! `STEADFAST_CRASH_OUT` names the rules, separated by commas, in place of [`OUT`].

use std::process::{Command, Stdio};
use std::time::Instant;

use steadfast::guard::Guard;

/// Rules that a process has need of that dies, or that overtakes another one.
const OUT: &[Guard] = &[
    Guard::Fence,
    Guard::LapsedIsUnknown,
    Guard::LongestAttempt,
    Guard::UnknownIsParked,
    Guard::SettleTime,
    Guard::StopAt,
    Guard::FailedLookup,
    Guard::SpeaksFor,
];

/// The proofs whose form is short or long.
const PROOFS: &[&str] = &[
    "what_a_killed_client_says_is_what_the_vendors_did",
    "a_client_that_dies_at_any_point_under_any_fault_keeps_the_promise",
];

/// A short run is made with each of these seeds, the long one with the first.
const SEEDS: &[u64] = &[1, 2, 3];

const LONG_OPERATIONS: &str = "2000";

const VARIABLE: &str = "STEADFAST_CRASH_WITHOUT";

/// In a driver: takes out what its environment says.
pub fn take_out() {
    if let Ok(name) = std::env::var(VARIABLE) {
        named(&name).take_out();
    }
}

fn named(name: &str) -> Guard {
    let found = Guard::ALL.iter().find(|guard| format!("{guard:?}") == name);
    *found.unwrap_or_else(|| panic!("{name} is no guard"))
}

#[test]
#[ignore = "a measurement of half an hour: see the head of this file"]
fn the_short_run_finds_what_the_long_one_does() {
    let chosen = std::env::var("STEADFAST_CRASH_OUT").ok();
    let out: Vec<Guard> = chosen.map_or_else(|| OUT.to_vec(), |names| names.split(',').map(named).collect());
    let holds = SEEDS.iter().all(|seed| !finds(None, *seed, false)) && !finds(None, SEEDS[0], true);
    assert!(
        holds,
        "a proof fails with every rule in its place, so that nothing can be said of those taken out"
    );
    let (mut missed, mut unseen) = (Vec::new(), Vec::new());
    eprintln!("rule, short (found in {} seeds, seconds), long (found, seconds)", SEEDS.len());
    for guard in out {
        let started = Instant::now();
        let short = SEEDS.iter().filter(|seed| finds(Some(guard), **seed, false)).count();
        let (short_took, started) = (started.elapsed().as_secs(), Instant::now());
        let long = finds(Some(guard), SEEDS[0], true);
        eprintln!("{guard:?}, {short} in {short_took} s, {long} in {} s", started.elapsed().as_secs());
        match (short, long) {
            (0, true) => missed.push(guard),
            (0, false) => unseen.push(guard),
            _ => {}
        }
    }
    eprintln!("found by neither: {unseen:?}");
    assert!(missed.is_empty(), "found by the long run alone: {missed:?}");
}

/// Whether any of the proofs fails, without this rule if one is given. They wait more than they work, so they run at once.
fn finds(out: Option<Guard>, seed: u64, is_long: bool) -> bool {
    let mut running = Vec::new();
    for proof in PROOFS {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", proof, "--test-threads=1"]);
        match out {
            Some(guard) => command.env(VARIABLE, format!("{guard:?}")),
            None => command.env_remove(VARIABLE),
        };
        command.env("STEADFAST_CRASH_SEED", seed.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        if is_long {
            command.env("STEADFAST_LONG", "1").env("STEADFAST_CRASH_OPS", LONG_OPERATIONS);
        } else {
            command.env_remove("STEADFAST_LONG").env_remove("STEADFAST_CRASH_OPS");
        }
        running.push(command.spawn().expect("starts"));
    }
    running.iter_mut().map(|proof| !proof.wait().expect("is ours").success()).fold(false, |a, b| a | b)
}

//! Small scope, whole space: two hosts, one key, one vendor of each kind, and every order of what can happen.
//!
//! The random schedules of `tests/world` go far and see little of each neighbourhood. This search goes every way, as
//! deep as it is told to: every order of claim, send, arrival, answer, loss, write, crash, lapse, recovery, look-up,
//! expiry, purge, redrive and resolution, with hosts whose clocks are off and are set meanwhile.
//!
//! It drives the crate and no model of it. The hosts are the real client, run again from what they heard
//! ([`host`]). The store has one record, moved by the crate's own pure functions ([`shelf`]). The operator is the real
//! `DeadLetters`. What is written here is the world around them: the vendor's ledger, requests under way, clocks.
//!
//! Beyond the preset's one rung, nothing is scaled: leases, settle time, window and retention are the shipped ones,
//! and time jumps to the next moment that matters, whichever of them that is.
//!
//! `STEADFAST_STATES_DEPTH=n` searches to that depth, from every pair of clocks, and `STEADFAST_STATES_FAULTS=n` says how
//! much goes wrong on one way.

#[allow(dead_code, reason = "this run counts no panics")]
#[path = "../hosts/run.rs"]
mod run;

mod audit;
mod host;
mod model;
mod operator;
mod shelf;
mod state;
mod steps;
mod story;
mod teeth;
mod vendor;

use stateright::{Checker as _, Model as _};

use crate::audit::{BREACHES, Breach};
use crate::model::Search;
use crate::run::{Stopwatch, number, print};
use crate::state::Left;
use crate::steps::CLOCKS_MS;
use crate::vendor::{KINDS, Kind};

/// As deep as a few seconds in a debug build allow, and as many faults on one way.
const DEPTH: u64 = 5;
const FAULTS: u64 = 1;

/// Promises that are still broken: at which vendors, the number of the finding that names each, and from which
/// depth on it shows.
///
/// A7: retention is as long as the vendor's window, so that a host whose clock is a minute ahead begins the next life while
/// the vendor still answers for the one before. N1: a host whose clock is days ahead forgets what has just settled, and sends the key anew. S1 is this search's own: a
/// host whose clock is an hour behind takes over what one with the right clock left, and sends it when the vendor's window
/// is over, because by its own clock it is open. Neither host can tell from the record; a store with a clock of its own
/// can (design, rule 10).
const KNOWN: [(Breach, &[Kind], &str, u64); 5] = [
    (Breach::SecondEffect, &[Kind::Replays], "S1", 5),
    (Breach::SucceededWithoutEffect, &[Kind::Replays], "A7", 5),
    (Breach::AppliedTold, &[Kind::Replays], "A7", 5),
    (Breach::KeyForgotten, &KINDS, "N1", 4),
    (Breach::NoneToldOfAKeyForgotten, &KINDS, "N1", 4),
];

/// What callers and operators do on one way. Two lives need two calls; a third races them.
pub const LEFT: Left = Left { calls: 3, operators: 2, faults: 0 };

#[test]
fn in_every_order_each_promise_is_kept() {
    let deep = number("STEADFAST_STATES_DEPTH");
    let (depth, faults) = (deep.unwrap_or(DEPTH), number("STEADFAST_STATES_FAULTS").unwrap_or(FAULTS));
    let left = Left { faults: faults as u8, ..LEFT };
    let (mut unnamed, mut found, mut states) = (Vec::new(), Vec::new(), 0);
    for kind in KINDS {
        for resends in [false, true] {
            let stopwatch = Stopwatch::start();
            let clocks = if deep.is_some() { all_clocks() } else { one_clock_off() };
            let search = Search::new(kind, resends, left, depth as usize, clocks);
            let checker = search.checker().threads(1).spawn_bfs().join();
            let word = if resends { "Resend" } else { "Park" };
            states += checker.unique_state_count();
            print(&format!(
                "{kind}, {word}: {} unique states, {} in all, {:.1} s",
                checker.unique_state_count(),
                checker.state_count(),
                60.0 / stopwatch.a_minute(1),
            ));
            for breach in BREACHES {
                let Some(path) = checker.discovery(breach.name()) else { continue };
                found.push(breach);
                let known = KNOWN.iter().find(|(known, at, ..)| *known == breach && at.contains(&kind));
                let named = known.map_or("named by no finding", |(_, _, finding, _)| finding);
                print(&format!("{kind}, {word}: {breach:?}, {named}\n{}", story::of(path)));
                if known.is_none() {
                    unnamed.push((kind, word, breach));
                }
            }
        }
    }
    print(&format!("depth {depth}, at most {faults} faults: {states} unique states"));
    assert!(unnamed.is_empty(), "broken promises that no finding names: {unnamed:?}");
    for (breach, _, finding, _) in KNOWN.into_iter().filter(|(.., shows)| *shows <= depth) {
        assert!(found.contains(&breach), "{finding}: {breach:?} does not show any more. Is it mended?");
    }
}

/// One host's clock is right.
fn one_clock_off() -> Vec<[i64; 2]> {
    CLOCKS_MS.iter().map(|off_ms| [0, *off_ms]).collect()
}

/// All pairs of clocks; which of the two hosts has which makes no difference.
fn all_clocks() -> Vec<[i64; 2]> {
    let pairs = CLOCKS_MS.iter().enumerate();
    pairs.flat_map(|(from, one)| CLOCKS_MS[from..].iter().map(|other| [*one, *other])).collect()
}

//! Small scope, whole space: two hosts, one key, one vendor of each kind, and every order of what can happen.
//!
//! The random schedules of `tests/proofs/world.rs` go far and see little of each neighbourhood. This search goes every way, as
//! deep as it is told to: every order of claim, send, arrival, answer, loss, write, crash, lapse, recovery, lookup,
//! expiry, purge, redrive and resolution, with hosts whose clocks are off and are set meanwhile.
//!
//! It drives the crate and no model of it. The hosts are the real client, run again from what they heard
//! ([`host`]). The store has one record, moved by the crate's own pure functions ([`shelf`]). The operator is the real
//! `DeadLetters`. The world around them is written here: the vendor's ledger, requests under way, clocks.
//!
//! Beyond the preset's one rung, nothing is scaled: leases, settle time, window and retention are the shipped ones,
//! and time jumps to the next moment that matters, whichever of them that is.
//!
//! `STEADFAST_STATES_DEPTH=n` searches to that depth, from every pair of clocks, and `STEADFAST_STATES_FAULTS=n` says how
//! much goes wrong on one way.

mod audit;
mod bounds;
mod decision;
mod digest;
mod host;
mod limits;
mod model;
mod operator;
mod shelf;
mod state;
mod steps;
mod story;
mod teeth;
mod vendor;

use stateright::{Checker as _, Model as _};

use crate::states::audit::{BREACHES, Breach};
use crate::states::model::Search;
use crate::states::state::Left;
use crate::states::steps::CLOCKS_MS;
use crate::states::vendor::{KINDS, Kind};
use support::cores;
use support::run::{Stopwatch, number, print};

/// As deep as a few seconds in a debug build allow, and as many faults on one way.
const DEPTH: u64 = 4;
const FAULTS: u64 = 1;

/// Limits: promises that are broken where clocks of hosts differ by more than five minutes, at which vendors, a name for
/// each, and from which depth on it shows. Where they differ by less, no promise is broken.
///
/// S1: a host whose clock is an hour behind takes over what one with the right clock left, and sends it when the
/// vendor's window is over, because by its own clock it is open. The vendor executes it a second time, or refuses it as it
/// would a new one, which is then taken for a word about the first. Neither host can tell from the record; a store with a
/// clock of its own can (design, rule 10). N1: a host whose clock is ahead forgets what has settled, if no other is at
/// the store for an hour; after an idle time also the next host, if its clock is ahead of the last one's by an hour,
/// because the store takes that for the hour.
const LIMITS: [(Breach, &[Kind], &str, u64); 4] = [
    (Breach::SecondEffect, &[Kind::Replays], "S1", 5),
    (Breach::FailedWithEffect, &[Kind::Replays], "S1", 6),
    (Breach::NoneTold, &[Kind::Replays], "S1", 6),
    (Breach::KeyForgotten, &KINDS, "N1", 5),
];

/// The acts that callers and operators have left on one way. Two lives need two calls; a third races them.
pub const LEFT: Left = Left { calls: 3, operators: 2, faults: 0 };

#[test]
fn in_every_order_each_promise_is_kept() {
    let deep = number("STEADFAST_STATES_DEPTH");
    let (depth, faults) = (deep.unwrap_or(DEPTH), number("STEADFAST_STATES_FAULTS").unwrap_or(FAULTS));
    let left = Left { faults: faults as u8, ..LEFT };
    let clocks = if deep.is_some() { all_clocks() } else { one_clock_off() };
    let all: Vec<(Kind, bool, bool)> = searches().collect();
    let searched = cores::on_all(&all, |(kind, resends, taught)| {
        let mut search = Search::new(*kind, *resends, left, depth as usize, clocks.clone());
        search.taught = *taught;
        searched(search)
    });
    let (mut unnamed, mut found, mut states) = (Vec::new(), Vec::new(), 0);
    for ((kind, resends, taught), searched) in all.into_iter().zip(searched) {
        let word = if resends { "Resend" } else { "Park" };
        let knows = if taught { ", its clock known" } else { "" };
        states += searched.unique;
        print(&format!(
            "{kind}, {word}{knows}: {} unique states, {} in all, {:.1} s",
            searched.unique, searched.all, searched.seconds,
        ));
        for (breach, apart, story) in searched.broken {
            let limit = LIMITS.iter().find(|(known, at, ..)| apart && *known == breach && at.contains(&kind));
            let named = limit.map_or("no limit", |(_, _, limit, _)| limit);
            let name = breach.name(apart);
            print(&format!("{kind}, {word}{knows}: {name}, {named}\n{story}"));
            match limit {
                Some((_, _, limit, _)) => found.push(*limit),
                None => unnamed.push((kind, word, name)),
            }
        }
    }
    print(&format!("depth {depth}, at most {faults} faults: {states} unique states"));
    assert!(unnamed.is_empty(), "broken promises that are no limit: {unnamed:?}");
    for (breach, _, limit, _) in LIMITS.into_iter().filter(|(.., shows)| *shows <= depth) {
        assert!(found.contains(&limit), "{limit}: {breach:?} does not show any more. Is it mended?");
    }
}

/// The result of a search. The states themselves are many.
struct Searched {
    unique: usize,
    all: usize,
    seconds: f64,
    /// Each broken promise, whether the clocks were apart, and the way there.
    broken: Vec<(Breach, bool, String)>,
}

fn searched(search: Search) -> Searched {
    let stopwatch = Stopwatch::start();
    let checker = search.checker().threads(1).spawn_bfs().join();
    let all = BREACHES.into_iter().flat_map(|breach| [(breach, false), (breach, true)]);
    let broken = all.filter_map(|(breach, apart)| {
        let path = checker.discovery(breach.name(apart))?;
        Some((breach, apart, story::of(path)))
    });
    Searched {
        broken: broken.collect(),
        unique: checker.unique_state_count(),
        all: checker.state_count(),
        seconds: 60.0 / stopwatch.a_minute(1),
    }
}

/// Vendor, whether the caller accepts a second effect, and whether the hosts know the vendor's clock: it is asked for
/// where there is a lookup, and nowhere else.
fn searches() -> impl Iterator<Item = (Kind, bool, bool)> {
    let each = KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]);
    each.flat_map(|(kind, resends)| {
        let taught = (kind == Kind::LooksUp).then_some((kind, resends, true));
        [Some((kind, resends, false)), taught].into_iter().flatten()
    })
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

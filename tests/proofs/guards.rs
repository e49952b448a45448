//! Each rule that keeps the promise, taken out: something must notice.
//!
//! The rules are the variants of [`Guard`], and the switch is in a build with the feature `_guards` alone. For each there
//! is a [`Proof`](table::Proof): a small situation in which the promise holds, and does not without the rule. A rule
//! that the run of `tests/proofs/world.rs` notices too is in [`seen`].
//!
//! `cargo test --features testkit,sqlite,seal,_guards --test proofs guards -- --nocapture` prints the table.

mod adapters;
mod calls;
mod connections;
mod hosts;
mod life;
mod limits;
mod lines;
mod lookups;
mod queued;
mod reads;
mod recovering;
mod rows;
mod seen;
mod shelves;
mod table;

use std::collections::BTreeSet;
use std::path::PathBuf;

use steadfast::guard::Guard;

use crate::guards::table::PROOFS;
use support::members::{Member, products};
use support::run::{Stopwatch, print};

/// The result of `future`, on this thread: the switch is this thread's.
fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

#[test]
fn each_guard_is_missed() {
    let sources: Vec<_> = products().iter().flat_map(Member::sources).collect();
    let mut wrong = Vec::new();
    print("guard | rule | where | noticed by | ms");
    for proof in PROOFS {
        let guard = proof.guard;
        let stopwatch = Stopwatch::start();
        if !holds(proof.holds) {
            wrong.push(format!("{guard:?} is there, and {} does not hold", proof.name));
        }
        if guard.without(|| holds(proof.holds)) {
            wrong.push(format!("{guard:?} is out, and {} did not notice", proof.name));
        }
        assert!(guard.holds(), "{guard:?} was not put back");
        let places = places(guard, &sources);
        if places.len() != 1 {
            wrong.push(format!("{guard:?} is one condition: {places:?}"));
        }
        let ms = 30_000.0 / stopwatch.a_minute(1);
        print(&format!("{guard:?} | {} | {places:?} | {} | {ms:.1}", guard.rule().trim(), proof.name));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Whether the situation holds. One that panics does not.
fn holds(proof: fn() -> bool) -> bool {
    std::panic::catch_unwind(proof).unwrap_or(false)
}

#[test]
fn each_guard_has_a_proof_and_there_are_at_least_forty() {
    let proven: BTreeSet<Guard> = PROOFS.iter().map(|proof| proof.guard).collect();
    let all: BTreeSet<Guard> = Guard::ALL.iter().copied().collect();
    assert_eq!((&proven, PROOFS.len()), (&all, all.len()), "one proof for each");
    assert!(all.len() >= 40, "{}", all.len());
}

#[test]
fn a_guard_is_out_on_its_own_thread_alone_and_is_put_back_after_a_panic() {
    let elsewhere = || std::thread::spawn(|| Guard::Fence.holds()).join().expect("no panic");
    let panicked = std::panic::catch_unwind(|| {
        Guard::Fence.without(|| {
            assert!(Guard::Fence.is_out() && Guard::SettleTime.holds() && elsewhere());
            std::panic::resume_unwind(Box::new(()));
        });
    });
    assert!(panicked.is_err() && Guard::Fence.holds());
}

/// Where the guard's switch stands, as file and line.
fn places(guard: Guard, sources: &[(PathBuf, String)]) -> Vec<String> {
    let switch = format!("Guard::{guard:?}");
    let is_it = |line: &str| {
        line.match_indices(&switch)
            .any(|(at, _)| !line[at + switch.len()..].starts_with(char::is_alphanumeric))
    };
    let here = sources.iter().filter(|(path, _)| !path.ends_with("guard.rs"));
    here.flat_map(|(path, text)| {
        let lines = text.lines().enumerate().filter(|(_, line)| is_it(line));
        lines.map(|(number, _)| format!("{}:{}", path.display(), number + 1)).collect::<Vec<_>>()
    })
    .collect()
}

//! Each rule that keeps the promise, taken out: something must notice.
//!
//! The rules are the variants of [`Guard`], and the switch is in a build with the feature `_guards` alone. For each there
//! is a [`Proof`](table::Proof): a small situation in which the promise holds, and does not without the rule. What the
//! run of `tests/world` notices too is in [`seen`].
//!
//! `cargo test --features testkit,sqlite,seal,_guards --test guards -- --nocapture` prints the table.

#[path = "../engine/vendor.rs"]
#[allow(dead_code, reason = "the engine's own tests use the rest of it")]
mod acme;
#[allow(dead_code, reason = "the findings use the rest of it")]
#[path = "../hosts/apart.rs"]
mod apart;
#[path = "../hosts/commands.rs"]
#[allow(dead_code, reason = "the tests of the stores use more of it")]
mod commands;
#[path = "../hosts/cores.rs"]
mod cores;
#[path = "../hosts/meanwhile.rs"]
mod meanwhile;
#[allow(dead_code, reason = "`tests/tidy` and the public API use the rest of it")]
#[path = "../hosts/members.rs"]
mod members;
#[allow(dead_code, reason = "the findings use it")]
#[path = "../hosts/server_clock.rs"]
mod server_clock;
#[path = "../findings/engine/trouble.rs"]
#[allow(dead_code, reason = "the findings use the rest of it")]
mod trouble;
#[path = "../engine/watched.rs"]
#[allow(dead_code, reason = "the engine's own tests use the rest of it")]
mod watched;

// The world, which says `crate` of its own parts.
#[path = "../hosts/adyen.rs"]
mod adyen;
#[path = "../world/allowed.rs"]
mod allowed;
#[path = "../world/audit.rs"]
mod audit;
#[path = "../hosts/by_key.rs"]
mod by_key;
#[path = "../world/card.rs"]
mod card;
#[allow(dead_code, reason = "the world's own test counts")]
#[path = "../world/cast.rs"]
mod cast;
#[path = "../world/copied.rs"]
mod copied;
#[path = "../world/desk.rs"]
mod desk;
#[path = "../hosts/draw.rs"]
mod draw;
#[path = "../world/extras.rs"]
mod extras;
#[path = "../world/facts.rs"]
mod facts;
#[path = "../hosts/keyed.rs"]
mod keyed;
#[path = "../world/network.rs"]
mod network;
#[path = "../findings/transport/one_stream.rs"]
#[allow(dead_code, reason = "the findings use the rest of it")]
mod one_stream;
#[path = "../world/outbox.rs"]
mod outbox;
#[path = "../world/plain.rs"]
mod plain;
#[path = "../world/plan.rs"]
mod plan;
#[path = "../hosts/process.rs"]
mod process;
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
#[path = "../hosts/promise.rs"]
mod promise;
#[path = "../world/promised.rs"]
mod promised;
#[path = "../world/queue.rs"]
mod queue;
#[path = "../hosts/run.rs"]
mod run;
#[path = "../hosts/shared_store.rs"]
mod shared_store;
#[path = "../world/store.rs"]
mod store;
#[path = "../hosts/stripe_routes.rs"]
mod stripe_routes;
#[path = "../world/vendors.rs"]
mod vendors;
#[path = "../world/world.rs"]
#[allow(dead_code, reason = "the world's own test counts and tells")]
mod world;

mod adapters;
mod calls;
mod connections;
mod hosts;
mod life;
mod limits;
mod lines;
mod look_ups;
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

use crate::members::{Member, products};
use crate::run::{Stopwatch, print};
use crate::table::PROOFS;

/// What `future` comes to, on this thread: the switch is this thread's.
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

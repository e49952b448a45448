//! Each rule that keeps the promise, taken out: something must notice.
//!
//! The rules are the variants of [`Guard`], and the switch is in a build with the feature `_guards` alone. For each there
//! is a [`Proof`]: a small situation in which the promise holds, and does not without the rule.

#[path = "../engine/vendor.rs"]
#[allow(dead_code, reason = "the engine's own tests use the rest of it")]
mod acme;
#[path = "../findings/engine/trouble.rs"]
#[allow(dead_code, reason = "the findings use the rest of it")]
mod trouble;
#[path = "../engine/watched.rs"]
#[allow(dead_code, reason = "the engine's own tests use the rest of it")]
mod watched;

mod adapters;
mod calls;
mod life;
mod limits;
mod shelves;
mod table;

use std::collections::BTreeSet;

use steadfast::guard::Guard;

use crate::table::PROOFS;

/// What `future` comes to, on this thread: the switch is this thread's.
fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

#[test]
fn each_guard_is_missed() {
    for proof in PROOFS {
        let guard = proof.guard;
        assert!((proof.holds)(), "{guard:?} is there, and {} does not hold", proof.name);
        assert!(!guard.without(proof.holds), "{guard:?} is out, and {} did not notice", proof.name);
        assert!((proof.holds)(), "{guard:?} was not put back");
    }
}

#[test]
fn each_guard_has_a_proof_and_there_are_at_least_forty() {
    let proven: BTreeSet<Guard> = PROOFS.iter().map(|proof| proof.guard).collect();
    let all: BTreeSet<Guard> = Guard::ALL.iter().copied().collect();
    assert_eq!((&proven, PROOFS.len()), (&all, all.len()), "one proof for each");
    assert!(all.len() >= 40, "{}", all.len());
}

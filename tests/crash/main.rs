//! The promise, kept by a client that is killed: a driver process makes keyed calls on one SQLite file, is
//! killed with SIGKILL again and again, and what the records say in the end is held against what the vendors'
//! fakes did. The fakes are in this process, which is never killed.
//!
//! `STEADFAST_CRASH_OPS` makes it longer, `STEADFAST_CRASH_SEED` repeats a run: the orders, the faults by
//! their ordinal, the moments of the kills and their victims follow from the seed. What a process had done by
//! the time of a kill is the machine's, so a repetition is as close as two processes can come, not exact.
//!
//! Real time, and not a test clock: a process that is killed takes its clock with it, and leases, settle times
//! and two processes on one file are only meant here if nobody steers them.

#![allow(clippy::disallowed_methods, reason = "real processes run in real time, see above")]
#![allow(clippy::print_stderr, reason = "the figures are for whoever runs it")]

mod audit;
mod driver;
mod harness;
mod plan;

use plan::Plan;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_client_says_is_what_the_vendors_did() {
    let plan = Plan::from_environment();
    eprintln!("seed {}, {} operations, {} kills to come", plan.seed, plan.operations(), plan.kills);
    let run = harness::run(&plan).await;
    let report = audit::audit(&plan, &run).await;
    eprintln!("{report}");
    assert!(run.killed >= plan.kills, "{} kills", run.killed);
    assert!(report.taken_over > 0, "no kill met an operation under way, so nothing was shown");
    assert!(report.broken.is_empty(), "STEADFAST_CRASH_SEED={}:\n{}", plan.seed, report.broken.join("\n"));
}

/// Not a test by itself: what the harness starts and kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn driver_process() {
    if let Some(orders) = driver::Orders::from_environment() {
        driver::drive(orders).await;
    }
}

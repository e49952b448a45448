//! SQLite's durability, proven on a disk that drops what was not synced: whatever the store acknowledged survives
//! a power cut at any moment, and nothing is half done.
//!
//! The public `Sqlite::open` runs as it is, on a VFS that keeps a model of the disk ([`vfs`], [`disk`]). Callers
//! make calls on it ([`world`]), the power goes at a step that was drawn, and what is left, as far as a disk may
//! lose the rest, is opened again on a plain disk and held against what they were told ([`audit`]). Then they go
//! on with what was left, until the next cut ([`lives`]).
//!
//! An answer counts as acknowledged also if it is read after the cut: the disk carries nothing out by then, so
//! the commit it speaks of must have been synced before.
//!
//! `STEADFAST_POWER_CUTS` makes it longer, `STEADFAST_POWER_SEED` repeats a run: calls, cuts and what they leave
//! follow from the seed. How the calls of several threads meet at the disk does not, so that a failure may
//! take more than one repetition.

#![deny(unsafe_code)]
#![cfg(unix)]
#![allow(clippy::print_stderr, reason = "the figures are for whoever runs it")]
#![allow(
    clippy::disallowed_methods,
    reason = "the store's threads run in real time; and each run has a seed of its own"
)]

mod audit;
mod disk;
mod lives;
#[allow(unsafe_code, reason = "a VFS is C functions over C structures")]
mod vfs;
mod world;

use std::time::{SystemTime, UNIX_EPOCH};

use audit::What;
use disk::Syncs;
use lives::{Ground, Report, claims_until_memory_is_full, every_step_of_the_making, history};
use steadfast::store::StoreErrorKind;
use tokio::task::JoinSet;
use vfs::Synchronous;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_power_cut_and_nothing_is_half_done() {
    let cuts = number("STEADFAST_POWER_CUTS").unwrap_or(CUTS);
    let seed = number("STEADFAST_POWER_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_millis() as u64)
    });
    eprintln!("seed {seed}, {cuts} cuts to come");
    let report = cut_off(cuts, seed, Ground::FIRM).await;
    eprintln!("{report}");
    assert!(report.broken.is_empty(), "STEADFAST_POWER_SEED={seed}\n{report}");
    if cuts >= CUTS {
        let met = [report.in_migration, report.in_checkpoint, report.in_own_checkpoint, report.in_calls];
        assert!(met.iter().all(|cuts| *cuts > 0), "a moment that no cut met, so nothing was shown: {report}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_making_is_cut_off_at_any_step_can_be_opened() {
    let (steps, broken) = every_step_of_the_making().await;
    eprintln!("the making of a file has {steps} steps");
    assert!(steps > 20, "{steps} steps");
    let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// The memory that connections share grows once the commit is in the log. Where it cannot, the log is read anew after a
/// crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_may_be_in_the_log_is_not_told_as_surely_unwritten() {
    let (error, record) = claims_until_memory_is_full().await;
    assert!(record.is_some(), "the claim is on record");
    assert_eq!(error.kind(), StoreErrorKind::Other, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn teeth_a_disk_that_only_says_that_it_synced_is_found_out() {
    for syncs in [Syncs::NotOfFiles, Syncs::NotOfNames] {
        let report = cut_off(TOOTH_CUTS, 1, Ground { syncs, ..Ground::FIRM }).await;
        assert!(lost_something(&report), "{syncs:?}: nothing acknowledged was lost\n{report}");
    }
}

/// A record that was acknowledged, or all of them: those of a file that is damaged.
fn lost_something(report: &Report) -> bool {
    [What::Lost, What::Unopenable, What::Damaged].into_iter().any(|what| report.has(what))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn teeth_a_store_that_runs_at_synchronous_off_is_found_out() {
    let report = cut_off(TOOTH_CUTS, 1, Ground { synchronous: Synchronous::Off, ..Ground::FIRM }).await;
    assert_eq!(report.file_syncs, 0, "it did not run at OFF");
    assert!(lost_something(&report), "nothing acknowledged was lost\n{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn teeth_a_store_that_runs_at_synchronous_normal_is_found_out() {
    let report = cut_off(TOOTH_CUTS, 1, Ground { synchronous: Synchronous::Normal, ..Ground::FIRM }).await;
    assert!(report.file_syncs > 0, "it did not run at NORMAL");
    assert!(lost_something(&report), "nothing acknowledged was lost\n{report}");
}

/// Histories of one to five lives, side by side, until there were `cuts` of them or something broke.
async fn cut_off(cuts: u64, seed: u64, ground: Ground) -> Report {
    let mut to_come = cuts;
    let mut next = seed;
    let mut running = JoinSet::new();
    let mut report = Report::default();
    loop {
        while to_come > 0 && running.len() < SIDE_BY_SIDE && report.broken.is_empty() {
            let lives = (1 + next % 5).min(to_come);
            running.spawn(history(next, lives, ground));
            next = next.wrapping_add(1);
            to_come -= lives;
        }
        match running.join_next().await {
            Some(one) => report.add(one.expect("no panic")),
            None => return report,
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// How many cuts there are in the test command.
const CUTS: u64 = 200;

/// How many it may take until a proof without ground falls. The first to fall ends the run.
const TOOTH_CUTS: u64 = 60;

const SIDE_BY_SIDE: usize = 3;

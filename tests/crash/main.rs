//! The promise, kept by clients that are killed: driver processes make keyed calls on SQLite files and are
//! killed with SIGKILL, and what the records say in the end is held against what the vendors' fakes did. The
//! fakes are in a process of their own, which is never killed and writes each effect to a ledger file as it
//! takes place.
//!
//! The same on a Postgres server that is killed as well, by two hosts whose walls are minutes apart, is in
//! `on_postgres`.
//!
//! Kills at random are in [`random_run`], kills at every named point under every fault in [`cells`], processes that
//! are stopped and go on in [`stops`], a full disk, walls that are set and two operators at once in [`troubles`].
//! The rules that hold for all of them are in [`audit`], and what each caller was told is held against it in
//! [`truth`].
//!
//! `STEADFAST_CRASH_OPS` makes the random run longer, and with `STEADFAST_LONG` every point is met under every fault; a
//! short run draws an eighth of these cells by its seed. `STEADFAST_CRASH_SEED` repeats one: the orders, the faults by
//! their ordinal, the moments of the kills, their victims and the cells follow from the seed. The work that a process
//! had done by the time of a kill is the machine's, so a repetition is as close as two processes can come, not
//! exact.
//!
//! Waits, limits, leases, settle times and windows are those of the shipped preset and adapters, all of them faster by
//! one factor: see [`clock`]. Where the exact steps are known beforehand ([`cells`]), each wait is at its longest.
//!
//! Every other file of [`cells`], and that of a random run with an odd seed, is sealed: see [`file`].
//!
//! Whether the short run finds what the long one does, with rules taken out of the drivers, is in [`teeth`].
//!
//! Real time beneath that, and not a test clock: a process that is killed takes its clock with it, and leases, settle times
//! and two processes on one file are only meant here if nobody steers them.

#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "real processes run in real time, see above")]
#![allow(clippy::print_stderr, reason = "the figures are for whoever runs it")]

mod audit;
mod cells;
mod clock;
mod driver;
mod file;
#[cfg(feature = "postgres")]
mod on_postgres;
mod orders;
mod plan;
mod point;
mod power_cut;
mod process;
mod random_run;
mod seams;
mod shop;
mod stops;
mod table;
#[cfg(feature = "_guards")]
mod teeth;
mod troubles;
mod truth;
mod vendors;
mod way;
mod words;

use plan::Plan;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_client_says_is_what_the_vendors_did() {
    let plan = Plan::from_environment();
    eprintln!("seed {}, {} operations, {} kills to come", plan.seed, plan.operations(), plan.kills);
    let report = random_run::run(&plan).await;
    eprintln!("{report}");
    assert!(report.kills >= plan.kills, "{} kills", report.kills);
    assert!(report.taken_over > 0, "no kill met an operation under way, so nothing was shown");
    report.must_hold();
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_client_on_a_killed_server_says_is_what_the_vendors_did() {
    let plan = Plan::on_server();
    let (seed, operations, kills) = (plan.seed, plan.operations(), plan.kills);
    eprintln!("on Postgres: seed {seed}, {operations} operations, {kills} kills to come");
    let Some(report) = on_postgres::run(&plan).await else { return };
    eprintln!("on Postgres: {report}");
    assert!(report.kills >= plan.kills, "{} kills", report.kills);
    assert!(report.taken_over > 0, "no kill met an operation under way, so nothing was shown");
    assert!(report.promised > 0, "nobody was promised anything, so nothing was shown");
    report.must_hold();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_dies_at_any_point_under_any_fault_keeps_the_promise() {
    let report = cells::run(Plan::from_environment().seed).await;
    eprintln!("at named points: {report}");
    report.must_hold();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_stopped_past_its_lease_and_goes_on_changes_nothing() {
    let report = stops::run().await;
    eprintln!("stopped: {report}");
    report.must_hold();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_neither_loses_nor_doubles_anything() {
    let report = troubles::full_disk(Plan::from_environment().seed).await;
    eprintln!("with a full disk: {report}");
    report.must_hold();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wall_clock_that_is_set_neither_loses_nor_doubles_anything() {
    let report = troubles::moved_walls(Plan::from_environment().seed).await;
    eprintln!("with moved walls: {report}");
    assert!(report.taken_over > 0, "no clock ran out on anybody, so nothing was shown");
    report.must_hold();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wall_that_steps_past_a_lease_while_requests_are_on_their_way_doubles_nothing() {
    let report = troubles::stepped_wall(Plan::from_environment().seed).await;
    eprintln!("with a stepped wall: {report}");
    assert!(report.taken_over > 0 && report.late > 0, "nobody overtook anybody, so nothing was shown");
    report.must_hold();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_redrives_at_once_one_sends() {
    let report = troubles::two_redrives(Plan::from_environment().seed).await;
    eprintln!("redriven twice: {report}");
    report.must_hold();
}

/// Not a test by itself: what the harness starts and kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn driver_process() {
    #[cfg(feature = "_guards")]
    teeth::take_out();
    if let Some(orders) = orders::Orders::from_environment() {
        driver::drive(orders).await;
    }
}

/// Not a test by itself: the same with few threads, where there is little to do and many are started.
#[tokio::test]
async fn small_driver_process() {
    #[cfg(feature = "_guards")]
    teeth::take_out();
    if let Some(orders) = orders::Orders::from_environment() {
        driver::drive(orders).await;
    }
}

/// Not a test by itself: the process that is never killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vendors_process() {
    if let Some(setup) = vendors::Setup::from_environment() {
        vendors::serve(setup).await;
    }
}

//! Recovery: what a crash left, what is due, and what has expired.

mod backlog;
mod expired;
mod places;
mod poison;
mod refused;
pub mod ruled;
mod shared;
pub mod shop;
mod storm;
mod tenants;
pub mod time;

use support::rig::{ms, secs};

#[allow(clippy::print_stderr, reason = "figures that a reader of the test's output wants")]
fn print(text: &str) {
    eprintln!("{text}");
}

//! Findings about recovery: what a crash left, what is due, and what has expired.

mod backlog;
mod expired;
mod places;
mod shared;
pub mod shop;
pub mod time;

use std::time::Duration;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[allow(clippy::print_stderr, reason = "figures that a reader of the test's output wants")]
fn print(text: &str) {
    eprintln!("{text}");
}

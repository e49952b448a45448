//! Edges between two rules that are right each for itself.

mod late;
mod outage;
mod panics;
mod settle;
mod start_over;
mod stored;

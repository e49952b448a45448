//! Edges between two rules that are right each for itself.

mod late;
mod outage;
mod panics;
mod quiet;
mod settle;
mod start_over;
mod stored;

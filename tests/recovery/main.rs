//! The work that goes on without a caller: dispatchers, the outbox, sequences, and what a crash left.

mod clocks;
mod delivery;
mod dispatch;
mod late;
mod outage;
mod outbox;
mod panics;
mod quiet;
mod scheduled;
mod second_effects;
mod sequences;
mod settle;
mod start_over;
mod stored;

//! What goes on without a caller: dispatchers, the outbox, sequences, and what a crash left.

mod attack;
mod clocks;
mod delivery;
mod dispatch;
mod edges;
mod outbox;
mod record;
mod second_look;
mod sequences;
mod wall_apart;
mod world;

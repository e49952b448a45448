//! One call: what goes out, what its caller is told, and what is on record then.

mod addresses;
mod backpressure;
mod bad_input;
mod callers;
mod engine;
mod errors;
mod lives;
mod moved;
mod policies;
mod redaction;
mod rule;
mod shared;
mod sockets;
mod stories;
mod terms;
mod told;
mod transport;
mod vectors;

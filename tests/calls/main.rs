//! One call: what goes out, what its caller is told, and what is on record then.

mod addresses;
mod backpressure;
mod bad_input;
mod bare;
mod callers;
mod engine;
mod errors;
mod in_flight;
mod lookups;
mod policies;
mod redaction;
mod retention;
mod sending_again;
mod sockets;
mod transport;

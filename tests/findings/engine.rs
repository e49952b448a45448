//! Findings about the engine: what callers are told.

mod answers;
mod applied;
mod store;
mod told;
pub mod trouble;

#[path = "../engine/vendor.rs"]
#[allow(dead_code, reason = "shared with the engine's own tests, which use the rest of it")]
pub mod vendor;

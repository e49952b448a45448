//! The slow proofs on virtual time: seeded schedules, every order of a small scope, and each rule taken out.

#[cfg(all(feature = "seal", feature = "_guards"))]
mod guards;
mod states;
mod world;

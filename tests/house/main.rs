//! The rules that the sources, the documentation and the public API are held to.

mod decisions;
mod docs;
mod public_api;
mod tidy;
mod way;

//! What the tests of several packages need.

pub mod answers;
pub mod in_memory;
pub mod receiver;

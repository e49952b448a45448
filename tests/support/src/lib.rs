//! What the tests of several packages need.

pub mod in_memory;

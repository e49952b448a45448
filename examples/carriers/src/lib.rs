//! Typed clients over steadfast: the vendors' types and builders, and underneath them calls that take effect once.
//!
//! Each file is to be copied into a service.

pub mod postmark;
pub mod stripe;

//! The fake of Postmark.
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside of #[test]")]

mod account;
mod rules;
mod streams;
mod strict;

//! The fake of Adyen.
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside of #[test]")]

mod asks;
mod rules;
mod sessions;
mod strict;

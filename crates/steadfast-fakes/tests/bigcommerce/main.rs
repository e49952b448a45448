//! The fake of BigCommerce.
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside of #[test]")]

mod asks;
mod contract;
mod edits;
mod life;
mod lists;
mod money;
mod rules;
mod stock;
mod store;

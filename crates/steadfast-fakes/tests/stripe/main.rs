//! The fake of Stripe.
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside of #[test]")]

mod account;
mod cycles;
mod lives;
mod payments;
mod prorations;
mod refusals;
mod rules;
mod v2;

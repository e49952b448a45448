//! Stripe, Postmark, BigCommerce and Adyen, small enough to start in a test and honest enough to catch a double charge.
//!
//! A mock that answers 200 proves that a request was sent. It cannot prove that a customer was charged once.
//! These fakes keep state: each write that executes is an [`Effect`] in an append-only [`Ledger`], whatever
//! became of its answer, and a test asks the ledger. Where a vendor's documentation is silent, the fake takes
//! the reading that hurts (a repeat executes, a new message is not yet searchable) or offers a switch.
//!
//! ```
//! use steadfast::testkit::fakes::StripeFake;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stripe = StripeFake::start().await;
//! let charge = || {
//!     reqwest::Client::new()
//!         .post(format!("{}/v1/charges", stripe.url()))
//!         .bearer_auth("sk_test_123")
//!         .header("Idempotency-Key", "order-42")
//!         .header("Content-Type", "application/x-www-form-urlencoded")
//!         .body("amount=1000&currency=usd")
//! };
//! charge().send().await?;
//! let again = charge().send().await?;
//!
//! assert_eq!(again.headers()["Idempotent-Replayed"], "true");
//! assert_eq!(stripe.ledger().effects_for("order-42").len(), 1);
//! assert_eq!(stripe.ledger().duplicates(), Vec::<String>::new());
//! # Ok(())
//! # }
//! ```
//!
//! # Without sockets
//!
//! `StripeFake::builder().test_clock(&clock).in_process()` listens nowhere and is reached by
//! [`transport()`](StripeFake::transport): the same answers, faults and ledger on virtual time, thousands of
//! times a second. See [`InProcess`].
//!
//! # Where the answers come from
//!
//! Statuses, headers and bodies are read from the fixture files under `fixtures/`, each with the
//! source it was taken from (documentation, a published real answer, or a composition of both). The rules at
//! the head of those files are what the fakes keep.
//!
//! # Faults
//!
//! Each fake stands behind a [`Front`](steadfast_testkit::Front), which does what an HTTP server cannot: drop a
//! connection before reading, after applying, in the middle of a body. Some faults are the vendor's own: a 500 before
//! or after applying, a 429, HTML. They are asked for with the same [`FaultPlan`](steadfast_testkit::FaultPlan) and are
//! answered here, in that vendor's own words.

mod adyen;
mod bigcommerce;
mod builder;
mod calendar;
mod encoding;
mod fixture;
mod in_process;
mod ledger;
mod machine;
mod page;
mod postmark;
mod records;
mod serve;
mod servers;
mod shared;
mod stripe;
mod table;
mod webhooks;

pub use adyen::{AdyenAnswer, AdyenFake};
pub use bigcommerce::{BigCommerceAnswer, BigCommerceFake};
pub use builder::FakeBuilder;
pub use in_process::InProcess;
pub use ledger::{Effect, Ledger};
pub use postmark::{PostmarkAnswer, PostmarkFake, SecondFilter};
pub use stripe::{ConflictType, RateLimitReason, StripeAnswer, StripeFake};

#[cfg(test)]
mod tests;

//! Vendor calls that take effect once.
//!
//! Service code uses this crate instead of bare reqwest when it calls a vendor: Stripe, Postmark, BigCommerce, Adyen, any
//! other HTTP API. It retries a call only when that is safe, and stops hurting a vendor that is down. Every call ends
//! in exactly one known state.
//!
//! # A call
//!
//! ```
//! # #[cfg(all(feature = "sqlite", feature = "testkit"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fake = steadfast::testkit::fakes::StripeFake::builder().in_process();
//! # let directory = tempfile::tempdir()?;
//! # std::env::set_current_dir(&directory)?;
//! # let secret_key = "sk_test_123";
//! use std::sync::Arc;
//! use steadfast::Client;
//! use steadfast::dispatcher::Dispatcher;
//! use steadfast::store::Sqlite;
//! use steadfast::vendor::Stripe;
//!
//! // Once, when the service starts. All clients share the file. A client is cheap to clone.
//! let store = Arc::new(Sqlite::open("vendor-calls.db")?);
//! let stripe = Client::builder(Stripe::new(secret_key))
//! #   .transport(fake.transport())
//!     .store(store)
//!     .build()?;
//! // Carries on with what a crash cut short, until it is dropped.
//! let dispatcher = Dispatcher::over([&stripe]).start();
//!
//! // For each order. The key names the effect: the same key again is the same charge.
//! let reply = stripe
//!     .post("/v1/payment_intents")
//!     .key("order-42/charge")
//!     .form(&[("amount", "1000"), ("currency", "usd")])
//!     .send()
//!     .await?;
//! let intent: serde_json::Value = reply.json()?;
//! println!("charged: {}", intent["id"]);
//! # assert!(intent["id"].as_str().is_some_and(|id| id.starts_with("pi_")), "{intent}");
//! # assert_eq!(fake.ledger().count(), 1);
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "sqlite", feature = "testkit")))]
//! # fn main() {}
//! ```
//!
//! # A lost answer
//!
//! Stripe makes the charge, and the answer is lost on the way. The client sends the same bytes under the same wire
//! key, and Stripe answers from its own record. This is what a test of it looks like:
//!
//! ```
//! # #[cfg(feature = "testkit")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), steadfast::Error> {
//! use serde_json::json;
//! use steadfast::testkit::{ScriptedTransport, TestClock};
//! use steadfast::transport::SendErrorKind;
//! use steadfast::vendor::Stripe;
//! use steadfast::{Client, Obtained};
//!
//! // The first answer is lost on the way. The second is Stripe's replay of it.
//! let network = ScriptedTransport::new()
//!     .fail(SendErrorKind::Reset)
//!     .json(200, json!({"id": "pi_1", "amount": 1000}))
//!     .header("Idempotent-Replayed", "true");
//! let stripe = Client::builder(Stripe::new("sk_test_123"))
//!     .transport(network.clone()) // leave this line and the next out in service code
//!     .clock(TestClock::auto())
//!     .build()?;
//!
//! let form = [("amount", "1000"), ("currency", "usd")];
//! let charge = || stripe.post("/v1/payment_intents").key("order-42/charge").form(&form);
//!
//! let reply = charge().send().await?;
//! assert_eq!(reply.json::<serde_json::Value>()?["id"], "pi_1");
//! assert_eq!((reply.attempts(), reply.obtained()), (2, Obtained::Replayed));
//!
//! // The same key again is the same charge: answered from the record, nothing is sent.
//! assert_eq!(charge().send().await?.bytes(), reply.bytes());
//! assert_eq!(network.requests().len(), 2);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "testkit"))]
//! # fn main() {}
//! ```
//!
//! # The promise
//!
//! For every operation (a keyed call), at rest, exactly one of these holds, unless its caller chose
//! [`OnUnknown::Resend`] or an operator forced a redrive:
//!
//! | state at rest | effects at the vendor |
//! |---|---|
//! | succeeded | exactly 1, and the stored reply is the vendor's |
//! | failed, effect none | 0 |
//! | failed, effect unknown: a dead letter | 0 or 1, never 2 |
//!
//! Vendors that honour a key (Stripe, Adyen), and vendors with a lookup (BigCommerce's resources, Postmark's
//! messages), end in *unknown* past their window, or when the lookup itself cannot answer. [Vendors](guide::vendors) has
//! the few other cases. A vendor with neither gets *at most once*, and an explicit unknown.
//!
//! # Guides
//!
//! These are the pages of the module [`guide`]. Every policy's own page says why its defaults are what they are:
//! [`policy`].
//!
//! - [Recipes](guide::recipes): deadlines, calls for later, messages for the user, a proxy, a vendor without code.
//! - [Anti-patterns](guide::anti_patterns): each has charged twice, lost an order or brought a vendor down.
//! - [Observability](guide::observability): every span, event and metric.
//! - [Records in Postgres](guide::postgres): the URL, roles, enqueuing from SQL and other languages, poolers.
//! - [Operations](guide::operations), for the operator on call: the vendor is down, a dead letter, keys that rotate.
//! - [Vendors](guide::vendors): what each makes possible, and what is done with its answers.
//! - [Limits](guide::limits): what it cannot do, and where it runs. [Performance](guide::performance): what it costs.
//!   [Proofs](guide::proofs): how that is tested. [Examples](guide::examples): what to run first.
//! - [The vendors file](guide::vendors_file): every key, with its default.
//! - [An adapter of your own](guide::adapter), whole.
//! - [The life of a call](guide::life_of_a_call): from `send()` to the settled record, file by file.
//! - [The glossary](guide::glossary): the terms of these pages.
//!
//! # Who calls vendors
//!
//! A service needs these, and most need only the first four lines.
//!
//! - [`Client`], one per vendor and account, and [`Call`], one call under construction.
//! - [`Enqueued`]: a call that is on record and sent later, or without its caller ([`Call::enqueue`]).
//! - [`outbox`]: the same within the caller's own database transaction ([`Call::enqueue_in`]).
//! - [`Sequence`]: enqueued calls that are delivered one at a time and in order ([`Call::sequence`]).
//! - [`Reply`], and [`Error`], which says whether the call may have taken effect ([`Effect`]) and what becomes of it
//!   ([`Disposition`]).
//! - [`Pages`]: a list at the vendor, page by page ([`Call::pages`]). [`StreamedReply`]: a body in chunks
//!   ([`Call::stream`]).
//! - [`Policy`]: backoff, budget, breaker, limits, timeouts. One call may override the
//!   [ladder](Call::backoff) and the [timeouts](Call::timeout).
//! - [`vendor::Stripe`], [`vendor::Postmark`], [`vendor::BigCommerce`], [`vendor::Adyen`], and [`vendor::Keyed`], which is only data.
//! - [`store::Sqlite`] records operations in a file; [`store::Memory`] is lost in a crash; [`store::Postgres`] is a
//!   database that many hosts share. [`store::open`] opens each by its URL.
//! - [`Inbound`]: the deadline of the request that a service itself answers.
//! - [`dispatcher`]: carries on with what a dead process left and with what is due, of one client or of many.
//! - [`Vendors`]: all of this from one file.
//! - [`dead_letter::DeadLetters`]: what failed and waits for a person; the command line `steadfast`, of the package
//!   `steadfast-cli`, is over it.
//! - [`testkit`]: fakes of the vendors, faults, a scripted transport, a clock.
//!
//! # Who writes an adapter, a store or a transport
//!
//! - An adapter implements [`vendor::Vendor`]: it stamps a [`transport::Request`], reads each [`transport::Answer`]
//!   of a [`vendor::Attempt`], and says a [`vendor::Verdict`]. [An adapter of one's own](guide::adapter) is whole.
//!   `testkit::conformance` is the suite that it must pass.
//! - A store implements [`store::Store`] over [`operation::record`], the state machine. `testkit::contract` is the
//!   suite that it must pass. [`store::Wrapper`] is for a store around another one.
//! - A transport implements [`transport::Transport`]. [`transport::Http`] is the one over reqwest.
//! - [`clock::Clock`] and [`Random`]: time and chance, for a simulation that drives the crate.
//! - [`BoxFuture`]: what these traits give where they wait.
//!
//! Every type has one path. A type that most callers name is at the root and nowhere else; the rest is in the module of
//! its noun.
//!
//! # It can, it cannot
//!
//! It can retry what is safe to retry, and replay a settled operation. It can hold back from a vendor that is down or
//! asks for a pause. Where the vendor has a lookup, it can find out what became of a lost answer. Elsewhere it says
//! *unknown*.
//!
//! It cannot make a vendor without keys and lookups do something exactly once; no client can. It cannot undo a
//! duplicate that the caller asked for by deriving two keys for one effect. With the [`store::Memory`] store it
//! cannot remember anything across a crash of the process. It never says *exactly once on the wire*.
//!
//! # Types of other crates
//!
//! Methods, statuses, headers and URLs in this crate's signatures are types of [`http`](https://docs.rs/http/1) 1
//! and [`url`](https://docs.rs/url/2) 2. Both crates are re-exported: write `steadfast::http::HeaderMap` and
//! `steadfast::url::Url`. You need no dependency of your own on either, and no version to keep in step.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `rustls` (default) | TLS by rustls |
//! | `sqlite` (default) | [`store::Sqlite`]: records in a file that survive the process |
//! | `postgres` | [`store::Postgres`]: records in a database that many hosts share |
//! | `sqlx-sqlite` | [`outbox`]: calls in transactions of `sqlx` 0.9; those of rusqlite need only `sqlite` |
//! | `sqlx-postgres` | [`outbox`]: the same on Postgres; those of tokio-postgres need only `postgres` |
//! | `native-tls` | TLS by the platform's library |
//! | `seal` | [`store::SealKeys`]: requests and answers are encrypted where they are stored |
//! | `testkit` | [`testkit`]: fakes, faults, scripted transport, clock and randomness for tests |
//! | `metrics` | counters and histograms through the `metrics` facade |
//! | `axum` | [`Inbound`] as an extractor |
//! | `gzip` | [`transport::Http::gzip`]: answers are asked for in gzip |
//! | `tower` | a [`Client`] as a service of tower, and [`transport::over_tower`], a transport over one |
//!
//! Features add API and never change how an existing call behaves. Without default features there is no TLS
//! stack and no database, and only `http` on loopback (or where it is allowed) can be called.
//!
#![cfg_attr(not(feature = "sqlite"), doc = "[`store::Sqlite`]: crate#features")]
#![cfg_attr(not(feature = "postgres"), doc = "[`store::Postgres`]: crate#features")]
#![cfg_attr(not(feature = "seal"), doc = "[`store::SealKeys`]: crate#features")]
#![cfg_attr(not(feature = "testkit"), doc = "[`testkit`]: crate#features")]
#![cfg_attr(not(feature = "gzip"), doc = "[`transport::Http::gzip`]: crate#features")]
#![cfg_attr(not(feature = "tower"), doc = "[`transport::over_tower`]: crate#features")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(unreachable_pub)]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The README's programs are compiled with the tests. They keep their records in a file.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod admission;
mod call;
mod change;
mod client;
mod config;
pub mod dead_letter;
pub mod dispatcher;
mod engine;
mod enqueued;
pub mod guide;
mod holder;
mod inbound;
mod limit;
mod mismatch;
pub mod outbox;
mod peer_status;
mod prepared;
mod reply;
pub mod store;
mod telemetry;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod transport;
pub mod vendor;

pub use call::{Call, Multipart, Pages, StreamedReply};
pub use client::{Client, ClientBuilder};
pub use config::Vendors;
pub use enqueued::{Ends, Enqueued};
pub use inbound::Inbound;
pub use reply::{Obtained, Reply};

#[cfg(feature = "_guards")]
#[doc(hidden)]
pub use steadfast_core::guard;
#[doc(inline)]
pub use steadfast_core::{
    AttemptReport, BoxFuture, Disposition, Effect, Error, Gate, InFlight, Input, Mistake, Obstacle,
    OnUnknown, Policy, Random, Reason, Refusal, Sequence, clock, operation, policy,
};

/// The crate `http`: methods, statuses and headers in this crate's signatures are its types, such as those of
/// [`Reply::headers`] and [`Client::request`]. Named from here they always are of the right version.
pub use http;
/// The crate `url`: URLs in this crate's signatures are its type, such as that of [`vendor::Vendor::base_url`].
/// Named from here it always is of the right version.
pub use url;

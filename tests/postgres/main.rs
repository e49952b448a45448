//! The store on real servers: each binary of tests starts a private Postgres, and some a PgBouncer before it. A machine
//! without them says so and skips; with `STEADFAST_NO_SKIP` set that is a failure.
//!
//! `STEADFAST_LONG` runs the contract in every combination of role, seal and pooler.
//!
//! Real time: what is waited for is another process.

#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "other processes run in real time, see above")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

mod clocks;
mod contract;
mod copying;
mod defaults;
mod driven;
mod durability;
mod failover;
mod looks;
mod migrations;
mod opening;
mod outbox;
mod passwords;
mod place;
mod races;
mod roles;
mod sequences;
mod standby;
mod tls;
mod troubles;
mod unfit;

use std::sync::Arc;

use steadfast::store::{Postgres, Store, StoreError, StoreErrorKind};
use steadfast::testkit::ScriptedTransport;
use steadfast::vendor::Stripe;
use steadfast::{Client, Error, Reply};

/// Whether all is tried, however long it takes.
fn is_long() -> bool {
    std::env::var_os("STEADFAST_LONG").is_some()
}

/// Opens a store, and gives what it was told.
fn opened(url: &str) -> Result<Postgres, StoreError> {
    Postgres::builder(url)?.open()
}

/// Asserts that a store does not open, and gives all layers of what was said.
#[track_caller]
fn refused(url: &str, kind: StoreErrorKind) -> String {
    let builder = Postgres::builder(url).expect("a URL").wait(std::time::Duration::from_secs(1));
    told(&builder.open().expect_err("it must not open"), kind)
}

/// All layers of an error of that kind.
#[track_caller]
fn told(error: &StoreError, kind: StoreErrorKind) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    assert_eq!(error.kind(), kind, "{text}");
    text
}

/// A client in real time.
fn stripe(store: Arc<dyn Store>, network: &ScriptedTransport) -> Client {
    let builder = Client::builder(Stripe::new("sk_test_123")).transport(network.clone());
    builder.store(store).build().expect("a client")
}

async fn pay(stripe: &Client, key: &str) -> Result<Reply, Error> {
    stripe.post("/v1/charges").key(key).form(&[("amount", "1000")]).send().await
}

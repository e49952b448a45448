//! The store on real servers: each binary of tests starts a private Postgres, and some a PgBouncer before it. A
//! machine without them prints so and skips; with `STEADFAST_NO_SKIP` set that is a failure.
//!
//! `STEADFAST_LONG` runs the contract in every combination of role, seal and pooler.
//!
//! Real time: the waits are for another process.

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

/// Returns true if every combination is tried, however long it takes.
fn is_long() -> bool {
    std::env::var_os("STEADFAST_LONG").is_some()
}

/// Opens a store.
fn opened(url: &str) -> Result<Postgres, StoreError> {
    Postgres::builder(url)?.open()
}

/// Asserts that a store does not open, and returns all layers of the error.
#[track_caller]
fn refused(url: &str, kind: StoreErrorKind) -> String {
    let builder = Postgres::builder(url).expect("a URL").wait(std::time::Duration::from_secs(1));
    error_text(&builder.open().expect_err("it must not open"), kind)
}

/// Returns all layers of an error of that kind.
#[track_caller]
fn error_text(error: &StoreError, kind: StoreErrorKind) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    assert_eq!(error.kind(), kind, "{text}");
    text
}

/// Returns a client in real time.
fn stripe(store: Arc<dyn Store>, network: &ScriptedTransport) -> Client {
    let builder = Client::builder(Stripe::new("sk_test_123")).transport(network.clone());
    builder.store(store).build().expect("a client")
}

async fn pay(stripe: &Client, key: &str) -> Result<Reply, Error> {
    stripe.post("/v1/charges").key(key).form(&[("amount", "1000")]).send().await
}

/// The tests that wait for a time of the store's or of the server's, all at once. The harness runs as many tests as
/// there are cores, and these need none. A thread that fails says where it does.
#[test]
fn what_waits_for_seconds() {
    let waits: [fn(); 14] = [
        standby::a_host_that_is_silent_hides_no_other,
        troubles::a_claim_that_no_standby_has_is_not_sent,
        troubles::a_statement_that_waits_for_a_lock_gives_up_and_nothing_is_sent,
        outbox::a_record_stays_while_a_row_of_its_key_may_be_uncommitted,
        outbox::an_old_row_is_a_repeat_of_what_came_since_and_who_is_refused_is_told_of_a_row,
        races::what_commits_long_after_it_was_due_is_taken_a_few_seconds_later,
        looks::behind_a_pooler_what_another_process_enqueues_is_found_by_looking,
        looks::a_look_finds_what_commits_long_after_it_was_due,
        looks::a_purge_goes_on_where_the_last_one_ended,
        looks::a_look_reads_what_it_tells_of_and_no_more,
        looks::what_is_settled_is_found_by_its_name,
        copying::no_call_is_left_in_the_outbox_of_a_store_that_is_closed,
        copying::no_life_begins_below_a_purged_fence_in_a_transaction_of_one_snapshot,
        copying::a_store_is_not_closed_before_what_is_under_way_is_over,
    ];
    std::thread::scope(|scope| {
        for wait in waits {
            scope.spawn(wait);
        }
    });
}

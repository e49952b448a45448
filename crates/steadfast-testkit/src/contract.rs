//! Rules of every [`Store`], as plain functions that panic when one is broken.
//!
//! For the author of a store: run [`check_store`] on it in a test, and the suite of each capability that it
//! has: [`check_delivery`], [`check_outbox`], [`check_maintenance`], [`check_sealing`]. [`check_all`] runs all
//! but the last, which needs keys. Each `check_*` can also be run by itself, to repeat the one that failed.
//! Expected results are written out as data in these files. They are not computed with
//! [`operation::record`](steadfast_core::operation::record): a suite that asks the code under test cannot find
//! it wrong.
//!
//! ```no_run
//! # async fn example() {
//! use std::sync::Arc;
//! use steadfast::store::{Memory, Store};
//! use steadfast::testkit::contract;
//!
//! contract::check_all(async || Arc::new(Memory::new()) as Arc<dyn Store>).await;
//! # }
//! ```
//!
//! `examples/file_store.rs` is a store of one file that runs [`check_store`].
//!
//! # Panics
//!
//! Every function here panics with the case and the difference when the store breaks the contract, or fails.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::testkit::{ATTEMPT, KEEP, LEASE, claim_at, let_pass, look, transition_at};
use steadfast_core::operation::record::{Claim, Claimed, Declined, Record, State, Transition};
use steadfast_core::operation::{Key, OperationId, Scope, record};
use steadfast_core::store::Store;
use steadfast_core::store::delivery::Delivery;
use steadfast_core::transport::Answer;
use steadfast_core::{Reason, Refusal};

mod copying;
mod displaced;
mod enqueued;
mod heartbeats;
mod holders;
mod looks;
mod names;
mod operators;
mod races;
mod routes;
mod rows;
#[cfg(feature = "seal")]
mod sealing;
mod sequences;
mod table;
mod takers;
mod terms;
mod times;
mod values;
mod views;

pub use copying::{
    check_copy, check_copy_of_held_operations, check_copy_of_what_changes, check_copy_refusals,
    check_copy_that_is_cut_short, check_copying, check_giving_a_copy_up, check_terms_of_a_closed_store,
};
pub use displaced::check_displaced;
pub use enqueued::check_enqueue;
pub use heartbeats::check_heartbeats;
pub use holders::check_holders;
pub use looks::{check_looks, check_versions};
pub use names::{
    check_adoption, check_adoption_by_one_clock, check_adoption_of_a_name_that_is_taken, check_cancellation,
    check_late_success_of_an_adopted_name, check_starting_over, check_starting_over_again,
    check_supersession_after_a_pause, check_supersession_by_one_clock,
};
pub use operators::{
    check_actions_are_guarded, check_every_action_from_every_phase, check_redrive, check_redrives_at_once,
    check_resolution,
};
pub use races::{check_claims_at_once, check_settlements_at_once};
pub use routes::check_routes;
pub use rows::{check_admission, check_rejection, check_row_sequences, check_rows, check_spared_records};
#[cfg(feature = "seal")]
pub use sealing::{
    Open, check_record_in_the_clear, check_reseal, check_reseal_beside_a_service, check_reseal_needs_keys,
    check_sealing, check_unreadable_rows,
};
pub use sequences::{
    check_sequence_adoption, check_sequence_claims, check_sequence_dead_letters, check_sequence_lives,
    check_sequence_retries, check_sequences, check_sequences_at_once,
};
pub use table::check_every_call_from_every_state;
pub use takers::{
    check_settled_is_not_taken, check_takers_at_once, check_takes, check_takes_in_turn, check_unknown_since,
    check_wanted_takes, check_wrong_clocks,
};
pub use terms::check_terms;
pub use times::{
    check_doubted_times, check_expiry_and_purge, check_fences, check_late_success, check_lease_boundaries,
    check_lives, check_unauthorized_retake,
};
pub use values::{check_empty_and_absent_bodies, check_look_alike_names, check_redacted_fields, check_sizes};
pub use views::{check_backlog, check_evidence, check_filters, check_pages, check_tally};

/// Runs [`check_store`] and the suite of each capability that the store has, except that of
/// [`Sealing`](steadfast_core::store::sealing::Sealing).
pub async fn check_all(fresh: impl AsyncFn() -> Arc<dyn Store>) {
    check_store(&fresh).await;
    if fresh().await.delivery().is_some() {
        check_delivery(&fresh).await;
    }
    if fresh().await.outbox().is_some() {
        check_outbox(&fresh).await;
    }
    if fresh().await.maintenance().is_some() {
        check_maintenance(&fresh).await;
    }
}

/// Runs the suite of [`Delivery`].
pub async fn check_delivery(fresh: impl AsyncFn() -> Arc<dyn Store>) {
    check_looks(&*fresh().await).await;
    check_heartbeats(&*fresh().await).await;
    check_backlog(&*fresh().await).await;
    check_versions(&*fresh().await).await;
}

/// Runs the suite of [`Outbox`](steadfast_core::store::outbox::Outbox).
pub async fn check_outbox(fresh: impl AsyncFn() -> Arc<dyn Store>) {
    check_rows(&*fresh().await).await;
    check_admission(&*fresh().await).await;
    check_row_sequences(&*fresh().await).await;
    check_rejection(&*fresh().await).await;
    check_spared_records(&*fresh().await).await;
}

/// Runs the suite of [`Maintenance`](steadfast_core::store::maintenance::Maintenance).
pub async fn check_maintenance(fresh: impl AsyncFn() -> Arc<dyn Store>) {
    check_copying(&fresh, &fresh).await;
    check_terms_of_a_closed_store(fresh().await).await;
    check_displaced(&*fresh().await).await;
}

/// Runs the suite of [`Store`], each check on a store of its own that `fresh` makes. A fresh store must be
/// empty.
///
/// A store that uses its server's clock needs a test that controls that clock: it must show the time of a
/// command before the command is carried out.
pub async fn check_store(fresh: impl AsyncFn() -> Arc<dyn Store>) {
    check_every_call_from_every_state(&*fresh().await).await;
    check_fences(&*fresh().await).await;
    check_lease_boundaries(&*fresh().await).await;
    check_late_success(&*fresh().await).await;
    check_unauthorized_retake(&*fresh().await).await;
    check_expiry_and_purge(&*fresh().await).await;
    check_lives(&*fresh().await).await;
    check_look_alike_names(&*fresh().await).await;
    check_sizes(&*fresh().await).await;
    check_empty_and_absent_bodies(&*fresh().await).await;
    check_redacted_fields(&*fresh().await).await;
    check_claims_at_once(fresh().await).await;
    check_settlements_at_once(fresh().await).await;
    check_enqueue(&*fresh().await).await;
    check_sequences(&*fresh().await).await;
    check_sequence_retries(&*fresh().await).await;
    check_sequence_dead_letters(&*fresh().await).await;
    check_sequence_claims(&*fresh().await).await;
    check_sequence_lives(&*fresh().await).await;
    check_sequence_adoption(&*fresh().await).await;
    check_sequences_at_once(fresh().await).await;
    check_takes(&*fresh().await).await;
    check_takes_in_turn(&*fresh().await).await;
    check_wanted_takes(&*fresh().await).await;
    check_routes(&*fresh().await).await;
    check_wrong_clocks(&*fresh().await).await;
    check_unknown_since(&*fresh().await).await;
    check_holders(&*fresh().await).await;
    check_settled_is_not_taken(&*fresh().await).await;
    check_takers_at_once(fresh().await).await;
    check_every_action_from_every_phase(&*fresh().await).await;
    check_redrive(&*fresh().await).await;
    check_redrives_at_once(fresh().await).await;
    check_actions_are_guarded(&*fresh().await).await;
    check_resolution(&*fresh().await).await;
    check_starting_over(&*fresh().await).await;
    check_starting_over_again(&*fresh().await).await;
    check_adoption(&*fresh().await).await;
    check_late_success_of_an_adopted_name(&*fresh().await).await;
    check_adoption_of_a_name_that_is_taken(&*fresh().await).await;
    check_cancellation(&*fresh().await).await;
    check_filters(&*fresh().await).await;
    check_pages(&*fresh().await).await;
    check_tally(&*fresh().await).await;
    check_evidence(&*fresh().await).await;
    check_doubted_times(&*fresh().await).await;
    check_adoption_by_one_clock(&*fresh().await).await;
    check_supersession_by_one_clock(&*fresh().await).await;
    check_supersession_after_a_pause(&*fresh().await).await;
    check_terms(&*fresh().await).await;
}

/// Time of most of the suite: a moment that any clock's column can hold.
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn id(scope: &str, key: &str) -> OperationId {
    OperationId::new(Scope::from_stored(scope), Key::new(key).expect("the suite's keys are valid"))
}

fn answer(status: u16, body: &'static str) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("request-id", HeaderValue::from_static("req_1"));
    Answer::new(StatusCode::from_u16(status).expect("a status"), headers, Bytes::from_static(body.as_bytes()))
}

fn succeed() -> State {
    State::Succeeded { answer: answer(200, "done"), reconciled: false }
}

fn refuse(refusal: Refusal) -> State {
    State::Refused { refusal, answer: answer(402, "no") }
}

fn dead_letter(reason: Reason) -> State {
    State::Dead { reason, answer: Some(answer(503, "busy")) }
}

async fn claim(store: &dyn Store, claim: Claim) -> Claimed {
    store.claim(claim).await.expect("the store works")
}

/// Claims an operation that must be free, and returns its record.
async fn take(store: &dyn Store, wanted: Claim) -> Record {
    match claim(store, wanted).await {
        Claimed::Fresh(record) | Claimed::TakenOver(record) | Claimed::Freed(record) => record,
        other => panic!("the operation must be free: {other:?}"),
    }
}

async fn write(store: &dyn Store, id: &OperationId, transition: Transition) -> Result<Record, Declined> {
    let held = as_held(store, id, transition.fence).await;
    store.transition(&held, transition).await.expect("the store works")
}

/// Returns the record as the holder of `fence` got it, without later changes.
async fn as_held(store: &dyn Store, id: &OperationId, fence: u64) -> Record {
    let held = match get(store, id).await {
        Some(record) => record,
        None => match record::claim(None, claim_at(id, NOW), &record::Notes::default()).1 {
            Claimed::Fresh(record) => record,
            other => panic!("a first claim is fresh: {other:?}"),
        },
    };
    Record { fence, state: State::InProgress { lease_until: NOW.plus(LEASE) }, resolved: None, ..held }
}

fn delivery(store: &dyn Store) -> &dyn Delivery {
    store.delivery().expect("the store has delivery")
}

async fn get(store: &dyn Store, id: &OperationId) -> Option<Record> {
    store.get(id).await.expect("the store works")
}

//! Operations for stores under test, by what they say to a store.

use std::time::Duration;

use bytes::Bytes;

use steadfast_core::transport::Answer;

use http::{HeaderMap, Method, StatusCode};
use steadfast_core::Effect;
use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{Claim, Claimed, Phase, Record, State, Takeover, Transition};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::Store;
use steadfast_core::transport::Request;

use crate::commands;

/// Longer than any test here.
pub const LEASE: Duration = Duration::from_secs(600);

const ATTEMPT: Duration = Duration::from_secs(20);

pub const KEEP: Duration = Duration::from_secs(24 * 3_600);

pub fn id(key: &str) -> OperationId {
    named("test/races/a/POST /x", key)
}

pub fn named(scope: &str, key: &str) -> OperationId {
    OperationId::new(Scope::from_stored(scope), Key::new(key).expect("a key"))
}

/// A claim, at what time the store says it is.
pub fn claim_of(store: &dyn Store, id: &OperationId) -> Claim {
    let url = "https://vendor.test/v1/things".parse().expect("a URL");
    let mut request = Request::new(Method::POST, url);
    request.body = Bytes::from_static(b"{\"amount\":1000}");
    let claim = commands::claim(id, request, store.time(Timestamp::default()));
    Claim { lease: LEASE, keep: KEEP, attempt_max: ATTEMPT, ..claim }
}

/// Claims what must be free.
pub async fn held(store: &dyn Store, claim: Claim) -> Record {
    match store.claim(claim).await.expect("the store works") {
        Claimed::Fresh(record) | Claimed::TakenOver(record) | Claimed::Freed(record) => record,
        other => panic!("it must be free: {other:?}"),
    }
}

/// The write of a holder, at the time that the store says it is.
pub fn step(store: &dyn Store, held: &Record, to: State) -> Transition {
    let now = store.time(Timestamp::default());
    let to = match to {
        State::InProgress { .. } => State::InProgress { lease_until: now.plus(LEASE) },
        other => other,
    };
    Transition { effect: Effect::None, ..commands::transition(held, now, to) }
}

pub fn succeed() -> State {
    let answer = Answer::new(StatusCode::OK, HeaderMap::new(), Bytes::from_static(b"done"));
    State::Succeeded { answer, reconciled: false }
}

/// Settles what is held.
pub async fn settle(store: &dyn Store, held: &Record) -> Record {
    let done = step(store, held, succeed());
    store.transition(held, done).await.expect("the store works").expect("the holder may write")
}

pub fn due(store: &dyn Store, limit: usize) -> Takeover {
    let take = commands::takeover(Phase::Scheduled, store.time(Timestamp::default()));
    Takeover { account: Some("test/races/a".to_owned()), lease: LEASE, attempt_max: ATTEMPT, limit, ..take }
}

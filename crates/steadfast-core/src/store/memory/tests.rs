use std::collections::BTreeSet;
use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::*;
use crate::answer::Answer;
use crate::effect::Effect;
use crate::error::Reason;
use crate::operation::record::State;
use crate::operation::{Fingerprint, Key, Scope};
use crate::request::Request;
use crate::store::sample;

const KEEP: Duration = Duration::from_millis(1_000);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn id(key: usize) -> OperationId {
    OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new(key.to_string()).expect("a key"))
}

fn claim(key: usize, now: Timestamp) -> Claim {
    Claim {
        fingerprint: Fingerprint::from_bytes([1; 32]),
        wire_key: String::new(),
        request: Request::new(Method::POST, Url::parse("https://v.test/x").expect("a url")).into(),
        lease: Duration::from_millis(100),
        keep: KEEP,
        attempt_max: Duration::from_secs(30),
        ..sample::claim_at(&id(key), now)
    }
}

async fn settle(store: &Memory, key: usize, now: Timestamp, to: State) -> Record {
    let transition = Transition { effect: Effect::Unknown, ..sample::transition_at(1, now, to) };
    let held = store.get(&id(key)).await.expect("the store works").expect("an operation");
    store.transition(&held, transition).await.expect("the store works").expect("the holder may write")
}

fn expiring(store: &Memory) -> BTreeSet<(Timestamp, u64)> {
    store.inner.lock().ending[Bucket::Expires as usize].clone()
}

fn done() -> State {
    State::Succeeded {
        answer: Answer::new(StatusCode::OK, HeaderMap::new(), Bytes::new()),
        reconciled: false,
    }
}

#[tokio::test]
async fn a_full_store_names_its_bound_and_refuses_only_new_records() {
    let store = Memory::with_capacity(2);
    for key in 0..2 {
        assert!(matches!(store.claim(claim(key, at(0))).await, Ok(Claimed::Fresh(_))));
    }
    let error = store.claim(claim(2, at(0))).await.expect_err("no room");
    assert_eq!(
        error.to_string(),
        "the store in memory is full: its bound is 2 records, and all of them are under way or dead letters"
    );
    assert!(error.source().is_none());
    assert_eq!(store.len(), 2, "nothing was dropped to make room");
    // What it knows it still answers for, and lets be taken over.
    assert!(matches!(store.claim(claim(0, at(0))).await, Ok(Claimed::Busy { .. })));
    assert!(matches!(store.claim(claim(1, at(100))).await, Ok(Claimed::TakenOver(_))));
}

#[tokio::test]
async fn a_full_store_evicts_expired_records_alone() {
    let store = Memory::with_capacity(3);
    for key in 0..3 {
        store.claim(claim(key, at(0))).await.expect("room");
    }
    settle(&store, 0, at(10), done()).await;
    settle(&store, 1, at(20), State::Dead { reason: Reason::Unknown, answer: None }).await;
    assert!(matches!(store.claim(claim(3, at(1_010))).await, Ok(Claimed::Fresh(_))));
    assert_eq!(store.evicted(), 0, "its time was over");
    assert!(store.get(&id(0)).await.expect("works").is_none());
    let dead = store.get(&id(1)).await.expect("works").expect("a dead letter stays");
    assert_eq!(dead.state, State::Dead { reason: Reason::Unknown, answer: None });
    store.claim(claim(4, at(u64::MAX))).await.expect_err("dead letters and held operations never expire");
}

#[tokio::test]
async fn a_claims_predecessor_is_not_evicted_for_it() {
    let store = Memory::with_capacity(2);
    for key in 0..2 {
        store.claim(claim(key, at(0))).await.expect("room");
    }
    settle(&store, 1, at(5), done()).await;
    let over = Claim { predecessor: Some(id(0).key), ..claim(2, at(30)) };
    assert!(matches!(store.claim(over.clone()).await, Ok(Claimed::InTheWay { .. })));
    assert_eq!((store.len(), store.evicted()), (2, 0), "what is refused needs no room");
    let answer = Answer::new(StatusCode::PAYMENT_REQUIRED, HeaderMap::new(), Bytes::new());
    let refused = State::Refused { refusal: crate::error::Refusal::Rejected, answer };
    let held = store.get(&id(0)).await.expect("works").expect("it is held");
    let moved = store.transition(&held, sample::transition_at(1, at(10), refused)).await;
    moved.expect("works").expect("its holder may");
    assert!(matches!(store.claim(over).await, Ok(Claimed::Fresh(_))));
    let old = store.get(&id(0)).await.expect("works").expect("it is not forgotten");
    assert!(old.resolved.is_some(), "it says what took its place: {old:?}");
    assert!(store.get(&id(1)).await.expect("works").is_none(), "the other one made room");
}

#[tokio::test]
async fn each_claim_clears_away_a_few_expired_records_and_no_more() {
    let store = Memory::new();
    for key in 0..10 {
        store.claim(claim(key, at(0))).await.expect("room");
        settle(&store, key, at(0), done()).await;
    }
    store.claim(claim(100, at(1_000))).await.expect("room");
    assert_eq!(store.len(), 10 - PURGE_PER_CLAIM + 1);
    assert_eq!(store.purge(at(1_000), usize::MAX).await.expect("works"), 10 - PURGE_PER_CLAIM);
    assert_eq!(store.len(), 1);
}

#[tokio::test]
async fn the_index_follows_every_change_of_an_expiry() {
    let store = Memory::new();
    store.claim(claim(0, at(0))).await.expect("room");
    assert!(expiring(&store).is_empty(), "an operation under way does not expire");
    settle(&store, 0, at(0), State::Dead { reason: Reason::Unknown, answer: None }).await;
    assert!(expiring(&store).is_empty(), "nor does a dead letter");
    settle(&store, 0, at(5), done()).await;
    let indexed: Vec<Timestamp> = expiring(&store).iter().map(|(at, _)| *at).collect();
    assert_eq!(indexed, [at(1_005)], "a late success does");

    let answer = Answer::new(StatusCode::UNAUTHORIZED, HeaderMap::new(), Bytes::new());
    store.claim(claim(1, at(0))).await.expect("room");
    let refusal = crate::error::Refusal::Unauthorized;
    settle(&store, 1, at(0), State::Refused { refusal, answer }).await;
    assert_eq!(expiring(&store).len(), 2);
    assert!(matches!(store.claim(claim(1, at(1))).await, Ok(Claimed::Freed(_))));
    assert_eq!(expiring(&store).len(), 1, "taken again, it no longer expires");
    sample::let_pass(&store, at(u64::MAX)).await;
    assert_eq!(store.purge(at(u64::MAX), 10).await.expect("works"), 1);
    assert!(store.get(&id(1)).await.expect("works").is_some());
}

#[tokio::test]
async fn a_page_of_a_full_audit_record_goes_on_where_the_last_one_ended() {
    use crate::operation::record::{Action, AuditEntry, Phase};

    let store = Memory::new();
    let log = |nth: usize| {
        store.inner.lock().log(AuditEntry {
            id: id(nth),
            at: at(0),
            action: Action::Reopen,
            by: "ada".to_owned(),
            why: "a test".to_owned(),
            before: Phase::Resolved,
            after: Phase::Dead,
        });
    };
    (0..Memory::AUDIT_MAX + 5).for_each(log);
    let first = store.audit(None, None, 2).await.expect("works");
    (Memory::AUDIT_MAX + 5..Memory::AUDIT_MAX + 6).for_each(log);
    let second = store.audit(None, first.next.as_deref(), 2).await.expect("works");
    let shown: Vec<OperationId> =
        [first.rows, second.rows].concat().into_iter().map(|entry| entry.id).collect();
    assert_eq!(shown, [5, 6, 7, 8].map(id));
}

#[tokio::test]
async fn debug_output_holds_numbers_only() {
    let store = Memory::with_capacity(7);
    store.claim(claim(0, at(0))).await.expect("room");
    assert_eq!(format!("{store:?}"), "Memory { records: 1, records_max: 7, .. }");
}

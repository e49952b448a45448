//! The record and its stores, each rule shown at both stores.

use std::time::Duration;

use http::{Method, StatusCode};
use steadfast::clock::Timestamp;
use steadfast::operation::record::{
    Act, Action, Claim, Claimed, Declined, Notes, Phase, Record, State, Takeover, Transition, supersede,
};
use steadfast::operation::{Fingerprint, Key, OperationId, Scope};
use steadfast::store::{Sqlite, Store};
use steadfast::transport::{Answer, Request};
use steadfast::{Effect, Obstacle, OnUnknown, Refusal};

use support::commands::{self, ATTEMPT, KEEP, LEASE, transition};
use support::stores::stores;

/// Finding A6.
#[tokio::test]
async fn what_has_expired_is_met_as_a_new_life_whatever_was_purged() {
    for (store, _place) in stores() {
        let first = fresh(&*store, claim("k", 1, NOW)).await;
        write(&*store, &first, NOW, succeed()).await.expect("the holder may write");
        let expiry = NOW.plus(KEEP);
        let before = expiry.minus(Duration::from_millis(1));
        assert!(matches!(store.claim(claim("k", 1, before)).await, Ok(Claimed::Settled(_))));
        assert!(matches!(store.claim(claim("k", 2, before)).await, Ok(Claimed::Mismatch { .. })));
        let_pass(&*store, before).await;
        // No purge came, and the request is another.
        let second = fresh(&*store, claim("k", 2, expiry)).await;
        assert_eq!((second.fence, second.claimed_at, second.attempts), (first.fence + 1, expiry, 0));
        assert_eq!(second.wire_key, first.wire_key, "a lost record would cost nothing");
        assert_eq!(store.evidence(&second.id).await.expect("the store works"), []);
    }
}

/// Finding D12.
#[tokio::test]
async fn a_late_holder_of_a_life_that_was_purged_settles_nothing_of_the_next() {
    for (store, _place) in stores() {
        let late = fresh(&*store, claim("k", 1, NOW)).await;
        let taken = taken_over(&*store, claim("k", 1, NOW.plus(LEASE))).await;
        write(&*store, &taken, NOW, succeed()).await.expect("the holder may write");
        let expiry = NOW.plus(KEEP);
        let_pass(&*store, expiry).await;
        assert_eq!(store.purge(expiry, 10).await.expect("the store works"), 1);
        let next = fresh(&*store, claim("k", 1, expiry)).await;
        assert!(next.fence > taken.fence, "fence {} after {}", next.fence, taken.fence);
        for holder in [&late, &taken] {
            assert_eq!(write(&*store, holder, expiry, succeed()).await, Err(Declined::Fenced));
        }
        // Nor of a dead letter, which takes proof from holders of its own life.
        let bury = State::Dead { reason: steadfast::Reason::Unknown, answer: None };
        write(&*store, &next, expiry, bury).await.expect("the holder may write");
        assert_eq!(write(&*store, &late, expiry, succeed()).await, Err(Declined::Fenced));
    }
}

/// Finding D12.
#[tokio::test]
async fn the_fences_of_what_was_purged_outlive_the_process() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("calls.db");
    let store = Sqlite::open(&path).expect("opens");
    let first = fresh(&store, claim("k", 1, NOW)).await;
    let first = write(&store, &first, NOW, succeed()).await.expect("the holder may write");
    let_pass(&store, NOW.plus(KEEP)).await;
    store.purge(NOW.plus(KEEP), 10).await.expect("the store works");
    store.close().await;
    let store = Sqlite::open(&path).expect("opens");
    assert!(fresh(&store, claim("k", 1, NOW)).await.fence > first.fence);
}

/// Finding D11.
#[tokio::test]
async fn a_late_true_answer_settles_what_somebody_else_holds_or_has_scheduled() {
    for (store, _place) in stores() {
        for scheduled in [false, true] {
            let key = if scheduled { "scheduled" } else { "held" };
            let late = fresh(&*store, claim(key, 1, NOW)).await;
            let later = NOW.plus(LEASE);
            let take = Takeover { limit: 1, ..taking(later) };
            let holder = store.take(take).await.expect("the store works").remove(0);
            if scheduled {
                let at = later.plus(LEASE);
                write(&*store, &holder, later, State::Scheduled { at }).await.expect("the holder may write");
            }
            let settled = write(&*store, &late, later, succeed()).await.expect("the answer is proof");
            assert!(matches!(settled.state, State::Succeeded { .. }));
            // Before it sends, the overtaken holder renews its lease.
            let renew = State::InProgress { lease_until: later.plus(LEASE) };
            assert_eq!(write(&*store, &holder, later, renew).await, Err(Declined::Settled));
            assert!(matches!(store.claim(claim(key, 1, later)).await, Ok(Claimed::Settled(_))));
        }
    }
}

/// Finding D1.
#[tokio::test]
async fn what_is_due_keeps_the_time_since_which_its_effect_is_unknown() {
    for (store, _place) in stores() {
        let first = fresh(&*store, claim("k", 1, NOW)).await;
        write(&*store, &first, NOW, State::Scheduled { at: NOW }).await.expect("may write");
        for minutes in 1..=5 {
            let later = NOW.plus(Duration::from_secs(60 * minutes));
            let held = taken_over(&*store, claim("k", 1, later)).await;
            assert_eq!(held.unknown_since, Some(NOW), "a settle time that began anew would never be over");
            let mut again = transition(&held, later, State::Scheduled { at: later });
            again.unknown_since = held.unknown_since;
            store.transition(&held, again).await.expect("works").expect("the holder may write");
        }
    }
}

/// Finding D4.
#[tokio::test]
async fn a_claim_by_a_clock_that_was_ahead_keeps_nobody_out_and_opens_no_window() {
    for (store, _place) in stores() {
        let ahead = NOW.plus(Duration::from_secs(25 * 3_600));
        fresh(&*store, claim("k", 1, ahead)).await;
        let taken = store.take(taking(NOW)).await.expect("the store works").remove(0);
        assert_eq!(taken.unknown_since, Some(NOW.plus(LEASE).plus(ATTEMPT)), "the lease's length counts");
        // The vendor's own day has long begun; ours must not begin when the clock's time has come.
        assert!(taken.claimed_at < NOW, "claimed at {}", taken.claimed_at);
    }
}

/// Finding D5.
#[tokio::test]
async fn a_lapsed_lease_leaves_the_effect_unknown_until_its_holders_longest_exchange_is_over() {
    for (store, _place) in stores() {
        fresh(&*store, claim("k", 1, NOW)).await;
        // A clock that stepped by 61 s finds the lease over while the first request is on its way.
        let stepped = NOW.plus(Duration::from_secs(61));
        let taken = store.take(taking(stepped)).await.expect("the store works").remove(0);
        assert_eq!((taken.effect, taken.unknown_since), (Effect::Unknown, Some(stepped.plus(ATTEMPT))));
    }
}

/// Finding A11.
#[tokio::test]
async fn d14_a_resend_and_a_forced_redrive_are_one_send_that_no_holder_can_multiply() {
    for (store, _place) in stores() {
        let mut wanted = claim("k", 1, NOW);
        wanted.on_unknown = OnUnknown::Resend;
        let first = fresh(&*store, wanted).await;
        assert_eq!(first.resends_left, 1);
        let bury = || State::Dead { reason: steadfast::Reason::Unknown, answer: None };
        let dead = write(&*store, &first, NOW, bury()).await.expect("the holder may write");
        assert_eq!(dead.resends_left, 0, "used up");
        let act = Act {
            action: Action::Redrive { forced: true },
            by: "ada".into(),
            why: "the customer asked".into(),
            now: NOW,
            fence: None,
        };
        let redriven = store.act(&dead.id, act).await.expect("works").expect("a dead letter");
        assert_eq!((redriven.resends_left, redriven.on_unknown), (1, OnUnknown::ByMethod));
        let taken = taken_over(&*store, claim("k", 1, NOW)).await;
        let used = write(&*store, &taken, NOW, State::Scheduled { at: NOW }).await.expect("may write");
        let mut more = transition(&used, NOW, bury());
        more.resends_left = 5;
        let taken = taken_over(&*store, claim("k", 1, NOW)).await;
        more.fence = taken.fence;
        let after = store.transition(&taken, more).await.expect("works").expect("the holder may write");
        assert_eq!(after.resends_left, 0);
    }
}

/// Lets a store see how time goes on: one that is far ahead is doubted for an hour.
async fn let_pass(store: &dyn Store, now: Timestamp) {
    let mut at = NOW;
    while at < now {
        at = at.plus(Duration::from_secs(240)).min(now);
        store.take(Takeover { limit: 0, ..taking(at) }).await.expect("the store works");
    }
}

fn claim(key: &str, fingerprint: u8, now: Timestamp) -> Claim {
    let id = OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new(key).expect("a key"));
    let request = Request::new(Method::POST, "https://vendor.test/x".parse().expect("a URL"));
    let fingerprint = Fingerprint::from_bytes([fingerprint; 32]);
    Claim { fingerprint, ..commands::claim(&id, request, now) }
}

fn taking(now: Timestamp) -> Takeover {
    commands::takeover(Phase::InProgress, now)
}

async fn fresh(store: &dyn Store, claim: Claim) -> Record {
    match store.claim(claim).await.expect("the store works") {
        Claimed::Fresh(record) => record,
        other => panic!("a new life: {other:?}"),
    }
}

async fn taken_over(store: &dyn Store, claim: Claim) -> Record {
    match store.claim(claim).await.expect("the store works") {
        Claimed::TakenOver(record) => record,
        other => panic!("a take-over: {other:?}"),
    }
}

async fn write(store: &dyn Store, held: &Record, now: Timestamp, to: State) -> Result<Record, Declined> {
    store.transition(held, transition(held, now, to)).await.expect("the store works")
}

fn succeed() -> State {
    let answer = Answer::new(StatusCode::OK, http::HeaderMap::new(), bytes::Bytes::new());
    State::Succeeded { answer, reconciled: false }
}

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn first(key: &str) -> Record {
    match steadfast::operation::record::claim(None, claim(key, 1, NOW), &Notes::default()).1 {
        Claimed::Fresh(record) => record,
        other => panic!("{other:?}"),
    }
}

/// One clock alone may be days ahead: whoever asks by it is told of the refusal, and not that there is nothing.
#[test]
fn what_is_started_over_has_expired_by_the_stores_word_alone() {
    let held = first("k");
    let refused = State::Refused {
        refusal: Refusal::Rejected,
        answer: Answer::new(StatusCode::PAYMENT_REQUIRED, http::HeaderMap::new(), ""),
    };
    let refused = Transition { effect: Effect::None, ..transition(&held, NOW, refused) };
    let refused = held.apply(refused).expect("its holder says so");
    let (key, later) = (Key::new("k2").expect("a key"), NOW.plus(KEEP));
    let closed = supersede(Some(&refused), &key, (later, NOW)).expect("nothing is in the way");
    assert_eq!(closed.map(|(record, _)| record.phase()), Some(Phase::Refused));
    let over = supersede(Some(&refused), &key, (later, later)).map(|_| ());
    assert_eq!(over, Err((Obstacle::Absent, Effect::None)));
}

/// Its fingerprint names the account of its first claim, by which a repeat is known.
#[test]
fn what_is_adopted_twice_keeps_its_first_scope_and_goes_on_above_every_fence() {
    let held = first("k");
    let left = held.apply(transition(&held, NOW, State::Scheduled { at: NOW })).expect("its holder lets go");
    let adopted = |record: &Record, to: &str, purged| {
        record.adopted(&Scope::from_stored(to), NOW, purged).expect("nobody holds it")
    };
    let once = adopted(&left, "test/v/b/POST /x", 0);
    let twice = adopted(&once, "test/v/c/POST /x", 70);
    let named = |record: &Record| record.first_scope.as_ref().map(|scope| scope.as_str().to_owned());
    assert_eq!((named(&once), named(&twice)), (Some(held.id.scope.to_string()), named(&once)));
    assert_eq!((twice.fence, twice.first_fence), (71, 71));
}

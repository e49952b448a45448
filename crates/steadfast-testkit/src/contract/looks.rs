//! Results of a dispatcher's look.

use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{Phase, State};
use steadfast_core::store::Store;
use steadfast_core::store::delivery::{Look, Sight, Version, Waiting};

use super::{LEASE, NOW, claim_at, delivery, id, succeed, take, transition_at, write};

/// Checks that a look returns for each account the operations that a take would find, and the due time of the
/// next one. It also shows if a purge would find something. It takes nothing.
pub async fn check_looks(store: &dyn Store) {
    let second = Duration::from_secs(1);
    let nothing = [Waiting::default(); 3];
    let empty = look(store, NOW).await;
    assert_eq!(empty, Sight { waiting: nothing.into(), expired: false, rows: None }, "an empty store");

    let lease = NOW.plus(LEASE);
    let held = id("test/looks/a/POST /x", "held");
    take(store, claim_at(&held, NOW)).await;
    let later = id("test/looks/a>reached/POST /x", "later");
    take(store, claim_at(&later, NOW)).await;
    let to = State::Scheduled { at: lease.plus(second) };
    write(store, &later, transition_at(1, NOW, to)).await.expect("the holder may write");
    for other in ["test/looks/ab/POST /x", "test/look/a/POST /x", "other/looks/a/POST /x"] {
        take(store, claim_at(&id(other, "of another account"), NOW)).await;
    }

    let early = lease.minus(Duration::from_millis(1));
    let seen = look(store, early.minus(second)).await;
    assert_eq!(seen.waiting, nothing, "nothing within the time that was asked for");
    let seen = look(store, early).await;
    assert_eq!(seen.waiting[0], Waiting { due: None, lapsed: false }, "a millisecond early for both");
    let seen = look(store, lease).await;
    let due = Some(lease.plus(second));
    assert_eq!(seen.waiting[0], Waiting { due, lapsed: true }, "what it reaches is its own");
    assert_eq!(seen.waiting[1..], nothing[1..], "and of no other account");
    assert_eq!(look(store, lease).await, seen, "nothing was taken");
    let seen = look(store, lease.plus(LEASE)).await;
    assert_eq!(seen.waiting[0], Waiting { due, lapsed: true }, "it is still due");

    let done = transition_at(1, NOW, succeed());
    write(store, &held, done).await.expect("the holder may write");
    let seen = look(store, lease.plus(LEASE)).await;
    assert!(!seen.waiting[0].lapsed && !seen.expired, "it is settled");
    let kept = NOW.plus(super::KEEP);
    // In steps that a store in use sees, or it would doubt the time.
    let mut now = lease.plus(LEASE);
    while now < kept {
        assert!(!look(store, now).await.expired, "its time is not over");
        now = now.plus(Duration::from_secs(240));
    }
    assert!(look(store, now).await.expired, "a purge would remove it");
}

/// Checks that the version of an operation changes with each transition, and that an absent one has none.
pub async fn check_versions(store: &dyn Store) {
    let (known, absent) = (id("test/versions//POST /x", "known"), id("test/versions//POST /x", "absent"));
    let ids = [absent.clone(), known.clone(), absent];
    let versions = async || delivery(store).versions(&ids).await.expect("the store works");
    let version = |phase, fence| vec![None, Some(Version { phase, fence }), None];
    assert_eq!(versions().await, [None; 3]);
    let fence = take(store, claim_at(&known, NOW)).await.fence;
    assert_eq!(versions().await, version(Phase::InProgress, fence));
    assert_eq!(versions().await, version(Phase::InProgress, fence), "it was not moved");
    let again = take(store, claim_at(&known, NOW.plus(LEASE))).await.fence;
    assert!(again > fence, "a takeover moves it");
    assert_eq!(versions().await, version(Phase::InProgress, again));
    write(store, &known, transition_at(again, NOW.plus(LEASE), succeed())).await.expect("its holder");
    assert_eq!(versions().await, version(Phase::Succeeded, again));
}

async fn look(store: &dyn Store, now: Timestamp) -> Sight {
    let accounts = ["test/looks/a", "test/looks/a>other", "test/looks/"].map(str::to_owned).into();
    let look = Look { now, until: now.plus(Duration::from_secs(1)), accounts, outbox: Vec::new() };
    delivery(store).look(&look).await.expect("the store works")
}

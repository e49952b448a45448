//! Fences, leases, lateness and expiry, at their exact boundaries.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{Claimed, Declined, Record, State};
use steadfast_core::operation::{Fingerprint, OperationId};
use steadfast_core::store::Store;
use steadfast_core::{Effect, Reason, Refusal};

use super::{
    KEEP, LEASE, NOW, claim, claim_at, dead_letter, get, id, let_pass, look, refuse, succeed, take,
    transition_at, write,
};

/// Checks that a takeover raises the fence by one, and that a write of an earlier holder changes nothing,
/// except a success: see [`check_late_success`].
pub async fn check_fences(store: &dyn Store) {
    let id = id("test/fences//POST /x", "k");
    let mut now = NOW;
    for fence in 1..=5 {
        let record = take(store, claim_at(&id, now)).await;
        assert_eq!(record.fence, fence);
        for earlier in 0..fence {
            for to in [
                State::InProgress { lease_until: FAR },
                State::Scheduled { at: FAR },
                refuse(Refusal::Rejected),
                dead_letter(Reason::Exhausted),
            ] {
                let result = write(store, &id, transition_at(earlier, now, to)).await;
                assert_eq!(result, Err(Declined::Fenced), "holder {earlier} under fence {fence}");
            }
        }
        assert_eq!(get(store, &id).await, Some(record));
        now = now.plus(LEASE);
    }
    let settled = write(store, &id, transition_at(5, now, succeed())).await;
    assert_eq!(settled.map(|record| record.state.name()), Ok("succeeded"), "the last holder still holds it");
}

/// Checks that a lease or a schedule is over at its very end and not a millisecond earlier; neither 0 nor a
/// huge one means "none". An operation that was tried is due within its retention, however late it was
/// scheduled.
pub async fn check_lease_boundaries(store: &dyn Store) {
    let ends: [(&str, Timestamp, Duration); 5] = [
        ("at the epoch", Timestamp::from_millis(0), LEASE),
        ("today", NOW, LEASE),
        ("of a millisecond", NOW, Duration::from_millis(1)),
        ("of less than a millisecond", NOW, Duration::from_nanos(1)),
        ("without end", Timestamp::from_millis(0), Duration::from_millis(FAR.as_millis())),
    ];
    for (name, start, lease) in ends {
        for scheduled in [false, true] {
            let id = id("test/leases//POST /x", &format!("{name} {scheduled}"));
            let mut wanted = claim_at(&id, start);
            wanted.lease = lease;
            let record = take(store, wanted).await;
            let mut end = start.plus(lease);
            if scheduled {
                let let_go = transition_at(record.fence, start, State::Scheduled { at: end });
                end = end.min(start.plus(KEEP));
                write(store, &id, let_go).await.expect("the holder may write");
            }
            let early = end.minus(Duration::from_millis(1));
            let result = claim(store, claim_at(&id, early)).await;
            assert_eq!(result, Claimed::Busy { frees_at: end }, "lease {name}, a millisecond early");
            let mut on_time = claim_at(&id, end);
            on_time.lease = Duration::ZERO;
            let result = claim(store, on_time).await;
            assert!(matches!(result, Claimed::TakenOver(_)), "lease {name}, on time: {result:?}");
        }
    }
    let id = id("test/leases//POST /x", "of nothing");
    let mut wanted = claim_at(&id, NOW);
    wanted.lease = Duration::ZERO;
    let record = take(store, wanted).await;
    assert_eq!(record.state, State::InProgress { lease_until: NOW });
    let result = claim(store, claim_at(&id, NOW)).await;
    assert!(matches!(result, Claimed::TakenOver(_)), "a lease of 0 is over at once: {result:?}");
}

/// Checks that a late success of a fenced holder settles the operation, also under a new holder and while it
/// waits: once, and for every process. It settles neither a settled operation nor another life of the key.
pub async fn check_late_success(store: &dyn Store) {
    let later = NOW.plus(LEASE);
    for (key, to, effect, proof) in [
        ("held", None, Effect::Unknown, true),
        ("held, absence believed", Some(State::InProgress { lease_until: FAR }), Effect::None, true),
        ("scheduled", Some(State::Scheduled { at: FAR }), Effect::Unknown, true),
        ("dead", Some(dead_letter(Reason::Unknown)), Effect::Unknown, true),
        ("dead, no effect", Some(dead_letter(Reason::Exhausted)), Effect::None, true),
        ("refused", Some(refuse(Refusal::Rejected)), Effect::None, true),
        ("succeeded", Some(succeed()), Effect::None, false),
    ] {
        let id = id("test/late//POST /x", key);
        let first = take(store, claim_at(&id, NOW)).await;
        let second = take(store, claim_at(&id, later)).await;
        let mut before = second.clone();
        if let Some(to) = to {
            let mut transition = transition_at(second.fence, later, to);
            transition.effect = effect;
            before = write(store, &id, transition).await.expect("the holder may write");
        }
        for stray in [first.fence - 1, second.fence + 1] {
            let result = write(store, &id, transition_at(stray, later, succeed())).await;
            assert_eq!(result, Err(Declined::Fenced), "{key}: not of this life");
        }
        let result = write(store, &id, transition_at(first.fence, later, succeed())).await;
        if !proof {
            assert_eq!(result, Err(Declined::Fenced), "{key}");
            assert_eq!(get(store, &id).await, Some(before), "{key}: nothing changes");
            continue;
        }
        let record = result.expect("the answer is proof");
        assert_eq!((record.state.name(), record.effect), ("succeeded", Effect::Applied), "{key}");
        assert_eq!(record.fence, second.fence, "{key}: nothing is taken over");
        assert_eq!(get(store, &id).await.as_ref(), Some(&record), "{key}");
        let again = write(store, &id, transition_at(first.fence, later, succeed())).await;
        assert_eq!(again, Err(Declined::Fenced), "{key}: the first answer stays");
        for to in [State::InProgress { lease_until: FAR }, succeed(), dead_letter(Reason::Unknown)] {
            let result = write(store, &id, transition_at(second.fence, later, to)).await;
            assert_eq!(result, Err(Declined::Settled), "{key}: its holder is told");
        }
        assert!(matches!(claim(store, claim_at(&id, later)).await, Claimed::Settled(_)));
    }
}

/// Checks that an expired record counts as purged, whether or not it was. The claim begins a new life, also
/// with another request, under a fence above all of the last life's. No holder of an earlier life can write in
/// it, not even proof.
pub async fn check_lives(store: &dyn Store) {
    for (key, purged) in [("met", false), ("purged", true)] {
        let id = id("test/lives//POST /x", key);
        let mut highest = 0;
        let mut now = NOW;
        for life in 1..=4_u8 {
            let mut wanted = claim_at(&id, now);
            wanted.fingerprint = Fingerprint::from_bytes([life; 32]);
            Arc::make_mut(&mut wanted.request).body = vec![life; 9].into();
            let (request, print) = (wanted.request.clone(), wanted.fingerprint);
            let Claimed::Fresh(first) = claim(store, wanted).await else {
                panic!("{key}: life {life} is new")
            };
            assert!(first.fence > highest, "{key}: fence {} after {highest}", first.fence);
            assert_eq!((first.first_fence, first.attempts, first.claimed_at), (first.fence, 0, now), "{key}");
            assert_eq!((&first.request, first.fingerprint, first.effect), (&request, print, Effect::None));
            assert_eq!(get(store, &id).await.as_ref(), Some(&first), "{key}: as given, so kept");
            assert_eq!(store.evidence(&id).await.expect("the store works"), [], "{key}: a log of its own");
            let mut waiting = transition_at(first.fence, now, State::Scheduled { at: now });
            waiting.effect = Effect::Unknown;
            let held = write(store, &id, waiting).await.expect("the holder may write");
            for earlier in 0..first.fence {
                let late = write(store, &id, transition_at(earlier, now, succeed())).await;
                assert_eq!(late, Err(Declined::Fenced), "{key}: life {life}, fence {earlier}");
            }
            assert_eq!(get(store, &id).await, Some(held), "{key}");
            let mut again = claim_at(&id, now);
            again.fingerprint = print;
            let taken = take(store, again.clone()).await;
            write(store, &id, transition_at(taken.fence, now, succeed()))
                .await
                .expect("the holder may write");
            highest = taken.fence;
            now = now.plus(KEEP);
            let_pass(store, now.minus(Duration::from_millis(1))).await;
            again.now = now.minus(Duration::from_millis(1));
            let result = claim(store, again).await;
            assert!(matches!(result, Claimed::Settled(_)), "{key}: a millisecond early: {result:?}");
            if purged {
                store.purge(now, 100).await.expect("the store works");
                assert_eq!(get(store, &id).await, None, "{key}");
            }
        }
    }
    let stranger = take(store, claim_at(&id("test/lives//POST /y", "never seen"), NOW)).await;
    assert!(stranger.fence > 2, "a store cannot know whose fences it purged");
}

/// Checks that refused credentials free the key for another try. The vendor's window starts anew only if no
/// attempt can have reached the vendor's records.
pub async fn check_unauthorized_retake(store: &dyn Store) {
    for (key, effect) in [("clean", Effect::None), ("unsure", Effect::Unknown)] {
        let id = id("test/unauthorized//POST /x", key);
        let first = take(store, claim_at(&id, NOW)).await;
        let mut refused = transition_at(first.fence, NOW, refuse(Refusal::Unauthorized));
        (refused.effect, refused.attempts) = (effect, 3);
        write(store, &id, refused).await.expect("the holder may write");
        let later = NOW.plus(LEASE);
        let record = take(store, claim_at(&id, later)).await;
        let expected = match effect {
            Effect::None => (Effect::None, later, 0),
            Effect::Unknown | Effect::Applied => (Effect::Unknown, NOW, 3),
        };
        assert_eq!((record.effect, record.claimed_at, record.attempts), expected, "{key}");
    }
}

/// Checks that settled records expire `keep` after they settled, and that a purge removes expired ones, at most
/// `limit`. Operations in flight, scheduled or dead stay for ever.
pub async fn check_expiry_and_purge(store: &dyn Store) {
    let settle = async |key: &str, to: Option<State>| -> (OperationId, Record) {
        let id = id("test/purge//POST /x", key);
        let record = take(store, claim_at(&id, NOW)).await;
        let Some(to) = to else { return (id, record) };
        let written = write(store, &id, transition_at(record.fence, NOW, to)).await;
        (id, written.expect("the holder may write"))
    };
    let mut stay = Vec::new();
    for (key, to) in [
        ("held", None),
        ("waiting", Some(State::Scheduled { at: NOW })),
        ("dead", Some(dead_letter(Reason::Exhausted))),
        ("dead, no answer", Some(State::Dead { reason: Reason::Unknown, answer: None })),
    ] {
        stay.push(settle(key, to).await);
    }
    let mut go = Vec::new();
    for nth in 0..5 {
        go.push(settle(&format!("done {nth}"), Some(succeed())).await.0);
    }
    go.push(settle("refused", Some(refuse(Refusal::Rejected))).await.0);
    go.push(settle("unauthorized", Some(refuse(Refusal::Unauthorized))).await.0);

    let purge = async |now, limit| store.purge(now, limit).await.expect("the store works");
    let expiry = NOW.plus(KEEP);
    let_pass(store, expiry.minus(Duration::from_millis(1))).await;
    assert_eq!(purge(expiry.minus(Duration::from_millis(1)), 100).await, 0, "nothing has expired");
    assert_eq!(purge(expiry, 0).await, 0, "a limit of 0 removes nothing");
    assert_eq!(count(store, &go).await, 7);
    assert_eq!(purge(expiry, 3).await, 3, "the limit holds");
    assert_eq!(count(store, &go).await, 4);
    let_pass(store, FAR).await;
    assert_eq!(purge(FAR, 100).await, 4, "all that has expired");
    assert_eq!(count(store, &go).await, 0);
    assert_eq!(purge(FAR, 100).await, 0);
    for (id, record) in stay {
        assert_eq!(get(store, &id).await, Some(record));
    }
    let result = claim(store, claim_at(&go[0], NOW)).await;
    assert!(matches!(result, Claimed::Fresh(_)), "a purged name is free: {result:?}");
}

/// Checks that a host whose clock is days ahead expires nothing for the others, however often it asks, and
/// purges nothing. A time that all hosts agree on for an hour is believed, to the millisecond; an earlier one
/// at once.
pub async fn check_doubted_times(store: &dyn Store) {
    let minutes = |count: u32| Duration::from_secs(60) * count;
    let settle = async |key: &str, now: Timestamp| -> OperationId {
        let id = id("test/doubted//POST /x", key);
        let record = take(store, claim_at(&id, now)).await;
        write(store, &id, transition_at(record.fence, now, succeed())).await.expect("the holder may write");
        id
    };
    let is_kept = async |id: &OperationId, now: Timestamp| {
        store.purge(now, 100).await.expect("the store works");
        let result = claim(store, claim_at(id, now)).await;
        matches!(result, Claimed::Settled(_))
    };
    let believed = async |now: Timestamp| store.believed(now).await.expect("the store works");
    let first = settle("first", NOW).await;
    let ahead = NOW.plus(KEEP * 3);
    assert_eq!((believed(NOW).await, believed(ahead).await), (NOW, NOW), "no clock has seen that time pass");
    for step in 0..10 {
        let by = minutes(20) * step;
        assert!(is_kept(&first, ahead.plus(by)).await, "{by:?}: the other host has just been here");
        look(store, NOW.plus(by)).await;
    }
    assert!(is_kept(&first, NOW.plus(KEEP)).await, "idle since: all are on the same clock, or none");
    assert!(is_kept(&first, NOW.plus(KEEP).plus(minutes(60)).minus(Duration::from_millis(1))).await);
    let now = NOW.plus(KEEP).plus(minutes(60));
    let second = settle("second", now).await;
    assert!(!is_kept(&first, now).await, "an hour later");
    assert_eq!(believed(now).await, now);
    assert!(is_kept(&second, now).await);
    // The host that is ahead is alone for an hour, and the other comes back.
    look(store, now.plus(KEEP * 2)).await;
    look(store, now.plus(minutes(1))).await;
    assert!(is_kept(&second, now.plus(KEEP * 2).plus(minutes(60))).await);
    let on_time = now.plus(KEEP);
    let early = on_time.minus(Duration::from_millis(1));
    let_pass(store, early).await;
    assert!(is_kept(&second, early).await, "a millisecond early");
    assert!(matches!(claim(store, claim_at(&second, on_time)).await, Claimed::Fresh(_)), "on time");
    // A clock that goes on is doubted from its first moment, and not from its last.
    let idle = on_time.plus(KEEP * 2);
    for by in [0, 30, 61] {
        look(store, idle.plus(minutes(by))).await;
    }
    assert_eq!(believed(idle.plus(minutes(61))).await, idle.plus(minutes(61)));
}

async fn count(store: &dyn Store, ids: &[OperationId]) -> usize {
    let mut count = 0;
    for id in ids {
        count += usize::from(get(store, id).await.is_some());
    }
    count
}

/// The last moment that a store must distinguish from others: the milliseconds that a signed 64-bit column
/// holds.
const FAR: Timestamp = Timestamp::from_millis(i64::MAX as u64);

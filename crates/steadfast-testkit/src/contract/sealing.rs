//! Sealed stores: a process leaves alone the rows that it cannot read, and a resealed row has the same content.
//!
//! A store that can seal runs this beside [`check_all`](super::check_all), which it runs on a sealed store too.

use std::sync::Arc;

use bytes::Bytes;

use steadfast_core::internal::store::codec;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{
    Act, Action, Claimed, Filter, Phase, Record, State, Takeover, Transition,
};
use steadfast_core::store::sealing::Reseal;
use steadfast_core::store::{SealKeys, Store, StoreErrorKind};
use steadfast_core::{Reason, store};

use super::{LEASE, NOW, answer, claim_at, dead_letter, id, take, transition_at, write};

/// A function that opens a store with these keys, or with none. Each store that it returns is another one on
/// the same records, as two processes have them; the first finds no records.
pub type Open = Box<dyn Fn(Option<SealKeys>) -> Arc<dyn Store> + Send + Sync>;

/// Runs all checks of this module. `fresh` returns a new set of records, and a way to open it, each time.
pub async fn check_sealing(fresh: impl Fn() -> Open) {
    check_unreadable_rows(&fresh()).await;
    check_reseal(&fresh()).await;
    check_reseal_needs_keys(&fresh()).await;
    check_reseal_beside_a_service(&fresh()).await;
}

/// Checks that an unreadable row is neither claimed, nor taken, nor acted upon, and does not keep the others
/// from their turn.
pub async fn check_unreadable_rows(open: &Open) {
    let (behind, ahead) = (open(Some(key(1))), open(Some(key(2).with_older([1; 32]))));
    let sealed: Vec<OperationId> = (0..5).map(|nth| name(&format!("ahead {nth}"))).collect();
    for id in &sealed {
        take(&*ahead, claim_at(id, NOW)).await;
    }
    let later = NOW.plus(std::time::Duration::from_secs(1));
    take(&*behind, claim_at(&name("behind"), later)).await;
    let dead = name("dead");
    take(&*ahead, claim_at(&dead, NOW)).await;
    let held = whole(&*ahead, &dead).await;
    move_on(&*ahead, &held, dead_letter(Reason::Exhausted)).await;
    let mut before = Vec::new();
    for id in sealed.iter().chain([&dead]) {
        before.push(whole(&*ahead, id).await);
    }
    let over = NOW.plus(LEASE).plus(LEASE);
    for (id, at) in [(&sealed[0], over), (&dead, NOW)] {
        let error = behind.claim(claim_at(id, at)).await.expect_err("its key was not given");
        assert_eq!(error.kind(), StoreErrorKind::Sealed, "{error}");
        let error = behind.get(id).await.expect_err("its key was not given");
        assert_eq!(error.kind(), StoreErrorKind::Sealed, "{error}");
    }
    let redrive = Act {
        action: Action::Redrive { forced: false },
        by: "ada".to_owned(),
        why: String::new(),
        now: over,
        fence: None,
    };
    let error = behind.act(&dead, redrive.clone()).await.expect_err("its key was not given");
    assert_eq!(error.kind(), StoreErrorKind::Sealed, "{error}");
    assert!(behind.audit(None, None, 10).await.expect("the store works").rows.is_empty());
    let lapsed = |limit| Takeover {
        phase: Phase::InProgress,
        account: None,
        now: over,
        lease: LEASE,
        attempt_max: super::ATTEMPT,
        vendor_clock_ms: None,
        holder: None,
        limit,
        wanted: steadfast_core::operation::record::Wanted::default(),
    };
    let taken = behind.take(lapsed(1)).await.expect("the store works");
    assert_eq!(taken.iter().map(|record| &record.id).collect::<Vec<_>>(), [&name("behind")]);
    assert_eq!(behind.take(lapsed(10)).await.expect("the store works"), []);
    for (id, before) in sealed.iter().chain([&dead]).zip(&before) {
        assert_eq!(whole(&*ahead, id).await, *before, "neither fence, nor lease, nor effect has moved");
    }
    // Reads of columns alone still work.
    let claimed = behind.claim(claim_at(&sealed[1], NOW)).await.expect("the store works");
    assert!(matches!(claimed, Claimed::Busy { .. }), "{claimed:?}");
    let letters = Filter { phases: vec![Phase::Dead], ..Filter::default() };
    assert_eq!(behind.list(&letters, None, 10).await.expect("the store works").rows.len(), 1);
    // A process that has their keys can take them.
    assert_eq!(ahead.take(lapsed(10)).await.expect("the store works").len(), 5);
    ahead.act(&dead, redrive).await.expect("the store works").expect("a dead letter");
}

/// Checks that everything is sealed with the current key and nothing else changes. After an interruption, the
/// same again does the rest.
pub async fn check_reseal(open: &Open) {
    // Records in the clear come first: a store that is empty when a key first opens it is sealed from then on.
    let all = [(None, "plain"), (Some(key(1)), "old"), (Some(key(2).with_older([1; 32])), "new")];
    let (mut names, mut stores) = (Vec::new(), Vec::new());
    for (keys, label) in all {
        stores.push(open(keys));
        let store = &stores[stores.len() - 1];
        for end in ["held", "done", "dead"] {
            let id = name(&format!("{label} {end}"));
            let held = take(&**store, claim_at(&id, NOW)).await;
            match end {
                "done" => {
                    let done = State::Succeeded { answer: answer(200, "done"), reconciled: false };
                    move_on(&**store, &held, done).await;
                }
                "dead" => {
                    move_on(&**store, &held, State::Dead { reason: Reason::Unknown, answer: None }).await;
                }
                _ => {}
            }
            names.push(id);
        }
    }
    let (old, new) = (&stores[1], &stores[2]);
    let mut before = Vec::new();
    for id in &names {
        before.push(whole(&**new, id).await);
    }
    let counted = store::reseal(&**new, true).await.expect("the store works");
    assert_eq!((counted.matched, counted.resealed, counted.remaining, counted.unreadable), (6, 0, 6, 0));
    // Two batches of one, and no more.
    let sealing = new.sealing().expect("it can seal");
    let mut after = None;
    for _ in 0..2 {
        let one = Reseal { after, rows_max: 1, dry_run: false };
        let batch = sealing.reseal(&one).await.expect("the store works");
        assert_eq!((batch.found, batch.resealed, batch.changed), (1, 1, 0));
        after = batch.next;
        assert!(after.is_some(), "there is more");
    }
    let resealed = store::reseal(&**new, false).await.expect("the store works");
    assert_eq!((resealed.matched, resealed.resealed, resealed.remaining), (4, 4, 0));
    let again = store::reseal(&**new, false).await.expect("the store works");
    assert_eq!((again.matched, again.resealed, again.remaining), (0, 0, 0));
    // The older key is needed no more.
    let rotated = open(Some(key(2)));
    for (id, before) in names.iter().zip(&before) {
        assert_eq!(whole(&*rotated, id).await, *before);
        let error = old.get(id).await.expect_err("sealed with the newer key");
        assert_eq!(error.kind(), StoreErrorKind::Sealed, "{error}");
    }
    // A holder keeps its operation through all of this.
    for label in ["plain", "old"] {
        let id = name(&format!("{label} held"));
        let done = State::Succeeded { answer: answer(200, "late"), reconciled: false };
        let ended = write(&*rotated, &id, transition_at(1, NOW, done)).await;
        assert_eq!(ended.map(|record| record.phase()), Ok(Phase::Succeeded), "{label}");
    }
}

/// Checks that a record in the clear is corrupt in a sealed store: no process with the key wrote it. `forge` replaces
/// the bytes of an operation's stored request, as a process without a key can that writes to the records.
pub async fn check_record_in_the_clear(open: &Open, forge: impl AsyncFnOnce(&OperationId, Vec<u8>)) {
    let (sealed, id) = (open(Some(key(1))), name("forged"));
    let held = take(&*sealed, claim_at(&id, NOW)).await;
    move_on(&*sealed, &held, State::Scheduled { at: NOW }).await;
    store::reseal(&*sealed, false).await.expect("the store works");
    forge(&id, codec::request_bytes(&held.request).expect("a small one")).await;
    // A process that knows that the store is sealed, and one that has just opened it.
    for store in [sealed, open(Some(key(1)))] {
        let error = store.get(&id).await.expect_err("in the clear");
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        let due = Takeover {
            phase: Phase::Scheduled,
            account: None,
            now: NOW.plus(LEASE),
            lease: LEASE,
            attempt_max: super::ATTEMPT,
            vendor_clock_ms: None,
            holder: None,
            limit: 10,
            wanted: steadfast_core::operation::record::Wanted::default(),
        };
        assert!(!store.take(due).await.is_ok_and(|taken| !taken.is_empty()), "it would be sent");
    }
}

/// Checks that nothing can be sealed without a key. Rows of another key are reported and left.
pub async fn check_reseal_needs_keys(open: &Open) {
    let plain = open(None);
    take(&*plain, claim_at(&name("plain"), NOW)).await;
    let (one, two) = (open(Some(key(1))), open(Some(key(2))));
    take(&*one, claim_at(&name("one"), NOW)).await;
    take(&*two, claim_at(&name("two"), NOW)).await;
    let error = store::reseal(&*plain, false).await.expect_err("no key");
    assert_eq!(
        (error.kind(), error.to_string()),
        (StoreErrorKind::Sealed, "no key was given to seal with".into())
    );
    for matched in [2, 1] {
        let resealed = store::reseal(&*two, false).await.expect("the store works");
        assert_eq!((resealed.matched, resealed.resealed), (matched, matched - 1));
        assert_eq!((resealed.remaining, resealed.unreadable), (1, 1));
        let (id, why) = &resealed.why_unreadable[0];
        assert_eq!((id, why.kind()), (&name("one"), StoreErrorKind::Sealed));
    }
    assert_eq!(
        whole(&*one, &name("one")).await.request,
        claim_at(&name("one"), NOW).request,
        "left as it was"
    );
    assert_eq!(whole(&*two, &name("plain")).await.request, claim_at(&name("plain"), NOW).request);
}

/// Checks that a service that still seals with the older key loses nothing while its rows are resealed, again
/// and again.
pub async fn check_reseal_beside_a_service(open: &Open) {
    let (service, new) = (open(Some(key(1))), open(Some(key(2).with_older([1; 32]))));
    // The service reads the rows that the newer key sealed: in a rotation it has both.
    drop(service);
    let service = open(Some(key(1).with_older([2; 32])));
    let calls = async {
        for nth in 0..OPERATIONS {
            let id = name(&format!("order {nth}"));
            let held = take(&*service, with_body(&id, nth)).await;
            tokio::task::yield_now().await;
            let done = State::Succeeded { answer: answer(200, "done"), reconciled: false };
            move_on(&*service, &held, done).await;
        }
    };
    let rotation = async {
        for _ in 0..ROUNDS {
            store::reseal(&*new, false).await.expect("the store works");
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(calls, rotation);
    let resealed = store::reseal(&*new, false).await.expect("the store works");
    assert_eq!((resealed.resealed, resealed.remaining), (resealed.matched, 0));
    let rotated = open(Some(key(2)));
    for nth in 0..OPERATIONS {
        let id = name(&format!("order {nth}"));
        let record = whole(&*rotated, &id).await;
        assert_eq!(record.request, with_body(&id, nth).request);
        let State::Succeeded { answer: kept, .. } = &record.state else { panic!("{record:?}") };
        assert_eq!(*kept, answer(200, "done"));
    }
}

fn with_body(id: &OperationId, nth: usize) -> steadfast_core::operation::record::Claim {
    let mut claim = claim_at(id, NOW);
    Arc::make_mut(&mut claim.request).body = Bytes::from(format!("order={nth}"));
    claim
}

fn key(byte: u8) -> SealKeys {
    SealKeys::new([byte; 32])
}

fn name(key: &str) -> OperationId {
    id("test/sealed//POST /x", &key.replace(' ', "-"))
}

async fn whole(store: &dyn Store, id: &OperationId) -> Record {
    store.get(id).await.expect("it can be read").expect("a record")
}

async fn move_on(store: &dyn Store, held: &Record, to: State) {
    let transition: Transition = transition_at(held.fence, NOW, to);
    store.transition(held, transition).await.expect("the store works").expect("the holder may write");
}

const OPERATIONS: usize = 60;

const ROUNDS: usize = 20;

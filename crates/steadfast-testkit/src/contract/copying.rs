//! Copies from one store to another: all records arrive, once, also after an interruption; and at no time are
//! both stores open.
//!
//! [`check_maintenance`](super::check_maintenance) runs this with the store on both sides. With
//! [`Memory`](steadfast_core::store::Memory) on either side it shows that two kinds of store agree.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Action, Phase, Takeover};
use steadfast_core::store;
use steadfast_core::store::maintenance::{Head, Maintenance, Stage, Standing};
use steadfast_core::store::{CopyError, Copying, Store, StoreErrorKind};

use super::{LEASE, NOW, claim_at, id, let_pass, succeed, take, transition_at, write};

mod parts;
mod rows;
mod shown;

use parts::{Breaks, Claimed, Fixed, InPagesOfOne};
use rows::{act, fill};
use shown::{Contents, assert_closed};

/// Runs all checks of this module. `from` and `to` each return a new and empty store, each time.
pub async fn check_copying(from: impl AsyncFn() -> Arc<dyn Store>, to: impl AsyncFn() -> Arc<dyn Store>) {
    check_copy(from().await, to().await).await;
    check_copy_of_what_changes(&from, &to).await;
    check_copy_refusals(&from, &to).await;
    check_copy_of_held_operations(&from, &to).await;
    check_copy_that_is_cut_short(&from, &to).await;
    check_giving_a_copy_up(&from, &to).await;
}

/// Checks that the target has everything that the source had, that the source is closed, and that fences
/// continue.
pub async fn check_copy(source: Arc<dyn Store>, target: Arc<dyn Store>) {
    fill(&*source).await;
    source.register("prod/acme/a", Some("terms")).await.expect("it is open");
    let (before, head) = (Contents::of(&*source).await, head(&source).await);
    assert!(head.notes.purged > 1 && head.audit > 3, "the suite has filled it: {head:?}");
    let copied = store::copy(&*source, &*target, &how()).await.expect("copies");
    let rows = before.rows.len() as u64;
    assert_eq!((copied.operations, copied.written, copied.audit), (rows, rows, head.audit));
    assert!(!copied.was_complete && copied.checksum != [0; 32]);
    assert_eq!(Contents::of(&*source).await, before, "the source is as it was");
    assert_eq!(Contents::of(&*target).await, before);
    let there = super::copying::head(&target).await;
    assert_eq!((there.audit, there.accounts), (head.audit, head.accounts));
    assert_eq!(there.notes, head.notes);
    assert_eq!(target.believed(LATER).await.ok(), source.believed(LATER).await.ok());
    assert_closed(&*source, "the new store").await;
    let again = store::copy(&*source, &*target, &how()).await.expect("it was complete");
    assert!(again.was_complete && again.written == 0);
    // The fence of a purged key does not go back, nor does that of a new one.
    for key in ["purged", "never-seen"] {
        let record = take(&*target, claim_at(&name(key), LATER)).await;
        assert!(record.fence > head.notes.purged, "{key}: {}", record.fence);
    }
    // Operations that were left are taken in the target.
    let taken = target.take(lapsed(LATER)).await.expect("the target is open");
    assert!(taken.iter().any(|record| record.id == name("left")), "{taken:?}");
}

/// Checks that each refusal names the obstacle, and changes neither store.
pub async fn check_copy_refusals(
    from: &impl AsyncFn() -> Arc<dyn Store>,
    to: &impl AsyncFn() -> Arc<dyn Store>,
) {
    let (source, other) = (from().await, to().await);
    let done = take(&*source, claim_at(&name("done"), NOW)).await;
    write(&*source, &done.id, transition_at(1, NOW, succeed())).await.expect("its holder");
    let error = store::copy(&*source, &*source, &how()).await.expect_err("one store");
    assert!(matches!(error, CopyError::SameStore | CopyError::Occupied), "{error}");
    let error = store::copy(&*other, &*other, &how()).await.expect_err("one store, and empty");
    assert!(matches!(error, CopyError::SameStore), "{error}");
    let error = store::copy(&*source, &*other, &Copying::new("a", "a")).await.expect_err("one name");
    assert!(matches!(error, CopyError::SameStore), "{error}");
    let occupied = to().await;
    take(&*occupied, claim_at(&name("own"), NOW)).await;
    let error = store::copy(&*source, &*occupied, &how()).await.expect_err("it has records");
    assert!(matches!(error, CopyError::Occupied), "{error}");
    for store in [&source, &other, &occupied] {
        assert_eq!(head(store).await.standing, Standing::default());
    }
    // A copy that was interrupted: to another target, from another source, and from the target.
    let half = to().await;
    cut_short(&source, &half, 3, false).await.expect_err("cut short");
    let error = store::copy(&*source, &*other, &how()).await.expect_err("under way elsewhere");
    assert!(matches!(&error, CopyError::Elsewhere { other } if other == "the new store"), "{error}");
    let second = from().await;
    let error = store::copy(&*second, &*half, &how()).await.expect_err("another copy's");
    assert!(matches!(&error, CopyError::OtherCopy { other } if other == "the old store"), "{error}");
    let error = store::copy(&*half, &*other, &how()).await.expect_err("incomplete");
    assert!(matches!(&error, CopyError::Incomplete { other } if other == "the old store"), "{error}");
    store::copy(&*source, &*half, &how()).await.expect("goes on");
    let error = store::copy(&*source, &*other, &how()).await.expect_err("moved");
    assert!(matches!(error, CopyError::Elsewhere { .. }), "{error}");
    let error = store::copy(&*other, &*source, &how()).await.expect_err("no target any more");
    assert!(matches!(error, CopyError::OtherCopy { .. }), "{error}");
}

/// Checks a copy while a lease is live: it is refused with the end of the last lease, or waits and copies the
/// result.
pub async fn check_copy_of_held_operations(
    from: &impl AsyncFn() -> Arc<dyn Store>,
    to: &impl AsyncFn() -> Arc<dyn Store>,
) {
    let (source, target) = (from().await, to().await);
    for (key, seconds) in [("one", 0), ("two", 30)] {
        take(&*source, claim_at(&name(key), NOW.plus(Duration::from_secs(seconds)))).await;
    }
    let ends = NOW.plus(Duration::from_secs(30)).plus(LEASE);
    let at = |now| Copying::new("the old store", "the new store").clock(Fixed(now));
    let last = ends.minus(Duration::from_millis(1));
    let pages = InPagesOfOne(source.clone());
    let refused = store::copy(&pages, &*target, &at(last)).await.expect_err("two is held");
    assert!(matches!(refused, CopyError::Held { held: 1, last } if last == ends), "{refused}");
    assert!(refused.to_string().starts_with("1 operation is held in the source"), "{refused}");
    for store in [&source, &target] {
        assert_eq!(head(store).await.standing, Standing::default());
    }
    let late = Claimed(source.clone(), claim_at(&name("late"), ends));
    let refused = store::copy(&late, &*target, &at(ends)).await.expect_err("late is held");
    assert!(matches!(refused, CopyError::Held { held: 1, .. }), "{refused}");
    for store in [&source, &target] {
        assert_eq!(head(store).await.standing, Standing::default());
    }
    write(&*source, &name("late"), transition_at(1, ends, succeed())).await.expect("its holder");
    let waiting = at(last).wait();
    let settles = async {
        while head(&source).await.standing.stage != Stage::Leaving {
            tokio::task::yield_now().await;
        }
        let error = source.claim(claim_at(&name("new"), last)).await.expect_err("it is closed");
        assert_eq!(error.kind(), StoreErrorKind::Closed, "{error}");
        write(&*source, &name("two"), transition_at(1, last, succeed())).await.expect("its holder");
    };
    let (copied, ()) = tokio::join!(store::copy(&*source, &*target, &waiting), settles);
    assert_eq!(copied.expect("copies").operations, 3);
    assert_eq!(Contents::of(&*target).await, Contents::of(&*source).await);
    let two = target.get(&name("two")).await.expect("the store works").expect("a record");
    assert_eq!(two.state.name(), "succeeded");
}

/// Checks a copy that fails at each write, before it or after it: never are both stores open, and the same copy
/// again completes it.
pub async fn check_copy_that_is_cut_short(
    from: &impl AsyncFn() -> Arc<dyn Store>,
    to: &impl AsyncFn() -> Arc<dyn Store>,
) {
    for is_written in [false, true] {
        let mut writes = 0;
        loop {
            let (source, target) = (from().await, to().await);
            fill(&*source).await;
            let before = Contents::of(&*source).await;
            let ended = cut_short(&source, &target, writes, is_written).await;
            let stages = (head(&source).await.standing.stage, head(&target).await.standing.stage);
            let is_empty = Contents::of(&*target).await.rows.is_empty();
            assert!(stages != (Stage::Open, Stage::Open) || is_empty, "both open after {writes} writes");
            store::copy(&*source, &*target, &how()).await.expect("the same again");
            assert_eq!(Contents::of(&*target).await, before, "cut short after {writes} writes");
            assert_closed(&*source, "the new store").await;
            take(&*target, claim_at(&name("never-seen"), LATER)).await;
            if ended.is_ok() {
                break;
            }
            writes += 1;
        }
        assert!(writes >= 6, "a copy is several writes, and not {writes}");
    }
}

/// Checks that records that changed, went or came between two runs are in the target as they are in the source.
pub async fn check_copy_of_what_changes(
    from: &impl AsyncFn() -> Arc<dyn Store>,
    to: &impl AsyncFn() -> Arc<dyn Store>,
) {
    let (source, target) = (from().await, to().await);
    fill(&*source).await;
    // All rows are there, and the source is not marked as moved yet.
    cut_short(&source, &target, 3, false).await.expect_err("cut short");
    assert_eq!(head(&source).await.standing.stage, Stage::Leaving);
    let left = source.get(&name("left")).await.expect("the store works").expect("a record");
    let settled = transition_at(left.fence, LATER, succeed());
    source.transition(&left, settled).await.expect("its holder may").expect("it does");
    // As a service would have, had the first run been given up.
    let leaving = head(&source).await.standing;
    maintenance(&source).stand(&leaving, &Standing::default()).await.expect("the store works");
    // Its row is before others in the order of the copy.
    act(&*source, "exhausted", Action::Redrive { forced: true }).await;
    let far = LATER.plus(Duration::from_secs(3 * 24 * 3600));
    let_pass(&*source, far).await;
    assert!(source.purge(far, 100).await.expect("it is open") > 0, "some have expired");
    take(&*source, claim_at(&name("new"), far)).await;
    maintenance(&source).stand(&Standing::default(), &leaving).await.expect("the store works");
    let how = how().clock(Fixed(far.plus(LEASE)));
    store::copy(&*source, &*target, &how).await.expect("goes on");
    assert_eq!(Contents::of(&*target).await, Contents::of(&*source).await);
    assert_eq!(head(&target).await.notes, head(&source).await.notes);
}

/// Checks that a copy that is given up leaves the source open and the target closed, and that a complete one
/// cannot be given up.
pub async fn check_giving_a_copy_up(
    from: &impl AsyncFn() -> Arc<dyn Store>,
    to: &impl AsyncFn() -> Arc<dyn Store>,
) {
    for writes in 1..7 {
        let (source, target) = (from().await, to().await);
        fill(&*source).await;
        cut_short(&source, &target, writes, true).await.expect_err("cut short");
        let gave_up = store::give_up_copy(&*source, Some(&*target), &how()).await;
        if writes == 6 {
            assert!(matches!(gave_up, Err(CopyError::Complete { .. })), "{gave_up:?}");
            assert_closed(&*source, "the new store").await;
            continue;
        }
        gave_up.expect("it is not complete");
        store::give_up_copy(&*source, Some(&*target), &how()).await.expect("the same again");
        take(&*source, claim_at(&name("never-seen"), LATER)).await;
        if writes > 1 {
            assert_closed(&*target, "the old store").await;
        }
        let held = how().clock(Fixed(LATER.plus(LEASE)));
        let onwards = store::copy(&*source, &*target, &held).await;
        assert!(matches!(onwards, Err(CopyError::OtherCopy { .. })) || writes <= 2, "{writes}: {onwards:?}");
    }
    let (source, target) = (from().await, to().await);
    store::copy(&*source, &*target, &how()).await.expect("copies");
    store::give_up_copy(&*source, None, &how()).await.expect("the target is lost");
    take(&*source, claim_at(&name("new"), LATER)).await;
}

/// Checks that a closed store registers no terms.
pub async fn check_terms_of_a_closed_store(store: Arc<dyn Store>) {
    store.register("prod/acme/b", Some("two")).await.expect("it is open");
    let leaving = Standing { stage: Stage::Leaving, ..Standing::default() };
    maintenance(&store).stand(&Standing::default(), &leaving).await.expect("the store works");
    for (account, terms) in [("prod/acme/c", Some("one")), ("prod/acme/b", None)] {
        let error = store.register(account, terms).await.expect_err("it is closed");
        assert_eq!(error.kind(), StoreErrorKind::Closed, "{error}");
    }
    let expected = [("prod/acme/b".to_owned(), "two".to_owned())].into();
    assert_eq!(head(&store).await.accounts, expected);
}

/// Runs a copy that fails at the write number `writes`, before it or after it.
async fn cut_short(
    source: &Arc<dyn Store>,
    target: &Arc<dyn Store>,
    writes: usize,
    is_written: bool,
) -> Result<store::Copied, CopyError> {
    let breaks = Breaks::at(source, writes, is_written);
    store::copy(&breaks, &breaks.beside(target), &how()).await
}

fn how() -> Copying {
    Copying::new("the old store", "the new store").clock(Fixed(LATER))
}

fn maintenance(store: &Arc<dyn Store>) -> &dyn Maintenance {
    maintenance_of(&**store)
}

fn maintenance_of(store: &dyn Store) -> &dyn Maintenance {
    store.maintenance().expect("the store has maintenance")
}

async fn head(store: &Arc<dyn Store>) -> Head {
    maintenance(store).head().await.expect("the store works")
}

fn lapsed(now: Timestamp) -> Takeover {
    Takeover {
        phase: Phase::InProgress,
        account: None,
        now,
        lease: LEASE,
        attempt_max: super::ATTEMPT,
        vendor_clock_ms: None,
        holder: None,
        limit: 100,
        wanted: steadfast_core::operation::record::Wanted::default(),
    }
}

fn name(key: &str) -> OperationId {
    id("test/copied/a/POST /x", key)
}

/// Two days after the suite's time: no lease of the first day is live.
const LATER: Timestamp = Timestamp::from_millis(NOW.as_millis() + 2 * 24 * 3600 * 1_000);

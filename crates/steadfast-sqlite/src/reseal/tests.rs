use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tempfile::TempDir;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::seal_rows;
use steadfast_core::operation::record::{Claim, Claimed, Record, State};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store;
use steadfast_core::store::sealing::Sealing;
use steadfast_core::store::{SealKeys, Store, StoreErrorKind};
use steadfast_core::transport::Answer;

use super::*;
use crate::Sqlite;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

struct StoreDirectory {
    directory: TempDir,
}

impl StoreDirectory {
    fn new() -> StoreDirectory {
        StoreDirectory { directory: support::in_memory::directory() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("calls.db")
    }

    fn open(&self, keys: Option<SealKeys>) -> Sqlite {
        let builder = Sqlite::builder(self.path());
        keys.into_iter().fold(builder, |builder, keys| builder.seal(keys)).open().expect("opens")
    }

    fn raw(&self) -> Connection {
        Connection::open(self.path()).expect("opens")
    }

    fn holds(&self, text: &str) -> bool {
        let file = std::fs::read(self.path()).expect("readable");
        file.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

fn new_key() -> SealKeys {
    SealKeys::new([2; 32]).with_older([1; 32])
}

fn id(key: &str) -> OperationId {
    OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new(key).expect("a key"))
}

fn wanted(key: &str, body: impl Into<Bytes>) -> Claim {
    let mut claim = steadfast_testkit::internal::claim_at(&id(key), NOW);
    Arc::make_mut(&mut claim.request).body = body.into();
    claim
}

async fn claims(store: &Sqlite, claim: Claim) -> Record {
    match store.claim(claim).await {
        Ok(Claimed::Fresh(record)) => record,
        other => panic!("it is new: {other:?}"),
    }
}

fn all() -> Reseal {
    Reseal { after: None, rows_max: 100, dry_run: false }
}

#[tokio::test]
async fn a_row_that_changes_between_reading_and_writing_is_left_as_it_was_written() {
    let place = StoreDirectory::new();
    let (service, new) = (place.open(Some(SealKeys::new([1; 32]).with_older([2; 32]))), new_key());
    let held = claims(&service, wanted("settled", "x")).await;
    claims(&service, wanted("removed", "x")).await;
    claims(&service, wanted("same", "x")).await;
    let (seals, raw) = (Seals::with(new.clone()), place.raw());
    let found = find(&raw, &all(), &seals.needed().expect("a key")).expect("readable");
    let (batch, rows) = seal_rows(found, &seals);
    assert_eq!((batch.found, rows.len(), batch.unreadable.len()), (3, 3, 0));
    let answer = Answer::new(StatusCode::OK, HeaderMap::new(), "done");
    let done = State::Succeeded { answer: answer.clone(), reconciled: false };
    let transition = steadfast_testkit::internal::transition_at(held.fence, NOW, done);
    service.transition(&held, transition).await.expect("works").expect("the holder may write");
    raw.execute("DELETE FROM operation WHERE key = 'removed'", []).expect("gone");
    assert_eq!(write(&raw, &rows, &seals).expect("written"), 1, "only what is still as it was read");
    let settled = service.get(&id("settled")).await.expect("readable").expect("a record");
    assert!(matches!(&settled.state, State::Succeeded { answer: kept, .. } if *kept == answer));
    assert_eq!(service.get(&id("removed")).await.expect("works"), None, "it does not come back");
    // The next pass has what is left.
    let resealed = store::reseal(&place.open(Some(new)), false).await.expect("works");
    assert_eq!((resealed.matched, resealed.resealed, resealed.remaining), (1, 1, 0));
}

#[tokio::test]
async fn a_batch_is_a_commit_and_a_killed_reseal_is_completed_by_the_next() {
    let place = StoreDirectory::new();
    let old = place.open(Some(SealKeys::new([1; 32])));
    for nth in 0..10 {
        claims(&old, wanted(&nth.to_string(), "x")).await;
    }
    drop(old);
    let store = place.open(Some(new_key()));
    let three = Reseal { rows_max: 3, ..all() };
    let batch = Sealing::reseal(&store, &three).await.expect("works");
    assert_eq!((batch.found, batch.resealed), (3, 3));
    // Killed here: its file and log, as they are on the disk.
    let killed = StoreDirectory::new();
    for suffix in ["", "-wal"] {
        let name = format!("calls.db{suffix}");
        std::fs::copy(place.directory.path().join(&name), killed.directory.path().join(&name))
            .expect("copied");
    }
    let store = killed.open(Some(new_key()));
    let left = store::reseal(&store, true).await.expect("works");
    assert_eq!(left.remaining, 7, "neither more nor less than the batches before");
    let resealed = store::reseal(&store, false).await.expect("works");
    assert_eq!((resealed.matched, resealed.resealed, resealed.remaining), (7, 7, 0));
    store.close().await;
    let store = killed.open(Some(SealKeys::new([2; 32])));
    for nth in 0..10 {
        store.get(&id(&nth.to_string())).await.expect("readable").expect("a record");
    }
}

#[tokio::test]
async fn bodies_of_many_megabytes_are_not_read_at_once() {
    let place = StoreDirectory::new();
    let store = place.open(None);
    for nth in 0..4 {
        claims(&store, wanted(&nth.to_string(), vec![b'x'; BATCH_BYTES_MAX * 2 / 3])).await;
    }
    drop(store);
    let store = place.open(Some(new_key()));
    let batch = Sealing::reseal(&store, &all()).await.expect("works");
    assert_eq!((batch.found, batch.resealed), (2, 2));
    assert_eq!(store::reseal(&store, false).await.expect("works").resealed, 2);
}

#[tokio::test]
async fn a_damaged_row_is_reported_and_blocks_no_other() {
    let place = StoreDirectory::new();
    let old = place.open(Some(SealKeys::new([1; 32])));
    for key in ["a", "b", "c"] {
        claims(&old, wanted(key, "x")).await;
    }
    drop(old);
    let spoil =
        "UPDATE operation SET request = CAST(substr(request, 1, 40) || x'00' AS BLOB) WHERE key = 'b'";
    place.raw().execute(spoil, []).expect("runs");
    let store = place.open(Some(new_key()));
    let resealed = store::reseal(&store, false).await.expect("works");
    assert_eq!((resealed.matched, resealed.resealed, resealed.remaining, resealed.unreadable), (3, 2, 1, 1));
    let (unreadable, why) = &resealed.why_unreadable[0];
    assert_eq!((unreadable, why.kind()), (&id("b"), StoreErrorKind::Corrupt));
}

#[tokio::test]
async fn a_wipe_removes_unsealed_bytes_from_the_file() {
    let place = StoreDirectory::new();
    let store = place.open(None);
    for nth in 0..50 {
        claims(&store, wanted(&nth.to_string(), format!("hunter2 {}", "x".repeat(2_000)))).await;
    }
    store.close().await;
    assert!(place.holds("hunter2"));
    let store = place.open(Some(new_key()));
    assert_eq!(store::reseal(&store, false).await.expect("works").resealed, 50);
    Sealing::wipe(&store).await.expect("nobody reads");
    assert!(!place.holds("hunter2"));
    assert_eq!(std::fs::metadata(place.directory.path().join("calls.db-wal")).map_or(0, |log| log.len()), 0);
    store.get(&id("7")).await.expect("readable").expect("a record");
    let error = Sqlite::open(place.path()).expect_err("the file names the key that it needs now");
    assert_eq!(error.kind(), StoreErrorKind::Sealed, "{error}");
}

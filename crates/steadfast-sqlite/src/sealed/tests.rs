use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use tempfile::TempDir;

use steadfast_core::Reason;
use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::SealKeysExt;
use steadfast_core::operation::record::{
    Act, Action, Claim, Claimed, Filter, Phase, Record, State, Takeover,
};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::{SealKeys, Store};
use steadfast_core::transport::Answer;
use steadfast_testkit::contract;

use super::*;
use crate::Sqlite;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const LATER: Timestamp = Timestamp::from_millis(2_000_000);

/// Text in every place of a request and an answer that is sealed.
const MARKER: &str = "hunter2";

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

    fn open(&self, keys: Option<&SealKeys>) -> Result<Sqlite, StoreError> {
        let builder = Sqlite::builder(self.path());
        match keys {
            Some(keys) => builder.seal(keys.clone()).open(),
            None => builder.open(),
        }
    }

    fn with(&self, keys: &SealKeys) -> Sqlite {
        self.open(Some(keys)).expect("opens")
    }

    fn raw(&self) -> Connection {
        Connection::open(self.path()).expect("opens")
    }

    /// Returns every file in the directory but the index of the log, which the process that opens it rebuilds.
    fn bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(self.directory.path())
            .expect("a directory")
            .map(|file| file.expect("a file").path())
            .filter(|file| !file.to_string_lossy().ends_with("-shm"))
            .map(|file| (file.clone(), fs::read(file).expect("read")))
            .collect();
        files.sort();
        files
    }

    fn keys_named(&self) -> Vec<String> {
        let raw = self.raw();
        let mut statement = raw.prepare("SELECT lower(hex(id)) FROM seal_key").expect("a table");
        let ids = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect);
        ids.expect("readable")
    }
}

fn key(byte: u8) -> SealKeys {
    SealKeys::new([byte; 32])
}

fn id(key: &str) -> OperationId {
    OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new(key).expect("a key"))
}

fn wanted(key: &str) -> Claim {
    let mut claim = steadfast_testkit::internal::claim_at(&id(key), NOW);
    Arc::make_mut(&mut claim.request).url.set_query(Some(&format!("token={MARKER}")));
    Arc::make_mut(&mut claim.request).headers.insert("x-customer", HeaderValue::from_static(MARKER));
    Arc::make_mut(&mut claim.request).body = Bytes::from(format!("for {key}: {MARKER}"));
    claim
}

fn answer(key: &str) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("x-customer", HeaderValue::from_static(MARKER));
    Answer::new(StatusCode::OK, headers, format!("to {key}: {MARKER}"))
}

async fn claims(store: &Sqlite, key: &str) -> Record {
    match store.claim(wanted(key)).await {
        Ok(Claimed::Fresh(record)) => record,
        other => panic!("{key} is new: {other:?}"),
    }
}

async fn ends(store: &Sqlite, held: &Record, to: State) {
    let ended = store.transition(held, steadfast_testkit::internal::transition_at(held.fence, NOW, to)).await;
    ended.expect("works").expect("the holder may write");
}

async fn settles(store: &Sqlite, key: &str) {
    let held = claims(store, key).await;
    ends(store, &held, State::Succeeded { answer: answer(key), reconciled: false }).await;
}

async fn dead_letters(store: &Sqlite, key: &str) {
    let held = claims(store, key).await;
    ends(store, &held, State::Dead { reason: Reason::Exhausted, answer: None }).await;
}

async fn assert_whole(store: &Sqlite, key: &str) {
    let record = store.get(&id(key)).await.expect("readable").expect("a record");
    assert_eq!(record.request, wanted(key).request, "{key}");
    if let State::Succeeded { answer: kept, .. } = record.state {
        assert_eq!(kept, answer(key));
    }
}

fn assert_sealed<T: std::fmt::Debug>(result: Result<T, StoreError>, problem: &str) {
    let error = result.expect_err("sealed");
    assert_eq!((error.kind(), error.to_string().as_str()), (StoreErrorKind::Sealed, problem));
}

fn take(now: Timestamp, limit: usize) -> Takeover {
    Takeover {
        phase: Phase::InProgress,
        account: None,
        now,
        lease: Duration::from_secs(60),
        attempt_max: Duration::from_secs(30),
        vendor_clock_ms: None,
        holder: None,
        limit,
        wanted: steadfast_core::operation::record::Wanted::default(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds_over_a_sealed_file() {
    let directory = support::in_memory::directory();
    let files = std::sync::atomic::AtomicUsize::new(0);
    let fresh = async || {
        let file = files.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let keys = SealKeys::new([1; 32]).with_older([2; 32]);
        let store = Sqlite::builder(directory.path().join(format!("{file}.db"))).seal(keys).open();
        Arc::new(store.expect("opens")) as Arc<dyn Store>
    };
    contract::check_all(fresh).await;
    let fresh = || {
        let file = files.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = directory.path().join(format!("{file}.db"));
        Box::new(move |keys: Option<SealKeys>| {
            let builder = Sqlite::builder(&path);
            let builder = keys.into_iter().fold(builder, |builder, keys| builder.seal(keys));
            Arc::new(builder.open().expect("opens")) as Arc<dyn Store>
        }) as contract::Open
    };
    contract::check_sealing(fresh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_in_the_clear_is_not_read_where_the_file_is_sealed() {
    let place = Arc::new(StoreDirectory::new());
    let opened = Arc::clone(&place);
    let open: contract::Open =
        Box::new(move |keys| Arc::new(opened.open(keys.as_ref()).expect("opens")) as Arc<dyn Store>);
    let forge = async |id: &OperationId, request: Vec<u8>| {
        let sql = "UPDATE operation SET request = ?1 WHERE key = ?2";
        let forged = place.raw().execute(sql, (request, id.key.as_str()));
        assert_eq!(forged.expect("forges"), 1);
    };
    contract::check_record_in_the_clear(&open, forge).await;
}

#[tokio::test]
async fn neither_bodies_nor_headers_nor_queries_are_in_the_files() {
    let place = StoreDirectory::new();
    let found = |place: &StoreDirectory| {
        let holds = |bytes: &[u8]| bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes());
        place.bytes().iter().filter(|(_, bytes)| holds(bytes)).count()
    };
    let store = place.with(&key(1));
    for nth in 0..20 {
        settles(&store, &nth.to_string()).await;
        dead_letters(&store, &format!("dead {nth}")).await;
    }
    assert_eq!((found(&place), place.bytes().len()), (0, 2), "the file and its log");
    store.close().await;
    assert_eq!((found(&place), place.bytes().len()), (0, 1), "the file");
    // The search finds what is there.
    let open = StoreDirectory::new();
    let store = open.open(None).expect("opens");
    settles(&store, "a").await;
    assert_eq!(found(&open), 1, "the log");
    store.close().await;
    assert_eq!(found(&open), 1, "the file");
}

#[tokio::test]
async fn a_file_is_refused_without_its_keys_and_stays_as_it_is() {
    let place = StoreDirectory::new();
    let (one, two, three) = (key(1), key(2), key(3));
    let store = place.with(&one);
    for nth in 0..5 {
        settles(&store, &nth.to_string()).await;
    }
    store.close().await;
    let (own, other) = (one.current(), two.current());
    let needs_one =
        format!("the file is sealed: 5 of its operations need the key {own}, which was not given");
    let before = place.bytes();
    for keys in [None, Some(&two)] {
        assert_sealed(place.open(keys), &needs_one);
        assert!(place.bytes() == before, "untouched, and nothing beside it");
        assert_eq!(fs::read_dir(place.directory.path()).expect("a directory").count(), 1);
    }
    // Now with a log beside the file, as a killed process leaves it: not moved into the file either.
    let store = place.with(&two.clone().with_older([1; 32]));
    settles(&store, "new").await;
    let (crashed, copy) = (StoreDirectory::new(), |from: &StoreDirectory, to: &StoreDirectory| {
        for (path, bytes) in from.bytes() {
            fs::write(to.directory.path().join(path.file_name().expect("a name")), bytes).expect("written");
        }
    });
    copy(&place, &crashed);
    store.close().await;
    let before = crashed.bytes();
    assert_eq!(before.len(), 2);
    assert_sealed(crashed.open(Some(&two)), &needs_one);
    let mut needed = [(own, 5), (other, 1)];
    needed.sort_by_key(|(id, _)| *id.as_bytes());
    let both = needed.map(|(id, rows)| format!("{rows} of its operations need the key {id}")).join(", ");
    for keys in [None, Some(&three)] {
        assert_sealed(crashed.open(keys), &format!("the file is sealed: {both}, which was not given"));
    }
    assert!(crashed.bytes() == before, "untouched, log and all");
    let store = crashed.with(&two.with_older([1; 32]));
    assert_whole(&store, "new").await;
    assert_whole(&store, "3").await;
}

#[tokio::test]
async fn a_file_may_be_sealed_later_and_its_older_rows_stay_readable() {
    let place = StoreDirectory::new();
    let store = place.open(None).expect("opens");
    settles(&store, "open").await;
    let held = claims(&store, "under way").await;
    store.close().await;
    let store = place.with(&key(1));
    settles(&store, "sealed").await;
    for key in ["open", "under way", "sealed"] {
        assert_whole(&store, key).await;
    }
    // A request that is not sealed may have an answer that is.
    let to = State::Succeeded { answer: answer("under way"), reconciled: false };
    ends(&store, &held, to).await;
    assert_whole(&store, "under way").await;
    store.close().await;
    let id = key(1).current();
    assert_sealed(
        place.open(None),
        &format!("the file is sealed: 2 of its operations need the key {id}, which was not given"),
    );
}

#[tokio::test]
async fn a_rotation_leaves_everything_readable_and_an_unused_key_is_retired() {
    let place = StoreDirectory::new();
    let (old, new) = (key(1), key(2));
    let store = place.with(&old);
    settles(&store, "old").await;
    store.close().await;
    let store = place.with(&new.clone().with_older([1; 32]));
    settles(&store, "new").await;
    assert_whole(&store, "old").await;
    assert_whole(&store, "new").await;
    store.close().await;
    assert_eq!(place.keys_named().len(), 2);
    let problem = format!(
        "the file is sealed: 1 of its operations need the key {}, which was not given",
        old.current()
    );
    assert_sealed(place.open(Some(&new)), &problem);
    // What the old key sealed expires; then it is not needed any more.
    let store = place.with(&new.clone().with_older([1; 32]));
    store.append_evidence(&id("new"), Vec::new()).await.expect("works").expect("there");
    steadfast_testkit::internal::let_pass(&store, NOW.plus(Duration::from_secs(24 * 3600))).await;
    let gone = store.purge(NOW.plus(Duration::from_secs(24 * 3600)), 1).await.expect("works");
    assert_eq!(gone, 1);
    assert!(store.get(&id("old")).await.expect("works").is_none());
    store.close().await;
    let store = place.with(&new);
    assert_whole(&store, "new").await;
    store.close().await;
    assert_eq!(place.keys_named(), [new.current().to_string()]);
}

#[tokio::test]
async fn a_key_that_comes_back_after_it_was_retired_is_named_again() {
    let place = StoreDirectory::new();
    let (old, new) = (key(1), key(2));
    let slow = place.with(&old);
    assert_eq!(place.keys_named(), [""; 0], "no key before its first use");
    claims(&slow, "a").await;
    slow.purge(LATER, 10).await.expect("works");
    place.raw().execute("DELETE FROM operation", []).expect("gone");
    // Another process, already rotated, sees no row that needs the old key.
    drop(place.with(&new));
    assert_eq!(place.keys_named(), [""; 0]);
    settles(&slow, "b").await;
    assert_eq!(place.keys_named(), [old.current().to_string()]);
    let problem = format!(
        "the file is sealed: 1 of its operations need the key {}, which was not given",
        old.current()
    );
    assert_sealed(place.open(Some(&new)), &problem);
}

#[tokio::test]
async fn a_key_that_is_used_while_it_is_being_retired_stays() {
    let place = StoreDirectory::new();
    let (old, rotated) = (place.with(&key(1)), Seals::with(key(2)));
    claims(&old, "a").await;
    let raw = place.raw();
    raw.execute("DELETE FROM operation", []).expect("gone");
    let unused = check_file(&raw, &rotated).expect("nothing needs a key that is not at hand");
    assert_eq!(unused, [*key(1).current().as_bytes()]);
    claims(&old, "b").await;
    let error = retire(&raw, &rotated, &unused).expect_err("needed after all");
    assert_eq!(error.kind(), StoreErrorKind::Sealed, "{error}");
    assert!(raw.is_autocommit());
    assert_eq!(place.keys_named(), [key(1).current().to_string()]);
    raw.execute("DELETE FROM operation", []).expect("gone");
    retire(&raw, &rotated, &unused).expect("not needed");
    assert_eq!(place.keys_named(), [""; 0]);
}

#[tokio::test]
async fn an_answer_alone_names_its_key_too() {
    let place = StoreDirectory::new();
    let store = place.open(None).expect("opens");
    let held = claims(&store, "a").await;
    store.close().await;
    let store = place.with(&key(1));
    let to = State::Succeeded { answer: answer("a"), reconciled: false };
    ends(&store, &held, to).await;
    assert_eq!(place.keys_named(), [key(1).current().to_string()]);
}

#[tokio::test]
async fn a_process_leaves_unreadable_rows_alone() {
    let place = StoreDirectory::new();
    let (old, new) = (key(1), key(2));
    // Two processes on one file; the second has rotated already.
    let (behind, ahead) = (place.with(&old), place.with(&new.clone().with_older([1; 32])));
    for nth in 0..5 {
        claims(&ahead, &format!("ahead {nth}")).await;
    }
    let mut last = wanted("behind");
    last.now = NOW.plus(Duration::from_secs(1));
    assert!(matches!(behind.claim(last).await, Ok(Claimed::Fresh(_))));
    dead_letters(&ahead, "dead").await;
    let snapshot = || {
        let raw = place.raw();
        let mut statement =
            raw.prepare("SELECT * FROM operation WHERE key <> 'behind' ORDER BY number").expect("a table");
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
        let rows: Vec<Vec<rusqlite::types::Value>> =
            statement.query_map([], row).and_then(Iterator::collect).expect("readable");
        format!("{rows:?}")
    };
    let before = snapshot();
    let problem = format!("the operation is sealed with the key {}, which was not given", new.current());
    assert_sealed(behind.get(&id("ahead 0")).await, &problem);
    // A claim of an operation whose lease has run out would take it over.
    let mut late = wanted("ahead 0");
    late.now = LATER;
    assert_sealed(behind.claim(late).await, &problem);
    assert_sealed(behind.claim(wanted("dead")).await, &problem);
    let redrive = Act {
        action: Action::Redrive { forced: false },
        by: "ada".to_owned(),
        why: String::new(),
        now: LATER,
        fence: None,
    };
    assert_sealed(behind.act(&id("dead"), redrive.clone()).await, &problem);
    assert!(behind.audit(None, None, 10).await.expect("works").rows.is_empty());
    // Five unreadable operations that have waited longer do not keep a taker from the one that it can read.
    let taken = behind.take(take(LATER, 1)).await.expect("works");
    assert_eq!(taken.iter().map(|record| record.id.key.as_str()).collect::<Vec<_>>(), ["behind"]);
    assert_eq!(behind.take(take(LATER, 10)).await.expect("works"), []);
    assert_eq!(snapshot(), before, "neither fence, nor lease, nor effect, nor audit has moved");
    // Reads of columns alone still work.
    assert!(matches!(behind.claim(wanted("ahead 1")).await, Ok(Claimed::Busy { .. })));
    let dead = Filter { phases: vec![Phase::Dead], ..Filter::default() };
    assert_eq!(behind.list(&dead, None, 10).await.expect("works").rows.len(), 1);
    // A process that has their keys can take them.
    assert_eq!(ahead.take(take(LATER, 10)).await.expect("works").len(), 5);
    ahead.act(&id("dead"), redrive).await.expect("works").expect("a dead letter");
}

#[tokio::test]
async fn a_process_without_keys_takes_unsealed_rows() {
    let place = StoreDirectory::new();
    let plain = place.open(None).expect("opens");
    claims(&plain, "open").await;
    let sealing = place.with(&key(1));
    claims(&sealing, "sealed").await;
    claims(&plain, "too").await;
    let taken = plain.take(take(LATER, 10)).await.expect("works");
    assert_eq!(taken.iter().map(|record| record.id.key.as_str()).collect::<Vec<_>>(), ["open", "too"]);
}

/// Reads `key` after another program without a key ran `sql` on its file.
async fn after(sql: &str, key_read: &str) -> StoreError {
    let place = StoreDirectory::new();
    let store = place.with(&key(1));
    for key in ["a", "b"] {
        settles(&store, key).await;
    }
    place.raw().execute_batch(sql).expect("runs");
    assert!(
        matches!(store.claim(wanted(key_read)).await, Err(error) if error.kind() == StoreErrorKind::Corrupt)
    );
    store.get(&id(key_read)).await.expect_err("not what was sealed")
}

#[tokio::test]
async fn blobs_that_were_moved_or_changed_are_an_error_and_never_a_record() {
    let swap = |column: &str| {
        format!(
            "CREATE TABLE t AS SELECT key, {column} AS blob FROM operation;
             UPDATE operation SET {column} = (SELECT blob FROM t WHERE t.key <> operation.key);
             DROP TABLE t"
        )
    };
    let flip = |column: &str, place: &str| {
        format!(
            "UPDATE operation SET {column} = CAST(substr({column}, 1, {place} - 1) || \
             CASE substr({column}, {place}, 1) WHEN x'00' THEN x'01' ELSE x'00' END || \
             substr({column}, {place} + 1) AS BLOB)"
        )
    };
    let cases = [
        (swap("request"), "request"),
        (swap("answer"), "answer"),
        ("UPDATE operation SET answer = request".to_owned(), "answer"),
        ("UPDATE operation SET request = answer".to_owned(), "request"),
        (flip("request", "10"), "request"),
        (flip("answer", "length(answer)"), "answer"),
        ("UPDATE operation SET answer = substr(answer, 1, 40)".to_owned(), "answer"),
        (
            "UPDATE operation SET key = 'c' WHERE key = 'a'; UPDATE operation SET key = 'a' WHERE key = 'b'"
                .to_owned(),
            "request",
        ),
    ];
    for (sql, what) in cases {
        let error = after(&sql, "a").await;
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{sql}: {error}");
        let problem = format!(
            "a stored {what} cannot be unsealed: its bytes changed, or it was sealed for another operation"
        );
        assert_eq!(error.to_string(), problem, "{sql}");
    }
    let error = after("UPDATE operation SET request = substr(request, 1, 5)", "a").await;
    assert_eq!(error.to_string(), "a sealed request or answer is cut short");
}

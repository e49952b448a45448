use std::error::Error as _;
use std::fs;
use std::ops::Range;
use std::sync::Arc;

use rusqlite::{Connection, StatementStatus};
use tempfile::TempDir;

use steadfast_core::operation::Key;
use steadfast_core::operation::record::State;
use steadfast_core::store::{StoreErrorKind, Wrapper};
use steadfast_core::transport::Answer;
use steadfast_testkit::contract;

use super::*;

/// A directory, and a new path in it for each store.
struct StoreDirectory {
    directory: TempDir,
    files: AtomicUsize,
}

impl StoreDirectory {
    fn new() -> StoreDirectory {
        StoreDirectory { directory: support::in_memory::directory(), files: AtomicUsize::new(0) }
    }

    fn path(&self) -> PathBuf {
        let file = self.files.fetch_add(1, Ordering::Relaxed);
        // A name that a URI would read otherwise.
        self.directory.path().join(format!("calls {file} 100%?#é.db"))
    }

    /// Returns the file and those beside it, with their bytes.
    fn held(&self, path: &Path) -> Vec<(Vec<u8>, PathBuf)> {
        let mut names: Vec<_> = fs::read_dir(self.directory.path())
            .expect("a directory")
            .map(|file| file.expect("a file").path())
            .filter(|file| file.to_string_lossy().starts_with(&*path.to_string_lossy()))
            .collect();
        names.sort();
        names.into_iter().map(|name| (fs::read(&name).expect("read"), name)).collect()
    }
}

/// Gives up on a lock after some ten milliseconds.
fn wait_ten_milliseconds(tries: i32) -> bool {
    std::thread::park_timeout(std::time::Duration::from_millis(1));
    tries < 10
}

fn wanted(key: &str) -> Claim {
    steadfast_testkit::internal::claim_at(&id(key), Timestamp::from_millis(1_000))
}

fn id(key: &str) -> OperationId {
    OperationId::new(
        steadfast_core::operation::Scope::from_stored("test/v//POST /x"),
        Key::new(key).expect("a key"),
    )
}

fn open_err(path: &Path) -> StoreError {
    Sqlite::open_with(
        path,
        Settings { wait_for_lock: wait_ten_milliseconds, ..Settings::default() },
        Seals::default(),
    )
    .expect_err("refused")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds() {
    let place = StoreDirectory::new();
    let fresh = async || Arc::new(Sqlite::open(place.path()).expect("opens")) as Arc<dyn Store>;
    contract::check_all(fresh).await;
}

/// Sends every other call to the other of two stores on one file.
#[derive(Debug)]
struct Two {
    stores: [Sqlite; 2],
    turn: AtomicUsize,
}

impl Wrapper for Two {
    fn inner(&self) -> &dyn Store {
        &self.stores[self.turn.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_on_one_file_keep_the_contract_together() {
    let place = StoreDirectory::new();
    let fresh = async || {
        let path = place.path();
        let stores = [(); 2].map(|()| Sqlite::open(&path).expect("opens"));
        Arc::new(Two { stores, turn: AtomicUsize::new(0) }) as Arc<dyn Store>
    };
    contract::check_all(fresh).await;
}

/// Cached notes are valid until another process writes to the file, or the writer's own transaction fails.
#[tokio::test]
async fn the_next_claim_sees_another_writers_purge() {
    let place = StoreDirectory::new();
    let path = place.path();
    let (store, other) = (Sqlite::open(&path).expect("opens"), Sqlite::open(&path).expect("opens"));
    let fence = async |store: &Sqlite, key: &str| {
        let brief = Claim { keep: std::time::Duration::from_millis(1), ..wanted(key) };
        let Ok(Claimed::Fresh(held)) = store.claim(brief).await else { panic!("a new key") };
        let answer = Answer::new(http::StatusCode::OK, http::HeaderMap::new(), Vec::new());
        let to = State::Succeeded { answer, reconciled: false };
        let settled =
            steadfast_testkit::internal::transition_at(held.fence, Timestamp::from_millis(1_001), to);
        store.transition(&held, settled).await.expect("works").expect("the holder may");
        held.fence
    };
    assert_eq!((fence(&store, "a").await, fence(&store, "b").await), (1, 1));
    assert_eq!(other.purge(Timestamp::from_millis(2_000), 10).await.expect("works"), 2);
    assert_eq!((fence(&store, "a").await, fence(&store, "c").await), (2, 2));
    assert_eq!(store.purge(Timestamp::from_millis(2_000), 10).await.expect("works"), 2);
    assert_eq!((fence(&store, "a").await, fence(&other, "b").await), (3, 3));
}

#[tokio::test]
async fn acknowledged_writes_survive_a_reopen() {
    let place = StoreDirectory::new();
    let path = place.path();
    let store = Sqlite::open(&path).expect("opens");
    let Ok(Claimed::Fresh(first)) = store.claim(wanted("a")).await else { panic!("fresh") };
    store.close().await;
    let store = Sqlite::open(&path).expect("opens again");
    assert_eq!(store.get(&id("a")).await.expect("works"), Some(first));
    drop(store);
    let store = Sqlite::open(&path).expect("opens while the last one is still closing");
    assert!(matches!(store.claim(wanted("a")).await, Ok(Claimed::Busy { .. })));
}

#[tokio::test]
#[cfg(unix)]
async fn only_the_owner_may_read_the_file_and_those_beside_it() {
    use std::os::unix::fs::PermissionsExt;

    let place = StoreDirectory::new();
    let path = place.path();
    let store = Sqlite::open(&path).expect("opens");
    store.claim(wanted("a")).await.expect("works");
    let modes = || {
        let files =
            fs::read_dir(place.directory.path()).expect("a directory").map(|file| file.expect("a file"));
        let mode = |file: fs::DirEntry| file.metadata().expect("metadata").permissions().mode() & 0o777;
        files.map(mode).collect::<Vec<_>>()
    };
    assert_eq!(modes(), [0o600; 3], "file, log and its index");
    store.close().await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
    let _store = Sqlite::open(&path).expect("opens");
    assert_eq!(modes(), [0o600; 3], "a file that others could read");
}

#[test]
fn another_programs_file_is_refused_and_stays_as_it_is() {
    let place = StoreDirectory::new();
    let (text, database, logged) = (place.path(), place.path(), place.path());
    fs::write(&text, "name,amount\n".repeat(1_000)).expect("written");
    Connection::open(&database).and_then(|other| other.execute_batch("CREATE TABLE t (x)")).expect("made");
    let other = Connection::open(&logged).expect("made");
    other
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        .expect("made");
    for path in [&text, &database, &logged] {
        let before = place.held(path);
        let error = open_err(path);
        assert_eq!(error.kind(), StoreErrorKind::Foreign, "{error}");
        assert!(place.held(path) == before, "{} was touched", path.display());
    }
    assert_eq!(other.query_row("SELECT x FROM t", [], |row| row.get::<_, i64>(0)), Ok(1));
}

/// Leaves a file as a power cut does in its first transaction, with SQLite's rollback journal.
fn cut_off(path: &Path) {
    let source = path.with_extension("source");
    let maker = Connection::open(&source).expect("opens");
    // A cache of one page: pages go into the file before the transaction ends.
    maker.execute_batch("PRAGMA cache_size = 1; BEGIN; CREATE TABLE t (x)").expect("works");
    for _ in 0..20 {
        maker.execute_batch("INSERT INTO t VALUES (zeroblob(3000))").expect("works");
    }
    let mut bytes = fs::read(&source).expect("read");
    assert!(bytes.len() > 4_096, "nothing was written ahead of the commit");
    bytes[..512].fill(0);
    fs::write(path, bytes).expect("written");
    fs::copy(journal(&source), journal(path)).expect("a journal");
}

fn journal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-journal");
    name.into()
}

#[tokio::test]
async fn a_file_whose_creation_was_cut_off_is_created_again() {
    let place = StoreDirectory::new();
    let path = place.path();
    cut_off(&path);
    let store = Sqlite::open(&path).expect("opens");
    assert!(matches!(store.claim(wanted("a")).await, Ok(Claimed::Fresh(_))));
    assert_eq!(store.list(&Filter::default(), None, 10).await.expect("works").rows.len(), 1);
}

#[test]
fn a_file_that_resembles_a_cut_off_creation_is_left_alone() {
    let place = StoreDirectory::new();
    let [no_journal, settled_journal, other_header] = [place.path(), place.path(), place.path()];
    cut_off(&no_journal);
    fs::remove_file(journal(&no_journal)).expect("removed");
    cut_off(&settled_journal);
    fs::write(journal(&settled_journal), [0; 512]).expect("as SQLite leaves one that is done with");
    cut_off(&other_header);
    let mut bytes = fs::read(&other_header).expect("read");
    bytes[99] = 1;
    fs::write(&other_header, bytes).expect("written");
    for path in [no_journal, settled_journal, other_header] {
        let read = || (fs::read(&path).expect("read"), fs::read(journal(&path)).ok());
        let before = read();
        assert_eq!(open_err(&path).kind(), StoreErrorKind::Foreign);
        assert!(read() == before, "{} was touched", path.display());
    }
}

#[test]
fn without_create_a_file_without_a_store_is_absent_and_unchanged() {
    let place = StoreDirectory::new();
    let [missing, empty, unmade] = [place.path(), place.path(), place.path()];
    fs::write(&empty, "").expect("written");
    cut_off(&unmade);
    for (path, problem) in [
        (&missing, "there is no file PATH"),
        (&empty, "PATH is an empty file, not a store"),
        (&unmade, "PATH is not a store yet; the service that opens it makes it one"),
    ] {
        let before = place.held(path);
        let error = Sqlite::builder(path).create(false).open().expect_err("refused");
        assert_eq!(error.kind(), StoreErrorKind::Absent, "{error}");
        assert_eq!(error.to_string(), problem.replace("PATH", &path.display().to_string()));
        assert!(place.held(path) == before, "{} was touched", path.display());
        drop(Sqlite::open(path).expect("a service makes it"));
        Sqlite::builder(path).create(false).open().expect("now there is one");
    }
    for (path, problem) in [
        (place.directory.path().to_owned(), "PATH is not a file"),
        (empty.join("calls.db"), "there is no file PATH"),
    ] {
        let error = Sqlite::builder(&path).create(false).open().expect_err("refused");
        assert_eq!(error.kind(), StoreErrorKind::Absent, "{error}");
        assert_eq!(error.to_string(), problem.replace("PATH", &path.display().to_string()));
    }
    let other = place.path();
    fs::write(&other, "name,amount\n".repeat(1_000)).expect("written");
    let error = Sqlite::builder(&other).create(false).open().expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Foreign, "{error}");
}

#[test]
fn a_statement_is_prepared_once_whatever_values_it_gets() {
    let place = StoreDirectory::new();
    let path = place.path();
    let writer = open::writer(&path, Settings::default(), &Seals::default()).expect("opens");
    let reader = open::reader(&path, Settings::default()).expect("opens");
    for connection in [writer, reader] {
        let mut statement = connection.prepare("SELECT number FROM operation LIMIT ?1").expect("prepares");
        for limit in 1..4 {
            assert!(!statement.exists([limit]).expect("works"));
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_also_while_the_file_is_open() {
    let place = StoreDirectory::new();
    let path = place.path();
    let store = Sqlite::open(&path).expect("opens");
    store.claim(wanted("a")).await.expect("works");
    let other = Connection::open(&path).expect("opens");
    other.pragma_update(None, "user_version", migrations::SCHEMA_VERSION + 1).expect("a newer release came");
    let error = store.claim(wanted("b")).await.expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Newer, "{error}");
    assert_eq!(open_err(&path).kind(), StoreErrorKind::Newer, "the version is in the log");
    drop(other);
    store.close().await;
    let before = fs::read(&path).expect("read");
    assert_eq!(open_err(&path).kind(), StoreErrorKind::Newer, "the version is in the file");
    assert!(fs::read(&path).expect("read") == before, "untouched");
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_never_a_record() {
    let place = StoreDirectory::new();
    let path = place.path();
    let store = Sqlite::open(&path).expect("opens");
    for nth in 0..200 {
        store.claim(wanted(&nth.to_string())).await.expect("works");
    }
    store.close().await;
    let mut bytes = fs::read(&path).expect("read");
    bytes[4_096..].fill(0xA5);
    fs::write(&path, bytes).expect("written");
    let error = match Sqlite::open(&path) {
        Ok(store) => store.get(&id("7")).await.expect_err("damaged"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn a_full_file_is_an_error_and_what_was_there_stays() {
    let place = StoreDirectory::new();
    let path = place.path();
    let settings = Settings { pages_max: Some(64), ..Settings::default() };
    let store = Sqlite::open_with(&path, settings, Seals::default()).expect("opens");
    let mut kept = 0;
    let error = loop {
        let mut big = wanted(&kept.to_string());
        Arc::make_mut(&mut big.request).body = vec![7; 20_000].into();
        match store.claim(big).await {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
    assert_eq!(store.tally().await.expect("works")[0].count, kept);
    assert!(
        matches!(store.claim(wanted("0")).await, Ok(Claimed::Busy { .. })),
        "what it knows it answers for"
    );
}

#[tokio::test]
async fn a_locked_file_is_an_error_after_a_wait() {
    let place = StoreDirectory::new();
    let path = place.path();
    let settings = Settings { wait_for_lock: wait_ten_milliseconds, ..Settings::default() };
    let store = Sqlite::open_with(&path, settings, Seals::default()).expect("opens");
    let other = Connection::open(&path).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("holds it");
    let error = store.claim(wanted("a")).await.expect_err("held");
    assert_eq!(error.kind(), StoreErrorKind::Locked, "{error}");
    assert_eq!(open_err(&path).kind(), StoreErrorKind::Locked);
    assert!(store.get(&id("a")).await.expect("readers are not in the way").is_none());
    other.execute_batch("COMMIT").expect("lets go");
    assert!(matches!(store.claim(wanted("a")).await, Ok(Claimed::Fresh(_))));
}

#[tokio::test]
async fn a_panic_of_the_writer_fails_every_call_and_blocks_none() {
    let place = StoreDirectory::new();
    let store = Sqlite::open(place.path()).expect("opens");
    let panics = |_: &Connection| -> Result<(), StoreError> { panic!("on purpose") };
    let (first, second) = tokio::join!(store.writer.run(OnDrop::Finish, panics), store.claim(wanted("a")));
    for error in [first.expect_err("panicked"), second.expect_err("behind it")] {
        assert_eq!(error.kind(), StoreErrorKind::Stopped);
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("on purpose"));
    }
    let later = store.claim(wanted("b")).await.expect_err("stopped");
    assert_eq!(later.kind(), StoreErrorKind::Stopped);
    assert!(store.get(&id("a")).await.expect("readers go on").is_none(), "its group was rolled back");
    store.close().await;
}

/// Keeps the writer busy until the other end is dropped.
async fn busy(store: &Sqlite) -> std::sync::mpsc::Sender<()> {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (began, begun) = tokio::sync::oneshot::channel();
    let mut began = Some(began);
    let (reply, _) = tokio::sync::oneshot::channel();
    let work = move |_: &prepared::Prepared<'_>, (): &()| {
        began.take().map(|began| began.send(()));
        let _ = held.recv();
        Ok(())
    };
    store.writer.enqueue(OnDrop::Finish, (), work, reply).await.expect("room");
    begun.await.expect("it began");
    release
}

#[tokio::test]
async fn a_full_queue_blocks_the_next_caller_who_may_go_away() {
    let place = StoreDirectory::new();
    let store = Arc::new(Sqlite::open(place.path()).expect("opens"));
    let release = busy(&store).await;
    let mut queued = Vec::new();
    for nth in 0..QUEUE_MAX {
        let store = store.clone();
        queued.push(tokio::spawn(async move { store.claim(wanted(&nth.to_string())).await }));
    }
    while store.writer.room() > 0 {
        tokio::task::yield_now().await;
    }
    let mut late = std::pin::pin!(store.claim(wanted("late")));
    let waits =
        std::future::poll_fn(|context| std::task::Poll::Ready(late.as_mut().poll(context).is_pending()));
    assert!(waits.await, "it waits");
    // A claim in the queue whose caller goes away holds nothing; neither does one that waits for the queue.
    queued.remove(5).abort();
    let gone = store.clone();
    let gone = tokio::spawn(async move { gone.claim(wanted("gone")).await });
    tokio::task::yield_now().await;
    gone.abort();
    assert!(gone.await.expect_err("aborted").is_cancelled());
    drop(release);
    assert!(matches!(late.await, Ok(Claimed::Fresh(_))));
    for task in queued {
        assert!(matches!(task.await.expect("no panic"), Ok(Claimed::Fresh(_))));
    }
    for (key, there) in [("5", false), ("gone", false), ("late", true), ("6", true)] {
        assert_eq!(store.get(&id(key)).await.expect("works").is_some(), there, "{key}");
    }
}

#[tokio::test]
async fn a_settlement_is_written_after_its_caller_went_away() {
    let place = StoreDirectory::new();
    let store = Arc::new(Sqlite::open(place.path()).expect("opens"));
    let Claimed::Fresh(held) = store.claim(wanted("a")).await.expect("works") else { panic!("a new key") };
    let release = busy(&store).await;
    let settling = store.clone();
    let to = State::Dead { reason: steadfast_core::Reason::Unknown, answer: None };
    let transition = steadfast_testkit::internal::transition_at(1, Timestamp::from_millis(1_001), to);
    let task = tokio::spawn(async move { settling.transition(&held, transition).await.map(|_| ()) });
    while store.writer.room() == QUEUE_MAX {
        tokio::task::yield_now().await;
    }
    task.abort();
    assert!(task.await.expect_err("aborted").is_cancelled());
    drop(release);
    store.claim(wanted("b")).await.expect("works");
    let record = store.get(&id("a")).await.expect("works").expect("a record");
    assert_eq!(record.phase(), Phase::Dead);
}

#[tokio::test]
async fn one_bad_call_does_not_cost_its_group() {
    let place = StoreDirectory::new();
    let store = Sqlite::open(place.path()).expect("opens");
    let release = busy(&store).await;
    let bad = |connection: &Connection| -> Result<(), StoreError> {
        let error = connection.execute_batch("INSERT INTO nowhere VALUES (1)");
        error.map_err(|error| failure::failed("write nowhere", error))
    };
    let together = async {
        tokio::join!(store.claim(wanted("a")), store.writer.run(OnDrop::Skip, bad), store.claim(wanted("b")))
    };
    let (first, bad, last) = tokio::join!(together, async { drop(release) }).0;
    assert_eq!(bad.expect_err("no such table").to_string(), "SQLite could not write nowhere");
    assert!(matches!((first, last), (Ok(Claimed::Fresh(_)), Ok(Claimed::Fresh(_)))));
}

#[tokio::test]
async fn a_process_without_keys_or_the_seal_feature_refuses_sealed_rows() {
    let place = StoreDirectory::new();
    let path = place.path();
    let store = Sqlite::open(&path).expect("opens");
    store.claim(wanted("a")).await.expect("works");
    store.claim(wanted("b")).await.expect("works");
    let sealed =
        "UPDATE operation SET request = CAST(x'02abababababababab' || zeroblob(60) AS BLOB) WHERE key = 'a'";
    Connection::open(&path).and_then(|other| other.execute_batch(sealed)).expect("written");
    let error = store.get(&id("a")).await.expect_err("sealed");
    assert_eq!(error.kind(), StoreErrorKind::Sealed, "{error}");
    assert!(store.get(&id("b")).await.expect("works").is_some());
    Connection::open(&path)
        .and_then(|other| other.execute_batch("INSERT INTO seal_key VALUES (x'abababababababab')"))
        .expect("written");
    let error = open_err(&path);
    assert_eq!(error.kind(), StoreErrorKind::Sealed);
    let cannot = if cfg!(feature = "seal") { "" } else { "; this build cannot unseal (feature `seal`)" };
    let problem =
        "the file is sealed: 1 of its operations need the key abababababababab, which was not given";
    assert_eq!(error.to_string(), format!("{problem}{cannot}"));
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let place = StoreDirectory::new();
    let path = place.directory.path().join("nowhere/calls.db");
    let error = open_err(&path);
    assert_eq!(error.to_string(), format!("{} cannot be created", path.display()));
    assert_eq!(error.kind(), StoreErrorKind::Other);
}

#[tokio::test]
async fn a_file_whose_process_died_in_a_checkpoint_is_opened() {
    let place = StoreDirectory::new();
    let (path, copy) = (place.path(), place.path());
    let beside = |path: &Path| PathBuf::from(format!("{}-wal", path.display()));
    let store = Sqlite::open(&path).expect("opens");
    for nth in 0..100 {
        store.claim(wanted(&nth.to_string())).await.expect("works");
    }
    let short = fs::read(&path).expect("read");
    fs::copy(beside(&path), beside(&copy)).expect("the log");
    store.close().await;
    // The first page has arrived in the file, the others have not.
    let whole = fs::read(&path).expect("read");
    assert!(whole.len() > short.len());
    fs::write(&copy, [&whole[..4_096], &short[4_096..]].concat()).expect("written");
    let store = Sqlite::open(&copy).expect("opens");
    assert_eq!(store.tally().await.expect("works")[0].count, 100);
}

#[tokio::test]
async fn the_log_is_checkpointed_beside_the_writer() {
    let place = StoreDirectory::new();
    let store = Sqlite::open(place.path()).expect("opens");
    let release = busy(&store).await;
    store.checkpointer.run(OnDrop::Skip, log::checkpoint).await.expect("a busy writer is not waited for");
    drop(release);
    let length = || fs::metadata(store.path()).expect("a file").len();
    for key in 0..200 {
        store.claim(wanted(&key.to_string())).await.expect("works");
    }
    let before = length();
    store.checkpointer.run(OnDrop::Skip, log::checkpoint).await.expect("nobody is in its way");
    assert!(length() > before, "{before} bytes as before");
}

/// Claims these operations at once, each with a body of so many KiB.
async fn claim_many(store: &Arc<Sqlite>, keys: Range<usize>, kib: usize) {
    let claims = keys.map(|key| {
        let (store, mut claim) = (store.clone(), wanted(&key.to_string()));
        Arc::make_mut(&mut claim.request).body = vec![b'x'; kib * 1024].into();
        tokio::spawn(async move { store.claim(claim).await.map(drop) })
    });
    for claim in claims.collect::<Vec<_>>() {
        claim.await.expect("no panic").expect("works");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_checkpointed_automatically() {
    let place = StoreDirectory::new();
    let store = Arc::new(Sqlite::open(place.path()).expect("opens"));
    // Fewer pages than the writer waits for, and more than the checkpointer does.
    claim_many(&store, 0..1_600, 16).await;
    // The queue is of one, so this waits for the offered checkpoint.
    store.checkpointer.run(OnDrop::Skip, |_| Ok(())).await.expect("works");
    let moved = fs::metadata(store.path()).expect("a file").len();
    assert!(moved > 1024 * 1024, "{moved} bytes in the file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_restarts_and_does_not_grow_for_ever() {
    let place = StoreDirectory::new();
    let store = Arc::new(Sqlite::open(place.path()).expect("opens"));
    // 105 MiB, in parts of 4 MiB. While the other connection checkpoints, the writer's own checkpoint is refused and the
    // log grows on, for as long as that takes. So each part waits for it: a log is at most as long as the writer waits
    // for, and the part in which it was refused, and the one group of the next part.
    for part in 0..30 {
        claim_many(&store, part * 100..(part + 1) * 100, 32).await;
        store.checkpointer.run(OnDrop::Skip, |_| Ok(())).await.expect("works");
    }
    let log = fs::metadata(open::beside(store.path(), "-wal")).expect("a log").len();
    assert!(log < 80 * 1024 * 1024, "{log} bytes of log");
}

#[test]
fn a_file_of_a_schema_that_was_never_published_is_refused_and_left_as_it_is() {
    let place = StoreDirectory::new();
    let path = place.path();
    for version in [1, 19] {
        let raw = Connection::open(&path).expect("opens");
        raw.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS operation (number INTEGER PRIMARY KEY); PRAGMA application_id = 1398031940; \
             PRAGMA user_version = {version}; PRAGMA journal_mode = WAL"
        ))
        .expect("made");
        drop(raw);
        let before = fs::read(&path).expect("read");
        for error in [open_err(&path), Sqlite::builder(&path).create(false).open().expect_err("refused")] {
            assert_eq!(error.kind(), StoreErrorKind::Older);
            let problem = format!("has schema version {version}, which was never published");
            assert!(
                error.to_string().contains(&problem) && error.to_string().contains("a new file"),
                "{error}"
            );
        }
        assert!(fs::read(&path).expect("read") == before, "untouched");
    }
}

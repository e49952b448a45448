//! SQLite and several processes: this binary runs itself again as the other one.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{Claim, Claimed, Phase, State};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::Store;
use steadfast_core::transport::{Answer, Request};
use steadfast_sqlite::Sqlite;
use steadfast_testkit::contract;
use support::commands;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const KEYS: usize = 300;

/// The user `nobody`, who owns no file, on every Unix that we know.
#[cfg(unix)]
const NOBODY: u32 = 65_534;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_sqlite_keeps_the_contract() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = std::sync::atomic::AtomicUsize::new(0);
    let fresh = async || {
        let file = files.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let store: Arc<dyn Store> =
            Arc::new(Sqlite::open(directory.path().join(format!("{file}.db"))).expect("opens"));
        Arc::new(store) as Arc<dyn Store>
    };
    contract::check_all(fresh).await;
}

#[test]
fn two_processes_claim_each_key_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls.db");
    // Neither finds the file: they make it together.
    let children = [start(&path, "claim"), start(&path, "claim")];
    let lines = children.map(lines_of);
    let won: Vec<&String> = lines.iter().flatten().collect();
    let distinct: BTreeSet<&String> = won.iter().copied().collect();
    assert_eq!((won.len(), distinct.len()), (KEYS, KEYS), "{} and {}", lines[0].len(), lines[1].len());
}

#[test]
fn two_processes_sweep_each_operation_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls.db");
    assert_eq!(lines_of(start(&path, "claim")).len(), KEYS);
    let children = [start(&path, "sweep"), start(&path, "sweep")];
    let lines = children.map(lines_of);
    let taken: Vec<&String> = lines.iter().flatten().collect();
    let distinct: BTreeSet<&String> = taken.iter().copied().collect();
    assert_eq!((taken.len(), distinct.len()), (KEYS, KEYS), "{} and {}", lines[0].len(), lines[1].len());
}

#[tokio::test]
async fn a_killed_processs_acknowledged_writes_are_all_on_record() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls.db");
    let mut acknowledged = BTreeSet::new();
    for round in 0..5 {
        let mut child = start(&path, &format!("settle {round}"));
        let mut output = BufReader::new(child.stderr.take().expect("piped"));
        // Killed at another point of its work each time, and in the middle of it.
        for _ in 0..100 + round * 37 {
            let mut line = String::new();
            output.read_line(&mut line).expect("a line");
            acknowledged.insert(line.trim().to_owned());
        }
        child.kill().expect("SIGKILL");
        // Lines that it wrote before it died count as well; a last line that was cut off does not.
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut output, &mut rest).expect("the rest");
        acknowledged
            .extend(rest.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(String::from));
        child.wait().expect("gone");
    }
    let store = Sqlite::open(&path).expect("opens");
    for line in acknowledged.iter().filter(|line| !line.is_empty()) {
        let (action, key) = line.split_once(' ').expect("a word and a key");
        let record = store.get(&id(key)).await.expect("works").unwrap_or_else(|| panic!("{line} is lost"));
        if action == "settled" {
            assert!(matches!(record.state, State::Succeeded { .. }), "{line}: {:?}", record.state);
        }
    }
    assert!(acknowledged.len() > 800, "{} acknowledged writes", acknowledged.len());
}

/// Mode bits bind every user but root, so that a child of root's opens the files as `nobody`.
#[cfg(unix)]
#[tokio::test]
async fn a_file_without_write_permission_is_read_only_and_unchanged() {
    use std::fs::{Permissions, read_dir, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    let directory = tempfile::tempdir().expect("a directory");
    let is_root = directory.path().metadata().expect("there").uid() == 0;
    let mode =
        |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).expect("its owner may");
    mode(directory.path(), 0o755);
    let place = |name: &str| {
        let place = directory.path().join(name);
        std::fs::create_dir(&place).expect("a directory");
        place
    };
    let [file, around, nothing] = ["file", "around", "nothing"].map(place);
    for place in [&file, &around] {
        let store = Sqlite::open(place.join("calls.db")).expect("opens");
        store.claim(claim("a")).await.expect("works");
        store.close().await;
        if is_root {
            chown(place.join("calls.db"), Some(NOBODY), None).expect("root may");
        }
    }
    mode(&file.join("calls.db"), 0o444);
    mode(&around, 0o555);
    mode(&nothing, 0o555);
    for place in [&file, &around, &nothing] {
        let path = place.join("calls.db");
        let before = std::fs::read(&path).ok();
        let lines = lines_of(start_as(&path, "open", is_root.then_some(directory.path())));
        assert_eq!(lines, ["ReadOnly"], "{}", place.display());
        assert!(std::fs::read(&path).ok() == before, "{} was touched", path.display());
        let beside = read_dir(place).expect("a directory").count();
        assert_eq!(beside, usize::from(before.is_some()), "{}: something was made", place.display());
        mode(place, 0o755);
    }
}

/// The child process of the tests above, not a test by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let (Ok(path), Ok(what)) = (std::env::var("STORE_PATH"), std::env::var("STORE_WORK")) else { return };
    if what == "open" {
        let kind = Sqlite::open(path).map_or_else(|error| format!("{:?}", error.kind()), |_| "opened".into());
        std::io::stderr().write_all(format!("{kind}\n").as_bytes()).expect("somebody listens");
        return;
    }
    let store = Arc::new(Sqlite::open(path).expect("opens"));
    match what.split_once(' ') {
        None if what == "claim" => claim_all(store).await,
        None => sweep(&store).await,
        Some((_, round)) => settle_for_ever(&store, round).await,
    }
}

async fn claim_all(store: Arc<Sqlite>) {
    let tasks = (0..KEYS).map(|nth| {
        let store = store.clone();
        tokio::spawn(async move {
            if let Claimed::Fresh(record) = store.claim(claim(&nth.to_string())).await.expect("works") {
                acknowledge("claimed", record.id.key.as_str());
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}

async fn sweep(store: &Sqlite) {
    let now = NOW.plus(Duration::from_secs(60));
    loop {
        let take = commands::takeover(Phase::InProgress, now);
        let taken = store.take(take).await.expect("works");
        if taken.is_empty() {
            return;
        }
        for record in taken {
            acknowledge("took", record.id.key.as_str());
        }
    }
}

async fn settle_for_ever(store: &Sqlite, round: &str) {
    for nth in 0.. {
        let key = format!("{round}-{nth}");
        let claimed = store.claim(claim(&key)).await.expect("works");
        let Claimed::Fresh(held) = claimed else { panic!("a new key") };
        acknowledge("claimed", &key);
        let answer = Answer::new(StatusCode::OK, HeaderMap::new(), vec![7; 1024]);
        let to = State::Succeeded { answer, reconciled: false };
        let transition = commands::transition(&held, NOW, to);
        store.transition(&held, transition).await.expect("works").expect("the holder may write");
        acknowledge("settled", &key);
    }
}

/// Writes one line in one write, so that a kill cuts between lines.
fn acknowledge(action: &str, key: &str) {
    let line = format!("{action} {key}\n");
    let mut output = std::io::stderr().lock();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).expect("somebody listens");
}

/// Runs this binary again, with `child` as its only test. Its lines come by standard error, where the test
/// harness writes nothing.
fn start(path: &Path, work: &str) -> Child {
    start_as(path, work, None)
}

/// Starts the child; as the user `nobody` if there is a `place` that this user can reach, to which this binary
/// is copied.
fn start_as(path: &Path, work: &str, place: Option<&Path>) -> Child {
    let mut binary = std::env::current_exe().expect("this binary");
    if let Some(place) = place {
        let copy = place.join("child");
        if !copy.exists() {
            std::fs::copy(&binary, &copy).expect("a copy");
        }
        binary = copy;
    }
    let mut command = Command::new(binary);
    #[cfg(unix)]
    if place.is_some() {
        use std::os::unix::process::CommandExt;
        command.uid(NOBODY).gid(NOBODY);
    }
    command
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env("STORE_PATH", path)
        .env("STORE_WORK", work)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

fn lines_of(child: Child) -> Vec<String> {
    let output = child.wait_with_output().expect("runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{text}");
    text.lines().map(String::from).collect()
}

fn id(key: &str) -> OperationId {
    OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new(key).expect("a key"))
}

fn claim(key: &str) -> Claim {
    let request = Request::new(Method::POST, "https://vendor.test/x".parse().expect("a URL"));
    commands::claim(&id(key), request, NOW)
}

//! A store in a file knows its place: a copy sends nothing until an operator declares it, and routine
//! operations need no declaration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use steadfast::clock::{Clock as _, SystemClock};
use steadfast::store::{self, Here, Said, Sqlite, StoreUrl};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::Answer;
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Effect, Obtained};
use tempfile::TempDir;

use support::rig::Rig;

/// A service on a file, with a network of its own.
struct Shop {
    store: Arc<Sqlite>,
    client: Client,
    network: ScriptedTransport,
}

impl Shop {
    fn open(path: &Path) -> Shop {
        let store = Arc::new(Sqlite::open(path).expect("opens"));
        let answer = Answer::new(http::StatusCode::OK, http::HeaderMap::new(), "{\"id\":\"ch_1\"}");
        let network = ScriptedTransport::new().always(answer);
        let setup = Rig::of(Stripe::new("sk_test_123")).store(store.clone()).network(network.clone());
        Shop { store, client: setup.client(), network }
    }

    fn call(&self, key: &str) -> Call {
        self.client.post("/v1/charges").key(key).form(&[("amount", "1000"), ("currency", "usd")])
    }

    /// Opens a service that has paid `paid`, and left so many calls to a dispatcher.
    async fn with_backlog(path: &Path, calls: usize) {
        let shop = Shop::open(path);
        shop.call("paid").send().await.expect("paid");
        for nth in 0..calls {
            shop.call(&format!("order-{nth}")).enqueue().await.expect("is on record");
        }
        shop.close().await;
    }

    /// Returns the number of requests that a dispatcher has sent, after it delivered all due operations.
    async fn delivers(&self) -> usize {
        while self.client.recover(100).await.expect("the store is open").taken > 0 {}
        self.network.requests().len()
    }

    async fn declare(&self, declared: Option<Said>) -> Here {
        let now = SystemClock::new().wall();
        store::here(&*self.store, declared, ("ada", "ticket 7"), now).await.expect("the store works")
    }

    /// Asserts that nothing is taken, admitted or claimed, and that ended operations are replayed.
    async fn assert_displaced(&self) {
        let why = self.declare(None).await.displaced.expect("it is a copy");
        assert!(why.contains("the file is another one") && why.contains("inode"), "{why}");
        let error = self.client.recover(100).await.expect_err("it takes nothing");
        assert!(error.is_store(), "{error:#}");
        let replayed = self.call("paid").send().await.expect("it has ended");
        assert_eq!(replayed.obtained(), Obtained::Replayed);
        for error in [
            self.call("new").send().await.expect_err("perhaps the original has it"),
            self.call("other").enqueue().await.map(drop).expect_err("it would be left to the original"),
        ] {
            assert_eq!((error.is_store(), error.effect()), (true, Effect::Unknown), "{error:#}");
            assert!(format!("{error:#}").contains("steadfast here --moved"), "{error:#}");
        }
        let error = self.call("never").recorded().await.expect_err("who knows");
        assert_eq!(error.effect(), Effect::Unknown, "{error:#}");
        assert_eq!(self.network.requests().len(), 0);
    }

    async fn close(self) {
        let Shop { store, client, .. } = self;
        drop(client);
        Arc::into_inner(store).expect("no client is left").close().await;
    }
}

/// A directory whose file system reports when a file was created; `None` where it does not, and copies cannot
/// be distinguished.
fn directory() -> Option<TempDir> {
    let directory = tempfile::tempdir().expect("a directory");
    let tells = fs::metadata(directory.path()).expect("is there").created().is_ok();
    tells.then_some(directory)
}

fn files(directory: &TempDir) -> [PathBuf; 3] {
    ["calls.db", "copy.db", "third.db"].map(|name| directory.path().join(name))
}

#[tokio::test]
async fn a_copied_file_sends_nothing_and_leaves_open_operations_to_the_original() {
    let Some(directory) = directory() else { return };
    let [original, copy, _] = files(&directory);
    Shop::with_backlog(&original, 10).await;
    fs::copy(&original, &copy).expect("copies");
    let staging = Shop::open(&copy);
    staging.assert_displaced().await;
    let error = staging.call("order-0").send().await.expect_err("perhaps the original sends it");
    assert_eq!((error.is_store(), error.effect()), (true, Effect::Unknown), "{error:#}");
    let declared = staging.declare(Some(Said::Copy)).await;
    assert_eq!((declared.operations, declared.rows, declared.displaced), (10, 0, None));
    assert_eq!(staging.delivers().await, 0);
    let error = staging.call("order-0").send().await.expect_err("the original sends it");
    assert_eq!((error.is_dead_letter(), error.effect()), (true, Effect::Unknown), "{error:#}");
    staging.call("new").send().await.expect("it is a store of its own now");
    assert_eq!(staging.network.requests().len(), 1);
    staging.close().await;
    // It is at home from then on, and so is the original.
    assert_eq!(Shop::open(&copy).delivers().await, 0);
    assert_eq!(Shop::open(&original).delivers().await, 10);
}

/// A service that only writes rows has no operation on record, and its copy is one all the same.
#[tokio::test]
async fn a_copy_of_rows_alone_leaves_them_to_the_original() {
    let Some(directory) = directory() else { return };
    let [original, copy, _] = files(&directory);
    let shop = Shop::open(&original);
    let file = rusqlite::Connection::open(&original).expect("opens");
    shop.call("row").blocking_enqueue_in(&file).expect("is written");
    drop(file);
    shop.close().await;
    fs::copy(&original, &copy).expect("copies");
    let staging = Shop::open(&copy);
    staging.client.recover(100).await.expect_err("it takes nothing");
    let declared = staging.declare(Some(Said::Copy)).await;
    assert_eq!((declared.operations, declared.rows, declared.displaced), (0, 1, None));
    assert_eq!(staging.delivers().await, 0);
    staging.close().await;
    let shop = Shop::open(&original);
    assert_eq!(shop.delivers().await, 1);
}

/// limits.md, "What it cannot do": the file is at its place, and nothing in it or about it shows that it is
/// older.
#[tokio::test]
async fn a_backup_that_is_copied_over_the_file_looks_like_the_original() {
    let Some(directory) = directory() else { return };
    let [original, backup, _] = files(&directory);
    Shop::with_backlog(&original, 3).await;
    fs::copy(&original, &backup).expect("copies");
    let shop = Shop::open(&original);
    assert_eq!(shop.delivers().await, 3);
    shop.close().await;
    fs::copy(&backup, &original).expect("copies over it");
    assert_eq!(Shop::open(&original).delivers().await, 3, "for the second time");
}

#[tokio::test]
async fn a_moved_store_continues_once_it_is_declared_while_the_service_runs() {
    let Some(directory) = directory() else { return };
    let [original, moved, _] = files(&directory);
    Shop::with_backlog(&original, 10).await;
    fs::copy(&original, &moved).expect("copies");
    fs::remove_file(&original).expect("is gone");
    let shop = Shop::open(&moved);
    shop.assert_displaced().await;
    let script = Shop::open(&moved);
    assert_eq!(script.declare(Some(Said::Moved)).await.displaced, None);
    assert_eq!(shop.delivers().await, 10);
}

#[tokio::test]
async fn one_announced_move_passes_and_the_next_does_not() {
    let Some(directory) = directory() else { return };
    let [original, moved, again] = files(&directory);
    Shop::with_backlog(&original, 10).await;
    let script = Shop::open(&original);
    assert!(script.declare(Some(Said::WillMove)).await.moves_until.is_some());
    script.close().await;
    fs::copy(&original, &moved).expect("copies");
    fs::remove_file(&original).expect("is gone");
    let shop = Shop::open(&moved);
    assert_eq!(shop.delivers().await, 10);
    shop.close().await;
    fs::copy(&moved, &again).expect("copies");
    Shop::open(&again).assert_displaced().await;
}

#[tokio::test]
async fn routine_operations_need_no_declaration() {
    let Some(directory) = directory() else { return };
    let [path, other, third] = files(&directory);
    // A template: it was opened, and has no records.
    Shop::open(&other).close().await;
    fs::copy(&other, &path).expect("copies");
    Shop::with_backlog(&path, 1).await;
    let mut delivered = 0;
    for routine in ["a restart", "VACUUM", "mv", "a link to it", "another name of the directory"] {
        let path = match routine {
            "VACUUM" => rusqlite::Connection::open(&path)
                .and_then(|file| file.execute_batch("VACUUM"))
                .map(|()| path.clone())
                .expect("is written anew"),
            "mv" => fs::rename(&path, &third)
                .and_then(|()| fs::rename(&third, &path))
                .map(|()| path.clone())
                .expect("mv"),
            #[cfg(unix)]
            "a link to it" => {
                std::os::unix::fs::symlink(&path, &third).map(|()| third.clone()).expect("ln -s")
            }
            "another name of the directory" => directory.path().join(".").join("calls.db"),
            _ => path.clone(),
        };
        let shop = Shop::open(&path);
        assert_eq!(shop.declare(None).await.displaced, None, "{routine}");
        delivered += shop.delivers().await;
        shop.call(routine).send().await.expect(routine);
        shop.call("paid").send().await.expect("it is replayed");
        shop.close().await;
    }
    assert_eq!(delivered, 1);
}

/// A file from before stores recorded their place: its origin is unknown, and it stays where it is.
#[tokio::test]
async fn a_file_without_a_note_gets_one_when_it_is_opened() {
    let Some(directory) = directory() else { return };
    let [path, copy, _] = files(&directory);
    Shop::with_backlog(&path, 2).await;
    let file = rusqlite::Connection::open(&path).expect("opens");
    file.execute_batch("UPDATE store_state SET place = NULL").expect("works");
    drop(file);
    let shop = Shop::open(&path);
    assert_eq!(shop.delivers().await, 2);
    shop.close().await;
    fs::copy(&path, &copy).expect("copies");
    Shop::open(&copy).assert_displaced().await;
}

/// `docker run -v ./calls.db:/app/calls.db`: the log beside it stays in the container.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_client_of_a_real_vendor_is_built_on_a_file_that_is_mounted_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let [source, file, _] = files(&directory);
    let (volume, inside) = (directory.path().join("volume"), directory.path().join("inside"));
    fs::create_dir(&volume).and_then(|()| fs::create_dir(&inside)).expect("directories");
    for empty in [&source, &file] {
        fs::write(empty, "").expect("an empty file");
    }
    // Each is closed before the file is opened by another name: its log goes into the file at the end.
    let client = async |path: &Path, vendor: Stripe| {
        let store = Arc::new(Sqlite::open(path).expect("opens"));
        let built = Client::builder(vendor).store(Arc::clone(&store)).build().map(drop);
        Arc::into_inner(store).expect("no client is left").close().await;
        built
    };
    let stripe = || Stripe::new("sk_test_123");
    let fake = || stripe().base_url("http://127.0.0.1:9");
    if let Some(_mounted) = Mounted::over(&source, &file) {
        let error = client(&file, stripe()).await.expect_err("its log would be lost");
        assert!(format!("{error:#}").contains("the file alone is mounted"), "{error:#}");
        client(&file, fake()).await.expect("a test may");
    }
    if let Some(_mounted) = Mounted::over(&volume, &inside) {
        client(&inside.join("calls.db"), stripe()).await.expect("a volume at its directory");
    }
    let other = directory.path().join("other.db");
    let path = directory.path().join("linked.db");
    client(&path, stripe()).await.expect("one name");
    fs::hard_link(&path, &other).expect("a second name");
    for path in [&path, &other] {
        let error = client(path, stripe()).await.expect_err("a log for each name");
        assert!(format!("{error:#}").contains("2 names"), "{error:#}");
        client(path, fake()).await.expect("a test may");
    }
    fs::remove_file(&other).expect("is removed");
    client(&path, stripe()).await.expect("one name again");
}

#[test]
fn a_network_file_system_is_allowed_in_the_stores_url() {
    let url: StoreUrl = "sqlite:/var/lib/shop/calls.db?network_fs=allow".parse().expect("a URL");
    assert_eq!(url.path(), Some(Path::new("/var/lib/shop/calls.db")));
    assert_eq!(url.to_string(), "sqlite:/var/lib/shop/calls.db?network_fs=allow");
    for bad in ["sqlite:calls.db?network_fs=yes", "sqlite:calls.db?mode=ro", "sqlite:?network_fs=allow"] {
        assert!(bad.parse::<StoreUrl>().is_err(), "{bad}");
    }
}

/// A mount that ends with the test.
#[cfg(target_os = "linux")]
struct Mounted(PathBuf);

#[cfg(target_os = "linux")]
impl Mounted {
    /// `None` where the test may not mount.
    fn over(source: &Path, target: &Path) -> Option<Mounted> {
        let mounted = Command::new("mount").arg("--bind").args([source, target]).output();
        mounted.is_ok_and(|declared| declared.status.success()).then(|| Mounted(target.to_owned()))
    }
}

#[cfg(target_os = "linux")]
impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use steadfast_core::store::{Memory, Store, Wrapper};
use steadfast_testkit::contract;

use crate::Sqlite;

/// A directory, and a new store in it each time.
struct Shelf {
    directory: TempDir,
    files: AtomicUsize,
}

impl Shelf {
    fn new() -> Shelf {
        Shelf { directory: support::in_memory::directory(), files: AtomicUsize::new(0) }
    }

    fn path(&self) -> std::path::PathBuf {
        let file = self.files.fetch_add(1, Ordering::Relaxed);
        self.directory.path().join(format!("{file}.db"))
    }

    fn file(&self) -> Arc<dyn Store> {
        Arc::new(Sqlite::open(self.path()).expect("opens"))
    }
}

#[tokio::test]
async fn records_are_copied_from_file_to_memory_and_back() {
    let shelf = Shelf::new();
    contract::check_copy(shelf.file(), Arc::new(Memory::new())).await;
    contract::check_copy(Arc::new(Memory::new()), shelf.file()).await;
}

/// Sends every other call to the other of two stores on one file, as of two processes.
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

#[tokio::test]
async fn no_process_writes_to_a_store_that_another_one_closed() {
    let shelf = Shelf::new();
    let two = async || {
        let path = shelf.path();
        let stores = [(); 2].map(|()| Sqlite::open(&path).expect("opens"));
        Arc::new(Two { stores, turn: AtomicUsize::new(0) }) as Arc<dyn Store>
    };
    contract::check_copy(two().await, two().await).await;
    contract::check_copy_of_held_operations(&two, &two).await;
    contract::check_giving_a_copy_up(&two, &two).await;
}

#[cfg(feature = "seal")]
#[tokio::test]
async fn records_are_copied_between_stores_of_different_keys_and_none() {
    use steadfast_core::store::SealKeys;

    let shelf = Shelf::new();
    let sealed = |byte: u8| {
        let store = Sqlite::builder(shelf.path()).seal(SealKeys::new([byte; 32])).open();
        Arc::new(store.expect("opens")) as Arc<dyn Store>
    };
    contract::check_copy(sealed(1), sealed(2)).await;
    contract::check_copy(shelf.file(), sealed(1)).await;
    contract::check_copy(sealed(2), shelf.file()).await;
    contract::check_copy_of_what_changes(&async || sealed(1), &async || sealed(2)).await;
}

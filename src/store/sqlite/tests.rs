use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::store::contract;

/// A directory, and a new path in it for each store.
struct Place {
    directory: TempDir,
    files: AtomicUsize,
}

impl Place {
    fn new() -> Place {
        Place { directory: TempDir::new().expect("a directory"), files: AtomicUsize::new(0) }
    }

    fn path(&self) -> PathBuf {
        let file = self.files.fetch_add(1, Ordering::Relaxed);
        // A name that a URI would read otherwise.
        self.directory.path().join(format!("calls {file} 100%?#é.db"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds() {
    let place = Place::new();
    let fresh = async || Arc::new(Sqlite::open(place.path()).expect("opens")) as Arc<dyn Store>;
    contract::check_all(fresh).await;
}

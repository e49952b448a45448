//! The stores that every build has.

use std::sync::Arc;

use steadfast::store::{Memory, Sqlite, Store};
use tempfile::TempDir;

/// In memory, and in a file `calls.db` of its own place.
pub fn stores() -> [(Arc<dyn Store>, TempDir); 2] {
    let [nowhere, place] = [(); 2].map(|()| TempDir::new().expect("a directory"));
    let file = Sqlite::open(place.path().join("calls.db")).expect("opens");
    [(Arc::new(Memory::new()), nowhere), (Arc::new(file), place)]
}

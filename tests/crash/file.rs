//! The store in a file, sealed where the file's name says so. Two keys are in use at once, as in a rotation: each process
//! has both, and which one it seals with is by chance.

use std::path::Path;
use std::sync::Arc;

use steadfast::store::{Sqlite, Store};

use crate::clock::MovedClock;

pub fn open(file: impl AsRef<Path>) -> Sqlite {
    let builder = Sqlite::builder(&file);
    #[cfg(feature = "seal")]
    let builder = if is_sealed(file.as_ref()) { builder.seal(keys()) } else { builder };
    builder.open().expect("the file opens")
}

/// The store of a driver: a file, or what a URL names.
pub fn open_at(place: &str, clock: &MovedClock) -> Arc<dyn Store> {
    #[cfg(feature = "postgres")]
    if is_server(place) {
        return crate::on_postgres::open(place, clock);
    }
    let _ = clock;
    Arc::new(open(place))
}

/// Whether it is a server's URL.
pub fn is_server(place: &str) -> bool {
    place.starts_with("postgres://")
}

/// The name of a file, every other one of which is sealed.
pub fn name(number: u64, rest: &str) -> String {
    if number.is_multiple_of(2) { rest.to_owned() } else { format!("{SEALED}{rest}") }
}

#[cfg(feature = "seal")]
fn is_sealed(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SEALED))
}

#[cfg(feature = "seal")]
pub fn keys() -> steadfast::store::SealKeys {
    let current = (std::process::id() % 2) as u8;
    steadfast::store::SealKeys::new([current; 32]).with_older([1 - current; 32])
}

const SEALED: &str = "sealed-";

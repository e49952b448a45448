//! Options of a store in an SQLite file.

use std::path::PathBuf;

use steadfast_core::internal::store::Seals;
#[cfg(feature = "seal")]
use steadfast_core::store::SealKeys;
use steadfast_core::store::StoreError;

use super::Sqlite;
use super::open::Settings;

/// Opens a [`Sqlite`]. Made by [`Sqlite::builder`].
///
/// ```
/// # #[cfg(feature = "seal")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("vendor-calls.db");
/// use steadfast::store::{SealKeys, Sqlite};
///
/// let keys = SealKeys::new([7; 32]); // a service reads them: SealKeys::from_env
/// let store = Sqlite::builder(&path).seal(keys).open()?;
/// assert_eq!(store.path(), path);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "seal"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is opened until open() is called"]
pub struct SqliteBuilder {
    path: PathBuf,
    settings: Settings,
    seals: Seals,
}

impl SqliteBuilder {
    pub(super) fn new(path: PathBuf) -> SqliteBuilder {
        SqliteBuilder { path, settings: Settings::default(), seals: Seals::default() }
    }

    /// Creates a store where there is none: no file, an empty one, or one whose creation was cut off. A service
    /// wants that: a power cut in its first moment leaves such a file. An operator's tool does not: a typing
    /// mistake would become an empty store.
    ///
    /// With false, [`open`](SqliteBuilder::open) refuses with
    /// [`StoreErrorKind::Absent`](steadfast_core::store::StoreErrorKind) and changes nothing. An older schema
    /// is migrated in both cases.
    ///
    /// Default: true.
    pub fn create(mut self, create: bool) -> SqliteBuilder {
        self.settings.create = create;
        self
    }

    /// Allows a file on a network file system, such as NFS or CephFS. Only one host may ever have it open: SQLite's
    /// locks and shared memory do not hold between hosts.
    ///
    /// Default: a client of a vendor that is not on loopback is not built on such a file.
    pub fn allow_network_fs(mut self) -> SqliteBuilder {
        self.settings.network_fs = true;
        self
    }

    /// Seals requests and answers from now on: the file alone is then not enough to read them. Earlier rows
    /// stay readable, sealed with one of `keys` or not sealed.
    ///
    /// These are *not* sealed: an operation's scope, key, wire key and fingerprint. (The fingerprint is a hash
    /// of the request: a reader who can guess a request can confirm the guess.) Nor are phases, times, the
    /// status of the answer, the names of redacted fields, the log of the attempts, and the audit record. Nor
    /// can a seal distinguish an answer from an earlier one of the same operation. A process that can write to
    /// the file can put an old copy of a row back.
    ///
    /// The caller's task seals and unseals, not the writer's thread. It takes some 4 µs for a body of a KiB, and a
    /// millisecond for each MiB.
    ///
    /// Default: not sealed.
    #[cfg(feature = "seal")]
    pub fn seal(mut self, keys: SealKeys) -> SqliteBuilder {
        self.seals = Seals::with(keys);
        self
    }

    /// Opens or creates the file. An older schema is migrated.
    ///
    /// Blocks meanwhile: open the store before the service serves. Where the file names a key that was not
    /// given, every row is read once, to check if any needs it. If none does, the key's name is removed.
    ///
    /// # Errors
    ///
    /// Those of [`Sqlite::open`], which is this without keys. `Absent` if there is no store and
    /// [`create`](SqliteBuilder::create) is false.
    pub fn open(self) -> Result<Sqlite, StoreError> {
        Sqlite::open_with(&self.path, self.settings, self.seals)
    }
}

//! [`StoreUrl`]: the address of a store, in one line of text.
//!
//! One place that knows the schemes, for the vendors file, the command line and a service's own setting. A text that is
//! refused is not repeated beyond the part before the colon: it may be an address with a password.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use steadfast_core::internal::suggest::{nearest, shown};
#[cfg(feature = "seal")]
use steadfast_core::store::SealKeys;
use steadfast_core::store::{Memory, Store, StoreError, StoreErrorKind};
#[cfg(feature = "postgres")]
use steadfast_postgres::internal::Address;

/// A store by its URL, and how it is opened.
///
/// ```
/// use steadfast::store::StoreUrl;
///
/// let url: StoreUrl = "memory:".parse()?;
/// assert!(url.open().is_ok());
///
/// let error = "mysql://shop:hunter2@db/calls".parse::<StoreUrl>().unwrap_err();
/// assert!(error.to_string().starts_with("this build opens no store `mysql`"));
/// # Ok::<(), steadfast::store::StoreError>(())
/// ```
///
/// | | |
/// |---|---|
/// | `sqlite:vendor-calls.db` | an SQLite file, relative to the working directory (feature `sqlite`) |
/// | `sqlite:/var/lib/shop/vendor-calls.db` | the same by its whole path |
/// | `sqlite:///var/lib/shop/vendor-calls.db` | the same, as other libraries write it |
/// | `postgres://shop@db.internal/shop?schema=payments` | a schema of a Postgres database (feature `postgres`) |
/// | `memory:`, `memory` | a new store in memory |
///
/// A path is taken as it is written: nothing in it is decoded. One option may follow it, `?network_fs=allow`: the file may
/// be on a network file system, where one host alone uses it. The URL of a Postgres database
/// is libpq's, with `schema` beside its options; [the page on Postgres](crate::guide::postgres) lists them.
///
/// `Display` and `Debug` show where the store is and never a secret.
#[derive(Clone)]
pub struct StoreUrl {
    place: Place,
    create: bool,
    #[cfg(feature = "seal")]
    keys: Option<SealKeys>,
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    Memory,
    Sqlite {
        path: PathBuf,
        /// Whether it may be on a network file system.
        network_fs: bool,
    },
    #[cfg(feature = "postgres")]
    Postgres(Box<Address>),
}

/// Opens the store at `url`, or makes it: [`StoreUrl`] with its defaults.
///
/// Blocks while it does so: open it before the service serves.
///
/// # Errors
///
/// A [`StoreError`]: `Invalid` for what is no URL of a store that this build knows, and what [`StoreUrl::open`] says.
///
/// # Example
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("vendor-calls.db").display().to_string();
/// use steadfast::store;
///
/// let store = store::open(&format!("sqlite:{path}"))?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
pub fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    url.parse::<StoreUrl>()?.open()
}

impl StoreUrl {
    /// Reads a text where the path of an SQLite file is taken too, as the command line does. A text that does not begin
    /// with a scheme and a colon is a path. `./a:b.db` is a path with a colon.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Invalid`] for a scheme that this build does not know.
    pub fn from_argument(text: &OsStr) -> Result<StoreUrl, StoreError> {
        match text.to_str() {
            Some(text) if scheme(text).is_some() => text.parse(),
            _ if cfg!(feature = "sqlite") => {
                Ok(StoreUrl::at(Place::Sqlite { path: PathBuf::from(text), network_fs: false }))
            }
            _ => Err(invalid(NO_SQLITE)),
        }
    }

    /// Reads a URL as [`FromStr`] does, and returns the problem alone, for an error that has a place of its own.
    pub(crate) fn read(text: &str) -> Result<StoreUrl, String> {
        parse(text).map(StoreUrl::at)
    }

    /// Whether a password stands in it, so that it must not be in a file that is shown and kept.
    pub(crate) fn has_password(&self) -> bool {
        match &self.place {
            #[cfg(feature = "postgres")]
            Place::Postgres(address) => address.has_password(),
            _ => false,
        }
    }

    /// Takes a relative path from `directory`.
    #[must_use]
    pub fn relative_to(mut self, directory: &Path) -> StoreUrl {
        if let Place::Sqlite { path, .. } = &mut self.place {
            *path = directory.join(&path);
        }
        self
    }

    /// Whether to make a store where there is none. A service wants that, and an operator's tool does not. Without
    /// it, [`open`](StoreUrl::open) refuses with [`StoreErrorKind::Absent`]. It also refuses a store in memory, which
    /// only its own process has.
    ///
    /// Default: true.
    #[must_use]
    pub fn create(mut self, create: bool) -> StoreUrl {
        self.create = create;
        self
    }

    /// Seals requests and answers from now on. A store in memory has nothing at rest, and is not sealed.
    ///
    /// Default: not sealed.
    #[cfg(feature = "seal")]
    #[must_use]
    pub fn seal(mut self, keys: SealKeys) -> StoreUrl {
        self.keys = Some(keys);
        self
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Sqlite { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether it is in memory, and lost in a crash.
    pub fn is_memory(&self) -> bool {
        self.place == Place::Memory
    }

    /// Opens it, or makes it.
    ///
    /// Blocks while it does so: open it before the service serves.
    ///
    /// # Errors
    ///
    /// As `Sqlite::open` or `PostgresBuilder::open`; `Absent` for what [`create`](StoreUrl::create) says.
    pub fn open(self) -> Result<Arc<dyn Store>, StoreError> {
        match self.place {
            Place::Memory if self.create => Ok(Arc::new(Memory::new())),
            Place::Memory => {
                let problem = "a store in memory ends with its process, and no other process sees it";
                Err(StoreError::new(problem).of_kind(StoreErrorKind::Absent))
            }
            #[cfg(feature = "sqlite")]
            Place::Sqlite { path, network_fs } => {
                let builder = super::Sqlite::builder(path).create(self.create);
                let builder = if network_fs { builder.allow_network_fs() } else { builder };
                #[cfg(feature = "seal")]
                let builder = self.keys.into_iter().fold(builder, super::SqliteBuilder::seal);
                Ok(Arc::new(builder.open()?))
            }
            #[cfg(not(feature = "sqlite"))]
            Place::Sqlite { .. } => Err(invalid(NO_SQLITE)),
            #[cfg(feature = "postgres")]
            Place::Postgres(address) => {
                let builder = steadfast_postgres::internal::at(*address).create(self.create);
                #[cfg(feature = "seal")]
                let builder = self.keys.into_iter().fold(builder, steadfast_postgres::PostgresBuilder::seal);
                Ok(Arc::new(builder.open()?))
            }
        }
    }

    /// Makes the schema of a store on Postgres, or brings it up to date, and with `roles` also the roles that a service
    /// and its tools connect as. [The page on Postgres](crate::guide::postgres) says what they may.
    ///
    /// Gives the schema's version before, 0 if there was none, and the version now, which is this release's.
    ///
    /// Blocks while it does so. A schema that is up to date is left as it is.
    ///
    /// # Errors
    ///
    /// A [`StoreError`], and nothing was changed: `Unreachable`, `Denied`, `Newer`; `Invalid` for a store that is not
    /// on Postgres: the process that opens an SQLite file brings it up to date.
    pub fn migrate(self, roles: bool) -> Result<(u32, u32), StoreError> {
        match self.place {
            #[cfg(feature = "postgres")]
            Place::Postgres(address) => steadfast_postgres::internal::at(*address).apply_migrations(roles),
            _ => {
                let _ = roles;
                Err(invalid(NOT_MIGRATED))
            }
        }
    }

    /// The statements that [`migrate`](StoreUrl::migrate) has an empty database carry out, for an operator who uses
    /// another tool to carry them out. Connects to nothing.
    ///
    /// # Errors
    ///
    /// `Invalid`, as for [`migrate`](StoreUrl::migrate).
    pub fn migrations_as_sql(&self, roles: bool) -> Result<String, StoreError> {
        match &self.place {
            #[cfg(feature = "postgres")]
            Place::Postgres(address) => {
                Ok(steadfast_postgres::internal::at((**address).clone()).migrations_as_sql(roles))
            }
            _ => {
                let _ = roles;
                Err(invalid(NOT_MIGRATED))
            }
        }
    }

    fn at(place: Place) -> StoreUrl {
        StoreUrl {
            place,
            create: true,
            #[cfg(feature = "seal")]
            keys: None,
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<StoreUrl, StoreError> {
        StoreUrl::read(text).map_err(invalid)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Memory => f.write_str("memory:"),
            Place::Sqlite { path, network_fs } => {
                let option = if *network_fs { NETWORK_FS } else { "" };
                write!(f, "sqlite:{}{option}", path.display())
            }
            #[cfg(feature = "postgres")]
            Place::Postgres(address) => fmt::Display::fmt(address, f),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

fn invalid(problem: impl Into<String>) -> StoreError {
    StoreError::new(problem).of_kind(StoreErrorKind::Invalid)
}

/// Returns the part before the first colon, if it is a scheme. One letter is a drive of Windows.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let is_one = scheme.len() > 1
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '_'));
    is_one.then_some(scheme)
}

/// The kind is judged before the spaces, so that what is repeated of the rest is a path.
fn parse(text: &str) -> Result<Place, String> {
    let bare = text.trim();
    let place = parse_bare(bare)?;
    if text == bare {
        return Ok(place);
    }
    let instead = match &place {
        Place::Memory => "did you mean \"memory\"?".to_owned(),
        Place::Sqlite { path, .. } => with_path(&path.to_string_lossy()),
        #[cfg(feature = "postgres")]
        Place::Postgres(_) => "leave it out".to_owned(),
    };
    Err(format!("it begins or ends with a space; {instead}"))
}

fn parse_bare(text: &str) -> Result<Place, String> {
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) => (scheme, Some(rest)),
        None => (text, None),
    };
    match (scheme, rest) {
        ("memory", None | Some("")) => Ok(Place::Memory),
        ("memory", Some(_)) => Err("nothing follows `memory`; did you mean \"memory\"?".to_owned()),
        ("sqlite", None | Some("")) => Err(format!("it needs the file's path, such as \"{EXAMPLE}\"")),
        ("sqlite", Some(path)) => parse_sqlite(path),
        ("postgres" | "postgresql", rest) => parse_postgres(text, rest.unwrap_or_default()),
        _ => Err(unknown(text, scheme, rest)),
    }
}

#[cfg(feature = "postgres")]
fn parse_postgres(text: &str, rest: &str) -> Result<Place, String> {
    if rest.starts_with("//") {
        return Address::parse(text).map(|address| Place::Postgres(Box::new(address)));
    }
    Err(format!("two slashes and a host follow `postgres:`; write \"{EXAMPLE_POSTGRES}\""))
}

#[cfg(not(feature = "postgres"))]
fn parse_postgres(_: &str, _: &str) -> Result<Place, String> {
    Err("this build of steadfast has no Postgres; build it with feature `postgres`".to_owned())
}

fn parse_sqlite(written: &str) -> Result<Place, String> {
    // It may have a password, which a path does not hide.
    if written.split_once("://").is_some_and(|(name, _)| scheme(&format!("{name}:")).is_some()) {
        return Err(format!("the address of a server follows, where a path has to; write {}", known()));
    }
    let instead = || Err(format!("a path follows `sqlite:`; {}", with_path(written)));
    if written == ":memory:" {
        return Err("SQLite keeps that in memory; did you mean \"memory\"?".to_owned());
    }
    // Three slashes are an empty host and a whole path. After two comes a host, which a file does not have.
    let path = match written.strip_prefix("//") {
        Some(path) if path.starts_with('/') && !path.starts_with("//") => path,
        Some(_) => return instead(),
        None => written,
    };
    let (path, network_fs) = match path.strip_suffix(NETWORK_FS) {
        Some(path) => (path, true),
        None => (path, false),
    };
    if path.is_empty() {
        return Err(format!("it needs the file's path, such as \"{EXAMPLE}\""));
    }
    if path.contains('?') {
        return Err(format!("no options follow the path but `{NETWORK_FS}`; {}", with_path(path)));
    }
    if path != path.trim() {
        return instead();
    }
    if path.starts_with('~') {
        return Err("`~` is not expanded; write the whole path".to_owned());
    }
    if path.chars().any(char::is_control) {
        return Err("the path has a character that cannot be printed".to_owned());
    }
    if cfg!(feature = "sqlite") {
        Ok(Place::Sqlite { path: PathBuf::from(path), network_fs })
    } else {
        Err(NO_SQLITE.to_owned())
    }
}

/// Suggests a URL, with the path out of the written text. That may be an address with a password: its options are left
/// out, and of one with an `@`, or with settings such as `Password=…`, nothing is repeated.
fn with_path(written: &str) -> String {
    let path = written.split_once('?').map_or(written, |(path, _)| path).trim();
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path.contains(['@', '=', ';']) {
        return format!("did you mean \"{EXAMPLE}\"?");
    }
    format!("did you mean \"sqlite:{}\"?", shown(path))
}

fn unknown(text: &str, name: &str, rest: Option<&str>) -> String {
    match nearest(name, ["sqlite", "memory", "postgres", "postgresql"]) {
        Some("memory") => "did you mean \"memory\"?".to_owned(),
        Some("postgres" | "postgresql") => format!("did you mean \"{EXAMPLE_POSTGRES}\"?"),
        Some(_) => with_path(rest.unwrap_or_default()),
        None if scheme(text).is_some() => {
            format!("this build opens no store `{}`; write {}", shown(name), known())
        }
        // A bare path, or one of Windows.
        None if name.contains(['.', '/', '\\']) && rest.is_none() => {
            format!("it names no kind of store; {}", with_path(name))
        }
        None => format!("write {}", known()),
    }
}

/// Suggests a URL that this build knows.
fn known() -> String {
    let sqlite = cfg!(feature = "sqlite").then(|| format!("\"sqlite:\" and a path, such as \"{EXAMPLE}\""));
    let postgres = cfg!(feature = "postgres").then(|| format!("\"{EXAMPLE_POSTGRES}\""));
    let all: Vec<String> = sqlite.into_iter().chain(postgres).chain(["\"memory\"".to_owned()]).collect();
    all.join(", or ")
}

/// The one option of a file.
const NETWORK_FS: &str = "?network_fs=allow";

pub(crate) const EXAMPLE: &str = "sqlite:vendor-calls.db";

const EXAMPLE_POSTGRES: &str = "postgres://shop@db.internal/shop?schema=payments";

const NOT_MIGRATED: &str =
    "only a store on Postgres is migrated; the process that opens an SQLite file brings it up to date";

/// Problem of such a store in a build without SQLite.
const NO_SQLITE: &str = "this build of steadfast has no SQLite; build it with feature `sqlite`";

#[cfg(test)]
mod tests;

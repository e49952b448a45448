//! The store that the file names: `store` and `seal_keys_env`.
//!
//! One store for all vendors, because one file is one service: its operators look in one place, and its commits are
//! shared. It is opened by the first client that is built and not when the file is read: checking a file, or asking it
//! for a vendor's rules, must leave nothing behind.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistakes::{Mistake, Mistakes};
use super::path::{Path, shown};
use super::source::Source;
use super::vendor::Variable;
use super::{Secrets, reader, secrets, suggest};
use crate::error::Error;
use crate::store::{Memory, Store};

mod sqlite;

/// The store as the file names it.
#[derive(Clone, Debug)]
pub(super) enum Named {
    Memory,
    Sqlite(sqlite::File),
}

/// The store that all clients of a file share, once it is open.
pub(super) struct Shared {
    named: Named,
    open: Mutex<Option<Arc<dyn Store>>>,
}

impl Shared {
    pub(super) fn new(named: Named) -> Shared {
        Shared { named, open: Mutex::new(None) }
    }

    /// One that is open, instead of what the file names.
    pub(super) fn given(store: Arc<dyn Store>) -> Shared {
        Shared { named: Named::Memory, open: Mutex::new(Some(store)) }
    }

    /// The file, if it is one.
    pub(super) fn path(&self) -> Option<&std::path::Path> {
        match &self.named {
            Named::Memory => None,
            Named::Sqlite(file) => Some(&file.path),
        }
    }

    /// The store, opened now if it is not open yet. One that does not open is tried again the next time.
    pub(super) fn open(&self, secrets: &Secrets) -> Result<Arc<dyn Store>, Error> {
        let mut open = self.open.lock();
        if let Some(store) = &*open {
            return Ok(Arc::clone(store));
        }
        let store = match &self.named {
            Named::Memory => Arc::new(Memory::new()),
            Named::Sqlite(file) => file.open(secrets, true)?,
        };
        *open = Some(Arc::clone(&store));
        Ok(store)
    }

    /// The store if it is open, else the file that is there already.
    pub(super) fn open_existing(&self, secrets: &Secrets) -> Result<Option<Arc<dyn Store>>, Error> {
        let mut open = self.open.lock();
        if open.is_none()
            && let Named::Sqlite(file) = &self.named
        {
            *open = Some(file.open(secrets, false)?);
        }
        Ok(open.clone())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("named", &self.named).finish_non_exhaustive()
    }
}

/// Reads both keys, and tells what is wrong with them. Paths are relative to `directory`, or to the process's working
/// directory if there is none.
pub(super) fn read(
    source: &Source<'_>,
    root: &DeTable<'_>,
    directory: Option<PathBuf>,
    mistakes: &mut Mistakes<'_>,
) -> Option<Named> {
    let keys = tell(read_keys(source, root), mistakes);
    let store = tell(read_store(root), mistakes);
    let (kind, start) = match store? {
        Some(store) => store,
        None => {
            if let Some((key, _)) = root.get_key_value(KEYS) {
                let problem =
                    format!("`{KEYS}` needs a store to seal, such as `store = \"{STORE_EXAMPLE}\"`");
                mistakes.tell(Mistake::absence(key.span().start, Path::of([STORE]), problem));
            }
            return None;
        }
    };
    match kind {
        Kind::Memory => {
            if let Some((key, _)) = root.get_key_value(KEYS) {
                let problem =
                    format!("`{KEYS}`: a store in memory is never sealed; name a file in `{STORE}`");
                mistakes.tell(Mistake::together(key.span().start, vec![Path::of([STORE])], problem));
            }
            Some(Named::Memory)
        }
        Kind::Sqlite(path) => {
            let path = directory.unwrap_or_default().join(path);
            let place = source.place(start);
            Some(Named::Sqlite(sqlite::File { path, vendors: source.name().to_owned(), place, keys: keys? }))
        }
    }
}

enum Kind {
    Memory,
    /// The path as it is written.
    Sqlite(String),
}

/// What was read; `None` if it was told what is wrong with it.
fn tell<T>(read: Result<T, Mistake>, mistakes: &mut Mistakes<'_>) -> Option<T> {
    read.map_err(|mistake| mistakes.tell(mistake)).ok()
}

/// The kind of store with the offset of its name.
fn read_store(root: &DeTable<'_>) -> Result<Option<(Kind, usize)>, Mistake> {
    let Some(value) = root.get(STORE) else { return Ok(None) };
    let start = value.span().start;
    let read = text(value, STORE_EXAMPLE).and_then(parse);
    match read {
        Ok(kind) => Ok(Some((kind, start))),
        Err(problem) => Err(Mistake::itself(start, Path::of([STORE]), format!("`{STORE}`: {problem}"))),
    }
}

fn read_keys(source: &Source<'_>, root: &DeTable<'_>) -> Result<Option<Variable>, Mistake> {
    let Some(value) = root.get(KEYS) else { return Ok(None) };
    let start = value.span().start;
    let read = text(value, KEYS_EXAMPLE).and_then(|name| {
        secrets::check_variable(name, KEYS_EXAMPLE, "make a new key").map(|()| name)?;
        if cfg!(feature = "seal") {
            return Ok(name);
        }
        Err("this build of steadfast cannot seal; build it with feature `seal`".to_owned())
    });
    match read {
        Ok(name) => Ok(Some(Variable { name: name.to_owned(), place: source.place(start) })),
        Err(problem) => Err(Mistake::itself(start, Path::of([KEYS]), format!("`{KEYS}`: {problem}"))),
    }
}

fn text<'t>(value: &'t Spanned<DeValue<'_>>, example: &str) -> Result<&'t str, String> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        other => {
            Err(format!("it must be text in quotes, such as \"{example}\", not {}", reader::kind(other)))
        }
    }
}

/// Reads `sqlite:PATH` or `memory`. An address of another form may hold a password, so that of what is not
/// understood only the part before the colon is repeated. The kind is therefore judged before the spaces.
fn parse(text: &str) -> Result<Kind, String> {
    let bare = text.trim();
    let kind = parse_bare(bare)?;
    if text == bare {
        return Ok(kind);
    }
    let instead = match &kind {
        Kind::Memory => "did you mean \"memory\"?".to_owned(),
        Kind::Sqlite(path) => with_path(path),
    };
    Err(format!("it begins or ends with a space; {instead}"))
}

fn parse_bare(text: &str) -> Result<Kind, String> {
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) => (scheme, Some(rest)),
        None => (text, None),
    };
    match (scheme, rest) {
        ("memory", None | Some("")) => Ok(Kind::Memory),
        ("memory", Some(_)) => Err("nothing follows `memory`; did you mean \"memory\"?".to_owned()),
        ("sqlite", None | Some("")) => Err(format!("it needs the file's path, such as \"{STORE_EXAMPLE}\"")),
        ("sqlite", Some(path)) => parse_sqlite(path),
        _ => Err(unknown(scheme, rest)),
    }
}

fn parse_sqlite(path: &str) -> Result<Kind, String> {
    let instead = || Err(format!("a path follows `sqlite:`; {}", with_path(path)));
    if path == ":memory:" {
        return Err("SQLite keeps that in memory; did you mean \"memory\"?".to_owned());
    }
    // As other libraries write it: three slashes for an absolute path, two for a relative one.
    if path.starts_with("//") {
        return instead();
    }
    if path.contains('?') {
        return Err(format!("no options follow the path; {}", with_path(path)));
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
    if cfg!(feature = "sqlite") { Ok(Kind::Sqlite(path.to_owned())) } else { Err(sqlite::MISSING.to_owned()) }
}

/// What to write instead, with the path out of what was written. That may be an address with a password: its options
/// are left out, and of one with an `@`, or with settings such as `Password=…`, nothing is repeated.
fn with_path(written: &str) -> String {
    let path = written.split_once('?').map_or(written, |(path, _)| path).trim();
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path.contains(['@', '=', ';']) {
        return format!("did you mean \"{STORE_EXAMPLE}\"?");
    }
    format!("did you mean \"sqlite:{}\"?", shown(path))
}

fn unknown(scheme: &str, rest: Option<&str>) -> String {
    let scheme_is_one = !scheme.is_empty()
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '_'));
    match suggest::nearest(scheme, ["sqlite", "memory"]) {
        Some("memory") => "did you mean \"memory\"?".to_owned(),
        Some(_) => with_path(rest.unwrap_or_default()),
        None if rest.is_some() && scheme_is_one && scheme.len() > 1 => {
            format!("there is no store `{}`; write \"sqlite:\" and a path, or \"memory\"", shown(scheme))
        }
        // A bare path, or one of Windows.
        None if scheme.contains(['.', '/', '\\']) && rest.is_none() => {
            format!("it names no kind of store; {}", with_path(scheme))
        }
        None => format!("write \"sqlite:\" and a path, such as \"{STORE_EXAMPLE}\", or \"memory\""),
    }
}

const STORE: &str = "store";
const KEYS: &str = "seal_keys_env";
const STORE_EXAMPLE: &str = "sqlite:vendor-calls.db";
const KEYS_EXAMPLE: &str = "STEADFAST_SEAL_KEYS";

#[cfg(all(test, not(feature = "sqlite")))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_sqlite_says_which_feature_has_it() {
        let problem = "this build of steadfast has no SQLite; build it with feature `sqlite`";
        assert_eq!(parse("sqlite:x.db").err().as_deref(), Some(problem));
        assert!(parse("memory").is_ok());
    }
}

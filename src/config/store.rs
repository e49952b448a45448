//! The store that the file names: `store` and `seal_keys_env`.
//!
//! One store for all vendors, because one file is one service: its operators look in one place, and its commits are
//! shared. The first client that is built opens it, and not the reading of the file. To check a file, or to ask it
//! for a vendor's rules, must leave nothing behind.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use steadfast_core::Error;
use steadfast_core::store::{Memory, Store};

use super::mistakes::{Mistake, Mistakes};
use super::path::Path;
use super::source::Source;
use super::vendor::Variable;
use super::{Secrets, reader, secrets};
use crate::store::{EXAMPLE, StoreUrl};

mod named;

pub(super) use named::Named;

/// The store that all clients of a file share, once it is open.
pub(super) struct Shared {
    /// Store that the file names; `None` if another one was given instead.
    named: Option<Named>,
    open: Mutex<Option<Arc<dyn Store>>>,
}

impl Shared {
    pub(super) fn new(named: Named) -> Shared {
        Shared { named: Some(named), open: Mutex::new(None) }
    }

    /// Shares a store that is open, instead of the one that the file names.
    pub(super) fn given(store: Arc<dyn Store>) -> Shared {
        Shared { named: None, open: Mutex::new(Some(store)) }
    }

    /// The file, if it is one.
    pub(super) fn path(&self) -> Option<&std::path::Path> {
        self.named.as_ref().and_then(|named| named.url.path())
    }

    /// Returns the URL that the file names.
    pub(super) fn url(&self) -> Option<&StoreUrl> {
        self.named.as_ref().map(|named| &named.url)
    }

    /// The store, opened now if it is not open yet. One that does not open is tried again the next time.
    pub(super) fn open(&self, secrets: &Secrets) -> Result<Arc<dyn Store>, Error> {
        let mut open = self.open.lock();
        let store = match (&*open, &self.named) {
            (Some(store), _) => Arc::clone(store),
            (None, Some(named)) => named.open(secrets, true)?,
            (None, None) => Arc::new(Memory::new()),
        };
        *open = Some(Arc::clone(&store));
        Ok(store)
    }

    /// The store if it is open, else the one that is there already.
    pub(super) fn open_existing(&self, secrets: &Secrets) -> Result<Option<Arc<dyn Store>>, Error> {
        let mut open = self.open.lock();
        if open.is_none()
            && let Some(named) = self.named.as_ref().filter(|named| !named.url.is_memory())
        {
            *open = Some(named.open(secrets, false)?);
        }
        Ok(open.clone())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("named", &self.named).finish_non_exhaustive()
    }
}

/// Reads both keys, and reports their mistakes. Paths are relative to `directory`, or to the process's working
/// directory if there is none.
pub(super) fn read(
    source: &Source<'_>,
    root: &DeTable<'_>,
    directory: Option<PathBuf>,
    mistakes: &mut Mistakes<'_>,
) -> Option<Named> {
    let keys = tell(read_keys(source, root), mistakes);
    let store = tell(read_store(root), mistakes);
    let (url, start) = match store? {
        Some(store) => store,
        None => {
            if let Some((key, _)) = root.get_key_value(KEYS) {
                let problem = format!("`{KEYS}` needs a store to seal, such as `store = \"{EXAMPLE}\"`");
                mistakes.tell(Mistake::absence(key.span().start, Path::of([STORE]), problem));
            }
            return None;
        }
    };
    if let Some((key, _)) = root.get_key_value(KEYS).filter(|_| url.is_memory()) {
        let problem = format!("`{KEYS}`: a store in memory is never sealed; name a file in `{STORE}`");
        mistakes.tell(Mistake::together(key.span().start, vec![Path::of([STORE])], problem));
    }
    let url = url.relative_to(&directory.unwrap_or_default());
    Some(Named { url, vendors: source.name().to_owned(), place: source.place(start), keys: keys? })
}

/// Returns the value that was read; `None` if a mistake was reported.
fn tell<T>(read: Result<T, Mistake>, mistakes: &mut Mistakes<'_>) -> Option<T> {
    read.map_err(|mistake| mistakes.tell(mistake)).ok()
}

/// The store with the offset of its name.
fn read_store(root: &DeTable<'_>) -> Result<Option<(StoreUrl, usize)>, Mistake> {
    let Some(value) = root.get(STORE) else { return Ok(None) };
    let start = value.span().start;
    let read = text(value, EXAMPLE).and_then(StoreUrl::read).and_then(|url| {
        let problem = "the password does not belong in this file; leave it out, and set PGPASSWORD, or name a file of \
                       passwords with `passfile=`";
        if url.has_password() { Err(problem.to_owned()) } else { Ok(url) }
    });
    match read {
        Ok(url) => Ok(Some((url, start))),
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

const STORE: &str = "store";
const KEYS: &str = "seal_keys_env";
const KEYS_EXAMPLE: &str = "STEADFAST_SEAL_KEYS";

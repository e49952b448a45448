//! Opening the SQLite file that the vendors file names.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::Secrets;
use crate::config::vendor::Variable;
use crate::error::{Error, Mistake};
use crate::store::Store;

/// An SQLite file.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "sqlite"),
    expect(dead_code, reason = "such a build refuses the file before it is opened")
)]
pub(in crate::config) struct File {
    pub(super) path: PathBuf,
    /// The vendors file, and line and column of `store` in it.
    pub(super) vendors: String,
    pub(super) place: (usize, usize),
    /// The variable with the keys of a sealed store.
    pub(super) keys: Option<Variable>,
}

impl File {
    #[cfg(feature = "sqlite")]
    pub(super) fn open(&self, secrets: &Secrets, create: bool) -> Result<Arc<dyn Store>, Error> {
        let builder = crate::store::Sqlite::builder(&self.path).create(create);
        #[cfg(feature = "seal")]
        let builder = match &self.keys {
            Some(variable) => builder.seal(self.seal_keys(variable, secrets)?),
            None => builder,
        };
        #[cfg(not(feature = "seal"))]
        let _ = secrets;
        match builder.open() {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => {
                let problem =
                    format!("`store`: {} does not open{}", self.path.display(), self.hint(error.kind()));
                Err(self.refuse(self.place, problem).with_source(error))
            }
        }
    }

    #[cfg(not(feature = "sqlite"))]
    pub(super) fn open(&self, _: &Secrets, _: bool) -> Result<Arc<dyn Store>, Error> {
        Err(self.refuse(self.place, format!("`store`: {MISSING}")))
    }

    /// What the store's own error cannot know.
    #[cfg(feature = "sqlite")]
    fn hint(&self, kind: crate::store::StoreErrorKind) -> String {
        use crate::store::StoreErrorKind;

        let directory = self.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        match directory {
            Some(directory) if !directory.exists() => {
                format!("; there is no directory {}", directory.display())
            }
            _ if kind == StoreErrorKind::Sealed && self.keys.is_none() => {
                "; name the variable with its keys, such as `seal_keys_env = \"STEADFAST_SEAL_KEYS\"`"
                    .to_owned()
            }
            _ => String::new(),
        }
    }

    #[cfg(all(feature = "seal", feature = "sqlite"))]
    fn seal_keys(&self, variable: &Variable, secrets: &Secrets) -> Result<crate::store::SealKeys, Error> {
        use std::env::VarError;

        use secrecy::zeroize::Zeroizing;

        let Variable { name, place } = variable;
        let refuse = |problem: String| Err(self.refuse(*place, format!("`seal_keys_env`: {problem}")));
        match secrets(name).map(Zeroizing::new) {
            Err(VarError::NotUnicode(_)) => refuse(format!(
                "the environment variable {name} is not text: it is not UTF-8; set it to the keys of the store"
            )),
            Err(VarError::NotPresent) => refuse(format!(
                "the environment variable {name} is not set; set it to the keys of the store, or make a first \
                 one with `openssl rand -base64 32`"
            )),
            Ok(text) => crate::store::SealKeys::parse(&text, name).or_else(|error| refuse(error.to_string())),
        }
    }

    fn refuse(&self, place: (usize, usize), problem: String) -> Error {
        Error::mistaken(vec![Mistake::new(&self.vendors, Some(place), problem)], false)
    }
}

/// What a build without SQLite says of such a store.
pub(super) const MISSING: &str = "this build of steadfast has no SQLite; build it with feature `sqlite`";

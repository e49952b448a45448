//! Opening the store that the vendors file names.

use std::sync::Arc;

use steadfast_core::internal::ext::{ErrorExt, MistakeExt};
use steadfast_core::store::{Store, StoreErrorKind};
use steadfast_core::{Error, Mistake};

use crate::config::Secrets;
use crate::config::vendor::Variable;
use crate::store::StoreUrl;

/// The store as the file names it.
#[derive(Clone, Debug)]
pub(in crate::config) struct Named {
    pub(super) url: StoreUrl,
    /// The vendors file, and line and column of `store` in it.
    pub(super) vendors: String,
    pub(super) place: (usize, usize),
    /// The variable with the keys of a sealed store.
    pub(super) keys: Option<Variable>,
}

impl Named {
    pub(super) fn open(&self, secrets: &Secrets, create: bool) -> Result<Arc<dyn Store>, Error> {
        let url = self.url.clone().create(create);
        #[cfg(feature = "seal")]
        let url = match &self.keys {
            Some(variable) => url.seal(self.seal_keys(variable, secrets)?),
            None => url,
        };
        #[cfg(not(feature = "seal"))]
        let _ = secrets;
        url.open().map_err(|error| {
            let shown = self.url.path().map_or(self.url.to_string(), |path| path.display().to_string());
            let problem = format!("`store`: {shown} does not open{}", self.hint(error.kind()));
            self.refuse(self.place, problem).with_source(error)
        })
    }

    /// Returns the advice that the store's own error cannot give.
    fn hint(&self, kind: StoreErrorKind) -> String {
        let directory = self.url.path().and_then(std::path::Path::parent);
        match directory.filter(|directory| !directory.as_os_str().is_empty()) {
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

    #[cfg(feature = "seal")]
    fn seal_keys(
        &self,
        variable: &Variable,
        secrets: &Secrets,
    ) -> Result<steadfast_core::store::SealKeys, Error> {
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
            Ok(text) => {
                steadfast_core::store::SealKeys::parse(&text, name).or_else(|error| refuse(error.to_string()))
            }
        }
    }

    fn refuse(&self, place: (usize, usize), problem: String) -> Error {
        Error::mistaken(vec![Mistake::new(&self.vendors, Some(place), problem)], false)
    }
}

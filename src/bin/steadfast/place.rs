//! Which store a command works on, and which vendors' rules it knows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use steadfast::config::Vendors;
use steadfast::dead_letter::DeadLetters;
use steadfast::store::{SealKeys, Sqlite, Store};

use super::failure::Failure;

/// Where things are.
pub(crate) struct Place {
    store: Option<PathBuf>,
    pub vendors: Option<PathBuf>,
}

impl Place {
    /// The options, else the environment. clap could read the environment, but its usage lines then show what the
    /// environment sets as options that have to be typed.
    pub fn named_by(store: Option<PathBuf>, vendors: Option<PathBuf>) -> Place {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Place {
            store: store.or_else(|| set("STEADFAST_STORE")),
            vendors: vendors.or_else(|| set("STEADFAST_VENDORS")),
        }
    }

    /// The file of the store that [`open`](Place::open) opens.
    pub fn file(&self) -> Result<Option<PathBuf>, Failure> {
        if self.store.is_some() {
            return Ok(self.store.clone());
        }
        let vendors = self.vendors.as_ref().map(Vendors::from_file).transpose().map_err(Failure::Vendors)?;
        Ok(vendors.and_then(|vendors| vendors.store_path().map(Path::to_owned)))
    }

    /// The last step before the work: what is wrong with the arguments is said first.
    pub fn open(&self) -> Result<DeadLetters, Failure> {
        let vendors = self.vendors.as_ref().map(Vendors::from_file).transpose().map_err(Failure::Vendors)?;
        let rules = vendors.as_ref().map(Vendors::rules).transpose().map_err(Failure::Vendors)?;
        let store = match (&self.store, &vendors) {
            (Some(path), _) => Some(open(path)?),
            (None, Some(vendors)) => vendors.existing_store().map_err(Failure::NamedStore)?,
            (None, None) => None,
        };
        let Some(store) = store else {
            let problem = "which store? Name the service's file with --store PATH or in STEADFAST_STORE, or a vendors \
                           file that names it with --vendors PATH or in STEADFAST_VENDORS";
            return Err(Failure::Arguments(problem.to_owned()));
        };
        let letters = DeadLetters::new(store);
        Ok(rules.iter().flatten().fold(letters, |letters, client| letters.with_client(client)))
    }
}

fn open(path: &Path) -> Result<Arc<dyn Store>, Failure> {
    let mut store = Sqlite::builder(path).create(false);
    if std::env::var_os(SEAL_KEYS).is_some() {
        store = store.seal(SealKeys::from_env(SEAL_KEYS).map_err(Failure::SealKeys)?);
    }
    Ok(Arc::new(store.open().map_err(Failure::Store)?))
}

/// Not an option of the command line, where every other process on the machine could read it.
const SEAL_KEYS: &str = "STEADFAST_SEAL_KEYS";

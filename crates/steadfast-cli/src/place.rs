//! The store that a command works on, and the vendors' rules that it knows.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use steadfast::dead_letter::DeadLetters;
use steadfast::store::{SealKeys, Store, StoreUrl};
use steadfast::{Client, Vendors};

use crate::failure::Failure;

/// Names of the store and of the vendors file.
pub(crate) struct StorePlace {
    /// The option or variable that names the store, and the name. `None` if none does.
    store: Option<(&'static str, OsString)>,
    pub vendors: Option<PathBuf>,
}

impl StorePlace {
    /// Returns the options, else the environment. clap could read the environment, but its usage lines then
    /// show variables that are set as options that have to be typed.
    pub fn named_by(store: Option<OsString>, vendors: Option<PathBuf>) -> StorePlace {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let given = store.map(|store| ("--store", store));
        StorePlace {
            store: given.or_else(|| set(STORE).map(|store| (STORE, store))),
            vendors: vendors.or_else(|| set("STEADFAST_VENDORS").map(PathBuf::from)),
        }
    }

    /// Opens the store. The last step before the work: mistakes in the arguments are reported first.
    pub fn open(&self) -> Result<DeadLetters, Failure> {
        self.open_both().map(|(letters, _)| letters)
    }

    /// Form of [`open`](StorePlace::open) that also returns the store itself.
    pub fn open_both(&self) -> Result<(DeadLetters, Arc<dyn Store>), Failure> {
        let vendors = self.vendors.as_ref().map(Vendors::from_file).transpose().map_err(Failure::Vendors)?;
        let rules = vendors.as_ref().map(Vendors::rules).transpose().map_err(Failure::Vendors)?;
        let store = match (&self.store, &vendors) {
            (Some((source, store)), _) => Some(open(source, store)?),
            (None, Some(vendors)) => vendors.existing_store().map_err(Failure::NamedStore)?,
            (None, None) => None,
        };
        let store = store.ok_or_else(which_store)?;
        let letters = DeadLetters::new(Arc::clone(&store));
        let letters = rules.iter().flatten().fold(letters, |letters, client| letters.with_client(client));
        Ok((letters, store))
    }

    /// Returns the clients of all vendors of the vendors file, on the store: they can send. `file` comes before
    /// `--vendors`.
    pub fn open_clients(&self, file: Option<&PathBuf>) -> Result<(Vec<Client>, Arc<dyn Store>), Failure> {
        let Some(file) = file.or(self.vendors.as_ref()) else {
            let problem = "which vendors file? Name it: steadfast dispatch FILE, or set STEADFAST_VENDORS";
            return Err(Failure::Arguments(problem.to_owned()));
        };
        let vendors = Vendors::from_file(file).map_err(Failure::Vendors)?;
        let store = match &self.store {
            Some((source, store)) => Some(open(source, store)?),
            None => vendors.existing_store().map_err(Failure::NamedStore)?,
        };
        let Some(store) = store else {
            let problem = "which store? The vendors file names none that another process can see; name the service's \
                           with --store URL, in STEADFAST_STORE, or in the file: store = \"sqlite:vendor-calls.db\"";
            return Err(Failure::Arguments(problem.to_owned()));
        };
        let vendors = vendors.with_store(Arc::clone(&store));
        let clients = vendors.names().map(|name| vendors.client(name)).collect::<Result<_, _>>();
        Ok((clients.map_err(Failure::Vendors)?, store))
    }
}

impl StorePlace {
    /// Returns warnings about the store, or why it could not be checked. No warning if no store is named, or it
    /// does not exist yet.
    pub fn warnings(&self, vendors: &Vendors) -> Vec<String> {
        let opened = match &self.store {
            Some((source, store)) => open(source, store).map(Some),
            None => vendors.existing_store().map_err(Failure::NamedStore),
        };
        let store = match opened {
            Ok(Some(store)) => store,
            Ok(None) => return Vec::new(),
            Err(failure) if failure.is_absent_store() => return Vec::new(),
            Err(failure) => return vec![format!("the store was not checked: {}", failure.text())],
        };
        let mut warnings = store.footing().unwrap_or_else(|refused| vec![refused.to_string()]);
        warnings.extend(store.maintenance().and_then(|maintenance| maintenance.warning()).map(str::to_owned));
        warnings
    }

    /// Returns the store's URL, and opens nothing.
    pub fn url(&self) -> Result<StoreUrl, Failure> {
        if let Some((source, store)) = &self.store {
            return url(source, store);
        }
        let Some(vendors) = &self.vendors else { return Err(which_store()) };
        let vendors = Vendors::from_file(vendors).map_err(Failure::Vendors)?;
        vendors.store_url().cloned().ok_or_else(which_store)
    }
}

fn which_store() -> Failure {
    let problem = "which store? Name the service's with --store URL or in STEADFAST_STORE, such as \
                   sqlite:vendor-calls.db, or a vendors file that names it with --vendors PATH or in \
                   STEADFAST_VENDORS";
    Failure::Arguments(problem.to_owned())
}

/// Parses the store's URL. `source` is the option or variable that named it.
fn url(source: &str, store: &OsString) -> Result<StoreUrl, Failure> {
    StoreUrl::from_argument(store).map_err(|error| Failure::Arguments(format!("{source}: {error}")))
}

fn open(source: &str, store: &OsString) -> Result<Arc<dyn Store>, Failure> {
    let url = url(source, store)?.create(false);
    let url = seal_keys()?.into_iter().fold(url, StoreUrl::seal);
    url.open().map_err(Failure::Store)
}

/// Returns the keys of the environment; `None` if it has none.
pub(crate) fn seal_keys() -> Result<Option<SealKeys>, Failure> {
    let is_set = std::env::var_os(SEAL_KEYS).is_some();
    is_set.then(|| SealKeys::from_env(SEAL_KEYS).map_err(Failure::SealKeys)).transpose()
}

const STORE: &str = "STEADFAST_STORE";

/// Not an option of the command line, where every other process on the machine could read it.
const SEAL_KEYS: &str = "STEADFAST_SEAL_KEYS";

//! One TOML file for all vendors.

use std::collections::BTreeMap;
use std::env::VarError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::SecretString;

use steadfast_core::internal::ext::{ErrorExt, MistakeExt};
use steadfast_core::internal::suggest::shown;
use steadfast_core::internal::transport::is_loopback;
use steadfast_core::store::Store;
use steadfast_core::{Error, Mistake};

use crate::client::{Client, ClientBuilder};
use crate::store::StoreUrl;
use crate::telemetry;

mod adapter;
mod again;
mod document;
mod explain;
mod file;
mod headers;
mod keyed;
mod mistakes;
mod path;
mod placed;
mod policy;
mod reader;
mod routes;
mod secrets;
mod source;
mod store;
mod suggest;
mod syntax;
mod vendor;

use file::File;
use source::{Source, position};
use store::Shared;
use vendor::{Entry, Variable};

/// The vendors of a file.
///
/// The file names each vendor's adapter, limits and timeouts. It is reviewed and deployed like code, so it holds no
/// secret: it names the environment variable, which is read when the client is built. Mistakes are found before an
/// incident. An unknown key is refused, a duration has a unit, and a policy that contradicts itself does not load. One
/// run reports all mistakes, each with file, line and column, and with the right form. [`Vendors::check`] does that
/// without a secret, for a build.
///
/// ```toml
/// #:schema ./vendors.schema.json
/// namespace = "prod"                  # part of every operation's name; default "default", with a warning
/// store = "sqlite:vendor-calls.db"    # where operations are recorded; default: memory, with a warning
///
/// [vendors.stripe]
/// adapter = "stripe"                  # or postmark, square, …, keyed; default: the table's name
/// secret_env = "STRIPE_SECRET_KEY"    # the variable, never the secret
/// preset = "background"               # or interactive; default background
///
/// [vendors.stripe.policy]
/// breaker = false                     # switches a part off
///
/// [vendors.stripe.policy.timeout]     # changes the preset field by field
/// attempt = "20s"
/// ```
///
/// Every key with its default and its reason is in [the vendors file](crate::guide::vendors_file) of the examples;
/// [`Vendors::SCHEMA`] is the same for editors.
///
/// ```no_run
/// # fn run() -> Result<(), steadfast::Error> {
/// use steadfast::{Vendors, dispatcher};
///
/// // At start-up, within the runtime.
/// let vendors = Vendors::from_file("vendors.toml")?;
/// let stripe = vendors.client("stripe")?;
/// let _recovery = stripe.keep_recovering(dispatcher::PERIOD); // as long as the service runs
/// # Ok(())
/// # }
/// ```
///
/// # The store
///
/// `store` names one store for all vendors of the file:
///
/// | `store` | |
/// |---|---|
/// | `"sqlite:vendor-calls.db"` | an SQLite file, relative to the directory of the vendors file (feature `sqlite`) |
/// | `"sqlite:/var/lib/shop/vendor-calls.db"` | the same, wherever the vendors file is; also as `sqlite:///var/lib/…` |
/// | `"memory"` | memory: a crash forgets, and that is meant |
/// | left out | memory of each client's own: a crash forgets, and [a warning](ClientBuilder::store) says so |
///
/// Reading and checking the file opens nothing. The first client that is built opens the store, or makes it, and all
/// others share it, as does [`Vendors::store`]. A client records there with a scripted transport too. A test that
/// reads the service's own file gives another store with [`Vendors::with_store`], or one client its own with
/// [`ClientBuilder::store`], and the file's is not touched.
///
/// `seal_keys_env = "STEADFAST_SEAL_KEYS"` names the environment variable with the keys that seal it (feature `seal`),
/// in the form that `SealKeys::parse` takes. They are secrets, and are read as such: when the store is opened, from
/// the environment or from [`Vendors::with_secrets`].
///
/// A store that survives a crash is half of it: [`Client::keep_recovering`] carries on with what is in it. Call it on
/// each client, once in each process, and keep what it gives.
///
/// Clones share the store that the file names. `Debug` shows the vendors' names, not their settings.
///
/// ```
/// use steadfast::Vendors;
///
/// let file = r#"
///     [vendors.stripe]
///     secret_env = "STRIPE_SECRET_KEY"
///     preset = "interactive"
/// "#;
/// let vendors = Vendors::parse(file, "vendors.toml")?
///     .with_secrets(|name| (name == "STRIPE_SECRET_KEY").then(|| "sk_test_123".to_owned()));
/// assert_eq!(vendors.client("stripe")?.vendor(), "stripe");
/// # Ok::<(), steadfast::Error>(())
/// ```
#[derive(Clone)]
pub struct Vendors {
    file: String,
    namespace: Option<String>,
    store: Option<Arc<Shared>>,
    entries: BTreeMap<String, Entry>,
    secrets: Arc<Secrets>,
}

/// Source of secrets; a variable that is not text is reported as such: a person who reads that it is not set looks
/// elsewhere. The error holds the value, and is never shown.
type Secrets = dyn Fn(&str) -> Result<String, VarError> + Send + Sync;

impl Vendors {
    /// The JSON Schema (draft 2020-12) of the vendors file, for editors: completion, descriptions and defaults.
    ///
    /// Write it beside the file and name it in the file's first line, `#:schema ./vendors.schema.json`.
    pub const SCHEMA: &str = include_str!("../examples/vendors.schema.json");

    /// Reads a vendors file. No secret is read yet, and no store is opened or made.
    ///
    /// A path in `store` is relative to the directory of `path`, wherever the process runs. Where `path` is a symbolic
    /// link, that is the link's directory.
    ///
    /// # Errors
    ///
    /// A validation error with every mistake of the file (20 at a time), in the order of the lines. Its `Display` is a
    /// line for each, as
    /// `vendors.toml:12:1: unknown key `atempt` in [vendors.stripe.policy.timeout]; did you mean `attempt`?`, and
    /// [`Error::mistakes`] has them one by one. Text that is not TOML ends the reading: the lines after it are not
    /// checked. Or an error that names the file, if it cannot be read, is over 1 MiB or is not UTF-8.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Vendors, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let bytes =
            read_limited(path).map_err(|error| Error::config(&name, "cannot be read").with_source(error))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(Error::config(name, format!("the file is over the limit of {FILE_BYTES_MAX} bytes")));
        }
        match std::str::from_utf8(&bytes) {
            // Absolute from now on: the process may change its working directory before the store is opened.
            Ok(text) => Vendors::read(text, &name, std::path::absolute(path).ok()),
            Err(error) => {
                let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let place = position(&good, good.len());
                let mistake = Mistake::new(name, Some(place), "the file is not UTF-8 from here on");
                Err(Error::mistaken(vec![mistake], false))
            }
        }
    }

    /// Reads vendors from text. `name` stands for the file in errors and for nothing else: a path in `store` is
    /// relative to the process's working directory at the time when the store is opened.
    ///
    /// # Errors
    ///
    /// As [`from_file`](Vendors::from_file).
    pub fn parse(text: &str, name: &str) -> Result<Vendors, Error> {
        Vendors::read(text, name, None)
    }

    fn read(text: &str, name: &str, path: Option<PathBuf>) -> Result<Vendors, Error> {
        let directory = path.and_then(|path| path.parent().map(Path::to_owned));
        let File { namespace, store, entries } = File::read(&Source::new(name, text), directory)?;
        Ok(Vendors {
            file: name.to_owned(),
            namespace,
            store: store.map(|named| Arc::new(Shared::new(named))),
            entries,
            secrets: Arc::new(|variable: &str| std::env::var(variable)),
        })
    }

    /// Checks a vendors file without any secret: for a build, or a deployment's dry run. The store that it names is
    /// neither opened nor made.
    ///
    /// # Errors
    ///
    /// As [`from_file`](Vendors::from_file).
    pub fn check(path: impl AsRef<Path>) -> Result<(), Error> {
        Vendors::from_file(path).map(drop)
    }

    /// Returns a sentence for each setting that the file leaves out and that a service should have, without any secret:
    /// a namespace, unless all vendors are on loopback. It is no mistake, and the clients work. Their first build
    /// [warns](ClientBuilder::namespace) of it too.
    ///
    /// ```
    /// use steadfast::Vendors;
    ///
    /// let vendors = "[vendors.stripe]\nsecret_env = 'STRIPE_SECRET_KEY'";
    /// assert!(Vendors::parse(vendors, "vendors.toml")?.warnings()[0].starts_with("no namespace"));
    /// assert!(Vendors::parse(&format!("namespace = 'prod'\n{vendors}"), "vendors.toml")?.warnings().is_empty());
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    pub fn warnings(&self) -> Vec<String> {
        let is_outside = |entry: &Entry| {
            let rules = entry.rules(self.namespace.as_deref(), None);
            rules.is_ok_and(|client| !is_loopback(client.engine.vendor.base_url()))
        };
        let is_nameless = self.namespace.is_none() && self.entries.values().any(is_outside);
        if is_nameless { vec![format!("no namespace: {}", telemetry::NAMELESS)] } else { Vec::new() }
    }

    /// Takes secrets from somewhere else than the process's environment, by the names in `secret_env` and
    /// `seal_keys_env`: a vault, or a test's own table.
    #[must_use]
    pub fn with_secrets(
        mut self,
        lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Vendors {
        self.secrets = Arc::new(move |name: &str| lookup(name).ok_or(VarError::NotPresent));
        self
    }

    /// Records the operations of all clients in this store, whatever store the file names. It is for a test that
    /// reads the service's own file, and for a store that is opened in code. The file's store is then never opened.
    ///
    /// ```no_run
    /// # fn run() -> Result<(), steadfast::Error> {
    /// use steadfast::Vendors;
    /// use steadfast::store::Memory;
    ///
    /// let vendors = Vendors::from_file("vendors.toml")?
    ///     .with_secrets(|_| Some("sk_test_123".to_owned()))
    ///     .with_store(Memory::new());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_store(mut self, store: impl Store) -> Vendors {
        self.store = Some(Arc::new(Shared::given(Arc::new(store))));
        self
    }

    /// The vendors' names, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Makes the client of a vendor. Make it once, at start-up, and keep it: its breaker, budget and rate limit only
    /// work on the calls that they see.
    ///
    /// It records its operations in the store that the file names as `store`. All clients of these `Vendors` share
    /// that store; the first one opens its file, or makes it, which blocks for as long as that takes. Then call
    /// [`keep_recovering`](Client::keep_recovering) and keep what it gives: it carries on with what a crash left.
    /// If the file names no store, each client has one in [memory](crate::store::Memory) that a crash forgets, and
    /// the first such client of the process says so in a warning, see [`ClientBuilder::store`].
    ///
    /// # Errors
    ///
    /// As [`builder`](Vendors::builder), and what [`ClientBuilder::build`] refuses: with a `store`, also a validation
    /// error that says where it is named and which file does not open, with the store's own error as its source.
    pub fn client(&self, name: &str) -> Result<Client, Error> {
        self.builder(name)?.build()
    }

    /// The store of all clients, opened if it is not open yet: for a client whose adapter is code, or for
    /// [`DeadLetters`](crate::dead_letter::DeadLetters). `None` if the file names none
    /// and none was [given](Vendors::with_store).
    ///
    /// # Errors
    ///
    /// As [`client`](Vendors::client), of the store alone.
    pub fn store(&self) -> Result<Option<Arc<dyn Store>>, Error> {
        self.store.as_ref().map(|store| store.open(&*self.secrets)).transpose()
    }

    /// Opens the store as [`store`](Vendors::store) does, and never makes the file: for a tool beside the service.
    /// `None` also if the file names the store `memory`, since only the service sees that.
    ///
    /// # Errors
    ///
    /// As [`store`](Vendors::store). Of a store that is not there, the source is a
    /// [`StoreError`](crate::store::StoreError) of kind `Absent`.
    pub fn existing_store(&self) -> Result<Option<Arc<dyn Store>>, Error> {
        self.store.as_ref().map_or(Ok(None), |store| store.open_existing(&*self.secrets))
    }

    /// The file of the store that is named here; `None` if none is, or it is `memory`, or a store was
    /// [given](Vendors::with_store).
    pub fn store_path(&self) -> Option<&Path> {
        self.store.as_ref().and_then(|store| store.path())
    }

    /// The store that is named here, for a tool that opens it in a way of its own; `None` if none is, or a store was
    /// [given](Vendors::with_store).
    pub fn store_url(&self) -> Option<&StoreUrl> {
        self.store.as_ref().and_then(|store| store.url())
    }

    /// A client of each vendor that knows its rules and can send nothing: for tools such as
    /// [`DeadLetters`](crate::dead_letter::DeadLetters) that only ask what would be safe. A secret is taken where it is
    /// set, since an adapter may derive an account from it, and is not missed where it is not.
    ///
    /// # Errors
    ///
    /// The errors of [`ClientBuilder::build`], such as a secret that no header can carry.
    pub fn rules(&self) -> Result<Vec<Client>, Error> {
        let rules = |entry: &Entry| {
            let variable = entry.secret.as_ref().and_then(|variable| (self.secrets)(&variable.name).ok());
            let secret = variable.filter(|secret| !secret.trim().is_empty()).map(SecretString::from);
            entry.rules(self.namespace.as_deref(), secret)
        };
        self.entries.values().map(rules).collect()
    }

    /// Starts the client of a vendor, for a store, a transport or a clock to be added. A store that is given here is
    /// the client's, and the one that the file names is not opened for it.
    ///
    /// # Errors
    ///
    /// A validation error, if there is no such vendor, or the environment variable with its secret is unset, empty or
    /// not UTF-8; it names vendor, key and variable.
    pub fn builder(&self, name: &str) -> Result<ClientBuilder, Error> {
        let Some(entry) = self.entries.get(name) else {
            let instead = match suggest::nearest(name, self.names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are `{}`", self.names().collect::<Vec<_>>().join("`, `")),
            };
            return Err(Error::config(&self.file, format!("no vendor `{}`; {instead}", shown(name))));
        };
        let Some(Variable { name: variable, place }) = &entry.secret else {
            return Ok(self.start(entry, vendor::no_secret()));
        };
        let refuse = |problem: &str| {
            let problem = format!(
                "`secret_env` in [vendors.{name}]: the environment variable {variable} {problem}; set it to the \
                 vendor's secret"
            );
            Err(Error::mistaken(vec![Mistake::new(&self.file, Some(*place), problem)], false))
        };
        match (self.secrets)(variable) {
            Err(VarError::NotPresent) => refuse("is not set"),
            Err(VarError::NotUnicode(_)) => refuse("is not text: it is not UTF-8"),
            Ok(secret) if secret.trim().is_empty() => refuse("is empty"),
            Ok(secret) => Ok(self.start(entry, SecretString::from(secret))),
        }
    }

    fn start(&self, entry: &Entry, secret: SecretString) -> ClientBuilder {
        let builder = entry.builder(self.namespace.as_deref(), secret);
        let Some(store) = &self.store else { return builder };
        let (store, secrets) = (Arc::clone(store), Arc::clone(&self.secrets));
        builder.store_by(move || store.open(&*secrets))
    }
}

impl fmt::Debug for Vendors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vendors")
            .field("file", &self.file)
            .field("namespace", &self.namespace)
            .field("names", &self.entries.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// Reads one byte more than the limit: enough to know that the file is over it.
fn read_limited(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;

    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Far more than every vendor there is; a larger file is another file.
const FILE_BYTES_MAX: usize = 1024 * 1024;

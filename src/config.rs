//! One TOML file for all vendors.
//!
//! What a service says of its vendors (which adapter, which limits, which timeouts) belongs in a file that is
//! reviewed and deployed like code, with two conditions. It must hold no secret, so that it can be: a vendor
//! names the environment variable that holds its secret, and that is read when its client is built. And a
//! mistake in it must be found before it is met in an incident: an unknown key is refused and not ignored, a
//! duration has a unit, a policy that contradicts itself does not load, and every error names file, line and
//! column, and what would have been right. [`Vendors::check`] does all of that without a secret, for a build.
//!
//! ```toml
//! #:schema ./vendors.schema.json
//! namespace = "prod"                  # part of every operation's name; default "default"
//!
//! [vendors.stripe]
//! adapter = "stripe"                  # or postmark, bigcommerce, keyed; default: the table's name
//! secret_env = "STRIPE_SECRET_KEY"    # the variable, never the secret
//! preset = "background"               # or interactive; default background
//!
//! [vendors.stripe.policy]
//! breaker = false                     # switches a part off
//!
//! [vendors.stripe.policy.timeout]     # changes the preset field by field
//! attempt = "20s"
//! ```
//!
//! Every key with its default and its reason is in [the vendors file](crate::guide::vendors_file) of the examples;
//! [`SCHEMA`] is the same for editors.
//!
//! ```no_run
//! # fn run() -> Result<(), steadfast::Error> {
//! use steadfast::config::Vendors;
//! use steadfast::store::Memory;
//!
//! let vendors = Vendors::from_file("vendors.toml")?;
//! let stripe = vendors.client("stripe")?;
//! let postmark = vendors.builder("postmark")?.store(Memory::new()).build()?;
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;

use secrecy::SecretString;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::client::{Client, ClientBuilder};
use crate::error::Error;

mod adapter;
mod document;
mod explain;
mod policy;
mod reader;
mod secrets;
mod source;
mod suggest;
mod vendor;

use document::{Path, shown};
use explain::{Hints, unknown_key};
use reader::Reader;
use source::{Source, position};
use vendor::{Entry, Variable};

/// The JSON Schema (draft 2020-12) of the vendors file, for editors: completion, descriptions and defaults.
///
/// Write it beside the file and name it in the file's first line, `#:schema ./vendors.schema.json`.
pub const SCHEMA: &str = include_str!("../examples/vendors.schema.json");

/// The vendors of a file.
///
/// `Debug` shows their names, not their settings.
///
/// ```
/// use steadfast::config::Vendors;
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
    namespace: String,
    entries: BTreeMap<String, Entry>,
    secrets: Arc<Secrets>,
}

type Secrets = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Vendors {
    /// Reads a vendors file. No secret is read yet.
    ///
    /// # Errors
    ///
    /// A validation error with file, line and column, as `vendors.toml:12:1: unknown key `atempt` in
    /// [vendors.stripe.policy.timeout]; did you mean `attempt`?`; or one that names the file, if it cannot be
    /// read, is over 1 MiB or is not UTF-8.
    pub fn from_file(path: impl AsRef<FilePath>) -> Result<Vendors, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let bytes =
            read_limited(path).map_err(|error| Error::config(&name, "cannot be read").with_source(error))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(Error::config(name, format!("the file is over the limit of {FILE_BYTES_MAX} bytes")));
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => Vendors::parse(text, &name),
            Err(error) => {
                let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let (line, column) = position(&good, good.len());
                Err(Error::config(format!("{name}:{line}:{column}"), "the file is not UTF-8 from here on"))
            }
        }
    }

    /// Reads vendors from text. `name` stands for the file in errors.
    ///
    /// # Errors
    ///
    /// As [`from_file`](Vendors::from_file).
    pub fn parse(text: &str, name: &str) -> Result<Vendors, Error> {
        let source = Source::new(name, text);
        let reader = Reader { source };
        let root = document::parse(&source)?;
        secrets::refuse_literal(&source, &root)?;
        for (key, _) in &root {
            if !TOP_KEYS.contains(&key.get_ref().as_ref()) {
                let problem = unknown_key(key.get_ref(), &Path::default(), &TOP_KEYS, Hints::default());
                return Err(source.error(key.span().start, problem));
            }
        }
        let namespace = read_namespace(&source, &root)?;
        let mut entries = BTreeMap::new();
        if let Some(value) = root.get("vendors") {
            let path = Path::of(["vendors"]);
            for (key, value) in in_file_order(reader.table(value, &path)?) {
                let name = key.get_ref().as_ref();
                let path = path.then(name);
                check_name(name).map_err(|problem| source.error(key.span().start, problem))?;
                let entry = Entry::read(reader, &namespace, &path, key.span().start, value)?;
                entries.insert(name.to_owned(), (entry, key.span().start));
            }
        }
        refuse_shared_scopes(&source, &entries)?;
        Ok(Vendors {
            file: name.to_owned(),
            namespace,
            entries: entries.into_iter().map(|(name, (entry, _))| (name, entry)).collect(),
            secrets: Arc::new(|variable: &str| std::env::var(variable).ok()),
        })
    }

    /// Checks a vendors file without any secret: for a build, or a deployment's dry run.
    ///
    /// # Errors
    ///
    /// As [`from_file`](Vendors::from_file).
    pub fn check(path: impl AsRef<FilePath>) -> Result<(), Error> {
        Vendors::from_file(path).map(drop)
    }

    /// Takes secrets from somewhere else than the process's environment, by the names in `secret_env`: a vault,
    /// or a test's own table.
    #[must_use]
    pub fn with_secrets(
        mut self,
        look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Vendors {
        self.secrets = Arc::new(look_up);
        self
    }

    /// The vendors' names, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Makes the client of a vendor, with records in [memory](crate::store::Memory), which a crash loses. Make
    /// it once and keep it: its breaker, budget and rate limit only work on the calls that they see.
    ///
    /// # Errors
    ///
    /// As [`builder`](Vendors::builder), and what [`ClientBuilder::build`] refuses.
    pub fn client(&self, name: &str) -> Result<Client, Error> {
        self.builder(name)?.build()
    }

    /// A client of each vendor that knows its rules and can send nothing: for tools such as
    /// [`DeadLetters`](crate::dead_letter::DeadLetters) that only ask what would be safe. A secret is taken where
    /// it is set, since an adapter may tell an account by it, and is not missed where it is not.
    ///
    /// # Errors
    ///
    /// What [`ClientBuilder::build`] refuses, such as a secret that no header can carry.
    pub fn rules(&self) -> Result<Vec<Client>, Error> {
        let rules = |entry: &Entry| {
            let variable = entry.secret.as_ref().and_then(|variable| (self.secrets)(&variable.name));
            let secret = variable.filter(|secret| !secret.trim().is_empty()).map(SecretString::from);
            entry.rules(&self.namespace, secret.unwrap_or_else(vendor::no_secret))
        };
        self.entries.values().map(rules).collect()
    }

    /// Starts the client of a vendor, for a store, a transport or a clock to be added.
    ///
    /// # Errors
    ///
    /// A validation error, if there is no such vendor, or the environment variable with its secret is unset or
    /// empty; it names vendor, key and variable.
    pub fn builder(&self, name: &str) -> Result<ClientBuilder, Error> {
        let Some(entry) = self.entries.get(name) else {
            let instead = match suggest::nearest(name, self.names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.entries.is_empty() => "the file has no vendors".to_owned(),
                None => format!("there are `{}`", self.names().collect::<Vec<_>>().join("`, `")),
            };
            return Err(Error::config(&self.file, format!("no vendor `{}`; {instead}", shown(name))));
        };
        let Some(Variable { name: variable, place }) = &entry.secret else {
            return Ok(entry.builder(&self.namespace, vendor::no_secret()));
        };
        let refuse = |problem: &str| {
            let problem = format!(
                "`secret_env` in [vendors.{name}]: the environment variable {variable} {problem}; set it to the \
                 vendor's secret"
            );
            Err(Error::config(place, problem))
        };
        match (self.secrets)(variable) {
            None => refuse("is not set"),
            Some(secret) if secret.trim().is_empty() => refuse("is empty"),
            Some(secret) => Ok(entry.builder(&self.namespace, SecretString::from(secret))),
        }
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

/// One byte over the limit is enough to know that the file is.
fn read_limited(path: &FilePath) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;

    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_namespace(source: &Source<'_>, root: &DeTable<'_>) -> Result<String, Error> {
    let Some(value) = root.get("namespace") else { return Ok("default".to_owned()) };
    let refuse = |problem: String| Err(source.error(value.span().start, format!("`namespace`: {problem}")));
    match value.get_ref() {
        DeValue::String(text) => match check_word(text) {
            Ok(()) => Ok(text.to_string()),
            Err(problem) => refuse(problem),
        },
        _ => refuse("it must be text in quotes, such as \"prod\"".to_owned()),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    check_word(name).map_err(|problem| format!("vendor `{}`: {problem}", shown(name)))
}

/// Names become parts of an operation's scope, between slashes.
fn check_word(word: &str) -> Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if (1..=NAME_MAX).contains(&word.len()) && word.bytes().all(is_good) {
        return Ok(());
    }
    Err(format!("it must be 1 to {NAME_MAX} letters, digits, `_`, `-` or `.`, such as \"prod-eu\""))
}

fn in_file_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(&'t Spanned<std::borrow::Cow<'i, str>>, &'t Spanned<DeValue<'i>>)> {
    let mut vendors: Vec<_> = table.iter().collect();
    vendors.sort_by_key(|(key, _)| key.span().start);
    vendors
}

/// Two vendors with one name and one account would take each other's operations for their own.
fn refuse_shared_scopes(
    source: &Source<'_>,
    entries: &BTreeMap<String, (Entry, usize)>,
) -> Result<(), Error> {
    let mut in_order: Vec<_> = entries.iter().collect();
    in_order.sort_by_key(|(_, (_, start))| *start);
    let mut seen: BTreeMap<(String, String), &str> = BTreeMap::new();
    for (name, (entry, start)) in in_order {
        if let Some(first) = seen.insert(entry.scope.clone(), name) {
            let problem = format!(
                "[vendors.{name}] has the same adapter and account as [vendors.{first}], so that their \
                 operations could not be told apart; give each its own `account`"
            );
            return Err(source.error(*start, problem));
        }
    }
    Ok(())
}

const TOP_KEYS: [&str; 2] = ["namespace", "vendors"];

/// Far more than every vendor there is; a larger file is another file.
const FILE_BYTES_MAX: usize = 1024 * 1024;

/// A scope is a key in every store.
const NAME_MAX: usize = 64;

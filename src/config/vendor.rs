//! One `[vendors.<name>]` table: read, made into a client that cannot send, and with that checked as the real
//! one will be.

use http::HeaderMap;
use secrecy::SecretString;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::adapter::{Adapter, Kind};
use super::document::{Path, locate};
use super::explain::Hints;
use super::policy::{Preset, place_of, read as read_policy};
use super::reader::Reader;
use super::{secrets, suggest};
use crate::client::{Client, ClientBuilder};
use crate::error::{Error, Kind as ErrorKind};
use crate::policy::Policy;
use crate::transport::{Exchange, Limits, Request, SendError, SendErrorKind, Transport};

/// One vendor as the file describes it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    adapter: Adapter,
    policy: Policy,
    allow_plain_http: bool,
    redact: Vec<String>,
    /// The variable with the secret; `None` for a vendor that is sent none.
    pub secret: Option<Variable>,
    /// The vendor's and the account's names in scopes, which no other vendor of the file may share. What differs
    /// by the secret alone is not told apart by the file.
    pub scope: (String, String),
}

/// The environment variable that holds a secret.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub name: String,
    /// Where `secret_env` is written, for an error that comes up when the secret is read.
    pub place: String,
}

/// The keys that every vendor has. Those of its adapter are in a struct of their own.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Common {
    adapter: Option<Kind>,
    secret_env: Option<Spanned<String>>,
    preset: Preset,
    allow_plain_http: bool,
    redact: Vec<String>,
}

impl Entry {
    /// Reads and checks the table of the vendor at `path`.
    pub(super) fn read(
        reader: Reader<'_>,
        namespace: &str,
        path: &Path,
        key: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Entry, Error> {
        let whole = reader.table(value, path)?;
        let (common, rest): (DeTable<'_>, DeTable<'_>) =
            whole.clone().into_iter().partition(|(key, _)| COMMON_KEYS.contains(&key.get_ref().as_ref()));
        let (policies, options): (DeTable<'_>, DeTable<'_>) =
            rest.into_iter().partition(|(key, _)| key.get_ref() == POLICY_KEY);
        let span = value.span();
        let common: Common =
            reader.read(whole, Spanned::new(span.clone(), common), path, Hints::default())?;
        let name = path.vendor().unwrap_or_default();
        let Some(kind) = common.adapter.or_else(|| Kind::named(name)) else {
            return Err(reader.source.error(key, no_adapter(name, path)));
        };
        let part = Spanned::new(span, options);
        let adapter = read_adapter(reader, kind, whole, part, path)?;
        let policy = policies.values().next();
        let policy = read_policy(reader, common.preset, &path.then(POLICY_KEY), policy)?;
        let secret = match common.secret_env {
            Some(written) => Some(Variable::read(reader, path, written)?),
            None if adapter.needs_secret() => {
                return Err(reader.source.error(key, no_secret_env(name, path)));
            }
            None => None,
        };
        let Common { allow_plain_http, redact, .. } = common;
        let mut entry =
            Entry { adapter, policy, allow_plain_http, redact, secret, scope: Default::default() };
        entry.scope = entry.check(namespace).map_err(|error| placed(&error, reader, path, key, whole))?;
        Ok(entry)
    }

    /// A builder of this vendor's client.
    pub(super) fn builder(&self, namespace: &str, secret: SecretString) -> ClientBuilder {
        let builder = self.adapter.builder(secret).policy(self.policy.clone()).namespace(namespace);
        let builder = builder.redact(&self.redact);
        if self.allow_plain_http { builder.allow_plain_http() } else { builder }
    }

    /// A client that knows the vendor's rules and can send nothing.
    pub(super) fn rules(&self, namespace: &str, secret: SecretString) -> Result<Client, Error> {
        self.builder(namespace, secret).transport(Nowhere).build()
    }

    /// Builds the client as it will be built, so that the two can never differ in what they refuse, but with a
    /// secret that is none and a transport that reaches nobody. Gives the vendor's and the account's names.
    fn check(&self, namespace: &str) -> Result<(String, String), Error> {
        let client = self.rules(namespace, no_secret())?;
        let vendor = &client.engine.vendor;
        Ok((vendor.name().to_owned(), vendor.account(&HeaderMap::new()).into_owned()))
    }
}

impl Variable {
    fn read(reader: Reader<'_>, path: &Path, written: Spanned<String>) -> Result<Variable, Error> {
        let start = written.span().start;
        match secrets::check_variable(written.get_ref()) {
            Ok(()) => Ok(Variable { place: reader.source.place(start), name: written.into_inner() }),
            Err(problem) => Err(reader.source.error(start, format!("`secret_env` in {path}: {problem}"))),
        }
    }
}

pub(super) fn no_secret() -> SecretString {
    SecretString::from("none")
}

fn read_adapter(
    reader: Reader<'_>,
    kind: Kind,
    whole: &DeTable<'_>,
    mut part: Spanned<DeTable<'_>>,
    path: &Path,
) -> Result<Adapter, Error> {
    let mut also_known = COMMON_KEYS.to_vec();
    also_known.push(POLICY_KEY);
    let hints = Hints { also_known: &also_known, below: &[(POLICY_KEY, &POLICY_KEYS)] };
    Ok(match kind {
        Kind::Stripe => Adapter::Stripe(reader.read(whole, part, path, hints)?),
        Kind::Postmark => Adapter::Postmark(reader.read(whole, part, path, hints)?),
        Kind::BigCommerce => Adapter::BigCommerce(reader.read(whole, part, path, hints)?),
        // Its name in scopes is its table's, unless it says otherwise.
        Kind::Keyed => {
            let span = part.span();
            let name = DeValue::String(path.vendor().unwrap_or_default().to_owned().into());
            part.get_mut()
                .entry(Spanned::new(span.clone(), "name".into()))
                .or_insert(Spanned::new(span, name));
            Adapter::Keyed(Box::new(reader.read(whole, part, path, hints)?))
        }
    })
}

/// The client's own complaint, with its place in the file.
fn placed(error: &Error, reader: Reader<'_>, path: &Path, key: usize, whole: &DeTable<'_>) -> Error {
    let ErrorKind::Invalid { what, problem } = error.kind() else {
        return reader.source.error(key, format!("{path}: {error}"));
    };
    if *what == POLICY_KEY {
        let table = whole.get(POLICY_KEY).and_then(|policy| policy.get_ref().as_table());
        let place = table.and_then(|table| place_of(problem, table));
        let table_key = locate(whole, POLICY_KEY).map(|(offset, _)| offset);
        let offset = place.or(table_key).unwrap_or(key);
        return reader.source.error(offset, in_table(problem, &path.then(POLICY_KEY)));
    }
    let problem = problem.replace("allow_plain_http()", "`allow_plain_http = true`");
    // The keyed adapter names the field in the problem; the others give its name alone.
    let field = problem.split(':').next().unwrap_or_default();
    if let Some((offset, _)) = locate(whole, field) {
        return reader.source.error(offset, in_table(&problem, path));
    }
    let named = NAMED_BY_ADAPTERS.iter().find(|(words, _)| problem.starts_with(words));
    let field = named.map_or(*what, |(_, field)| *field);
    let offset = locate(whole, field).map_or(key, |(offset, _)| offset);
    reader.source.error(offset, format!("`{field}` in {path}: {problem}"))
}

/// "field: reason", with the table that the field is in.
fn in_table(problem: &str, path: &Path) -> String {
    match problem.split_once(": ") {
        Some((field, reason)) => format!("`{field}` in {path}: {reason}"),
        None => format!("in {path}: {problem}"),
    }
}

fn no_adapter(name: &str, path: &Path) -> String {
    if let Some(near) = suggest::nearest(name, Kind::NAMES) {
        return format!("{path} names no adapter; did you mean [vendors.{near}], or `adapter = \"{near}\"`?");
    }
    format!(
        "{path} names no adapter; add `adapter = \"keyed\"`, or one of `{}`",
        Kind::NAMES[..3].join("`, `")
    )
}

fn no_secret_env(name: &str, path: &Path) -> String {
    let variable = secrets::example_variable(name);
    format!(
        "`secret_env` is missing from {path}; name the environment variable that holds the secret, such as \
             `secret_env = \"{variable}\"`"
    )
}

/// Reaches nobody: for a client that is built to be checked.
#[derive(Debug)]
struct Nowhere;

impl Transport for Nowhere {
    fn send(&self, _: Request, _: Limits) -> Exchange<'_> {
        Box::pin(async { Err(SendError::new(SendErrorKind::Connect)) })
    }
}

const COMMON_KEYS: [&str; 5] = ["adapter", "secret_env", "preset", "allow_plain_http", "redact"];
const POLICY_KEY: &str = "policy";

/// The policy's own keys, for somebody who writes one of them a table too high. A test holds them to the
/// policy's fields.
const POLICY_KEYS: [&str; 11] = [
    "backoff",
    "timeout",
    "pause",
    "breaker",
    "budget",
    "rate",
    "concurrency",
    "limits",
    "record",
    "admission_wait",
    "look_ups_max",
];

/// What adapters call a field where they do not use its name in the file.
const NAMED_BY_ADAPTERS: [(&str, &str); 3] = [
    ("the store hash", "store_hash"),
    ("Message-ID", "message_id_domain"),
    ("Stripe-Version", "api_version"),
];

//! A `[vendors.<name>]` table: read, made into a client that cannot send, and with that checked as the real one will
//! be.

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderMap;
use secrecy::SecretString;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use steadfast_core::internal::error::field;
use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::operation::slack;
use steadfast_core::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast_core::{BoxFuture, Error, Input, Policy};

use super::adapter::{Adapter, Kind};
use super::again::read_all;
use super::explain::{Hints, unknown_key};
use super::mistakes::{Mistake, Mistakes};
use super::path::Path;
use super::placed::placed;
use super::policy::{Preset, over};
use super::routes::{self, RouteEntry};
use super::source::Source;
use super::{headers, keyed, reader, secrets, suggest};
use crate::client::{Client, ClientBuilder};
use crate::engine::retention::window_of;

/// Vendor as the file describes it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    adapter: Adapter,
    policy: Policy,
    allow_plain_http: bool,
    former_base_urls: Vec<String>,
    redact: Vec<String>,
    /// Retention by route.
    retention: BTreeMap<String, Duration>,
    routes: Vec<RouteEntry>,
    /// The variable with the secret; `None` for a vendor that is sent none.
    pub secret: Option<Variable>,
    /// The vendor's and the account's names in scopes, which no other vendor of the file may share. The file cannot
    /// distinguish two that differ by the secret alone.
    pub scope: (String, String),
}

/// The environment variable that holds a secret.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub name: String,
    /// Line and column of the name in the file, for an error that comes up when the secret is read.
    pub place: (usize, usize),
}

/// The keys that every vendor has. Those of its adapter are in a struct of their own.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Common {
    adapter: Option<Kind>,
    secret_env: Option<String>,
    preset: Preset,
    allow_plain_http: bool,
    former_base_urls: Vec<String>,
    redact: Vec<String>,
    retention: BTreeMap<String, Written>,
}

/// A duration as the file writes it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Written(#[serde(with = "humantime_serde")] Duration);

impl Entry {
    /// Reads and checks the table of the vendor at `path`, whose key is at the offset `key`, and reports all its
    /// mistakes. `None` if something is.
    pub(super) fn read_all(
        source: &Source<'_>,
        namespace: Option<&str>,
        (path, key): (&Path, usize),
        value: Spanned<DeValue<'_>>,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Entry> {
        read_all(path, value, mistakes, |value| Entry::read(source, namespace, path, key, value))
    }

    /// Reads and checks the table, up to the first mistake.
    fn read(
        source: &Source<'_>,
        namespace: Option<&str>,
        path: &Path,
        key: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Entry, Mistake> {
        let whole = reader::table(value, path)?;
        let (common, rest): (DeTable<'_>, DeTable<'_>) =
            whole.clone().into_iter().partition(|(key, _)| COMMON_KEYS.contains(&key.get_ref().as_ref()));
        let (apart, options): (DeTable<'_>, DeTable<'_>) =
            rest.into_iter().partition(|(key, _)| [POLICY_KEY, ROUTES_KEY].contains(&key.get_ref().as_ref()));
        let span = value.span();
        let common: Common = reader::read(whole, Spanned::new(span.clone(), common), path, Hints::default())?;
        let policy = apart.get(POLICY_KEY);
        let policy = over(common.preset.policy(), &path.then(POLICY_KEY), policy)?;
        let routes = apart.get(ROUTES_KEY);
        let routes =
            routes.map(|routes| routes::read(&policy, &path.then(ROUTES_KEY), routes)).transpose()?;
        let routes = routes.unwrap_or_default();
        if let Some(kept) = whole.get(RETENTION_KEY).and_then(|kept| kept.get_ref().as_table()) {
            routes::check_retention(&path.then(RETENTION_KEY), kept, &routes)?;
        }
        let secret = common.secret_env.map(|name| Variable::read(source, (path, whole), name)).transpose()?;
        let name = path.vendor().unwrap_or_default();
        let Some(kind) = common.adapter.or_else(|| Kind::named(name)) else {
            return Err(misspelt_adapter(path, &options)
                .unwrap_or_else(|| Mistake::absence(key, path.then("adapter"), no_adapter(name, path))));
        };
        let adapter = read_adapter(kind, whole, Spanned::new(span, options), path)?;
        if let (Adapter::Keyed(config), Some(_)) = (&adapter, kind.preset())
            && let Some(name) = headers::unsaid(config, whole)
        {
            return Err(Mistake::absence(key, path.then(headers::KEY).then(name), headers::none(name, path)));
        }
        let Common { allow_plain_http, former_base_urls, redact, retention, .. } = common;
        let retention = retention.into_iter().map(|(route, Written(keep))| (route, keep)).collect();
        let scope = Default::default();
        let mut entry = Entry {
            adapter,
            policy,
            allow_plain_http,
            former_base_urls,
            redact,
            retention,
            routes,
            secret,
            scope,
        };
        entry.scope = entry.check(namespace).map_err(|error| placed(&error, path, key, whole))?;
        if entry.secret.is_none() && entry.adapter.needs_secret() {
            return Err(Mistake::absence(key, path.then("secret_env"), no_secret_env(name, path)));
        }
        if entry.secret.is_some() && !entry.adapter.needs_secret() {
            let start = whole.get("secret_env").map_or(key, |written| written.span().start);
            let problem = format!(
                "`secret_env` in {path} is sent nowhere; say in which header it goes, such as \
                 `auth = {{ header = \"Authorization\", prefix = \"Bearer \" }}`"
            );
            return Err(Mistake::together(start, vec![path.then("secret_env"), path.then("auth")], problem));
        }
        Ok(entry)
    }

    /// A builder of this vendor's client.
    pub(super) fn builder(&self, namespace: Option<&str>, secret: SecretString) -> ClientBuilder {
        let builder = self.adapter.builder(secret).policy(self.policy.clone()).redact(&self.redact);
        let builder = namespace.into_iter().fold(builder, ClientBuilder::namespace);
        let keeping =
            |builder: ClientBuilder, (route, keep): (&String, &Duration)| builder.retention(route, *keep);
        let builder = self.retention.iter().fold(builder, keeping);
        let differing = |builder: ClientBuilder, entry: &RouteEntry| {
            let builder = builder.route(&entry.prefix, entry.route.clone());
            match entry.retention {
                Some(keep) => builder.retention(&entry.prefix, keep),
                None => builder,
            }
        };
        let builder = self.routes.iter().fold(builder, differing);
        let builder = self.former_base_urls.iter().fold(builder, |builder, url| builder.former_base_url(url));
        if self.allow_plain_http { builder.allow_plain_http() } else { builder }
    }

    /// A client that knows the vendor's rules and can send nothing.
    pub(super) fn rules(
        &self,
        namespace: Option<&str>,
        secret: Option<SecretString>,
    ) -> Result<Client, Error> {
        match secret {
            Some(secret) => self.builder(namespace, secret).transport(Nowhere).build(),
            None => self.builder(namespace, no_secret()).transport(Nowhere).without_secret().build(),
        }
    }

    /// Builds the client as it will be built, but with an empty secret and a transport that sends nothing. So the two
    /// can never differ in what they refuse. Gives the vendor's and the account's names.
    fn check(&self, namespace: Option<&str>) -> Result<(String, String), Error> {
        let client = self.rules(namespace, None)?;
        let vendor = &client.engine.vendor;
        let ends_early = slack(client.engine.routes.attempt_max());
        if let Some(window) =
            window_of(&***vendor, &vendor.keyed_path()).filter(|window| *window <= ends_early)
        {
            let field = match &self.adapter {
                Adapter::Keyed(_) => field!(window),
                _ => field!(replay_window),
            };
            let problem = format!(
                "{window:?} never opens: it is taken to end {ends_early:?} early, by how far clocks may differ and by the \
                 longest attempt. Leave it out for a vendor that never replays"
            );
            return Err(Error::invalid(Input::Other("vendor"), problem).at(field));
        }
        Ok((vendor.name().to_owned(), vendor.account(&HeaderMap::new()).into_owned()))
    }
}

impl Variable {
    fn read(
        source: &Source<'_>,
        (path, whole): (&Path, &DeTable<'_>),
        name: String,
    ) -> Result<Variable, Mistake> {
        let start = whole.get("secret_env").map_or(0, |written| written.span().start);
        match secrets::check_variable(&name, "STRIPE_SECRET_KEY", "replace it at the vendor") {
            Ok(()) => Ok(Variable { place: source.place(start), name }),
            Err(problem) => {
                let problem = format!("`secret_env` in {path}: {problem}");
                Err(Mistake::itself(start, path.then("secret_env"), problem))
            }
        }
    }
}

/// Whether every vendor's table may have this key, or its policy's.
pub(super) fn is_vendor_key(name: &str) -> bool {
    COMMON_KEYS.contains(&name) || [POLICY_KEY, ROUTES_KEY].contains(&name) || POLICY_KEYS.contains(&name)
}

pub(super) fn no_secret() -> SecretString {
    SecretString::from("none")
}

fn read_adapter(
    kind: Kind,
    whole: &DeTable<'_>,
    part: Spanned<DeTable<'_>>,
    path: &Path,
) -> Result<Adapter, Mistake> {
    let mut also_known = COMMON_KEYS.to_vec();
    also_known.extend([POLICY_KEY, ROUTES_KEY]);
    let hints = Hints { also_known: &also_known, below: &[(POLICY_KEY, &POLICY_KEYS)] };
    Ok(match kind {
        Kind::Stripe => Adapter::Stripe(reader::read(whole, part, path, hints)?),
        Kind::Postmark => Adapter::Postmark(reader::read(whole, part, path, hints)?),
        Kind::BigCommerce => Adapter::BigCommerce(reader::read(whole, part, path, hints)?),
        Kind::Adyen => Adapter::Adyen(reader::read(whole, part, path, hints)?),
        // Its name in scopes is its table's, unless it says otherwise.
        keyed => Adapter::Keyed(Box::new(keyed::read(keyed, path.vendor(), (whole, part), path, hints)?)),
    })
}

/// Reports a key that was meant for `adapter`: without an adapter nothing else shows which keys are good.
fn misspelt_adapter(path: &Path, options: &DeTable<'_>) -> Option<Mistake> {
    let is_near = |key: &str| suggest::nearest(key, COMMON_KEYS) == Some("adapter");
    let key = options.keys().find(|key| is_near(key.get_ref()))?;
    let problem = unknown_key(key.get_ref(), path, &COMMON_KEYS, Hints::default());
    Some(Mistake::itself(key.span().start, path.then(key.get_ref()), problem))
}

fn no_adapter(name: &str, path: &Path) -> String {
    if let Some(near) = suggest::nearest(name, Kind::names()) {
        return format!("{path} names no adapter; did you mean [vendors.{near}], or `adapter = \"{near}\"`?");
    }
    format!("{path} names no adapter; add `adapter = \"keyed\"`, or one of `{}`", Kind::OWN.join("`, `"))
}

fn no_secret_env(name: &str, path: &Path) -> String {
    let variable = secrets::example_variable(name);
    format!(
        "`secret_env` is missing from {path}; name the environment variable that holds the secret, such as \
             `secret_env = \"{variable}\"`"
    )
}

/// Sends nothing: for a client that is built to be checked.
#[derive(Debug)]
struct Nowhere;

impl Transport for Nowhere {
    fn send(&self, _: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(async { Err(SendError::new(SendErrorKind::Connect)) })
    }
}

const COMMON_KEYS: [&str; 7] =
    ["adapter", "secret_env", "preset", "allow_plain_http", "former_base_urls", "redact", RETENTION_KEY];
pub(super) const RETENTION_KEY: &str = "retention";
pub(super) const POLICY_KEY: &str = "policy";
pub(super) const ROUTES_KEY: &str = "routes";

/// The policy's own keys, for an author who writes one of them a table too high. A test holds them to the
/// policy's fields.
const POLICY_KEYS: [&str; 13] = [
    "backoff",
    "timeout",
    "pause",
    "breaker",
    "budget",
    "rate",
    "concurrency",
    "recovery",
    "limits",
    "record",
    "admission_wait",
    "in_flight",
    "lookups_max",
];

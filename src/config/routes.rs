//! `[vendors.<name>.routes."/path"]`: what differs for the calls to a part of a vendor's paths.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use steadfast_core::internal::error::Kind as ErrorKind;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::operation::RedactedFields;
use steadfast_core::{Error, OnUnknown, Policy};

use super::explain::{Hints, unknown_key};
use super::file::in_file_order;
use super::mistakes::Mistake;
use super::path::Path;
use super::policy::{Preset, over};
use super::reader;
use super::vendor::{RETENTION_KEY, ROUTES_KEY};
use crate::engine::prefixes;
use crate::engine::routes::Route;

/// A route as the file describes it, and how long its records are kept.
#[derive(Clone, Debug)]
pub(super) struct RouteEntry {
    pub prefix: String,
    pub route: Route,
    pub retention: Option<Duration>,
}

/// The keys of a route, without those of its policy.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    on_unknown: OnUnknown,
    redact: Vec<String>,
    retention: Option<Written>,
    preset: Option<Preset>,
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Written(#[serde(with = "humantime_serde")] Duration);

/// Reads the routes of the vendor whose policy this is; `path` is that of the table `routes`.
pub(super) fn read(
    policy: &Policy,
    path: &Path,
    routes: &Spanned<DeValue<'_>>,
) -> Result<Vec<RouteEntry>, Mistake> {
    let all = reader::table(routes, path)?;
    check_apart(path, all)?;
    all.iter().map(|(key, value)| read_one(policy, path, key, value)).collect()
}

/// Refuses two tables whose routes differ only in the names of parameters: one would do nothing.
fn check_apart(path: &Path, routes: &DeTable<'_>) -> Result<(), Mistake> {
    let mut seen = BTreeMap::new();
    for (key, _) in in_file_order(routes) {
        let prefix = key.get_ref();
        if let Some(first) = seen.insert(prefixes::meant(prefix), prefix) {
            let problem =
                format!("`{prefix}` in {path} is the same route as `{first}`; leave one of them out");
            return Err(Mistake::itself(key.span().start, path.then(prefix), problem));
        }
    }
    Ok(())
}

/// Refuses a second retention of a route: the table `retention`, at `path`, would do nothing.
pub(super) fn check_retention(
    path: &Path,
    retention: &DeTable<'_>,
    routes: &[RouteEntry],
) -> Result<(), Mistake> {
    check_apart(path, retention)?;
    for (key, _) in in_file_order(retention) {
        let (prefix, meant) = (key.get_ref(), prefixes::meant(key.get_ref()));
        let is_same =
            |entry: &&RouteEntry| entry.retention.is_some() && prefixes::meant(&entry.prefix) == meant;
        if let Some(other) = routes.iter().find(is_same) {
            let problem = format!(
                "`{prefix}` in {path} is set twice; `{ROUTES_KEY}.\"{}\".{RETENTION_KEY}` sets it too: leave one of \
                 them out",
                other.prefix
            );
            return Err(Mistake::itself(key.span().start, path.then(prefix), problem));
        }
    }
    Ok(())
}

fn read_one(
    vendors: &Policy,
    routes: &Path,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
) -> Result<RouteEntry, Mistake> {
    let (prefix, start) = (key.get_ref(), key.span().start);
    let path = routes.then(prefix);
    if let Some(problem) = prefixes::problem(prefix) {
        return Err(Mistake::itself(start, path.clone(), format!("{path}: {problem}")));
    }
    let whole = reader::table(value, &path)?;
    let (policies, rest): (DeTable<'_>, DeTable<'_>) =
        whole.clone().into_iter().partition(|(key, _)| key.get_ref() == POLICY_KEY);
    let hints = Hints { also_known: &[POLICY_KEY], below: &[(POLICY_KEY, &OF_A_CALL)] };
    let table: Table = reader::read(whole, Spanned::new(value.span(), rest), &path, hints)?;
    let redact = RedactedFields::new(table.redact)
        .map_err(|error| Mistake::itself(start, path.then("redact"), format!("{path}: {error}")))?;

    let mut own = vendors.clone();
    if let Some(preset) = table.preset {
        let preset = preset.policy();
        own.backoff = preset.backoff;
        (own.timeout.attempt, own.timeout.total) = (preset.timeout.attempt, preset.timeout.total);
    }
    if let Some(policy) = policies.values().next() {
        let path = path.then(POLICY_KEY);
        check_keys(&path, reader::table(policy, &path)?)?;
        own = over(own, &path, Some(policy))?;
    }
    // The limit on connecting is the connection pool's, and a shorter attempt ends it.
    own.timeout.connect = own.timeout.connect.min(own.timeout.attempt);
    own.retention = own.retention.max(own.backoff.longest()).max(own.timeout.total);
    own.validate().map_err(|error| contradiction(&error, start, &path))?;
    let route = Route {
        backoff: Some(own.backoff),
        timeout: Some(own.timeout),
        on_unknown: table.on_unknown,
        redact,
    };
    Ok(RouteEntry { prefix: prefix.to_string(), route, retention: table.retention.map(|Written(keep)| keep) })
}

/// A route has the ladder and the timeouts of a call. The gates are its vendor's.
fn check_keys(path: &Path, policy: &DeTable<'_>) -> Result<(), Mistake> {
    let refuse = |table: &Path, key: &Spanned<std::borrow::Cow<'_, str>>, known: &[&str]| {
        let problem = unknown_key(key.get_ref(), table, known, Hints::default());
        Err(Mistake::itself(key.span().start, table.then(key.get_ref()), problem))
    };
    for (key, value) in policy {
        if !OF_A_CALL.contains(&key.get_ref().as_ref()) {
            return refuse(path, key, &OF_A_CALL);
        }
        if let (TIMEOUT_KEY, DeValue::Table(timeouts)) = (key.get_ref().as_ref(), value.get_ref()) {
            let of_a_call =
                |name: &&Spanned<std::borrow::Cow<'_, str>>| TIMEOUTS.contains(&name.get_ref().as_ref());
            if let Some(key) = timeouts.keys().find(|name| !of_a_call(name)) {
                return refuse(&path.then(TIMEOUT_KEY), key, &TIMEOUTS);
            }
        }
    }
    Ok(())
}

/// Reports values that do not go together, in the route itself or with its vendor's gates.
fn contradiction(error: &Error, start: usize, path: &Path) -> Mistake {
    let policy = path.then(POLICY_KEY);
    let problem = match error.kind() {
        ErrorKind::Invalid(invalid) => {
            let field = invalid.field.as_ref().map_or_else(String::new, |field| format!("`{field}` in "));
            format!("{field}{policy}: {}", invalid.problem)
        }
        _ => format!("{policy}: {error}"),
    };
    Mistake::together(start, vec![policy, path.then("preset")], problem)
}

const POLICY_KEY: &str = "policy";
const TIMEOUT_KEY: &str = "timeout";
const OF_A_CALL: [&str; 2] = ["backoff", TIMEOUT_KEY];
const TIMEOUTS: [&str; 2] = ["attempt", "total"];

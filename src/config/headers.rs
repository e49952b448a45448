//! The headers that a keyed vendor wants on each request: those of its table, and those that its preset adds.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::path::Path;
use crate::vendor::KeyedConfig;

pub(super) const KEY: &str = "headers";

/// The headers of a vendor's table, if this is their key.
pub(super) fn of<'p, 'i>(part: &'p mut Spanned<DeTable<'i>>, key: &str) -> Option<&'p mut DeTable<'i>> {
    match part.get_mut().get_mut(key).filter(|_| key == KEY)?.get_mut() {
        DeValue::Table(headers) => Some(headers),
        _ => None,
    }
}

/// Adds known headers to those that the table has. A header is one, whatever the case of its letters.
pub(super) fn add(said: &mut DeTable<'_>, known: DeTable<'static>) {
    for (name, value) in known {
        if !is_said(said, name.get_ref()) {
            said.insert(name, value);
        }
    }
}

/// The header that a preset leaves to the table, and that the table does not say.
pub(super) fn unsaid<'c>(config: &'c KeyedConfig, whole: &DeTable<'_>) -> Option<&'c str> {
    let said = whole.get(KEY).and_then(|headers| headers.get_ref().as_table());
    let is_said = |name: &str| said.is_some_and(|said| is_said(said, name));
    config
        .headers
        .iter()
        .find(|(name, value)| value.is_empty() && !is_said(name))
        .map(|(name, _)| name.as_str())
}

fn is_said(headers: &DeTable<'_>, name: &str) -> bool {
    headers.keys().any(|said| said.get_ref().eq_ignore_ascii_case(name))
}

/// Describes a header that is missing.
pub(super) fn none(name: &str, path: &Path) -> String {
    format!(
        "`{KEY}.{name}` is missing from {path}; the vendor wants it on each request, with a value of your \
         account: add it, such as `{KEY}.{name} = \"…\"`"
    )
}

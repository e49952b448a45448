//! A vendor's policy: a preset with what the file changes of it.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use steadfast_core::Policy;

use super::explain::Hints;
use super::mistakes::Mistake;
use super::path::Path;
use super::reader::{self, spanned_table};

/// Preset that a policy starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Preset {
    /// [`Policy::background`].
    #[default]
    Background,
    /// [`Policy::interactive`].
    Interactive,
}

impl Preset {
    pub(super) fn policy(self) -> Policy {
        match self {
            Preset::Background => Policy::background(),
            Preset::Interactive => Policy::interactive(),
        }
    }
}

/// A policy with each field that `overrides` writes in that field's place.
///
/// The overrides are read twice. Once they are read by themselves, because only then does a mistake have its place in
/// the file. Once they are read laid over the base, because serde fills what is missing from [`Policy::default`]
/// and would turn an interactive vendor that changes one timeout into a background one.
pub(super) fn over(
    base: Policy,
    path: &Path,
    overrides: Option<&Spanned<DeValue<'_>>>,
) -> Result<Policy, Mistake> {
    let Some(value) = overrides else { return Ok(base) };
    let table = reader::table(value, path)?;
    let _: Policy = reader::read(table, spanned_table(value.span(), table.clone()), path, Hints::default())?;
    let lost =
        |problem: String| Mistake::itself(value.span().start, path.clone(), format!("{path}: {problem}"));
    let mut merged = toml::Value::try_from(base).map_err(|error| lost(error.to_string()))?;
    let changes = toml::Value::deserialize(ValueDeserializer::from(value.clone()))
        .map_err(|error| lost(error.message().to_owned()))?;
    merge(&mut merged, changes);
    Policy::deserialize(merged).map_err(|error| lost(error.message().to_owned()))
}

/// Tables are merged key by key; everything else, lists included, is replaced whole.
fn merge(base: &mut toml::Value, changes: toml::Value) {
    match (base, changes) {
        (toml::Value::Table(base), toml::Value::Table(changes)) => {
            for (name, change) in changes {
                match base.get_mut(&name) {
                    Some(held) => merge(held, change),
                    None => drop(base.insert(name, change)),
                }
            }
        }
        (base, change) => *base = change,
    }
}

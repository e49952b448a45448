//! Reads tables of the file into structs, and turns what does not fit into mistakes with a place.

use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::document::path_at;
use super::explain::{Hints, as_told, explain};
use super::mistakes::Mistake;
use super::path::Path;
use crate::mismatch::{Document, Mismatch};

/// The value at `path` as a table.
pub(super) fn table<'t, 'i>(
    value: &'t Spanned<DeValue<'i>>,
    path: &Path,
) -> Result<&'t DeTable<'i>, Mistake> {
    value.get_ref().as_table().ok_or_else(|| {
        let (parent, name) = path.split().unwrap_or_default();
        let problem = format!("`{name}` in {parent} must be a table, not {}", kind(value.get_ref()));
        Mistake::itself(value.span().start, path.clone(), problem)
    })
}

/// Reads `part`, which is the table at `path` or some of its keys. `whole` is that table, in which a mistake is
/// located; the hints are about that table and not about those inside of it.
pub(super) fn read<T: DeserializeOwned>(
    whole: &DeTable<'_>,
    part: Spanned<DeTable<'_>>,
    path: &Path,
    hints: Hints<'_>,
) -> Result<T, Mistake> {
    let start = part.span().start;
    let again = part.clone();
    T::deserialize(Deserializer::from(part)).map_err(|error| {
        let offset = error.span().map_or(start, |span| span.start);
        let found = path_at(whole, path, offset).unwrap_or_else(|| path.clone());
        let is_own = found.split().is_none_or(|(table, _)| table == *path);
        let hints = if is_own { hints } else { Hints::default() };
        let document = Document::deserialize(Deserializer::from(again)).ok();
        let Some(mismatch) = document.and_then(Mismatch::of::<T>) else {
            return Mistake::itself(offset, found.clone(), as_told(error.message(), &found));
        };
        let problem = explain(&mismatch, &found, hints);
        match mismatch {
            Mismatch::MissingField(field) => Mistake::absence(offset, found.then(field), problem),
            _ => Mistake::itself(offset, found, problem),
        }
    })
}

pub(super) fn spanned_table(span: Range<usize>, table: DeTable<'_>) -> Spanned<DeTable<'_>> {
    Spanned::new(span, table)
}

/// A value's kind with its article; never its text, which may be a secret.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

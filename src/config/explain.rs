//! Explanations of a mismatch in the words of the file: the key, its table and the right form.

use steadfast_core::internal::suggest::shown;

use super::file::SETTINGS;
use super::path::Path;
use super::suggest;
use crate::mismatch::{Met, Mismatch};
use crate::vendor::STORE_HASH_FOUND;

/// Facts about the table that a mistake is in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints<'a> {
    /// Keys that are good here but that serde does not know of, because another struct reads them.
    pub also_known: &'a [&'a str],
    /// Keys that are good one table further down: the table's name, and its keys.
    pub below: &'a [(&'a str, &'a [&'a str])],
}

/// Describes the mistake in the key at `path`, in the words of the file.
pub(super) fn explain(mismatch: &Mismatch, path: &Path, hints: Hints<'_>) -> String {
    let (table, key) = path.split().unwrap_or_default();
    match mismatch {
        Mismatch::UnknownField { known, .. } => unknown_key(key, &table, known, hints),
        Mismatch::MissingField(field) => {
            let found = WHERE_FOUND.iter().find(|(name, _)| name == field);
            let found = found.map_or_else(String::new, |(_, found)| format!("; {found}"));
            format!("`{field}` is missing from {path}{found}")
        }
        // A choice between keys, of which one is written.
        Mismatch::UnknownVariant { name, known } if key == name => {
            unknown_key(key, &table, known, Hints::default())
        }
        Mismatch::UnknownVariant { name, known } => {
            format!("`{}` in {table} cannot be \"{}\"; {}", shown(key), shown(name), one_of(name, known, &[]))
        }
        Mismatch::Choice { met, known } => {
            format!(
                "`{}` in {table} must be a choice, not {}; {}",
                shown(key),
                shown_met(met),
                one_of("", known, &[])
            )
        }
        Mismatch::Length { expected } => {
            format!("`{}` in {table} must be {}", shown(key), in_words(expected))
        }
        Mismatch::Value { met, expected } if expected == A_DURATION => {
            let written = match met {
                Met::Text(written) | Met::Number(written) => written,
                _ => "",
            };
            let instead = suggest::duration(written);
            format!("`{}` in {table}: {} is not a duration; {instead}", shown(key), shown_met(met))
        }
        Mismatch::Value { met, expected } => {
            let instead = if *met == Met::Boolean(true) { "; leave it out for the default" } else { "" };
            format!(
                "`{}` in {table} must be {}, not {}{instead}",
                shown(key),
                in_words(expected),
                shown_met(met)
            )
        }
        Mismatch::Custom(problem) => as_told(problem, path),
    }
}

/// A problem in the words of what found it.
pub(super) fn as_told(problem: &str, path: &Path) -> String {
    let (table, key) = path.split().unwrap_or_default();
    format!("`{}` in {table}: {}", shown(key), shown(problem.lines().next().unwrap_or_default()))
}

/// A key that does not belong where it is.
pub(super) fn unknown_key(key: &str, table: &Path, known: &[&str], hints: Hints<'_>) -> String {
    if !table.is_top() && SETTINGS.contains(&key) {
        // TOML puts all lines that follow a table's header into that table.
        return format!(
            "unknown key `{key}` in {table}; it belongs at the top of the file, above the first [table]"
        );
    }
    for (below, keys) in hints.below {
        if keys.contains(&key) {
            return format!("unknown key `{key}` in {table}; it belongs in {}", table.then(below));
        }
    }
    format!("unknown key `{}` in {table}; {}", shown(key), one_of(key, known, hints.also_known))
}

fn one_of(written: &str, known: &[&str], also: &[&str]) -> String {
    let all: Vec<&str> = also.iter().chain(known).copied().collect();
    if let Some(near) = suggest::nearest(written, all.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    match all.as_slice() {
        [] => "nothing can be set there".to_owned(),
        [only] => format!("expected `{only}`"),
        several => format!("expected one of `{}`", several.join("`, `")),
    }
}

/// Shows a value as it was written.
fn shown_met(met: &Met) -> String {
    match met {
        Met::Text(text) => format!("\"{}\"", shown(text)),
        Met::Number(number) => shown(number),
        Met::Boolean(value) => value.to_string(),
        Met::Null => "nothing".to_owned(),
        Met::List => "a list".to_owned(),
        Met::Table => "a table".to_owned(),
        Met::Other(words) => shown(words),
    }
}

fn in_words(expected: &str) -> &str {
    match expected {
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number of 0 or more",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a string" => "text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

/// Expectation that the reader of durations reports.
const A_DURATION: &str = "a duration";

/// Places to look for keys that have no default.
const WHERE_FOUND: [(&str, &str); 1] = [("store_hash", STORE_HASH_FOUND)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mismatch_is_described_in_the_words_of_the_file() {
        let path = Path::of(["vendors", "x", "y"]);
        let said = |mismatch: Mismatch| explain(&mismatch, &path, Hints::default());
        let value = |met, expected: &str| Mismatch::Value { met, expected: expected.to_owned() };
        let name = || "y".to_owned();
        for (mismatch, expected) in [
            (Mismatch::Custom("something new".into()), "`y` in [vendors.x]: something new"),
            (Mismatch::Custom(String::new()), "`y` in [vendors.x]: "),
            (
                Mismatch::UnknownField { name: name(), known: &[] },
                "unknown key `y` in [vendors.x]; nothing can be set there",
            ),
            (
                Mismatch::UnknownVariant { name: name(), known: &["z"] },
                "unknown key `y` in [vendors.x]; expected `z`",
            ),
            (
                Mismatch::Choice { met: Met::Number("5".into()), known: &["background", "interactive"] },
                "`y` in [vendors.x] must be a choice, not 5; expected one of `background`, `interactive`",
            ),
            (
                Mismatch::Length { expected: "a list of two".into() },
                "`y` in [vendors.x] must be a list of two",
            ),
            (value(Met::Other("weird".into()), "odd"), "`y` in [vendors.x] must be odd, not weird"),
            (
                value(Met::Null, "u16"),
                "`y` in [vendors.x] must be a whole number from 0 to 65535, not nothing",
            ),
            (
                value(Met::Text("x, expected y".into()), "a boolean"),
                "`y` in [vendors.x] must be true or false, not \"x, expected y\"",
            ),
            (
                value(Met::Boolean(true), "false, or the settings"),
                "`y` in [vendors.x] must be false, or the settings, not true; leave it out for the default",
            ),
        ] {
            assert_eq!(said(mismatch), expected);
        }
    }
}

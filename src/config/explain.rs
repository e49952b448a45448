//! From serde's words to ours: which key, in which table, what would have been right.
//!
//! Serde says what it met and what it expected in a text of fixed form, and gives no other access to it. That form is
//! read here, in one place. A text that is not understood is passed on as it is: a new release of serde can cost
//! clarity and nothing else. The tests hold each form.

use super::file::SETTINGS;
use super::path::Path;
use super::suggest;
use crate::suggest::{SHOWN_MAX, shown};
use crate::vendor::STORE_HASH_FOUND;

/// What else is known about the table that a mistake is in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints<'a> {
    /// Keys that are good here but that serde does not know of, because another struct reads them.
    pub also_known: &'a [&'a str],
    /// Keys that are good one table further down: the table's name, and its keys.
    pub below: &'a [(&'a str, &'a [&'a str])],
}

/// Serde's complaint about the key at `path`, in the words of the file.
pub(super) fn explain(message: &str, path: &Path, hints: Hints<'_>) -> String {
    let message = message.lines().next().unwrap_or_default();
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let (table, key) = path.split().unwrap_or_default();
        return unknown_key(key, &table, &expected_names(rest), hints);
    }
    if let Some(field) = missing(message) {
        let found = WHERE_FOUND.iter().find(|(name, _)| *name == field);
        let found = found.map_or_else(String::new, |(_, found)| format!("; {found}"));
        return format!("`{}` is missing from {path}{found}", shown(field));
    }
    let (table, key) = path.split().unwrap_or_default();
    let key = shown(key);
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let written = rest.split_once("`, expected").map_or(rest, |(written, _)| written).trim_matches('`');
        let names = expected_names(rest);
        if key == shown(written) {
            // A choice between keys, of which one is written.
            return unknown_key(&key, &table, &names, Hints::default());
        }
        return format!(
            "`{key}` in {table} cannot be \"{}\"; {}",
            shown(written),
            one_of(written, &names, &[])
        );
    }
    let Some((met, expected)) = met_and_expected(message) else {
        return format!("`{key}` in {table}: {}", shown(message));
    };
    if expected.ends_with("a duration") {
        let instead = suggest::duration(written(met).unwrap_or_default());
        return format!("`{key}` in {table}: {} is not a duration; {instead}", shown_met(met));
    }
    let instead = if met == "boolean `true`" { "; leave it out for the default" } else { "" };
    format!("`{key}` in {table} must be {}, not {}{instead}", in_words(expected), shown_met(met))
}

/// The field that serde misses, if that is its complaint.
pub(super) fn missing(message: &str) -> Option<&str> {
    let rest = message.lines().next()?.strip_prefix("missing field ")?;
    Some(rest.trim_matches('`'))
}

/// A key that does not belong where it is.
pub(super) fn unknown_key(key: &str, table: &Path, known: &[&str], hints: Hints<'_>) -> String {
    if *table != Path::default() && SETTINGS.contains(&key) {
        // TOML puts whatever follows a table's header into that table.
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

/// The names in "…, expected one of `a`, `b`", "… expected `a` or `b`" and "… expected `a`". Split from the
/// right, because what stands before is what the author wrote.
fn expected_names(message: &str) -> Vec<&str> {
    let Some((_, list)) = message.rsplit_once(", expected ") else { return Vec::new() };
    list.split('`').skip(1).step_by(2).collect()
}

fn met_and_expected(message: &str) -> Option<(&str, &str)> {
    let rest = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|start| message.strip_prefix(start))?;
    rest.rsplit_once(", expected ")
}

/// What was written, as it was written; a kind of value without its text stays as serde names it.
fn shown_met(met: &str) -> String {
    match (met, written(met)) {
        (_, Some(text)) if met.starts_with("string ") => format!("\"{}\"", shown_once(text)),
        (_, Some(text)) => shown_once(text),
        ("map", _) => "a table".to_owned(),
        ("sequence", _) => "a list".to_owned(),
        (other, _) => shown(other),
    }
}

/// The value in "string "x"", "integer `5`" and their like.
fn written(met: &str) -> Option<&str> {
    let (_, text) = met.split_once(['"', '`'])?;
    text.strip_suffix(['"', '`'])
}

/// Serde has escaped what it quotes; it only needs an end.
fn shown_once(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
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

/// Where to look for what has no default.
const WHERE_FOUND: [(&str, &str); 1] = [("store_hash", STORE_HASH_FOUND)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_not_understood_are_passed_on() {
        let path = Path::of(["vendors", "x", "y"]);
        let said = |message: &str| explain(message, &path, Hints::default());
        assert_eq!(said("something new"), "`y` in [vendors.x]: something new");
        assert_eq!(said("unknown field"), "`y` in [vendors.x]: unknown field");
        assert_eq!(
            said("unknown field `y`, there are no fields"),
            "unknown key `y` in [vendors.x]; nothing can be set there"
        );
        assert_eq!(said("invalid type: weird, expected odd"), "`y` in [vendors.x] must be odd, not weird");
        assert_eq!(said(""), "`y` in [vendors.x]: ");
    }
}

//! The rules for a request's members, down to the innermost: `fixtures/adyen_contract.json`.
//!
//! Adyen names the type that an unknown member is in, as in `Structure of CardDetails contains the following unknown
//! fields`. How it refuses a member of the wrong kind is not published: that it does not take it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

/// The first thing that is wrong with a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Members that a type does not have.
    Unknown { kind: String, members: Vec<String> },
    /// A value of another kind than its member's.
    Kind { member: String, value: String, expected: &'static str },
    /// A member that its type requires.
    Missing { member: String },
    /// A value that is too long, too short, too large or too small.
    Bounds { member: String },
    /// A currency that Adyen does not have.
    Currency,
    /// More metadata than Adyen takes.
    Metadata,
    /// A key of the metadata that is too long.
    MetadataKey,
}

#[derive(Debug, Deserialize)]
struct Contract {
    currencies: String,
    types: HashMap<String, Shape>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Shape {
    #[serde(default)]
    pub(super) required: Vec<String>,
    members: BTreeMap<String, Kind>,
}

/// As the file writes it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Kind {
    /// Text, a number, a flag, a map, or a type's name.
    Named(String),
    /// One of these words.
    Words(Vec<String>),
    List {
        list: Box<Kind>,
    },
}

/// The shape of this type.
pub(super) fn shape(kind: &str) -> Option<&'static Shape> {
    CONTRACT.types.get(kind)
}

fn has_currency(code: &str) -> bool {
    CURRENCIES.contains(code)
}

/// Checks a whole body, without what its own type requires: that is told in another order, and in words of its own.
/// Members that are null count as left out.
pub(super) fn check(kind: &str, value: &Value) -> Result<(), Wrong> {
    kinds(kind, "", value)?;
    bounds(kind, "", value)
}

/// That there is no unknown member, and none of another kind.
fn kinds(kind: &str, path: &str, value: &Value) -> Result<(), Wrong> {
    let (Some(shape), Some(members)) = (shape(kind), value.as_object()) else {
        return Err(wrong_kind(path, value, "{"));
    };
    let unknown: Vec<String> =
        members.keys().filter(|name| !shape.members.contains_key(*name)).cloned().collect();
    if !unknown.is_empty() {
        return Err(Wrong::Unknown { kind: kind.to_owned(), members: unknown });
    }
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        shape.members[name].takes(&below(path, name), value)?;
    }
    Ok(())
}

impl Kind {
    fn takes(&self, path: &str, value: &Value) -> Result<(), Wrong> {
        let no = |expected| Err(wrong_kind(path, value, expected));
        match self {
            Kind::Words(words) => {
                let is_one = value.as_str().is_some_and(|text| words.iter().any(|word| word == text));
                if is_one { Ok(()) } else { no("one of its values") }
            }
            Kind::List { list } => match value.as_array() {
                Some(all) => all.iter().try_for_each(|one| list.takes(path, one)),
                None => no("["),
            },
            Kind::Named(name) => match name.split(' ').next().unwrap_or_default() {
                "string" if !value.is_string() => no("\""),
                "integer" if value.as_i64().is_none() => no("a whole number"),
                "number" if !value.is_number() => no("a number"),
                "boolean" if !value.is_boolean() => no("true or false"),
                "string" | "integer" | "number" | "boolean" => Ok(()),
                "metadata" => map_of(path, value, Value::is_string),
                "map" => match self.of_map() {
                    "boolean" => map_of(path, value, Value::is_boolean),
                    "scalar" => map_of(path, value, |one| one.is_string() || one.is_number()),
                    "string" => map_of(path, value, Value::is_string),
                    kind => match value.as_object() {
                        Some(all) => {
                            all.iter().try_for_each(|(name, one)| kinds(kind, &below(path, name), one))
                        }
                        None => no("{"),
                    },
                },
                "PaymentMethod" => method(value).map_or(Ok(()), |kind| kinds(kind, path, value)),
                kind => kinds(kind, path, value),
            },
        }
    }

    fn fits(&self, path: &str, value: &Value) -> Result<(), Wrong> {
        let within = |size: i64| {
            let fits = self.range().is_none_or(|(low, high)| (low..=high).contains(&size));
            if fits { Ok(()) } else { Err(Wrong::Bounds { member: path.to_owned() }) }
        };
        match self {
            Kind::Words(_) => Ok(()),
            Kind::List { list } => {
                value.as_array().into_iter().flatten().try_for_each(|one| list.fits(path, one))
            }
            Kind::Named(name) => match name.split(' ').next().unwrap_or_default() {
                "string" => within(
                    value.as_str().map_or(0, |text| i64::try_from(text.chars().count()).unwrap_or(i64::MAX)),
                ),
                "integer" => within(value.as_i64().unwrap_or(0)),
                "metadata" => metadata(value),
                "map" => {
                    let mut all = value.as_object().into_iter().flatten();
                    all.try_for_each(|(name, one)| bounds(self.of_map(), &below(path, name), one))
                }
                "number" | "boolean" => Ok(()),
                "PaymentMethod" => method(value).map_or(Ok(()), |kind| bounds(kind, path, value)),
                kind => {
                    required(kind, path, value)?;
                    bounds(kind, path, value)?;
                    let currency = if is_amount(kind) { value["currency"].as_str() } else { None };
                    if currency.is_none_or(has_currency) { Ok(()) } else { Err(Wrong::Currency) }
                }
            },
        }
    }

    /// The kind of a map's values: `map boolean`.
    fn of_map(&self) -> &str {
        let Kind::Named(name) = self else { return "string" };
        name.strip_prefix("map ").unwrap_or("string")
    }

    /// `string 3..256`, `string 0..`, `integer 0..672`.
    fn range(&self) -> Option<(i64, i64)> {
        let Kind::Named(name) = self else { return None };
        let (low, high) = name.split_once(' ')?.1.split_once("..")?;
        Some((low.parse().ok()?, if high.is_empty() { i64::MAX } else { high.parse().ok()? }))
    }
}

/// That what is there is complete, and neither too long nor too large. Its kinds have been checked.
fn bounds(kind: &str, path: &str, value: &Value) -> Result<(), Wrong> {
    let Some(shape) = shape(kind) else { return Ok(()) };
    let members = value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    for (name, value) in members {
        shape.members[name].fits(&below(path, name), value)?;
    }
    Ok(())
}

/// That a value inside of the body has what its type requires.
fn required(kind: &str, path: &str, value: &Value) -> Result<(), Wrong> {
    let shape = shape(kind);
    let missing =
        shape.and_then(|shape| shape.required.iter().find(|name| is_missing(&value[name.as_str()])));
    missing.map_or(Ok(()), |name| Err(Wrong::Missing { member: below(path, name) }))
}

fn is_amount(kind: &str) -> bool {
    matches!(kind, "Amount" | "SplitAmount")
}

pub(super) fn is_missing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn map_of(path: &str, value: &Value, is_kind: impl Fn(&Value) -> bool) -> Result<(), Wrong> {
    let Some(members) = value.as_object() else { return Err(wrong_kind(path, value, "{")) };
    let wrong = members.iter().find(|(_, value)| !is_kind(value));
    wrong.map_or(Ok(()), |(name, value)| Err(wrong_kind(&below(path, name), value, "\"")))
}

/// "Maximum 20 key-value pairs per request", "20 characters per key", "80 characters per value" (`PaymentRequest` of
/// CheckoutService-v71). Of a key that is too long `PaymentLinkRequest` has an error of its own.
fn metadata(value: &Value) -> Result<(), Wrong> {
    let Some(pairs) = value.as_object() else { return Ok(()) };
    if pairs.keys().any(|name| name.chars().count() > 20) {
        return Err(Wrong::MetadataKey);
    }
    let fits = |value: &Value| value.as_str().is_none_or(|value| value.chars().count() <= 80);
    if pairs.len() <= 20 && pairs.values().all(fits) { Ok(()) } else { Err(Wrong::Metadata) }
}

/// The type of a payment method; `None` for one that the fake does not know, which is refused as such.
fn method(value: &Value) -> Option<&'static str> {
    match value["type"].as_str() {
        Some("scheme") => Some("CardDetails"),
        Some("ideal") => Some("IdealDetails"),
        _ => None,
    }
}

fn wrong_kind(path: &str, value: &Value, expected: &'static str) -> Wrong {
    Wrong::Kind { member: path.to_owned(), value: value.to_string(), expected }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../fixtures/adyen_contract.json")).expect("it is in the crate")
});

static CURRENCIES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| CONTRACT.currencies.split(' ').collect());

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind that is misspelt in the file would be a type that nothing fits.
    #[test]
    fn every_kind_in_the_file_is_known() {
        fn names<'a>(kind: &'a Kind, all: &mut Vec<&'a str>) {
            match kind {
                Kind::Named(name) => all.push(name),
                Kind::Words(words) => assert!(!words.is_empty(), "a word of none"),
                Kind::List { list } => names(list, all),
            }
        }
        let mut all = Vec::new();
        for shape in CONTRACT.types.values() {
            assert!(shape.required.iter().all(|name| shape.members.contains_key(name)), "{shape:?}");
            shape.members.values().for_each(|kind| names(kind, &mut all));
        }
        for name in all {
            let base = name.split(' ').next().unwrap();
            let ranged = matches!(base, "string" | "integer");
            assert_eq!(Kind::Named(name.to_owned()).range().is_some(), ranged && name != base, "{name}");
            let plain =
                matches!(base, "string" | "integer" | "number" | "boolean" | "metadata" | "PaymentMethod");
            let map = name
                .strip_prefix("map ")
                .is_some_and(|held| matches!(held, "string" | "boolean" | "scalar") || shape(held).is_some());
            assert!(plain || map || shape(name).is_some(), "{name}");
        }
        assert!(has_currency("EUR") && !has_currency("ZZZ"));
    }
}

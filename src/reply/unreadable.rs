//! The reason for which a reply is not the JSON that was asked for: the place, the value's kind and the expected one.
//! Never the data.
//!
//! A value is never shown, only its kind and what the type expects. The path to a field runs through the keys of the
//! document, of which some are data too: a map by customer has customers for keys. A key is shown if the type knows
//! it, and whether it does is tried out, in [`is_known`].
//!
//! A reply that can be read is read once, as ever. All this is done for one that cannot.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use steadfast_core::internal::operation::REDACTED;

use crate::mismatch::{Document, Met, Mismatch};

/// The body as a `T`.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(body).map_err(|error| explain::<T>(body, &error))
}

/// Reason in words that may be shown.
#[derive(Debug)]
pub(super) struct Unreadable {
    problem: Cow<'static, str>,
    /// Line and column, both from 1. An empty body has neither.
    place: Option<(usize, usize)>,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{} (line {line}, column {column})", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for Unreadable {}

fn explain<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Unreadable {
    let problem = match error.classify() {
        Category::Io => "it cannot be read".into(),
        Category::Syntax => "it is not JSON".into(),
        Category::Eof if body.is_empty() => {
            return Unreadable { problem: "the body is empty".into(), place: None };
        }
        Category::Eof => "the JSON ends too soon".into(),
        Category::Data => in_words::<T>(body).into(),
    };
    Unreadable { problem, place: Some((error.line(), error.column())) }
}

/// Describes the mistake in the field: its kind, and the expected one.
fn in_words<T: DeserializeOwned>(body: &[u8]) -> String {
    let failed = Failed::reading::<T>(body);
    let path = failed.as_ref().map_or_else(String::new, |failed| field::<T>(body, failed));
    let field = if path.is_empty() { "the document".to_owned() } else { format!("`{path}`") };
    match failed.and_then(|failed| failed.mismatch) {
        Some(Mismatch::MissingField(name)) => {
            let gap = if path.is_empty() { "" } else { "." };
            let name = if is_name(name) { name } else { REDACTED };
            format!("`{path}{gap}{name}` is missing")
        }
        Some(Mismatch::UnknownField { .. }) => format!("{field} is a field that was not expected"),
        Some(Mismatch::UnknownVariant { .. } | Mismatch::Choice { .. }) => {
            format!("{field} is not one of the values that were expected")
        }
        Some(Mismatch::Length { expected }) if is_short(&expected) => {
            format!("{field} is of another length, expected {expected}")
        }
        Some(Mismatch::Value { met, expected }) if is_short(&expected) => {
            format!("{field} is {}, expected {expected}", kind(&met))
        }
        _ => format!("{field} is not of the expected form"),
    }
}

/// A value's kind in JSON's words. The value itself may be anything.
fn kind(met: &Met) -> &'static str {
    match met {
        Met::Text(_) => "a string",
        Met::Number(_) => "a number",
        Met::Boolean(_) => "a boolean",
        Met::Null => "null",
        Met::List => "an array",
        Met::Table => "an object",
        Met::Other(_) => "a value of another kind",
    }
}

fn is_short(expected: &str) -> bool {
    expected.len() <= EXPECTED_LEN_MAX && !expected.contains(char::is_control)
}

/// The path to the field that did not fit; empty for the document as a whole.
fn field<T: DeserializeOwned>(body: &[u8], failed: &Failed) -> String {
    let mut shown = String::new();
    for (index, segment) in failed.path.iter().enumerate() {
        match segment {
            Segment::Seq { index } => shown.push_str(&format!("[{index}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                let is_known = index < SEGMENTS_MAX && is_known::<T>(body, key, index, failed);
                push(&mut shown, if is_known { key } else { REDACTED });
            }
            Segment::Unknown => push(&mut shown, REDACTED),
        }
    }
    shown
}

fn push(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Whether the type knows a key of the path, as a struct knows its fields and a map does not know its entries.
///
/// With the key renamed wherever it is written, in as many letters, a map fails just as before. It fails at the same
/// place, and on a path that leads through the new name. A struct misses its field, or does well without.
///
/// A map may check its keys, and refuse the new one or skip its entry. So the new name is of the same form, digits for
/// digits. A failure over the new name itself counts as a map's, unless serde says that a field or a variant is
/// unknown, as only a type with names does. The rest is a map that skips the keys that fail a check of their sum, such
/// as a card's number: numbers are not shown at all.
fn is_known<T: DeserializeOwned>(body: &[u8], key: &str, index: usize, failed: &Failed) -> bool {
    if !is_name(key) || has_number(key) || body.len() > BODY_BYTES_MAX {
        return false;
    }
    let Some((new, renamed)) = rename(body, key) else { return false };
    let Some(other) = Failed::reading::<T>(&renamed) else { return true };
    let (is_through_new_name, has_no_name) = match other.path.iter().nth(index) {
        Some(Segment::Map { key } | Segment::Enum { variant: key }) => (*key == new, false),
        Some(Segment::Unknown) => (false, true),
        _ => (false, false),
    };
    let ends_there = other.path.iter().len() == index + 1;
    let is_refused = ends_there && (is_through_new_name || has_no_name) && !other.is_over_a_name();
    !is_refused && (other.place != failed.place || !is_through_new_name)
}

/// Whether a key has a number in it that may be a person's: a phone's, a card's, a customer's.
fn has_number(key: &str) -> bool {
    key.split(|letter: char| !letter.is_ascii_digit()).any(|digits| digits.len() > DIGITS_MAX)
}

/// Place at which reading failed over the data, not over its syntax.
struct Failed {
    path: Path,
    place: (usize, usize),
    /// Mistake there, if it can be described.
    mismatch: Option<Mismatch>,
}

impl Failed {
    fn reading<T: DeserializeOwned>(body: &[u8]) -> Option<Failed> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let error = serde_path_to_error::deserialize::<_, T>(&mut json).err()?;
        let inner = error.inner();
        let document = serde_json::from_slice::<Document>(body).ok();
        Some(Failed {
            place: (inner.line(), inner.column()),
            mismatch: document.and_then(Mismatch::of::<T>),
            path: error.path().clone(),
        })
    }

    fn is_over_a_name(&self) -> bool {
        self.mismatch.as_ref().is_some_and(Mismatch::is_over_a_name)
    }
}

/// Another key of the same length and form that the document does not have, and the document with that key wherever
/// the first one stands.
fn rename(body: &[u8], key: &str) -> Option<(String, Vec<u8>)> {
    let (start, last) = key.split_at_checked(key.len().checked_sub(1)?)?;
    let written = format!("\"{key}\"");
    let letters = match last.chars().next()? {
        '0'..='9' => '0'..='9',
        'A'..='Z' => 'A'..='Z',
        _ => 'a'..='z',
    };
    let new = letters
        .filter(|letter| !last.starts_with(*letter))
        .map(|letter| format!("{start}{letter}"))
        .find(|new| !holds(body, format!("\"{new}\"").as_bytes()))?;
    let other = format!("\"{new}\"");
    let mut renamed = body.to_vec();
    let mut is_renamed = false;
    for at in 0..body.len() {
        let is_key = body[at..]
            .strip_prefix(written.as_bytes())
            .is_some_and(|rest| rest.trim_ascii_start().first() == Some(&b':'));
        if is_key {
            renamed[at..at + other.len()].copy_from_slice(other.as_bytes());
            is_renamed = true;
        }
    }
    is_renamed.then_some((new, renamed))
}

fn holds(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len()).any(|window| window == text)
}

/// Whether a text can be a field's name: none that holds an address, a sentence or a line's end.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=NAME_LEN_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

/// A type's own words for what it expects are short; a list of a hundred variants is not shown.
const EXPECTED_LEN_MAX: usize = 120;
/// Longer than any field's name.
const NAME_LEN_MAX: usize = 64;
/// More than a version or the line of an address has.
const DIGITS_MAX: usize = 3;
/// Each segment of the path costs another reading of the document. Deeper ones are rare, and are not shown.
const SEGMENTS_MAX: usize = 8;
/// Beyond this the readings would take longer than an error is worth: they hold up the thread that runs the call. Its
/// line and column are given anyway. With [`SEGMENTS_MAX`], the worst case is some milliseconds.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
    use serde::{Deserialize, Deserializer};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the types matter")]
    struct Charge {
        amount: u64,
        #[serde(default)]
        note: Option<String>,
        #[serde(default)]
        lines: Vec<Line>,
        #[serde(default)]
        by_customer: BTreeMap<String, Line>,
        #[serde(default)]
        by_currency: BTreeMap<Currency, Line>,
        #[serde(default)]
        paid_by: Option<Means>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the types matter")]
    struct Line {
        sku: String,
        #[serde(default)]
        count: u32,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the types matter")]
    struct Strict {
        amount: u64,
    }

    #[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    #[serde(rename_all = "lowercase")]
    enum Currency {
        Usd,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only the types matter")]
    enum Means {
        Card { last: u16 },
        Cash,
    }

    fn said<T: DeserializeOwned + fmt::Debug>(body: &str) -> String {
        read::<T>(body.as_bytes()).expect_err(body).to_string()
    }

    #[test]
    fn the_field_that_did_not_fit_is_named_with_what_was_expected() {
        for (body, expected) in [
            (r#"{"amount":"1000"}"#, "`amount` is a string, expected u64 (line 1, column 16)"),
            (r#"{"amount": -1}"#, "`amount` is a number, expected u64 (line 1, column 13)"),
            (r#"{"amount": 1.5}"#, "`amount` is a number, expected u64 (line 1, column 14)"),
            (r#"{"amount": null}"#, "`amount` is null, expected u64 (line 1, column 15)"),
            (r#"{"amount": [1]}"#, "`amount` is an array, expected u64 (line 1, column 11)"),
            (r#"{"amount": {}}"#, "`amount` is an object, expected u64 (line 1, column 11)"),
            (r#"{"amount": true}"#, "`amount` is a boolean, expected u64 (line 1, column 15)"),
            ("{}", "`amount` is missing (line 1, column 2)"),
            ("7", "the document is a number, expected struct Charge (line 1, column 1)"),
            (
                "{\"amount\":1,\n \"lines\":[{\"sku\":\"a\"},{\"count\":2}]}",
                "`lines[1].sku` is missing (line 2, column 33)",
            ),
            (
                r#"{"amount":1,"lines":[{"sku":7}]}"#,
                "`lines[0].sku` is a number, expected a string (line 1, column 29)",
            ),
            (
                r#"{"amount":1,"paid_by":{"card":{"last":"x"}}}"#,
                "`paid_by.card.last` is a string, expected u16 (line 1, column 41)",
            ),
            (
                r#"{"amount":1,"by_currency":{"usd":{"sku":7}}}"#,
                "`by_currency.[redacted].sku` is a number, expected a string (line 1, column 41)",
            ),
        ] {
            assert_eq!(said::<Charge>(body), expected, "{body}");
        }
    }

    #[test]
    fn text_that_is_no_json_is_distinguished_from_truncated_json() {
        assert_eq!(said::<Charge>("<html>"), "it is not JSON (line 1, column 1)");
        assert_eq!(said::<Charge>(""), "the body is empty");
        assert_eq!(said::<Charge>(r#"{"amount":"#), "the JSON ends too soon (line 1, column 10)");
    }

    /// Values, and keys that are data: of a map, of a field or a variant that the type does not know.
    #[test]
    fn nothing_of_the_data_is_shown() {
        for (body, expected) in [
            (
                r#"{"amount":1,"by_customer":{"hunter2":{"sku":7}}}"#,
                "`by_customer.[redacted].sku` is a number, expected a string (line 1, column 45)",
            ),
            (
                r#"{"amount":1,"by_customer":{"hunter2" : 7}}"#,
                "`by_customer.[redacted]` is a number, expected struct Line (line 1, column 40)",
            ),
            // The same key twice, escaped, and as a value.
            (
                r#"{"amount":1,"note":"hunter2","by_customer":{"h\u0075nter2":{"sku":7}}}"#,
                "`by_customer.[redacted].sku` is a number, expected a string (line 1, column 67)",
            ),
            (
                r#"{"amount":1,"by_customer":{"ada hunter2@x.test":{"sku":7}}}"#,
                "`by_customer.[redacted].sku` is a number, expected a string (line 1, column 56)",
            ),
            (
                r#"{"amount":1,"paid_by":"hunter2"}"#,
                "`paid_by` is not one of the values that were expected (line 1, column 31)",
            ),
            (
                r#"{"amount":1,"paid_by":{"hunter2":1}}"#,
                "`paid_by` is not one of the values that were expected (line 1, column 32)",
            ),
            (r#"{"amount":"x, expected hunter2"}"#, "`amount` is a string, expected u64 (line 1, column 31)"),
        ] {
            let said = said::<Charge>(body);
            assert_eq!(said, expected, "{body}");
            assert!(!said.contains("hunter2"));
        }
        let unknown = said::<Strict>(r#"{"hunter2":1}"#);
        assert_eq!(unknown, "`[redacted]` is a field that was not expected (line 1, column 10)");
        let known = said::<Strict>(r#"{"amount":"hunter2"}"#);
        assert_eq!(known, "`amount` is a string, expected u64 (line 1, column 19)");
    }

    #[test]
    fn a_key_is_renamed_where_it_is_a_key_and_into_none_that_is_there() {
        let body = br#"{"ab":"ab","aa":{"ab" : "x \"ab\": "}}"#;
        let (new, renamed) = rename(body, "ab").expect("renamed");
        assert_eq!((new.as_str(), &renamed[..]), ("ac", &br#"{"ac":"ab","aa":{"ac" : "x \"ab\": "}}"#[..]));
        for (key, expected) in [("a9", "a0"), ("A", "B"), ("a_", "aa"), ("0", "1")] {
            let body = format!("{{\"{key}\":1}}");
            assert_eq!(rename(body.as_bytes(), key).expect(key).0, expected);
        }
        assert_eq!(rename(body, "absent"), None);
        assert_eq!(rename(body, ""), None);
    }

    /// Keys that are checked, and so of types that look as if they knew them.
    #[test]
    fn no_key_of_a_map_that_checks_its_keys_is_shown() {
        for (body, place) in [
            (r#"{"by":{"4242424242424242":{"sku":7}}}"#, 34),
            (r#"{"by":{"421":{"sku":7}}}"#, 21),
            (r#"{"by_phone":{"4915112345678":{"sku":7}}}"#, 37),
            (r#"{"by_phone":{"491":{"sku":7}}}"#, 27),
            (r#"{"by_number":{"4242424242424242":{"sku":7}}}"#, 41),
            (r#"{"by_known":{"hunter":{"sku":7}}}"#, 30),
            (r#"{"skipping":{"4915112345678":{"sku":7}}}"#, 37),
            (r#"{"skipping":{"491":{"sku":7}}}"#, 27),
        ] {
            let map = body[2..].split('"').next().expect("a name");
            let expected =
                format!("`{map}.[redacted].sku` is a number, expected a string (line 1, column {place})");
            assert_eq!(said::<Checked>(body), expected, "{body}");
        }
        // A field of digits is not shown either, and one with few of them is.
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only the types matter")]
        struct Address {
            line1: Option<String>,
            zip2024: Option<String>,
        }
        assert!(said::<Address>(r#"{"line1":1}"#).starts_with("`line1` is a number"));
        assert!(said::<Address>(r#"{"zip2024":1}"#).starts_with("`[redacted]` is a number"));
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Checked {
        by: BTreeMap<u64, Line>,
        by_phone: BTreeMap<Phone, Line>,
        by_number: BTreeMap<Card, Line>,
        by_known: BTreeMap<Hunter, Line>,
        skipping: Skipping,
    }

    /// A key of digits alone.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Phone;

    /// A key whose digits have a sum.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Card;

    /// A key of a list that is known when it is run.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Hunter;

    /// A map that leaves out what is no phone's number.
    #[derive(Debug, Default)]
    struct Skipping;

    fn checked<'de, D: Deserializer<'de>>(from: D, check: fn(&str) -> bool) -> Result<(), D::Error> {
        let text = String::deserialize(from)?;
        if check(&text) { Ok(()) } else { Err(D::Error::custom(format!("{text} is not one"))) }
    }

    fn is_digits(text: &str) -> bool {
        text.bytes().all(|byte| byte.is_ascii_digit())
    }

    impl<'de> Deserialize<'de> for Phone {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Phone, D::Error> {
            checked(from, is_digits).map(|()| Phone)
        }
    }

    impl<'de> Deserialize<'de> for Card {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Card, D::Error> {
            let is_one = |text: &str| {
                is_digits(text) && text.bytes().map(|digit| u32::from(digit - b'0')).sum::<u32>() == 48
            };
            checked(from, is_one).map(|()| Card)
        }
    }

    impl<'de> Deserialize<'de> for Hunter {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hunter, D::Error> {
            checked(from, |text| text == "hunter").map(|()| Hunter)
        }
    }

    impl<'de> Deserialize<'de> for Skipping {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Skipping, D::Error> {
            from.deserialize_map(Skipping)
        }
    }

    impl<'de> Visitor<'de> for Skipping {
        type Value = Skipping;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("lines by phone number")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Skipping, A::Error> {
            while let Some(key) = map.next_key::<String>()? {
                if is_digits(&key) {
                    map.next_value::<Line>()?;
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(Skipping)
        }
    }

    #[test]
    fn a_document_that_is_too_long_or_too_deep_to_try_out_shows_no_key() {
        let long = format!(r#"{{"note":"{}","amount":"x"}}"#, "x".repeat(BODY_BYTES_MAX));
        assert!(said::<Charge>(&long).starts_with("`[redacted]` is a string, expected u64"));
    }
}

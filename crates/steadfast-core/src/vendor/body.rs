//! Bodies, opened just far enough to add a key.
//!
//! A caller's numbers must reach the vendor with the digits they were written with, and through
//! `serde_json::Value` an amount of `10.00` becomes `10.0` and an integer over 64 bits loses its end. So a
//! member's value stays the text it was; only what is added is ours. This happens once, when the operation is
//! stamped: what is stored afterwards is resent byte for byte.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::fmt;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::error::{Error, Input};
use crate::vendor::rules::is_unread;

/// A JSON object whose members keep their order and their values' exact text. A name that appears twice is
/// refused: which one counts would be the vendor's guess.
#[derive(Clone, Debug, Default)]
pub struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    /// The object in a request's body.
    pub fn parse(body: &[u8]) -> Result<RawObject, Error> {
        serde_json::from_slice(body)
            .map_err(|error| not_usable("a JSON object is needed to carry the key", &error))
    }

    /// The object in a member's value.
    pub fn parse_value(name: &str, value: &RawValue) -> Result<RawObject, Error> {
        let problem = format!("`{name}` must be a JSON object to carry the key");
        serde_json::from_str(value.get()).map_err(|error| not_usable(&problem, &error))
    }

    #[allow(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A member's value, with its name compared exactly.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| &**value)
    }

    /// Whether there is such a member, in any case of letters.
    pub fn has_ignoring_case(&self, name: &str) -> bool {
        self.0.iter().any(|(member, _)| member.eq_ignore_ascii_case(name))
    }

    /// A member's value as text, if it is text.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Sets a member, in its old place if it had one.
    pub fn set(&mut self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let value = raw(value)?;
        match self.0.iter_mut().find(|(member, _)| member == name) {
            Some((_, held)) => *held = value,
            None => self.0.push((name.to_owned(), value)),
        }
        Ok(())
    }

    pub fn to_bytes(&self) -> Result<Bytes, Error> {
        to_bytes(self)
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawObject, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut members: Vec<(String, Box<RawValue>)> = Vec::new();
                let mut names = std::collections::HashSet::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom("a member's name appears twice"));
                    }
                    members.push((name, value));
                }
                Ok(RawObject(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// The array of objects in a request's body.
pub fn parse_array(body: &[u8]) -> Result<Vec<RawObject>, Error> {
    serde_json::from_slice(body).map_err(|error| not_usable("a JSON array of objects is needed", &error))
}

/// The body as JSON; `None` if it is anything else.
pub fn json(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok()
}

pub fn to_bytes(value: &impl Serialize) -> Result<Bytes, Error> {
    let bytes =
        serde_json::to_vec(value).map_err(|error| not_usable("the body could not be written", &error))?;
    Ok(bytes.into())
}

pub fn raw(value: &impl Serialize) -> Result<Box<RawValue>, Error> {
    serde_json::value::to_raw_value(value).map_err(|error| not_usable("the key could not be written", &error))
}

/// Reports the parser's complaint, which has a line and a column and never quotes values, so it may be shown. `data`
/// errors can quote a value's type, not its text, because every value is read as raw text.
fn not_usable(problem: &str, error: &serde_json::Error) -> Error {
    let (line, column) = (error.line(), error.column());
    Error::validation(Input::Body, format!("{problem} (line {line} column {column})"))
}

/// Whether a success is neither an object nor a list in JSON, at a route that always answers with one.
pub fn is_text(answer: &Answer) -> bool {
    !is_unread(answer) && !answer.json().is_some_and(|body| body.is_object() || body.is_array())
}

/// An answer that a lookup puts together in the shape of the one that was lost.
pub fn reconciled(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Answer::new(status, headers, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_numbers_keep_their_digits_and_members_their_order() {
        let body = r#"{"z":10.00,"a":{"deep": 123456789012345678901234567890},"m":1e2}"#;
        let mut object = RawObject::parse(body.as_bytes()).expect("an object");
        object.set("key", &"k").expect("set");
        let expected = r#"{"z":10.00,"a":{"deep": 123456789012345678901234567890},"m":1e2,"key":"k"}"#;
        assert_eq!(object.to_bytes().expect("bytes"), expected);
    }

    #[test]
    fn bodies_other_than_objects_and_repeated_members_are_refused() {
        for bad in ["", "[]", "null", "{", r#"{"a":1,"a":2}"#, "a=1"] {
            assert_eq!(RawObject::parse(bad.as_bytes()).expect_err(bad).code(), "VALIDATION.body");
        }
    }

    #[test]
    fn an_error_never_quotes_the_body() {
        let error = RawObject::parse(br#"{"card":"4242", secret}"#).expect_err("not json");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}

//! A row's values as a database keeps them: names and headers as JSON, and the whole as one blob where it is sealed.

use std::fmt;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use url::Url;

use super::{Account, OutboxRow};
use crate::guard::Guard;
use crate::operation::OnUnknown;
use crate::operation::{Key, OperationId, Scope, Sequence};
use crate::request::Request;
use crate::store::numbers::{duration_ms, to_ms};
use crate::store::seals::{Part, Seals};
use crate::store::statement::Value as Parameter;
use crate::store::{StoreError, StoreErrorKind, codec};

/// Condition under which a record whose key has a row is spared from a purge. Such a row is judged by what was on
/// record when it was written, however late it is admitted.
pub fn spares<T>(with_row: T, without: T) -> T {
    Guard::RowSparesRecord.or(with_row, without)
}

/// The name of a row's operation, of its account, method, path and key. `None` where these are no names.
pub fn name_of_row(account: &Account, (method, path): (&str, &str), key: &str) -> Option<OperationId> {
    let Account { namespace, vendor, account } = account;
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let path = path.split('?').next().unwrap_or_default();
    Some(OperationId::new(Scope::new(namespace, vendor, account, &method, path), Key::new(key).ok()?))
}

/// `{"Stripe-Account": "acct_1"}`; a header that is there more than once has an array of its values.
fn headers_text(headers: &[(String, String)]) -> String {
    let mut object: Map<String, Value> = Map::new();
    for (name, value) in headers {
        match object.get_mut(name) {
            None => drop(object.insert(name.clone(), value.as_str().into())),
            Some(Value::Array(values)) => values.push(value.as_str().into()),
            Some(first) => *first = Value::Array(vec![first.take(), value.as_str().into()]),
        }
    }
    Value::Object(object).to_string()
}

/// # Errors
///
/// A text that names the mistake.
pub fn headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let pairs: Pairs = serde_json::from_str(text)
        .map_err(|_| "headers: it must be a JSON object of names and their values".to_owned())?;
    let mut headers = Vec::new();
    for (name, value) in pairs.0 {
        let values = match value {
            Value::Array(values) => values,
            one => vec![one],
        };
        for value in values {
            let Value::String(value) = value else {
                return Err(format!("headers: the value of {name:?} must be a text, or an array of texts"));
            };
            headers.push((name.clone(), value));
        }
    }
    Ok(headers)
}

/// An object's members in their order, also those of one name: a map would keep the last and lose the others.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A JSON array of the fields' names; `None` for none.
fn names_text(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| Value::from(names).to_string())
}

/// # Errors
///
/// A text that names the mistake.
pub fn names(text: Option<&str>) -> Result<Vec<String>, String> {
    let names = text.map(serde_json::from_str).transpose();
    names.map(Option::unwrap_or_default).map_err(|_| "redact: it must be a JSON array of names".to_owned())
}

/// A row as the parameters of a statement, in the order of the table of the outbox.
pub fn values(account: &Account, row: &OutboxRow, sealed: Option<Vec<u8>>) -> Vec<Parameter> {
    let text = |text: &str| Parameter::Text(Some(text.to_owned()));
    let is_sealed = sealed.is_some();
    // The route of a sealed row stays readable, as an operation's does in its scope. Its query does not.
    let path = if is_sealed { row.path.split('?').next().unwrap_or_default() } else { &row.path };
    let headers = if is_sealed { "{}".to_owned() } else { headers_text(&row.headers) };
    let skips = row.sequence.as_ref().is_some_and(Sequence::skips_dead_letters);
    let on_unknown = row.on_unknown.map(|choice| text(name_of(choice)));
    vec![
        text(&account.namespace),
        text(&account.vendor),
        text(&account.account),
        text(&row.method),
        text(path),
        text(&row.key),
        Parameter::Text(Some(headers)),
        Parameter::Bytes((!is_sealed).then(|| row.body.clone())),
        Parameter::Bytes(sealed.map(Bytes::from)),
        Parameter::Integer(row.due.map(to_ms)),
        on_unknown.unwrap_or(Parameter::Text(None)),
        Parameter::Integer(row.keep.map(duration_ms)),
        Parameter::Text(names_text(&row.redact)),
        Parameter::Text(row.supersedes.clone()),
        Parameter::Text(row.origin.clone()),
        Parameter::Text(row.sequence.as_ref().map(|sequence| sequence.name().to_owned())),
        text(if skips { SKIP } else { HOLD }),
        Parameter::Integer(Some(to_ms(row.enqueued_at))),
    ]
}

/// Path with query, headers and body in the form of a request that is stored, sealed for the row's account and key.
pub fn sealed_bytes(seals: &Seals, account: &Account, row: &OutboxRow) -> Result<Vec<u8>, StoreError> {
    let unfit = |what: &str| StoreError::new(format!("{what} cannot be sealed for the outbox"));
    let id = sealed_for(account, &row.key).ok_or_else(|| unfit("a key that is none"))?;
    let method = Method::from_bytes(row.method.as_bytes()).map_err(|_| unfit("a method that is none"))?;
    let url = Url::parse(&[NOWHERE, &row.path].concat()).map_err(|_| unfit("a path that is none"))?;
    let mut request = Request::new(method, url);
    for (name, value) in &row.headers {
        let header =
            HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_bytes(value.as_bytes()).ok());
        let (name, value) = header.ok_or_else(|| unfit("a header that is none"))?;
        request.headers.append(name, value);
    }
    request.body.clone_from(&row.body);
    seals.request(&id, &request)
}

/// Puts what was sealed into `row`.
///
/// # Errors
///
/// `Sealed` for a key that is not at hand, `Corrupt` for what is not what was sealed for this account and key.
fn unsealed(
    seals: &Seals,
    account: &Account,
    (row, blob): (&mut OutboxRow, Vec<u8>),
) -> Result<(), StoreError> {
    let id = sealed_for(account, &row.key).ok_or_else(|| StoreError::new("a sealed row has no key"))?;
    let request = codec::request(seals.unseal(Part::Request, &id, blob)?)?;
    row.path = request.url.path().to_owned();
    if let Some(query) = request.url.query() {
        row.path.extend(["?", query]);
    }
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    row.headers = request.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    row.method = request.method.to_string();
    row.body = request.body;
    Ok(())
}

/// Unseals a row. A part that cannot be read, and a body of more than `body_bytes_max`, is the row's problem.
///
/// # Errors
///
/// `Sealed` for a key that is not at hand: another process may have it.
pub fn whole(
    seals: &Seals,
    account: &Account,
    (mut row, blob): (OutboxRow, Option<Vec<u8>>),
    body_bytes_max: usize,
) -> Result<OutboxRow, StoreError> {
    if let Some(blob) = blob {
        match unsealed(seals, account, (&mut row, blob)) {
            Err(error) if error.kind() == StoreErrorKind::Sealed => return Err(error),
            Err(error) => row.problem = Some(error.to_string()),
            Ok(()) if row.body.len() > body_bytes_max => {
                row.problem = Some(too_large(row.body.len(), body_bytes_max));
                row.body = Bytes::new();
            }
            Ok(()) => {}
        }
    }
    Ok(row)
}

/// The problem of a row whose body is not read.
pub fn too_large(bytes: impl fmt::Display, body_bytes_max: usize) -> String {
    format!("body: {bytes} bytes are over the limit of {body_bytes_max}")
}

/// The name that a row is sealed for. No scope begins like this (a `%` in a namespace is written `%25`), so that a row
/// cannot be put in place of an operation's request, or the other way round.
pub fn sealed_for(account: &Account, key: &str) -> Option<OperationId> {
    let Account { namespace, vendor, account } = account;
    let scope = Scope::new(namespace, vendor, account, &Method::POST, "");
    let scope = Scope::from_stored(["%outbox/", scope.as_str()].concat());
    Some(OperationId::new(scope, Key::new(key).ok()?))
}

/// Returns a row's choice for an unknown outcome; `None` if there is no such choice.
pub fn on_unknown(written: &str) -> Option<OnUnknown> {
    let choices = [OnUnknown::ByMethod, OnUnknown::Park, OnUnknown::Resend];
    choices.into_iter().find(|choice| name_of(*choice) == written)
}

fn name_of(choice: OnUnknown) -> &'static str {
    match choice {
        OnUnknown::ByMethod => "by_method",
        OnUnknown::Park => "dead_letter",
        OnUnknown::Resend => "resend",
    }
}

const HOLD: &str = "hold";
const SKIP: &str = "skip";

/// The sequence of a row, from its name and what a dead letter does to it.
pub fn sequence(name: Option<String>, on_dead_letter: &str) -> Option<Sequence> {
    let sequence = Sequence::new(name?);
    Some(if on_dead_letter == SKIP { sequence.skip_dead_letters() } else { sequence })
}

/// Stands for the vendor's address, which no row has.
const NOWHERE: &str = "https://outbox.invalid";

/// A row without anything in it.
#[cfg(test)]
pub fn empty() -> OutboxRow {
    OutboxRow {
        number: 0,
        method: "POST".to_owned(),
        path: "/".to_owned(),
        key: "k".to_owned(),
        headers: Vec::new(),
        body: Bytes::new(),
        due: None,
        on_unknown: Some(OnUnknown::ByMethod),
        keep: None,
        redact: Vec::new(),
        supersedes: None,
        origin: None,
        sequence: None,
        enqueued_at: crate::clock::Timestamp::default(),
        problem: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn headers_are_an_object_whose_values_are_texts() {
        for (text, expected) in [
            ("{}", vec![]),
            (r#"{"A":"1","B":["2","3"]}"#, vec![("A", "1"), ("B", "2"), ("B", "3")]),
            (r#"{"A":"1","A":"2"}"#, vec![("A", "1"), ("A", "2")]),
        ] {
            assert_eq!(headers(text).expect(text), pairs(&expected), "{text}");
        }
        for text in ["", "[]", "null", r#"{"A":1}"#, r#"{"A":[["1"]]}"#, r#"{"A":null}"#] {
            assert!(headers(text).expect_err(text).starts_with("headers: "), "{text}");
        }
        let secret = headers(r#"{"A":{"hunter2":1}}"#).expect_err("no text");
        assert!(!secret.contains("hunter2"), "{secret}");
    }

    #[test]
    fn names_are_an_array_of_texts() {
        assert_eq!(names(None).expect("none"), Vec::<String>::new());
        assert_eq!(names(Some(r#"["To"]"#)).expect("one"), ["To"]);
        for text in ["{}", r#"["a",1]"#, "x"] {
            assert!(names(Some(text)).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_written_row_is_read_back(
            header in prop::collection::vec(("[a-z]{1,3}", "\\PC{0,8}"), 0..6),
            redact in prop::collection::vec("\\PC{1,8}", 0..3),
        ) {
            // Headers of one name keep their order; among names, none is promised.
            let sorted = |mut headers: Vec<(String, String)>| {
                headers.sort_by(|one, other| one.0.cmp(&other.0));
                headers
            };
            let read = headers(&headers_text(&header)).expect("its own text");
            prop_assert_eq!(sorted(read), sorted(header));
            prop_assert_eq!(names(names_text(&redact).as_deref()).expect("its own text"), redact);
        }
    }

    #[cfg(feature = "seal")]
    #[test]
    fn a_sealed_row_opens_under_its_own_name_alone() {
        let seals = Seals::with(crate::store::SealKeys::new([7; 32]));
        let account = |account: &str| Account {
            namespace: "n".to_owned(),
            vendor: "v".to_owned(),
            account: account.to_owned(),
        };
        let mut row = empty();
        (row.path, row.body) = ("/x?token=1".to_owned(), Bytes::from_static(b"{}"));
        row.headers = pairs(&[("a", "1"), ("a", "é")]);
        let blob = sealed_bytes(&seals, &account("a"), &row).expect("seals");
        let mut read =
            OutboxRow { path: "/x".to_owned(), headers: Vec::new(), body: Bytes::new(), ..row.clone() };
        unsealed(&seals, &account("a"), (&mut read, blob.clone())).expect("opens");
        assert_eq!(read, row);
        assert!(unsealed(&seals, &account("b"), (&mut read, blob.clone())).is_err(), "of another account");
        read.key = "other".to_owned();
        assert!(unsealed(&seals, &account("a"), (&mut read, blob)).is_err(), "of another key");
    }
}

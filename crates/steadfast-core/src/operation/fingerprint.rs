//! Fingerprint of an operation's request, in 32 bytes: the same key with another fingerprint is a mistake of the
//! caller's, and nothing is sent.

use std::fmt;

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

use crate::request::Request;

pub(crate) mod digest;
pub(crate) mod form;
pub(crate) mod ijson;
pub(crate) mod plain;

use digest::Digested;

/// SHA-256 over version tag, method, route, query, account and canonical body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// A fingerprint as it was stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    /// Writes the first eight bytes in hexadecimal: enough to tell two apart by eye.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The fingerprint of `request` as the caller made it, before an adapter stamps or authorises it.
///
/// The order in which a map was written is no other request. So a form counts as its decoded pairs in the order of
/// their names, where pairs of one name keep theirs. JSON within I-JSON (RFC 7493) counts in its canonical form (RFC
/// 8785). Every other body counts byte for byte. So does JSON that repeats a member or has a number that a double
/// does not hold, and a form in which the order of other names matters too (`items[][price]`).
pub fn fingerprint(account: &str, request: &Request) -> Fingerprint {
    let mut hash = head(account, request);
    match essence(request) {
        Some(kind) if is_json(kind) => {
            let plain = plain::canonical(&request.body);
            match plain.or_else(|| canonical(ijson::parse(&request.body))) {
                Some(canonical) => part(&mut hash, JSON, &canonical),
                None => part(&mut hash, RAW, &request.body),
            }
        }
        Some(kind) if kind.eq_ignore_ascii_case(FORM_TYPE) => {
            hash.put(&[FORM]);
            let is_of_pairs = form::each_pair(&request.body, |name, value| {
                hash.put_sized(name);
                hash.put_sized(value);
            });
            if !is_of_pairs {
                hash = head(account, request);
                part(&mut hash, RAW, &request.body);
            }
        }
        _ => part(&mut hash, RAW, &request.body),
    }
    Fingerprint(hash.finish())
}

/// Parts of an unstamped request that enter the fingerprint and that an adapter's stamp may change. They are kept
/// beside the stamped request for a record that an adoption brought: its fingerprint is of another account.
#[derive(Clone, Debug)]
pub struct Unstamped {
    body: Bytes,
    kind: Option<HeaderValue>,
}

impl Unstamped {
    /// Takes them from a request that is not stamped yet. Two reference counts, no copy.
    pub fn of(request: &Request) -> Unstamped {
        Unstamped { body: request.body.clone(), kind: request.headers.get(CONTENT_TYPE).cloned() }
    }

    /// The request which is `stamped` now, as it was before.
    pub fn request(&self, stamped: &Request) -> Request {
        let mut request = Request::new(stamped.method.clone(), stamped.url.clone());
        request.body = self.body.clone();
        request.headers.extend(self.kind.clone().map(|kind| (CONTENT_TYPE, kind)));
        request
    }
}

/// A hash of all but the body.
fn head(account: &str, request: &Request) -> Digested {
    let mut hash = Digested::new();
    hash.put(FINGERPRINT_TAG);
    let query = request.url.query().unwrap_or("");
    let parts = [request.method.as_str(), request.url.path(), query, account];
    parts.into_iter().for_each(|part| hash.put_sized(part.as_bytes()));
    hash
}

/// A body of a form, so that equal bytes of another form are another body.
fn part(hash: &mut Digested, form: u8, body: &[u8]) {
    hash.put(&[form]);
    hash.put_sized(body);
}

fn canonical(value: Option<serde_json::Value>) -> Option<Vec<u8>> {
    serde_json_canonicalizer::to_vec(&value?).ok()
}

fn essence(request: &Request) -> Option<&str> {
    let kind = request.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next().unwrap_or("").trim())
}

fn is_json(essence: &str) -> bool {
    essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json")
}

const RAW: u8 = 0;
const JSON: u8 = 1;
const FORM: u8 = 2;
const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// Says which derivation made a fingerprint; it changes only if the derivation does.
const FINGERPRINT_TAG: &[u8] = b"steadfast fingerprint 2\0";

#[cfg(test)]
mod tests {
    use http::Method;
    use proptest::prelude::*;
    use url::Url;

    use super::*;

    fn request(url: &str, kind: &'static str, body: &str) -> Request {
        let mut request = Request::new(Method::POST, Url::parse(url).expect("a url"));
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        request.body = body.to_owned().into();
        request
    }

    #[test]
    fn the_order_of_json_members_does_not_matter_and_their_values_do() {
        let print =
            |body| fingerprint("", &request("https://v.test/x", "application/json; charset=utf-8", body));
        assert_eq!(print(r#"{"a":1,"b":[2]}"#), print("{ \"b\" : [2], \"a\": 1.0 }"));
        assert_ne!(print(r#"{"a":1}"#), print(r#"{"a":2}"#));
        assert_ne!(print(r#"{"a":1}"#), print(r#"{"a":"1"}"#));
    }

    #[test]
    fn unequal_json_outside_i_json_has_unequal_fingerprints() {
        let print = |body| fingerprint("", &request("https://v.test/x", "application/json", body));
        for (one, other) in [
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            ("[9007199254740993]", "[9007199254740992]"),
            ("[0.1000000000000000055]", "[0.1]"),
            ("[10.000000000000000001]", "[10]"),
        ] {
            assert_ne!(print(one), print(other), "{one}");
            assert_eq!(print(one), print(one));
        }
    }

    #[test]
    fn a_form_is_its_pairs_in_the_order_of_their_names() {
        let print =
            |body| fingerprint("", &request("https://v.test/x", "application/x-www-form-urlencoded", body));
        for (one, other) in [
            ("a=1&b=2", "b=2&a=1"),
            ("metadata[a]=1&metadata[b]=2", "metadata%5Bb%5D=2&metadata%5Ba%5D=1"),
            ("a=x+y", "a=x%20y"),
            ("a[]=1&b=0&a[]=2", "b=0&a[]=1&a[]=2"),
        ] {
            assert_eq!(print(one), print(other), "{one}");
        }
        for (one, other) in [
            ("a=1&b=2", "a=2&b=1"),
            ("a[]=1&a[]=2", "a[]=2&a[]=1"),
            ("a=1&b=2", "a=1%26b%3D2"),
            ("ab=c", "a=bc"),
            ("a=%ff", "a=%fe"),
            ("i[][a]=1&i[][b]=2&i[][a]=3", "i[][a]=1&i[][a]=3&i[][b]=2"),
        ] {
            assert_ne!(print(one), print(other), "{one}");
        }
        let raw = fingerprint("", &request("https://v.test/x", "text/plain", "a=1&b=2"));
        assert_ne!(raw, fingerprint("", &request("https://v.test/x", "text/plain", "b=2&a=1")));
    }

    #[test]
    fn every_part_of_a_request_counts() {
        let base = fingerprint("acct", &request("https://v.test/x?q=1", "text/plain", "a=1"));
        for (account, url, body) in [
            ("other", "https://v.test/x?q=1", "a=1"),
            ("acct", "https://v.test/y?q=1", "a=1"),
            ("acct", "https://v.test/x?q=2", "a=1"),
            ("acct", "https://v.test/x?q=1", "a=2"),
        ] {
            assert_ne!(base, fingerprint(account, &request(url, "text/plain", body)));
        }
        let mut put = request("https://v.test/x?q=1", "text/plain", "a=1");
        put.method = Method::PUT;
        assert_ne!(base, fingerprint("acct", &put));
    }

    #[test]
    fn json_that_does_not_parse_counts_byte_for_byte() {
        let print = |body| fingerprint("", &request("https://v.test/x", "application/json", body));
        assert_ne!(print("{a:1}"), print("{a: 1}"));
    }

    proptest! {
        #[test]
        fn other_bytes_are_another_fingerprint(a in ".{0,64}", b in ".{0,64}") {
            let print = |body: &str| fingerprint("", &request("https://v.test/x", "text/plain", body));
            prop_assert_eq!(print(&a) == print(&b), a == b);
        }
    }
}

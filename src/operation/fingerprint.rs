//! What an operation asks for, in 32 bytes: the same key with another fingerprint is a mistake of the
//! caller's, and nothing is sent.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::request::Request;

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
    /// The first eight bytes in hexadecimal: enough to tell two apart by eye.
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
/// JSON bodies are canonicalised (RFC 8785), so that another order of members is the same request. Every
/// other body, and JSON that does not parse, counts byte for byte.
pub fn fingerprint(account: &str, request: &Request) -> Fingerprint {
    let canonical = canonical_json(request);
    let body: &[u8] = canonical.as_deref().unwrap_or(&request.body);
    let mut hash = Sha256::new();
    hash.update(FINGERPRINT_TAG);
    let method = request.method.as_str();
    let query = request.url.query().unwrap_or("");
    for part in [method, request.url.path(), query, account] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update((body.len() as u64).to_be_bytes());
    hash.update(body);
    Fingerprint(hash.finalize().into())
}

fn canonical_json(request: &Request) -> Option<Vec<u8>> {
    let kind = request.headers.get(http::header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = kind.split(';').next().unwrap_or("").trim();
    if !essence.eq_ignore_ascii_case("application/json") && !essence.ends_with("+json") {
        return None;
    }
    let value: serde_json::Value = serde_json::from_slice(&request.body).ok()?;
    serde_json_canonicalizer::to_vec(&value).ok()
}

/// Says which derivation made a fingerprint; it changes only if the derivation does.
const FINGERPRINT_TAG: &[u8] = b"steadfast fingerprint 1\0";

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method};
    use proptest::prelude::*;
    use url::Url;

    use super::*;

    fn request(url: &str, kind: &'static str, body: &str) -> Request {
        let mut request = Request::new(Method::POST, Url::parse(url).expect("a url"));
        request.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
        request.body = body.to_owned().into();
        request
    }

    #[test]
    fn the_order_of_json_members_does_not_matter_and_their_values_do() {
        let print = |body| fingerprint("", &request("https://v.test/x", "application/json; charset=utf-8", body));
        assert_eq!(print(r#"{"a":1,"b":[2]}"#), print("{ \"b\" : [2], \"a\": 1.0 }"));
        assert_ne!(print(r#"{"a":1}"#), print(r#"{"a":2}"#));
        assert_ne!(print(r#"{"a":1}"#), print(r#"{"a":"1"}"#));
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

//! Headers that choose an account at a vendor, as a part of an operation's name.
//!
//! Two merchants of one platform may have an order of the same number. A key that names the order alone would then give
//! the second one's caller the outcome of the first.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::HeaderName;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::invalid::InputErrorExt;
use crate::error::{Error, Input};
use crate::guard::Guard;

/// Refuses a name that an adapter may not give its account. The part after a `>` names an account that is reached
/// through the one before it ([`Scope::is_reached_by`](crate::operation::Scope::is_reached_by)): the client of that one
/// would carry on this one's calls.
pub fn check_account(name: &str) -> Result<(), Error> {
    if Guard::OneAccount.keeps(name.contains('>')) {
        let problem = "`>` in the name of an account stands before another one that is reached through it; leave it out";
        return Err(Error::invalid(Input::Other("account"), problem).set_by("account"));
    }
    Ok(())
}

/// Returns the account that a header chooses, as a name has it; `None` without the header.
///
/// A short text stands for itself. Anything else is a digest, because a name is shown and has a limit. The times of a
/// JSON Web Token are left out: a token that was issued again is of the same merchant.
pub fn chosen_by(name: &HeaderName, headers: &HeaderMap) -> Option<String> {
    let values: Vec<&[u8]> =
        headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii()).collect();
    (!values.is_empty()).then(|| named(&values.join(&b","[..])))
}

/// Returns the account that a header's value chooses, as [`chosen_by`] does.
pub fn named(value: &[u8]) -> String {
    let value = value.trim_ascii();
    let is_short = value.len() <= SHOWN_MAX && value.iter().all(|byte| byte.is_ascii_graphic());
    if let Some(claims) = claims(value) {
        return digest(serde_json::to_string(&claims).unwrap_or_default().as_bytes());
    }
    // A `>` would look like one more account behind this one.
    match std::str::from_utf8(value) {
        Ok(text) if is_short && !text.contains('>') => text.to_owned(),
        _ => digest(value),
    }
}

/// Whether a header of this name chooses an account at most vendors that have it.
pub fn is_usual(name: &HeaderName) -> bool {
    let words: Vec<&str> = name.as_str().split(['-', '_']).collect();
    if words.iter().any(|word| OF_ONE_REQUEST.contains(word)) {
        return false;
    }
    words.iter().any(|word| WORDS.contains(word))
        || PAIRS.iter().any(|pair| words.windows(2).any(|two| two == pair))
}

/// Returns the claims of a JSON Web Token (RFC 7519), without its times and its own number.
fn claims(value: &[u8]) -> Option<BTreeMap<String, Value>> {
    let mut parts = value.split(|byte| *byte == b'.');
    let (Some(head), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    serde_json::from_slice::<BTreeMap<String, Value>>(&decoded(head)?).ok()?;
    let mut claims: BTreeMap<String, Value> = serde_json::from_slice(&decoded(claims)?).ok()?;
    claims.retain(|name, _| !OF_ONE_TOKEN.contains(&name.as_str()));
    Some(claims)
}

/// Base64 in the alphabet of URLs or the usual one; the padding may be there.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len()), 0u32, 0);
    for letter in text.iter().take_while(|letter| **letter != b'=') {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(six)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("#{digits}")
}

/// Length up to which an account is shown as it is: Stripe's have 21 letters, and a path of three of them 65.
const SHOWN_MAX: usize = 80;

/// Bytes of a digest: among a million accounts two collide once in 37 million such sets.
const DIGEST_BYTES: usize = 8;

/// Claims that differ from one token to the next of the same merchant (RFC 7519, section 4.1).
const OF_ONE_TOKEN: [&str; 4] = ["exp", "nbf", "iat", "jti"];

/// Words in the names of such headers: `Stripe-Account`, `Xero-Tenant-Id`, `OpenAI-Organization`, `X-Merchant-Id`.
const WORDS: [&str; 9] = [
    "account",
    "subaccount",
    "tenant",
    "merchant",
    "organization",
    "organisation",
    "workspace",
    "shop",
    "store",
];

/// Words in the names of headers that differ from one request to the next, such as `X-Merchant-Signature`: in a name they
/// would make a repeat another operation.
const OF_ONE_REQUEST: [&str; 14] = [
    "token",
    "secret",
    "signature",
    "sign",
    "sig",
    "hmac",
    "digest",
    "nonce",
    "timestamp",
    "date",
    "time",
    "session",
    "request",
    "trace",
];

/// Pairs of words that mark such a header, beside [`WORDS`]: `PLAID-CLIENT-ID`, `PayPal-Auth-Assertion`,
/// `Stripe-Context`, `X-On-Behalf-Of`.
const PAIRS: [[&str; 2]; 4] =
    [["client", "id"], ["auth", "assertion"], ["stripe", "context"], ["behalf", "of"]];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_is_named_by_its_owner_and_not_by_its_times() {
        // {"alg":"none"} . {"iss":"client","payer_id":"M1"} . ""
        let first = b"eyJhbGciOiJub25lIn0.eyJpc3MiOiJjbGllbnQiLCJwYXllcl9pZCI6Ik0xIn0.";
        // The same in another order, with an iat.
        let anew = b"eyJhbGciOiJub25lIn0.eyJpYXQiOjE3MDAwMDAwMDAsInBheWVyX2lkIjoiTTEiLCJpc3MiOiJjbGllbnQifQ.";
        let other = b"eyJhbGciOiJub25lIn0.eyJpc3MiOiJjbGllbnQiLCJwYXllcl9pZCI6Ik0yIn0.";
        assert_eq!(named(first), named(anew));
        assert_ne!(named(first), named(other));
        assert!(named(first).starts_with('#') && named(first).len() == 17);
    }

    #[test]
    fn a_long_header_value_becomes_a_digest() {
        assert_eq!(named(b" acct_1/acct_2 "), "acct_1/acct_2");
        for odd in [&b"a>b"[..], b"a b", "\u{fc}".as_bytes(), &[b'a'; 81]] {
            assert!(named(odd).starts_with('#'), "{odd:?}");
        }
        let mut headers = HeaderMap::new();
        let name = HeaderName::from_static("x-account");
        assert_eq!(chosen_by(&name, &headers), None);
        headers.append(&name, HeaderValue::from_static("a"));
        headers.append(&name, HeaderValue::from_static("b"));
        assert_eq!(chosen_by(&name, &headers).as_deref(), Some("a,b"));
    }

    #[test]
    fn names_that_say_account_are_usual() {
        let is = |name: &'static str| is_usual(&HeaderName::from_static(name));
        for name in
            ["stripe-account", "xero-tenant-id", "x_merchant_id", "plaid-client-id", "paypal-auth-assertion"]
        {
            assert!(is(name), "{name}");
        }
        for name in [
            "x-request-id",
            "square-version",
            "paypal-request-id",
            "x-client-version",
            "accept",
            "x-merchant-signature",
            "x-account-token",
            "x-store-timestamp",
            "x-shop-nonce",
        ] {
            assert!(!is(name), "{name}");
        }
    }
}

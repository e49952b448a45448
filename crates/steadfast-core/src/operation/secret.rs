//! Headers that carry secrets, of a call or of an adapter. A request is stored with its headers, and stores and
//! operators see those; a secret belongs to the adapter, which adds it at each send.

use http::header::{AUTHORIZATION, COOKIE, HeaderName, PROXY_AUTHORIZATION, SET_COOKIE};

/// Whether this header carries a secret wherever it is used.
pub fn is_secret(name: &HeaderName) -> bool {
    SECRET_HEADERS.contains(name)
}

/// RFC 9110 (11.6.2, 11.7.2), RFC 6265, the two names that vendors use most for tokens, and Postmark's own
/// (<https://postmarkapp.com/developer/api/overview>, "Authentication").
pub static SECRET_HEADERS: [HeaderName; 8] = [
    AUTHORIZATION,
    PROXY_AUTHORIZATION,
    COOKIE,
    SET_COOKIE,
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-postmark-server-token"),
    HeaderName::from_static("x-postmark-account-token"),
];

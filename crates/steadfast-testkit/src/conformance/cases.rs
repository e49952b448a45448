//! Inputs that every adapter gets.

use std::panic::{AssertUnwindSafe, catch_unwind};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::WireKey;
use steadfast_core::transport::{Answer, Request, SendErrorKind};

use super::{Book, Conformance};

/// Time of the operation's first claim: 2026-01-01T00:00:00Z.
pub(super) const CLAIMED_AT: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Every kind of failure without an answer.
pub(super) const FAILURES: [SendErrorKind; 9] = [
    SendErrorKind::Dns,
    SendErrorKind::Connect,
    SendErrorKind::Tls,
    SendErrorKind::Request,
    SendErrorKind::Timeout,
    SendErrorKind::NotProcessed,
    SendErrorKind::Reset,
    SendErrorKind::Truncated,
    SendErrorKind::Redirected,
];

/// A page of a proxy, a gateway or a sign-in portal.
pub(super) const PAGE: &str = "<!DOCTYPE html><html><head><title>Sign in</title></head></html>";

/// A failure in JSON as many vendors write one, and as a gateway may.
pub(super) const PROBLEM: &str = r#"{"code":"bad","message":"no","error":{"type":"x"},"errors":[]}"#;

/// Bodies that no vendor sends on purpose.
pub(super) const JUNK: [&[u8]; 14] = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"0",
    b"\"ok\"",
    b"ok",
    b"{\"",
    b"[{\"id\":",
    b"\xff\xfe\x00",
    b"{\"data\":[null,7,{\"metadata\":7}],\"Messages\":{},\"object\":\"list\",\"has_more\":true}",
    b"[null,[],{\"ErrorCode\":\"x\"},99999999999999999999999999999999]",
    b"{\"error\":7,\"errors\":7,\"code\":-1e400,\"status\":{}}",
    b"{\"object\":\"list\",\"data\":[{}],\"has_more\":true}",
];

pub(super) fn answer(status: u16, headers: &[(&'static str, &str)], body: impl AsRef<[u8]>) -> Answer {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            map.append(HeaderName::from_static(name), value);
        }
    }
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
    Answer::new(status, map, body.as_ref().to_vec())
}

/// Returns a page for a browser, with this status.
pub(super) fn page(status: u16) -> Answer {
    answer(status, &[("content-type", "text/html; charset=utf-8")], PAGE)
}

/// Returns a failure in JSON, with this status.
pub(super) fn problem(status: u16) -> Answer {
    answer(status, &[("content-type", "application/json")], PROBLEM)
}

/// Returns the same answer with another status.
pub(super) fn with_status(answer: &Answer, status: u16) -> Answer {
    let mut answer = answer.clone();
    answer.status = StatusCode::from_u16(status).unwrap_or(answer.status);
    answer
}

/// Returns the key of the first or the second of two operations.
pub(super) fn wire_key(second: bool) -> WireKey {
    let text =
        if second { "9b3f1c2e-6d5a-8f70-9a1b-2c3d4e5f6071" } else { "1d0c8a57-42be-8c33-b6a4-7e915f20d3c8" };
    text.parse().expect("a constant that is a UUID")
}

/// Returns the call with another method. A safe method and a DELETE have no body.
pub(super) fn with_method(call: &Request, method: Method) -> Request {
    let mut request = call.clone();
    if method.is_safe() || method == Method::DELETE {
        request.body = bytes::Bytes::new();
        request.headers.remove(http::header::CONTENT_TYPE);
    }
    request.method = method;
    request
}

/// Returns true if `text` is anywhere in a request.
pub(super) fn is_in(request: &Request, text: &str) -> bool {
    let holds = |bytes: &[u8]| bytes.windows(text.len().max(1)).any(|part| part == text.as_bytes());
    holds(request.url.as_str().as_bytes())
        || holds(&request.body)
        || request.headers.values().any(|value| holds(value.as_bytes()))
}

impl Conformance<'_> {
    /// Returns the call as the adapter stamps it, with the key as the vendor sees it.
    pub(super) fn stamped(
        &self,
        method: &Method,
        second: bool,
        book: &mut Book,
    ) -> Option<(Request, String)> {
        let mut request = with_method(&self.call, method.clone());
        let stamped =
            self.asked(book, || "stamp".to_owned(), |vendor| vendor.stamp(wire_key(second), &mut request))?;
        match stamped {
            Ok(key) => Some((request, key)),
            Err(error) => {
                book.hold(TAKES_A_KEY, false, || format!("{method} {}: {error}", self.call.url.path()));
                None
            }
        }
    }

    /// Returns the adapter's result. `None` if it panics.
    pub(super) fn asked<T>(
        &self,
        book: &mut Book,
        what: impl FnOnce() -> String,
        ask: impl FnOnce(&dyn steadfast_core::vendor::Vendor) -> T,
    ) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(|| ask(self.vendor))).ok();
        book.hold(NEVER_PANICS, result.is_some(), what);
        result
    }
}

const NEVER_PANICS: &str = "no input makes an adapter panic";
const TAKES_A_KEY: &str = "the call of the test takes a key";

//! The vendor's answer, as it came over the wire.

use std::fmt;

use bytes::Bytes;
use easy_ext::ext;
use http::{HeaderMap, HeaderName, StatusCode};

/// A vendor's answer, whole: status, headers and body as they were received.
///
/// `Debug` shows the status, the names of the headers and the length of the body, never their contents.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// let declined = [("amount", "1000"), ("currency", "usd"), ("source", "tok_chargeDeclined")];
/// let error = stripe.post("/v1/charges").key("order-42").form(&declined).send().await.unwrap_err();
///
/// // The vendor's own words.
/// let answer = error.answer().unwrap();
/// assert_eq!(answer.status, 402);
/// assert_eq!(answer.json().unwrap()["error"]["code"], "card_declined");
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers, as received.
    pub headers: HeaderMap,
    /// The body, as received, up to the reply limit.
    pub body: Bytes,
    /// Whether the body went on beyond the reply limit and was cut there.
    pub cut: bool,
}

impl Answer {
    /// An answer with a whole body.
    pub fn new(status: StatusCode, headers: HeaderMap, body: impl Into<Bytes>) -> Answer {
        Answer { status, headers, body: body.into(), cut: false }
    }

    /// A header's value as text; `None` if it is absent or not visible ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON; `None` if it is anything else. A gateway's HTML error page is `None`, not a panic.
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Methods that only the crates of this workspace call.
#[ext(AnswerExt)]
impl Answer {
    /// Returns the header of a name that is parsed already.
    pub fn header_named(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether a gateway had no answer in time.
    pub fn is_gateway_timeout(&self) -> bool {
        self.status == StatusCode::GATEWAY_TIMEOUT
    }

    /// Whether the vendor had too many requests, and executed this one not.
    pub fn is_rate_limit(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
    }
}

/// Status, headers and body. The flag [`cut`](Answer::cut) is lost.
impl From<Answer> for http::Response<Bytes> {
    fn from(answer: Answer) -> http::Response<Bytes> {
        let mut response = http::Response::new(answer.body);
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        response
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status.as_u16())
            .field("headers", &self.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .field("cut", &self.cut)
            .finish()
    }
}

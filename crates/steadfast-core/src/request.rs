//! The request, as it is sent over the wire.

use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use easy_ext::ext;
use http::header::{self, HeaderName};
use http::{HeaderMap, Method};
use url::Url;

use crate::guard::Guard;

/// A request, whole: cheap to clone and byte-identical each time it is sent.
///
/// `Debug` shows the method, host, path, the names of the headers and the length of the body: never a query,
/// a header's value or a body.
///
/// ```
/// use steadfast::http::Method;
/// use steadfast::transport::Request;
/// use steadfast::url::Url;
///
/// let mut request = Request::new(Method::POST, Url::parse("https://api.example/charges")?);
/// request.body = r#"{"amount":1000}"#.into();
/// assert_eq!(request.url.path(), "/charges");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// The whole URL.
    pub url: Url,
    /// The headers. Secrets are in here only between the adapter's `authorize` and the transport.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
}

impl Request {
    /// A request without headers or body.
    pub fn new(method: Method, url: Url) -> Request {
        Request { method, url, headers: HeaderMap::new(), body: Bytes::new() }
    }
}

/// Methods that only the crates of this workspace call.
#[ext(RequestExt)]
impl Request {
    /// Stands for a request that is elsewhere.
    pub fn empty() -> Request {
        static BLANK: LazyLock<Url> =
            LazyLock::new(|| Url::parse("about:blank").expect("a constant that parses"));
        Request::new(Method::GET, BLANK.clone())
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("host", &self.url.host_str())
            .field("path", &self.url.path())
            .field("headers", &self.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// Whether a header says where a request goes or ends, or as which method it counts. Neither a call nor a vendor's table
/// may say that.
pub fn is_of_the_connection(name: &HeaderName) -> bool {
    NOT_A_CALLS.contains(name) || (Guard::MethodIsOne.holds() && OTHER_METHOD.contains(name))
}

/// `Host` may lead a shared proxy to another host than the base URL's, with the adapter's secret. The others say where a
/// request ends on a connection that later requests share (RFC 9112, sections 3.2, 6 and 9.6).
const NOT_A_CALLS: [HeaderName; 7] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
];

/// Headers that make a server take the method for another, so that a GET may delete, and a PUT may add.
const OTHER_METHOD: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
];

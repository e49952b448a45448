//! The request, as it is sent over the wire.

use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderMap, Method};
use url::Url;

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

    /// Stands for a request that is elsewhere.
    pub(crate) fn empty() -> Request {
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
            .field("headers", &self.headers.keys().map(http::HeaderName::as_str).collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

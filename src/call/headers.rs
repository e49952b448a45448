//! The headers of a call, and which of them it must not give.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Call;

impl Call {
    /// Adds a header. It is stored with the operation, so it must not be a secret: secrets belong to the adapter. At
    /// most 1,000; more is a mistake that [`send`](Call::send) reports. So is each header that
    /// [carries a secret](crate::ClientBuilder::secret_headers), such as `Authorization` and `Cookie`, and a value that
    /// is marked sensitive. That holds for a call without a key too: a reader of the code cannot see whether a call is
    /// stored. `Host` is a mistake too, and so are the headers that frame a request or make it another method
    /// (`X-HTTP-Method-Override`).
    pub fn header<N, V>(mut self, name: N, value: V) -> Call
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Display,
        V: TryInto<HeaderValue>,
        V::Error: fmt::Display,
    {
        self.prepared.header(name, value);
        self
    }

    /// Headers, in place of those of the same names: as in reqwest. Otherwise as [`header`](Call::header).
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// use steadfast::http::{HeaderMap, HeaderValue};
    ///
    /// let connected = HeaderMap::from_iter([("stripe-account".parse()?, HeaderValue::from_static("acct_1"))]);
    /// let reply = stripe.get("/v1/charges").headers(connected).send().await?;
    /// assert_eq!(reply.status(), 200);
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    pub fn headers(mut self, headers: HeaderMap) -> Call {
        for name in headers.keys() {
            self.prepared.request.headers.remove(name);
        }
        let mut of = None;
        for (name, value) in headers {
            // A further value of one name comes without it.
            of = name.or(of);
            if let Some(name) = of.clone() {
                self = self.header(name, value);
            }
        }
        self
    }
}

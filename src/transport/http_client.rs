//! [`Http`]: one exchange over reqwest, sent once and as given.
//!
//! reqwest does two things on its own that a call with an effect cannot bear, and both are off here:
//!
//! - It follows redirects. A 307 or 308 sends the body a second time; a 301, 302 or 303 turns a POST into a
//!   GET whose 200 reads like the POST's success; each carries secret headers of a vendor's own
//!   (`X-Auth-Token`) to wherever the redirect points. A 3xx simply is the answer.
//! - It retries what it thinks safe, or what a `retry` policy of the caller's says. Retries are the engine's,
//!   which counts, budgets and records them.

use std::fmt;
use std::mem;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, header};
use reqwest::redirect;

use crate::answer::Answer;
use crate::error::Error;
use crate::request::Request;
use crate::transport::failure::before_the_answer;
use crate::transport::watched_body::WatchedBody;
use crate::transport::{Exchange, Limits, Progress, SendError, SendErrorKind, Transport};

/// The transport over reqwest. Cheap to clone; clones share one pool of connections.
///
/// Every request goes exactly as given, whether it is an operation's or not: a retry underneath would escape the
/// budget, and a failure to connect would no longer prove that nothing was sent.
///
/// # Cancellation safety
///
/// Dropping the future of [`send`](Transport::send) closes the exchange's connection (HTTP/1) or resets its
/// stream (HTTP/2). The vendor may have received the request by then. [`Limits::progress`] says whether it has: a
/// request with a body that still waits for its connection has not left. A request without a body counts as one that
/// may have left, because HTTP/1 ends it with its head and nothing could hold it back at the last moment.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use steadfast::Client;
/// use steadfast::transport::Http;
/// use steadfast::vendor::Stripe;
///
/// # fn main() -> Result<(), steadfast::Error> {
/// let reqwest = reqwest::Client::builder().pool_idle_timeout(Duration::from_secs(30));
/// let http = Http::builder().reqwest(reqwest).build()?;
/// let stripe = Client::builder(Stripe::new("sk_test_123")).transport(http).build()?;
/// assert_eq!(stripe.vendor(), "stripe");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Http {
    client: reqwest::Client,
    /// Whether the client was built here, so that reqwest's retries are known to be off.
    built_here: bool,
}

/// Builds an [`Http`].
pub struct HttpBuilder {
    reqwest: Option<reqwest::ClientBuilder>,
    connect_timeout: Option<Duration>,
}

impl Http {
    /// How long connecting may take if nobody says otherwise: the background policy's figure.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    /// A builder with the defaults: reqwest's, [`Http::CONNECT_TIMEOUT`], no redirects, no retries.
    pub fn builder() -> HttpBuilder {
        HttpBuilder { reqwest: None, connect_timeout: None }
    }

    /// Takes a client that the caller has built, with its pool, proxies and certificates.
    ///
    /// A built client cannot be changed any more. Its `retry` policy is made harmless: it needs a clone of the
    /// body, and the bodies that it gets from here cannot be cloned. Its redirect policy cannot be: a followed
    /// 303 that points back to the same URL leaves no trace in the response. So the client must say in its
    /// `Debug` output that it follows none.
    ///
    /// # Errors
    ///
    /// `VALIDATION.input` if the client may follow redirects. Build it with
    /// `.redirect(reqwest::redirect::Policy::none())`, or pass its builder to [`HttpBuilder::reqwest`].
    ///
    /// # Example
    ///
    /// ```
    /// use steadfast::transport::Http;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mine = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    /// let http = Http::from_client(mine)?;
    /// assert!(Http::from_client(reqwest::Client::new()).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_client(client: reqwest::Client) -> Result<Http, Error> {
        if follows_no_redirects(&client) {
            return Ok(Http { client, built_here: false });
        }
        Err(Error::invalid(
            "reqwest client",
            "it may follow redirects, which can apply an operation twice or pass a redirect's target off as \
             its answer; build it with `.redirect(reqwest::redirect::Policy::none())`, or give its \
             ClientBuilder to `Http::builder().reqwest(..)`",
        ))
    }

    async fn exchange(&self, request: Request, limits: Limits) -> Result<Answer, SendError> {
        let https = request.url.scheme() == "https";
        // A client from elsewhere has shown that it follows no redirect; its answers are held to that.
        let asked = (!self.built_here).then(|| request.url.clone());
        let Limits { reply_bytes_max, progress } = limits;
        let prepared = prepare(request, !self.built_here, &progress);
        let mut response = match self.client.execute(prepared).await {
            Ok(response) => response,
            Err(error) => return Err(before_the_answer(error, https, &progress)),
        };
        if asked.is_some_and(|asked| is_elsewhere(&asked, response.url())) {
            return Err(SendError::new(SendErrorKind::Redirected));
        }
        let status = response.status();
        let headers = mem::take(response.headers_mut());
        let (body, cut) = read(response, reply_bytes_max).await?;
        let mut answer = Answer::new(status, headers, body);
        answer.cut = cut;
        Ok(answer)
    }
}

impl Transport for Http {
    fn send(&self, request: Request, limits: Limits) -> Exchange<'_> {
        Box::pin(self.exchange(request, limits))
    }
}

impl fmt::Debug for Http {
    /// Not reqwest's own output: that shows the default headers, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("built_here", &self.built_here).finish_non_exhaustive()
    }
}

impl HttpBuilder {
    /// How long resolving, connecting and the TLS handshake may take together. Default [`Http::CONNECT_TIMEOUT`],
    /// or what the caller's own [`reqwest`](HttpBuilder::reqwest) builder says.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> HttpBuilder {
        self.connect_timeout = Some(limit);
        self
    }

    /// Starts from a builder of the caller's own: proxies, certificates, pool sizes, a resolver. Its redirect
    /// and retry policies are replaced by none. A total timeout set on it also counts; the engine has its own.
    #[must_use]
    pub fn reqwest(mut self, builder: reqwest::ClientBuilder) -> HttpBuilder {
        self.reqwest = Some(builder);
        self
    }

    /// Builds the transport.
    ///
    /// # Errors
    ///
    /// `VALIDATION.input` with reqwest's error as its source: a TLS backend that cannot start, a bad proxy, a
    /// connect timeout of zero.
    pub fn build(self) -> Result<Http, Error> {
        if self.connect_timeout == Some(Duration::ZERO) {
            return Err(Error::invalid("connect timeout", "zero leaves no time to connect"));
        }
        let mut builder = match self.reqwest {
            Some(theirs) => theirs,
            None => reqwest::Client::builder().connect_timeout(Http::CONNECT_TIMEOUT),
        };
        if let Some(limit) = self.connect_timeout {
            builder = builder.connect_timeout(limit);
        }
        let client =
            builder.redirect(redirect::Policy::none()).retry(reqwest::retry::never()).build().map_err(
                |error| {
                    Error::invalid("reqwest builder", "it does not build").with_source(error.without_url())
                },
            )?;
        Ok(Http { client, built_here: true })
    }
}

impl fmt::Debug for HttpBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBuilder").field("connect_timeout", &self.connect_timeout).finish_non_exhaustive()
    }
}

/// Whether a built client proves that it follows no redirect.
///
/// reqwest has no getter. Its `Debug` names a policy other than the default one. A form of that text that is
/// not known here proves nothing, and the client is refused: the mistake is on the safe side. Text that a
/// caller controls (default headers) cannot imitate it, since quotes within values are shown escaped.
fn follows_no_redirects(client: &reqwest::Client) -> bool {
    format!("{client:?}").contains("redirect_policy: \"Policy(None)\"")
}

/// Whether the answer came from another place than was asked. The fragment never goes over the wire.
fn is_elsewhere(asked: &url::Url, answered: &url::Url) -> bool {
    asked[..url::Position::AfterQuery] != answered[..url::Position::AfterQuery]
}

fn prepare(request: Request, single_use: bool, progress: &Progress) -> reqwest::Request {
    let Request { method, url, mut headers, body } = request;
    if body.is_empty() && content_is_expected(&method) && !headers.contains_key(header::CONTENT_LENGTH) {
        // RFC 9110, section 8.6; reqwest leaves it out and some gateways answer 411.
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let mut prepared = reqwest::Request::new(method, url);
    *prepared.headers_mut() = headers;
    if !body.is_empty() {
        progress.nothing_sent();
        *prepared.body_mut() = Some(reqwest::Body::wrap(WatchedBody::new(body, progress.clone())));
    } else if single_use {
        // Wrapped, a body keeps its length and loses `try_clone`: reqwest's retry needs a clone. An empty
        // body is wrapped as well, because a request without one can be cloned.
        *prepared.body_mut() = Some(reqwest::Body::wrap(reqwest::Body::from(body)));
    }
    prepared
}

fn content_is_expected(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// Takes the body in, up to `limit_bytes`; also says whether there was more. What is not read is dropped with
/// the response, and the connection with it.
async fn read(mut response: reqwest::Response, limit_bytes: usize) -> Result<(Bytes, bool), SendError> {
    let announced = response.content_length().unwrap_or(0);
    let Some(first) = next_chunk(&mut response).await? else {
        return Ok((Bytes::new(), false));
    };
    if first.len() > limit_bytes {
        return Ok((first.slice(..limit_bytes), true));
    }
    // Most answers are one chunk, which then is the body, uncopied.
    let Some(mut chunk) = next_chunk(&mut response).await? else {
        return Ok((first, false));
    };
    let expected = usize::try_from(announced).unwrap_or(usize::MAX).min(limit_bytes).min(RESERVE_BYTES_MAX);
    let mut whole =
        BytesMut::with_capacity(expected.max(first.len() + chunk.len().min(limit_bytes - first.len())));
    whole.extend_from_slice(&first);
    loop {
        let room = limit_bytes - whole.len();
        if chunk.len() > room {
            whole.extend_from_slice(&chunk[..room]);
            return Ok((whole.freeze(), true));
        }
        whole.extend_from_slice(&chunk);
        match next_chunk(&mut response).await? {
            Some(next) => chunk = next,
            None => return Ok((whole.freeze(), false)),
        }
    }
}

/// The next chunk that is not empty.
async fn next_chunk(response: &mut reqwest::Response) -> Result<Option<Bytes>, SendError> {
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if chunk.is_empty() => {}
            Ok(chunk) => return Ok(chunk),
            Err(error) => {
                let kind = if error.is_timeout() { SendErrorKind::Timeout } else { SendErrorKind::Truncated };
                return Err(SendError::with_source(kind, error.without_url()));
            }
        }
    }
}

/// What an announced length may reserve at once: a vendor's word alone does not make us set 8 MiB aside.
const RESERVE_BYTES_MAX: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use url::Url;

    use super::*;

    /// The second line of defence: a client that follows redirects although it says that it does not.
    #[tokio::test]
    async fn an_answer_from_another_url_than_was_asked_may_have_taken_effect() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let answers = ["303 See Other\r\nlocation: /y", "200 OK"];
            for head in answers {
                let (mut socket, _) = listener.accept().await.expect("a connection");
                let mut buffer = [0u8; 4096];
                let _ = socket.read(&mut buffer).await;
                let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let http = Http { client, built_here: false };
        let url = Url::parse(&format!("http://{address}/x?q=%7e{{|#part")).expect("a url");
        let error =
            http.send(Request::new(Method::POST, url), Limits::new(10)).await.expect_err("a redirect");
        assert_eq!(error.kind(), SendErrorKind::Redirected);
    }

    #[test]
    fn an_answer_from_the_same_url_is_recognised_in_any_spelling_that_http_carries() {
        for text in ["http://v.test/x?q=%7e{|}'#part", "http://v.test:80?", "http://[::1]:9/a//b/%2F?x"] {
            let asked = Url::parse(text).expect("a url");
            let sent: http::Uri = asked[..url::Position::AfterQuery].parse().expect("a URI");
            let answered = Url::parse(&sent.to_string()).expect("a url");
            assert!(!is_elsewhere(&asked, &answered), "{asked} {answered}");
        }
    }
}

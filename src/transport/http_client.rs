//! [`Http`]: one exchange over reqwest, sent once and as given.
//!
//! reqwest does three things on its own that a call with an effect cannot bear, and all are off here:
//!
//! - It follows redirects. A 307 or 308 sends the body a second time. A 301, 302 or 303 turns a POST into a GET whose
//!   200 reads like the POST's success. Each carries secret headers of a vendor's own (`X-Auth-Token`) to wherever
//!   the redirect points. A 3xx simply is the answer.
//! - It retries what it thinks safe, or what a `retry` policy of the caller's says. Retries are the engine's,
//!   which counts, budgets and records them.
//! - It unpacks answers if any crate in the build has switched that on. An answer that fails to unpack then looks like
//!   one that was cut off, although its status says what happened.

use std::fmt;
use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, header};
use reqwest::redirect;
use url::Url;

use crate::BoxFuture;
use crate::answer::Answer;
use crate::error::{Error, Input};
use crate::request::Request;
use crate::transport::failure::before_the_answer;
#[cfg(feature = "gzip")]
use crate::transport::packed;
use crate::transport::watched_body::WatchedBody;
use crate::transport::{Limits, Progress, SendError, SendErrorKind, StreamedAnswer, Transport, is_loopback};

/// The transport over reqwest. Cheap to clone; clones share one pool of connections.
///
/// ```
/// use std::time::Duration;
/// use steadfast::Client;
/// use steadfast::transport::Http;
/// use steadfast::vendor::Stripe;
///
/// # fn main() -> Result<(), steadfast::Error> {
/// let reqwest = reqwest::Client::builder().pool_idle_timeout(Duration::from_secs(30));
/// let http = Http::over(reqwest)?;
/// let stripe = Client::builder(Stripe::new("sk_test_123")).transport(http).build()?;
/// assert_eq!(stripe.vendor(), "stripe");
/// # Ok(())
/// # }
/// ```
///
/// Every request goes exactly as given, whether it is an operation's or not. A retry underneath would escape the
/// budget, and a failure to connect would no longer prove that nothing was sent.
///
/// # Cancellation safety
///
/// Dropping the future of [`send`](Transport::send) closes the exchange's connection (HTTP/1) or resets its
/// stream (HTTP/2). The vendor may have received the request by then. [`Limits::give_up`] says whether it has: a
/// request with a body that still waits for its connection has not left. A request without a body counts as one that
/// may have left, because HTTP/1 ends it with its head and nothing could hold it back at the last moment.
#[derive(Clone)]
pub struct Http {
    client: reqwest::Client,
    /// For requests to loopback, which no proxy of the environment may see. `None`: the caller's own settings count
    /// for loopback too.
    direct: Option<Direct>,
    /// Whether answers are asked for in gzip.
    #[cfg(feature = "gzip")]
    gzip: bool,
}

impl Http {
    /// A connect timeout for [`Http::new`]: the background policy's figure.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The transport with reqwest's defaults, without redirects and retries. Resolving, connecting and the TLS
    /// handshake may take `connect_timeout` together.
    ///
    /// The proxies of the environment count (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), but not for
    /// requests to loopback: a proxy could read the secret of a plain http request, and its loopback is another host.
    ///
    /// # Errors
    ///
    /// `VALIDATION.input` for a connect timeout of zero, and with reqwest's error as its source if the TLS backend cannot
    /// start.
    pub fn new(connect_timeout: Duration) -> Result<Http, Error> {
        if connect_timeout.is_zero() {
            return Err(Error::invalid(Input::Other("connect timeout"), "zero leaves no time to connect"));
        }
        let builder = reqwest::Client::builder().connect_timeout(connect_timeout);
        let direct = Some(Direct { connect_timeout, client: Arc::default() });
        Ok(Http::of(build(builder)?, direct))
    }

    /// The transport over a reqwest builder of the caller's own: proxies, certificates, pool sizes, a connect timeout, a
    /// resolver. Its redirect and retry policies are replaced by none, and it unpacks no answers. A total timeout set on it also counts; the engine
    /// has its own.
    ///
    /// Its proxies count for loopback too, also those that reqwest takes from the environment. Call
    /// `no_proxy()` on it where that is not meant.
    ///
    /// A client that is already built is not accepted. Reqwest cannot be asked whether it follows redirects, and a
    /// followed 303 that points back to the same URL leaves no trace in the answer.
    ///
    /// # Errors
    ///
    /// `VALIDATION.input` with reqwest's error as its source: a TLS backend that cannot start, a bad proxy.
    pub fn over(builder: reqwest::ClientBuilder) -> Result<Http, Error> {
        Ok(Http::of(build(builder)?, None))
    }

    fn of(client: reqwest::Client, direct: Option<Direct>) -> Http {
        Http {
            client,
            direct,
            #[cfg(feature = "gzip")]
            gzip: false,
        }
    }

    /// Asks for answers in gzip (`Accept-Encoding`), and unpacks them. An answer's limit holds for what is unpacked:
    /// more is cut there, however small it came. `Content-Encoding` and `Content-Length` then go, as they are of what was
    /// sent. A call that gives `Accept-Encoding` itself is sent as it is, and its answer is left as it came. Default: off.
    ///
    /// It is not asked for where a reply is [streamed](crate::Call::stream).
    ///
    /// An answer that cannot be unpacked is left as it came too. The call then ends as its status says, and its reply
    /// [is unreadable](Error::is_unreadable_reply): a POST with a 200 has taken effect, and is not sent again.
    #[cfg(feature = "gzip")]
    #[must_use]
    pub fn gzip(mut self) -> Http {
        self.gzip = true;
        self
    }

    async fn exchange(&self, request: Request, limits: Limits) -> Result<Answer, SendError> {
        #[cfg(feature = "gzip")]
        let (request, is_asked) = packed::ask(request, self.gzip);
        let Limits { reply_bytes_max, progress } = limits;
        let mut response = self.head(request, progress).await?;
        let status = response.status();
        let headers = mem::take(response.headers_mut());
        let (body, cut) = read(response, reply_bytes_max).await?;
        let mut answer = Answer::new(status, headers, body);
        answer.cut = cut;
        #[cfg(feature = "gzip")]
        if is_asked {
            packed::unpack(&mut answer, reply_bytes_max);
        }
        Ok(answer)
    }

    /// Sends the request, until the answer's head has come.
    async fn head(&self, request: Request, progress: Progress) -> Result<reqwest::Response, SendError> {
        let https = request.url.scheme() == "https";
        let client = self.client_for(&request.url)?;
        let prepared = prepare(request, &progress);
        let response = client.execute(prepared).await;
        response.map_err(|error| before_the_answer(error, https, &progress))
    }

    fn client_for(&self, url: &Url) -> Result<&reqwest::Client, SendError> {
        match &self.direct {
            Some(direct) if is_loopback(url) => direct.client(),
            _ => Ok(&self.client),
        }
    }
}

/// A second client, without a proxy. Most services never call loopback, and a client costs tens of milliseconds
/// (certificates) and a pool, so it is built by the first request that needs it.
#[derive(Clone)]
struct Direct {
    connect_timeout: Duration,
    client: Arc<OnceLock<reqwest::Client>>,
}

impl Direct {
    fn client(&self) -> Result<&reqwest::Client, SendError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let builder = reqwest::Client::builder().connect_timeout(self.connect_timeout).no_proxy();
        let built = exactly_as_given(builder).build();
        let client =
            built.map_err(|error| SendError::with_source(SendErrorKind::Request, error.without_url()))?;
        Ok(self.client.get_or_init(|| client))
    }
}

fn build(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, Error> {
    exactly_as_given(builder).build().map_err(|error| {
        Error::invalid(Input::Other("reqwest builder"), "it does not build").with_source(error.without_url())
    })
}

/// Switches off what reqwest does on its own.
fn exactly_as_given(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    let builder = builder.redirect(redirect::Policy::none()).retry(reqwest::retry::never());
    // A connection's window is shared. Streamed replies that nobody reads would fill it, and no answer to another call
    // would come through. Each stream keeps its own window.
    let builder = builder.http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    // Where another crate has switched these on, what fails to unpack would be an answer that was cut off.
    builder.no_gzip().no_brotli().no_zstd().no_deflate()
}

/// Room for the windows of 512 streams that stand still, of hyper's 2 MiB each.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

impl Transport for Http {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(self.exchange(request, limits))
    }

    fn stream(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<StreamedAnswer, SendError>> {
        Box::pin(async move {
            let response = self.head(request, limits.progress).await?;
            let (head, body) = http::Response::<reqwest::Body>::from(response).into_parts();
            Ok(StreamedAnswer::told_by(head.status, head.headers, body, in_the_body))
        })
    }
}

impl fmt::Debug for Http {
    /// Not reqwest's own output: that shows the default headers, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

fn prepare(request: Request, progress: &Progress) -> reqwest::Request {
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
            Err(error) => return Err(in_the_body(error)),
        }
    }
}

/// What a failure after the answer's head is.
fn in_the_body(error: reqwest::Error) -> SendError {
    let kind = if error.is_timeout() { SendErrorKind::Timeout } else { SendErrorKind::Truncated };
    SendError::with_source(kind, error.without_url())
}

/// What an announced length may reserve at once: a vendor's word alone does not make us set 8 MiB aside.
const RESERVE_BYTES_MAX: usize = 256 * 1024;

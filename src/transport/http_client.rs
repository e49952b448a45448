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
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header;
use reqwest::redirect;
use url::Url;

use steadfast_core::internal::error::Chain;
use steadfast_core::internal::ext::{ErrorExt, InputErrorExt, LimitsExt, StreamedAnswerExt};
use steadfast_core::internal::transport::{Progress, QUEUE_MAX, is_loopback};
use steadfast_core::transport::{
    Answer, Limits, Request, SendError, SendErrorKind, StreamedAnswer, Transport,
};
use steadfast_core::{BoxFuture, Error, Input};

use crate::transport::failure::before_the_answer;
#[cfg(feature = "gzip")]
use crate::transport::packed;
use crate::transport::pools::{Pools, Setup, Trust};
use crate::transport::watched_body::WatchedBody;

/// The transport over reqwest. Cheap to clone; clones share one pool of connections.
///
/// ```
/// use std::time::Duration;
/// use steadfast::Client;
/// use steadfast::transport::Http;
/// use steadfast::vendor::Stripe;
///
/// # fn main() -> Result<(), steadfast::Error> {
/// let http = Http::over(|| reqwest::Client::builder().pool_idle_timeout(Duration::from_secs(30)))?;
/// let stripe = Client::builder(Stripe::new("sk_test_123")).transport(http).build()?;
/// assert_eq!(stripe.vendor(), "stripe");
/// # Ok(())
/// # }
/// ```
///
/// Every request goes exactly as given, whether it is an operation's or not. A retry underneath would escape the
/// budget, and a failure to connect would no longer prove that nothing was sent.
///
/// Connections are kept, and none is kept for ever. A repeat after a timeout, a broken connection or a 5xx has a new
/// connection of its own, and so has a probe of an open circuit. All kept connections are given up before a probe. So
/// they are where an attempt over HTTP/2 ran out of time and nothing was answered meanwhile, at most every 5 s. PINGs go
/// out over HTTP/2 while an answer is waited for. Each runtime of tokio has connections of its own.
///
/// Dropping the future of [`send`](Transport::send) closes the exchange's connection (HTTP/1) or resets its
/// stream (HTTP/2). The vendor may have received the request by then. [`Limits::give_up`] says whether it has. A request
/// that may have an effect and still waits for its connection, or for a stream of it, has not left, and never does.
///
/// A request that was handed to the kernel may still arrive. On Linux and Android `TCP_USER_TIMEOUT` bounds that, by 30
/// s unless [`attempt`](Http::attempt) says less; elsewhere two minutes are reckoned with. Lookups come only after
/// that. Two minutes also count where the environment names a proxy, whose kernel keeps to no such bound. Proxies that
/// the builders of [`Http::over`] name, and a sidecar on loopback, are not seen: name the proxy in the environment too,
/// or wrap the transport and raise [`Transport::queue_max`].
#[derive(Clone)]
pub struct Http {
    inner: Arc<Inner>,
    /// Whether answers are asked for in gzip.
    #[cfg(feature = "gzip")]
    gzip: bool,
}

struct Inner {
    make: Arc<dyn Fn() -> reqwest::ClientBuilder + Send + Sync>,
    /// Longest time for which the kernel may hold the bytes that it was given.
    attempt: Duration,
    /// The environment names a proxy.
    may_be_proxied: bool,
    https: Pools,
    http: Pools,
    /// Pools for requests to loopback, by https and by http, which no proxy of the environment may see. `None`: the
    /// caller's own settings count for loopback too.
    direct: Option<[Pools; 2]>,
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
    /// The first request over https sets TLS up.
    ///
    /// # Errors
    ///
    /// `VALIDATION.input` for a connect timeout of zero.
    pub fn new(connect_timeout: Duration) -> Result<Http, Error> {
        if connect_timeout.is_zero() {
            return Err(Error::invalid(Input::Other("connect timeout"), "zero leaves no time to connect"));
        }
        let make = move || reqwest::Client::builder().connect_timeout(connect_timeout);
        Ok(Http::of(Inner::new(Arc::new(make), ATTEMPT, true)))
    }

    /// The transport over reqwest builders of the caller's own: proxies, certificates, pool sizes, a connect timeout, a
    /// resolver. `make` is called for each client that is needed, now and later, and gives the same each time. Redirect
    /// and retry policies are replaced by none, and no answer is unpacked. PINGs and `tcp_user_timeout` are replaced too.
    /// A total timeout set on it also counts; the engine has its own.
    ///
    /// Its proxies count for loopback too, also those that reqwest takes from the environment. Call
    /// `no_proxy()` on it where that is not meant.
    ///
    /// A client that is already built is not accepted. Reqwest cannot be asked whether it follows redirects, and a
    /// followed 303 that points back to the same URL leaves no trace in the answer.
    ///
    /// The first request over https sets TLS up.
    ///
    /// # Errors
    ///
    /// `VALIDATION.input` with reqwest's error as its source, such as a bad proxy.
    pub fn over(make: impl Fn() -> reqwest::ClientBuilder + Send + Sync + 'static) -> Result<Http, Error> {
        let inner = Inner::new(Arc::new(make), ATTEMPT, false);
        // The mistakes of a builder are told now. Without the platform's certificates, which the first https request
        // needs.
        match inner.http.check() {
            Ok(()) => Ok(Http::of(inner)),
            Err(error) => {
                let error = error.without_url();
                let problem = format!("it does not build: {}", Chain(&error));
                Err(Error::invalid(Input::Other("reqwest builder"), problem).with_source(error))
            }
        }
    }

    fn of(inner: Inner) -> Http {
        Http {
            inner: Arc::new(inner),
            #[cfg(feature = "gzip")]
            gzip: false,
        }
    }

    /// Says how long attempts take: the kernel is given no longer to deliver what it was handed. Default: 30 s, as in
    /// [`Timeouts::background`](crate::policy::Timeouts::background). A client's default transport has its policy's own time.
    ///
    /// The connections are other ones than before.
    #[must_use]
    pub fn attempt(self, longest: Duration) -> Http {
        let Inner { make, direct, .. } = &*self.inner;
        let inner = Arc::new(Inner::new(Arc::clone(make), longest, direct.is_some()));
        Http {
            inner,
            #[cfg(feature = "gzip")]
            gzip: self.gzip,
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
        let mut response = self.head(request, &limits).await?;
        let status = response.status();
        let headers = mem::take(response.headers_mut());
        let (body, cut) = read(response, limits.reply_bytes_max).await?;
        let mut answer = Answer::new(status, headers, body);
        answer.cut = cut;
        #[cfg(feature = "gzip")]
        if is_asked {
            packed::unpack(&mut answer, limits.reply_bytes_max);
        }
        Ok(answer)
    }

    /// Sends the request, until the answer's head has come.
    async fn head(&self, request: Request, limits: &Limits) -> Result<reqwest::Response, SendError> {
        let https = request.url.scheme() == "https";
        let pools = self.inner.pools(&request.url, https);
        let is_watched = is_watched(&request);
        if is_watched {
            limits.nothing_sent();
        }
        let progress = limits.progress();
        let response = pools.execute(limits, || prepare(request, is_watched, progress)).await?;
        response.map_err(|error| before_the_answer(error, https, progress))
    }
}

impl Inner {
    fn new(
        make: Arc<dyn Fn() -> reqwest::ClientBuilder + Send + Sync>,
        attempt: Duration,
        is_direct_to_loopback: bool,
    ) -> Inner {
        let pools = |trust: Trust, is_direct: bool| {
            let make = Arc::clone(&make);
            let as_given = move || {
                let builder = exactly_as_given(make(), attempt);
                if is_direct { builder.no_proxy() } else { builder }
            };
            Pools::new(Setup { make: Arc::new(as_given), trust })
        };
        let (https, http) = (pools(Trust::AsBuilt, false), pools(Trust::IfReadable, false));
        let direct = is_direct_to_loopback.then(|| [pools(Trust::AsBuilt, true), pools(Trust::None, true)]);
        let may_be_proxied =
            PROXIES.iter().any(|name| std::env::var_os(name).is_some_and(|url| !url.is_empty()));
        Inner { https, http, direct, attempt, may_be_proxied, make }
    }

    fn pools(&self, url: &Url, https: bool) -> &Pools {
        match &self.direct {
            Some([https_directly, http_directly]) if is_loopback(url) => {
                if https {
                    https_directly
                } else {
                    http_directly
                }
            }
            _ if https => &self.https,
            _ => &self.http,
        }
    }
}

/// Switches off what reqwest does on its own.
fn exactly_as_given(builder: reqwest::ClientBuilder, attempt: Duration) -> reqwest::ClientBuilder {
    // A closed socket is the kernel's: it would deliver after minutes what was given up.
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let builder = builder.tcp_user_timeout(attempt);
    #[cfg(not(any(target_os = "android", target_os = "fuchsia", target_os = "linux")))]
    let _ = attempt;
    // Only while an answer is waited for: some servers take other PINGs for abuse.
    let builder = builder
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_EVERY)
        .http2_keep_alive_while_idle(false);
    let builder = builder.redirect(redirect::Policy::none()).retry(reqwest::retry::never());
    // A connection's window is shared. Streamed replies that nobody reads would fill it, and no answer to another call
    // would come through. Each stream keeps its own window.
    let builder = builder.http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    // Where another crate has switched these on, what fails to unpack would be an answer that was cut off.
    builder.no_gzip().no_brotli().no_zstd().no_deflate()
}

/// Environment variables in which reqwest looks for a proxy.
const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Room for the windows of 512 streams that stand still, of hyper's 2 MiB each.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// A connection of HTTP/2 that is silent for twice that, with answers outstanding, is dead.
const PING_EVERY: Duration = Duration::from_secs(10);

/// The attempt of the background policy, and reqwest's own `tcp_user_timeout`.
const ATTEMPT: Duration = Duration::from_secs(30);

impl Transport for Http {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(self.exchange(request, limits))
    }

    fn stream(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<StreamedAnswer, SendError>> {
        Box::pin(async move {
            let response = self.head(request, &limits).await?;
            let (head, body) = http::Response::<reqwest::Body>::from(response).into_parts();
            Ok(StreamedAnswer::told_by(head.status, head.headers, body, in_the_body))
        })
    }

    fn is_over_sockets(&self) -> bool {
        true
    }

    /// Returns zero for loopback: there is no network that could hold a request. The kernel of a proxy on the way is
    /// not ours.
    fn queue_max(&self, url: &Url) -> Duration {
        if is_loopback(url) {
            return Duration::ZERO;
        }
        let is_bounded = cfg!(any(target_os = "android", target_os = "fuchsia", target_os = "linux"));
        if is_bounded && !self.inner.may_be_proxied { self.inner.attempt } else { QUEUE_MAX }
    }
}

impl fmt::Debug for Http {
    /// Writes the type's name alone: reqwest's own output shows the default headers, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

/// Whether the request is held back until it leaves, and never leaves once it is given up: it may have an effect.
fn is_watched(request: &Request) -> bool {
    !request.body.is_empty() || !request.method.is_safe()
}

fn prepare(request: Request, is_watched: bool, progress: &Progress) -> reqwest::Request {
    let Request { method, url, mut headers, body, .. } = request;
    if body.is_empty() && is_watched {
        // hyper says it, by the body: RFC 9110, section 8.6, and some gateways answer 411 without.
        headers.remove(header::CONTENT_LENGTH);
    }
    let mut prepared = reqwest::Request::new(method, url);
    *prepared.headers_mut() = headers;
    if is_watched {
        *prepared.body_mut() = Some(reqwest::Body::wrap(WatchedBody::new(body, progress.clone())));
    }
    prepared
}

/// Reads the body, up to `limit_bytes`; also returns whether there was more. The unread rest is dropped with the
/// response, and the connection with it.
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

/// Classifies a failure after the answer's head.
fn in_the_body(error: reqwest::Error) -> SendError {
    let kind = if error.is_timeout() { SendErrorKind::Timeout } else { SendErrorKind::Truncated };
    SendError::with_source(kind, error.without_url())
}

/// Most bytes that an announced length reserves at once: a vendor's word alone does not make us set 8 MiB aside.
const RESERVE_BYTES_MAX: usize = 256 * 1024;

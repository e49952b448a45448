//! [`over_tower`]: a transport over a service of tower.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use tower_service::Service;
use url::Url;

use steadfast_core::BoxFuture;
use steadfast_core::internal::error::BoxError;
use steadfast_core::internal::ext::StreamedAnswerExt;
use steadfast_core::internal::transport::{QUEUE_MAX, told};
use steadfast_core::transport::{
    Answer, Limits, Request, SendError, SendErrorKind, StreamedAnswer, Transport,
};

/// A transport over a service of tower: an HTTP client with layers of one's own, or a router that stands in for a vendor
/// in a test. The service is cloned for each request.
///
/// `R` is the body that the service takes in a request. A service that takes one body, as a client of hyper does,
/// determines it itself. For one that takes any, as a router of axum does, name it: `over_tower::<Body>(router)`.
///
/// ```
/// # #[cfg(feature = "testkit")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use axum::{Json, Router, body::Body, routing::get};
/// use steadfast::Client;
/// use steadfast::transport::over_tower;
/// use steadfast::vendor::{Keyed, KeyedConfig};
///
/// let vendor = Router::new().route("/items", get(async || Json([1, 2, 3])));
/// let acme = Client::builder(Keyed::new(KeyedConfig::new("acme", "https://api.acme.test"), ""))
///     .transport(over_tower::<Body>(vendor))
///     .build()?;
/// assert_eq!(acme.get("/items").send().await?.text(), "[1,2,3]");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "testkit"))]
/// # fn main() {}
/// ```
///
/// The service must send each request once and as given. A layer that retries sends what the engine does not count, and
/// one that follows redirects carries the secret to wherever they lead. A layer that answers in the vendor's place, such
/// as a cache, is taken for the vendor.
///
/// Nothing has left while the service is not ready. After that the transport cannot see how far a request has got. An
/// error of the service is then one after which the request may have taken effect. A service that knows better gives a
/// [`SendError`], which is taken at its word.
///
/// A request whose exchange was dropped is reckoned to arrive within two minutes, if it does. Of a service that may hold
/// it for longer, or that holds none, say so by [`over_tower_that_queues`].
pub fn over_tower<R>(
    service: impl Service<
        http::Request<R>,
        Response = http::Response<impl Body<Data: Send, Error: Into<BoxError>> + Send + 'static>,
        Error: Into<BoxError>,
        Future: Send,
    > + Clone
    + Send
    + Sync
    + 'static,
) -> impl Transport
where
    R: From<Bytes> + Send + 'static,
{
    over_tower_that_queues(service, QUEUE_MAX)
}

/// Makes a transport as [`over_tower`] does, over a service that holds a request for `queue_max` at most once its
/// exchange was dropped. A client of hyper may, until its connection has a stream free. A router in this process holds
/// none.
///
/// Lookups count from there: with too short a time, a request is looked up before it arrives, and is sent again.
pub fn over_tower_that_queues<R>(
    service: impl Service<
        http::Request<R>,
        Response = http::Response<impl Body<Data: Send, Error: Into<BoxError>> + Send + 'static>,
        Error: Into<BoxError>,
        Future: Send,
    > + Clone
    + Send
    + Sync
    + 'static,
    queue_max: Duration,
) -> impl Transport
where
    R: From<Bytes> + Send + 'static,
{
    Tower { service, queue_max, body: PhantomData }
}

struct Tower<S, R> {
    service: S,
    queue_max: Duration,
    body: PhantomData<fn() -> R>,
}

impl<S, R, B> Transport for Tower<S, R>
where
    S: Service<http::Request<R>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    R: From<Bytes> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let service = self.service.clone();
        Box::pin(async move {
            let (head, body) = respond(service, request, &limits).await?.into_parts();
            let streamed = StreamedAnswer::new(head.status, head.headers, body);
            let (mut answer, body) = streamed.into_parts();
            (answer.body, answer.cut) = body.whole(limits.reply_bytes_max).await?;
            Ok(answer)
        })
    }

    fn stream(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<StreamedAnswer, SendError>> {
        let service = self.service.clone();
        Box::pin(async move {
            let (head, body) = respond(service, request, &limits).await?.into_parts();
            Ok(StreamedAnswer::new(head.status, head.headers, body))
        })
    }

    fn queue_max(&self, _: &Url) -> Duration {
        self.queue_max
    }
}

/// Sends the request, until the answer's head has come.
async fn respond<S, R, B>(
    mut service: S,
    request: Request,
    limits: &Limits,
) -> Result<http::Response<B>, SendError>
where
    S: Service<http::Request<R>, Response = http::Response<B>>,
    S::Error: Into<BoxError>,
    R: From<Bytes>,
{
    limits.nothing_sent();
    let request = of_http(request)?;
    let ready = poll_fn(|context| service.poll_ready(context)).await;
    ready.map_err(|error| told(error, SendErrorKind::Connect))?;
    if !limits.begin_sending() {
        return Err(SendError::new(SendErrorKind::Connect));
    }
    service.call(request).await.map_err(|error| told(error, SendErrorKind::Reset))
}

impl<S, R> fmt::Debug for Tower<S, R> {
    /// Writes the type's name alone: the service's own output may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tower").finish_non_exhaustive()
    }
}

fn of_http<R: From<Bytes>>(request: Request) -> Result<http::Request<R>, SendError> {
    let Request { method, url, headers, body, .. } = request;
    let unfit = |error: http::Error| SendError::with_source(SendErrorKind::Request, error);
    let mut made =
        http::Request::builder().method(method).uri(url.as_str()).body(R::from(body)).map_err(unfit)?;
    *made.headers_mut() = headers;
    Ok(made)
}

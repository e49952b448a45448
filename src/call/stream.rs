//! A reply that comes in chunks.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body, Frame};
use tracing::Instrument;

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::{Error, Input};

use super::{Call, enqueue, redirects};
use crate::engine::StreamedBody;
use crate::prepared::{Prepared, check};
use crate::reply::Reply;
use crate::telemetry;

/// A reply whose body is read in chunks: made by [`Call::stream`].
///
/// ```
#[doc = include_str!("../docs/setup/stripe.md")]
/// let mut report = stripe.get("/v1/balance").stream().await?;
/// assert_eq!(report.status(), 200);
///
/// let mut file = Vec::new();
/// while let Some(chunk) = report.chunk().await? {
///     file.extend_from_slice(&chunk);
/// }
/// assert_eq!(report.received(), file.len() as u64);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
///
/// It is a body of the crate `http-body` too, so that a service can give it on: `axum::body::Body::new(report)`.
///
/// # Cancellation safety
///
/// Dropping it closes the exchange with the vendor and gives back its place among the calls under way.
#[must_use = "a streamed reply that is dropped is not read"]
pub struct StreamedReply {
    head: Reply,
    body: StreamedBody,
}

impl Call {
    /// Sends a GET, and gives its reply as soon as the head has come. The body is read in chunks, and
    /// may be longer than the limit of a reply. For a GET without a key; for every other call it is a mistake.
    ///
    /// Until the head has come the call is as any other: it passes the gates, is retried, and follows
    /// [redirects](Call::redirects). An answer that is no success is an error with its whole body. An adapter sees a
    /// success's head alone. After that nothing is retried.
    ///
    /// | time | for what |
    /// |---|---|
    /// | [`Timeouts::attempt`](crate::policy::Timeouts::attempt) | the head of each attempt; then each chunk that [`chunk`](StreamedReply::chunk) waits for |
    /// | [`Timeouts::total`](crate::policy::Timeouts::total) | until the head has come; not for the body, which may take hours |
    /// | [`deadline`](Call::deadline), [`inbound`](Call::inbound) | for all of it, the body too, while it is read |
    ///
    /// The call keeps its place in the policy's [concurrency limit](crate::Policy::concurrency) until the body has
    /// ended, or the reply is dropped. If the body is not read for as long as an attempt may take, another call that finds no
    /// place free takes this one. Nothing is lost of the body: reading on takes a place again, if need be above the limit.
    /// Time is only measured while `chunk` waits. The breaker counts the call when the body has ended. A body that broke
    /// off is a failure of the vendor's, one that was dropped counts as nothing. A probe is judged by the head.
    ///
    /// The body comes as the vendor sent it. It is not asked for in gzip, also if
    #[cfg_attr(feature = "gzip", doc = "[`Http::gzip`](crate::transport::Http::gzip)")]
    #[cfg_attr(not(feature = "gzip"), doc = "`Http::gzip`")]
    /// is on. A call that gives `Accept-Encoding` itself also unpacks the body itself. An encoding that was not asked
    /// for is an error.
    ///
    /// # Errors
    ///
    /// As [`send`](Call::send), until the head has come.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future releases every permit.
    pub async fn stream(mut self) -> Result<StreamedReply, Error> {
        if self.prepared.request.method != Method::GET || self.prepared.work.key.is_some() {
            self.note(Error::invalid(
                Input::Other("stream"),
                "`stream` needs a GET without an idempotency key",
            ));
        }
        self.check_parts(true);
        let Call { prepared, redirects } = self;
        let Prepared { engine, mut request, work, due, mut mistake, .. } = prepared;
        let span = telemetry::call_span(&**engine.vendor, &request);
        let started = engine.clock.now();
        let mut body = None;
        let carried = async {
            if let Err(needs_enqueue) = enqueue::check_is_sent_now(due.is_some(), &work) {
                mistake.get_or_insert(needs_enqueue);
            }
            check(&mut mistake, &request, &work, &engine)?;
            let mut left = redirects;
            loop {
                let error = match engine.stream(&request, &work, started).await {
                    Ok((head, rest)) => {
                        body = Some(rest);
                        return Ok(head);
                    }
                    Err(error) => error,
                };
                match redirects::next(&error, &request.url, &mut left) {
                    Some(target) => request.url = target,
                    None => return Err(error),
                }
            }
        };
        let result = carried.instrument(span.clone()).await;
        telemetry::ended(&span, (engine.vendor.name(), &engine.meters), &result, &*engine.clock, started);
        let mut head = result?;
        head.sent_by(Arc::clone(&engine) as _, request.method, request.url);
        match body {
            Some(body) => Ok(StreamedReply { head, body }),
            None => Err(head.unreadable("it has no body")),
        }
    }
}

impl StreamedReply {
    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.head.status()
    }

    /// The headers, as received.
    pub fn headers(&self) -> &HeaderMap {
        self.head.headers()
    }

    /// Returns the number of times that the call was sent until the head came.
    pub fn attempts(&self) -> u32 {
        self.head.attempts()
    }

    /// Returns the number of bytes of the body that have come.
    pub fn received(&self) -> u64 {
        self.body.received()
    }

    /// Returns the next chunk of the body; `None` once it is whole.
    ///
    /// # Errors
    ///
    /// The body is [broken](Error::is_broken_reply): the connection broke, the vendor fell silent for as long as an
    /// attempt may take, or the call's own deadline passed ([`is_deadline`](Error::is_deadline)). The text gives the
    /// number of bytes that had come. Each call from then on gives the same error, and never `None`: a body that broke
    /// off is not taken for the whole. Over HTTP/2 a vendor may also end a body of undeclared length early, as if it
    /// were whole. Only the body's own form shows that.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses nothing. The next call goes on where this one was.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        poll_fn(|context| self.body.poll(context)).await
    }
}

impl Body for StreamedReply {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.body.poll(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)).transpose())
    }
}

impl fmt::Debug for StreamedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedReply").field("head", &self.head).field("received", &self.received()).finish()
    }
}

//! A reply that is streamed: the call's retries end with the answer's head, and the body is its caller's to read.
//!
//! An attempt's permits are held until the body has ended, has failed or is dropped, and its place while it is
//! read: see [`Lent`].

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Method, StatusCode};
use url::Url;

use steadfast_core::clock::Instant;
use steadfast_core::internal::error::{Broken, Kind};
use steadfast_core::internal::ext::{ErrorExt, SendErrorExt, StreamedAnswerExt};
use steadfast_core::internal::policy::{Lent, Outcome};
use steadfast_core::internal::transport::Chunks;
use steadfast_core::transport::{Answer, Limits, Request, SendError};
use steadfast_core::{BoxFuture, Effect, Error};

use super::entry::no_time;
use super::run::Run;
use super::{Engine, Work, driver};
use crate::reply::Reply;
use crate::telemetry::{self, Whose};

impl Engine {
    /// Carries a call without a key through to its answer's head, and gives its body.
    pub(crate) async fn stream(
        self: &Arc<Engine>,
        request: &Request,
        work: &Work,
        started: Instant,
    ) -> Result<(Reply, StreamedBody), Error> {
        let deadline = started.plus(work.time_allowed(&self.policy, started));
        let failed = |error| self.in_context(error, request, None);
        if deadline <= started {
            return Err(failed(no_time()));
        }
        let whose = Whose { vendor: &**self.vendor, request, operation: None };
        let admission = self.admit_first(whose, started, deadline).await.map_err(failed)?;
        self.earn(&admission);
        let mut run = Run::new(self, work, request, None, started, deadline);
        run.aside = Some(Box::default());
        let reply = Box::pin(driver::drive_admitted(&mut run, admission)).await?;
        let aside = run.aside.take().unwrap_or_default();
        let announced =
            reply.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let idle = work.timeout(&self.policy).attempt;
        let body = StreamedBody {
            engine: Arc::clone(self),
            method: request.method.clone(),
            url: request.url.clone(),
            chunks: aside.body,
            lent: aside.held.map(|(admission, ended)| admission.lend(ended, idle)),
            call: run.failed_number(),
            received: 0,
            announced,
            idle,
            until: work.time_given(started).map(|given| (given, started.plus(given))),
            limit: None,
            broken: None,
        };
        match not_asked_for(request, reply.answer()) {
            None => Ok((reply, body)),
            Some(error) => Err(self.in_context(error, request, None)),
        }
    }

    /// Sends, until the answer's head has come. A success's body is kept aside. Any other answer is taken in whole, as the
    /// adapter judges it by what it says.
    pub(super) fn open<'a>(
        &'a self,
        outgoing: Request,
        limits: Limits,
        aside: &'a mut Option<Chunks>,
    ) -> BoxFuture<'a, Result<Answer, SendError>> {
        Box::pin(async move {
            let bytes_max = limits.reply_bytes_max;
            let (mut answer, body) = self.transport.stream(outgoing, limits).await?.into_parts();
            if answer.status.is_success() {
                *aside = Some(body);
            } else {
                (answer.body, answer.cut) = body.whole(bytes_max).await?;
            }
            Ok(answer)
        })
    }
}

/// The body of a reply, while it comes.
pub(crate) struct StreamedBody {
    engine: Arc<Engine>,
    method: Method,
    url: Url,
    /// `None` once it has ended.
    chunks: Option<Chunks>,
    lent: Option<Lent>,
    /// The number of a call that failed before its head came.
    call: Option<u64>,
    received: u64,
    /// Its `Content-Length`.
    announced: Option<u64>,
    /// The longest that is waited for more.
    idle: Duration,
    /// The time that the call itself gives it, and its end.
    until: Option<(Duration, Instant)>,
    /// The end of the wait that is under way.
    limit: Option<BoxFuture<'static, ()>>,
    broken: Option<Broken>,
}

impl StreamedBody {
    /// How many bytes have come.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// The next chunk; `None` once the body is whole. One that broke off says so each time.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        if let Some(how) = self.broken {
            return Poll::Ready(Err(self.error(how)));
        }
        let Some(chunks) = &mut self.chunks else { return Poll::Ready(Ok(None)) };
        let now = self.engine.clock.now();
        if let Some(lent) = &self.lent {
            self.engine.gates.is_read(lent, now);
        }
        if let Some((given, _)) = self.until.filter(|(_, until)| *until <= now) {
            return Poll::Ready(Err(self.fail(Broken::Deadline(given), Outcome::Neutral)));
        }
        match chunks.poll(context) {
            Poll::Ready(Ok(Some(chunk))) => {
                self.limit = None;
                self.received = self.received.saturating_add(chunk.len() as u64);
                Poll::Ready(Ok(Some(chunk)))
            }
            Poll::Ready(Ok(None)) if self.announced.is_some_and(|bytes| self.received < bytes) => {
                let error = self.fail(Broken::Lost, Outcome::Failure);
                Poll::Ready(Err(error.with_source(SHORT)))
            }
            Poll::Ready(Ok(None)) => {
                self.end(Outcome::Success);
                Poll::Ready(Ok(None))
            }
            Poll::Ready(Err(mut failure)) => {
                failure.note_host(&self.url);
                let error = self.fail(Broken::Lost, Outcome::Failure);
                Poll::Ready(Err(error.with_source(failure)))
            }
            Poll::Pending => {
                let (clock, idle, until) = (&self.engine.clock, self.idle, self.until);
                let limit = self.limit.get_or_insert_with(|| {
                    let at = now.plus(idle);
                    clock.limit_until(until.map_or(at, |(_, until)| at.min(until)))
                });
                ready!(limit.as_mut().poll(context));
                let now = self.engine.clock.now();
                Poll::Ready(Err(match until.filter(|(_, until)| *until <= now) {
                    Some((given, _)) => self.fail(Broken::Deadline(given), Outcome::Neutral),
                    None => self.fail(Broken::Silent(idle), Outcome::Failure),
                }))
            }
        }
    }

    fn fail(&mut self, how: Broken, outcome: Outcome) -> Error {
        self.end(outcome);
        self.broken = Some(how);
        let request = Request::new(self.method.clone(), self.url.clone());
        let whose = Whose { vendor: &**self.engine.vendor, request: &request, operation: None };
        let error = self.error(how);
        telemetry::stream::broke_off(whose, self.received, error.code());
        error
    }

    fn error(&self, how: Broken) -> Error {
        let kind = Kind::ReplyBroken { bytes: self.received, how };
        Error::new(kind, Effect::None).with_context(self.engine.vendor.context(&self.method, &self.url))
    }

    /// Closes the exchange, and gives back what it held of the gates.
    fn end(&mut self, outcome: Outcome) {
        (self.chunks, self.limit) = (None, None);
        if let Some(lent) = self.lent.take() {
            self.engine.gates.take_back(lent, outcome, self.call, self.engine.clock.now());
        }
    }
}

impl Drop for StreamedBody {
    fn drop(&mut self) {
        self.end(Outcome::Neutral);
    }
}

impl fmt::Debug for StreamedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedBody").field("received", &self.received).finish_non_exhaustive()
    }
}

/// The error of a body in an encoding that was not asked for: its caller would take it for the report itself. A call that
/// says which encodings it takes reads them itself.
fn not_asked_for(request: &Request, answer: &Answer) -> Option<Error> {
    let is_plain = |name: &http::HeaderValue| name.as_bytes().eq_ignore_ascii_case(b"identity");
    let is_encoded = !answer.headers.get_all(CONTENT_ENCODING).iter().all(is_plain);
    let is_empty = answer.status == StatusCode::NO_CONTENT;
    (is_encoded && !is_empty && !request.headers.contains_key(ACCEPT_ENCODING)).then(|| {
        let error = Error::new(Kind::ReplyUnreadable, Effect::Applied).with_answer(Some(answer.clone()));
        error.with_source("it is streamed as it came, in a Content-Encoding that was not asked for")
    })
}

const SHORT: &str = "it ended before its Content-Length";

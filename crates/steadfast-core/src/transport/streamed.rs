//! [`StreamedAnswer`]: an answer whose body comes in chunks.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use easy_ext::ext;
use http::{HeaderMap, HeaderName, StatusCode};
use http_body::{Body, Frame};
use parking_lot::Mutex;

use crate::answer::Answer;
use crate::error::BoxError;
use crate::transport::{SendError, SendErrorKind};

/// The vendor's answer while its body still comes: what [`Transport::stream`](super::Transport::stream) gives.
///
/// ```
/// # #[cfg(feature = "testkit")] {
/// use steadfast::http::{HeaderMap, StatusCode};
/// use steadfast::transport::StreamedAnswer;
///
/// // Any body of the crate `http-body`, such as axum's.
/// let body = axum::body::Body::from("id,amount\n1,1000\n");
/// let answer = StreamedAnswer::new(StatusCode::OK, HeaderMap::new(), body);
/// assert_eq!(answer.status, 200);
/// # }
/// ```
///
/// `Debug` shows the status and the names of the headers.
#[non_exhaustive]
pub struct StreamedAnswer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers, as received.
    pub headers: HeaderMap,
    body: Chunks,
}

impl StreamedAnswer {
    /// An answer with this body. An error of the body means that the connection broke in the middle of the answer; a body
    /// that knows better gives a [`SendError`], which is taken at its word. Trailers are passed over.
    pub fn new<B>(status: StatusCode, headers: HeaderMap, body: B) -> StreamedAnswer
    where
        B: Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        StreamedAnswer::told_by(status, headers, body, |error| told(error, SendErrorKind::Truncated))
    }
}

/// Methods that only the crates of this workspace call.
#[ext(StreamedAnswerExt)]
impl StreamedAnswer {
    /// An answer whose connection breaks after what is there of its body.
    pub fn broken_off(answer: Answer) -> StreamedAnswer {
        let body = BufferedBody { bytes: answer.body, end: Some(SendError::new(SendErrorKind::Truncated)) };
        StreamedAnswer::told_by(answer.status, answer.headers, body, |error| error)
    }

    /// The head as an answer without a body, and the body.
    pub fn into_parts(self) -> (Answer, Chunks) {
        (Answer::new(self.status, self.headers, Bytes::new()), self.body)
    }

    /// Creates an answer whose body's errors are mapped to a [`SendError`].
    pub fn told_by<B>(
        status: StatusCode,
        headers: HeaderMap,
        body: B,
        map_error: fn(B::Error) -> SendError,
    ) -> StreamedAnswer
    where
        B: Body + Send + 'static,
    {
        let body = Chunks(Mutex::new(Box::pin(MappedBody { body: Box::pin(body), map_error })));
        StreamedAnswer { status, headers, body }
    }
}

/// The answer as it was taken in, as one chunk. One that was cut breaks off where it was.
impl From<Answer> for StreamedAnswer {
    fn from(answer: Answer) -> StreamedAnswer {
        let end = answer.cut.then(|| SendError::with_source(SendErrorKind::Truncated, OVER));
        let body = BufferedBody { bytes: answer.body, end };
        StreamedAnswer::told_by(answer.status, answer.headers, body, |error| error)
    }
}

impl fmt::Debug for StreamedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedAnswer")
            .field("status", &self.status.as_u16())
            .field("headers", &self.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// The body of an answer, chunk by chunk. Never locked: the lock is what makes a body `Sync` that is only `Send`, as a
/// call under way must be.
pub struct Chunks(Mutex<Pin<Box<dyn Body<Data = Bytes, Error = SendError> + Send>>>);

impl Chunks {
    /// The next chunk that is not empty.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, SendError>> {
        loop {
            match ready!(self.0.get_mut().as_mut().poll_frame(context)).transpose()?.map(Frame::into_data) {
                Some(Ok(chunk)) if !chunk.is_empty() => return Poll::Ready(Ok(Some(chunk))),
                Some(_) => {}
                None => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Takes it all in, up to `limit_bytes`; also says whether there was more.
    pub async fn whole(mut self, limit_bytes: usize) -> Result<(Bytes, bool), SendError> {
        let mut whole = BytesMut::new();
        while let Some(chunk) = std::future::poll_fn(|context| self.poll(context)).await? {
            let room = limit_bytes - whole.len();
            whole.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                return Ok((whole.freeze(), true));
            }
        }
        Ok((whole.freeze(), false))
    }
}

/// Returns the [`SendError`] of the service or the body, if the error is one; else one of this `kind`.
pub fn told(error: impl Into<BoxError>, kind: SendErrorKind) -> SendError {
    match error.into().downcast::<SendError>() {
        Ok(failure) => *failure,
        Err(error) => SendError::with_source(kind, error),
    }
}

/// A body of any kind.
struct MappedBody<B: Body> {
    body: Pin<Box<B>>,
    map_error: fn(B::Error) -> SendError,
}

impl<B: Body> Body for MappedBody<B> {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let frame = ready!(self.body.as_mut().poll_frame(context));
        let as_bytes =
            |frame: Frame<B::Data>| frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
        Poll::Ready(frame.map(|frame| frame.map(as_bytes).map_err(self.map_error)))
    }
}

/// A body that was taken in before.
struct BufferedBody {
    bytes: Bytes,
    /// Error that follows the body.
    end: Option<SendError>,
}

impl Body for BufferedBody {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let bytes = self.bytes.split_off(0);
        if !bytes.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        Poll::Ready(self.end.take().map(Err))
    }
}

const OVER: &str = "it is over the limit of a reply, and this transport does not stream";

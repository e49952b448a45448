//! [`WatchedBody`]: a request's body that reports when sending begins, and ends it when the exchange is given up.
//!
//! Reqwest does not say when it has a connection, but hyper shows it by what it does to the body:
//!
//! - HTTP/2 asks `size_hint` and then `is_end_stream` as soon as a connection takes the request. The head may then wait
//!   for minutes until a stream is free, and leaves before the body is asked for. It leaves without the end of the
//!   stream, as `is_end_stream` says that there is more, so that no vendor has the request. `poll_frame` is called once
//!   the stream is open: there sending begins. A body that was given up answers with an error, and hyper resets the
//!   stream.
//! - HTTP/1 asks `is_end_stream` and then `size_hint` when it writes the head into its buffer, and flushes it
//!   afterwards: there sending begins, as a head that is longer than the buffer leaves before `poll_frame`. An empty
//!   body is never polled, and the head is the whole request. If that was given up in this very moment, its body says
//!   that it has a byte. The poll then comes, and its error closes the connection before anything is flushed.
//!
//! Before there is a connection, hyper asks `size_hint` alone. Reqwest's `connector_layer` sees connections being made,
//! but not which request takes one. The tests in `tests/calls/sockets.rs` hold all of this: they notice an update
//! of hyper that changes it. Should HTTP/1 ask in another order, then an empty body that it drops unread counts as sent.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use steadfast_core::internal::transport::Progress;

/// A body in one piece. It may be empty.
pub(super) struct WatchedBody {
    bytes: Bytes,
    progress: Progress,
    /// A connection has taken the request.
    is_taken: AtomicBool,
    is_polled: bool,
}

impl WatchedBody {
    pub(super) const fn new(bytes: Bytes, progress: Progress) -> WatchedBody {
        WatchedBody { bytes, progress, is_taken: AtomicBool::new(false), is_polled: false }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = GivenUp;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GivenUp>>> {
        self.is_polled = true;
        if !self.progress.begin_sending() {
            // The request then stays without its body: HTTP/1 drops the connection, HTTP/2 resets the stream.
            return Poll::Ready(Some(Err(GivenUp)));
        }
        let bytes = self.bytes.split_off(0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_taken.store(true, Ordering::Relaxed);
        self.is_polled && self.bytes.is_empty()
    }

    /// Exact, so that the request has a `Content-Length`.
    fn size_hint(&self) -> SizeHint {
        let bytes = self.bytes.len() as u64;
        let is_http1 = self.is_taken.load(Ordering::Relaxed) && !self.is_polled;
        let is_given_up = is_http1 && !self.progress.begin_sending();
        SizeHint::with_exact(if is_given_up { bytes.max(1) } else { bytes })
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        if self.bytes.is_empty() && self.is_taken.load(Ordering::Relaxed) && !self.is_polled {
            let _ = self.progress.begin_sending();
        }
    }
}

/// The caller gave up before anything was sent.
#[derive(Debug)]
pub(super) struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("given up before anything was sent")
    }
}

impl std::error::Error for GivenUp {}

//! [`WatchedBody`]: a request's body that tells when sending begins.
//!
//! The client learns here when sending begins. Reqwest does not say when it has a connection, but hyper shows it by
//! what it does to the body. The task that owns a connection asks `is_end_stream` before it writes the head, because
//! HTTP/1 and HTTP/2 need the answer for the head. Before there is a connection, hyper does not ask. Reqwest's
//! `connector_layer` sees connections being made, but not which request takes one. A request that began to connect
//! may leave on a connection that became idle meanwhile. The tests in `tests/findings/transport.rs` hold both halves:
//! they notice an update of hyper that changes it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::Progress;

/// A body that is not empty, in one piece.
///
/// An empty body would not do: HTTP/1 ends the request with its head, so that nothing could hold it back at the last
/// moment.
pub(super) struct WatchedBody {
    bytes: Bytes,
    progress: Progress,
}

impl WatchedBody {
    pub(super) fn new(bytes: Bytes, progress: Progress) -> WatchedBody {
        debug_assert!(!bytes.is_empty(), "an empty body cannot be held back");
        WatchedBody { bytes, progress }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = GivenUp;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GivenUp>>> {
        if !self.progress.begin_sending() {
            // The request then stays without its body: HTTP/1 drops the connection, HTTP/2 resets the stream.
            return Poll::Ready(Some(Err(GivenUp)));
        }
        let bytes = self.bytes.split_off(0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.progress.begin_sending() && self.bytes.is_empty()
    }

    /// Exact, so that the request has a `Content-Length`. Asked also before there is a connection.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
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

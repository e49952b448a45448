//! The transport that carries requests to the vendor: the [`Transport`] trait, and its types.
//!
//! The trait is small for implementors (a scripted one for tests is in `testkit`). `Http` over reqwest is the one that
//! service code uses.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use easy_ext::ext;
use url::Url;

use crate::BoxFuture;
pub use crate::answer::Answer;
pub use crate::attempt::failure::SendErrorKind;
use crate::effect::Effect;
use crate::error::BoxError;
pub use crate::request::Request;

pub(crate) mod progress;
pub(crate) mod reach;
pub(crate) mod streamed;

pub(crate) use progress::Progress;
use reach::QUEUE_MAX;
pub use streamed::StreamedAnswer;

/// Limits of one exchange, and its progress, which the transport reports. Clones are of the same exchange.
///
/// It starts as *may have left*: a transport that never reports anything is on the safe side. A transport that can
/// report its progress does two things:
///
/// 1. It calls [`nothing_sent`](Limits::nothing_sent) when the exchange begins. Do this only if every byte of the
///    request waits for step 2.
/// 2. It calls [`begin_sending`](Limits::begin_sending) before the first byte of the request may leave. If the answer
///    is `false`, it must not send: the caller's answer was that nothing was sent.
///
/// ```
/// use steadfast::transport::Limits;
///
/// let silent = Limits::new(1024).watched();
/// assert!(!silent.give_up(), "the request may have left");
///
/// let connecting = Limits::new(1024).watched();
/// connecting.nothing_sent();
/// assert!(connecting.give_up(), "nothing has left");
/// assert!(!connecting.begin_sending(), "and nothing leaves any more");
///
/// let sending = Limits::new(1024).watched();
/// sending.nothing_sent();
/// assert!(sending.begin_sending());
/// assert!(!sending.give_up());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The longest reply to take in. The rest is cut off, and [`Answer::cut`] says so.
    pub reply_bytes_max: usize,
    /// Whether to open a connection for this exchange alone: one before it gave no answer, or a 5xx. Default: `false`.
    pub new_connection: bool,
    /// The circuit is open, and this exchange may close it.
    pub(crate) is_probe: bool,
    pub(crate) progress: Progress,
}

impl Limits {
    /// Limits for one exchange whose progress is not watched.
    pub const fn new(reply_bytes_max: usize) -> Limits {
        let progress = Progress::unwatched();
        Limits { reply_bytes_max, new_connection: false, is_probe: false, progress }
    }

    /// Returns the same limits for an exchange whose progress is watched.
    #[must_use]
    pub fn watched(self) -> Limits {
        self.watched_by(&Progress::new())
    }

    /// Reports, for transports, that nothing of the request has left, and that nothing leaves before
    /// [`begin_sending`](Limits::begin_sending) has returned `true`.
    ///
    /// It changes nothing after the first byte may have left, or after the caller gave up.
    pub fn nothing_sent(&self) {
        self.progress.nothing_sent();
    }

    /// Asks, for transports, for permission to send: the first byte is about to leave, or more of the request. `false`
    /// means that the caller gave up and no more may leave. May be called more than once.
    #[must_use = "on `false` nothing may be sent"]
    pub fn begin_sending(&self) -> bool {
        self.progress.begin_sending()
    }

    /// Gives the exchange up, for the side that drops it, so that no more of the request leaves. `true` means that
    /// nothing of it has. Always `false` for an exchange that is not watched.
    pub fn give_up(&self) -> bool {
        self.progress.give_up()
    }
}

/// Methods that only the crates of this workspace call.
#[ext(LimitsExt)]
impl Limits {
    /// Returns the progress of the exchange.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether it asks if the vendor is well.
    pub fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// Says that it asks whether the vendor is well.
    pub fn probing(&mut self, is_probe: bool) {
        self.is_probe = is_probe;
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn watched_by(mut self, progress: &Progress) -> Limits {
        self.progress = progress.clone();
        self
    }
}

/// Carries one request to the vendor and one answer back.
///
/// # Cancellation safety
///
/// Dropping the future abandons the exchange; the request may or may not have been sent. When time runs out, the engine
/// drops it and treats the outcome as unknown, unless the transport has reported to the [limits](Limits::nothing_sent)
/// that nothing has left.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends the request once, as given, and reads the answer up to the limit. It follows no redirect and retries
    /// nothing, for every request.
    ///
    /// # Errors
    ///
    /// A [`SendError`] whose kind shows whether the request may have reached the vendor. When in doubt it must be a
    /// kind for which it may have.
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>>;

    /// Sends the request once, as [`send`](Transport::send) does, and gives the answer as soon as its head has come:
    /// for `Call::stream`. The limit of a reply does not count for its body.
    ///
    /// Default: [`send`](Transport::send), with the body as one chunk. An answer over the limit then breaks off at it.
    ///
    /// # Errors
    ///
    /// As [`send`](Transport::send), until the head has come. The end of the body is reported by the body.
    fn stream(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<StreamedAnswer, SendError>> {
        let sending = self.send(request, limits);
        Box::pin(async move { sending.await.map(StreamedAnswer::from) })
    }

    /// Whether answers come over sockets, in real time, so that a test's clock has to wait for them. Default: no.
    fn is_over_sockets(&self) -> bool {
        false
    }

    /// The longest that a request to `url` may still take to arrive once its exchange has been dropped, or has failed
    /// without an answer. A connection may hold it, or the kernel. The vendor's settle time counts from there.
    ///
    /// Default: two minutes. It is none for a transport in memory.
    fn queue_max(&self, url: &Url) -> Duration {
        let _ = url;
        QUEUE_MAX
    }
}

/// The reason why no whole answer came.
#[derive(Debug)]
pub struct SendError {
    kind: SendErrorKind,
    /// The host, with the port if the URL has one: the first suspect where no connection was made.
    host: Option<Box<str>>,
    source: Option<BoxError>,
}

impl SendError {
    /// A failure without a cause to show.
    pub fn new(kind: SendErrorKind) -> SendError {
        SendError { kind, host: None, source: None }
    }

    /// A failure with its cause, which must not contain a secret.
    pub fn with_source(kind: SendErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> SendError {
        SendError { kind, host: None, source: Some(source.into()) }
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> SendErrorKind {
        self.kind
    }

    /// Returns the effect that the request may have had.
    pub fn effect(&self) -> Effect {
        self.kind.effect()
    }
}

/// Methods that only the crates of this workspace call.
#[ext(SendErrorExt)]
impl SendError {
    /// Notes that the request was to this URL. Nothing but its host and port is kept.
    pub fn note_host(&mut self, url: &Url) {
        self.host = url.host_str().map(|host| match url.port() {
            Some(port) => format!("{host}:{port}").into(),
            None => host.into(),
        });
    }

    /// The failure of an exchange that was dropped because time ran out.
    pub fn out_of_time(progress: &Progress) -> SendError {
        if progress.give_up() {
            return SendError::with_source(SendErrorKind::Connect, "time ran out before anything was sent");
        }
        SendError::new(SendErrorKind::Timeout)
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or("the vendor");
        f.write_str(match self.kind {
            SendErrorKind::Dns if self.host.is_none() => "the vendor's name did not resolve",
            SendErrorKind::Dns => return write!(f, "the name {host} did not resolve"),
            SendErrorKind::Connect => return write!(f, "no connection to {host}"),
            SendErrorKind::Tls => return write!(f, "the TLS handshake with {host} failed"),
            SendErrorKind::Request => "the request could not be built",
            SendErrorKind::Local => {
                f.write_str("this host could not send it")?;
                return self.source.as_ref().map_or(Ok(()), |fact| write!(f, ": {fact}"));
            }
            SendErrorKind::Timeout => "no answer in time",
            SendErrorKind::NotProcessed => return write!(f, "{host} did not process the request"),
            SendErrorKind::Reset => "the connection broke before an answer",
            SendErrorKind::Truncated => "the connection broke in the middle of the answer",
            SendErrorKind::Redirected => "the request was redirected",
        })
    }
}

impl StdError for SendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        if self.kind == SendErrorKind::Local {
            // Said already: a person looks for the fault here, and not at the vendor.
            return self.source.as_ref()?.source();
        }
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

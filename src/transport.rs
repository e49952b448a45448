//! The transport that carries requests to the vendor: the [`Transport`] trait, and its types.
//!
//! The trait is small for implementors (a scripted one for tests is in [`testkit`]). [`Http`] over reqwest is the one
//! that service code uses.
//!
#![cfg_attr(feature = "testkit", doc = "[`testkit`]: crate::testkit")]
#![cfg_attr(not(feature = "testkit"), doc = "[`testkit`]: crate#features")]

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use url::{Host, Url};

pub use crate::answer::Answer;
pub use crate::attempt::failure::SendErrorKind;
use crate::error::{BoxError, Effect};
pub use crate::request::Request;

mod failure;
mod http_client;
mod progress;
mod watched_body;

pub use http_client::{Http, HttpBuilder};
pub use progress::Progress;

/// The limits of one exchange, and the place where the transport says how far it has got.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The longest reply to take in. The rest is cut off, and [`Answer::cut`] says so.
    pub reply_bytes_max: usize,
    /// Where the transport says whether the request has begun to leave. A transport that cannot tell ignores it.
    pub progress: Progress,
}

impl Limits {
    /// Limits for one exchange whose progress is not watched.
    pub const fn new(reply_bytes_max: usize) -> Limits {
        Limits { reply_bytes_max, progress: Progress::unwatched() }
    }

    /// The same limits for an exchange whose progress is told to `progress`.
    #[must_use]
    pub fn watched(mut self, progress: &Progress) -> Limits {
        self.progress = progress.clone();
        self
    }
}

/// The future of one exchange.
pub type Exchange<'a> = Pin<Box<dyn Future<Output = Result<Answer, SendError>> + Send + 'a>>;

/// Carries one request to the vendor and one answer back.
///
/// # Cancellation safety
///
/// Dropping the future abandons the exchange; the request may or may not have been sent. When time runs out, the
/// engine drops it and treats the outcome as unknown, unless the transport has said to [`Limits::progress`] that
/// nothing has left.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends the request once, as given, and reads the answer up to the limit. It follows no redirect and retries
    /// nothing, for every request.
    ///
    /// # Errors
    ///
    /// A [`SendError`] that tells whether the request may have reached the vendor. When in doubt it must say
    /// that it may have.
    fn send(&self, request: Request, limits: Limits) -> Exchange<'_>;
}

/// Whether the URL's host is this host itself, so that what is sent to it crosses no network.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
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

    /// The failure of an exchange that was dropped because time ran out.
    pub(crate) fn out_of_time(progress: &Progress) -> SendError {
        if progress.give_up() {
            return SendError::with_source(SendErrorKind::Connect, "time ran out before anything was sent");
        }
        SendError::new(SendErrorKind::Timeout)
    }

    /// Notes that the request was to this URL. Nothing but its host and port is kept.
    pub(crate) fn note_host(&mut self, url: &Url) {
        self.host = url.host_str().map(|host| match url.port() {
            Some(port) => format!("{host}:{port}").into(),
            None => host.into(),
        });
    }

    /// How it failed.
    pub fn kind(&self) -> SendErrorKind {
        self.kind
    }

    /// Whether the request may have taken effect.
    pub fn effect(&self) -> Effect {
        self.kind.effect()
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
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

//! [`SendErrorKind`]: how sending failed. It is here and not beside the transport, because reports store it.

use serde::{Deserialize, Serialize};

use crate::effect::Effect;

/// The ways in which an exchange fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SendErrorKind {
    /// The name did not resolve. Never sent.
    Dns,
    /// No connection, or none before time ran out. Never sent.
    Connect,
    /// The TLS handshake failed. Never sent.
    Tls,
    /// The request could not be built. Never sent.
    Request,
    /// This host could not send the request: it has no file descriptor, port or memory left, or TLS cannot be set up.
    /// The request was not sent, and the failure is no evidence about the vendor.
    Local,
    /// Time ran out, and the request may have left.
    Timeout,
    /// The vendor, or a proxy before it, reported in HTTP/2 that it did not process the request (RFC 9113). It refused
    /// the stream (section 8.7), or it is closing the connection and the stream is above the last that it looked at
    /// (GOAWAY, section 6.8). Sent, without any effect.
    NotProcessed,
    /// The connection broke before an answer.
    Reset,
    /// The connection broke in the middle of the answer.
    Truncated,
    /// A redirect was followed underneath us: it is not known what was sent where.
    Redirected,
}

impl SendErrorKind {
    /// Returns [`Effect::None`] for a request that provably never left, or was provably never processed; else
    /// [`Effect::Unknown`].
    pub const fn effect(self) -> Effect {
        match self {
            SendErrorKind::Dns
            | SendErrorKind::Connect
            | SendErrorKind::Tls
            | SendErrorKind::Request
            | SendErrorKind::Local
            | SendErrorKind::NotProcessed => Effect::None,
            SendErrorKind::Timeout
            | SendErrorKind::Reset
            | SendErrorKind::Truncated
            | SendErrorKind::Redirected => Effect::Unknown,
        }
    }

    /// The kind's name in logs, metrics (OpenTelemetry's `error.type`) and stored reports, where it never changes.
    pub const fn name(self) -> &'static str {
        match self {
            SendErrorKind::Dns => "dns",
            SendErrorKind::Connect => "connect",
            SendErrorKind::Tls => "tls",
            SendErrorKind::Request => "request",
            SendErrorKind::Local => "local",
            SendErrorKind::Timeout => "timeout",
            SendErrorKind::NotProcessed => "not_processed",
            SendErrorKind::Reset => "reset",
            SendErrorKind::Truncated => "truncated",
            SendErrorKind::Redirected => "redirected",
        }
    }
}

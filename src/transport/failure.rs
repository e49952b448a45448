//! The effect of a request whose exchange failed before the answer.
//!
//! Failures are classified by one question: did the request provably take no effect? Resolving, connecting and the TLS
//! handshake come before the first byte of a request, so their failures say yes. So does an HTTP/2 peer that says it
//! did not process the stream. Everything else says "may have taken effect", whatever it looks like.

use std::error::Error as StdError;
use std::io;

use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::transport::Progress;
use steadfast_core::transport::{SendError, SendErrorKind};

/// Classifies failures before the answer's head. Redirects are off, so there was one request at most, and a failure to
/// connect is a failure to send it.
pub(super) fn before_the_answer(error: reqwest::Error, https: bool, progress: &Progress) -> SendError {
    if let Some(fact) = local_fact(&error) {
        return SendError::with_source(SendErrorKind::Local, fact);
    }
    let kind = if error.is_dns() {
        SendErrorKind::Dns
    } else if error.is_connect() {
        match connect_failure(&error, https) {
            Connecting::WithoutTls => return SendError::with_source(SendErrorKind::Tls, NO_TLS),
            Connecting::Handshake => SendErrorKind::Tls,
            Connecting::Elsewhere => SendErrorKind::Connect,
        }
    } else if error.is_redirect() {
        SendErrorKind::Redirected
    } else if error.is_builder() {
        SendErrorKind::Request
    } else if progress.give_up() {
        // Such as a total timeout of the caller's own client, while it waited for a connection.
        SendErrorKind::Connect
    } else if is_not_processed(&error) {
        SendErrorKind::NotProcessed
    } else if error.is_timeout() {
        SendErrorKind::Timeout
    } else {
        SendErrorKind::Reset
    };
    SendError::with_source(kind, error.without_url())
}

/// A client that cannot be made: TLS finds no certificates, or the system has no resources left. The fact is the last
/// of the causes.
pub(super) fn not_set_up(error: impl StdError) -> SendError {
    let mut fact = error.to_string();
    let mut next = error.source();
    while let Some(layer) = next {
        fact = layer.to_string();
        next = layer.source();
    }
    SendError::with_source(SendErrorKind::Local, fact)
}

/// The error of the system, where it is for want of something on this host: nothing was connected then.
fn local_fact(error: &reqwest::Error) -> Option<io::Error> {
    if !error.is_connect() && !error.is_dns() || Guard::LocalIsNotTheVendors.is_out() {
        return None;
    }
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(layer) = next {
        let io = layer.downcast_ref::<io::Error>();
        // What the system says itself has a code; hyper's own errors have none.
        if let Some(code) = io.and_then(io::Error::raw_os_error) {
            let error = io::Error::from_raw_os_error(code);
            return (!is_of_the_other_side(error.kind())).then_some(error);
        }
        next = match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => layer.source(),
        };
    }
    None
}

/// Whether a failure to connect may come of the vendor, or of the way to it. All else is of this host: no free file
/// descriptor, port or memory, a firewall of its own, no network at all.
fn is_of_the_other_side(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, NotConnected,
        TimedOut, UnexpectedEof,
    };
    matches!(
        kind,
        BrokenPipe
            | ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NotConnected
            | TimedOut
            | UnexpectedEof
    )
}

/// Returns true if the other side reported in HTTP/2 that it did not process the request. It does so by RST_STREAM with
/// REFUSED_STREAM (RFC 9113, section 8.7), or GOAWAY with a last stream below the request's, whatever its code (section
/// 6.8).
///
/// `h2` gives the error of a GOAWAY only to streams above the last one. A stream that a GOAWAY covers and that ends
/// with the connection has an I/O error, and may have been processed.
fn is_not_processed(error: &reqwest::Error) -> bool {
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(layer) = next {
        if let Some(error) = layer.downcast_ref::<h2::Error>() {
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (refused || error.is_go_away());
        }
        next = layer.source();
    }
    false
}

const NO_TLS: &str = "https needs TLS, and this build has none: enable the feature `rustls` or `native-tls`";

enum Connecting {
    WithoutTls,
    Handshake,
    Elsewhere,
}

/// Returns the part of connecting that failed. The TLS libraries are optional, so their error types cannot be named;
/// their words can. A wrong guess changes a label and not the effect: either way nothing was sent.
fn connect_failure(error: &reqwest::Error, https: bool) -> Connecting {
    if !https {
        return Connecting::Elsewhere;
    }
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(layer) = next {
        let io = layer.downcast_ref::<io::Error>();
        let text = layer.to_string().to_ascii_lowercase();
        if text.contains("scheme is not http") {
            return Connecting::WithoutTls;
        }
        let rustls = io.is_some_and(|io| io.kind() == io::ErrorKind::InvalidData);
        if rustls || TLS_WORDS.iter().any(|word| text.contains(word)) {
            return Connecting::Handshake;
        }
        // `io::Error::source` skips the error that it wraps.
        next = match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => layer.source(),
        };
    }
    Connecting::Elsewhere
}

/// Words of rustls, OpenSSL, Schannel and Secure Transport for a handshake that failed.
const TLS_WORDS: [&str; 5] = ["tls", "ssl", "certificate", "handshake", "secure channel"];

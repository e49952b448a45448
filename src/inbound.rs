//! Two headers of an incoming request that matter to the calls made for it: how long its caller still waits, and
//! whether a layer above already retries.
//!
//! ```
//! use std::time::Duration;
//! use steadfast::Inbound;
//!
//! let mut headers = http::HeaderMap::new();
//! headers.insert("x-request-timeout", "2.5".parse().unwrap());
//! headers.insert("x-do-not-retry", "true".parse().unwrap());
//! let inbound = Inbound::from_headers(&headers);
//! assert!(inbound.remaining().unwrap() <= Duration::from_millis(2_500));
//! assert!(!inbound.retries_allowed());
//! ```

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use steadfast_core::clock::{Clock, Instant, SystemClock};

#[cfg(feature = "axum")]
mod axum;

/// The deadline and the do-not-retry mark of an incoming request. Pass it to
/// [`Call::inbound`](crate::Call::inbound).
///
/// Without this, a service retries for a caller that has gone, and three layers of three retries each become
/// twenty-seven calls.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// use steadfast::http::HeaderMap;
/// use steadfast::Inbound;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-request-timeout", "2.5".parse()?);
/// let inbound = Inbound::from_headers(&headers);
///
/// // Ends within the 2.5 s that our own caller still waits.
/// let reply = stripe.get("/v1/charges").inbound(&inbound).send().await?;
/// assert_eq!(reply.status(), 200);
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Clone, Debug)]
pub struct Inbound {
    clock: Arc<dyn Clock>,
    received_at: Instant,
    timeout: Option<Duration>,
    retries_allowed: bool,
}

impl Inbound {
    /// Header with the time that the caller waits from the moment it sent the request: seconds, with or without a
    /// fraction (`2.5`), or with a unit (`2500ms`, `2.5s`).
    pub const X_REQUEST_TIMEOUT: &str = "x-request-timeout";

    /// Set to `1` or `true` by a caller that retries by itself.
    pub const X_DO_NOT_RETRY: &str = "x-do-not-retry";

    /// Reads the headers of a request that came in just now. A malformed timeout counts as none.
    pub fn from_headers(headers: &HeaderMap) -> Inbound {
        Inbound::from_headers_on(headers, Arc::new(SystemClock::new()))
    }

    /// Reads the headers on a given clock.
    pub fn from_headers_on(headers: &HeaderMap, clock: Arc<dyn Clock>) -> Inbound {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        Inbound {
            received_at: clock.now(),
            clock,
            timeout: text(Inbound::X_REQUEST_TIMEOUT).and_then(parse_timeout),
            retries_allowed: !matches!(text(Inbound::X_DO_NOT_RETRY), Some("1" | "true")),
        }
    }

    /// Returns the time that the caller still waits; zero if it has given up, `None` if it gave none.
    pub fn remaining(&self) -> Option<Duration> {
        let timeout = self.timeout?;
        Some(timeout.saturating_sub(self.clock.now().since(self.received_at)))
    }

    /// Whether retries are left to us.
    pub fn retries_allowed(&self) -> bool {
        self.retries_allowed
    }
}

/// Reads the value of [`Inbound::X_REQUEST_TIMEOUT`]. Never panics, whatever the text.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds: f64 = number.parse().ok().filter(|_| plain)?;
    Duration::try_from_secs_f64(seconds * unit).ok()
}

/// Writes the value of [`Inbound::X_REQUEST_TIMEOUT`]: seconds, to the millisecond, rounded down.
pub(crate) fn format_timeout(left: Duration) -> String {
    format!("{}.{:03}", left.as_secs(), left.subsec_millis())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plain_number_is_seconds_and_a_unit_is_taken_at_its_word() {
        for (text, expected) in [
            ("2", Some(2_000)),
            ("2.5", Some(2_500)),
            ("2s", Some(2_000)),
            ("2500ms", Some(2_500)),
            ("0", Some(0)),
            ("-1", None),
            ("inf", None),
            ("NaN", None),
            ("1e3", None),
            ("", None),
            ("soon", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(parse_timeout(text), expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn a_passed_on_deadline_is_never_longer_than_the_rest() {
        assert_eq!(format_timeout(Duration::from_micros(1_999_999)), "1.999");
    }

    proptest! {
        #[test]
        fn no_text_panics_the_parser(text in ".*") {
            let _ = parse_timeout(&text);
        }
    }
}

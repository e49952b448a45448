//! Whose failure it is: what an exchange says of the vendor's health.
//!
//! Only what the vendor did counts. A caller that allows 5 ms, perhaps because a stranger's request said so, ends
//! its attempts at a vendor that answers in 40 ms; counted as failures, five such calls would close a healthy
//! vendor to everybody. The same goes for a request that could not be built.

use http::StatusCode;

use crate::answer::Answer;
use crate::clock::Instant;
use crate::policy::Outcome;
use crate::transport::{SendError, SendErrorKind};

/// One exchange, over.
pub(super) struct Exchanged {
    pub outcome: Result<Answer, SendError>,
    pub ended: Instant,
    /// We ended it before the vendor had the time that the policy gives an attempt: at the caller's deadline, or at
    /// the end of our hold on the operation.
    pub cut_short: bool,
}

impl Exchanged {
    /// What it says of the vendor's health. A refusal proves life; a 429 is feedback on load and no failure.
    pub(super) fn liveness(&self) -> Outcome {
        let failure = match &self.outcome {
            Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => return Outcome::Neutral,
            Ok(answer) if answer.status.is_server_error() => return Outcome::Failure,
            Ok(_) => return Outcome::Success,
            Err(failure) => failure.kind(),
        };
        match failure {
            // Ours: it was never built, or went elsewhere by a transport that follows redirects.
            SendErrorKind::Request | SendErrorKind::Redirected => Outcome::Neutral,
            _ if self.cut_short => Outcome::Neutral,
            SendErrorKind::Dns
            | SendErrorKind::Connect
            | SendErrorKind::Tls
            | SendErrorKind::Timeout
            | SendErrorKind::Reset
            | SendErrorKind::Truncated => Outcome::Failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn liveness(outcome: Result<u16, SendErrorKind>, cut_short: bool) -> Outcome {
        let answer = |status: u16| {
            Answer::new(StatusCode::from_u16(status).expect("a status"), HeaderMap::new(), Vec::new())
        };
        let outcome = outcome.map(answer).map_err(SendError::new);
        Exchanged { outcome, ended: Instant::ORIGIN, cut_short }.liveness()
    }

    #[test]
    fn only_what_the_vendor_did_counts() {
        use Outcome::{Failure, Neutral, Success};
        use SendErrorKind::{Connect, Dns, Redirected, Request, Reset, Timeout, Tls, Truncated};

        for (outcome, says) in [
            (Ok(200), Success),
            (Ok(302), Success),
            (Ok(401), Success),
            (Ok(404), Success),
            (Ok(429), Neutral),
            (Ok(500), Failure),
            (Ok(503), Failure),
            (Err(Request), Neutral),
            (Err(Redirected), Neutral),
            (Err(Dns), Failure),
            (Err(Connect), Failure),
            (Err(Tls), Failure),
            (Err(Timeout), Failure),
            (Err(Reset), Failure),
            (Err(Truncated), Failure),
        ] {
            assert_eq!(liveness(outcome, false), says, "{outcome:?}");
        }
        assert_eq!(liveness(Err(Timeout), true), Neutral);
    }
}

//! Whose failure it is: what an exchange says of the vendor's health.
//!
//! Only what the vendor did counts. A caller that allows 5 ms, perhaps because a stranger's request said so, ends its
//! attempts at a vendor that answers in 40 ms. If these counted as failures, five such calls would close a healthy
//! vendor to all callers. The same goes for a request that could not be built.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

use steadfast_core::internal::ext::AnswerExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::policy::{Admission, Outcome, Sign};
use steadfast_core::transport::{Answer, Request, SendErrorKind};

use super::exchange::Exchanged;
use super::phase::Run;

impl Exchanged {
    /// What it says of the vendor's health. A refusal proves life; a 429 is feedback on load and no failure.
    pub(super) fn liveness(&self) -> Outcome {
        let failure = match &self.outcome {
            Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => {
                return Guard::LimitIsNeutral.or(Outcome::Neutral, Outcome::Failure);
            }
            Ok(answer) if answer.status.is_server_error() => return Outcome::Failure,
            Ok(_) => return Outcome::Success,
            Err(failure) => failure.kind(),
        };
        Outcome::of_failure(failure, self.cut_short)
    }
}

impl Exchanged {
    /// Whether the connection, or what is behind it, may be at fault: another one may do better. A 429 is none of a
    /// connection's, and what was not processed came over one that is closing. A host without ports needs those that it
    /// has.
    pub(super) fn is_unanswered(&self) -> bool {
        match &self.outcome {
            Ok(answer) => answer.status.is_server_error(),
            Err(failure) => !matches!(failure.kind(), SendErrorKind::NotProcessed | SendErrorKind::Local),
        }
    }

    /// This host could not send.
    pub(super) fn is_local(&self) -> bool {
        self.outcome.as_ref().is_err_and(|failure| failure.kind() == SendErrorKind::Local)
    }

    /// What it says of recovery's rate. Who asks for less has more than enough; what says nothing of the vendor's
    /// health says nothing of the rate.
    fn sign(&self) -> Option<Sign> {
        if self.outcome.as_ref().is_ok_and(Answer::is_rate_limit) {
            return Some(Sign::TooMuch);
        }
        match self.liveness() {
            Outcome::Success => Some(Sign::Good),
            Outcome::Failure => Some(Sign::Failed),
            Outcome::Neutral => None,
        }
    }
}

impl Run<'_> {
    /// Tells the gates how an attempt or a lookup went, and which request it was.
    #[inline]
    pub(super) fn account(&mut self, admission: Admission<'_>, request: &Request, exchanged: &Exchanged) {
        let (outcome, ended) = (exchanged.liveness(), exchanged.ended);
        let says_something = if admission.asks_for_route(outcome, ended) {
            let call = (outcome == Outcome::Failure).then(|| self.number());
            admission.settle_to(&self.engine.route_of(request), call, outcome, ended)
        } else {
            admission.settle(outcome, ended);
            true
        };
        // What one route or one operation fails at is no reason to send less to others.
        if self.recovered
            && let Some(sign) = exchanged.sign().filter(|sign| says_something || *sign != Sign::Failed)
        {
            self.engine.gates.recovery().heed(sign, ended);
        }
    }

    /// What tells this call from all others, so that its failures count once: an operation's number is the same
    /// when it comes back from the record.
    fn number(&mut self) -> u64 {
        let Some(hold) = &self.hold else {
            return *self.number.get_or_insert_with(|| PLAIN_CALLS.fetch_add(1, Ordering::Relaxed));
        };
        let mut hasher = DefaultHasher::new();
        hold.record.id.hash(&mut hasher);
        hasher.finish() | OPERATION
    }
}

/// Calls without a key that have failed in this process.
static PLAIN_CALLS: AtomicU64 = AtomicU64::new(0);

/// Keeps the numbers of operations apart from those of plain calls.
const OPERATION: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use steadfast_core::clock::Instant;
    use steadfast_core::transport::{Answer, SendError};

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
        use SendErrorKind::{Connect, Dns, Local, Redirected, Request, Reset, Timeout, Tls, Truncated};

        for (outcome, says) in [
            (Ok(200), Success),
            (Ok(302), Success),
            (Ok(401), Success),
            (Ok(404), Success),
            (Ok(429), Neutral),
            (Ok(500), Failure),
            (Ok(503), Failure),
            (Err(Request), Neutral),
            (Err(Local), Neutral),
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

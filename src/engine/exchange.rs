//! One exchange with the vendor: what goes out, for how long it is waited for, and whose failure it is.
//!
//! Only what the vendor did counts. A caller that allows 5 ms, perhaps because a stranger's request said so, ends its
//! attempts at a vendor that answers in 40 ms. If these counted as failures, five such calls would close a healthy
//! vendor to all callers. The same goes for a request that could not be built.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use steadfast_core::clock::Instant;
use steadfast_core::internal::ext::{AnswerExt, LimitsExt, SendErrorExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::policy::{Outcome, Sign};
use steadfast_core::internal::transport::{Chunks, Progress};
use steadfast_core::transport::{Answer, Limits, Request, SendError};

use super::Engine;
use crate::inbound::{self, Inbound};
use crate::limit;

/// The limits that a call sets its exchanges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The longest that the policy gives an attempt.
    pub attempt: Duration,
    /// When the call's time is over, or its hold on the operation: whichever comes first.
    pub until: Instant,
    /// Whether the limit goes out in `X-Request-Timeout`.
    pub pass_deadline_on: bool,
    pub retries_allowed: bool,
    /// Whether an operation is held: another process may carry it on once the time is over.
    pub is_held: bool,
    /// The last attempt of the call was not answered, or with a 5xx.
    pub new_connection: bool,
    pub is_probe: bool,
}

/// One exchange, over.
pub(super) struct Exchanged {
    pub outcome: Result<Answer, SendError>,
    pub ended: Instant,
    /// We ended it before the vendor had the time that the policy gives an attempt: at the caller's deadline, or at
    /// the end of our hold on the operation.
    pub cut_short: bool,
}

impl Exchanged {
    /// Its meaning for the vendor's health. A refusal proves life; a 429 is feedback on load and no failure.
    pub(super) fn health(&self) -> Outcome {
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

    /// Its meaning for recovery's rate. Who asks for less has more than enough; what says nothing of the vendor's
    /// health says nothing of the rate.
    pub(super) fn sign(&self) -> Option<Sign> {
        if self.outcome.as_ref().is_ok_and(Answer::is_rate_limit) {
            return Some(Sign::TooMuch);
        }
        match self.health() {
            Outcome::Success => Some(Sign::Good),
            Outcome::Failure => Some(Sign::Failed),
            Outcome::Neutral => None,
        }
    }
}

impl Engine {
    /// Sends a copy of a request within `bounds`.
    ///
    /// `admitted` is when the gates let it through. A write to the record may come between that and `begun`. A policy
    /// may give an attempt the whole call's timeout. Then the write takes its time from the vendor's, which is no
    /// reason to overlook that the vendor hangs.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        bounds: Bounds,
        admitted: Instant,
        begun: Instant,
        aside: Option<&mut Option<Chunks>>,
    ) -> Exchanged {
        let until = begun.plus(bounds.attempt).min(bounds.until);
        // A safe method has no effect to be unknown, and its call is spared the allocation.
        let progress = match (request.method.is_safe(), bounds.is_held) {
            (true, _) => Progress::unwatched(),
            (false, false) => Progress::new(),
            (false, true) => {
                Progress::until(Arc::clone(&self.clock), self.clock.wall().plus(until.since(begun)))
            }
        };
        let mut limits = Limits::new(self.policy.reply_bytes_max).watched_by(&progress);
        limits.probing(bounds.is_probe);
        limits.new_connection = Guard::NewConnection.keeps(bounds.new_connection || bounds.is_probe);
        let under_way = progress.until_over();
        let outgoing = self.outgoing(request, bounds, until.since(begun));
        let exchange = match aside {
            None => self.transport.send(outgoing, limits),
            Some(aside) => self.open(outgoing, limits, aside),
        };
        let is_over_sockets = self.transport.is_over_sockets();
        let begin = || {
            if is_over_sockets { self.clock.socket_limit_until(until) } else { self.clock.limit_until(until) }
        };
        let answered = limit::until(begin, exchange).await;
        if matches!(answered, Some(Ok(_))) {
            under_way.over();
        }
        let cut_short = answered.is_none() && until < admitted.plus(bounds.attempt);
        let outcome = answered.unwrap_or_else(|| Err(SendError::out_of_time(&progress)));
        Exchanged { outcome, ended: self.clock.now(), cut_short }
    }

    /// The copy of a request that is sent. It alone has the vendor's secrets.
    fn outgoing(&self, request: &Request, bounds: Bounds, left: Duration) -> Request {
        let mut outgoing = request.clone();
        outgoing.headers.reserve(ADDED_HEADERS);
        self.vendor.authorize(&mut outgoing);
        if bounds.pass_deadline_on {
            pass_on(&mut outgoing, left, bounds.retries_allowed);
        }
        outgoing
    }
}

/// A layer that retries above us also stands above the vendor: the mark goes on, so that no layer below multiplies
/// the sends.
fn pass_on(request: &mut Request, left: Duration, retries_allowed: bool) {
    if !retries_allowed {
        request.headers.insert(Inbound::X_DO_NOT_RETRY, HeaderValue::from_static("true"));
    }
    if let Ok(value) = HeaderValue::from_str(&inbound::format_timeout(left)) {
        request.headers.insert(Inbound::X_REQUEST_TIMEOUT, value);
    }
}

/// How many headers an exchange adds to those of a call, which a clone has no room for: the vendor's secret, and the
/// `Host`, `Accept` and `Content-Length` of the transport. They would be moved twice else.
const ADDED_HEADERS: usize = 4;

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use steadfast_core::transport::SendErrorKind;

    use super::*;

    fn health(outcome: Result<u16, SendErrorKind>, cut_short: bool) -> Outcome {
        let answer = |status: u16| {
            Answer::new(StatusCode::from_u16(status).expect("a status"), HeaderMap::new(), Vec::new())
        };
        let outcome = outcome.map(answer).map_err(SendError::new);
        Exchanged { outcome, ended: Instant::ORIGIN, cut_short }.health()
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
            assert_eq!(health(outcome, false), says, "{outcome:?}");
        }
        assert_eq!(health(Err(Timeout), true), Neutral);
    }
}

//! A fake without sockets: its state machine as a transport.
//!
//! Sockets cost real time and their order is the operating system's. A simulation that is to repeat a schedule
//! from a seed, or to run thousands of them, needs neither. Only the wire is lost: that a client speaks HTTP
//! is for the listening fakes to show.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use url::Url;

use steadfast_core::BoxFuture;
use steadfast_core::internal::ext::StreamedAnswerExt;
use steadfast_core::transport::{
    Answer, Limits, Request, SendError, SendErrorKind, StreamedAnswer, Transport,
};
use steadfast_testkit::internal::cut;
use steadfast_testkit::{FAULT_HEADER, Fault, FaultPlan};

use super::serve::{Behaviour, Setup, dated};

/// Reaches a fake in process. Made by a fake's `transport()`, for any client that calls that fake's `url()`;
/// other hosts are not told apart.
///
/// Every request asks the plan once, and meets its fault here as it would behind a [`Front`](steadfast_testkit::Front).
/// A connection that drops or resets fails with [`SendErrorKind::Reset`], a body cut off with
/// [`SendErrorKind::Truncated`], and a hanging answer never comes. An exchange takes no time but that of
/// [`Fault::SlowBody`].
///
/// ```
/// use steadfast::Client;
/// use steadfast::testkit::fakes::StripeFake;
/// use steadfast::testkit::{Fault, TestClock};
/// use steadfast::vendor::Stripe;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = TestClock::auto();
/// let stripe = StripeFake::builder().test_clock(&clock).in_process();
/// stripe.plan().next(Fault::HangAfterApply); // Charged, and no answer for the attempt's 30 seconds.
///
/// let client = Client::builder(Stripe::new("sk_test_1").base_url(stripe.url()))
///     .transport(stripe.transport())
///     .clock(clock.clone())
///     .build()?;
/// let charge = [("amount", "1000"), ("currency", "usd")];
/// let reply = client.post("/v1/charges").key("order-42").form(&charge).send().await?;
///
/// assert_eq!((reply.attempts(), stripe.ledger().count()), (2, 1));
/// # Ok::<(), steadfast::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct InProcess {
    behaviour: Arc<dyn Behaviour>,
    setup: Setup,
}

impl InProcess {
    pub(super) fn new(behaviour: Arc<dyn Behaviour>, setup: Setup) -> InProcess {
        InProcess { behaviour, setup }
    }

    /// The fake's own plan of what goes wrong on the way.
    pub fn plan(&self) -> &FaultPlan {
        &self.setup.plan
    }

    fn pause(&self, pause: Duration) -> BoxFuture<'static, ()> {
        let clock = &self.setup.clock;
        match &self.setup.pace {
            Some(clock) => clock.latency(pause),
            None if pause == Duration::MAX => Box::pin(std::future::pending()),
            None => clock.sleep_until(clock.now().plus(pause)),
        }
    }

    /// The fake's answer, and whether its body is cut off.
    async fn exchange(&self, request: Request, limits: &Limits) -> Result<(Answer, bool), SendError> {
        // There is no connection to wait for: the request has left as soon as it is looked at.
        limits.nothing_sent();
        if !limits.begin_sending() {
            return Err(SendError::new(SendErrorKind::Connect));
        }
        let fault = self.setup.plan.decide(&request.method, request.url.path());
        match fault {
            Some(Fault::DropBeforeRead | Fault::Reset) => return Err(SendError::new(SendErrorKind::Reset)),
            Some(Fault::Hang) => return self.hang().await,
            _ => {}
        }
        let answer = self.answer(request, fault.filter(|fault| !fault.is_transport()))?;
        match fault {
            Some(Fault::DropAfterApply | Fault::ResetAfterApply) => {
                return Err(SendError::new(SendErrorKind::Reset));
            }
            Some(Fault::HangAfterApply) => return self.hang().await,
            Some(Fault::SlowBody(pause)) => self.pause(pause).await,
            _ => {}
        }
        Ok((answer, fault == Some(Fault::TruncatedBody)))
    }

    fn answer(&self, request: Request, fault: Option<Fault>) -> Result<Answer, SendError> {
        let mut headers = request.headers;
        headers.remove(FAULT_HEADER);
        if let Some(fault) = fault
            && let Ok(value) = HeaderValue::from_str(&fault.to_header())
        {
            headers.insert(FAULT_HEADER, value);
        }
        let body = request.body.to_vec();
        let reply = self.behaviour.answer(&wiremock::Request {
            url: request.url,
            method: request.method,
            headers,
            body,
        });
        let reply = dated(reply, &*self.setup.clock);
        let status = StatusCode::from_u16(reply.status)
            .map_err(|error| SendError::with_source(SendErrorKind::Reset, error))?;
        // A header that HTTP cannot carry is left out, as on the wire.
        let headers: HeaderMap = reply
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.parse().ok()?, HeaderValue::from_str(value).ok()?)))
            .collect();
        Ok(Answer::new(status, headers, reply.body))
    }

    async fn hang<T>(&self) -> T {
        self.pause(Duration::MAX).await;
        std::future::pending().await
    }
}

impl Transport for InProcess {
    /// # Cancellation safety
    ///
    /// The vendor acts at the first poll, at once; a dropped exchange takes nothing back.
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(async move {
            match self.exchange(request, &limits).await? {
                (_, true) => Err(SendError::new(SendErrorKind::Truncated)),
                (answer, false) => Ok(cut(answer, limits.reply_bytes_max)),
            }
        })
    }

    /// A body that is cut off is given by half.
    fn stream(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<StreamedAnswer, SendError>> {
        Box::pin(async move {
            let (mut answer, breaks_off) = self.exchange(request, &limits).await?;
            if !breaks_off {
                return Ok(answer.into());
            }
            answer.body.truncate(answer.body.len() / 2);
            Ok(StreamedAnswer::broken_off(answer))
        })
    }

    fn queue_max(&self, _: &Url) -> Duration {
        Duration::ZERO
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("setup", &self.setup).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::StripeFake;
    use steadfast_core::clock::{Clock, Instant};
    use steadfast_testkit::{TestClock, WaitForm};

    const PAUSE: Duration = Duration::from_secs(7);

    /// The outcome of a charge under this fault, how often it took effect, and how long it took. A hang is cut
    /// off after a minute.
    async fn charged(fault: Option<Fault>) -> (Result<u16, SendErrorKind>, usize, Duration) {
        let clock = TestClock::auto();
        let stripe = StripeFake::builder().test_clock(&clock).in_process();
        if let Some(fault) = fault {
            stripe.plan().next(fault);
        }
        let mut request = Request::new(Method::POST, format!("{}/v1/charges", stripe.url()).parse().unwrap());
        request.headers.insert("authorization", HeaderValue::from_static("Bearer sk_test_1"));
        request.headers.insert("idempotency-key", HeaderValue::from_static("order-42"));
        // From outside, it is not believed.
        request.headers.insert(FAULT_HEADER, HeaderValue::from_static("error-500-before"));
        request.body = "amount=1000&currency=usd".into();
        let transport = stripe.transport();
        let outcome = tokio::select! {
            outcome = transport.send(request, Limits::new(10_000)) => outcome,
            () = clock.limit_until(Instant::ORIGIN.plus(Duration::from_secs(60))) => {
                Err(SendError::new(SendErrorKind::Timeout))
            }
        };
        let told = outcome.map(|answer| answer.status.as_u16()).map_err(|error| error.kind());
        (told, stripe.ledger().effects_for("order-42").len(), clock.now().since(Instant::ORIGIN))
    }

    #[tokio::test]
    async fn every_fault_shows_as_it_does_on_the_wire_and_applies_what_it_says() {
        use SendErrorKind::{Reset, Timeout, Truncated};
        let none = Duration::ZERO;
        let minute = Duration::from_secs(60);
        assert_eq!(charged(None).await, (Ok(200), 1, none));
        for (fault, told, took) in [
            (Fault::DropBeforeRead, Err(Reset), none),
            (Fault::DropAfterApply, Err(Reset), none),
            (Fault::Reset, Err(Reset), none),
            (Fault::ResetAfterApply, Err(Reset), none),
            (Fault::Hang, Err(Timeout), minute),
            (Fault::HangAfterApply, Err(Timeout), minute),
            (Fault::SlowBody(PAUSE), Ok(200), PAUSE),
            (Fault::TruncatedBody, Err(Truncated), none),
            (Fault::Error500Before, Ok(500), none),
            (Fault::Error500After, Ok(500), none),
            (Fault::Stored500, Ok(500), none),
            (Fault::Html, Ok(502), none),
            (Fault::TooManyRequests(WaitForm::Seconds(3)), Ok(429), none),
            (Fault::KeyInUse, Ok(409), none),
        ] {
            assert_eq!(charged(Some(fault)).await, (told, usize::from(fault.applies()), took), "{fault:?}");
        }
    }

    #[tokio::test]
    async fn a_listening_fake_is_reached_in_process_too() {
        let stripe = StripeFake::start().await;
        stripe.plan().next(Fault::Html);
        let request = Request::new(Method::GET, format!("{}/v1/charges", stripe.url()).parse().unwrap());
        let answer = stripe.transport().send(request, Limits::new(5)).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.body.len(), answer.cut), (401, 5, true));
        assert_eq!(stripe.plan().requests(), 1, "one plan for both ways in");
    }
}

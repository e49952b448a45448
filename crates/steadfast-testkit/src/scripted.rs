//! A transport that follows a script: a test of calls needs no server and no port.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use url::Url;

use steadfast_core::BoxFuture;
use steadfast_core::internal::ext::StreamedAnswerExt;
use steadfast_core::transport::{
    Answer, Limits, Request, SendError, SendErrorKind, StreamedAnswer, Transport,
};

use super::TestClock;

/// A transport that answers each request with the next step of its script, and keeps the requests for the test.
///
/// ```
/// use http::Method;
/// use steadfast::testkit::ScriptedTransport;
/// use steadfast::transport::{Limits, Request, SendErrorKind, Transport};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let vendor = ScriptedTransport::new()
///     .fail(SendErrorKind::Reset)
///     .status(429).header("retry-after", "2")
///     .json(200, serde_json::json!({ "id": "ch_1" }));
///
/// let request = || Request::new(Method::POST, "https://api.example/charges".parse().unwrap());
/// let limits = Limits::new(1024);
/// assert_eq!(vendor.send(request(), limits.clone()).await.unwrap_err().kind(), SendErrorKind::Reset);
/// assert_eq!(vendor.send(request(), limits.clone()).await.unwrap().header("retry-after"), Some("2"));
/// assert_eq!(vendor.send(request(), limits).await.unwrap().json().unwrap()["id"], "ch_1");
/// assert_eq!((vendor.requests().len(), vendor.remaining()), (3, 0));
/// # });
/// ```
///
/// A clone is the same script: give one to the client and keep one in the test. `Debug` shows the length of the
/// script and of the record, never their content.
///
/// When the script is exhausted, a request fails with [`SendErrorKind::Connect`] and the source text `script
/// exhausted`. A mistake in the script (an invalid status, a header without a step) fails with
/// [`SendErrorKind::Request`] and its own text, when its step comes up. A test sees it as a failure of the
/// call, with the reason in the error's chain.
#[derive(Clone, Default)]
pub struct ScriptedTransport(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    steps: VecDeque<ScriptStep>,
    rest: Option<ScriptStep>,
    /// True if `header` and `after` change the step for the rest, because that was added last.
    at_rest: bool,
    requests: Vec<Request>,
}

#[derive(Clone)]
struct ScriptStep {
    outcome: ScriptedOutcome,
    /// True if the connection breaks after the body.
    breaks_off: bool,
    delay: Option<(Duration, TestClock)>,
}

#[derive(Clone)]
enum ScriptedOutcome {
    Answer(Answer),
    Fail(SendErrorKind),
    Hang,
    NeverConnects,
    Respond(Arc<Respond>),
    Mistake(String),
}

impl ScriptStep {
    fn of(outcome: ScriptedOutcome) -> ScriptStep {
        ScriptStep { outcome, breaks_off: false, delay: None }
    }
}

type Respond = dyn Fn(&Request) -> Result<Answer, SendErrorKind> + Send + Sync;

impl ScriptedTransport {
    /// Returns a script without steps.
    pub fn new() -> ScriptedTransport {
        ScriptedTransport::default()
    }

    /// Adds a step: this answer.
    #[must_use]
    pub fn reply(self, answer: Answer) -> ScriptedTransport {
        self.push(ScriptedOutcome::Answer(answer))
    }

    /// Adds a step: this status without headers. A success has the body `{}`, because an empty success of a
    /// vendor that answers in JSON is not trusted. Any other status, and a 204, has no body.
    #[must_use]
    pub fn status(self, status: u16) -> ScriptedTransport {
        let is_empty = !(200..300).contains(&status) || status == 204;
        let body = if is_empty { Bytes::new() } else { Bytes::from_static(b"{}") };
        self.push(answer(status, HeaderMap::new(), body))
    }

    /// Adds a step: this status with this body as `application/json`.
    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "so that a test writes json!(…) and no ampersand")]
    pub fn json(self, status: u16, body: serde_json::Value) -> ScriptedTransport {
        let json = HeaderValue::from_static("application/json");
        self.push(answer(status, HeaderMap::from_iter([(header::CONTENT_TYPE, json)]), body.to_string()))
    }

    /// Adds a step: a failure of this kind. Its effect is the kind's: see [`SendErrorKind::effect`].
    #[must_use]
    pub fn fail(self, kind: SendErrorKind) -> ScriptedTransport {
        self.push(ScriptedOutcome::Fail(kind))
    }

    /// Adds a step without an answer: the exchange ends only by being dropped, for example by a timeout. On an
    /// automatic clock add [`after`](ScriptedTransport::after) with `Duration::MAX`, or nothing moves time to
    /// that timeout.
    #[must_use]
    pub fn hang(self) -> ScriptedTransport {
        self.push(ScriptedOutcome::Hang)
    }

    /// Adds a step whose connection is never made: the exchange ends only by being dropped, as with
    /// [`hang`](ScriptedTransport::hang), and nothing has been sent by then. A client that runs out of time
    /// reports [`SendErrorKind::Connect`].
    #[must_use]
    pub fn never_connects(self) -> ScriptedTransport {
        self.push(ScriptedOutcome::NeverConnects)
    }

    /// Adds a header to the last step's answer, beside any of the same name.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> ScriptedTransport {
        let parsed = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
        self.last(|step| match (&mut step.outcome, parsed) {
            (ScriptedOutcome::Answer(answer), Some((name, value))) => {
                answer.headers.append(name, value);
            }
            (ScriptedOutcome::Mistake(_), _) => {}
            (outcome, None) => {
                *outcome = ScriptedOutcome::Mistake(format!("header {name:?} or its value is not valid"));
            }
            (outcome, Some(_)) => {
                *outcome = ScriptedOutcome::Mistake(format!("header {name:?} on a step without answer"));
            }
        })
    }

    /// Breaks the connection after the body of the last step's answer. A call fails with
    /// [`SendErrorKind::Truncated`]; one that streams its reply gets the body, and then an error.
    #[must_use]
    pub fn breaks_off(self) -> ScriptedTransport {
        self.last(|step| step.breaks_off = true)
    }

    /// Delays the last step by `delay` on `clock`, as [`TestClock::latency`]: an automatic clock moves on, and
    /// the wait is not among its [`slept`](TestClock::slept). `Duration::MAX` never ends, but lets an automatic
    /// clock move on to the caller's timeout.
    #[must_use]
    pub fn after(self, delay: Duration, clock: &TestClock) -> ScriptedTransport {
        self.last(|step| step.delay = Some((delay, clock.clone())))
    }

    /// Sets this answer for all requests after the last step. The last such setting counts.
    #[must_use]
    pub fn always(self, answer: Answer) -> ScriptedTransport {
        self.rest(ScriptedOutcome::Answer(answer))
    }

    /// Sets this failure for all requests after the last step. The last such setting counts.
    #[must_use]
    pub fn always_fail(self, kind: SendErrorKind) -> ScriptedTransport {
        self.rest(ScriptedOutcome::Fail(kind))
    }

    /// Sets a function that answers all requests after the last step. The last such setting counts. It is
    /// called without a lock held, on the caller's task.
    #[must_use]
    pub fn always_with(
        self,
        respond: impl Fn(&Request) -> Result<Answer, SendErrorKind> + Send + Sync + 'static,
    ) -> ScriptedTransport {
        self.rest(ScriptedOutcome::Respond(Arc::new(respond)))
    }

    /// Returns every request that was sent, in the order in which they began, also those that failed. They
    /// include their secrets, as a vendor would see them.
    pub fn requests(&self) -> Vec<Request> {
        self.0.lock().requests.clone()
    }

    /// Returns how many steps no request has met yet, without the rest. A test that ends with one left did not
    /// get as far as it claims.
    pub fn remaining(&self) -> usize {
        self.0.lock().steps.len()
    }

    fn push(self, outcome: ScriptedOutcome) -> ScriptedTransport {
        let mut script = self.0.lock();
        script.steps.push_back(ScriptStep::of(outcome));
        script.at_rest = false;
        drop(script);
        self
    }

    fn rest(self, outcome: ScriptedOutcome) -> ScriptedTransport {
        let mut script = self.0.lock();
        script.rest = Some(ScriptStep::of(outcome));
        script.at_rest = true;
        drop(script);
        self
    }

    fn last(self, change: impl FnOnce(&mut ScriptStep)) -> ScriptedTransport {
        let mut script = self.0.lock();
        let script_ref = &mut *script;
        let last = if script_ref.at_rest { script_ref.rest.as_mut() } else { script_ref.steps.back_mut() };
        match last {
            Some(step) => change(step),
            None => {
                let mistake =
                    ScriptedOutcome::Mistake("the script begins with a header or a delay, not a step".into());
                script_ref.steps.push_back(ScriptStep::of(mistake));
            }
        }
        drop(script);
        self
    }

    fn step(&self, request: &Request) -> Option<ScriptStep> {
        let mut script = self.0.lock();
        script.requests.push(request.clone());
        script.steps.pop_front().or_else(|| script.rest.clone())
    }
}

impl Transport for ScriptedTransport {
    /// # Cancellation safety
    ///
    /// The step is taken and the request recorded at the first poll; a dropped exchange gives neither back.
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(async move {
            match self.exchange(&request, &limits).await? {
                (_, true) => Err(SendError::new(SendErrorKind::Truncated)),
                (answer, false) => Ok(cut(answer, limits.reply_bytes_max)),
            }
        })
    }

    fn stream(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<StreamedAnswer, SendError>> {
        Box::pin(async move {
            let (answer, breaks_off) = self.exchange(&request, &limits).await?;
            Ok(if breaks_off { StreamedAnswer::broken_off(answer) } else { answer.into() })
        })
    }

    fn queue_max(&self, _: &Url) -> Duration {
        Duration::ZERO
    }
}

impl ScriptedTransport {
    /// Returns the next step's answer, and true if the connection breaks after it.
    async fn exchange(&self, request: &Request, limits: &Limits) -> Result<(Answer, bool), SendError> {
        let step = self
            .step(request)
            .ok_or_else(|| SendError::with_source(SendErrorKind::Connect, "script exhausted"))?;
        limits.nothing_sent();
        if !matches!(step.outcome, ScriptedOutcome::NeverConnects) && !limits.begin_sending() {
            return Err(SendError::new(SendErrorKind::Connect));
        }
        if let Some((delay, clock)) = step.delay {
            clock.latency(delay).await;
        }
        let answer = match step.outcome {
            ScriptedOutcome::Answer(answer) => answer,
            ScriptedOutcome::Fail(kind) => return Err(SendError::new(kind)),
            ScriptedOutcome::Hang | ScriptedOutcome::NeverConnects => std::future::pending().await,
            ScriptedOutcome::Respond(respond) => respond(request).map_err(SendError::new)?,
            ScriptedOutcome::Mistake(mistake) => {
                return Err(SendError::with_source(SendErrorKind::Request, mistake));
            }
        };
        Ok((answer, step.breaks_off))
    }
}

impl fmt::Debug for ScriptedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let script = self.0.lock();
        f.debug_struct("ScriptedTransport")
            .field("remaining", &script.steps.len())
            .field("endless", &script.rest.is_some())
            .field("requests", &script.requests.len())
            .finish()
    }
}

fn answer(status: u16, headers: HeaderMap, body: impl Into<Bytes>) -> ScriptedOutcome {
    match StatusCode::from_u16(status) {
        Ok(status) => ScriptedOutcome::Answer(Answer::new(status, headers, body)),
        Err(_) => ScriptedOutcome::Mistake(format!("{status} is not an HTTP status")),
    }
}

/// Cuts the answer at the reply limit, as every transport must.
pub fn cut(mut answer: Answer, bytes_max: usize) -> Answer {
    if answer.body.len() > bytes_max {
        answer.body.truncate(bytes_max);
        answer.cut = true;
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::future::poll_fn;
    use std::task::Poll;

    use http::Method;

    use super::*;
    use steadfast_core::clock::{Clock, Instant};

    fn limits() -> Limits {
        Limits::new(1024)
    }

    fn request(path: &str) -> Request {
        let url = format!("https://api.example{path}").parse().unwrap();
        let mut request = Request::new(Method::POST, url);
        request.body = Bytes::from_static(b"card=4242");
        request
    }

    async fn failure(script: &ScriptedTransport) -> (SendErrorKind, Option<String>) {
        let error = script.send(request("/"), limits()).await.unwrap_err();
        (error.kind(), error.source().map(ToString::to_string))
    }

    #[tokio::test]
    async fn the_steps_come_in_order_and_the_requests_are_kept() {
        let script =
            ScriptedTransport::new().status(503).json(201, serde_json::json!({"id": 1})).header("x-id", "a");
        let other = script.clone();
        assert_eq!(other.send(request("/a"), limits()).await.unwrap().status, 503);
        let answer = script.send(request("/b"), limits()).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.header("x-id")), (201, Some("a")));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(&answer.body[..], br#"{"id":1}"#);
        assert_eq!(script.requests(), [request("/a"), request("/b")]);
        assert_eq!(script.remaining(), 0);
    }

    #[tokio::test]
    async fn an_exhausted_script_reports_it() {
        let script = ScriptedTransport::new();
        assert_eq!(failure(&script).await, (SendErrorKind::Connect, Some("script exhausted".into())));
        assert_eq!(script.requests().len(), 1);
    }

    #[tokio::test]
    async fn the_rest_comes_after_the_steps_and_never_ends() {
        let script = ScriptedTransport::new().always_fail(SendErrorKind::Timeout).fail(SendErrorKind::Tls);
        assert_eq!(failure(&script).await.0, SendErrorKind::Tls);
        for _ in 0..3 {
            assert_eq!(failure(&script).await, (SendErrorKind::Timeout, None));
        }
        let echo = ScriptedTransport::new().always_with(|request| {
            Ok(Answer::new(StatusCode::OK, HeaderMap::new(), request.url.path().to_owned()))
        });
        assert_eq!(&echo.send(request("/echo"), limits()).await.unwrap().body[..], b"/echo");
    }

    #[tokio::test]
    async fn mistakes_in_the_script_come_out_as_failures() {
        let mistakes = [
            (ScriptedTransport::new().status(42), "42 is not an HTTP status"),
            (
                ScriptedTransport::new().header("a", "b"),
                "the script begins with a header or a delay, not a step",
            ),
            (
                ScriptedTransport::new().status(200).header("a b", "c"),
                "header \"a b\" or its value is not valid",
            ),
            (ScriptedTransport::new().hang().header("a", "b"), "header \"a\" on a step without answer"),
        ];
        for (script, text) in mistakes {
            assert_eq!(failure(&script).await, (SendErrorKind::Request, Some(text.to_owned())));
        }
    }

    #[tokio::test]
    async fn a_delay_moves_the_clock_by_exactly_itself() {
        let clock = TestClock::auto();
        let script = ScriptedTransport::new().status(200).after(Duration::from_secs(7), &clock);
        script.send(request("/"), limits()).await.unwrap();
        assert_eq!(clock.now().since(Instant::ORIGIN), Duration::from_secs(7));
        assert!(clock.slept().is_empty(), "the vendor's time is not a wait of the caller");
    }

    #[tokio::test]
    async fn a_hang_meets_the_callers_limit() {
        let clock = TestClock::auto();
        let script = ScriptedTransport::new().hang().after(Duration::MAX, &clock);
        tokio::select! {
            _ = script.send(request("/"), limits()) => panic!("it hangs"),
            () = clock.limit_until(clock.now().plus(Duration::from_secs(30))) => {}
        }
        assert_eq!(clock.now().since(Instant::ORIGIN), Duration::from_secs(30));
    }

    #[tokio::test]
    async fn only_a_connection_that_is_never_made_has_sent_nothing() {
        let cases = [
            (ScriptedTransport::new().never_connects(), true),
            (ScriptedTransport::new().hang(), false),
            (ScriptedTransport::new().status(200).after(Duration::MAX, &TestClock::auto()), false),
        ];
        for (script, nothing_sent) in cases {
            let limits = limits().watched();
            let mut exchange = script.send(request("/"), limits.clone());
            assert!(poll_fn(|context| Poll::Ready(exchange.as_mut().poll(context).is_pending())).await);
            assert_eq!(limits.give_up(), nothing_sent, "{script:?}");
        }
    }

    #[tokio::test]
    async fn the_reply_limit_is_kept() {
        let script = ScriptedTransport::new().always(Answer::new(
            StatusCode::OK,
            HeaderMap::new(),
            &b"0123456789"[..],
        ));
        let answer = script.send(request("/"), Limits::new(4)).await.unwrap();
        assert_eq!((&answer.body[..], answer.cut), (&b"0123"[..], true));
        let answer = script.send(request("/"), Limits::new(10)).await.unwrap();
        assert_eq!((answer.body.len(), answer.cut), (10, false));
    }

    #[tokio::test]
    async fn debug_shows_no_body() {
        let script = ScriptedTransport::new().json(200, serde_json::json!("hidden")).status(200);
        script.send(request("/"), limits()).await.unwrap();
        let shown = format!("{script:?}");
        assert_eq!(shown, "ScriptedTransport { remaining: 1, endless: false, requests: 1 }");
    }
}

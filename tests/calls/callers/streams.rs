//! Replies that are read in chunks.

mod http2;
mod sockets;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body::{Body, Frame};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast::policy::{BreakerConfig, BreakerState, Timeouts};
use steadfast::testkit::fakes::StripeFake;
use steadfast::testkit::{Fault, ScriptedTransport, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, StreamedAnswer, Transport};
use steadfast::vendor::{Attempt, Stripe, Vendor as Rules, Verdict};
use steadfast::{BoxFuture, Client, Effect, Error, Gate, Policy, StreamedReply};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

type Chunk = Result<&'static str, SendErrorKind>;
/// A head and what comes behind it, or no answer.
type Scripted = Result<(u16, HeaderMap, Feed), SendErrorKind>;

/// A vendor whose bodies come as the test says, behind heads that are there at once.
#[derive(Clone, Debug, Default)]
struct Vendor(Arc<Mutex<VecDeque<Scripted>>>);

impl Vendor {
    /// Another answer, with this body. The test ends the body by dropping the sender.
    fn answer(&self, status: u16, headers: &[(&'static str, &'static str)]) -> UnboundedSender<Chunk> {
        let (sender, chunks) = unbounded_channel();
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        self.0.lock().push_back(Ok((status, headers.iter().map(header).collect(), Feed(chunks))));
        sender
    }

    fn report(&self) -> UnboundedSender<Chunk> {
        self.answer(200, &[("content-type", "text/csv")])
    }

    fn fail(&self, kind: SendErrorKind) {
        self.0.lock().push_back(Err(kind));
    }
}

impl Transport for Vendor {
    fn send(&self, _: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(async { Ok(Answer::new(StatusCode::OK, HeaderMap::new(), "{}")) })
    }

    fn stream(&self, _: Request, _: Limits) -> BoxFuture<'_, Result<StreamedAnswer, SendError>> {
        let next = self.0.lock().pop_front().expect("an answer");
        Box::pin(async move {
            let (status, headers, body) = next.map_err(SendError::new)?;
            Ok(StreamedAnswer::new(StatusCode::from_u16(status).expect("a status"), headers, body))
        })
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

#[derive(Debug)]
struct Feed(UnboundedReceiver<Chunk>);

impl Body for Feed {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let data = |text: &'static str| Frame::data(Bytes::from_static(text.as_bytes()));
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(data).map_err(SendError::new)))
    }
}

fn client(vendor: &Vendor, clock: &TestClock, policy: Policy) -> Client {
    let stripe = Stripe::new("sk_test_123");
    let client = Client::builder(stripe).transport(vendor.clone()).clock(clock.clone()).policy(policy);
    client.build().expect("a client")
}

fn policy() -> Policy {
    Policy::background().without_budget().admission_wait(Duration::ZERO)
}

async fn open(client: &Client) -> StreamedReply {
    client.get("/v1/report").stream().await.expect("a head")
}

async fn read(report: &mut StreamedReply) -> Result<String, Error> {
    let mut all = Vec::new();
    while let Some(chunk) = report.chunk().await? {
        all.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8(all).expect("text"))
}

/// Polls once.
async fn is_pending(future: impl Future) -> bool {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn chunks_come_before_the_body_ends_and_the_head_is_retried() {
    let (vendor, clock) = (Vendor::default(), TestClock::auto());
    vendor.fail(SendErrorKind::Reset);
    let unwell = vendor.answer(503, &[]);
    unwell.send(Ok("{\"error\":")).expect("open");
    drop(unwell);
    let sender = vendor.report();
    let stripe = client(&vendor, &clock, policy());
    let mut report = open(&stripe).await;
    assert_eq!((report.status().as_u16(), report.attempts(), report.received()), (200, 3, 0));
    assert_eq!(report.headers()["content-type"], "text/csv");
    for (chunk, received) in [("id,amount\n", 10), ("1,1000\n", 17)] {
        sender.send(Ok("")).expect("open");
        sender.send(Ok(chunk)).expect("open");
        assert_eq!(report.chunk().await.expect("a chunk").expect("a chunk"), chunk);
        assert_eq!(report.received(), received);
    }
    // A caller that stops waiting loses nothing.
    assert!(is_pending(report.chunk()).await);
    sender.send(Ok("2,2000\n")).expect("open");
    assert_eq!(report.chunk().await.expect("a chunk").expect("a chunk"), "2,2000\n");
    drop(sender);
    for _ in 0..2 {
        assert!(report.chunk().await.expect("the end").is_none());
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_never_taken_for_the_whole() {
    let (vendor, clock) = (Vendor::default(), TestClock::auto());
    let stripe = client(&vendor, &clock, policy());
    for (headers, sent) in [
        (&[][..], &[Ok("half"), Err(SendErrorKind::Truncated)][..]),
        (&[("content-length", "5")][..], &[Ok("half")][..]),
    ] {
        let sender = vendor.answer(200, headers);
        sent.iter().for_each(|chunk| sender.send(*chunk).expect("open"));
        drop(sender);
        let mut report = open(&stripe).await;
        assert_eq!(report.chunk().await.expect("a chunk").expect("a chunk"), "half");
        for _ in 0..2 {
            let error = report.chunk().await.expect_err("broken");
            assert!(error.is_broken_reply() && !error.is_timeout() && !error.is_deadline());
            assert_eq!((error.code(), error.effect()), ("DEPENDENCY.unavailable", Effect::None));
            assert!(error.to_string().contains("broke off after 4 bytes"), "{error}");
        }
        assert_eq!(report.received(), 4);
    }
}

#[tokio::test]
async fn each_chunk_is_waited_for_as_long_as_an_attempt_may_take() {
    let (vendor, clock) = (Vendor::default(), TestClock::new());
    let timeouts = Timeouts::new(Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(20));
    let stripe = client(&vendor, &clock, policy().timeout(timeouts));
    let sender = vendor.report();
    let mut report = open(&stripe).await;
    // Far past the policy's total.
    for _ in 0..5 {
        assert!(is_pending(report.chunk()).await);
        clock.advance(Duration::from_millis(9_999));
        assert!(is_pending(report.chunk()).await);
        sender.send(Ok("row\n")).expect("open");
        assert!(report.chunk().await.expect("a chunk").is_some());
        // The caller's work on a chunk is not the vendor's time.
        clock.advance(Duration::from_secs(60));
    }
    assert!(is_pending(report.chunk()).await);
    clock.advance(Duration::from_secs(10));
    for _ in 0..2 {
        let error = report.chunk().await.expect_err("silent");
        assert!(error.is_broken_reply() && error.is_timeout() && !error.is_deadline());
        assert_eq!(error.code(), "DEPENDENCY.timeout");
        assert!(error.to_string().contains("no more of the reply came in 10s, after 20 bytes"), "{error}");
    }
    assert!(sender.is_closed(), "the exchange is closed");
}

#[tokio::test]
async fn the_calls_own_deadline_counts_for_the_body_too() {
    let (vendor, clock) = (Vendor::default(), TestClock::new());
    let policy = policy().breaker(BreakerConfig::default().consecutive_failures(1));
    let stripe = client(&vendor, &clock, policy);
    // While it waits for a chunk, and while chunks come without end.
    for is_waiting in [true, false] {
        let sender = vendor.report();
        let call = stripe.get("/v1/report").deadline(Duration::from_secs(7));
        let mut report = call.stream().await.expect("a head");
        sender.send(Ok("row\n")).expect("open");
        assert!(report.chunk().await.expect("a chunk").is_some());
        if is_waiting {
            assert!(is_pending(report.chunk()).await);
        } else {
            sender.send(Ok("row\n")).expect("open");
        }
        clock.advance(Duration::from_secs(7));
        for _ in 0..2 {
            let error = report.chunk().await.expect_err("too late");
            assert!(error.is_broken_reply() && error.is_deadline() && error.is_timeout());
            assert!(error.to_string().contains("the call's 7s ran out after 4 bytes"), "{error}");
        }
    }
    // Its caller's own doing.
    assert_eq!(stripe.breaker_state(), Some(BreakerState::Closed));
}

#[tokio::test]
async fn a_body_is_read_for_as_long_as_an_incoming_request_waits() {
    let (vendor, clock) = (Vendor::default(), TestClock::new());
    let stripe = client(&vendor, &clock, policy());
    let call = stripe.get("/v1/report").inbound(&super::waits_for("7", &clock));
    clock.advance(Duration::from_secs(3));
    let sender = vendor.report();
    let mut report = call.stream().await.expect("a head");
    sender.send(Ok("row\n")).expect("open");
    clock.advance(Duration::from_millis(3_999));
    assert!(report.chunk().await.expect("a chunk").is_some());
    assert!(is_pending(report.chunk()).await);
    clock.advance(Duration::from_millis(1));
    let error = report.chunk().await.expect_err("too late");
    assert!(error.is_broken_reply() && error.is_deadline(), "{error}");
    assert!(error.to_string().contains("the call's 4s ran out after 4 bytes"), "{error}");
}

#[tokio::test]
async fn a_place_among_the_calls_under_way_is_held_until_the_body_has_ended() {
    let (vendor, clock) = (Vendor::default(), TestClock::new());
    let stripe = client(&vendor, &clock, policy().concurrency(1));
    for end in ["whole", "broken", "silent", "dropped"] {
        let sender = vendor.report();
        let mut report = open(&stripe).await;
        sender.send(Ok("row\n")).expect("open");
        assert!(report.chunk().await.expect("a chunk").is_some());
        assert_eq!(stripe.attempts_under_way(), Some(1), "{end}");
        let error = stripe.get("/v1/charges").send().await.expect_err("a full house");
        assert_eq!(error.gate(), Some(Gate::Concurrency));
        match end {
            "whole" => {
                drop(sender);
                assert!(report.chunk().await.expect("the end").is_none());
            }
            "broken" => {
                sender.send(Err(SendErrorKind::Reset)).expect("open");
                assert!(report.chunk().await.is_err());
            }
            "silent" => {
                assert!(is_pending(report.chunk()).await);
                clock.advance(Duration::from_secs(30));
                assert!(report.chunk().await.is_err());
            }
            _ => {
                drop(report);
                assert!(sender.is_closed(), "the exchange is closed");
                assert_eq!(stripe.attempts_under_way(), Some(0), "{end}");
                continue;
            }
        }
        assert_eq!(stripe.attempts_under_way(), Some(0), "{end}");
        drop(report);
        assert_eq!(stripe.attempts_under_way(), Some(0), "{end}: given back once");
        assert!(stripe.get("/v1/charges").send().await.is_ok());
    }
    // A call that never had a head, and one whose head was no success.
    vendor.fail(SendErrorKind::Request);
    assert!(stripe.get("/v1/report").stream().await.is_err());
    drop(vendor.answer(400, &[("request-id", "req_1")]));
    assert!(stripe.get("/v1/report").deadline(Duration::from_millis(1)).stream().await.is_err());
    assert_eq!(stripe.attempts_under_way(), Some(0));
}

#[tokio::test]
async fn a_reply_that_nobody_reads_leaves_its_place_to_a_call_that_needs_it() {
    let (vendor, clock) = (Vendor::default(), TestClock::new());
    let stripe = client(&vendor, &clock, policy().concurrency(1));
    let under_way = || stripe.attempts_under_way().expect("a limit");
    let call = async || stripe.get("/v1/charges").send().await.map_err(|error| error.gate());
    let (sender, second) = (vendor.report(), vendor.report());
    let mut report = open(&stripe).await;
    sender.send(Ok("row\n")).expect("open");
    // As long as an attempt may take, since it was last read.
    clock.advance(Duration::from_secs(20));
    assert!(report.chunk().await.expect("a chunk").is_some());
    clock.advance(Duration::from_millis(29_999));
    assert_eq!(call().await.expect_err("a full house"), Some(Gate::Concurrency));
    clock.advance(Duration::from_millis(1));
    assert_eq!(under_way(), 1, "nobody needs it yet");
    assert!(call().await.is_ok() && call().await.is_ok());
    assert_eq!(under_way(), 0);

    // Nothing of the body is lost, and it is counted again, also over the limit.
    let other = open(&stripe).await;
    sender.send(Ok("row\n")).expect("open");
    assert_eq!(report.chunk().await.expect("a chunk").expect("a chunk"), "row\n");
    assert_eq!(under_way(), 2);
    drop(other);
    assert!(second.is_closed());
    assert_eq!(call().await.expect_err("a full house"), Some(Gate::Concurrency));
    drop(sender);
    assert!(report.chunk().await.expect("the end").is_none());
    assert_eq!(under_way(), 0);

    // One that is forgotten for good.
    let forgotten = vendor.report();
    let report = open(&stripe).await;
    clock.advance(Duration::from_secs(30));
    assert!(call().await.is_ok());
    drop(report);
    assert_eq!((under_way(), forgotten.is_closed()), (0, true), "given back once");
}

#[tokio::test]
async fn the_breaker_counts_a_broken_body_and_not_one_that_its_caller_dropped() {
    let (vendor, clock) = (Vendor::default(), TestClock::new());
    let breaker = BreakerConfig::default().consecutive_failures(2).probes(1);
    let stripe = client(&vendor, &clock, policy().breaker(breaker));
    let state = || stripe.breaker_state().expect("a breaker");
    let end = async |how: &str| {
        let sender = vendor.report();
        let mut report = open(&stripe).await;
        match how {
            "broken" => sender.send(Err(SendErrorKind::Truncated)).expect("open"),
            "dropped" => return drop(report),
            _ => {}
        }
        drop(sender);
        assert_eq!(read(&mut report).await.is_err(), how == "broken");
    };
    for how in ["broken", "whole", "broken", "dropped"] {
        end(how).await;
        assert_eq!(state(), BreakerState::Closed, "{how}");
    }
    // A stream that is dropped neither counts nor takes back.
    end("broken").await;
    assert!(matches!(state(), BreakerState::Open { .. }));
    assert!(stripe.get("/v1/report").stream().await.expect_err("open").is_circuit_open());

    // The head of a probe is enough: a circuit does not wait for a download to end.
    clock.advance(Duration::from_secs(60));
    let sender = vendor.report();
    let mut report = open(&stripe).await;
    assert_eq!(state(), BreakerState::Closed);
    // Of another time than that before the probe, it counts no more.
    sender.send(Err(SendErrorKind::Truncated)).expect("open");
    assert!(report.chunk().await.is_err());
    assert_eq!(state(), BreakerState::Closed);
}

#[tokio::test]
async fn a_long_download_is_no_slow_vendor() {
    let (vendor, clock) = (Vendor::default(), TestClock::new());
    let breaker = BreakerConfig::default().slow_call(Duration::from_secs(2), 0.5).minimum_calls(1);
    let stripe = client(&vendor, &clock, policy().breaker(breaker));
    let sender = vendor.report();
    let mut report = open(&stripe).await;
    clock.advance(Duration::from_secs(20));
    drop(sender);
    assert!(report.chunk().await.expect("the end").is_none());
    assert_eq!(stripe.breaker_state(), Some(BreakerState::Closed));
}

#[tokio::test]
async fn a_call_that_is_dropped_before_its_head_came_holds_nothing() {
    let clock = TestClock::new();
    let network = ScriptedTransport::new().status(200).after(Duration::from_secs(5), &clock);
    let stripe = Client::builder(Stripe::new("sk_test_123")).transport(network).clock(clock.clone());
    let stripe = stripe.policy(policy().concurrency(1)).build().expect("a client");
    let opening = tokio::spawn(stripe.get("/v1/report").stream());
    clock.until_sleeping(1).await;
    assert_eq!(stripe.attempts_under_way(), Some(1));
    opening.abort();
    assert!(opening.await.expect_err("aborted").is_cancelled());
    assert_eq!(stripe.attempts_under_way(), Some(0));
}

/// A vendor whose 200 may say, in its head, that it is none.
#[derive(Debug)]
struct Later(Stripe);

impl Rules for Later {
    fn name(&self) -> &str {
        "later"
    }
    fn base_url(&self) -> &url::Url {
        Rules::base_url(&self.0)
    }
    fn stamp(&self, key: steadfast::operation::WireKey, request: &mut Request) -> Result<String, Error> {
        self.0.stamp(key, request)
    }
    fn authorize(&self, request: &mut Request) {
        self.0.authorize(request);
    }
    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        match attempt.outcome {
            Ok(answer) if answer.header("x-later").is_some() => {
                Verdict::Retry { effect: Effect::None, not_before: None }
            }
            _ => self.0.classify(attempt),
        }
    }
}

#[tokio::test]
async fn a_success_that_the_adapter_calls_none_is_closed_and_tried_again() {
    let (vendor, clock) = (Vendor::default(), TestClock::auto());
    let client = Client::builder(Later(Stripe::new("sk_test_123"))).transport(vendor.clone()).clock(clock);
    let client = client.policy(policy().concurrency(1)).build().expect("a client");
    let later = vendor.answer(200, &[("x-later", "1")]);
    let sender = vendor.report();
    let report = open(&client).await;
    assert!(later.is_closed() && !sender.is_closed());
    assert_eq!((report.attempts(), client.attempts_under_way()), (2, Some(1)));
    drop(report);
    assert_eq!(client.attempts_under_way(), Some(0));
}

#[tokio::test]
async fn what_is_no_success_is_an_error_with_its_body() {
    let error = json!({"error": {"type": "invalid_request_error", "code": "resource_missing"}});
    let network = ScriptedTransport::new().json(404, error).header("Request-Id", "req_1");
    let stripe = super::client(&network, &TestClock::auto());
    let error = stripe.get("/v1/report").stream().await.expect_err("refused");
    assert!(error.is_refused());
    assert_eq!(error.answer().expect("an answer").json().expect("JSON")["error"]["code"], "resource_missing");
}

#[tokio::test]
async fn redirects_are_followed_as_by_any_get() {
    let network = ScriptedTransport::new()
        .status(302)
        .header("Location", "/v1/files/report")
        .status(200)
        .status(302)
        .header("Location", "https://evil.test/report")
        .status(302)
        .header("Location", "/v1/files/report");
    let stripe = super::client(&network, &TestClock::auto());
    let report = stripe.get("/v1/report").redirects(1).stream().await.expect("a head");
    assert_eq!(report.status(), 200);
    for redirects in [5, 0] {
        let error = stripe.get("/v1/report").redirects(redirects).stream().await.expect_err("a redirect");
        assert!(error.is_refused());
    }
    let paths: Vec<_> = network.requests().iter().map(|sent| sent.url.path().to_owned()).collect();
    assert_eq!(paths, ["/v1/report", "/v1/files/report", "/v1/report", "/v1/report"]);
}

#[tokio::test]
async fn what_is_no_plain_get_is_not_streamed_and_nothing_is_sent() {
    let network = ScriptedTransport::new();
    let stripe = super::client(&network, &TestClock::auto());
    for call in [
        stripe.get("/v1/report").key("order-42"),
        stripe.post("/v1/report"),
        stripe.request(Method::HEAD, "/v1/report"),
        stripe.get("/v1/report").after(Duration::from_secs(1)),
        stripe.get("/v1/{report}"),
    ] {
        let error = call.stream().await.expect_err("refused");
        assert!(error.is_validation(), "{error}");
    }
    assert!(
        stripe.get("/v1/report").deadline(Duration::ZERO).stream().await.expect_err("no time").is_deadline()
    );
    assert_eq!(network.requests().len(), 0);
}

#[tokio::test]
async fn an_encoding_that_was_not_asked_for_is_an_error() {
    let (vendor, clock) = (Vendor::default(), TestClock::auto());
    let stripe = client(&vendor, &clock, policy().concurrency(1));
    let sender = vendor.answer(200, &[("content-encoding", "gzip")]);
    let error = stripe.get("/v1/report").stream().await.expect_err("packed");
    assert!(error.is_unreadable_reply(), "{error}");
    assert!(sender.is_closed());
    assert_eq!(stripe.attempts_under_way(), Some(0));
    for (asked, given) in [("gzip", "gzip"), ("", "identity")] {
        drop(vendor.answer(200, &[("content-encoding", given)]));
        let call = stripe.get("/v1/report");
        let call = if asked.is_empty() { call } else { call.header("Accept-Encoding", asked) };
        assert!(call.stream().await.expect("a head").headers().contains_key("content-encoding"));
    }
}

#[tokio::test]
async fn a_transport_that_only_sends_gives_one_chunk_up_to_the_limit() {
    /// As it was written before there were streams.
    #[derive(Debug)]
    struct Old(ScriptedTransport);
    impl Transport for Old {
        fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
            self.0.send(request, limits)
        }

        fn queue_max(&self, _: &url::Url) -> Duration {
            Duration::ZERO
        }
    }
    let answer = |bytes: usize| Answer::new(StatusCode::OK, HeaderMap::new(), "x".repeat(bytes));
    let network = || ScriptedTransport::new().reply(answer(1000)).reply(answer(1001));
    let policy = policy().request_bytes_max(100).reply_bytes_max(1000);
    let builder =
        || Client::builder(Stripe::new("sk_test_123")).clock(TestClock::auto()).policy(policy.clone());
    let old = builder().transport(Old(network())).build().expect("a client");
    let mut whole = open(&old).await;
    assert_eq!(whole.chunk().await.expect("a chunk").expect("a chunk").len(), 1000);
    assert!(whole.chunk().await.expect("the end").is_none());
    let mut over = open(&old).await;
    assert_eq!(over.chunk().await.expect("a chunk").expect("a chunk").len(), 1000);
    let error = over.chunk().await.expect_err("cut");
    assert!(error.is_broken_reply() && format!("{error:#}").contains("does not stream"), "{error:#}");
    // The scripted one has no limit for a stream.
    let new = builder().transport(network()).build().expect("a client");
    for bytes in [1000, 1001] {
        assert_eq!(read(&mut open(&new).await).await.expect("whole").len(), bytes);
    }
}

#[tokio::test]
async fn a_fakes_body_that_is_cut_off_breaks_in_its_middle() {
    let clock = TestClock::auto();
    let fake = StripeFake::builder().test_clock(&clock).in_process();
    let vendor = Stripe::new("sk_test_1").base_url(fake.url());
    let stripe = Client::builder(vendor).transport(fake.transport()).clock(clock).build().expect("a client");
    fake.plan().next(Fault::Reset).next(Fault::TruncatedBody);
    let mut half = stripe.get("/v1/balance").stream().await.expect("a head");
    assert_eq!(half.attempts(), 2);
    let error = read(&mut half).await.expect_err("broken");
    assert!(error.is_broken_reply() && half.received() > 0);
    let whole = read(&mut stripe.get("/v1/balance").stream().await.expect("a head")).await.expect("whole");
    assert_eq!(serde_json::from_str::<Value>(&whole).expect("JSON")["object"], "balance");
    assert!(whole.len() as u64 > half.received());
}

#[tokio::test]
async fn a_script_breaks_off_where_it_says() {
    let network = ScriptedTransport::new().json(200, json!({"id": 1})).breaks_off();
    let stripe = super::client(&network, &TestClock::auto());
    let mut report = stripe.get("/v1/report").stream().await.expect("a head");
    assert_eq!(report.chunk().await.expect("a chunk").expect("a chunk"), "{\"id\":1}");
    assert!(report.chunk().await.expect_err("broken").is_broken_reply());

    let network =
        ScriptedTransport::new().json(200, json!({"id": 1})).breaks_off().json(200, json!({"id": 1}));
    let reply = super::client(&network, &TestClock::auto()).get("/v1/report").send().await.expect("a reply");
    assert_eq!(reply.attempts(), 2);
}

#[tokio::test]
async fn a_service_gives_a_reply_on_as_it_comes() {
    let (vendor, clock) = (Vendor::default(), TestClock::auto());
    let stripe = client(&vendor, &clock, policy());
    for breaks in [false, true] {
        let sender = vendor.report();
        sender.send(Ok("row\n")).expect("open");
        if breaks {
            sender.send(Err(SendErrorKind::Truncated)).expect("open");
        }
        drop(sender);
        let body = axum::body::Body::new(open(&stripe).await);
        let given = axum::body::to_bytes(body, usize::MAX).await;
        assert_eq!(given.ok().as_deref(), (!breaks).then_some(&b"row\n"[..]));
    }
}

//! Findings about the transport. Real sockets, so real time: each wait is as short as the claim allows.

#![allow(clippy::disallowed_methods, reason = "the kernel's and reqwest's timers cannot be injected")]

mod connections;
mod http2;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method};
use http2::{CANCEL, Http2Server, INTERNAL_ERROR, Last, NO_ERROR, REFUSED_STREAM, Then};
use steadfast::policy::Timeouts;
use steadfast::store::Memory;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Http, Limits, Request, SendErrorKind, Transport};
use steadfast::vendor::Postmark;
use steadfast::{Client, Effect, Error, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use url::Url;

/// A listener whose queue of connections is full: the kernel drops every further SYN.
struct BlackHole {
    address: SocketAddr,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl BlackHole {
    async fn open() -> BlackHole {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let listener = socket.listen(1).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let mut queued = Vec::new();
        // Loopback connects within microseconds; a lost SYN is sent again only after a second.
        while let Ok(connected) = timeout(ms(150), TcpStream::connect(address)).await {
            queued.push(connected.expect("a connection"));
            assert!(queued.len() < 100, "the queue never fills");
        }
        BlackHole { address, _listener: listener, _queued: queued }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A vendor without keys: what may have left is never sent again, unless somebody accepts the risk. The route is
/// none of those that Postmark can be asked about afterwards.
fn client(url: &str, http: Http, timeouts: Timeouts) -> Client {
    Client::builder(Postmark::new("hush").base_url(url))
        .policy(Policy::background().timeout(timeouts).without_budget().without_breaker())
        .store(Memory::new())
        .transport(http)
        .build()
        .expect("a client")
}

async fn post(client: &Client) -> Result<(), Error> {
    let call = client.post("/servers").key("server-42").json(&serde_json::json!({ "Name": "a" }));
    call.send().await.map(drop)
}

fn timeouts(connect: Duration, attempt: Duration, total: Duration) -> Timeouts {
    Timeouts::new(connect, attempt, total)
}

fn http(connect: Duration) -> Http {
    let reqwest = move || reqwest::Client::builder().no_proxy().connect_timeout(connect);
    Http::over(reqwest).expect("a transport")
}

fn http2() -> Http {
    let reqwest = || reqwest::Client::builder().no_proxy().http2_prior_knowledge();
    Http::over(reqwest).expect("a transport")
}

fn request(url: &str, body: impl Into<Bytes>) -> Request {
    let mut request = Request::new(Method::POST, Url::parse(url).expect("a url"));
    request.body = body.into();
    request
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The fault that every attempt met, in the error's own log.
fn met(error: &Error) -> Vec<String> {
    error.attempts().iter().filter_map(|attempt| attempt.failure.clone()).collect()
}

/// Finding A3.
#[tokio::test]
async fn a_connection_that_never_stood_has_no_effect() {
    let nowhere = BlackHole::open().await;
    let client = client(&nowhere.url(), http(ms(5_000)), timeouts(ms(5_000), ms(5_000), ms(10_000)));
    let call = client.post("/servers").key("server-42").json(&serde_json::json!({ "Name": "a" }));
    let error = call.deadline(ms(300)).send().await.expect_err("nobody is there");
    assert_eq!(error.effect(), Effect::None, "{error}");
    assert!(!error.is_dead_letter(), "{error}");
    assert_eq!(met(&error).len(), 1, "{error}");
    assert!(met(&error)[0].contains("time ran out before anything was sent"), "{error:?}");
}

/// A3: The same on virtual time, with the transport that tests of services use.
#[tokio::test]
async fn a_scripted_connection_that_never_stands_has_no_effect() {
    for (unconnected, effect) in [(true, Effect::None), (false, Effect::Unknown)] {
        let clock = TestClock::auto();
        let script = ScriptedTransport::new();
        let script = if unconnected { script.never_connects() } else { script.hang() };
        let client = Client::builder(Postmark::new("hush").base_url("http://127.0.0.1:9"))
            .policy(Policy::background().timeout(timeouts(ms(300), ms(300), ms(300))))
            .store(Memory::new())
            .transport(script.after(Duration::MAX, &clock))
            .clock(clock)
            .build()
            .expect("a client");
        let error = post(&client).await.expect_err("no answer");
        assert_eq!(error.effect(), effect, "{error:?}");
        assert_eq!(error.is_dead_letter(), effect == Effect::Unknown, "{error:?}");
    }
}

/// Finding A3.
#[tokio::test]
async fn whichever_of_two_equal_timers_wins_nothing_was_sent() {
    let nowhere = BlackHole::open().await;
    // Ten clients, so that both timers win now and then.
    for _ in 0..10 {
        let client = client(&nowhere.url(), http(ms(100)), timeouts(ms(100), ms(100), ms(120)));
        let error = post(&client).await.expect_err("nobody is there");
        assert_eq!(error.effect(), Effect::None, "{error:?}");
        assert!(!error.is_dead_letter(), "{error:?}");
    }
}

/// Finding A3.
#[tokio::test]
async fn a_callers_own_total_timeout_before_the_connection_has_no_effect() {
    let nowhere = BlackHole::open().await;
    let reqwest = || {
        let reqwest = reqwest::Client::builder().no_proxy().timeout(ms(100));
        reqwest.connect_timeout(ms(5_000))
    };
    let http = Http::over(reqwest).expect("a transport");
    let limits = Limits::new(1024).watched();
    let error = http.send(request(&nowhere.url(), "a=1"), limits).await.expect_err("nobody is there");
    assert_eq!((error.kind(), error.effect()), (SendErrorKind::Connect, Effect::None));
}

/// Finding A3.
#[tokio::test]
async fn a_request_that_nobody_reads_may_have_taken_effect() {
    // The kernel accepts for a listener that never does.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let client = client(&url, http(ms(300)), timeouts(ms(300), ms(300), ms(10_000)));
    let error = post(&client).await.expect_err("nobody answers");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    assert!(error.is_dead_letter(), "{error}");
}

/// Finding A3.
#[tokio::test]
async fn without_a_body_it_is_the_same_where_it_may_have_an_effect() {
    let nowhere = BlackHole::open().await;
    for (method, is_none) in [(Method::POST, true), (Method::DELETE, true), (Method::GET, false)] {
        let limits = Limits::new(1024).watched();
        let http = http(ms(5_000));
        let mut request = request(&nowhere.url(), "");
        request.method = method.clone();
        let exchange = http.send(request, limits.clone());
        assert!(timeout(ms(100), exchange).await.is_err());
        assert_eq!(limits.give_up(), is_none, "{method}");
    }
}

/// A3: The ground that the whole rests on: hyper asks the body as it must before the first byte of the request leaves,
/// and not earlier. The other tests hold the second half.
#[tokio::test]
async fn before_the_first_byte_arrives_the_progress_says_so() {
    // One head that fits hyper's buffer and the kernel's, and one that does not: it leaves before its body is polled.
    for (head_bytes, body) in [(10, "a=1"), (20_000_000, "a=1"), (10, ""), (20_000_000, "")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let limits = Limits::new(1024).watched();
        let mut large = request(&url, body);
        let value = HeaderValue::try_from("x".repeat(head_bytes)).expect("a header");
        large.headers.insert("x-large", value);
        let http = http(ms(5_000));
        let exchange = http.send(large, limits.clone());
        let first_byte = async {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            socket.read_u8().await.expect("a byte");
            limits.give_up()
        };
        tokio::select! {
            _ = exchange => panic!("nobody answers"),
            given_up = first_byte => assert!(!given_up, "of a head of {head_bytes} bytes and {body:?}"),
        }
    }
}

/// Finding A3.
#[tokio::test]
async fn the_progress_is_the_same_over_http_2() {
    let server = Http2Server::start(|_| Then::Silence).await;
    let limits = Limits::new(1024).watched();
    let http = http2();
    let exchange = http.send(request(&server.url(), "a=1"), limits.clone());
    let arrived = async {
        while server.seen() == 0 {
            sleep(ms(1)).await;
        }
    };
    tokio::select! {
        _ = exchange => panic!("nobody answers"),
        () = arrived => assert!(!limits.give_up()),
    }
}

/// A3: The engine asks while hyper may be about to send, on another thread. Whatever was given up must never arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_in_the_last_moment_never_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (arrived, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let arrived = arrived.clone();
            tokio::spawn(async move {
                let mut text = Vec::new();
                while socket.read_buf(&mut text).await.is_ok_and(|count| count > 0) {}
                let _ = arrived.send(String::from_utf8_lossy(&text).into_owned());
            });
        }
    });
    let mut given_up = Vec::new();
    const EXCHANGES: usize = 600;
    let http = http(ms(5_000));
    let elsewhere = Recorder::start().await;
    let first = http.send(request(&format!("http://{}", elsewhere.address), ""), Limits::new(1024));
    first.await.expect("an answer, and a client of reqwest");
    for nth in 0..EXCHANGES {
        let limits = Limits::new(1024).watched();
        let name = format!("/nth-{nth}-");
        let body = if nth % 2 == 0 { "a=1" } else { "" };
        let mut exchange = http.send(request(&format!("{url}{name}"), body), limits.clone());
        // Around the moment at which the connection stands, on machines fast and slow: so many turns of the runtime, then no
        // more.
        let mut polls = (nth % 60).pow(2) / 4;
        poll_fn(|context| {
            assert!(exchange.as_mut().poll(context).is_pending(), "nobody answers");
            if polls == 0 {
                return Poll::Ready(());
            }
            polls -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        if nth % 60 == 59 {
            // A machine that is busy needs more turns than any number here: some are sent for certain.
            assert!(timeout(ms(50), exchange.as_mut()).await.is_err(), "nobody answers");
        }
        if limits.give_up() {
            given_up.push(name);
        }
        drop(exchange);
    }
    // A request that was sent has arrived by then.
    sleep(ms(200)).await;
    let mut whole = String::new();
    while let Ok(text) = arrivals.try_recv() {
        whole.push_str(&text);
    }
    let sent_after_all: Vec<_> = given_up.iter().filter(|name| whole.contains(*name)).collect();
    assert!(sent_after_all.is_empty(), "{sent_after_all:?}");
    assert!(!given_up.is_empty() && given_up.len() < EXCHANGES, "{} of {EXCHANGES}", given_up.len());
}

/// A3: The caller gave up in the very moment in which hyper takes the request.
#[tokio::test]
async fn a_request_that_was_given_up_leaves_without_its_body_if_at_all() {
    for body in ["a=1", ""] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let limits = Limits::new(1024).watched();
        let http = http(ms(5_000));
        let elsewhere = Recorder::start().await;
        let first = http.send(request(&format!("http://{}", elsewhere.address), ""), Limits::new(1024));
        first.await.expect("an answer, and a client of reqwest");
        let mut exchange = http.send(request(&url, body), limits.clone());
        // Connecting has begun; the runtime has not come to the connection's task.
        assert!(poll_fn(|context| Poll::Ready(exchange.as_mut().poll(context).is_pending())).await);
        assert!(limits.give_up());
        let read = async {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let mut text = Vec::new();
            let _ = socket.read_to_end(&mut text).await;
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            text
        };
        let both = async { tokio::join!(exchange, read) };
        let (outcome, text) = timeout(ms(2_000), both).await.expect("it leaves no open exchange");
        let error = outcome.expect_err("given up");
        assert_eq!((error.kind(), error.effect()), (SendErrorKind::Connect, Effect::None));
        assert_eq!(String::from_utf8_lossy(&text), "");
    }
}

/// Finding A21.
#[tokio::test]
async fn what_the_other_side_did_not_process_has_no_effect_and_is_sent_again() {
    let below = |code| Then::GoAway { last_stream: Last::Below, code };
    for refusal in [Then::ResetStream(REFUSED_STREAM), below(NO_ERROR), below(INTERNAL_ERROR)] {
        let server = Http2Server::start(move |_| refusal).await;
        let sent = http2().send(request(&server.url(), "a=1"), Limits::new(1024)).await;
        let error = sent.expect_err("a refusal");
        assert_eq!(error.kind(), SendErrorKind::NotProcessed, "{refusal:?}: {error:?}");
        assert_eq!((error.effect(), server.seen()), (Effect::None, 1), "{refusal:?}");

        let server = Http2Server::start(move |nth| if nth == 0 { refusal } else { Then::Ok }).await;
        let mut policy = Policy::background().without_budget();
        policy.backoff.steps = vec![ms(1)];
        let client = Client::builder(Postmark::new("hush").base_url(server.url()))
            .policy(policy)
            .store(Memory::new())
            .transport(http2())
            .build()
            .expect("a client");
        post(&client).await.unwrap_or_else(|error| panic!("{refusal:?}: {error:?}"));
        assert_eq!(server.seen(), 2, "{refusal:?}");
    }
}

/// Finding A21.
#[tokio::test]
async fn what_may_have_been_processed_stays_unknown() {
    let covering = |code| Then::GoAway { last_stream: Last::Covering, code };
    for end in [
        covering(NO_ERROR),
        covering(INTERNAL_ERROR),
        covering(REFUSED_STREAM),
        Then::ResetStream(CANCEL),
        Then::ResetStream(INTERNAL_ERROR),
        Then::ResetStream(NO_ERROR),
    ] {
        let server = Http2Server::start(move |_| end).await;
        let sent = http2().send(request(&server.url(), "a=1"), Limits::new(1024)).await;
        let error = sent.expect_err("no answer");
        assert_eq!((error.kind(), error.effect()), (SendErrorKind::Reset, Effect::Unknown), "{end:?}");

        let server = Http2Server::start(move |_| end).await;
        let client = client(&server.url(), http2(), Timeouts::background());
        let error = post(&client).await.expect_err("no answer");
        assert_eq!((error.effect(), server.seen()), (Effect::Unknown, 1), "{end:?}: {error}");
    }
}

/// A18: The environment belongs to the whole process, so the calls are made in one of their own: this test, started again.
#[tokio::test]
async fn a_request_to_loopback_passes_no_proxy_of_the_environment() {
    if let Ok(vendor) = std::env::var(A18_VENDOR) {
        return asks(&vendor).await;
    }
    let (vendor, proxy) = (Recorder::start().await, Recorder::start().await);
    let proxy_url = format!("http://{}", proxy.address);
    let mut again = tokio::process::Command::new(std::env::current_exe().expect("this test"));
    again.args(["--exact", "sockets::a_request_to_loopback_passes_no_proxy_of_the_environment"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"] {
        again.env(name, &proxy_url);
    }
    for name in ["no_proxy", "NO_PROXY", "REQUEST_METHOD"] {
        again.env_remove(name);
    }
    let output = again.env(A18_VENDOR, vendor.address.to_string()).output().await.expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    let (at_vendor, at_proxy) = (vendor.heads(), proxy.heads());
    assert_eq!(at_vendor.len(), 3, "{at_vendor:?}");
    assert!(at_vendor.iter().all(|head| head.starts_with("GET /stats")), "{at_vendor:?}");
    // The proxy is in force, and got what is meant for it.
    assert_eq!(at_proxy.len(), 2, "{at_proxy:?}");
    assert!(
        at_proxy[0].starts_with("GET http://127.0.0.1:") && at_proxy[0].contains("/bare"),
        "{at_proxy:?}"
    );
    assert!(at_proxy[1].starts_with("GET http://vendor.test/stats"), "{at_proxy:?}");
}

async fn asks(vendor: &str) {
    reqwest::get(format!("http://{vendor}/bare")).await.expect("the proxy's answer");
    let port = vendor.rsplit(':').next().expect("a port");
    let default = |url: &str| Client::builder(Postmark::new("hush").base_url(url)).store(Memory::new());
    for url in [format!("http://{vendor}"), format!("http://localhost:{port}")] {
        let client = default(&url).build().expect("a client");
        client.get("/stats").send().await.expect("the vendor's answer");
    }
    let http = Http::new(Http::CONNECT_TIMEOUT).expect("a transport");
    let client = default(&format!("http://{vendor}")).transport(http).build().expect("a client");
    client.get("/stats").send().await.expect("the vendor's answer");
    let client = default("http://vendor.test").allow_plain_http().build().expect("a client");
    client.get("/stats").send().await.expect("the proxy's answer");
}

const A18_VENDOR: &str = "STEADFAST_A18_VENDOR";

/// Answers every request with an empty 200 and keeps its head.
struct Recorder {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    async fn start() -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && socket.read_buf(&mut head).await.is_ok_and(|n| n > 0) {}
                kept.lock().expect("no panic in here").push(String::from_utf8_lossy(&head).into_owned());
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = socket.write_all(answer).await;
            }
        });
        Recorder { address, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no panic in here").clone()
    }
}

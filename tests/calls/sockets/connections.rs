//! The requests that a connection holds back, swallows or shares: those that wait in one, and what becomes of them.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use steadfast::policy::{Backoff, BreakerConfig, BreakerState, Timeouts};
use steadfast::store::Memory;
use steadfast::transport::{Http, Limits, Request, SendErrorKind, Transport};
use steadfast::vendor::{Keyed, KeyedConfig, Postmark};
use steadfast::{Client, Effect, Policy};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use url::Url;

use super::{Recorder, http2, ms};
use support::one_stream::OneStream;

fn request(method: Method, url: &str, body: &'static str) -> Request {
    let mut request = Request::new(method, Url::parse(url).expect("a url"));
    request.body = body.into();
    request
}

/// A vendor without keys, with the ladder of 1 ms steps that the policy has.
fn acme(url: &str, policy: Policy, http: Http) -> Client {
    let mut config = KeyedConfig::new("acme", url);
    config.account = "a".to_owned();
    let builder = Client::builder(Keyed::new(config, "hush")).allow_plain_http();
    builder.policy(policy).store(Memory::new()).transport(http).build().expect("a client")
}

fn policy(steps: usize, attempt: Duration, total: Duration) -> Policy {
    let mut ladder = Backoff::none();
    ladder.steps = vec![ms(1); steps];
    Policy::background().timeout(Timeouts::new(attempt, attempt, total)).backoff(ladder).without_budget()
}

/// A call to `/hold`, which has the one stream of its connection.
async fn held(http: &Http, vendor: &OneStream) -> tokio::task::JoinHandle<bool> {
    let (http, hold) = (http.clone(), request(Method::GET, &vendor.url("/hold"), ""));
    let held = tokio::spawn(async move { http.send(hold, Limits::new(1024)).await.is_ok() });
    while !vendor.has_seen("GET /hold") {
        sleep(ms(1)).await;
    }
    held
}

#[tokio::test]
async fn what_is_given_up_while_it_waits_for_a_stream_never_leaves() {
    for (method, body) in [(Method::POST, "amount=1"), (Method::POST, ""), (Method::DELETE, "")] {
        let (vendor, http) = (OneStream::start().await, http2());
        let held = held(&http, &vendor).await;
        let limits = Limits::new(1024).watched();
        let exchange = http.send(request(method.clone(), &vendor.url("/order"), body), limits.clone());
        assert!(timeout(ms(100), exchange).await.is_err(), "{method}: it waits");
        assert!(limits.give_up(), "{method} {body:?} has not left");
        vendor.release();
        assert!(held.await.expect("no panic"), "the connection goes on");
        sleep(ms(100)).await;
        assert!(!vendor.has_seen(&format!("{method} /order")), "{method} {body:?}");
        assert_eq!(vendor.connections(), 1);
    }
}

#[tokio::test]
async fn what_waits_for_a_stream_leaves_once_it_is_free() {
    for (method, body) in [(Method::POST, "amount=1"), (Method::POST, ""), (Method::DELETE, "")] {
        let (vendor, http) = (OneStream::start().await, http2());
        let held = held(&http, &vendor).await;
        let limits = Limits::new(1024).watched();
        let exchange = http.send(request(method.clone(), &vendor.url("/order"), body), limits.clone());
        let later = async {
            sleep(ms(50)).await;
            vendor.release();
        };
        let (answer, ()) = tokio::join!(exchange, later);
        assert!(answer.is_ok_and(|answer| answer.status == 200) && held.await.expect("no panic"));
        assert!(vendor.has_seen(&format!("{method} /order")) && !limits.give_up(), "{method} {body:?}");
    }
}

/// The vendor without keys: an order that left after all would be a second one.
#[tokio::test]
async fn a_call_that_ends_while_it_waits_for_a_stream_has_no_effect_and_sends_nothing() {
    for is_dropped in [false, true] {
        let (vendor, http) = (OneStream::start().await, http2());
        let held = held(&http, &vendor).await;
        let postmark = Client::builder(Postmark::new("hush").base_url(vendor.url("")));
        let postmark = postmark.policy(policy(0, ms(200), ms(200))).store(Memory::new()).transport(http);
        let postmark = postmark.build().expect("a client");
        let call = postmark.post("/servers").key("server-42").json(&serde_json::json!({ "Name": "a" }));
        if is_dropped {
            assert!(timeout(ms(100), call.send()).await.is_err());
        } else {
            let error = call.send().await.expect_err("no stream is free");
            assert_eq!(error.effect(), Effect::None, "{error}");
        }
        vendor.release();
        assert!(held.await.expect("no panic"));
        sleep(ms(100)).await;
        assert!(!vendor.has_seen("POST /servers"), "dropped: {is_dropped}");
    }
}

#[tokio::test]
async fn a_repeat_leaves_a_connection_that_swallows_and_so_does_what_comes_after() {
    let vendor = OneStream::start().await;
    let acme = acme(&vendor.url(""), policy(2, ms(500), ms(5_000)), http2());
    acme.get("/first").send().await.expect("an answer");
    vendor.swallow();
    acme.get("/second").send().await.expect("the repeat is answered");
    assert_eq!(vendor.connections(), 2, "the repeat has one of its own");
    let started = std::time::Instant::now();
    for _ in 0..3 {
        acme.get("/third").send().await.expect("an answer");
    }
    assert!(started.elapsed() < ms(500), "none of them ran out of time");
    assert_eq!(vendor.connections(), 3, "they share a new one");
}

#[tokio::test]
async fn probes_leave_a_connection_that_swallows_and_close_the_circuit() {
    let vendor = OneStream::start().await;
    let breaker = BreakerConfig::default().consecutive_failures(2).open(ms(100), ms(100)).probes(1);
    let policy = policy(0, ms(100), ms(100)).breaker(breaker);
    let acme = acme(&vendor.url(""), policy, http2());
    acme.get("/first").send().await.expect("an answer");
    // A request that goes on for long keeps the pool from being suspect: something is answered meanwhile.
    vendor.swallow();
    // The route's circuit, as another route was answered well.
    let is_closed = || acme.breaker_state() == Some(BreakerState::Closed) && acme.open_routes().is_empty();
    while is_closed() {
        let _ = acme.get("/second").send().await;
        vendor.swallow();
    }
    let closes = async {
        while !is_closed() {
            let _ = acme.get("/second").send().await;
            sleep(ms(10)).await;
        }
    };
    timeout(ms(5_000), closes).await.expect("it closes");
    acme.get("/fourth").send().await.expect("not on the dead connection");
}

/// The server behind a connection may be at fault for a 5xx. A 429 is none of a connection's.
#[tokio::test]
async fn a_repeat_after_a_5xx_has_a_new_connection_and_one_after_a_429_has_not() {
    for (status, connections) in [(500, 2), (503, 2), (429, 1)] {
        let vendor = OneStream::start().await;
        let acme = acme(&vendor.url(""), policy(1, ms(5_000), ms(5_000)), http2());
        let error = acme.get(&format!("/{status}")).send().await.expect_err("it is answered so twice");
        assert_eq!((error.attempts().len(), vendor.connections()), (2, connections), "{error}");
    }
}

/// Each replacement costs a handshake: a vendor that is slow, and not dead, must not be stormed with them.
#[tokio::test]
async fn connections_that_swallow_are_replaced_every_5_s() {
    let (vendor, http) = (OneStream::start().await, http2());
    let is_answered = async || {
        let get = http.send(request(Method::GET, &vendor.url("/x"), ""), Limits::new(1024));
        timeout(ms(200), get).await.is_ok()
    };
    assert!(is_answered().await);
    vendor.swallow();
    assert!(!is_answered().await, "given up, so that the pool is replaced");
    let replaced = std::time::Instant::now();
    assert!(is_answered().await);
    vendor.swallow();
    while !is_answered().await {}
    let (waited, connections) = (replaced.elapsed(), vendor.connections());
    assert!(waited > ms(4_500) && waited < ms(10_000) && connections == 3, "{waited:?}, {connections}");
}

/// A vendor that acknowledges no more than its buffers take. Without a bound the kernel asks it for minutes, and
/// delivers what was given up; reqwest's own is 30 s.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_kernel_holds_what_it_was_given_no_longer_than_an_attempt() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/x", listener.local_addr().expect("an address"));
    let reqwest = || reqwest::Client::builder().no_proxy();
    let http = Http::over(reqwest).expect("a transport").attempt(ms(1_000));
    let elsewhere = Url::parse("https://vendor.test").expect("a url");
    assert_eq!(http.queue_max(&elsewhere), ms(1_000), "lookups come after that");
    let mut large = request(Method::POST, &url, "");
    large.body = vec![b'a'; 64 << 20].into();
    // Nothing of ours ends the exchange.
    let sent = timeout(ms(15_000), http.send(large, Limits::new(1024)));
    let (sent, _unread) = tokio::join!(sent, listener.accept());
    let error = sent.expect("the kernel gives it up").expect_err("no answer");
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let met = causes.last().expect("the error itself").to_string();
    assert!(met.contains("timed out"), "{met}: {error:?}");
}

/// Fails as a host without file descriptors does, or names this host.
#[derive(Clone, Default)]
struct Starved(Arc<AtomicBool>);

impl Resolve for Starved {
    fn resolve(&self, _: Name) -> Resolving {
        let is_starved = self.0.load(Ordering::Relaxed);
        Box::pin(async move {
            if is_starved {
                return Err(io::Error::from_raw_os_error(EMFILE).into());
            }
            let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
            Ok(Box::new(std::iter::once((here, 0_u16).into())) as Addrs)
        })
    }
}

const EMFILE: i32 = 24;

#[tokio::test]
async fn a_host_without_file_descriptors_opens_no_circuit_and_ends_no_operation() {
    let (vendor, starved) = (OneStream::start().await, Starved::default());
    let resolver = starved.clone();
    let http = Http::over(move || {
        let reqwest = reqwest::Client::builder().no_proxy().http2_prior_knowledge();
        reqwest.dns_resolver(resolver.clone()).pool_max_idle_per_host(0)
    });
    let url = vendor.url("").replace("127.0.0.1", "vendor.test");
    let acme = acme(&url, policy(1, ms(300), ms(300)), http.expect("a transport"));
    starved.0.store(true, Ordering::Relaxed);
    for nth in 0..10 {
        let call = acme.post("/orders").key(format!("order-{nth}")).json(&serde_json::json!({ "id": nth }));
        let error = call.send().await.expect_err("no file descriptor");
        assert_eq!(error.effect(), Effect::None, "{error}");
        assert!(!error.is_dead_letter() && error.attempts().len() > 2, "{error}");
        let met = error.attempts()[0].failure.clone().expect("a failure");
        assert!(met.contains("this host could not send it") && met.contains("os error 24"), "{met}");
    }
    assert_eq!(acme.breaker_state(), Some(BreakerState::Closed));
    starved.0.store(false, Ordering::Relaxed);
    let again = acme.post("/orders").key("order-0").json(&serde_json::json!({ "id": 0 }));
    again.send().await.expect("it has one again");
}

/// The kernel's own word: no such address is on this host.
#[tokio::test]
async fn an_address_that_this_host_lacks_is_not_the_vendors_failure() {
    let vendor = OneStream::start().await;
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let http = Http::over(move || reqwest::Client::builder().no_proxy().local_address(elsewhere));
    let http = http.expect("a transport");
    let sent = http.send(request(Method::POST, &vendor.url("/x"), "a"), Limits::new(9));
    let error = sent.await.expect_err("no such address");
    assert_eq!((error.kind(), error.effect()), (SendErrorKind::Local, Effect::None), "{error}");
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_runtime_that_stands_still_or_ends_breaks_no_exchange_of_another() {
    let serving = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let vendor = serving.block_on(OneStream::start());
    let http = http2();
    let url = vendor.url("/x");
    let get = |runtime: &Runtime| {
        let get = http.send(request(Method::GET, &url, ""), Limits::new(1024));
        runtime.block_on(async { timeout(ms(2_000), get).await }).expect("in time").expect("an answer");
    };
    let (first, second) = (runtime(), runtime());
    get(&first);
    // Nothing drives the first one now.
    get(&second);
    get(&second);
    assert_eq!(vendor.connections(), 2, "each has its own, and keeps it");
    drop(first);
    get(&second);
    assert_eq!(vendor.connections(), 2);
    get(&runtime());
    assert_eq!(vendor.connections(), 3);
}

/// Whose certificates are trusted is the process's, so the calls are made in one of their own: this test, started again.
#[cfg(feature = "rustls")]
#[tokio::test]
async fn without_certificates_http_works_and_https_says_what_is_missing() {
    const AGAIN: &str = "STEADFAST_WITHOUT_CERTIFICATES";
    if let Ok(url) = std::env::var(AGAIN) {
        let client = |url: &str| Client::builder(Postmark::new("hush").base_url(url)).store(Memory::new());
        let http = client(&url).build().expect("a client");
        http.get("/stats").send().await.expect("an answer");
        let quick = Policy::background().backoff(Backoff::none());
        let https = client(&url.replace("http", "https")).policy(quick).build().expect("a client");
        let error = https.get("/stats").send().await.expect_err("nobody is trusted");
        let first = error.to_string();
        assert!(first.contains("ertificate"), "{first}");
        return;
    }
    let vendor = Recorder::start().await;
    let mut again = tokio::process::Command::new(std::env::current_exe().expect("this test"));
    let test = "sockets::connections::without_certificates_http_works_and_https_says_what_is_missing";
    again.args(["--exact", test]).env(AGAIN, format!("http://{}", vendor.address));
    again.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
    let output = again.output().await.expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

//! The HTTP transport against raw sockets: what is sent, how often, and what a failure says of it.
//!
//! A raw listener, because the faults that matter (a drop before or after reading, a reset, half a body, a
//! handshake of garbage) are beyond a well-behaved HTTP server.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use steadfast::Effect;
use steadfast::transport::{Answer, Http, Limits, Request, SendError, SendErrorKind, Transport};
use support::raw_server::{RawServer, Reply};
use url::Url;

const REPLY_BYTES_MAX: usize = 1024;

fn own() -> Http {
    Http::over(|| reqwest::Client::builder().no_proxy()).expect("a transport")
}

fn theirs() -> Http {
    Http::over(retrying).expect("a transport")
}

/// A caller's builder that follows redirects and resends whatever it is allowed to.
fn retrying() -> reqwest::ClientBuilder {
    let retry = reqwest::retry::for_host("127.0.0.1")
        .no_budget()
        .max_retries_per_request(5)
        .classify_fn(|answered| answered.retryable());
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::limited(3)).retry(retry)
}

fn post(url: &str, body: &'static str) -> Request {
    let mut request = Request::new(Method::POST, Url::parse(url).expect("a url"));
    request.headers.insert("idempotency-key", HeaderValue::from_static("k-1"));
    request.body = Bytes::from_static(body.as_bytes());
    request
}

async fn send(http: &Http, request: Request) -> Result<Answer, SendError> {
    http.send(request, Limits::new(REPLY_BYTES_MAX)).await
}

async fn failure(http: &Http, request: Request) -> (SendErrorKind, Effect) {
    let error = send(http, request).await.expect_err("a failure");
    (error.kind(), error.effect())
}

fn answer_of(body: &str) -> Reply {
    Reply::Bytes(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into())
}

/// An address that nobody listens on.
async fn nobody() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

#[tokio::test]
async fn a_request_arrives_as_given_and_its_answer_comes_back_whole() {
    for http in [own(), theirs()] {
        let reply = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\nx-vendor: yes\r\n\r\nok";
        // The caller's builder would retry every answer.
        let server = RawServer::start(move |_| Reply::Bytes(reply.into())).await;
        let answer = send(&http, post(&server.url("/v1/x?a=%20b"), "a=1")).await.expect("an answer");
        assert_eq!(answer.status, StatusCode::CREATED);
        assert_eq!(answer.header("x-vendor"), Some("yes"));
        assert_eq!((&answer.body[..], answer.cut), (&b"ok"[..], false));
        let seen = server.seen();
        assert_eq!(seen.len(), 1);
        assert!(seen[0].starts_with("POST /v1/x?a=%20b HTTP/1.1\r\n"), "{}", seen[0]);
        assert!(seen[0].contains("idempotency-key: k-1\r\n"), "{}", seen[0]);
        assert!(seen[0].contains("content-length: 3\r\n") && seen[0].ends_with("\r\n\r\na=1"), "{}", seen[0]);
        assert!(!seen[0].contains("transfer-encoding"), "{}", seen[0]);
    }
}

#[tokio::test]
async fn an_empty_post_says_that_it_is_empty_and_a_get_does_not() {
    for http in [own(), theirs()] {
        let server = RawServer::start(|_| answer_of("")).await;
        send(&http, post(&server.url("/x"), "")).await.expect("an answer");
        let get = Request::new(Method::GET, Url::parse(&server.url("/x")).expect("a url"));
        send(&http, get).await.expect("an answer");
        let seen = server.seen();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].matches("content-length: 0\r\n").count(), 1, "{}", seen[0]);
        assert!(!seen[1].contains("content-length") && !seen[1].contains("transfer-encoding"), "{}", seen[1]);
    }
}

#[tokio::test]
async fn a_refused_connection_was_never_sent() {
    let url = nobody().await;
    assert_eq!(failure(&own(), post(&url, "a=1")).await, (SendErrorKind::Connect, Effect::None));
    assert_eq!(failure(&theirs(), post(&url, "a=1")).await, (SendErrorKind::Connect, Effect::None));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_was_never_sent() {
    let found = failure(&own(), post("http://vendor.invalid/x", "a=1")).await;
    assert_eq!(found, (SendErrorKind::Dns, Effect::None));
}

#[tokio::test]
async fn a_url_that_http_cannot_carry_was_never_sent() {
    let found = failure(&own(), post("ftp://127.0.0.1/x", "a=1")).await;
    assert_eq!(found, (SendErrorKind::Request, Effect::None));
}

#[tokio::test]
async fn a_connection_dropped_before_an_answer_may_have_taken_effect_and_is_not_retried() {
    for http in [own(), theirs()] {
        for (reply, body) in
            [(Reply::Drop, "a=1"), (Reply::Reset, "a=1"), (Reply::Drop, ""), (Reply::Reset, "")]
        {
            let server = RawServer::start(move |_| reply.clone()).await;
            let found = failure(&http, post(&server.url("/x"), body)).await;
            assert_eq!(found, (SendErrorKind::Reset, Effect::Unknown));
            assert_eq!(server.seen().len(), 1);
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_no_http_may_have_taken_effect() {
    let server = RawServer::start(|_| Reply::ThenClose("SMTP ready\r\n".into())).await;
    let found = failure(&own(), post(&server.url("/x"), "a=1")).await;
    assert_eq!(found, (SendErrorKind::Reset, Effect::Unknown));
}

#[tokio::test]
async fn a_connection_broken_within_the_answer_is_truncated() {
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    for reply in [short, chunked] {
        let server = RawServer::start(move |_| Reply::ThenClose(reply.into())).await;
        let found = failure(&own(), post(&server.url("/x"), "a=1")).await;
        assert_eq!(found, (SendErrorKind::Truncated, Effect::Unknown));
    }
}

#[tokio::test]
async fn a_caller_s_own_timeout_after_sending_may_have_taken_effect() {
    let head_only = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n";
    for reply in [Reply::Silence, Reply::Bytes(head_only.into())] {
        // Real time: reqwest's own timer is what is under test.
        let builder = || reqwest::Client::builder().no_proxy().timeout(Duration::from_millis(100));
        let http = Http::over(builder).expect("a transport");
        let server = RawServer::start(move |_| reply.clone()).await;
        let found = failure(&http, post(&server.url("/x"), "a=1")).await;
        assert_eq!(found, (SendErrorKind::Timeout, Effect::Unknown));
    }
}

#[tokio::test]
async fn a_reply_is_taken_in_up_to_the_limit_and_not_beyond() {
    for (length, kept, cut) in [
        (0, 0, false),
        (REPLY_BYTES_MAX - 1, REPLY_BYTES_MAX - 1, false),
        (REPLY_BYTES_MAX, REPLY_BYTES_MAX, false),
        (REPLY_BYTES_MAX + 1, REPLY_BYTES_MAX, true),
        (50 * REPLY_BYTES_MAX, REPLY_BYTES_MAX, true),
    ] {
        let server = RawServer::start(move |_| answer_of(&"x".repeat(length))).await;
        let answer = send(&own(), post(&server.url("/x"), "a=1")).await.expect("an answer");
        assert_eq!((answer.body.len(), answer.cut), (kept, cut), "of {length}");
    }
}

#[tokio::test]
async fn a_reply_in_many_chunks_is_put_together_and_cut_at_the_same_place() {
    for (chunks, kept, cut) in [(2, 200, false), (10, 1000, false), (11, REPLY_BYTES_MAX, true)] {
        let server = RawServer::start(move |_| Reply::Chunks { of_bytes: 100, count: chunks }).await;
        let answer = send(&own(), post(&server.url("/x"), "a=1")).await.expect("an answer");
        assert_eq!((answer.body.len(), answer.cut), (kept, cut), "{chunks} chunks");
        let expected: Vec<u8> = (0..kept).map(|at| b'a' + (at / 100) as u8).collect();
        assert_eq!(&answer.body[..], &expected[..]);
    }
}

#[tokio::test]
async fn a_reply_without_end_is_cut_and_its_connection_dropped() {
    let server = RawServer::start(|_| Reply::Endless).await;
    let answer = send(&own(), post(&server.url("/x"), "a=1")).await.expect("an answer");
    assert_eq!((answer.body.len(), answer.cut), (REPLY_BYTES_MAX, true));
    // The server writes until its socket breaks: this ends only if the connection was dropped.
    server.hung_up().await;
}

#[tokio::test]
async fn a_limit_of_zero_takes_in_nothing() {
    for (body, cut) in [("", false), ("x", true)] {
        let server = RawServer::start(move |_| answer_of(body)).await;
        let answer = own().send(post(&server.url("/x"), "a"), Limits::new(0)).await.expect("an answer");
        assert_eq!((answer.body.len(), answer.cut), (0, cut));
    }
}

#[tokio::test]
async fn a_redirect_is_the_answer_and_its_target_is_never_asked() {
    for status in [301, 302, 303, 307, 308] {
        for body in ["a=1", ""] {
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::GET] {
                for http in [own(), theirs()] {
                    let target = RawServer::start(|_| answer_of("followed")).await;
                    let location = target.url("/elsewhere");
                    let head = format!(
                        "HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
                    );
                    let server = RawServer::start(move |_| Reply::Bytes(head.clone().into())).await;
                    let mut request = post(&server.url("/x"), body);
                    request.method = method.clone();
                    let answer = send(&http, request).await.expect("an answer");
                    assert_eq!(answer.status.as_u16(), status);
                    assert_eq!(answer.header("location"), Some(location.as_str()));
                    assert_eq!((server.seen().len(), target.seen().len()), (1, 0), "{method} {status}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_builder_s_own_retries_and_redirects_are_replaced() {
    for body in ["a=1", ""] {
        let server = RawServer::start(|nth| match nth {
            0..6 => answer_of(""),
            _ => Reply::Bytes("HTTP/1.1 307 T\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".into()),
        })
        .await;
        let client = retrying().build().expect("a client");
        client.post(server.url("/x")).body(body).send().await.expect("an answer");
        assert_eq!(server.seen().len(), 6, "once and five retries: the policy in these tests does retry");
        let answer = send(&theirs(), post(&server.url("/x"), body)).await.expect("an answer");
        assert_eq!((answer.status.as_u16(), server.seen().len()), (307, 7));
    }
}

#[tokio::test]
async fn an_idle_connection_that_the_vendor_closed_costs_nothing() {
    for http in [own(), theirs()] {
        let reply = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let server = RawServer::start(move |_| Reply::ThenClose(reply.into())).await;
        for _ in 0..3 {
            send(&http, post(&server.url("/x"), "a=1")).await.expect("an answer");
            server.hung_up().await;
            // Lets the client's side see the end of the connection.
            for _ in 0..500 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(server.seen().len(), 3);
    }
}

#[tokio::test]
async fn a_request_lost_on_a_reused_connection_is_not_resent_underneath() {
    for http in [own(), theirs()] {
        let server = RawServer::start(|nth| if nth == 0 { answer_of("ok") } else { Reply::Drop }).await;
        send(&http, post(&server.url("/x"), "a=1")).await.expect("an answer");
        let found = failure(&http, post(&server.url("/x"), "a=1")).await;
        assert_eq!(found, (SendErrorKind::Reset, Effect::Unknown));
        assert_eq!((server.seen().len(), server.connections()), (2, 1));
    }
}

#[tokio::test]
async fn what_is_to_have_a_new_connection_shares_none() {
    for http in [own(), theirs()] {
        let server = RawServer::start(|_| answer_of("ok")).await;
        for (is_new, connections) in [(false, 1), (true, 2), (true, 3), (false, 3)] {
            let mut limits = Limits::new(REPLY_BYTES_MAX);
            limits.new_connection = is_new;
            http.send(post(&server.url("/x"), "a=1"), limits).await.expect("an answer");
            assert_eq!(server.connections(), connections);
        }
    }
}

#[cfg(any(feature = "rustls", feature = "native-tls"))]
#[tokio::test]
async fn a_failed_tls_handshake_was_never_sent() {
    for reply in ["HTTP/1.1 400 Bad Request\r\n\r\n", "\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{28}", ""] {
        let server = RawServer::start_deaf(reply).await;
        let url = server.url("/x").replace("http://", "https://");
        let found = failure(&own(), post(&url, "a=1")).await;
        assert_eq!(found, (SendErrorKind::Tls, Effect::None), "{reply:?}");
    }
    let refused = nobody().await.replace("http://", "https://");
    assert_eq!(failure(&own(), post(&refused, "a=1")).await, (SendErrorKind::Connect, Effect::None));
}

#[cfg(not(any(feature = "rustls", feature = "native-tls")))]
#[tokio::test]
async fn https_without_a_tls_feature_says_so() {
    let error = send(&own(), post("https://127.0.0.1:1/x", "a=1")).await.expect_err("a failure");
    assert_eq!((error.kind(), error.effect()), (SendErrorKind::Tls, Effect::None));
    assert!(error.source().expect("a source").to_string().contains("rustls"));
}

#[tokio::test]
async fn no_error_and_no_debug_output_shows_a_query_or_a_secret() {
    let dropped = RawServer::start(|_| Reply::Drop).await;
    let cut =
        RawServer::start(|_| Reply::ThenClose("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".into())).await;
    let urls =
        [dropped.url(""), cut.url(""), nobody().await, "ftp://127.0.0.1".into(), "http://x.invalid".into()];
    for url in urls {
        let mut request = post(&format!("{url}/x?token=hunter2"), "hunter2");
        request.headers.insert("authorization", HeaderValue::from_static("Bearer hunter2"));
        let error = send(&own(), request).await.expect_err("a failure");
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
        let mut source = error.source();
        while let Some(layer) = source {
            assert!(!format!("{layer:?} {layer}").contains("hunter2"), "{layer:?}");
            source = layer.source();
        }
    }
    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer hunter2"));
    let builder = move || reqwest::Client::builder().default_headers(headers.clone());
    assert!(!format!("{:?}", Http::over(builder).expect("a transport")).contains("hunter2"));
}

#[test]
fn a_builder_refuses_what_cannot_work() {
    let error = Http::new(Duration::ZERO).expect_err("a refusal");
    assert!(error.is_validation());
    let bad = || reqwest::Client::builder().user_agent("line\nbreak");
    let error = Http::over(bad).expect_err("a refusal");
    assert!(error.is_validation() && error.source().is_some());
}

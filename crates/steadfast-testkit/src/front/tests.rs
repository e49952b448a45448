use std::error::Error as StdError;
use std::sync::Mutex;

use tokio::io::AsyncReadExt;

use steadfast_core::clock::Instant;

use super::*;
use crate::{FAULT_HEADER, WaitForm};

/// Requests that the backend got: method, path, fault header and body.
type Seen = Arc<Mutex<Vec<(String, String, Option<String>, String)>>>;

const BODY: &str = r#"{"id":"ch_1","amount":1000}"#;

async fn backend() -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let record = Arc::clone(&seen);
    let app = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let record = Arc::clone(&record);
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let fault = parts.headers.get(FAULT_HEADER).map(|value| value.to_str().unwrap().to_owned());
            let body = String::from_utf8(body.to_vec()).unwrap();
            record.lock().unwrap().push((parts.method.to_string(), parts.uri.to_string(), fault, body));
            if parts.uri.path() == "/empty" {
                return (http::StatusCode::NO_CONTENT, [("x-request-id", "req_1")], "");
            }
            (http::StatusCode::CREATED, [("x-request-id", "req_1")], BODY)
        }
    });
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, seen)
}

async fn started() -> (Front, FaultPlan, Seen) {
    let (address, seen) = backend().await;
    let plan = FaultPlan::new();
    (Front::start(address, plan.clone()).await.unwrap(), plan, seen)
}

fn applied(seen: &Seen) -> usize {
    seen.lock().unwrap().len()
}

async fn post(front: &Front) -> Result<String, reqwest::Error> {
    reqwest::Client::new().post(format!("{}/charges", front.url())).body("a=1").send().await?.text().await
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

fn chain(error: &(dyn StdError + 'static)) -> String {
    causes(error).map(|error| format!("{error}; ")).collect()
}

/// Sends bytes as they are, ends its own side, and returns everything that comes back.
async fn raw(front: &Front, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(front.address()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // A close with bytes unread is a reset; the bytes before it count.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

/// Fails instead of a test that never ends. Real time, because the wait is for real sockets.
#[allow(
    clippy::disallowed_methods,
    reason = "bounds a wait for real sockets, in which no injected clock moves"
)]
async fn within_ten_seconds(work: impl Future<Output = ()>) {
    tokio::time::timeout(Duration::from_secs(10), work).await.unwrap();
}

#[tokio::test]
async fn without_a_fault_the_answer_passes_unchanged() {
    let (front, plan, seen) = started().await;
    let url = format!("{}/charges?limit=1", front.url());
    let answer = reqwest::Client::new().post(url).body("a=1").send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["x-request-id"]),
        (201, &"req_1".parse().unwrap())
    );
    assert_eq!(answer.text().await.unwrap(), BODY);
    assert_eq!(*seen.lock().unwrap(), [("POST".into(), "/charges?limit=1".into(), None, "a=1".into())]);
    assert_eq!((plan.requests(), plan.injected_total()), (1, 0));
}

#[tokio::test]
async fn a_drop_before_reading_closes_the_connection_and_applies_nothing() {
    let (front, plan, seen) = started().await;
    plan.next(Fault::DropBeforeRead);
    let error = post(&front).await.unwrap_err();
    assert!(error.is_request() && !error.is_timeout() && !error.is_connect(), "{}", chain(&error));
    assert_eq!(applied(&seen), 0);
    assert_eq!(post(&front).await.unwrap(), BODY, "the next is well again");
}

#[tokio::test]
async fn a_drop_after_applying_closes_the_connection_and_applies_once() {
    let (front, plan, seen) = started().await;
    plan.next(Fault::DropAfterApply);
    let error = post(&front).await.unwrap_err();
    assert!(chain(&error).contains("connection closed before message completed"), "{}", chain(&error));
    assert_eq!(applied(&seen), 1);
}

#[tokio::test]
async fn a_reset_is_a_reset_before_and_after_applying() {
    for (fault, effects) in [(Fault::Reset, 0), (Fault::ResetAfterApply, 1)] {
        let (front, plan, seen) = started().await;
        plan.next(fault);
        let error = post(&front).await.unwrap_err();
        let io = causes(&error)
            .find_map(|error| error.downcast_ref::<io::Error>())
            .unwrap_or_else(|| panic!("{}", chain(&error)));
        assert_eq!(io.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!((applied(&seen), plan.injected(fault)), (effects, 1));
    }
}

#[tokio::test]
async fn a_truncated_body_breaks_after_the_status_came() {
    let (front, plan, seen) = started().await;
    plan.next(Fault::TruncatedBody);
    let answer = reqwest::Client::new().post(front.url()).body("a=1").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.content_length()), (201, Some(BODY.len() as u64)));
    let error = answer.bytes().await.unwrap_err();
    assert!(
        !error.is_timeout() && chain(&error).contains("end of file before message length"),
        "{}",
        chain(&error)
    );
    assert_eq!(applied(&seen), 1);
    // Exactly half of the body, of a whole head.
    plan.next(Fault::TruncatedBody);
    let raw = raw(&front, b"POST / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(raw.split_once("\r\n\r\n").unwrap().1, &BODY[..BODY.len() / 2]);
}

#[tokio::test]
async fn an_answer_without_a_body_is_truncated_in_its_head() {
    let (front, plan, seen) = started().await;
    plan.next(Fault::TruncatedBody);
    let error = reqwest::Client::new().delete(format!("{}/empty", front.url())).send().await.unwrap_err();
    assert!(error.is_request() && !error.is_timeout(), "{}", chain(&error));
    assert_eq!(applied(&seen), 1);
}

#[tokio::test]
async fn a_hang_ends_with_the_callers_timeout() {
    for (fault, effects) in [(Fault::Hang, 0), (Fault::HangAfterApply, 1)] {
        let (front, plan, seen) = started().await;
        plan.next(fault);
        // Real time, bounded: the test shows that reqwest's own timeout fires. Long enough for the request to
        // reach the backend on a busy machine.
        let client = reqwest::Client::builder().timeout(Duration::from_millis(500)).build().unwrap();
        let error = client.post(front.url()).send().await.unwrap_err();
        assert!(error.is_timeout(), "{}", chain(&error));
        assert_eq!(applied(&seen), effects);
    }
}

#[tokio::test]
async fn a_hang_on_a_test_clock_meets_the_limit_exactly() {
    let clock = TestClock::auto();
    let plan = FaultPlan::new();
    plan.next(Fault::HangAfterApply);
    let (address, seen) = backend().await;
    let front = Front::start_on(address, plan, &clock).await.unwrap();
    tokio::select! {
        _ = post(&front) => panic!("it hangs"),
        () = clock.limit_until(Instant::ORIGIN.plus(Duration::from_secs(30))) => {}
    }
    assert_eq!(clock.now(), Instant::ORIGIN.plus(Duration::from_secs(30)));
    assert_eq!((applied(&seen), clock.slept()), (1, vec![]));
}

#[tokio::test]
async fn a_slow_body_pauses_half_way_and_then_comes_whole() {
    let clock = TestClock::new();
    let plan = FaultPlan::new();
    plan.next(Fault::SlowBody(Duration::from_secs(60)));
    let (address, _) = backend().await;
    let front = Front::start_on(address, plan, &clock).await.unwrap();
    let mut answer = reqwest::Client::new().post(front.url()).send().await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), &BODY[..BODY.len() / 2]);
    clock.until_sleeping(1).await;
    clock.advance(Duration::from_secs(59));
    assert_eq!(clock.sleeping(), 1);
    clock.advance(Duration::from_secs(1));
    assert_eq!(answer.chunk().await.unwrap().unwrap(), &BODY[BODY.len() / 2..]);
    assert_eq!(answer.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn a_caller_that_goes_ends_the_pause() {
    let clock = TestClock::new();
    let plan = FaultPlan::new();
    plan.next(Fault::Hang);
    let (address, _) = backend().await;
    let front = Front::start_on(address, plan, &clock).await.unwrap();
    let mut stream = TcpStream::connect(front.address()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    clock.until_sleeping(1).await;
    drop(stream);
    within_ten_seconds(async {
        while clock.sleeping() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_backend_gets_the_vendors_faults_in_a_header() {
    let faults = [
        Fault::Error500Before,
        Fault::Error500After,
        Fault::Stored500,
        Fault::Html,
        Fault::KeyInUse,
        Fault::TooManyRequests(WaitForm::Seconds(2)),
    ];
    let (front, plan, seen) = started().await;
    for fault in faults {
        plan.next(fault);
        assert_eq!(post(&front).await.unwrap(), BODY);
    }
    let header_value: Vec<_> = seen.lock().unwrap().iter().map(|seen| seen.2.clone().unwrap()).collect();
    assert_eq!(header_value, faults.map(Fault::to_header));
}

#[tokio::test]
async fn a_fault_header_from_outside_is_removed() {
    let (front, plan, seen) = started().await;
    for (fault, header_value) in
        [(None, None), (Some(Fault::Html), Some("html")), (Some(Fault::DropAfterApply), None)]
    {
        if let Some(fault) = fault {
            plan.next(fault);
        }
        let client = reqwest::Client::new();
        let _ = client.post(front.url()).header("X-Testkit-Fault", "error-500-after").send().await;
        assert_eq!(seen.lock().unwrap().last().unwrap().2.as_deref(), header_value);
    }
    assert_eq!(applied(&seen), 3);
}

#[tokio::test]
async fn one_connection_carries_many_requests_with_lengths_and_chunks() {
    let (front, plan, seen) = started().await;
    let answers = raw(
        &front,
        b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\na=1\
          POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nb=2\r\n4;x=y\r\n&c=3\r\n0\r\nt: 1\r\n\r\n\
          HEAD /c HTTP/1.1\r\nhost: a\r\n\r\n\
          GET http://a/d?q HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert_eq!(answers.matches("HTTP/1.1 201 Created").count(), 4, "{answers}");
    assert_eq!(answers.matches(BODY).count(), 3, "{answers}");
    let seen = seen.lock().unwrap();
    let (methods, bodies): (Vec<_>, Vec<_>) =
        seen.iter().map(|seen| (seen.0.as_str(), seen.3.as_str())).unzip();
    assert_eq!(methods, ["POST", "POST", "HEAD", "GET"]);
    assert_eq!(bodies, ["a=1", "b=2&c=3", "", ""]);
    assert_eq!(plan.requests(), 4, "asked once a request");
}

#[tokio::test]
async fn a_rule_sees_the_path_of_every_form_of_target() {
    let (front, plan, _) = started().await;
    plan.when("/d", Method::GET, Fault::Html).when("/d", Method::GET, Fault::KeyInUse);
    raw(&front, b"GET http://a/d?q=/x HTTP/1.1\r\n\r\nGET /x?/d HTTP/1.1\r\n\r\nGET /d/1 HTTP/1.1\r\n\r\n")
        .await;
    assert_eq!((plan.pending(), plan.requests(), plan.injected_total()), (0, 3, 2));
}

#[tokio::test]
async fn garbage_is_answered_with_400_and_affects_no_other_connection() {
    let (front, plan, seen) = started().await;
    let garbage: [&[u8]; 6] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ];
    for bytes in garbage {
        let answer = raw(&front, bytes).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    }
    assert_eq!(plan.requests(), 0);
    let bad_bodies: [&[u8]; 3] = [
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
    ];
    for bytes in bad_bodies {
        let answer = raw(&front, bytes).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    }
    // Cut off in the head or the body: no caller is left to get an answer.
    assert_eq!(raw(&front, b"POST / HT").await, "");
    assert_eq!(raw(&front, b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc").await, "");
    assert_eq!(applied(&seen), 0);
    assert_eq!(post(&front).await.unwrap(), BODY);
}

#[tokio::test]
async fn a_backend_without_an_answer_is_a_502_with_the_reason() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let nobody = listener.local_addr().unwrap();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let front = Front::start(nobody, FaultPlan::new()).await.unwrap();
    let answer = reqwest::get(front.url()).await.unwrap();
    assert_eq!(answer.status(), 502);
    assert!(answer.text().await.unwrap().starts_with("the backend did not answer: "));
}

#[tokio::test]
async fn a_dropped_front_closes_its_port_and_its_connections() {
    let (front, _, _) = started().await;
    let address = front.address();
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /empty HTTP/1.1\r\n\r\n").await.unwrap();
    assert!(idle.read(&mut [0; 512]).await.unwrap() > 0, "it is being served");
    drop(front);
    within_ten_seconds(async {
        assert!(matches!(idle.read(&mut [0; 512]).await, Ok(0) | Err(_)));
        // The listener goes with the same task; the connection above ended, so it is gone or going.
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

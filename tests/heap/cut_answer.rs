//! An answer of 100 MB, from a socket, into an SQLite file: cut at the limit without being held in memory, settled
//! with its status and the mark, and the same at every later look.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::operation::record::Phase;
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::Backoff;
use steadfast::store::{Sqlite, Store};
use steadfast::vendor::Stripe;
use steadfast::{Client, Effect, Error, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::{LIVE, PEAK};

const ANSWER_BYTES: usize = 100 * 1024 * 1024;
const LIMIT_BYTES: usize = 1024 * 1024;

/// The bytes that two sockets on loopback may hold between them: Linux grows them to some 6 MB and 4 MB by default.
const SOCKETS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The bytes that may be live at once. They are the body up to the limit, a second copy of it on its way into the
/// file, another on its way out, and as much again.
const LIVE_BYTES_MAX: usize = 8 * LIMIT_BYTES;

/// How an answer's length is told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Framing {
    Length,
    Chunks,
}

/// Answers every request with a head of this status and 100 MB, and tells how much of it was taken.
async fn serve(status: &'static str, framing: Framing) -> (SocketAddr, mpsc::UnboundedReceiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let written = answer(socket, status, framing).await;
            tell.send(written).expect("the test listens");
        }
    });
    (address, told)
}

async fn answer(mut socket: TcpStream, status: &str, framing: Framing) -> usize {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        socket.read_buf(&mut request).await.expect("a request");
    }
    let length = match framing {
        Framing::Length => format!("content-length: {ANSWER_BYTES}"),
        Framing::Chunks => "transfer-encoding: chunked".to_owned(),
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{length}\r\n\r\n");
    socket.write_all(head.as_bytes()).await.expect("the head");
    let part = vec![b' '; 64 * 1024];
    let chunk = match framing {
        Framing::Length => part.clone(),
        Framing::Chunks => [format!("{:x}\r\n", part.len()).as_bytes(), &part, b"\r\n"].concat(),
    };
    let mut written = 0;
    while written < ANSWER_BYTES {
        if socket.write_all(&chunk).await.is_err() {
            return written;
        }
        written += part.len();
    }
    if framing == Framing::Chunks && socket.write_all(b"0\r\n\r\n").await.is_err() {
        return written;
    }
    written
}

fn client(store: &Arc<Sqlite>, address: SocketAddr) -> Client {
    let policy = Policy::background().backoff(Backoff::none()).without_breaker();
    Client::builder(Stripe::new("sk_test_1").base_url(format!("http://{address}")))
        .policy(policy.request_bytes_max(1024).reply_bytes_max(LIMIT_BYTES))
        .store(Arc::clone(store))
        .build()
        .expect("a client")
}

/// The part of an error that a caller sees: all but how it came about.
fn seen(error: &Error) -> (&'static str, Effect, u16, usize, bool) {
    let answer = error.answer().expect("an answer");
    (error.code(), error.effect(), answer.status.as_u16(), answer.body.len(), answer.cut)
}

async fn is_cut(status: &'static str, framing: Framing, expected: (&'static str, Effect, Phase)) {
    let (code, effect, phase) = expected;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls.db");
    let store = Arc::new(Sqlite::open(&path).expect("opens"));
    let (address, mut taken) = serve(status, framing).await;
    let send = async |store: &Arc<Sqlite>| {
        let call = client(store, address).post("/v1/quotes").key("order-1").form(&[("amount", "1000")]);
        call.send().await.expect_err("an error that says so")
    };

    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    let first = send(&store).await;
    let held = PEAK.load(Ordering::Relaxed) - live;
    let number: u16 = status[..3].parse().expect("a status");
    assert_eq!(seen(&first), (code, effect, number, LIMIT_BYTES, true));
    let written = taken.recv().await.expect("the connection ended");
    assert!(written < LIMIT_BYTES + SOCKETS_BYTES_MAX, "{status} {framing:?}: {written} bytes were taken");
    assert!(held < LIVE_BYTES_MAX, "{status} {framing:?}: {held} bytes were held");

    // The same from the record, in this process and in the next, and nothing is sent.
    assert_eq!(seen(&send(&store).await), seen(&first));
    Arc::into_inner(store).expect("no client is left").close().await;
    let store = Arc::new(Sqlite::open(&path).expect("opens again"));
    assert_eq!(seen(&send(&store).await), seen(&first));
    assert!(taken.try_recv().is_err(), "one request was sent");

    let scope = Scope::from_stored(first.operation().expect("keyed"));
    let id = OperationId::new(scope, Key::new("order-1").expect("a key"));
    let letters = DeadLetters::new(Arc::clone(&store) as Arc<dyn Store>);
    let how = Change::by("ada").because("ticket 7");
    let shown = letters.open(&id, &how).await.expect("shown");
    let reply = shown.reply.as_ref().expect("a reply");
    assert_eq!((shown.summary.phase, shown.summary.status), (phase, Some(number)));
    assert_eq!((reply.cut, reply.body_bytes), (true, LIMIT_BYTES));
    assert!(reply.body.as_ref().is_ok_and(|text| text.len() == LIMIT_BYTES));
    assert_eq!(serde_json::to_value(&shown).expect("JSON")["reply"]["cut"], true);
}

/// One test and not four: what is held is measured for the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_100_mb_is_cut_at_the_limit_and_settled_with_its_status_and_the_mark() {
    let succeeded = ("VALIDATION.reply_too_large", Effect::Applied, Phase::Succeeded);
    is_cut("200 OK", Framing::Length, succeeded).await;
    is_cut("200 OK", Framing::Chunks, succeeded).await;
    // A refusal that nobody can read may be somebody else's.
    is_cut("402 Payment Required", Framing::Length, ("UNKNOWN.effect", Effect::Unknown, Phase::Dead)).await;
    is_cut("500 Internal Server Error", Framing::Length, ("UNKNOWN.effect", Effect::Unknown, Phase::Dead))
        .await;
    is_streamed(Framing::Length).await;
    is_streamed(Framing::Chunks).await;
}

/// The same answer, whole: read in chunks, and never held.
async fn is_streamed(framing: Framing) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Sqlite::open(directory.path().join("calls.db")).expect("opens"));
    let (address, mut taken) = serve("200 OK", framing).await;
    let client = client(&store, address);
    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    let mut report = client.get("/v1/report").stream().await.expect("a head");
    while report.chunk().await.expect("a chunk").is_some() {}
    let held = PEAK.load(Ordering::Relaxed) - live;
    assert_eq!(report.received(), ANSWER_BYTES as u64);
    // The server has told, and panics in no later measurement.
    assert_eq!(taken.recv().await, Some(ANSWER_BYTES));
    assert!(held < LIVE_BYTES_MAX / 2, "{framing:?}: {held} bytes were held");
}

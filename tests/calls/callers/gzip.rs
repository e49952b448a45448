//! Answers in gzip, over a socket: unpacked within the limit, and never a word that is too good.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use steadfast::policy::Jitter;
use steadfast::transport::Http;
use steadfast::vendor::Stripe;
use steadfast::{Client, Effect, Policy};

/// Answers each request with the next of these, and tells what it was asked.
fn vendor(answers: Vec<(&'static str, Vec<u8>)>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, told) = channel();
    thread::spawn(move || {
        for (coding, body) in answers {
            let (mut socket, _) = listener.accept().expect("a connection");
            let mut asked = Vec::new();
            let mut chunk = [0; 4096];
            while !is_whole(&asked) {
                let len = socket.read(&mut chunk).expect("a request");
                asked.extend_from_slice(&chunk[..len]);
            }
            tell.send(String::from_utf8_lossy(&asked).into_owned()).expect("a test that listens");
            let len = body.len();
            let coding =
                if coding.is_empty() { String::new() } else { format!("Content-Encoding: {coding}\r\n") };
            let head = format!(
                "HTTP/1.1 200 OK\r\nRequest-Id: req_1\r\n{coding}Content-Length: {len}\r\nConnection: close\r\n\r\n"
            );
            socket.write_all(&[head.as_bytes(), &body].concat()).expect("an answer");
        }
    });
    (url, told)
}

fn is_whole(asked: &[u8]) -> bool {
    let text = String::from_utf8_lossy(asked).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| body.len() >= length.parse().expect("a number"))
}

fn client(url: &str, http: Http) -> Client {
    let policy = Policy::interactive().reply_bytes_max(1000);
    let policy = policy.backoff(Policy::interactive().backoff.jitter(Jitter::None));
    Client::builder(Stripe::new("sk_test_123").base_url(url))
        .transport(http)
        .policy(policy)
        .build()
        .expect("a client")
}

fn http() -> Http {
    Http::new(Http::CONNECT_TIMEOUT).expect("a transport")
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(body).expect("memory");
    packed.finish().expect("memory")
}

fn charge(client: &Client) -> steadfast::Call {
    client.post("/v1/charges").key("order-42/charge").form(&[("amount", "1000"), ("currency", "usd")])
}

#[tokio::test]
async fn gzip_is_asked_for_by_choice_and_unpacked() {
    let body = br#"{"id":"ch_1","object":"charge"}"#;
    let (url, asked) = vendor(vec![("gzip", gzip(body)), ("", body.to_vec())]);
    let reply = client(&url, http().gzip()).get("/v1/charges/ch_1").send().await.expect("a reply");
    assert_eq!(reply.bytes().as_ref(), body);
    assert!(!reply.headers().contains_key("content-encoding"));
    assert!(asked.recv().expect("a request").to_lowercase().contains("accept-encoding: gzip\r\n"));

    client(&url, http()).get("/v1/charges/ch_1").send().await.expect("a reply");
    let asked = asked.recv().expect("a request").to_lowercase();
    assert!(!asked.contains("accept-encoding"), "off by default: {asked}");
}

#[tokio::test]
async fn a_bomb_is_cut_at_the_limit_and_its_charge_has_taken_effect() {
    let bomb = gzip(&vec![b'a'; 50 * 1024 * 1024]);
    assert!(bomb.len() < 60_000);
    let (url, _asked) = vendor(vec![("gzip", bomb[..].to_vec())]);
    let stripe = client(&url, http().gzip());
    for _ in 0..2 {
        // The second time it is told from the record.
        let error = charge(&stripe).send().await.expect_err("too large");
        assert_eq!((error.code(), error.effect()), ("VALIDATION.reply_too_large", Effect::Applied));
        assert!(error.answer().expect("an answer").body.len() <= 1000);
    }
}

#[tokio::test]
async fn a_charge_whose_answer_does_not_unpack_has_taken_effect_and_is_not_sent_again() {
    let whole = gzip(br#"{"id":"ch_1","object":"charge"}"#);
    let part = whole[..whole.len() - 3].to_vec();
    for (coding, body) in [("gzip", part), ("gzip", vec![0xFF; 7]), ("br", whole)] {
        // A second request would find nobody.
        let (url, asked) = vendor(vec![(coding, body.clone())]);
        let stripe = client(&url, http().gzip());
        for _ in 0..2 {
            let error = charge(&stripe).send().await.expect_err("unreadable");
            assert!(error.is_unreadable_reply(), "{error}");
            assert_eq!((error.code(), error.effect()), ("VALIDATION.reply_unreadable", Effect::Applied));
            assert_eq!(error.answer().expect("an answer").body, body);
        }
        asked.recv().expect("one request");
        assert!(asked.recv().is_err(), "and no other");
    }
}

#[tokio::test]
async fn an_answer_that_reads_as_text_is_read_whatever_encoding_it_names() {
    let (url, _asked) = vendor(vec![("utf-8", br#"{"id":"ch_1","object":"charge"}"#.to_vec())]);
    let reply = charge(&client(&url, http().gzip())).send().await.expect("a reply");
    assert_eq!(reply.json::<serde_json::Value>().expect("JSON")["id"], "ch_1");
}

#[tokio::test]
async fn a_call_that_says_what_it_takes_gets_what_came() {
    let packed = gzip(b"{}");
    let (url, asked) = vendor(vec![("gzip", packed.clone())]);
    let call = client(&url, http().gzip()).get("/v1/charges").header("Accept-Encoding", "gzip, br");
    assert_eq!(call.send().await.expect("a reply").bytes().as_ref(), packed);
    assert!(asked.recv().expect("a request").to_lowercase().contains("accept-encoding: gzip, br\r\n"));
}

//! The least HTTP/1.1 server that keeps its connections: an answer of 1 KiB of JSON to each request.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The length of the answer's body.
pub const BODY_BYTES: usize = 1024;

/// Starts the server on a thread and a runtime of its own; it lives as long as the process. `prepare` is run first on
/// that thread.
pub fn start(prepare: impl FnOnce() + Send + 'static) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("a socket that tokio can take");
    std::thread::spawn(move || {
        prepare();
        let answer: &'static [u8] = answer().leak();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer));
            }
        });
    });
    address
}

async fn serve(mut stream: TcpStream, answer: &[u8]) {
    stream.set_nodelay(true).expect("a TCP socket");
    let mut held = Vec::with_capacity(4096);
    loop {
        match stream.read_buf(&mut held).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        while let Some(length) = request_len(&held).filter(|length| *length <= held.len()) {
            held.drain(..length);
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    }
}

/// The length of the first request, head and body, once its head is there.
fn request_len(held: &[u8]) -> Option<usize> {
    let head_len = held.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let mut lines = held[..head_len].split(|byte| *byte == b'\n');
    let body_len = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(NAME.len())?;
        let value = name.eq_ignore_ascii_case(NAME).then_some(value)?;
        std::str::from_utf8(value).ok()?.trim().parse::<usize>().ok()
    });
    Some(head_len + body_len.unwrap_or(0))
}

fn answer() -> Vec<u8> {
    let start = r#"{"id":"thing-42","object":"thing","amount":1000,"currency":"usd","note":""#;
    let note = "x".repeat(BODY_BYTES - start.len() - 2);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ndate: Mon, 23 Nov 2026 05:00:00 GMT\r\n\
        request-id: req_0123456789\r\n";
    format!("{head}content-length: {BODY_BYTES}\r\n\r\n{start}{note}\"}}").into_bytes()
}

const NAME: &[u8] = b"content-length:";

//! The same over a socket and over a service of tower: real bytes, and real time for what waits on the wire.

use std::time::Duration;

use steadfast::Client;
use steadfast::transport::Http;
use steadfast::vendor::Stripe;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn vendor() -> (Client, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let http = Http::new(Http::CONNECT_TIMEOUT).expect("a transport");
    #[cfg(feature = "gzip")]
    let http = http.gzip();
    let stripe = Client::builder(Stripe::new("sk_test_123").base_url(url)).transport(http);
    (stripe.build().expect("a client"), listener)
}

/// Takes a request, and answers it with this head.
async fn head(listener: &TcpListener, head: &str) -> (TcpStream, String) {
    let (mut socket, _) = listener.accept().await.expect("a connection");
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        socket.read_buf(&mut asked).await.expect("a request");
    }
    socket.write_all(head.as_bytes()).await.expect("a head");
    (socket, String::from_utf8_lossy(&asked).to_ascii_lowercase())
}

#[tokio::test]
async fn a_chunk_is_there_while_the_vendor_still_writes() {
    let (stripe, listener) = vendor().await;
    let answering = tokio::spawn(async move {
        let answer = head(&listener, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        (answer, listener)
    });
    let mut report = stripe.get("/v1/report").stream().await.expect("a head");
    let ((mut socket, asked), listener) = answering.await.expect("answered");
    assert!(!asked.contains("accept-encoding"), "{asked}");
    for chunk in ["id,amount\n", "1,1000\n"] {
        let written = format!("{:x}\r\n{chunk}\r\n", chunk.len());
        socket.write_all(written.as_bytes()).await.expect("a chunk");
        assert_eq!(report.chunk().await.expect("a chunk").expect("a chunk"), chunk);
    }
    socket.write_all(b"0\r\n\r\n").await.expect("the end");
    assert!(report.chunk().await.expect("the end").is_none());

    // The connection breaks in the middle of a body.
    let answering = tokio::spawn(async move {
        // The first one is kept alive, and is taken again.
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            socket.read_buf(&mut asked).await.expect("a request");
        }
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await.expect("a half");
        listener
    });
    let mut report = stripe.get("/v1/report").stream().await.expect("a head");
    let listener = answering.await.expect("answered");
    assert_eq!(report.chunk().await.expect("a chunk").expect("a chunk"), "half");
    let error = report.chunk().await.expect_err("broken");
    assert!(error.is_broken_reply() && error.to_string().contains("after 4 bytes"), "{error:#}");

    // Who drops a reply hangs up.
    let answering =
        tokio::spawn(async move { head(&listener, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").await.0 });
    let report = stripe.get("/v1/report").stream().await.expect("a head");
    let mut socket = answering.await.expect("answered");
    drop(report);
    #[allow(clippy::disallowed_methods, reason = "sockets are closed in real time")]
    let hung_up = tokio::time::timeout(Duration::from_secs(10), socket.read(&mut [0; 1])).await;
    assert!(hung_up.expect("it hangs up").map_or(true, |bytes| bytes == 0));
}

#[cfg(feature = "tower")]
#[tokio::test]
async fn a_service_of_tower_streams_too() {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use steadfast::transport::over_tower;

    let (sender, feed) = super::unbounded_channel();
    let feed = std::sync::Arc::new(parking_lot::Mutex::new(Some(super::Feed(feed))));
    let router = Router::new()
        .route("/v1/report", get(move || std::future::ready(Body::new(feed.lock().take().expect("once")))));
    let transport = over_tower::<Body>(router);
    let stripe = Client::builder(Stripe::new("sk_test_123")).transport(transport).build().expect("a client");
    let mut report = stripe.get("/v1/report").stream().await.expect("a head");
    sender.send(Ok("row\n")).expect("open");
    assert_eq!(report.chunk().await.expect("a chunk").expect("a chunk"), "row\n");
    sender.send(Err(super::SendErrorKind::Truncated)).expect("open");
    assert!(report.chunk().await.expect_err("broken").is_broken_reply());
}

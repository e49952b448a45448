//! The same over HTTP/2, where replies share a connection.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use steadfast::Client;
use steadfast::transport::Http;
use steadfast::vendor::Stripe;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// On one connection: reports without end, as far as the windows go, and short answers. It tells how many bytes of reports
/// it was allowed to send.
async fn serve(listener: TcpListener, sent: watch::Sender<usize>) {
    let (socket, _) = listener.accept().await.expect("a connection");
    let mut connection = h2::server::handshake(socket).await.expect("HTTP/2");
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let mut body = respond.send_response(Response::new(()), false).expect("a head");
        if request.uri().path() != "/v1/report" {
            body.send_data(Bytes::from_static(b"{}"), true).expect("an answer");
            continue;
        }
        let sent = sent.clone();
        tokio::spawn(async move {
            loop {
                body.reserve_capacity(ROWS.len());
                let Some(Ok(room)) = poll_fn(|context| body.poll_capacity(context)).await else { return };
                let rows = Bytes::from_static(&ROWS[..room.min(ROWS.len())]);
                sent.send_modify(|all| *all += rows.len());
                if body.send_data(rows, false).is_err() {
                    return;
                }
            }
        });
    }
}

#[tokio::test]
async fn streams_that_nobody_reads_stop_no_other_call_on_their_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sent, mut told) = watch::channel(0);
    tokio::spawn(serve(listener, sent));
    let reqwest = || reqwest::Client::builder().no_proxy().http2_prior_knowledge();
    let http = Http::over(reqwest).expect("a transport");
    let stripe = Client::builder(Stripe::new("sk_test_123").base_url(url)).transport(http);
    let stripe = stripe.build().expect("a client");

    let mut unread = Vec::new();
    let all = async {
        for _ in 0..UNREAD {
            unread.push(stripe.get("/v1/report").stream().await.expect("a head"));
        }
        told.wait_for(|bytes| *bytes >= WINDOW_BY_DEFAULT).await.expect("a vendor");
        let reply = stripe.get("/v1/balance").send().await.expect("an answer");
        assert_eq!(&reply.bytes()[..], b"{}");
        for report in &mut unread {
            assert!(report.chunk().await.expect("a chunk").is_some(), "it is only late");
        }
    };
    #[allow(clippy::disallowed_methods, reason = "sockets take real time")]
    let in_time = tokio::time::timeout(Duration::from_secs(5), all).await;
    in_time.expect("the streams have used up the connection's window");
}

static ROWS: [u8; 16 * 1024] = [b'\n'; 16 * 1024];
/// Of 2 MiB each: more than hyper's window of a connection, which is 5 MiB unless it is set.
const UNREAD: usize = 6;
const WINDOW_BY_DEFAULT: usize = 5 * 1024 * 1024;

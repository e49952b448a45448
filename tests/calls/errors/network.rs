//! The ways in which a real network fails, on loopback and with a resolver of the test's own.

use std::time::Duration;

use reqwest::dns::{Name, Resolve, Resolving};
use steadfast::policy::{Backoff, Timeouts};
use steadfast::transport::Http;
use steadfast::vendor::Stripe;
use steadfast::{Client, Error, Policy};

use super::{Said, charged};
use support::raw_server::{RawServer, Reply};

/// Knows no name.
struct NoNames;

impl Resolve for NoNames {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(async { Err("no such host is known".into()) })
    }
}

/// One attempt of at most `limit`, over the real transport and the real clock.
fn client(base_url: &str, limit: Duration) -> Client {
    let own = || reqwest::Client::builder().no_proxy().dns_resolver(NoNames);
    let policy = Policy::background()
        .backoff(Backoff::none())
        .timeout(Timeouts::new(limit, limit, Duration::from_secs(120)))
        .lookups_max(0);
    Client::builder(Stripe::new("sk_test_123").base_url(base_url))
        .policy(policy)
        .transport(Http::over(own).expect("a transport"))
        .build()
        .expect("a client")
}

pub async fn all(said: &mut Said) {
    failed(said, "the name does not resolve", "https://api.strpe.com", LONG).await;

    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", closed.local_addr().expect("an address"));
    drop(closed);
    failed(said, "nobody listens", &url, LONG).await;

    let deaf = RawServer::start_deaf("this is no handshake").await;
    failed(said, "the server speaks no TLS", &deaf.url("").replace("http://", "https://"), LONG).await;

    for (happened, reply) in [
        ("the connection is reset", Reply::Reset),
        ("the connection is closed before an answer", Reply::Drop),
        ("what answers is no HTTP", Reply::ThenClose("SMTP ready\r\n".into())),
        (
            "the answer breaks off",
            Reply::ThenClose("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".into()),
        ),
    ] {
        let server = RawServer::start(move |_| reply.clone()).await;
        failed(said, happened, &server.url(""), LONG).await;
    }
    // It is waited for in real time, because a socket is.
    let silent = RawServer::start(|_| Reply::Silence).await;
    failed(said, "no answer comes", &silent.url(""), Duration::from_millis(300)).await;
}

/// Adds what is said of it, with one name for whichever port it was.
async fn failed(said: &mut Said, happened: &str, base_url: &str, limit: Duration) {
    let error: Error = charged(&client(base_url, limit)).await.expect_err(happened);
    let mut own = Said::default();
    own.error(happened, &error);
    let port = base_url.rsplit(':').next().unwrap_or_default();
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    said.0 += &if is_port { own.0.replace(port, "PORT") } else { own.0 };
}

/// Longer than any of these takes on a busy machine; never waited for.
const LONG: Duration = Duration::from_secs(20);

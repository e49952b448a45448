//! A call as services make it: a body of 64 bytes of JSON, three headers of the caller's own, a secret, and an answer
//! of 1 KiB.
#![allow(dead_code, reason = "every benchmark takes what it needs")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderValue, Method, header};
use steadfast::Client;

use crate::server::BODY_BYTES;
use crate::support::{PATH, SECRET};

/// 64 bytes as JSON.
#[derive(serde::Serialize)]
pub struct Order {
    amount: u32,
    currency: &'static str,
    customer: &'static str,
}

pub const ORDER: Order = Order { amount: 1000, currency: "usd", customer: "cus_9s6XKzkNRiz8i3" };
pub const HEADERS: [(&str, &str); 3] =
    [("accept", "application/json"), ("x-request-id", "req-4711-0815"), ("x-tenant", "tenant-17")];
/// The timeout that reqwest users set; steadfast's policies have theirs.
pub const TIMEOUT: Duration = Duration::from_secs(30);

pub fn body() -> Vec<u8> {
    serde_json::to_vec(&ORDER).expect("JSON")
}

/// Keys that no two calls share.
#[derive(Clone, Default)]
pub struct Keys(Arc<AtomicU64>);

impl Keys {
    pub fn next(&self) -> String {
        format!("order-{}/charge", self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// A POST has a key, on whichever client; a PUT has none.
    pub fn of(&self, method: &Method) -> Option<String> {
        (*method == Method::POST).then(|| self.next())
    }
}

/// The call through the library.
pub async fn ours(client: &Client, method: &Method, keys: &Keys) {
    let mut call = client.request(method.clone(), PATH);
    if let Some(key) = keys.of(method) {
        call = call.key(key);
    }
    for (name, value) in HEADERS {
        call = call.header(name, value);
    }
    let reply = call.json(&ORDER).send().await.expect("a reply");
    assert_eq!(reply.bytes().len(), BODY_BYTES);
}

/// The same call on bare reqwest, as its users write it.
pub async fn bare(client: &reqwest::Client, method: &Method, url: &str, keys: &Keys) {
    let mut request = client
        .request(method.clone(), url)
        .header(header::AUTHORIZATION, HeaderValue::from_static(SECRET))
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = keys.of(method) {
        request = request.header("idempotency-key", key);
    }
    for (name, value) in HEADERS {
        request = request.header(name, value);
    }
    let response = request.body(body()).send().await.expect("an answer");
    assert_eq!(response.bytes().await.expect("a body").len(), BODY_BYTES);
}

/// reqwest with a timeout of its own for the whole exchange.
pub fn with_timeout() -> reqwest::Client {
    reqwest::Client::builder().timeout(TIMEOUT).build().expect("a client")
}

/// The runtime of the clients: two workers, or with `--one` a single thread that stays on one core.
pub fn runtime() -> tokio::runtime::Runtime {
    pin_if_one(0);
    if !is_one() {
        let mut two = tokio::runtime::Builder::new_multi_thread();
        return two.worker_threads(2).enable_all().build().expect("a runtime with two workers");
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

pub fn is_one() -> bool {
    std::env::args().any(|argument| argument == "--one")
}

/// With `--one`, keeps this thread on one core.
pub fn pin_if_one(core: usize) {
    #[cfg(target_os = "linux")]
    if is_one() {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        rustix::thread::sched_setaffinity(None, &cores).expect("a core to stay on");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = core;
}

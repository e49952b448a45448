//! A vendor whose answer to each request is a test's own rule. It keeps its account of what it was sent, and when.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use steadfast::BoxFuture;
use steadfast::clock::{Clock as _, Instant};
use steadfast::operation::record::{Filter, Phase, Summary};
use steadfast::store::Store;
use steadfast::testkit::{SeededRandom, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, Transport};
use steadfast::vendor::{Stripe, Vendor};
use steadfast::{Client, Policy};

use support::rig::{Rig, ms};

#[derive(Clone)]
pub struct Ruled {
    pub clock: TestClock,
    pub latency: Duration,
    rule: Arc<Mutex<Rule>>,
    sent: Arc<Mutex<Vec<Sent>>>,
}

type Rule = Box<dyn FnMut(&Request, Instant) -> u16 + Send>;

/// One request, and what it was answered with.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    pub path: String,
    pub key: String,
    pub status: u16,
}

impl Ruled {
    pub fn new(clock: &TestClock, rule: impl FnMut(&Request, Instant) -> u16 + Send + 'static) -> Ruled {
        Ruled {
            clock: clock.clone(),
            latency: ms(50),
            rule: Arc::new(Mutex::new(Box::new(rule))),
            sent: Arc::default(),
        }
    }

    /// From now on it goes by another rule.
    pub fn turn(&self, rule: impl FnMut(&Request, Instant) -> u16 + Send + 'static) {
        *self.rule.lock() = Box::new(rule);
    }

    pub fn client(&self, store: &Arc<dyn Store>, policy: Policy) -> Client {
        self.client_of(Stripe::new("sk_test_123"), store, policy)
    }

    pub fn client_of(&self, vendor: impl Vendor, store: &Arc<dyn Store>, policy: Policy) -> Client {
        let setup = Rig::of(vendor).policy(policy).network(self.clone()).clock(&self.clock);
        setup.random(SeededRandom::new(7)).store(Arc::clone(store)).client()
    }

    /// All that it was sent so far.
    pub fn sent(&self) -> Vec<Sent> {
        self.sent.lock().clone()
    }

    /// How often each key was executed: one is never executed twice.
    pub fn executed(&self) -> usize {
        let mut keys: Vec<String> =
            self.sent().into_iter().filter(|sent| sent.status == 200).map(|sent| sent.key).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(count, keys.len(), "an effect twice");
        count
    }
}

impl fmt::Debug for Ruled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ruled").finish_non_exhaustive()
    }
}

impl Transport for Ruled {
    fn send(&self, request: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(async move {
            let at = self.clock.now();
            self.clock.latency(self.latency).await;
            let status = (self.rule.lock())(&request, at);
            let key = request.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
            let (path, key) = (request.url.path().to_owned(), key.unwrap_or_default().to_owned());
            self.sent.lock().push(Sent { at, path, key, status });
            let mut headers = HeaderMap::new();
            headers.insert("request-id", HeaderValue::from_static("req_1"));
            headers.insert("content-type", HeaderValue::from_static("application/json"));
            let body = if status == 200 {
                r#"{"id":"ch_1","object":"charge"}"#
            } else {
                r#"{"error":{"type":"api_error","message":"no"}}"#
            };
            Ok(Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body))
        })
    }
}

/// Enqueues `count` calls to a path, with keys of their own.
pub async fn enqueue(client: &Client, path: &str, count: usize) {
    for nth in 0..count {
        let call = client.post(path).key(format!("{path}-{nth}")).form(&[("amount", "1000")]);
        call.enqueue().await.expect("recorded");
    }
}

/// The dead letters.
pub async fn letters(store: &Arc<dyn Store>) -> Vec<Summary> {
    let filter = Filter { phases: vec![Phase::Dead], ..Filter::default() };
    store.list(&filter, None, 10_000).await.expect("a store").rows
}

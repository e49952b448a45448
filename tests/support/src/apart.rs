//! Two hosts whose wall clocks differ, one order, and an index that shows it late.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use steadfast::BoxFuture;
use steadfast::clock::{Clock, Instant, Timestamp};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::vendor::BigCommerce;
use steadfast::{Client, Effect, Policy};

use crate::server_clock::ServerTimed;

/// By how many seconds the wall clocks are off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Apart {
    pub caller: i64,
    pub recoverer: i64,
    /// The time that the caller's is set by while its order is under way.
    pub set_by: i64,
    /// The time that the recoverer's is set by once it has taken the order for the first time.
    pub recoverer_set_by: i64,
    /// A third host that recovers after the other, each time.
    pub third: Option<i64>,
    /// The time that the server's is set by once the caller was told, where the store has one.
    pub server_set_by: i64,
    /// Its store believes that clock, whatever it said before.
    pub server_is_believed: bool,
}

/// A host's clocks: its wall clock is off by this many seconds.
#[derive(Clone, Debug)]
pub struct Off(TestClock, Arc<AtomicI64>);

impl Off {
    pub fn by(clock: &TestClock, seconds: i64) -> Off {
        Off(clock.clone(), Arc::new(AtomicI64::new(seconds)))
    }
}

impl Clock for Off {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wall(&self) -> Timestamp {
        let off = self.1.load(Ordering::Relaxed);
        let by = Duration::from_secs(off.unsigned_abs());
        if off < 0 { self.0.wall().minus(by) } else { self.0.wall().plus(by) }
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }
}

/// The fate of the order.
#[derive(Debug, PartialEq, Eq)]
pub struct Came {
    /// How often it was sent.
    pub orders: usize,
    /// Whether a recoverer found it.
    pub found: bool,
    /// When, since it was sent.
    pub after: Duration,
}

/// A caller's order is lost on its way back, and the call is over before a lookup would count. Then another host
/// recovers.
pub async fn order_recovered_by_another(apart: Apart) -> Came {
    let clock = TestClock::auto();
    recovered_by_another(apart, Arc::new(Memory::new()), clock, || {}).await
}

/// The same, on a store whose server is off by this many seconds from the right time.
pub async fn order_recovered_on_a_server(apart: Apart, server: i64) -> Came {
    let clock = TestClock::auto();
    let time = Off::by(&clock, server);
    let is_set = || time.1.store(server + apart.server_set_by, Ordering::Relaxed);
    let timed = ServerTimed::new(time.clone());
    let store: Arc<dyn Store> =
        if apart.server_is_believed { Arc::new(Believed(timed)) } else { Arc::new(timed) };
    recovered_by_another(apart, store, clock, is_set).await
}

/// A store that doubts no time of its server's.
#[derive(Debug)]
struct Believed(ServerTimed<Off>);

#[async_trait]
impl Wrapper for Believed {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        Ok(Wrapper::time(&self.0, now))
    }
}

/// `meanwhile` comes once the caller was told.
async fn recovered_by_another(
    apart: Apart,
    store: Arc<dyn Store>,
    clock: TestClock,
    meanwhile: impl FnOnce(),
) -> Came {
    let sent: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (orders, watch) = (sent.clone(), clock.clone());
    let caller_off = Arc::new(AtomicI64::new(apart.caller));
    let is_set = caller_off.clone();
    let network = ScriptedTransport::new().always_with(move |request| {
        let mut orders = orders.lock();
        if request.method == Method::POST {
            orders.push(watch.now());
            is_set.store(apart.caller + apart.set_by, Ordering::Relaxed);
            return Err(SendErrorKind::Reset);
        }
        let is_indexed = orders.first().is_some_and(|at| watch.now().since(*at) > INDEXED_AFTER);
        let asked_for = request.url.query_pairs().find(|(name, _)| name == "external_order_id");
        let key = asked_for.map(|(_, key)| key.into_owned());
        let found = json!([{"id": 1, "external_order_id": key}]).to_string();
        Ok(if is_indexed { answer(200, found) } else { answer(204, String::new()) })
    });
    let client = |off: Arc<AtomicI64>| {
        Client::builder(BigCommerce::new("abc123", "token"))
            .policy(Policy::interactive())
            .transport(network.clone())
            .clock(Off(clock.clone(), off))
            .random(FixedRandom::at(0.5))
            .store(Arc::clone(&store))
            .build()
            .expect("a client")
    };
    let other_off = Arc::new(AtomicI64::new(apart.recoverer));
    let (caller, other) = (client(caller_off), client(other_off.clone()));
    let third = apart.third.map(|off| client(Arc::new(AtomicI64::new(off))));
    let order = json!({"products": [{"product_id": 7, "quantity": 1}]});
    let told = caller.post("/v2/orders").key("order-42").json(&order).send().await;
    assert_eq!(told.expect_err("no call waits for so long").effect(), Effect::Unknown);
    meanwhile();
    let (mut found, mut after) = (0, Duration::ZERO);
    let sent_at = sent.lock()[0];
    for _ in 0..100 {
        found += other.recover(8).await.expect("the store works").succeeded;
        if let Some(third) = &third {
            found += third.recover(8).await.expect("the store works").succeeded;
        }
        other_off.store(apart.recoverer + apart.recoverer_set_by, Ordering::Relaxed);
        if found == 0 {
            after = clock.now().since(sent_at);
        }
        clock.latency(Duration::from_secs(2)).await;
    }
    Came { orders: sent.lock().len(), found: found == 1, after }
}

fn answer(status: u16, body: String) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body)
}

/// Within the adapter's settle time of 30 s.
const INDEXED_AFTER: Duration = Duration::from_secs(25);

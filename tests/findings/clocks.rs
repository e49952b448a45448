//! Clocks that differ.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use steadfast::answer::Answer;
use steadfast::clock::{Clock, Instant, Sleep, Timestamp};
use steadfast::store::{Memory, Store};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::BigCommerce;
use steadfast::{Client, Effect, Policy};

/// A host's clocks: its wall clock is ahead.
#[derive(Clone, Debug)]
struct Ahead(TestClock, Duration);

impl Clock for Ahead {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wall(&self) -> Timestamp {
        self.0.wall().plus(self.1)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        self.0.sleep_until(at)
    }
}

fn answer(status: u16, body: &str) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", http::HeaderValue::from_static("application/json"));
    Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body.to_owned())
}

/// An order is lost on its way back, and is in no look-up until the index has it.
#[tokio::test]
async fn d5_a_recoverer_whose_clock_is_ahead_waits_the_settle_time_out() {
    for ahead in [0, 20, 240, 3_600, 3 * 86_400].map(Duration::from_secs) {
        let clock = TestClock::auto();
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let sent: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let (orders, watch) = (sent.clone(), clock.clone());
        let network = ScriptedTransport::new().always_with(move |request| {
            let mut orders = orders.lock();
            if request.method == Method::POST {
                orders.push(watch.now());
                return Err(SendErrorKind::Reset);
            }
            let is_indexed =
                orders.first().is_some_and(|at| watch.now().since(*at) > Duration::from_secs(25));
            let found = json!([{"id": 1, "external_order_id": "order-42"}]).to_string();
            Ok(if is_indexed { answer(200, &found) } else { answer(204, "") })
        });
        let client = |ahead: Duration| {
            Client::builder(BigCommerce::new("abc123", "token"))
                .policy(Policy::interactive())
                .transport(network.clone())
                .clock(Ahead(clock.clone(), ahead))
                .random(FixedRandom::at(0.5))
                .store(Arc::clone(&store))
                .build()
                .expect("a client")
        };
        let (caller, other) = (client(Duration::ZERO), client(ahead));
        let order = json!({"products": [{"product_id": 7, "quantity": 1}]});
        let told = caller.post("/v2/orders").key("order-42").json(&order).send().await;
        assert_eq!(told.expect_err("no call waits for so long").effect(), Effect::Unknown);
        for _ in 0..40 {
            other.recover(8).await.expect("the store works");
            clock.latency(Duration::from_secs(2)).await;
        }
        assert_eq!(sent.lock().len(), 1, "{ahead:?}: one order");
    }
}

//! The process that is killed: a service that takes orders and sends each key again until it has ended.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use steadfast::policy::{Backoff, ConcurrencyConfig, RecordConfig, Timeouts};
use steadfast::random::Random as _;
use steadfast::store::Sqlite;
use steadfast::testkit::SeededRandom;
use steadfast::transport::Http;
use steadfast::vendor::{BigCommerce, Postmark, Stripe};
use steadfast::{Call, Client, ClientBuilder, Policy};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::plan::{DECLINED_EVERY, STEPS, address, key};

/// How long after an unknown outcome a look-up is believed: the fakes' lag, and several times what a request
/// that was cut off may take on its way through a fake on a busy machine.
const SETTLE_TIME: Duration = Duration::from_millis(400);
const ATTEMPT: Duration = Duration::from_millis(300);
const LEASE_MARGIN: Duration = Duration::from_millis(200);
/// Room for the ladder and for the look-ups behind it.
const TOTAL: Duration = Duration::from_secs(5);
const SWEEP_PERIOD: Duration = Duration::from_millis(50);
/// Orders come in over this time, so that a kill meets some that are new, some under way and some done.
const ARRIVALS_MS: u64 = 60;
const SENDS_MAX: usize = 192;

/// What a driver is told.
pub struct Orders {
    pub file: String,
    /// The vendors', in the order of [`STEPS`].
    pub urls: String,
    /// From this one on, the orders are new.
    pub fresh: usize,
    pub count: usize,
    pub seed: u64,
    /// Whether it ends once the orders have.
    pub last: bool,
}

impl Orders {
    pub fn from_environment() -> Option<Orders> {
        let text = std::env::var("CRASH_ORDERS").ok()?;
        let (numbers, urls) = (text, std::env::var("CRASH_URLS").ok()?);
        let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [fresh, count, seed, last] = numbers[..] else { panic!("four numbers") };
        Some(Orders {
            file: std::env::var("CRASH_FILE").ok()?,
            urls,
            fresh: fresh as usize,
            count: count as usize,
            seed,
            last: last == 1,
        })
    }

    pub fn to_environment(&self) -> [(&'static str, String); 3] {
        let Orders { file, urls, fresh, count, seed, last } = self;
        [
            ("CRASH_FILE", file.clone()),
            ("CRASH_URLS", urls.clone()),
            ("CRASH_ORDERS", format!("{fresh} {count} {seed} {}", u8::from(*last))),
        ]
    }
}

pub async fn drive(orders: Orders) {
    die_with_the_harness();
    let shop = Arc::new(Shop::open(&orders));
    let sweepers = shop.clients.each_ref().map(|client| client.keep_recovering(SWEEP_PERIOD));
    say("ready");
    let random = SeededRandom::new(orders.seed);
    let room = Arc::new(Semaphore::new(SENDS_MAX));
    let mut sends = JoinSet::new();
    // The newest first: what is older has most likely ended.
    for order in (0..orders.count).rev() {
        for vendor in 0..STEPS.len() {
            let delay = if order >= orders.fresh { random.next_u64() % ARRIVALS_MS } else { 0 };
            let (shop, room) = (shop.clone(), room.clone());
            sends.spawn(async move {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                let _permit = room.acquire().await.expect("never closed");
                shop.deliver(vendor, order).await;
            });
        }
    }
    while let Some(ended) = sends.join_next().await {
        ended.expect("no panic");
    }
    if !orders.last {
        // More is to come only with the next process; until the kill there is what others left.
        std::future::pending::<()>().await;
    }
    drop(sweepers);
}

struct Shop {
    clients: [Client; 3],
}

impl Shop {
    fn open(orders: &Orders) -> Shop {
        let urls: Vec<&str> = orders.urls.split(' ').collect();
        let store = Arc::new(Sqlite::open(&orders.file).expect("the file opens"));
        let http = Http::builder().connect_timeout(ATTEMPT).build().expect("a transport");
        let client = |builder: ClientBuilder| {
            builder
                .policy(policy())
                .transport(http.clone())
                .store(Arc::clone(&store))
                .namespace("crash")
                .build()
                .expect("a client")
        };
        let stripe = Stripe::new("sk_test_crash").base_url(urls[0]).settle_time(SETTLE_TIME);
        let bigcommerce = BigCommerce::new("abc123", "token").base_url(urls[1]).settle_time(SETTLE_TIME);
        let postmark = Postmark::new("crash-token").base_url(urls[2]).settle_time(SETTLE_TIME);
        let builders = [Client::builder(stripe), Client::builder(bigcommerce), Client::builder(postmark)];
        Shop { clients: builders.map(client) }
    }

    fn call(&self, vendor: usize, order: usize) -> Call {
        let key = key(order, STEPS[vendor]);
        let client = &self.clients[vendor];
        match vendor {
            0 => {
                let amount = (1000 + order).to_string();
                let declined = order.is_multiple_of(DECLINED_EVERY);
                let card = if declined { "pm_card_chargeDeclined" } else { "pm_card_visa" };
                let form = [("amount", amount.as_str()), ("currency", "usd"), ("payment_method", card)];
                client.post("/v1/payment_intents").key(key).form(&form)
            }
            1 => client
                .post("/v2/orders")
                .key(key)
                .json(&json!({"status_id": 0, "products": [{"product_id": order, "quantity": 1}]})),
            _ => client.post("/email").key(key).json(&json!({
                "From": "shop@example.com",
                "To": address(order),
                "Subject": format!("Your order {order}"),
                "TextBody": "Thank you.",
            })),
        }
    }

    /// Sends until the operation has ended: what is postponed, held elsewhere or could not be written down is
    /// sent again under the same key.
    async fn deliver(&self, vendor: usize, order: usize) {
        loop {
            match self.call(vendor, order).send().await {
                Ok(_) => return,
                Err(error) if error.is_dead_letter() || error.is_refused() => return,
                Err(error) => {
                    assert!(!error.is_validation() && !error.is_key_reused(), "{error}");
                    let at = error.retry_at().unwrap_or_else(SystemTime::now);
                    let wait = at.duration_since(SystemTime::now()).unwrap_or_default();
                    tokio::time::sleep(wait.max(Duration::from_millis(20))).await;
                }
            }
        }
    }
}

/// Short in everything, so that a run is. No budget and no breaker: they would only hold the load back that
/// the kills are to meet.
fn policy() -> Policy {
    Policy::background()
        .backoff(Backoff::ladder([20, 60, 150].map(Duration::from_millis)))
        .timeout(Timeouts::new(ATTEMPT, ATTEMPT, TOTAL))
        .record(RecordConfig::new(Duration::from_secs(3600), LEASE_MARGIN))
        .look_ups_max(3)
        // The fakes are unoptimised: more at once, and look-ups time out instead of telling.
        .concurrency(ConcurrencyConfig::new(24))
        .admission_wait(Duration::from_secs(1))
        .without_budget()
        .without_breaker()
}

/// The harness holds the other end of the standard input: when it is gone, however it went, so is this.
fn die_with_the_harness() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
}

fn say(word: &str) {
    writeln!(std::io::stderr(), "{word}").expect("somebody listens");
}

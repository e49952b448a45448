//! A driver's clients of the vendors on one file, and the calls that it makes with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, SystemTime};

use serde_json::json;
use steadfast::clock::Clock as _;
use steadfast::store::Store;
use steadfast::testkit::FixedRandom;
use steadfast::transport::Http;
use steadfast::vendor::{Adyen, BigCommerce, Keyed, KeyedConfig, Postmark, Stripe, Vendor};
use steadfast::{Call, Client, Policy};

use crate::clock::{MovedClock, Time};
use crate::file;
use crate::orders::{Ask, Orders, Site};
use crate::plan::{ADYEN, DECLINED_EVERY, INCREASE, STEPS, VENDORS, address, key, vendor_of};
use crate::seams::{Passage, SeamStore, SeamTransport};
use crate::words::{OPERATION, Words};
use support::adyen;
use support::stripe_routes;

/// The things that all of a process's shops share.
pub struct Trade {
    pub orders: Orders,
    pub clock: MovedClock,
    pub http: Http,
    pub passage: Arc<Passage>,
}

impl Trade {
    pub fn new(orders: Orders) -> Trade {
        // The one limit that no injected clock reaches.
        let connect = orders.time.on_machine(policy(&orders).timeout.connect);
        let client = move || {
            let client = reqwest::Client::builder().connect_timeout(connect);
            // The vendors speak plain HTTP; reading the machine's root certificates would be most of each start.
            #[cfg(any(feature = "rustls", feature = "native-tls"))]
            let client = client.tls_certs_only([]);
            client
        };
        let http = Http::over(client).expect("a transport");
        let words = Words::new(orders.time, &orders.words);
        let passage = Passage::new(orders.failpoint, orders.is_told, words);
        let clock = MovedClock::off_by(orders.time, orders.wall_off_ms);
        Trade { clock, http, passage, orders }
    }
}

pub struct Shop {
    pub clients: [Client; VENDORS.len()],
    pub store: Arc<dyn Store>,
    pub store_failed: AtomicBool,
    pub passage: Arc<Passage>,
    pub clock: MovedClock,
    time: Time,
}

impl Shop {
    /// The one place where clients are made: whoever wants to take a guard away puts a wrapper around the store
    /// or around a vendor here.
    pub fn open(trade: &Trade, path: &str) -> Shop {
        let [stripe, bigcommerce, postmark, adyen, increase] = &trade.orders.urls;
        let inner = file::open_at(path, &trade.clock);
        let store: Arc<dyn Store> = Arc::new(SeamStore { inner, passage: Arc::clone(&trade.passage) });
        let stripe = Stripe::new("sk_test_crash").base_url(stripe);
        let bigcommerce = BigCommerce::new("abc123", "token").base_url(bigcommerce);
        let postmark = Postmark::new("crash-token").base_url(postmark);
        let clients = [
            client(trade, &store, stripe),
            client(trade, &store, bigcommerce),
            client(trade, &store, postmark),
            client(trade, &store, Adyen::new("crash-key").base_url(adyen)),
            client(trade, &store, Keyed::new(config_of(increase), "sk_test_increase")),
        ];
        let (passage, clock) = (Arc::clone(&trade.passage), trade.clock.clone());
        let store_failed = AtomicBool::new(false);
        Shop { clients, store, store_failed, passage, clock, time: trade.orders.time }
    }

    /// A step of an order.
    pub fn call(&self, step: usize, order: usize) -> Call {
        let (key, vendor) = (key(order, STEPS[step]), vendor_of(step, order));
        if vendor == ADYEN {
            let call = self.clients[ADYEN].post("/v71/payments").json(&adyen::payment(order));
            return call.header(OPERATION, key.as_str()).key(key);
        }
        if step == 0 && order % 4 == 1 {
            let call = stripe_routes::create(&self.clients[vendor], order);
            return call.header(OPERATION, key.as_str()).key(key);
        }
        let asks = if order.is_multiple_of(DECLINED_EVERY) && step == 0 { Ask::No } else { Ask::Yes };
        self.ask(vendor, asks, key, order, &address(order))
    }

    /// The only operation of its file.
    pub fn call_alone(&self, vendor: usize, site: &Site) -> Call {
        let address = match site.asks {
            Ask::Yes => "customer@example.com",
            Ask::No => BOUNCING,
        };
        if vendor == 1 && site.asks == Ask::No {
            // A product without what a product must have.
            let product = json!({"sku": site.key()});
            let call = self.clients[1].post("/v3/catalog/products").key(site.key()).json(&product);
            return call.header(OPERATION, site.key());
        }
        self.ask(vendor, site.asks, site.key(), 1, address)
    }

    fn ask(&self, vendor: usize, asks: Ask, key: String, order: usize, address: &str) -> Call {
        let client = &self.clients[vendor];
        let operation = key.clone();
        let call = match vendor {
            0 | INCREASE => {
                let amount = (1000 + order).to_string();
                let card = if asks == Ask::No { "pm_card_chargeDeclined" } else { "pm_card_visa" };
                let form = [
                    ("amount", amount.as_str()),
                    ("currency", "usd"),
                    ("payment_method", card),
                    ("payment_method_types[]", "card"),
                    ("confirm", "true"),
                ];
                client.post("/v1/payment_intents").key(key).form(&form)
            }
            1 => client
                .post("/v2/orders")
                .key(key)
                .json(&json!({"status_id": 0, "billing_address": {"zip": "12345"}, "products": [{"product_id": order + 1, "quantity": 1}]})),
            _ => client.post("/email").key(key).json(&json!({
                "From": "shop@example.com",
                "To": address,
                "Subject": format!("Your order {order}"),
                "TextBody": "Thank you.",
            })),
        };
        call.header(OPERATION, operation)
    }

    /// Until then, as long as it takes on the machine.
    pub fn real_wait_until(&self, at: SystemTime) -> Duration {
        let now = SystemTime::from(self.clock.wall());
        self.time.on_machine(at.duration_since(now).unwrap_or_default())
    }
}

fn client(trade: &Trade, store: &Arc<dyn Store>, vendor: impl Vendor) -> Client {
    let transport = SeamTransport {
        inner: trade.http.clone(),
        passage: Arc::clone(&trade.passage),
        sent: AtomicUsize::new(0),
    };
    let builder = Client::builder(vendor)
        .policy(policy(&trade.orders))
        .clock(trade.clock.clone())
        .transport(transport)
        .store(Arc::clone(store))
        .namespace("crash");
    let builder = if trade.orders.manner.without_jitter {
        builder.random(FixedRandom::just_under_one())
    } else {
        builder
    };
    builder.build().expect("a client")
}

/// The preset at a vendor that keeps keys for a day, which the preset does not say.
fn config_of(url: &str) -> KeyedConfig {
    let mut config = KeyedConfig::preset("increase").expect("a preset");
    config.base_url = url.to_owned();
    config.window = Some(Duration::from_secs(24 * 3600));

    config
}

/// No budget and no breaker: they would only hold the load back that the kills are to meet.
fn policy(orders: &Orders) -> Policy {
    let shipped = Policy::background();
    let policy = if orders.manner.without_lookups { shipped.lookups_max(0) } else { shipped };
    // The fakes are unoptimised: more at once, and lookups time out instead of telling. Who waits for room waits no
    // longer than for an answer.
    let attempt = policy.timeout.attempt;
    policy.concurrency(24).admission_wait(attempt).without_budget().without_breaker()
}

/// An address that the fake holds for dead.
pub const BOUNCING: &str = "nobody@example.com";

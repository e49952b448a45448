//! An account at the Stripe fake, as a test asks it, by a clock of the test's.

use std::time::Duration;

use http::Method;
use serde_json::Value;
use steadfast_core::clock::Clock as _;
use steadfast_fakes::{InProcess, StripeFake};
use steadfast_testkit::TestClock;

use support::answers::asked;

pub const HOUR: u64 = 3600;
pub const DAY: u64 = 24 * HOUR;
pub const VISA: &str = "pm_card_visa";

pub struct Account {
    network: InProcess,
    clock: TestClock,
    /// Of the API, as requests name it.
    version: &'static str,
}

impl Account {
    pub fn open() -> Account {
        Account::at("2026-07-29.dahlia")
    }

    pub fn at(version: &'static str) -> Account {
        let clock = TestClock::new();
        let fake = StripeFake::builder().test_clock(&clock).in_process();
        Account { network: fake.transport(), clock, version }
    }

    /// The answer to a request whose path begins below `/v1/`.
    pub async fn ask(&self, method: Method, path: &str, form: &str) -> Value {
        self.ask_with("Bearer sk_test_1", method, path, form).await
    }

    pub async fn ask_with(&self, key: &str, method: Method, path: &str, form: &str) -> Value {
        let headers = [
            ("authorization", key),
            ("content-type", "application/x-www-form-urlencoded"),
            ("stripe-version", self.version),
        ];
        asked(&self.network, method, &format!("/v1/{path}"), &headers, form.to_owned()).await.1
    }

    pub async fn make(&self, path: &str, form: &str) -> Value {
        let made = self.ask(Method::POST, path, form).await;
        assert_eq!(made["error"], Value::Null, "{path} {form}");
        made
    }

    pub async fn get(&self, path: &str) -> Value {
        let found = self.ask(Method::GET, path, "").await;
        assert_eq!(found["error"], Value::Null, "{path}");
        found
    }

    /// A customer whose invoices are paid by this card, if any.
    pub async fn customer(&self, card: &str) -> String {
        let form = match card {
            "" => String::new(),
            card => format!("payment_method={card}&invoice_settings[default_payment_method]={card}"),
        };
        id(&self.make("customers", &form).await)
    }

    pub async fn price(&self, form: &str) -> String {
        id(&self.make("prices", &format!("product_data[name]=P&{form}")).await)
    }

    /// A customer's own payment method of this card.
    pub async fn attached(&self, customer: &str, token: &str) -> String {
        let method = self.make("payment_methods", &format!("type=card&card[token]={token}")).await;
        self.make(&format!("payment_methods/{}/attach", id(&method)), &format!("customer={customer}")).await;
        id(&method)
    }

    pub async fn latest_invoice(&self, subscription: &str) -> Value {
        let invoice = self.get(subscription).await["latest_invoice"].as_str().unwrap().to_owned();
        self.get(&format!("invoices/{invoice}")).await
    }

    pub async fn events(&self, kind: &str) -> Vec<Value> {
        self.get(&format!("events?limit=100&type={kind}")).await["data"].as_array().unwrap().clone()
    }

    pub fn wait(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub fn now(&self) -> u64 {
        self.clock.wall().as_millis() / 1000
    }
}

pub fn id(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}

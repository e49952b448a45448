//! A service's own code, to be copied: three clients on one file, and what they do for an order.
//!
//! Nothing here knows of a crash. The process may be killed at any moment; the next one takes the same orders
//! again, under the same keys.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use steadfast::dispatcher::Dispatcher;
use steadfast::store::Sqlite;
use steadfast::vendor::{BigCommerce, Postmark, Stripe};
use steadfast::{Call, Client, Error, OnUnknown, Policy, Reply};

pub struct Shop {
    stripe: Client,
    bigcommerce: Client,
    postmark: Client,
}

/// The part of BigCommerce's answer that the receipt needs.
#[derive(Deserialize)]
struct Created {
    id: u64,
}

impl Shop {
    /// One client for each vendor, built once; one file for all of them.
    pub fn open(
        stripe: Stripe,
        bigcommerce: BigCommerce,
        postmark: Postmark,
        policy: &Policy,
        store: &Arc<Sqlite>,
    ) -> Result<Shop, Error> {
        Ok(Shop {
            stripe: Client::builder(stripe).policy(policy.clone()).store(Arc::clone(store)).build()?,
            bigcommerce: Client::builder(bigcommerce)
                .policy(policy.clone())
                .store(Arc::clone(store))
                .build()?,
            postmark: Client::builder(postmark).policy(policy.clone()).store(Arc::clone(store)).build()?,
        })
    }

    pub fn clients(&self) -> [&Client; 3] {
        [&self.stripe, &self.bigcommerce, &self.postmark]
    }

    /// Sends what is enqueued and due, and carries on with what a dead process left, until the guard is dropped.
    pub fn deliver(&self, period: Duration) -> Dispatcher {
        Dispatcher::over(self.clients()).period(period).start()
    }

    /// Charges the order, creates it, mails the receipt. A step that fails for good ends it: no order without
    /// a charge, no receipt without an order.
    pub async fn take(&self, order: usize) -> Result<(), Error> {
        outcome(self.charge(order)).await?;
        let created: Created = outcome(self.create(order)).await?.json()?;
        outcome(self.mail(order, created.id)).await?;
        Ok(())
    }

    /// Stripe replays its first answer to the same key: a lost answer costs one more request.
    fn charge(&self, order: usize) -> Call {
        let amount = (1000 + order).to_string();
        self.stripe
            .post("/v1/payment_intents")
            .key(key(order, CHARGE))
            .form(&[("amount", amount.as_str()), ("currency", "usd")])
    }

    /// BigCommerce knows no keys, but finds an order by the key that is stamped into it.
    fn create(&self, order: usize) -> Call {
        self.bigcommerce
            .post("/v2/orders")
            .key(key(order, CREATE))
            .json(&json!({"status_id": 0, "billing_address": {"zip": "12345"}, "products": [{"product_id": order + 1, "quantity": 1}]}))
    }

    /// Postmark knows no keys, and a search that finds nothing proves nothing. Where it stays unknown, a receipt
    /// is better sent twice than never. A gift card is not: the default leaves it to a person.
    fn mail(&self, order: usize, number: u64) -> Call {
        let to = format!("customer-{order}@example.com");
        let subject = format!("Your order {number}");
        let call = match mail_of(order) {
            Mail::Receipt => self
                .postmark
                .post("/email")
                .json(&json!({"From": FROM, "To": to, "Subject": subject, "TextBody": "Thank you."}))
                .on_unknown(OnUnknown::Resend),
            Mail::GiftCard => self
                .postmark
                .post("/email")
                .json(&json!({"From": FROM, "To": to, "Subject": subject, "TextBody": "Your gift card."})),
            Mail::Template => self.postmark.post(TEMPLATE_ROUTE).json(&json!({
                "From": FROM, "To": to, "TemplateAlias": "receipt", "TemplateModel": {"order": number},
            })),
        };
        call.key(key(order, MAIL))
    }
}

/// Puts a call on record, and waits for its outcome. The dispatcher sends it, as often and as late as it takes. If this
/// process dies, the next one enqueues the same key, and waits for the same operation.
async fn outcome(call: Call) -> Result<Reply, Error> {
    call.enqueue().await?.wait(PATIENCE).await
}

/// Names one step of an order: the same text in every process that ever works on it.
pub fn key(order: usize, step: &str) -> String {
    format!("order-{order}/{step}")
}

/// Every tenth mail holds a gift card. For a while, some receipts are made from a template, at a route of its own.
fn mail_of(order: usize) -> Mail {
    match order % 10 {
        5 => Mail::GiftCard,
        0 if WITH_TEMPLATES.contains(&order) => Mail::Template,
        _ => Mail::Receipt,
    }
}

enum Mail {
    Receipt,
    GiftCard,
    Template,
}

pub const CHARGE: &str = "charge";
pub const CREATE: &str = "create";
pub const MAIL: &str = "mail";
const WITH_TEMPLATES: Range<usize> = 120..150;
pub const TEMPLATE_ROUTE: &str = "/email/withTemplate";
const FROM: &str = "shop@example.com";
/// A call that takes longer goes on without us: the error says that it is in progress.
const PATIENCE: Duration = Duration::from_secs(3_600);

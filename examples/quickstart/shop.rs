//! The service's own code: three clients on one file, and what they do for an order.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use steadfast::dispatcher::Dispatcher;
use steadfast::policy::{Backoff, BudgetConfig, RecordConfig, Timeouts};
use steadfast::store::Sqlite;
use steadfast::testkit::SeededRandom;
use steadfast::vendor::{BigCommerce, Postmark, Stripe};
use steadfast::{Call, Client, ClientBuilder, Error, Policy};

pub(crate) const ORDERS: usize = 200;

/// Who does which step of an order, in this sequence.
pub(crate) const VENDORS: [&str; 3] = ["stripe", "bigcommerce", "postmark"];
const STEPS: [&str; 3] = ["charge", "create", "receipt"];

/// Every fortieth customer's receipt is made from a template, at a route of its own.
pub(crate) const TEMPLATE_ROUTE: &str = "/email/withTemplate";
const TEMPLATE_EVERY: usize = 40;

/// How long after a lost answer a look-up is believed: longer than the fakes take to show a new effect.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// How much longer than its attempt an operation is held. A real service keeps the default of 30 s; here it
/// is what one waits for after the kill.
const LEASE_MARGIN: Duration = Duration::from_millis(500);
const KEEP: Duration = Duration::from_secs(60 * 60);
const RECOVERY_PERIOD: Duration = Duration::from_millis(200);

/// How soon the shop asks again for an operation that somebody else holds: recovery may be done with it long
/// before the lease ends.
const ASK_AGAIN_MAX: Duration = Duration::from_millis(250);

/// How often one operation is asked for before the example calls it lost: a minute, all told.
const ROUNDS_MAX: usize = 240;

/// The key of one step of an order: the operation's name, in every process that ever works on it.
pub(crate) fn key(order: usize, vendor: usize) -> String {
    format!("order-{order}/{}", STEPS[vendor])
}

/// How the worker hears what became of a step, in the order of [`VENDORS`].
pub(crate) trait Watch: Sync {
    fn ended(&self, vendor: usize, succeeded: bool);
    fn postponed(&self);
}

pub(crate) struct Shop {
    clients: [Client; 3],
}

impl Shop {
    pub(crate) fn open(urls: &[String; 3], seed: u64, store: &Arc<Sqlite>) -> Result<Shop, Error> {
        let [stripe, bigcommerce, postmark] = urls;
        let stripe = Stripe::new("sk_test_quickstart").base_url(stripe).settle_time(SETTLE_TIME);
        let bigcommerce = BigCommerce::new("abc123", "token").base_url(bigcommerce).settle_time(SETTLE_TIME);
        let postmark = Postmark::new("quickstart-token").base_url(postmark).settle_time(SETTLE_TIME);
        let client = |builder: ClientBuilder| {
            builder.policy(policy()).store(Arc::clone(store)).random(SeededRandom::new(seed)).build()
        };
        Ok(Shop {
            clients: [
                client(Client::builder(stripe))?,
                client(Client::builder(bigcommerce))?,
                client(Client::builder(postmark))?,
            ],
        })
    }

    pub(crate) fn clients(&self) -> &[Client; 3] {
        &self.clients
    }

    /// Carries on with what a dead process left and with what is due, until the guards are dropped.
    pub(crate) fn keep_recovering(&self) -> [Dispatcher; 3] {
        self.clients.each_ref().map(|client| client.keep_recovering(RECOVERY_PERIOD))
    }

    /// Takes one order as far as it goes. A step that fails for good ends it: no receipt without an order, no
    /// order without a charge.
    ///
    /// Nothing here knows of a crash. A step that a dead process had finished answers from the record, one that
    /// it had under way is taken over.
    pub(crate) async fn take(&self, order: usize, watch: &impl Watch) {
        for vendor in 0..VENDORS.len() {
            let succeeded = self.deliver(vendor, order, watch).await;
            watch.ended(vendor, succeeded);
            if !succeeded {
                return;
            }
        }
    }

    /// Sends a step until it has ended, always under the same key: what is postponed carries on when it is due.
    async fn deliver(&self, vendor: usize, order: usize, watch: &impl Watch) -> bool {
        for _ in 0..ROUNDS_MAX {
            let error = match self.call(vendor, order).send().await {
                Ok(_) => return true,
                Err(error) => error,
            };
            if error.is_dead_letter() || error.is_refused() {
                return false;
            }
            // Somebody else holds it, its ladder goes on later, or the answer could not be written down.
            if !error.is_in_progress() {
                watch.postponed();
            }
            ask_again_at(error.retry_at()).await;
        }
        false
    }

    fn call(&self, vendor: usize, order: usize) -> Call {
        let [stripe, bigcommerce, postmark] = &self.clients;
        let call = match vendor {
            0 => {
                let amount = (1000 + order).to_string();
                stripe.post("/v1/payment_intents").form(&[("amount", amount.as_str()), ("currency", "usd")])
            }
            1 => bigcommerce
                .post("/v2/orders")
                .json(&json!({"status_id": 0, "products": [{"product_id": order, "quantity": 1}]})),
            _ if order.is_multiple_of(TEMPLATE_EVERY) => postmark.post(TEMPLATE_ROUTE).json(&json!({
                "From": "shop@example.com",
                "To": format!("customer-{order}@example.com"),
                "TemplateAlias": "receipt",
                "TemplateModel": {"order": order},
            })),
            _ => postmark.post("/email").json(&json!({
                "From": "shop@example.com",
                "To": format!("customer-{order}@example.com"),
                "Subject": format!("Your order {order}"),
                "TextBody": "Thank you.",
            })),
        };
        call.key(key(order, vendor))
    }
}

/// The background policy with its ladder at a tenth and short leases, so that the example is over in seconds.
fn policy() -> Policy {
    let ladder = Policy::background().backoff.steps.iter().map(|step| *step / 10).collect::<Vec<_>>();
    let second = Duration::from_secs(1);
    Policy::background()
        .backoff(Backoff::ladder(ladder))
        .timeout(Timeouts::new(second, second, 20 * second))
        .record(RecordConfig::new(KEEP, LEASE_MARGIN))
        // One answer in six is a fault here. The default of one retry to ten calls would hold most of them back, as
        // it should where a vendor fails that often because it goes down under its load.
        .budget(BudgetConfig::new(0.3, 30, 2.0))
        // A call that meets a closed gate waits a little instead of failing at once.
        .admission_wait(5 * second)
}

/// Real time, because the fakes run in it.
#[allow(clippy::disallowed_methods, reason = "the example's own waiting, not the library's")]
async fn ask_again_at(at: Option<SystemTime>) {
    let wait = at.and_then(|at| at.duration_since(SystemTime::now()).ok());
    tokio::time::sleep(wait.unwrap_or_default().min(ASK_AGAIN_MAX)).await;
}

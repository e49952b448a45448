//! The service: three clients, and what they do for an order.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use steadfast::policy::{Backoff, Timeouts};
use steadfast::testkit::fakes::{BigCommerceFake, Ledger, PostmarkFake, StripeFake};
use steadfast::testkit::{Fault, FaultPlan, WaitForm};
use steadfast::vendor::{BigCommerce, Postmark, Stripe};
use steadfast::{Call, Client, Error, Policy, Reply};

use super::report::{End, Outcome, Progress, VENDORS};

/// The faults that each vendor draws from, at the rate below.
const FAULTS: &[Fault] = &[
    Fault::DropBeforeRead,
    Fault::DropAfterApply,
    Fault::Reset,
    Fault::ResetAfterApply,
    Fault::TruncatedBody,
    Fault::Error500Before,
    Fault::Error500After,
    Fault::Html,
    Fault::TooManyRequests(WaitForm::VendorForm(Duration::from_millis(300))),
    Fault::KeyInUse,
];
const FAULT_RATE: f64 = 0.16;

/// How long the fakes need until a look-up shows a new effect, and so how long the adapters wait for it.
const INDEX_LAG: Duration = Duration::from_millis(100);
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// What a store on the Pro plan may call in 30 s; the whole run fits in.
const BIGCOMMERCE_QUOTA: u32 = 450;

/// How often one operation is taken up again before the example calls it lost.
const ROUNDS_MAX: usize = 50;

pub(crate) struct Shop {
    stripe: Client,
    bigcommerce: Client,
    postmark: Client,
    stripe_fake: StripeFake,
    bigcommerce_fake: BigCommerceFake,
    postmark_fake: PostmarkFake,
    progress: Arc<Progress>,
}

impl Shop {
    pub(crate) async fn open(seed: u64, progress: Arc<Progress>) -> Result<Shop, Error> {
        let plan =
            |vendor: u64| FaultPlan::seeded(seed.wrapping_mul(3).wrapping_add(vendor), FAULT_RATE, FAULTS);
        let stripe_fake = StripeFake::builder().plan(plan(0)).start().await;
        let bigcommerce_fake =
            BigCommerceFake::builder().plan(plan(1)).quota(BIGCOMMERCE_QUOTA).start().await;
        let postmark_fake = PostmarkFake::builder().plan(plan(2)).search_lag(INDEX_LAG).start().await;
        let stripe = Stripe::new("sk_test_quickstart").base_url(stripe_fake.url()).settle_time(SETTLE_TIME);
        let bigcommerce =
            BigCommerce::new("abc123", "token").base_url(bigcommerce_fake.url()).settle_time(SETTLE_TIME);
        let postmark =
            Postmark::new("quickstart-token").base_url(postmark_fake.url()).settle_time(SETTLE_TIME);
        Ok(Shop {
            stripe: Client::builder(stripe).policy(policy()).build()?,
            bigcommerce: Client::builder(bigcommerce).policy(policy()).build()?,
            postmark: Client::builder(postmark).policy(policy()).build()?,
            stripe_fake,
            bigcommerce_fake,
            postmark_fake,
            progress,
        })
    }

    /// What really took effect, in the order of [`VENDORS`].
    pub(crate) fn ledgers(&self) -> [Ledger; 3] {
        [self.stripe_fake.ledger(), self.bigcommerce_fake.ledger(), self.postmark_fake.ledger()]
    }

    /// Takes one order as far as it goes. A step that fails for good ends it: no receipt without an order, no
    /// order without a charge.
    pub(crate) async fn take(&self, order: usize, outcomes: &mut Vec<Outcome>) {
        let amount = (1000 + order).to_string();
        let charge = || {
            self.stripe
                .post("/v1/payment_intents")
                .key(format!("order-{order}/charge"))
                .form(&[("amount", amount.as_str()), ("currency", "usd")])
        };
        let create = || {
            self.bigcommerce
                .post("/v2/orders")
                .key(format!("order-{order}/create"))
                .json(&json!({"status_id": 0, "products": [{"product_id": order, "quantity": 1}]}))
        };
        let receipt = || {
            self.postmark.post("/email").key(format!("order-{order}/receipt")).json(&json!({
                "From": "shop@example.com",
                "To": format!("customer-{order}@example.com"),
                "Subject": format!("Your order {order}"),
                "TextBody": "Thank you.",
            }))
        };
        let steps: [&(dyn Fn() -> Call + Sync); 3] = [&charge, &create, &receipt];
        for (vendor, step) in steps.into_iter().enumerate() {
            let outcome = self.deliver(vendor, step).await;
            let went_well = matches!(outcome.end, End::Succeeded);
            self.progress.ended(vendor, &outcome);
            outcomes.push(outcome);
            if !went_well {
                return;
            }
        }
    }

    /// Sends a step until it has ended: what is postponed carries on under the same key when it is due.
    async fn deliver(&self, vendor: usize, step: &(dyn Fn() -> Call + Sync)) -> Outcome {
        let mut outcome = Outcome::begun(VENDORS[vendor]);
        for _ in 0..ROUNDS_MAX {
            match step().send().await {
                Ok(reply) => return outcome.succeeded(&reply),
                Err(error) => match error.retry_at().filter(|_| !error.is_dead_letter()) {
                    Some(at) => {
                        outcome.postponed(&error);
                        self.progress.postponed(vendor);
                        outcome.waited += wait_until(at).await;
                    }
                    None => return outcome.failed(&error),
                },
            }
        }
        outcome
    }
}

/// The background policy with its ladder at a tenth, so that the example is over in seconds.
fn policy() -> Policy {
    let ladder = Policy::background().backoff.steps.iter().map(|step| *step / 10).collect::<Vec<_>>();
    let second = Duration::from_secs(1);
    Policy::background()
        .backoff(Backoff::ladder(ladder))
        .timeout(Timeouts::new(second, 2 * second, 20 * second))
        // A call that meets a closed gate waits a little instead of failing at once.
        .admission_wait(5 * second)
}

/// Real time, because the fakes run in it.
#[allow(clippy::disallowed_methods, reason = "the example's own waiting, not the library's")]
async fn wait_until(at: SystemTime) -> Duration {
    let wait = at.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::time::sleep(wait).await;
    wait
}

impl Outcome {
    fn succeeded(mut self, reply: &Reply) -> Outcome {
        self.attempts = reply.attempts();
        self.waited += reply.waited();
        self.wire_key = reply.wire_key().map(str::to_owned);
        self.end = End::Succeeded;
        self
    }

    fn postponed(&mut self, error: &Error) {
        self.attempts += error.attempts().len() as u32;
        self.waited += error.waited();
        self.wire_key = error.wire_key().map(str::to_owned).or(self.wire_key.take());
    }

    fn failed(mut self, error: &Error) -> Outcome {
        self.postponed(error);
        self.end = End::Failed { effect: error.effect(), dead_letter: error.is_dead_letter() };
        self
    }
}

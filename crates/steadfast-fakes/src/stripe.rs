//! Stripe: a vendor that deduplicates, and what that really promises.
//!
//! Each of these has its test in `tests/stripe/rules.rs`. The record of a key belongs to the account and mode, not to
//! the endpoint. It is written only once execution starts, so a validation error, a 401, a 429 and a conflict leave
//! the key free. Everything else, a 402 and a 500 included, is replayed byte for byte for 24 hours and then executes
//! again (<https://docs.stripe.com/api/idempotent_requests>, <https://docs.stripe.com/error-low-level>).
//!
//! That is v1. Paths below `/v2` go by v2's own rules: the module `v2`, and `tests/stripe/v2.rs`.

use std::sync::Arc;
use std::time::Duration;

use self::machine::Machine;
pub(super) use self::settings::StripeSettings;
use super::builder::FakeBuilder;
use super::serve::Served;
use super::shared::shared_by_fakes;

mod actions;
mod answers;
mod cards;
mod contract;
mod desk;
mod edge;
mod expand;
mod headers;
mod life;
mod machine;
mod objects;
mod params;
mod reads;
mod records;
mod refusal;
mod settings;
mod v2;
mod webhooks;

pub use answers::{ConflictType, RateLimitReason, StripeAnswer};

/// A Stripe that keeps accounts of what was charged.
///
/// ```
/// use steadfast::Client;
/// use steadfast::testkit::{Fault, TestClock, fakes::StripeFake};
/// use steadfast::vendor::Stripe;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), steadfast::Error> {
/// let clock = TestClock::auto();
/// let fake = StripeFake::builder().test_clock(&clock).start().await;
/// fake.plan().next(Fault::DropAfterApply); // Charged, and the answer is lost.
///
/// // The code under test, with a client of the fake.
/// let vendor = Stripe::new("sk_test_123").base_url(fake.url());
/// let stripe = Client::builder(vendor).clock(clock).build()?;
/// let form = [("amount", "1000"), ("currency", "usd")];
/// stripe.post("/v1/charges").key("order-42").form(&form).send().await?;
///
/// assert_eq!((fake.plan().pending(), fake.ledger().count()), (0, 1));
/// # Ok(())
/// # }
/// ```
///
/// - The resources, their parameters and their fields are in `fixtures/stripe_contract.json`. An unknown
///   resource, parameter, filter, currency, id, version or expansion is refused as Stripe refuses it. So is a parameter
///   of Stripe's that the fake does not act on: discounts, taxes, fees of applications, test clocks.
/// - A request that is refused leaves nothing. A payment that is declined is the exception, as at Stripe: its failed
///   charge is shown, and its intent says why.
/// - The account takes cards, and its Dashboard has kinds of payment methods enabled that redirect. So from
///   version 2023-08-16 on a confirmation needs `return_url`, or an intent with `payment_method_types[]=card` or
///   `allow_redirects=never`.
/// - Each `POST` and `DELETE` that executes is one [`Effect`](super::Effect). Payment intents, charges, refunds,
///   invoices, subscriptions, payouts and transfers go through their life cycles, and their money adds up.
/// - An event that is due by the injected clock takes place before the next request is answered. A payout is paid on
///   its `arrival_date`, a top-up succeeds on its `expected_availability_date`, a line of the balance is available
///   from its `available_on`. A subscription with `cancel_at_period_end` is canceled at its `cancel_at`.
/// - A trial ends and a period is renewed: the subscription is active in its next period, with a draft of an invoice. An hour
///   later it is finalized, and paid or sent. A payment that fails makes the subscription past due, and so does a due date
///   that passes. A subscription whose first invoice is not paid in 23 hours is expired. A trial begins with a paid invoice
///   for 0.
/// - A change of a subscription's items prorates to the second: a credit and a charge, as invoice items for the next
///   invoice. `proration_behavior` bills them at once or leaves them out. Another interval, a move from free to paid and
///   `trial_end=now` begin a new period, and are billed at once. `POST /v1/subscription_items/{id}` does the same.
/// - A total below zero becomes a credit in the customer's balance. An amount that is too small to charge becomes a debt
///   there. The next invoice takes it in. A request cannot set a balance.
/// - Nothing else happens by itself. No payment is tried again. An invoice of no subscription is finalized, sent and paid by
///   requests alone.
/// - Lists are newest first, with `created`, `limit`, `starting_after`, `ending_before` and the resource's own filters.
///   `expand` takes the ids that Stripe's own types can expand, as far as the fake holds their objects. Search is not
///   there.
/// - `DELETE /v1/{resource}/{id}` ignores the key, as v1 does.
/// - `/v2/core/event_destinations` goes by the rules of [API v2](https://docs.stripe.com/api-v2-overview): JSON,
///   `Stripe-Version` required, keys on `POST` and `DELETE` for 30 days. A call that failed is executed again under its
///   key. The repeat of one that succeeded shows what there is now. Destinations are webhook endpoints, and nothing is
///   delivered to them. Every other path below `/v2` is a 404 in v2's form.
/// - Every request needs `Authorization: Bearer sk_…` (or `rk_…`), or the key as the user of Basic credentials.
///   `sk_live_…` is live mode, all else test.
/// - Cards are Stripe's own test cards, by number, `tok_…` or `pm_card_…`: `tok_chargeDeclined` is declined with 402. A
///   charge without `source` and `customer` is taken, where Stripe would refuse it. The account begins with enough
///   money for payouts and transfers.
/// - `POST /v1/webhook_endpoints` registers a receiver on loopback. It gets the account's events, signed. The
///   fake sends only types of events that Stripe has. `*.updated` has `previous_attributes`.
///
/// It never sends `Retry-After` of its own; a fault that asks for that form gets it, as a proxy might add it.
#[derive(Debug)]
pub struct StripeFake {
    served: Served,
    machine: Arc<Machine>,
}

impl StripeFake {
    /// The base URL, `http://127.0.0.1:{port}`, without `/v1`.
    pub fn url(&self) -> String {
        self.served.url()
    }
}

impl FakeBuilder<StripeFake> {
    /// The `type` in the body of a 409: public sources disagree. Default: [`ConflictType::InvalidRequest`].
    pub fn conflict_type(mut self, conflict_type: ConflictType) -> Self {
        self.settings.stripe.conflict_type = conflict_type;
        self
    }

    /// For how long a key counts as in use after its request arrived, by the injected clock: a second request
    /// within that time gets a 409. So it does in v2, where that is not documented. Default: zero, execution is
    /// instantaneous.
    pub fn busy_for(mut self, busy: Duration) -> Self {
        self.settings.stripe.busy_for = busy;
        self
    }

    /// Takes two forms for the same parameters under a key if they differ in the order of their pairs alone. Stripe
    /// documents that it compares the parameters, and not whether their order counts. Default: it counts, and another
    /// order under the same key is refused.
    pub fn ignore_form_order(mut self) -> Self {
        self.settings.stripe.ignore_form_order = true;
        self
    }

    /// Takes another `Stripe-Version` for other parameters under a key, and refuses it. Stripe does not document whether
    /// it does. Default: the version does not count, and the first answer is given. Below `/v2` it never counts.
    pub fn compare_versions(mut self) -> Self {
        self.settings.stripe.compare_versions = true;
        self
    }
}

shared_by_fakes!(StripeFake, StripeAnswer, stripe, objects);

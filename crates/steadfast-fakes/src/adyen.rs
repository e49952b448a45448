//! Adyen's Checkout API: a payment is one answer away from its money, and the money is told by webhook.
//!
//! Each of these has its test in `tests/adyen/rules.rs` or beside it. Keys belong to the company account, which is the
//! whole fake, and are forgotten after 7 days, the least that Adyen promises
//! (<https://docs.adyen.com/development-resources/api-idempotency>). A second payment with the same `reference` is a
//! second payment. A failure with `transient-error: true` leaves the key free, any other one is stored under it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::machine::Machine;
pub(super) use self::settings::AdyenSettings;
use super::builder::FakeBuilder;
use super::serve::Served;
use super::shared::shared_by_fakes;

mod answers;
mod bodies;
mod captures;
mod changes;
mod checkouts;
mod contract;
mod hooks;
mod links;
mod machine;
mod manage;
mod methods;
mod payments;
mod results;
mod sessions;
mod settings;

pub use answers::AdyenAnswer;

/// An Adyen that keeps accounts of what was paid.
///
/// ```
/// use serde_json::json;
/// use steadfast::Client;
/// use steadfast::testkit::{Fault, TestClock, fakes::AdyenFake};
/// use steadfast::vendor::Adyen;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), steadfast::Error> {
/// let clock = TestClock::auto();
/// let fake = AdyenFake::builder().test_clock(&clock).start().await;
/// fake.plan().next(Fault::DropAfterApply); // Paid, and the answer is lost.
///
/// // The code under test, with a client of the fake.
/// let vendor = Adyen::new("an-api-key").base_url(fake.url());
/// let adyen = Client::builder(vendor).clock(clock).build()?;
/// let payment = json!({
///     "merchantAccount": "ShopECOM", "reference": "order-42", "returnUrl": "https://shop.example/return",
///     "amount": { "value": 1000, "currency": "EUR" },
///     "paymentMethod": { "type": "scheme", "encryptedCardNumber": "test_4111111111111111" },
/// });
/// adyen.post("/v71/payments").key("order-42").json(&payment).send().await?;
///
/// assert_eq!((fake.plan().pending(), fake.ledger().count()), (0, 1));
/// # Ok(())
/// # }
/// ```
///
/// - `POST /payments`, `/payments/details`, `/payments/{pspReference}/captures`, `cancels`, `refunds`, `reversals` and
///   `amountUpdates`, and `/cancels`, below `/v70`, `/v71` or `/v72`, and below `/checkout` too. Any other route is a 404.
/// - `POST /sessions` and `GET /sessions/{id}?sessionResult=…`, `POST /paymentLinks`, `GET` and `PATCH` of
///   `/paymentLinks/{id}`, and `POST /paymentMethods`.
/// - Each write that is answered with 200 or 201 is one [`Effect`](super::Effect), but not the list of payment methods.
///   That is also a payment that the issuer refused, and a capture of which the webhook tells that it failed.
/// - A request has the members of Adyen's specification, down to the innermost, and their kinds and bounds:
///   `fixtures/adyen_contract.json`. A member that the fake does not know is refused as Adyen refuses it.
/// - A payment method is a card (`scheme`) or `ideal`, which redirects. A card's encrypted data is what `test_` stands
///   before. No card is stored: a payment that asks for that, or that names a stored one, is refused.
/// - `paymentMethod.holderName` or `additionalData.RequestedTestAcquirerResponseCode` ask for a result, by Adyen's own
///   list: `DECLINED` is 2. Of a payment by `capture failed` or `refund failed` that change is taken, and a second webhook
///   tells that it failed. `additionalData.RequestedTestErrorResponseCode` asks for one of Adyen's two failures.
/// - A redirect's URL ends with its `redirectResult`. With `!Refused`, `!Cancelled`, `!Pending` or `!Error` behind it,
///   that is what the shopper did there. Details are taken once.
/// - A payment is captured at once when it is authorised, as by the default of an account at Adyen. No webhook tells of
///   that capture. [`FakeBuilder::manual_capture`] or `additionalData.manualCapture: "true"` leave it to a request;
///   `captureDelayHours` delays it. `ideal` is always captured at once.
/// - Money adds up. A change over the authorised or the captured amount is answered with `received`, and its webhook
///   says `success: false`. The capture or the cancellation of a payment that is already captured fails in the same
///   way.
/// - A shopper pays a session or a payment link by [`pay`](AdyenFake::pay). A session expires after an hour and a link
///   after a day, or at `expiresAt`. Both take one payment that is authorised, and a `reusable` link takes several.
/// - A session stays `active` when a payment is refused. At which number of refused payments Adyen ends it is not
///   documented: the fake never tells `refused`. A link is never `paid`, of which the specification says nothing.
/// - `/paymentMethods` lists `scheme` and `ideal`, the latter for `NL` and `EUR`. Requests for tokens, orders or stores are
///   refused, also those of sessions and links.
/// - Every request needs an `X-API-Key`, or Basic credentials. All belong to the one company account; a payment
///   belongs to its `merchantAccount`.
/// - `/v3/merchants/{merchantAccount}/webhooks` and `/v3/companies/{company}/webhooks`, as in Adyen's Management API,
///   register receivers on loopback, and list them page by page. `…/generateHmac` gives the key that signs their
///   notifications. A company's receiver has a filter of merchant accounts.
#[derive(Debug)]
pub struct AdyenFake {
    served: Served,
    machine: Arc<Machine>,
}

impl AdyenFake {
    /// The base URL, `http://127.0.0.1:{port}`, without the version.
    pub fn url(&self) -> String {
        self.served.url()
    }

    /// A shopper pays on the page of a session (`CS…`) or of a payment link (`PL…`), with a payment method in the form of
    /// `/payments`. It stands for the calls of the shopper's browser, which Adyen does not publish.
    ///
    /// The payment is the one that `/payments` makes, with the same webhooks, and is found by its reference. It is an
    /// [`Effect`](super::Effect) without a key. The answer is a `PaymentResponse`. Of a session it also has the
    /// `sessionResult`, with which a server asks for the session's result.
    ///
    /// `ideal` answers with a redirect. `POST /payments/details` with its `redirectResult` then ends that payment, and the
    /// `sessionResult` counts from there.
    ///
    /// In another language: `POST /_fake/pay` with the members `id` and `paymentMethod`. It meets no fault.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), steadfast::Error> {
    /// use serde_json::{Value, json};
    /// use steadfast::Client;
    /// use steadfast::testkit::fakes::AdyenFake;
    /// use steadfast::vendor::Adyen;
    ///
    /// let fake = AdyenFake::start().await;
    /// let adyen = Client::builder(Adyen::new("an-api-key").base_url(fake.url())).build()?;
    /// let session = json!({
    ///     "merchantAccount": "ShopECOM", "reference": "order-42", "returnUrl": "https://shop.example/return",
    ///     "amount": { "value": 1000, "currency": "EUR" },
    /// });
    /// let session = adyen.post("/v71/sessions").key("order-42").json(&session).send().await?;
    /// let session: Value = session.json()?;
    ///
    /// let card = json!({ "type": "scheme", "encryptedCardNumber": "test_4111111111111111" });
    /// let paid = fake.pay(session["id"].as_str().unwrap(), &card).unwrap();
    /// assert_eq!(paid["resultCode"], "Authorised");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Adyen's answer, if no such session or link can be paid now, or if its page does not offer the payment method. If a
    /// session has expired, the answer has a `sessionResult` too. A refusal by the issuer is no error: read `resultCode`.
    pub fn pay(&self, id: &str, payment_method: &Value) -> Result<Value, Value> {
        let reply = self.machine.pay(id, payment_method);
        if reply.status < 300 { Ok(reply.value()) } else { Err(reply.value()) }
    }

    /// How many sessions and payment links requests were shown since this was last asked.
    #[cfg(test)]
    pub(super) fn take_shown_checkouts(&self) -> u64 {
        self.machine.state.lock().checkouts.take_shown()
    }
}

impl FakeBuilder<AdyenFake> {
    /// For how long a key counts as in use after its request arrived, by the injected clock: a second request within
    /// that time gets a 422 with code 704. Default: zero, execution is instantaneous.
    pub fn busy_for(mut self, busy: Duration) -> Self {
        self.settings.adyen.busy_for = busy;
        self
    }

    /// Refuses a key that comes with another request, with code 704. Adyen does not document what it does. Default: the
    /// first request's answer is given, which is the reading that hurts.
    pub fn refuse_reused_keys(mut self) -> Self {
        self.settings.adyen.refuse_reused_keys = true;
        self
    }

    /// Leaves a key free whose request failed validation, with a 422. Adyen does not document whether it keeps such an
    /// answer under the key. Default: it is kept, and the same key repeats it.
    pub fn forget_invalid_requests(mut self) -> Self {
        self.settings.adyen.forget_invalid_requests = true;
        self
    }

    /// Leaves each capture to a request, as an account at Adyen with the capture delay `manual`. A payment request with
    /// `captureDelayHours` is captured after that time all the same, and `ideal` at once. Default: a payment is captured
    /// at once when it is authorised.
    pub fn manual_capture(mut self) -> Self {
        self.settings.adyen.manual_capture = true;
        self
    }

    /// Several partial captures of one payment, which is a setting of an account at Adyen. Default: what a partial
    /// capture leaves is cancelled.
    pub fn multiple_partial_captures(mut self) -> Self {
        self.settings.adyen.multiple_partial_captures = true;
        self
    }
}

shared_by_fakes!(AdyenFake, AdyenAnswer, adyen, payments);

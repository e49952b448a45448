//! Payment sessions and payment links: what a shopper can pay, for how long, and what became of it.
//!
//! The calls of the shopper's browser are not published. Here one call stands for all of them:
//! [`AdyenFake::pay`](super::AdyenFake::pay), or `POST /_fake/pay`. It makes the payment that `/payments` makes.

use std::time::Duration;

use humantime_serde::re::humantime::format_rfc3339_seconds;
use serde_json::{Value, json};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::vendor::date::rfc3339;

use super::super::fixture::Reply;
use super::super::table::{Row, Table, Term};
use super::captures::Captures;
use super::machine::{Made, State, Write};
use super::payments::{self, Payment};
use super::results::Outcome;
use super::{bodies, changes, methods};

/// A payment session or a payment link.
#[derive(Clone, Debug)]
pub(super) struct Checkout {
    pub(super) id: String,
    pub(super) kind: Kind,
    /// The answer to its creation, which repeats the request.
    pub(super) told: Value,
    pub(super) expires_at: Timestamp,
    pub(super) status: Status,
    pub(super) updated_at: Option<Timestamp>,
    /// Of a session alone.
    pub(super) attempts: Vec<Attempt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Session,
    Link,
}

/// The state that says whether it can be paid. `Expired` is set by a request; in time a session or a link expires by
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Active,
    Pending,
    Completed,
    Expired,
}

/// One payment on a session's page, or a try when it was too late.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    /// The `sessionResult` that the shopper's browser gets.
    pub(super) result: String,
    /// The session's status at that time: it "doesn't get updated" (`SessionResultResponse` of CheckoutService-v71).
    pub(super) status: &'static str,
    /// `Payment` of CheckoutService-v71, of one that is authorised or may be.
    pub(super) payment: Option<Value>,
}

impl Kind {
    /// Examples of CheckoutService-v71: `CS451F2AB1ED897A94`, `PL61C53A8B97E6915A`.
    const fn prefix(self) -> &'static str {
        match self {
            Kind::Session => "CS",
            Kind::Link => "PL",
        }
    }

    /// For how long it can be paid: by default, and at most (`expiresAt` of `CreateCheckoutSessionRequest` and of
    /// `PaymentLinkRequest`, CheckoutService-v71).
    const fn life(self) -> (Duration, Duration) {
        match self {
            Kind::Session => (HOUR, DAY),
            Kind::Link => (DAY, Duration::from_secs(70 * 24 * 3600)),
        }
    }
}

impl Status {
    /// The words of both enumerations of CheckoutService-v71.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Pending => "paymentPending",
            Status::Completed => "completed",
            Status::Expired => "expired",
        }
    }
}

impl Row for Checkout {
    fn terms(&self) -> Vec<Term> {
        vec![Term::new("id", &self.id)]
    }
}

impl Checkout {
    /// One of a request that is checked. `form` is the answer without the members of the request, which it repeats:
    /// the types of the answers have all of them.
    pub(super) fn begin(
        state: &mut State,
        write: &Write<'_>,
        kind: Kind,
        body: &Value,
        form: Reply,
    ) -> Result<Checkout, Reply> {
        bodies::amount(write.fixtures, body)?;
        let expires_at = expiry(write, kind, &body["expiresAt"])?;
        let id = state.next_id(kind.prefix());
        let mut told = form.fill("<id>", &id).value();
        for (name, value) in body.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            told[name] = value.clone();
        }
        told["expiresAt"] = Value::from(seconds(expires_at));
        let (status, updated_at, attempts) = (Status::Active, None, Vec::new());
        let checkout = Checkout { id, kind, told, expires_at, status, updated_at, attempts };
        let payment = checkout.payment(&Value::Null);
        let unsupported = |what| Err(bodies::unsupported(write.fixtures, what));
        if changes::asks_for_token(body) {
            return unsupported("a token of the payment method");
        }
        if methods::offered(body).is_none() {
            return unsupported(methods::LISTS);
        }
        if Captures::of(&payment, "scheme", write.captures_by_request).is_none() {
            return unsupported("additionalData.manualCapture");
        }
        Ok(checkout)
    }

    pub(super) fn status_at(&self, now: Timestamp) -> Status {
        match self.status {
            Status::Active if now >= self.expires_at => Status::Expired,
            status => status,
        }
    }

    /// The refusal of one that is not active. Its words are composed.
    pub(super) fn must_be_active(&self, write: &Write<'_>) -> Result<(), Reply> {
        match self.status_at(write.now) {
            Status::Active => Ok(()),
            status => Err(write.fixtures.reply("not_active").fill("<status>", status.word())),
        }
    }

    /// The request of `/payments` for the same money.
    fn payment(&self, method: &Value) -> Value {
        let mut body = json!({ "paymentMethod": method });
        for name in PAID_BY {
            if let Some(value) = self.told.get(name) {
                body[name] = value.clone();
            }
        }
        // The link's own member. It has no `additionalData`.
        if self.told["manualCapture"] == true {
            body["additionalData"] = json!({ "manualCapture": "true" });
        }
        // A link may have none: then the shopper stays on its page.
        if body["returnUrl"].is_null() {
            body["returnUrl"] = self.told["url"].clone();
        }
        body
    }

    /// Takes over what became of a payment. A link that is `reusable` stays active.
    ///
    /// A payment that the shopper cancelled leaves a session open, as a refused one does. Of `refused` and `expired` alone
    /// CheckoutService-v71 says that the session can no longer be paid.
    fn settle(&mut self, payment: &Payment, outcome: Outcome, now: Timestamp) {
        let next = match payment.state {
            payments::State::Authorised => Status::Completed,
            payments::State::Open => Status::Pending,
            _ => Status::Active,
        };
        if next != Status::Active && self.told["reusable"] != true {
            self.status = next;
            self.updated_at = Some(now);
        }
        if self.kind == Kind::Session {
            let is_cancelled = outcome.code == "Cancelled" && outcome.reason.is_none();
            self.attempts.push(Attempt {
                result: session_result(&payment.psp),
                status: if is_cancelled { "canceled" } else { next.word() },
                payment: (next != Status::Active).then(|| shown(payment, outcome)),
            });
        }
    }
}

impl Table<Checkout> {
    pub(super) fn by_id(&self, id: &str) -> Option<(u64, Checkout)> {
        let mut found = self.with(&[Term::new("id", id)]).filter(|(_, one)| one.id == id);
        found.next().map(|(ordinal, one)| (ordinal, one.clone()))
    }

    /// The one of this kind. The field is the one that a refusal names.
    pub(super) fn of(
        &self,
        write: &Write<'_>,
        kind: Kind,
        id: &str,
        field: &str,
    ) -> Result<(u64, Checkout), Reply> {
        let found = self.by_id(id).filter(|(_, one)| one.kind == kind);
        found.ok_or_else(|| write.fixtures.reply("field_invalid").fill("<field>", field))
    }
}

/// A shopper pays, with a payment method in the form of `/payments`. The method is one that the page offers.
pub(super) fn pay(state: &mut State, write: &Write<'_>, id: &str, method: &Value) -> Result<Made, Reply> {
    let fixtures = write.fixtures;
    let found = state.checkouts.by_id(id);
    let (ordinal, checkout) = found.ok_or_else(|| fixtures.reply("field_invalid").fill("<field>", "id"))?;
    if let Err(refused) = checkout.must_be_active(write) {
        return Err(too_late(state, write.now, ordinal, checkout, refused));
    }
    let body = bodies::checked(fixtures, "PaymentRequest", checkout.payment(method))?;
    let offered = methods::offered(&checkout.told).unwrap_or_default();
    if body["paymentMethod"]["type"].as_str().is_some_and(|kind| !offered.contains(&kind)) {
        return Err(bodies::unsupported(fixtures, "paymentMethod"));
    }
    let mut made = changes::make(state, write, &body, Some(id))?;
    if checkout.kind == Kind::Session {
        made.reply = with_result(&made.reply, &session_result(&made.psp));
    }
    Ok(made)
}

/// The refusal to pay a session that has expired gives a `sessionResult` too, so that a test gets to `expired`. Composed:
/// what the browser is told then is not published.
fn too_late(
    state: &mut State,
    now: Timestamp,
    ordinal: u64,
    mut checkout: Checkout,
    refused: Reply,
) -> Reply {
    if (checkout.kind, checkout.status_at(now)) != (Kind::Session, Status::Expired) {
        return refused;
    }
    let result = session_result(&state.next_psp());
    let told = with_result(&refused, &result);
    checkout.attempts.push(Attempt { result, status: Status::Expired.word(), payment: None });
    state.checkouts.replace(ordinal, checkout);
    told
}

/// Tells a session or a link what became of a payment on its page.
pub(super) fn settle(state: &mut State, now: Timestamp, payment: &Payment, outcome: Outcome) {
    let found = payment.checkout.as_deref().and_then(|id| state.checkouts.by_id(id));
    let Some((ordinal, mut checkout)) = found else { return };
    checkout.settle(payment, outcome, now);
    state.checkouts.replace(ordinal, checkout);
}

/// Refuses a payment whose session or link may no longer be paid, where the shopper comes back from a redirect.
pub(super) fn may_end(state: &State, write: &Write<'_>, payment: &Payment) -> Result<(), Reply> {
    let found = payment.checkout.as_deref().and_then(|id| state.checkouts.by_id(id));
    found.map_or(Ok(()), |(_, checkout)| checkout.must_be_active(write))
}

/// As such times are written: to the second, in UTC.
pub(super) fn seconds(at: Timestamp) -> String {
    format_rfc3339_seconds(at.into()).to_string()
}

/// When it ends. A time in the past is refused, which is composed, and so is one without an offset: the description of
/// the field has one.
fn expiry(write: &Write<'_>, kind: Kind, asked: &Value) -> Result<Timestamp, Reply> {
    let (default, longest) = kind.life();
    let whole = |at: Timestamp| Timestamp::from_millis(at.as_millis() / 1000 * 1000);
    let Some(text) = asked.as_str() else { return Ok(whole(write.now.plus(default))) };
    let has_offset = text.split_once('T').is_some_and(|(_, time)| time.contains(['Z', 'z', '+', '-']));
    let at = rfc3339(text).filter(|at| has_offset && *at > write.now && *at <= write.now.plus(longest));
    at.map(whole).ok_or_else(|| write.fixtures.reply("field_invalid").fill("<field>", "expiresAt"))
}

/// `Payment` of CheckoutService-v71. Its method is "only returned for `resultCode`: Authorised".
fn shown(payment: &Payment, outcome: Outcome) -> Value {
    let mut shown =
        json!({ "amount": payment.amount(), "pspReference": payment.psp, "resultCode": outcome.code });
    if outcome.is_authorised() {
        shown["paymentMethod"] = match payment.method {
            "ideal" => json!({ "type": "ideal" }),
            brand => json!({ "type": "scheme", "brand": brand }),
        };
    }
    shown
}

/// It begins as `sessionData` in the examples. The rest is the fake's, and is no `redirectResult`.
fn session_result(psp: &str) -> String {
    format!("Ab02b4c0!{psp}")
}

fn with_result(reply: &Reply, result: &str) -> Reply {
    let mut told = reply.value();
    told["sessionResult"] = Value::from(result);
    Reply::json(reply.status, &told)
}

/// The members of a session or a link that a payment request has too, as far as the fake acts on them there.
const PAID_BY: [&str; 6] =
    ["additionalData", "amount", "captureDelayHours", "merchantAccount", "reference", "returnUrl"];
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

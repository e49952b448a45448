//! The acts of each request: payments, their details, and the changes of payments.

use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::bodies::{self, Amount};
use super::captures::Captures;
use super::hooks::Notice;
use super::machine::{Made, State, Write};
use super::payments::{CAPTURE_FAILED, Payment};
use super::results::{Failing, Outcome};
use super::{checkouts, methods};

/// A change of a payment, by its name in the path and in the notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Capture,
    Cancel,
    Refund,
    Reverse,
    Adjust,
}

impl Change {
    pub(super) fn named(name: &str) -> Option<Change> {
        Some(match name {
            "captures" => Change::Capture,
            "cancels" => Change::Cancel,
            "refunds" => Change::Refund,
            "reversals" => Change::Reverse,
            "amountUpdates" => Change::Adjust,
            _ => return None,
        })
    }

    const fn request(self) -> &'static str {
        match self {
            Change::Capture => "PaymentCaptureRequest",
            Change::Cancel => "PaymentCancelRequest",
            Change::Refund => "PaymentRefundRequest",
            Change::Reverse => "PaymentReversalRequest",
            Change::Adjust => "PaymentAmountUpdateRequest",
        }
    }

    const fn event(self) -> &'static str {
        match self {
            Change::Capture => "CAPTURE",
            Change::Cancel => "CANCELLATION",
            Change::Refund => "REFUND",
            Change::Reverse => "CANCEL_OR_REFUND",
            Change::Adjust => "AUTHORISATION_ADJUSTMENT",
        }
    }

    const fn has_amount(self) -> bool {
        matches!(self, Change::Capture | Change::Refund | Change::Adjust)
    }
}

/// `POST /payments`.
pub(super) fn pay(state: &mut State, write: &Write<'_>) -> Result<Made, Reply> {
    let body = bodies::read(write.fixtures, "PaymentRequest", write.body)?;
    make(state, write, &body, None)
}

/// A payment of a request that is checked. The session or the payment link is the one on whose page it is made.
pub(super) fn make(
    state: &mut State,
    write: &Write<'_>,
    body: &Value,
    checkout: Option<&str>,
) -> Result<Made, Reply> {
    let fixtures = write.fixtures;
    let amount = bodies::amount(fixtures, body)?;
    match body["additionalData"]["RequestedTestErrorResponseCode"].as_str() {
        None => {}
        Some("NO_CONNECTION_AVAILABLE") => return Err(fixtures.reply("no_connection")),
        Some("IOEXCEPTION_RECEIVED") => return Err(fixtures.reply("io_exception")),
        Some(_) => {
            return Err(bodies::unsupported(fixtures, "additionalData.RequestedTestErrorResponseCode"));
        }
    }
    let unsupported = |what: &'static str| move || bodies::unsupported(fixtures, what);
    let method = methods::method(fixtures, body)?.ok_or_else(unsupported("paymentMethod"))?;
    if asks_for_token(body) {
        return Err(unsupported("a token of the payment method")());
    }
    // The fake has none, so that no payment can be of one.
    if !body["order"].is_null() {
        return Err(unsupported("order")());
    }
    let asked = Outcome::of(body).ok_or_else(unsupported("the result that is asked for"))?;
    // "If you specify an incorrect CVC or an invalid expiry date, the payment fails" as declined: the page of the names.
    let outcome = if method.is_whole { asked } else { Outcome::DECLINED };
    let captures = Captures::of(body, method.name, write.captures_by_request);
    let captures = captures.ok_or_else(unsupported("additionalData.manualCapture"))?;
    let (psp, method) = (state.next_psp(), method.name);
    let mut payment = Payment::new(&psp, body, &amount, method, captures, write.now);
    payment.checkout = checkout.map(str::to_owned);
    if method == "ideal" {
        state.payments.add(payment);
        let reply = fixtures.reply("redirect").fill("<type>", method).fill("<result>", &psp);
        return Ok(Made { psp, reply });
    }
    let reply = end(state, write, &mut payment, outcome);
    state.payments.add(payment);
    Ok(Made { psp, reply })
}

/// `POST /payments/details`.
pub(super) fn details(state: &mut State, write: &Write<'_>) -> Result<Made, Reply> {
    let fixtures = write.fixtures;
    let body = bodies::read(fixtures, "PaymentDetailsRequest", write.body)?;
    let unknown = || fixtures.reply("details_unknown");
    let result = body["details"]["redirectResult"].as_str().ok_or_else(unknown)?;
    let (psp, word) = result.split_once('!').unwrap_or((result, ""));
    let outcome = Outcome::of_shopper(word).ok_or_else(unknown)?;
    let (ordinal, mut payment) = state.payments.by_psp(None, psp).ok_or_else(unknown)?;
    if payment.method != "ideal" {
        return Err(unknown());
    }
    if payment.state != super::payments::State::Awaits {
        return Err(fixtures.reply("already_processed"));
    }
    checkouts::may_end(state, write, &payment)?;
    let reply = end(state, write, &mut payment, outcome);
    let psp = payment.psp.clone();
    state.payments.replace(ordinal, payment);
    Ok(Made { psp, reply })
}

/// Tells the outcome of a payment by webhook, and to its session or payment link. It may be captured at once.
fn end(state: &mut State, write: &Write<'_>, payment: &mut Payment, outcome: Outcome) -> Reply {
    payment.settle(outcome);
    tell_result(state, write, payment, outcome);
    checkouts::settle(state, write.now, payment, outcome);
    let reply = answered(write, payment, outcome);
    pass_time(state, write, payment);
    reply
}

/// `POST /payments/{pspReference}/captures` and its like: taken now, and told by webhook.
pub(super) fn change(state: &mut State, write: &Write<'_>, psp: &str, change: Change) -> Result<Made, Reply> {
    let fixtures = write.fixtures;
    let body = bodies::read(fixtures, change.request(), write.body)?;
    let amount = if change.has_amount() { Some(bodies::amount(fixtures, &body)?) } else { None };
    let found = state.payments.by_psp(body["merchantAccount"].as_str(), psp);
    let (ordinal, mut payment) = found.ok_or_else(|| fixtures.reply("original_missing"))?;
    if amount.as_ref().is_some_and(|amount| amount.currency != payment.currency) {
        return Err(fixtures.reply("currency_invalid"));
    }
    let whole = Amount { value: payment.authorised, currency: payment.currency.clone() };
    let mut amount = amount.unwrap_or(whole);
    pass_time(state, write, &mut payment);
    let mut action = None;
    let told = match change {
        Change::Capture => payment.capture(&amount, write.captures_in_parts),
        Change::Cancel => payment.cancel(),
        Change::Refund => payment.refund(&amount),
        Change::Adjust => payment.adjust(&amount),
        Change::Reverse => {
            let (which, told) = payment.reverse();
            if which == "refund" {
                amount.value = payment.captured;
            }
            action = Some(which);
            told
        }
    };
    let own = state.next_psp();
    let mut reply = received(write, &body, &own);
    reply["paymentPspReference"] = Value::from(psp);
    if change.has_amount() {
        reply["amount"] = json!({ "currency": amount.currency, "value": amount.value });
    }
    if let Some(lines) = body.get("lineItems") {
        reply["lineItems"] = lines.clone();
    }
    let mut notice = Notice::of(&payment, change.event(), &own, told);
    notice.amount = json!({ "currency": amount.currency, "value": amount.value });
    notice.reference = body["reference"].as_str().unwrap_or(&payment.reference).to_owned();
    notice.original = Some(payment.psp.clone());
    notice.action = action;
    state.hooks.tell(write.outbox, write.now, &notice);
    if told.is_ok() {
        fail(state, write, &mut payment, change, &amount, &notice);
    }
    state.payments.replace(ordinal, payment);
    Ok(Made { psp: own, reply: Reply::json(201, &reply) })
}

/// A change that the card scheme does not carry out was taken all the same. A second notification tells of it, with
/// the reference of the change. Its `success` is true, as in the examples of Webhooks-v1
/// (github.com/Adyen/adyen-openapi).
///
/// A reversal never fails in this way: for it that is not documented.
fn fail(
    state: &mut State,
    write: &Write<'_>,
    payment: &mut Payment,
    change: Change,
    amount: &Amount,
    taken: &Notice,
) {
    let (event, reason) = match (change, payment.failing) {
        (Change::Capture, Some(Failing::Capture)) => {
            payment.capture_failed(amount);
            ("CAPTURE_FAILED", CAPTURE_FAILED)
        }
        (Change::Refund, Some(Failing::Refund)) => {
            payment.refund_failed(amount);
            ("REFUND_FAILED", "Refund Failed")
        }
        _ => return,
    };
    state.hooks.tell(write.outbox, write.now, &taken.failed(event, reason));
}

/// Captures a payment whose time has come. No webhook tells of it, unless the card scheme does not carry it out
/// (<https://docs.adyen.com/online-payments/capture#failed-capture>). The time is looked at when a request comes.
///
/// Which reference such a notification has is not documented. Here it is a new one.
fn pass_time(state: &mut State, write: &Write<'_>, payment: &mut Payment) {
    let Err(reason) = payment.pass_time(write.now) else { return };
    let own = state.next_psp();
    let mut notice = Notice::of(payment, "CAPTURE", &own, Ok(()));
    notice.original = Some(payment.psp.clone());
    state.hooks.tell(write.outbox, write.now, &notice.failed("CAPTURE_FAILED", reason));
}

/// `POST /cancels`, by the payment's own reference: it is taken also where there is no such payment.
pub(super) fn cancel_by_reference(state: &mut State, write: &Write<'_>) -> Result<Made, Reply> {
    let body = bodies::read(write.fixtures, "StandalonePaymentCancelRequest", write.body)?;
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    let own = state.next_psp();
    let mut reply = received(write, &body, &own);
    reply["paymentReference"] = body["paymentReference"].clone();
    reply.as_object_mut().expect("an object").remove("paymentPspReference");
    if let Some((ordinal, mut payment)) =
        state.payments.by_reference(text("merchantAccount"), text("paymentReference"))
    {
        pass_time(state, write, &mut payment);
        let told = payment.cancel();
        let mut notice = Notice::of(&payment, "TECHNICAL_CANCEL", &own, told);
        notice.original = Some(payment.psp.clone());
        state.hooks.tell(write.outbox, write.now, &notice);
        state.payments.replace(ordinal, payment);
    }
    Ok(Made { psp: own, reply: Reply::json(201, &reply) })
}

/// The answer with what became of a payment.
fn answered(write: &Write<'_>, payment: &Payment, outcome: Outcome) -> Reply {
    let fixture = if outcome.is_authorised() { "authorised" } else { "refused" };
    let mut body = write.fixtures.reply(fixture).value();
    body["pspReference"] = Value::from(payment.psp.as_str());
    body["merchantReference"] = Value::from(payment.reference.as_str());
    body["resultCode"] = Value::from(outcome.code);
    body["amount"] = payment.amount();
    if let Some(members) = body.as_object_mut() {
        members.remove("refusalReason");
        members.remove("refusalReasonCode");
    }
    if let Some((reason, number)) = outcome.reason {
        body["refusalReason"] = Value::from(reason);
        body["refusalReasonCode"] = Value::from(number.to_string());
    }
    Reply::json(200, &body)
}

fn received(write: &Write<'_>, body: &Value, own: &str) -> Value {
    let mut reply = write.fixtures.reply("received").value();
    reply["pspReference"] = Value::from(own);
    reply["merchantAccount"] = body["merchantAccount"].clone();
    match body.get("reference") {
        Some(reference) => reply["reference"] = reference.clone(),
        None => drop(reply.as_object_mut().and_then(|members| members.remove("reference"))),
    }
    reply
}

fn tell_result(state: &mut State, write: &Write<'_>, payment: &Payment, outcome: Outcome) {
    if outcome.is_final() {
        let why = outcome.reason.map_or(outcome.code, |(reason, _)| reason);
        let told = if outcome.is_authorised() { Ok(()) } else { Err(why) };
        let notice = Notice::of(payment, "AUTHORISATION", &payment.psp, told);
        state.hooks.tell(write.outbox, write.now, &notice);
    }
}

/// Whether a request asks for a token, which the fake does not give.
pub(super) fn asks_for_token(body: &Value) -> bool {
    STORING.iter().any(|name| body[name] == true)
        || matches!(body["storePaymentMethodMode"].as_str(), Some("askForConsent" | "enabled"))
}

const STORING: [&str; 4] = ["enableOneClick", "enablePayOut", "enableRecurring", "storePaymentMethod"];

//! Refunds, and what is released of an authorization that is not captured.
//!
//! Before version 2025-03-31.basil a release is a refund. From that version on it is none: `amount_refunded` and
//! `refunded` stay, and the one line of the balance has the captured amount
//! (<https://docs.stripe.com/changelog/basil/2025-03-31/remove-refund-from-partial-capture-and-payment-cancellation-flow>).

use serde_json::{Map, Value, json};

use super::super::desk::{Desk, Made};
use super::super::headers::is_since;
use super::super::refusal::Refusal;
use super::{amount, charges, flag, money, text};

pub(super) fn create(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    let mut charge = charge_of(desk, sent)?;
    let id = charge["id"].as_str().unwrap_or_default().to_owned();
    let currency = charge["currency"].as_str().unwrap_or_default().to_owned();
    check_refundable(desk, &charge)?;
    let captured = charge["captured"] == true;
    let refunded = charge["amount_refunded"].as_i64().unwrap_or(0);
    let left = taken(desk, &charge) - refunded;
    if left <= 0 {
        return Err(already(&id));
    }
    let asked = amount(sent, "amount").unwrap_or(left);
    if asked > left {
        return Err(Refusal::amount(format!(
            "Refund amount ({}) is greater than unrefunded amount on charge ({})",
            money(asked, &currency),
            money(left, &currency)
        )));
    }
    if !captured && asked != left {
        return Err(Refusal::amount("An uncaptured charge can only be refunded in full."));
    }
    if flag(sent, "reverse_transfer") || flag(sent, "refund_application_fee") {
        let message = "This charge has neither a transfer nor an application fee.";
        return Err(Refusal::state("charge_without_transfer", message));
    }
    charge["amount_refunded"] = Value::from(refunded + asked);
    charge["refunded"] = Value::from(asked == left);
    let kind = if captured { "refund" } else { "reversal" };
    let refund = add(desk, &charge, asked, 0, kind, sent);
    desk.put("charges", &charge);
    desk.tell("refunded", &charge);
    Ok(refund)
}

/// The part of a charge that can be paid back, and the part that was: the amount that the balance has of it, or that
/// it holds.
fn taken(desk: &Desk<'_>, charge: &Value) -> i64 {
    let line = desk.get("balance_transactions", &charge["balance_transaction"]);
    line.as_ref().unwrap_or(charge)["amount"].as_i64().unwrap_or(0)
}

fn add(
    desk: &mut Desk<'_>,
    charge: &Value,
    amount: i64,
    fee: i64,
    kind: &str,
    sent: &Map<String, Value>,
) -> Value {
    let mut refund = desk.draft("refunds", sent);
    refund["amount"] = Value::from(amount);
    refund["charge"] = charge["id"].clone();
    for name in ["currency", "customer", "payment_intent", "payment_method"] {
        refund[name] = charge[name].clone();
    }
    refund["destination_details"] = json!({ "type": "card", "card": { "reference_status": "pending",
        "reference_type": "acquirer_reference_number", "type": kind } });
    if charge["captured"] == true {
        let (currency, source) = (refund["currency"].clone(), refund["id"].clone());
        refund["balance_transaction"] = charges::book(desk, "refund", -amount, fee, &currency, &source);
    }
    desk.add("refunds", refund)
}

/// Whether the version of the request makes a refund of what it releases.
pub(super) fn releases_are_refunds(desk: &Desk<'_>) -> bool {
    !is_since(desk.version, "2025-03-31")
}

/// Gives up the rest of what was authorised, as a refund. `fee` is what the account gets back.
///
/// Net::Stripe's live test of a partial capture has these fields and this refund (lukec/stripe-perl, `t/live.t`).
pub(super) fn release(desk: &mut Desk<'_>, charge: &mut Value, rest: i64, fee: i64) {
    add(desk, charge, rest, fee, "reversal", &Map::new());
    charge["amount_refunded"] = Value::from(rest);
    charge["refunded"] = Value::from(charge["amount"] == rest);
    desk.put("charges", charge);
    desk.tell("refunded", charge);
}

/// The charge that a refund is of.
fn charge_of(desk: &Desk<'_>, sent: &Map<String, Value>) -> Made {
    match (text(sent, "charge"), text(sent, "payment_intent")) {
        (Some(charge), None) => desk.named("charges", charge, "charge"),
        (None, Some(id)) => {
            let intent = desk.named("payment_intents", id, "payment_intent")?;
            desk.get("charges", &intent["latest_charge"]).ok_or_else(|| without_charge(id))
        }
        (None, None) => {
            let message =
                "One of the following params should be provided for this request: payment_intent or charge.";
            Err(Refusal::param("charge", message).code("parameter_missing"))
        }
        (Some(_), Some(_)) => {
            let message = "You may only specify one of these parameters: charge, payment_intent.";
            Err(Refusal::param("charge", message).code("parameters_exclusive"))
        }
    }
}

/// Refuses a charge that nothing was taken by. A failed one is not captured either, so it comes first.
fn check_refundable(desk: &Desk<'_>, charge: &Value) -> Result<(), Refusal> {
    let intent = desk.get("payment_intents", &charge["payment_intent"]);
    let is_canceled = intent.is_some_and(|intent| intent["status"] == "canceled");
    let (is_paid, is_captured) = (charge["paid"] == true, charge["captured"] == true);
    match charge["payment_intent"].as_str() {
        None if !is_paid => Err(not_paid(charge["id"].as_str().unwrap_or_default())),
        Some(intent) if !is_paid || (!is_captured && is_canceled) => Err(without_charge(intent)),
        Some(intent) if !is_captured => Err(only_held(intent)),
        _ => Ok(()),
    }
}

fn not_paid(charge: &str) -> Refusal {
    let message = format!("Charge {charge} has not been paid and cannot be refunded.");
    Refusal::state("charge_not_refundable", message)
}

pub(super) fn already(charge: &str) -> Refusal {
    Refusal::state("charge_already_refunded", format!("Charge {charge} has already been refunded."))
}

/// Recorded for a charge that failed (see `methods.rs`). That a canceled intent is refused in these words too, is
/// composed.
fn without_charge(intent: &str) -> Refusal {
    let message = format!("This PaymentIntent ({intent}) does not have a successful charge to refund.");
    Refusal::plain(message).in_execution()
}

/// An amount that an intent only holds is released by its cancellation (recorded).
fn only_held(intent: &str) -> Refusal {
    let message = format!(
        "This uncaptured Charge was created by a PaymentIntent ({intent}). You must cancel the PaymentIntent to reverse \
         the authorization instead of refunding the Charge directly. For more information, see \
         https://stripe.com/docs/payments/place-a-hold-on-a-payment-method"
    );
    Refusal::plain(message).in_execution()
}

pub(super) fn cannot_cancel(refund: &Value) -> Refusal {
    let (id, status) =
        (refund["id"].as_str().unwrap_or_default(), refund["status"].as_str().unwrap_or_default());
    Refusal::state(
        "refund_not_cancelable",
        format!("Refund {id} has a status of {status} and cannot be canceled."),
    )
}

//! Charges and refunds: the money that must add up.

use serde_json::{Map, Value, json};

use super::super::cards::{Card, Charging};
use super::super::contract::Resource;
use super::super::desk::{Desk, Made, merge};
use super::super::refusal::Refusal;
use super::{amount, checks, flag, money, text};

/// A charge of its own. Without `source` and `customer` it is paid by a card of the fake's own. Stripe would refuse
/// it, and a test that is about keys need not care.
pub(super) fn create(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    for needed in ["amount", "currency"] {
        if sent.get(needed).is_none_or(Value::is_null) {
            return Err(Refusal::missing(needed));
        }
    }
    let currency = text(sent, "currency").unwrap_or_default().to_lowercase();
    checks::at_least_minimum(amount(sent, "amount").unwrap_or(0), &currency)?;
    let card = match text(sent, "source") {
        None => Card::named("visa"),
        Some(source) => Some(Card::named(source).ok_or_else(|| Refusal::no_such("token", source, "source"))?),
    };
    let capture = sent.get("capture").and_then(Value::as_bool).unwrap_or(true);
    let mut charge = desk.draft("charges", sent);
    charge["currency"] = Value::from(currency);
    let Some(card) = card else { return Ok(charge) };
    if let Some(refusal) = card.behaviour.refusal() {
        let charge = fail(desk, charge, card.behaviour);
        return Err(refusal.with("charge", charge["id"].clone()).leaving());
    }
    pay(desk, &mut charge, &card.shown(None), capture);
    let charge = hold_new(desk, charge);
    Ok(charge)
}

/// Holds a charge that was paid, and tells of it.
pub(super) fn hold_new(desk: &mut Desk<'_>, charge: Value) -> Value {
    desk.add_quietly("charges", &charge);
    desk.tell("succeeded", &charge);
    charge
}

/// Makes it a charge that was declined, and holds it.
pub(super) fn fail(desk: &mut Desk<'_>, mut charge: Value, behaviour: Charging) -> Value {
    if let Charging::Declines(code, decline_code, message) = behaviour {
        charge["failure_code"] = Value::from(code);
        charge["failure_message"] = Value::from(message);
        charge["outcome"] = outcome("declined_by_network", "issuer_declined", Some(decline_code), message);
    }
    charge["status"] = Value::from("failed");
    desk.add_quietly("charges", &charge);
    desk.tell("failed", &charge);
    charge
}

/// Makes it a charge that was paid by this card.
pub(super) fn pay(desk: &mut Desk<'_>, charge: &mut Value, card: &Value, capture: bool) {
    let paid = charge["amount"].as_i64().unwrap_or(0);
    charge["paid"] = Value::from(true);
    charge["captured"] = Value::from(capture);
    charge["outcome"] = outcome("approved_by_network", "authorized", None, "Payment complete.");
    charge["calculated_statement_descriptor"] = Value::from("FAKE");
    charge["fraud_details"] = json!({});
    charge["payment_method_details"] = json!({ "card": card, "type": "card" });
    if charge["payment_method"].is_null() {
        charge["payment_method"] = Value::from(desk.objects.next_id("card"));
    }
    if capture {
        take(desk, charge, paid);
    }
}

fn outcome(network: &str, kind: &str, reason: Option<&str>, message: &str) -> Value {
    json!({
        "advice_code": null, "network_advice_code": null, "network_decline_code": null, "network_status": network,
        "reason": reason, "risk_level": "normal", "seller_message": message, "type": kind,
    })
}

/// Takes what was authorised, or a part of it.
fn take(desk: &mut Desk<'_>, charge: &mut Value, taken: i64) {
    charge["amount_captured"] = Value::from(taken);
    charge["captured"] = Value::from(true);
    charge["receipt_url"] =
        Value::from(format!("https://pay.stripe.com/receipts/{}", charge["id"].as_str().unwrap_or_default()));
    let currency = charge["currency"].clone();
    charge["balance_transaction"] = book(desk, "charge", taken, fee(taken), &currency, &charge["id"]);
}

/// A line in the account's balance. Gives its id.
pub(super) fn book(
    desk: &mut Desk<'_>,
    kind: &str,
    amount: i64,
    fee: i64,
    currency: &Value,
    source: &Value,
) -> Value {
    let mut line = desk.draft("balance_transactions", &Map::new());
    line["amount"] = Value::from(amount);
    line["fee"] = Value::from(fee);
    line["net"] = Value::from(amount - fee);
    line["type"] = Value::from(kind);
    line["reporting_category"] = Value::from(kind);
    line["currency"] = currency.clone();
    line["source"] = source.clone();
    line["available_on"] = Value::from(desk.now + 2 * 24 * 3600);
    if fee > 0 {
        let detail = json!({
            "amount": fee, "application": null, "currency": currency, "description": "Stripe processing fees",
            "type": "stripe_fee",
        });
        line["fee_details"] = Value::from(vec![detail]);
    }
    desk.add_quietly("balance_transactions", &line);
    line["id"].clone()
}

/// The list price of a card payment in the United States: 2.9 % and 30 cents.
fn fee(amount: i64) -> i64 {
    (amount * 29 + 500) / 1000 + 30
}

pub(super) fn capture(desk: &mut Desk<'_>, mut charge: Value, sent: &Map<String, Value>) -> Made {
    let id = charge["id"].as_str().unwrap_or_default().to_owned();
    if charge["captured"] == true {
        let message = format!("Charge {id} has already been captured.");
        return Err(Refusal::state("charge_already_captured", message));
    }
    if charge["paid"] != true || charge["refunded"] == true {
        return Err(Refusal::state("charge_not_capturable", format!("Charge {id} cannot be captured.")));
    }
    let authorised = charge["amount"].as_i64().unwrap_or(0);
    let taken = amount(sent, "amount").unwrap_or(authorised);
    if taken > authorised {
        return Err(Refusal::amount(
            "The requested capture amount is greater than the amount you can capture for this charge.",
        )
        .code("amount_too_large"));
    }
    if let Some(resource) = Resource::named("charges") {
        let words = sent.iter().filter(|(name, _)| *name != "amount");
        merge(resource, &mut charge, &words.map(|(name, value)| (name.clone(), value.clone())).collect());
    }
    settle(desk, &mut charge, taken);
    if let Some(mut intent) = desk.get("payment_intents", &charge["payment_intent"]) {
        intent["status"] = Value::from("succeeded");
        intent["amount_received"] = Value::from(taken);
        intent["amount_capturable"] = Value::from(0);
        desk.put("payment_intents", &intent);
        desk.tell("succeeded", &intent);
    }
    Ok(charge)
}

/// Captures a charge that is held.
pub(super) fn settle(desk: &mut Desk<'_>, charge: &mut Value, taken: i64) {
    take(desk, charge, taken);
    desk.put("charges", charge);
    desk.tell("captured", charge);
}

/// Gives up what was authorised.
pub(super) fn release(desk: &mut Desk<'_>, charge: &mut Value) {
    charge["amount_refunded"] = charge["amount"].clone();
    charge["refunded"] = Value::from(true);
    desk.put("charges", charge);
    desk.tell("refunded", charge);
}

pub(super) fn refund(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    let mut charge = charge_of(desk, sent)?;
    let id = charge["id"].as_str().unwrap_or_default().to_owned();
    let currency = charge["currency"].as_str().unwrap_or_default().to_owned();
    if charge["paid"] != true {
        let message = format!("Charge {id} has not been paid and cannot be refunded.");
        return Err(Refusal::state("charge_not_refundable", message));
    }
    let captured = charge["captured"] == true;
    let whole = if captured { &charge["amount_captured"] } else { &charge["amount"] };
    let refunded = charge["amount_refunded"].as_i64().unwrap_or(0);
    let left = whole.as_i64().unwrap_or(0) - refunded;
    if left <= 0 {
        let message = format!("Charge {id} has already been refunded.");
        return Err(Refusal::state("charge_already_refunded", message));
    }
    let asked = amount(sent, "amount").unwrap_or(left);
    if asked > left {
        return Err(Refusal::amount(format!(
            "Refund amount ({}) is greater than {} ({})",
            money(asked, &currency),
            if refunded > 0 { "unrefunded amount on charge" } else { "charge amount" },
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
    let mut refund = desk.draft("refunds", sent);
    refund["amount"] = Value::from(asked);
    refund["currency"] = Value::from(currency);
    refund["charge"] = charge["id"].clone();
    refund["payment_intent"] = charge["payment_intent"].clone();
    refund["destination_details"] = json!({ "type": "card", "card": { "reference_status": "pending",
        "reference_type": "acquirer_reference_number", "type": if captured { "refund" } else { "reversal" } } });
    charge["amount_refunded"] = Value::from(refunded + asked);
    charge["refunded"] = Value::from(asked == left);
    if captured {
        let (currency, source) = (refund["currency"].clone(), refund["id"].clone());
        refund["balance_transaction"] = book(desk, "refund", -asked, 0, &currency, &source);
    }
    let refund = desk.add("refunds", refund);
    desk.put("charges", &charge);
    desk.tell("refunded", &charge);
    Ok(refund)
}

/// The charge that a refund is of.
fn charge_of(desk: &Desk<'_>, sent: &Map<String, Value>) -> Made {
    match (text(sent, "charge"), text(sent, "payment_intent")) {
        (Some(charge), None) => desk.named("charges", charge, "charge"),
        (None, Some(id)) => {
            let intent = desk.named("payment_intents", id, "payment_intent")?;
            let message = format!("This PaymentIntent ({id}) does not have a successful charge to refund.");
            let none = || Refusal::state("charge_not_refundable", message.clone());
            desk.get("charges", &intent["latest_charge"]).ok_or_else(none)
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

pub(super) fn cannot_cancel(refund: &Value) -> Refusal {
    let (id, status) =
        (refund["id"].as_str().unwrap_or_default(), refund["status"].as_str().unwrap_or_default());
    Refusal::state(
        "refund_not_cancelable",
        format!("Refund {id} has a status of {status} and cannot be canceled."),
    )
}

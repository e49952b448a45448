//! Charges, and the account's balance: the money that must add up. Refunds have `refunds.rs`.

use serde_json::{Map, Value, json};

use super::super::cards::{Card, Charging};
use super::super::contract::Resource;
use super::super::desk::{Desk, Made, merge};
use super::super::refusal::Refusal;
use super::{amount, checks, refunds, text};

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
    // A fee that is given back is below zero.
    if fee != 0 {
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
    // A hold that was refunded is released (<https://docs.stripe.com/api/refunds/create>).
    if charge["refunded"] == true {
        return Err(refunds::already(&id));
    }
    if charge["paid"] != true {
        return Err(Refusal::state("charge_not_capturable", format!("Charge {id} cannot be captured.")));
    }
    let intent = desk.get("payment_intents", &charge["payment_intent"]);
    if intent.as_ref().is_some_and(|intent| intent["status"] == "canceled") {
        // The authorization is gone (<https://docs.stripe.com/error-codes#charge-expired-for-capture>).
        let message = format!("Charge {id} cannot be captured because its authorization was released.");
        return Err(Refusal::state("charge_expired_for_capture", message));
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
    if let Some(mut intent) = intent {
        intent["status"] = Value::from("succeeded");
        intent["amount_received"] = Value::from(taken);
        intent["amount_capturable"] = Value::from(0);
        desk.put("payment_intents", &intent);
        desk.tell("succeeded", &intent);
    }
    Ok(charge)
}

/// Captures a charge that is held, or a part of it. The rest is released.
pub(super) fn settle(desk: &mut Desk<'_>, charge: &mut Value, taken: i64) {
    let whole = charge["amount"].as_i64().unwrap_or(0);
    if taken < whole && refunds::releases_are_refunds(desk) {
        take(desk, charge, whole);
        charge["amount_captured"] = Value::from(taken);
        refunds::release(desk, charge, whole - taken, fee(taken) - fee(whole));
    } else {
        take(desk, charge, taken);
    }
    desk.put("charges", charge);
    desk.tell("captured", charge);
}

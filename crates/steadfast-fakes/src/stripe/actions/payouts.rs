//! Money that leaves and enters the account: payouts, top-ups, transfers. The account begins with enough of it.

use serde_json::{Map, Value};

use super::super::desk::{Desk, Made};
use super::super::objects::inner_list;
use super::super::refusal::Refusal;
use super::{amount, charges, money, text};

pub(super) fn create(desk: &mut Desk<'_>, name: &str, sent: &Map<String, Value>) -> Made {
    if name == "transfers" && amount(sent, "amount").is_none() {
        return Err(Refusal::missing("amount"));
    }
    check_source(desk, sent)?;
    let mut object = desk.draft(name, sent);
    let currency = Value::from(text(sent, "currency").unwrap_or_default().to_lowercase());
    let moved = amount(sent, "amount").unwrap_or(0);
    object["currency"] = currency.clone();
    let (kind, moved) = match name {
        "payouts" => {
            object["arrival_date"] = Value::from(desk.now + 2 * 24 * 3600);
            if object["destination"].is_null() {
                object["destination"] = Value::from("ba_fake");
            }
            ("payout", -moved)
        }
        "transfers" => {
            object["reversals"] = reversals(&object, &[]);
            object["destination_payment"] = Value::from(desk.objects.next_id("py"));
            object["source_type"] = sent.get("source_type").cloned().unwrap_or_else(|| Value::from("card"));
            ("transfer", -moved)
        }
        _ => {
            object["expected_availability_date"] = Value::from(desk.now + 24 * 3600);
            ("topup", moved)
        }
    };
    let id = object["id"].clone();
    object["balance_transaction"] = charges::book(desk, kind, moved, 0, &currency, &id);
    Ok(desk.add(name, object))
}

/// The charge that a transfer comes from bounds it (<https://docs.stripe.com/api/transfers/create>). There may be several
/// "as long as the sum of the transfers doesn't exceed the source charge"
/// (<https://docs.stripe.com/connect/separate-charges-and-transfers>).
///
/// Whether a reversal makes room for another transfer is not documented: here it makes none. Nor is what becomes of a
/// charge that took nothing, or only a part: here no more is transferred than was captured. The sentences are composed.
fn check_source(desk: &Desk<'_>, sent: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(charge) = sent.get("source_transaction").and_then(|id| desk.get("charges", id)) else {
        return Ok(());
    };
    if text(sent, "currency").map(str::to_lowercase).as_deref() != charge["currency"].as_str() {
        return Err(Refusal::param(
            "currency",
            format!("The source transaction is in {}.", charge["currency"]),
        ));
    }
    if charge["captured"] != true {
        let message =
            "The source transaction was not captured. A transfer comes from a charge that was paid.";
        return Err(Refusal::param("source_transaction", message).in_execution());
    }
    let id = charge["id"].as_str().unwrap_or_default();
    let others = desk.objects.with(desk.account, "transfers", "source_transaction", id);
    let others = others.iter().filter_map(|other| other["amount"].as_i64());
    let sum = others.fold(amount(sent, "amount").unwrap_or(0), i64::saturating_add);
    if sum > charge["amount_captured"].as_i64().unwrap_or(0) {
        let message = "The transfers of a source transaction are together no greater than it.";
        return Err(Refusal::amount(message));
    }
    Ok(())
}

pub(super) fn cancel(desk: &mut Desk<'_>, name: &str, mut object: Value) -> Made {
    if object["status"] != "pending" {
        let (kind, id) =
            (object["object"].as_str().unwrap_or_default(), object["id"].as_str().unwrap_or_default());
        let message = format!("The {kind} {id} is not pending and cannot be canceled.");
        return Err(Refusal::state(&format!("{kind}_not_cancelable"), message));
    }
    object["status"] = Value::from("canceled");
    let back = object["amount"].as_i64().unwrap_or(0);
    let (kind, back) = if name == "payouts" { ("payout_cancel", back) } else { ("topup_reversal", -back) };
    let (currency, id) = (object["currency"].clone(), object["id"].clone());
    charges::book(desk, kind, back, 0, &currency, &id);
    desk.put(name, &object);
    desk.tell("canceled", &object);
    Ok(object)
}

/// Takes a transfer back, or a part of it. Gives the reversal.
pub(super) fn reverse(desk: &mut Desk<'_>, mut transfer: Value, sent: &Map<String, Value>) -> Made {
    let whole = transfer["amount"].as_i64().unwrap_or(0);
    let left = whole - transfer["amount_reversed"].as_i64().unwrap_or(0);
    let back = amount(sent, "amount").unwrap_or(left);
    if back > left || left == 0 {
        let currency = transfer["currency"].as_str().unwrap_or_default();
        let message = format!(
            "Reversal amount ({}) is greater than unreversed amount on transfer ({})",
            money(back, currency),
            money(left, currency)
        );
        return Err(Refusal::amount(message));
    }
    let id = Value::from(desk.objects.next_id("trr"));
    let (currency, source) = (transfer["currency"].clone(), transfer["id"].clone());
    let booked = charges::book(desk, "transfer_refund", back, 0, &currency, &id);
    let reversal = serde_json::json!({
        "id": id, "object": "transfer_reversal", "amount": back, "balance_transaction": booked, "created": desk.now,
        "currency": currency, "destination_payment_refund": null,
        "metadata": sent.get("metadata").filter(|metadata| metadata.is_object()).cloned().unwrap_or_else(|| serde_json::json!({})),
        "source_refund": null, "transfer": source,
    });
    let mut all = vec![reversal.clone()];
    all.extend(transfer["reversals"]["data"].as_array().cloned().unwrap_or_default());
    transfer["reversals"] = reversals(&transfer, &all);
    transfer["amount_reversed"] = Value::from(whole - left + back);
    transfer["reversed"] = Value::from(back == left);
    desk.put("transfers", &transfer);
    desk.tell("reversed", &transfer);
    Ok(reversal)
}

fn reversals(transfer: &Value, data: &[Value]) -> Value {
    inner_list(data, &format!("/v1/transfers/{}/reversals", transfer["id"].as_str().unwrap_or_default()))
}

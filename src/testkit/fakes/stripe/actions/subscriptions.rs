//! Subscriptions: their items, their periods and the invoice of the first one.

use serde_json::{Map, Value, json};

use super::super::desk::{Desk, Made};
use super::super::objects::inner_list;
use super::super::refusal::Refusal;
use super::billing::{DAY, draft_invoice, finalize, line, pay, set_lines};
use super::{amount, text};
use crate::testkit::fakes::calendar::months_later;

pub(super) fn create(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    let items = sent.get("items").and_then(Value::as_array).filter(|items| !items.is_empty());
    let Some(items) = items else { return Err(Refusal::missing("items")) };
    let mut subscription = desk.draft("subscriptions", sent);
    let id = subscription["id"].clone();
    let trial = amount(sent, "trial_period_days").and_then(|days| u64::try_from(days).ok());
    let trial_end = trial.map(|days| desk.now + days * DAY);
    let trial_end = amount(sent, "trial_end").and_then(|end| u64::try_from(end).ok()).or(trial_end);
    let mut made = Vec::new();
    for item in items {
        let item = subscription_item(desk, &id, item, trial_end)?;
        subscription["currency"] = item["price"]["currency"].clone();
        made.push(item);
    }
    set_items(&mut subscription, &made);
    for name in ["billing_cycle_anchor", "start_date"] {
        subscription[name] = Value::from(desk.now);
    }
    if let Some(end) = trial_end {
        subscription["trial_start"] = Value::from(desk.now);
        subscription["trial_end"] = Value::from(end);
        subscription["billing_cycle_anchor"] = Value::from(end);
        subscription["status"] = Value::from("trialing");
        return Ok(desk.add("subscriptions", subscription));
    }
    let invoice = first_invoice(desk, &subscription, &made);
    subscription["latest_invoice"] = invoice["id"].clone();
    if subscription["collection_method"] != "send_invoice" {
        let mut how = Map::new();
        how.insert("payment_method".to_owned(), subscription["default_payment_method"].clone());
        if let Err(refusal) = pay(desk, invoice, &how) {
            if text(sent, "payment_behavior") == Some("error_if_incomplete") {
                return Err(refusal);
            }
            subscription["status"] = Value::from("incomplete");
        }
    }
    Ok(desk.add("subscriptions", subscription))
}

fn set_items(subscription: &mut Value, items: &[Value]) {
    let path =
        format!("/v1/subscription_items?subscription={}", subscription["id"].as_str().unwrap_or_default());
    let mut list = inner_list(items, &path);
    list["total_count"] = Value::from(items.len());
    subscription["items"] = list;
}

fn subscription_item(desk: &mut Desk<'_>, subscription: &Value, sent: &Value, until: Option<u64>) -> Made {
    let Some(price) = sent["price"].as_str() else { return Err(Refusal::missing("items[0][price]")) };
    let price = desk.named("prices", price, "items[0][price]")?;
    let recurring = &price["recurring"];
    let count = recurring["interval_count"].as_u64().unwrap_or(1);
    let end = match recurring["interval"].as_str() {
        Some("day") => desk.now + count * DAY,
        Some("week") => desk.now + 7 * count * DAY,
        Some("month") => months_later(desk.now, count),
        Some("year") => months_later(desk.now, 12 * count),
        _ => {
            let message = "The price specified is set to `type=one_time` but this field only accepts prices with `type=recurring`.";
            return Err(Refusal::param("items[0][price]", message));
        }
    };
    let plan = json!({
        "id": price["id"], "object": "plan", "active": price["active"], "amount": price["unit_amount"],
        "amount_decimal": price["unit_amount_decimal"], "billing_scheme": price["billing_scheme"],
        "created": price["created"], "currency": price["currency"], "interval": recurring["interval"],
        "interval_count": count, "livemode": price["livemode"], "metadata": price["metadata"], "meter": null,
        "nickname": price["nickname"], "product": price["product"], "tiers_mode": null, "transform_usage": null,
        "trial_period_days": null, "usage_type": recurring["usage_type"],
    });
    let metadata = Some(&sent["metadata"]).filter(|metadata| metadata.is_object()).cloned();
    Ok(json!({
        "id": desk.objects.next_id("si"), "object": "subscription_item", "billing_thresholds": null, "created": desk.now,
        "current_period_end": until.unwrap_or(end), "current_period_start": desk.now, "current_trial": null,
        "discounts": [], "metadata": metadata.unwrap_or_else(|| json!({})), "plan": plan, "price": price,
        "quantity": sent["quantity"].as_i64().unwrap_or(1), "subscription": subscription, "tax_rates": [],
    }))
}

/// The invoice of the first period, finalized.
fn first_invoice(desk: &mut Desk<'_>, subscription: &Value, items: &[Value]) -> Value {
    let mut sent = Map::new();
    for name in ["customer", "collection_method", "days_until_due", "default_payment_method"] {
        sent.insert(name.to_owned(), subscription[name].clone());
    }
    let mut invoice = draft_invoice(desk, &sent);
    invoice["billing_reason"] = Value::from("subscription_create");
    let details = json!({ "metadata": subscription["metadata"], "subscription": subscription["id"] });
    invoice["parent"] =
        json!({ "quote_details": null, "subscription_details": details, "type": "subscription_details" });
    let id = invoice["id"].as_str().unwrap_or_default().to_owned();
    let mut data = Vec::new();
    for item in items {
        let quantity = item["quantity"].as_i64().unwrap_or(1);
        let mut line = line(item, &id);
        line["id"] = Value::from(desk.objects.next_id("il"));
        line["amount"] = Value::from(item["price"]["unit_amount"].as_i64().unwrap_or(0) * quantity);
        line["subtotal"] = line["amount"].clone();
        line["currency"] = item["price"]["currency"].clone();
        line["discountable"] = Value::from(true);
        line["livemode"] = invoice["livemode"].clone();
        line["quantity_decimal"] = Value::from(quantity.to_string());
        line["period"] = json!({ "start": item["current_period_start"], "end": item["current_period_end"] });
        line["subscription"] = subscription["id"].clone();
        line["parent"] = json!({ "invoice_item_details": null, "type": "subscription_item_details",
            "subscription_item_details": { "invoice_item": null, "proration": false, "proration_details": null,
                "subscription": subscription["id"], "subscription_item": item["id"] } });
        data.push(line);
    }
    set_lines(&mut invoice, &data);
    desk.add_quietly("invoices", &invoice);
    desk.tell("created", &invoice);
    finalize(desk, &mut invoice);
    invoice
}

/// Changes the items that are named, and adds those that are not.
pub(super) fn update(
    desk: &mut Desk<'_>,
    subscription: &mut Value,
    sent: &Map<String, Value>,
) -> Result<(), Refusal> {
    if subscription["status"] == "canceled" {
        let message = "A canceled subscription can only update its cancellation_details and metadata.";
        return Err(Refusal::state("subscription_canceled", message));
    }
    let mut items = subscription["items"]["data"].as_array().cloned().unwrap_or_default();
    for change in sent.get("items").and_then(Value::as_array).into_iter().flatten() {
        let at = items.iter().position(|item| item["id"] == change["id"]);
        match (change["id"].as_str(), at) {
            (None, _) => items.push(subscription_item(desk, &subscription["id"], change, None)?),
            (Some(id), None) => return Err(Refusal::no_such("subscription_item", id, "items[0][id]")),
            (Some(_), Some(at)) if change["deleted"] == true => drop(items.remove(at)),
            (Some(_), Some(at)) => {
                let mut whole = items[at].clone();
                if change["price"].is_string() {
                    let priced = subscription_item(desk, &subscription["id"], change, None)?;
                    (whole["price"], whole["plan"]) = (priced["price"].clone(), priced["plan"].clone());
                }
                if change["quantity"].is_i64() {
                    whole["quantity"] = change["quantity"].clone();
                }
                items[at] = whole;
            }
        }
    }
    set_items(subscription, &items);
    if let Some(at_end) = sent.get("cancel_at_period_end").and_then(Value::as_bool) {
        let end = items.iter().filter_map(|item| item["current_period_end"].as_u64()).max();
        let (at, when) = if at_end { (end, Some(desk.now)) } else { (None, None) };
        subscription["cancel_at"] = at.map_or(Value::Null, Value::from);
        subscription["canceled_at"] = when.map_or(Value::Null, Value::from);
    }
    Ok(())
}

pub(super) fn cancel(desk: &mut Desk<'_>, mut subscription: Value) -> Made {
    let id = subscription["id"].as_str().unwrap_or_default();
    if subscription["status"] == "canceled" {
        return Err(Refusal::not_found("subscription", id));
    }
    subscription["status"] = Value::from("canceled");
    subscription["canceled_at"] = Value::from(desk.now);
    subscription["ended_at"] = Value::from(desk.now);
    desk.put("subscriptions", &subscription);
    desk.tell("deleted", &subscription);
    Ok(subscription)
}

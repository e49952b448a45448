//! Subscriptions: their items, their periods and the invoice of the first one.

use serde_json::{Map, Value, json};

use super::super::contract::Resource;
use super::super::desk::{Desk, Made, merge, merge_metadata};
use super::super::objects::inner_list;
use super::super::refusal::Refusal;
use super::billing::{DAY, check_due, customers_currency, draft_invoice, finalize, pay};
use super::cycles::{period_end, tell_of_short_trial};
use super::items::{line, set_lines};
use super::{amount, methods, text};

pub(super) fn create(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    let items = sent.get("items").and_then(Value::as_array).filter(|items| !items.is_empty());
    let Some(items) = items else { return Err(Refusal::missing("items")) };
    check_due(sent, &Value::Null, &["days_until_due"])?;
    methods::check_own(desk, sent, "default_payment_method", &sent["customer"])?;
    let trial_end = trial_end(sent, desk.now)?;
    let mut subscription = desk.draft("subscriptions", sent);
    let id = subscription["id"].clone();
    let mut made = Vec::new();
    for (at, item) in items.iter().enumerate() {
        made.push(subscription_item(desk, &id, item, at, trial_end)?);
    }
    subscription["currency"] = one_currency(&made, text(sent, "currency"))?;
    set_items(&mut subscription, &made);
    for name in ["billing_cycle_anchor", "start_date"] {
        subscription[name] = Value::from(desk.now);
    }
    cancel_at_end(desk, &mut subscription, sent);
    customers_currency(desk, &subscription["customer"], &subscription["currency"]);
    if let Some(end) = trial_end {
        subscription["trial_start"] = Value::from(desk.now);
        subscription["trial_end"] = Value::from(end);
        subscription["billing_cycle_anchor"] = Value::from(end);
        subscription["status"] = Value::from("trialing");
        let subscription = desk.add("subscriptions", subscription);
        tell_of_short_trial(desk, &subscription);
        return Ok(subscription);
    }
    let mut invoice = draft_for(desk, &subscription, &made, "subscription_create");
    desk.tell("created", &invoice);
    finalize(desk, &mut invoice);
    subscription["latest_invoice"] = invoice["id"].clone();
    if subscription["collection_method"] != "send_invoice" {
        let behaviour = text(sent, "payment_behavior");
        let paid = invoice["status"] == "paid"
            || (behaviour != Some("default_incomplete") && pays(desk, &subscription, invoice, behaviour)?);
        if !paid {
            subscription["status"] = Value::from("incomplete");
        }
    }
    Ok(desk.add("subscriptions", subscription))
}

/// A subscription is incomplete until its first invoice is paid, and past due until its latest one is
/// (<https://docs.stripe.com/billing/subscriptions/overview#subscription-statuses>).
pub(super) fn after_payment(desk: &mut Desk<'_>, invoice: &Value) {
    let id = &invoice["parent"]["subscription_details"]["subscription"];
    if let Some(mut subscription) = desk.get("subscriptions", id)
        && subscription["latest_invoice"] == invoice["id"]
        && (subscription["status"] == "incomplete" || subscription["status"] == "past_due")
    {
        subscription["status"] = Value::from("active");
        desk.put("subscriptions", &subscription);
        desk.tell("updated", &subscription);
    }
}

/// Whether the first invoice is paid. With `error_if_incomplete` a payment that fails is the end of it: nothing was made.
fn pays(
    desk: &mut Desk<'_>,
    subscription: &Value,
    invoice: Value,
    behaviour: Option<&str>,
) -> Result<bool, Refusal> {
    let mut how = Map::new();
    how.insert("payment_method".to_owned(), subscription["default_payment_method"].clone());
    match pay(desk, invoice, &how) {
        Ok(_) => Ok(true),
        Err(refusal) if behaviour == Some("error_if_incomplete") => Err(refusal.without_trace()),
        Err(_) => Ok(false),
    }
}

fn trial_end(sent: &Map<String, Value>, now: u64) -> Result<Option<u64>, Refusal> {
    let seconds = |name: &str| amount(sent, name).map(|number| u64::try_from(number).unwrap_or(0));
    match (seconds("trial_end"), seconds("trial_period_days")) {
        (Some(_), Some(_)) => Err(Refusal::exclusive(&["trial_end", "trial_period_days"])),
        (Some(end), None) if end <= now => Err(Refusal::param(
            "trial_end",
            "Invalid timestamp: must be an integer Unix timestamp in the future",
        )),
        (Some(end), None) => Ok(Some(end)),
        (None, days) => {
            Ok(days.filter(|days| *days > 0).map(|days| now.saturating_add(days.saturating_mul(DAY))))
        }
    }
}

/// The one currency of all items, which is the one that is asked for.
fn one_currency(items: &[Value], asked: Option<&str>) -> Result<Value, Refusal> {
    let asked = asked.map(|asked| Value::from(asked.to_lowercase()));
    let first = items.first().map(|item| item["price"]["currency"].clone());
    let currency = asked.or(first).unwrap_or_default();
    match items.iter().position(|item| item["price"]["currency"] != currency) {
        Some(at) => {
            let message = format!("All prices of a subscription are in one currency, here {currency}.");
            Err(Refusal::param(&format!("items[{at}][price]"), message))
        }
        None => Ok(currency),
    }
}

pub(super) fn set_items(subscription: &mut Value, items: &[Value]) {
    let path =
        format!("/v1/subscription_items?subscription={}", subscription["id"].as_str().unwrap_or_default());
    let mut list = inner_list(items, &path);
    list["total_count"] = Value::from(items.len());
    subscription["items"] = list;
}

fn subscription_item(
    desk: &mut Desk<'_>,
    subscription: &Value,
    sent: &Value,
    at: usize,
    until: Option<u64>,
) -> Made {
    let param = format!("items[{at}][price]");
    let Some(price) = sent["price"].as_str() else { return Err(Refusal::missing(&param)) };
    let price = desk.named("prices", price, &param)?;
    if price["unit_amount"].is_null() {
        let message = "The fake bills whole units of a currency, and no part of one.";
        return Err(Refusal::param(&param, message));
    }
    check_quantity(sent, at)?;
    let recurring = &price["recurring"];
    let count = recurring["interval_count"].as_u64().unwrap_or(1);
    if !recurring["interval"].is_string() {
        let message = "The price specified is set to `type=one_time` but this field only accepts prices with `type=recurring`.";
        return Err(Refusal::param(&param, message));
    }
    let end = period_end(desk.now, recurring, desk.now);
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

fn check_quantity(item: &Value, at: usize) -> Result<(), Refusal> {
    match item["quantity"].as_i64() {
        Some(quantity) if quantity < 0 => {
            let refusal = Refusal::param(&format!("items[{at}][quantity]"), "Invalid non-negative integer");
            Err(refusal.code("parameter_invalid_integer"))
        }
        _ => Ok(()),
    }
}

/// The draft of an invoice for these items' periods. Nothing is told of it yet.
pub(super) fn draft_for(desk: &mut Desk<'_>, subscription: &Value, items: &[Value], reason: &str) -> Value {
    let mut sent = Map::new();
    for name in ["customer", "collection_method", "currency", "days_until_due", "default_payment_method"] {
        sent.insert(name.to_owned(), subscription[name].clone());
    }
    let mut invoice = draft_invoice(desk, &sent);
    invoice["billing_reason"] = Value::from(reason);
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
    invoice
}

/// Changes the items that are named, and adds those that are not. Nothing is prorated.
pub(super) fn update(
    desk: &mut Desk<'_>,
    subscription: &mut Value,
    sent: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    let words = ["cancellation_details", "metadata"];
    if subscription["status"] == "canceled" && sent.keys().any(|name| !words.contains(&name.as_str())) {
        let message = "A canceled subscription can only update its cancellation_details and metadata.";
        return Err(Refusal::state("subscription_canceled", message));
    }
    check_due(sent, subscription, &["days_until_due"])?;
    methods::check_own(desk, sent, "default_payment_method", &subscription["customer"])?;
    if let Some(changes) = sent.remove("items") {
        let mut items = subscription["items"]["data"].as_array().cloned().unwrap_or_default();
        for (at, change) in changes.as_array().into_iter().flatten().enumerate() {
            change_items(desk, &subscription["id"], &mut items, at, change)?;
        }
        if items.is_empty() {
            let message = "A subscription has at least one item. To end it, cancel it.";
            return Err(Refusal::param("items", message));
        }
        one_currency(&items, subscription["currency"].as_str())?;
        set_items(subscription, &items);
    }
    if text(sent, "collection_method") == Some("charge_automatically") {
        subscription["days_until_due"] = Value::Null;
    }
    cancel_at_end(desk, subscription, sent);
    Ok(())
}

fn change_items(
    desk: &mut Desk<'_>,
    subscription: &Value,
    items: &mut Vec<Value>,
    at: usize,
    change: &Value,
) -> Result<(), Refusal> {
    let Some(id) = change["id"].as_str() else {
        items.push(subscription_item(desk, subscription, change, at, None)?);
        return Ok(());
    };
    let Some(place) = items.iter().position(|item| item["id"] == id) else {
        return Err(Refusal::no_such("subscription_item", id, &format!("items[{at}][id]")));
    };
    if change["deleted"] == true {
        items.remove(place);
        return Ok(());
    }
    check_quantity(change, at)?;
    let item = &mut items[place];
    if change["price"].is_string() {
        let priced = subscription_item(desk, subscription, change, at, None)?;
        (item["price"], item["plan"]) = (priced["price"].clone(), priced["plan"].clone());
    }
    if change["quantity"].is_i64() {
        item["quantity"] = change["quantity"].clone();
    }
    if !change["metadata"].is_null() {
        merge_metadata(&mut item["metadata"], &change["metadata"]);
    }
    Ok(())
}

/// To end with the period, or no longer.
fn cancel_at_end(desk: &Desk<'_>, subscription: &mut Value, sent: &Map<String, Value>) {
    let Some(at_end) = sent.get("cancel_at_period_end").and_then(Value::as_bool) else { return };
    let items = subscription["items"]["data"].as_array().into_iter().flatten();
    let end = items.filter_map(|item| item["current_period_end"].as_u64()).max();
    let (at, when) = if at_end { (end, Some(desk.now)) } else { (None, None) };
    subscription["cancel_at"] = at.map_or(Value::Null, Value::from);
    subscription["canceled_at"] = when.map_or(Value::Null, Value::from);
}

pub(super) fn cancel(desk: &mut Desk<'_>, mut subscription: Value, sent: &Map<String, Value>) -> Made {
    let id = subscription["id"].as_str().unwrap_or_default();
    if matches!(subscription["status"].as_str(), Some("canceled" | "incomplete_expired")) {
        return Err(Refusal::not_found("subscription", id));
    }
    if let Some(resource) = Resource::named("subscriptions") {
        merge(resource, &mut subscription, sent);
    }
    subscription["status"] = Value::from("canceled");
    subscription["canceled_at"] = Value::from(desk.now);
    subscription["ended_at"] = Value::from(desk.now);
    desk.put("subscriptions", &subscription);
    desk.tell("deleted", &subscription);
    Ok(subscription)
}

/// "Also immediately cancels any active subscriptions on the customer"
/// (<https://docs.stripe.com/api/customers/delete>).
pub(super) fn cancel_all_of(desk: &mut Desk<'_>, customer: &str) -> Result<(), Refusal> {
    for subscription in desk.objects.with(desk.account, "subscriptions", "customer", customer) {
        if !matches!(subscription["status"].as_str(), Some("canceled" | "incomplete_expired")) {
            cancel(desk, subscription, &Map::new())?;
        }
    }
    Ok(())
}

//! Subscriptions: how one begins, with its items, its first period and the invoice of that, and how one is canceled.

use serde_json::{Map, Value, json};

use super::super::contract::Resource;
use super::super::desk::{Desk, Made, merge};
use super::super::objects::inner_list;
use super::super::refusal::Refusal;
use super::billing::{DAY, check_amount_due, check_due, customers_currency, draft_invoice, finalize, pay};
use super::changes::cancel_at_end;
use super::checks::{AMOUNT_MAX, not_negative};
use super::cycles::{period_end, tell_of_short_trial};
use super::items::{is_pending_of, line, set_lines, take_pending};
use super::prorations::{pricing, product_name};
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
        made.push(subscription_item(desk, &id, item, &format!("items[{at}]"), trial_end)?);
    }
    subscription["currency"] = one_currency(&made, text(sent, "currency"))?;
    one_interval(&made)?;
    one_item_each(&made, &[])?;
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
    }
    // A trial begins with one too: "An immediate invoice is still created, but for $0"
    // (<https://docs.stripe.com/billing/subscriptions/trials/free-trials>). That a first invoice takes what waits for one is
    // not documented: an item is "added to the next upcoming scheduled invoice".
    let mut invoice = draft_for(desk, &subscription, &made, "subscription_create");
    take_pending(desk, &mut invoice);
    desk.put("invoices", &invoice);
    subscription["latest_invoice"] = invoice["id"].clone();
    if !collect(desk, &subscription, invoice, text(sent, "payment_behavior"))? {
        subscription["status"] = Value::from("incomplete");
    }
    let subscription = desk.add("subscriptions", subscription);
    tell_of_short_trial(desk, &subscription);
    Ok(subscription)
}

/// Finalizes an invoice at once, and takes its payment. Tells whether no payment is missing: one that is sent has time.
pub(super) fn collect(
    desk: &mut Desk<'_>,
    subscription: &Value,
    mut invoice: Value,
    behaviour: Option<&str>,
) -> Result<bool, Refusal> {
    check_amount_due(&invoice)?;
    desk.tell("created", &invoice);
    finalize(desk, &mut invoice);
    if invoice["status"] == "paid" || subscription["collection_method"] == "send_invoice" {
        return Ok(true);
    }
    Ok(behaviour != Some("default_incomplete") && pays(desk, subscription, invoice, behaviour)?)
}

/// A subscription is incomplete until its first invoice is paid, and past due until its latest one is. A trial goes on
/// (<https://docs.stripe.com/billing/subscriptions/overview#subscription-statuses>).
pub(super) fn after_payment(desk: &mut Desk<'_>, invoice: &Value) {
    activate(desk, invoice, &["incomplete", "past_due"]);
}

/// "For `past_due` subscriptions, paying the latest associated invoice or marking it uncollectible transitions the
/// subscription to `active`" (the same page). An incomplete one stays incomplete.
pub(super) fn after_write_off(desk: &mut Desk<'_>, invoice: &Value) {
    activate(desk, invoice, &["past_due"]);
}

/// Makes the invoice's subscription active again, if the invoice is its latest and it has one of these statuses.
fn activate(desk: &mut Desk<'_>, invoice: &Value, statuses: &[&str]) {
    let id = &invoice["parent"]["subscription_details"]["subscription"];
    if let Some(mut subscription) = desk.get("subscriptions", id)
        && subscription["latest_invoice"] == invoice["id"]
        && statuses.iter().any(|status| subscription["status"] == *status)
    {
        let in_trial = subscription["trial_end"].as_u64().is_some_and(|end| end > desk.now);
        subscription["status"] = Value::from(if in_trial { "trialing" } else { "active" });
        desk.put("subscriptions", &subscription);
        desk.tell("updated", &subscription);
    }
}

/// Whether the invoice is paid. With `error_if_incomplete` a payment that fails is the end of it: nothing was made.
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
    not_negative(sent, &["trial_period_days"])?;
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
pub(super) fn one_currency(items: &[Value], asked: Option<&str>) -> Result<Value, Refusal> {
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

/// The billing mode is classic, and mixed intervals are of the flexible one
/// (<https://docs.stripe.com/billing/subscriptions/mixed-interval>).
pub(super) fn one_interval(items: &[Value]) -> Result<(), Refusal> {
    if items.iter().all(|item| interval_of(item) == items.first().and_then(interval_of)) {
        return Ok(());
    }
    let message = "Currency and interval fields must match across all plans/prices on this subscription. \
        Found mismatch in interval field.";
    Err(Refusal::param("items", message))
}

/// Refuses two items of one price. The first sentence was seen (`stripe-archive/submigrate#1`); the other is composed
/// after Stripe's. `known` are the items that the subscription had before.
pub(super) fn one_item_each(items: &[Value], known: &[Value]) -> Result<(), Refusal> {
    for (at, item) in items.iter().enumerate() {
        let price = &item["price"]["id"];
        let Some(other) = items[..at].iter().find(|other| other["price"]["id"] == *price) else { continue };
        let (price, id) = (price.as_str().unwrap_or_default(), other["id"].as_str().unwrap_or_default());
        let message = if known.iter().any(|known| known["id"] == id) {
            format!(
                "A new item with Price `{price}` can't be added to this Subscription because an existing Subscription \
                 Item `{id}` is already using that Price."
            )
        } else {
            format!("Cannot add multiple subscription items with the same plan: {price}")
        };
        return Err(Refusal::param("items", message));
    }
    Ok(())
}

/// Refuses an item whose period costs more than Stripe charges at once.
pub(super) fn check_amount(item: &Value, outer: &str) -> Result<(), Refusal> {
    let unit = item["price"]["unit_amount"].as_i64().unwrap_or(0);
    let whole = unit.checked_mul(item["quantity"].as_i64().unwrap_or(1));
    if whole.is_some_and(|whole| whole.unsigned_abs() <= AMOUNT_MAX) {
        return Ok(());
    }
    let refusal = Refusal::param(&within(outer, "quantity"), "The amount is too large.");
    Err(refusal.code("amount_too_large"))
}

/// The unit of an item's period, and how many of it.
pub(super) fn interval_of(item: &Value) -> Option<(String, u64)> {
    let recurring = &item["price"]["recurring"];
    Some((recurring["interval"].as_str()?.to_owned(), recurring["interval_count"].as_u64().unwrap_or(1)))
}

pub(super) fn set_items(subscription: &mut Value, items: &[Value]) {
    let path =
        format!("/v1/subscription_items?subscription={}", subscription["id"].as_str().unwrap_or_default());
    let mut list = inner_list(items, &path);
    list["total_count"] = Value::from(items.len());
    subscription["items"] = list;
}

/// A new item. `outer` is the parameter that it is in; empty for the form itself.
pub(super) fn subscription_item(
    desk: &mut Desk<'_>,
    subscription: &Value,
    sent: &Value,
    outer: &str,
    until: Option<u64>,
) -> Made {
    let param = within(outer, "price");
    let Some(price) = sent["price"].as_str() else { return Err(Refusal::missing(&param)) };
    let price = desk.named("prices", price, &param)?;
    if price["unit_amount"].is_null() {
        let message = "The fake bills whole units of a currency, and no part of one.";
        return Err(Refusal::param(&param, message));
    }
    check_quantity(sent, outer)?;
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
    let made = json!({
        "id": desk.objects.next_id("si"), "object": "subscription_item", "billing_thresholds": null, "created": desk.now,
        "current_period_end": until.unwrap_or(end), "current_period_start": desk.now, "current_trial": null,
        "discounts": [], "metadata": metadata.unwrap_or_else(|| json!({})), "plan": plan, "price": price,
        "quantity": sent["quantity"].as_i64().unwrap_or(1), "subscription": subscription, "tax_rates": [],
    });
    check_amount(&made, outer)?;
    Ok(made)
}

pub(super) fn check_quantity(item: &Value, outer: &str) -> Result<(), Refusal> {
    match item["quantity"].as_i64() {
        Some(quantity) if quantity < 0 => {
            let refusal = Refusal::param(&within(outer, "quantity"), "Invalid non-negative integer");
            Err(refusal.code("parameter_invalid_integer"))
        }
        _ => Ok(()),
    }
}

/// The name of a parameter in another one.
pub(super) fn within(outer: &str, name: &str) -> String {
    if outer.is_empty() { name.to_owned() } else { format!("{outer}[{name}]") }
}

/// The draft of an invoice for these items' periods. A trial costs nothing. Nothing is told of it yet. It has no payment
/// method of its own: the subscription's counts when it is paid.
pub(super) fn draft_for(desk: &mut Desk<'_>, subscription: &Value, items: &[Value], reason: &str) -> Value {
    let mut sent = Map::new();
    for name in ["customer", "collection_method", "currency", "days_until_due"] {
        sent.insert(name.to_owned(), subscription[name].clone());
    }
    let mut invoice = draft_invoice(desk, &sent);
    invoice["billing_reason"] = Value::from(reason);
    let details = json!({ "metadata": subscription["metadata"], "subscription": subscription["id"] });
    invoice["parent"] =
        json!({ "quote_details": null, "subscription_details": details, "type": "subscription_details" });
    let id = invoice["id"].as_str().unwrap_or_default().to_owned();
    let is_trial = subscription["status"] == "trialing";
    let mut data = Vec::new();
    for item in items {
        let quantity = item["quantity"].as_i64().unwrap_or(1);
        let mut line = line(item, &id);
        line["id"] = Value::from(desk.objects.next_id("il"));
        let whole = item["price"]["unit_amount"].as_i64().unwrap_or(0).saturating_mul(quantity);
        line["amount"] = Value::from(if is_trial { 0 } else { whole });
        if is_trial {
            line["description"] =
                Value::from(format!("Trial period for {}", product_name(desk, &item["price"])));
        }
        line["pricing"] = pricing(&item["price"]);
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

pub(super) fn cancel(desk: &mut Desk<'_>, mut subscription: Value, sent: &Map<String, Value>) -> Made {
    let id = subscription["id"].as_str().unwrap_or_default();
    if matches!(subscription["status"].as_str(), Some("canceled" | "incomplete_expired")) {
        return Err(Refusal::not_found("subscription", id));
    }
    if let Some(resource) = Resource::named("subscriptions") {
        merge(resource, &mut subscription, sent);
    }
    remove_prorations(desk, &subscription);
    subscription["status"] = Value::from("canceled");
    subscription["canceled_at"] = Value::from(desk.now);
    subscription["ended_at"] = Value::from(desk.now);
    desk.put("subscriptions", &subscription);
    desk.tell("deleted", &subscription);
    Ok(subscription)
}

/// "If the subscription is set to cancel immediately, pending prorations are removed if invoice_now and prorate are both
/// set to false" (<https://docs.stripe.com/api/subscriptions/cancel>). That is what they are by default.
fn remove_prorations(desk: &mut Desk<'_>, subscription: &Value) {
    let customer = subscription["customer"].as_str().unwrap_or_default();
    for item in desk.objects.with(desk.account, "invoiceitems", "customer", customer) {
        if is_pending_of(&item, subscription) {
            desk.objects.remove(desk.account, "invoiceitems", item["id"].as_str().unwrap_or_default());
            desk.tell("deleted", &item);
        }
    }
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

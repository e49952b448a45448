//! The course of a subscription that is changed: its items, its period, and what is billed for that.
//!
//! "Switching prices does not normally change the billing date or generate an immediate charge". There are three
//! exceptions: another interval, a move from free to paid, and the end of a trial. Then Stripe applies "a credit for the
//! unused time on the previous price", charges the new price at once and resets the billing date
//! (<https://docs.stripe.com/api/subscriptions/update>).

use serde_json::{Map, Value, json};

use super::super::contract::{Field, Kind, Resource};
use super::super::desk::{Desk, Made, merge, merge_metadata};
use super::super::params::Params;
use super::super::refusal::Refusal;
use super::billing::check_due;
use super::checks::decoded;
use super::cycles::{end_of, items_of, period_end};
use super::items::take_pending;
use super::subscriptions::{
    check_amount, check_quantity, collect, draft_for, interval_of, one_currency, one_interval, one_item_each,
    set_items, subscription_item, within,
};
use super::{methods, prorations, text};

/// Changes the items that are named, and adds those that are not.
pub(super) fn update(
    desk: &mut Desk<'_>,
    subscription: &mut Value,
    sent: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    update_items(desk, subscription, sent, |at| format!("items[{at}]"))?;
    // All of it is in the subscription by now.
    sent.clear();
    Ok(())
}

/// Changes one item, as the update of its subscription would (<https://docs.stripe.com/api/subscription_items/update>).
pub(super) fn update_item(desk: &mut Desk<'_>, id: &str, params: &Params) -> Made {
    let absent = || Refusal::not_found("subscription_item", id);
    let mut subscription = desk.objects.subscription_of(desk.account, id).ok_or_else(absent)?;
    let mut sent = decoded(desk, &item_fields(), params)?;
    let mut change = Map::from_iter([("id".to_owned(), Value::from(id))]);
    for name in ["price", "quantity", "metadata"] {
        change.extend(sent.remove_entry(name));
    }
    sent.insert("items".to_owned(), json!([change]));
    update_items(desk, &mut subscription, &mut sent, |_| String::new())?;
    desk.put("subscriptions", &subscription);
    desk.tell("updated", &subscription);
    items_of(&subscription).iter().find(|item| item["id"] == id).cloned().ok_or_else(absent)
}

/// The fields that the change of one item takes: those that the update of a subscription takes for it.
fn item_fields() -> Vec<Field> {
    let Some(subscriptions) = Resource::named("subscriptions") else { return Vec::new() };
    let updated = |name: &str| subscriptions.updated(name);
    let mut fields: Vec<Field> =
        ["payment_behavior", "proration_behavior"].into_iter().filter_map(updated).collect();
    if let Some(Kind::List(item)) = updated("items").map(|field| field.kind)
        && let Kind::Hash(of_item) = *item
    {
        let names = ["price", "quantity", "metadata"];
        fields.extend(of_item.into_iter().filter(|field| names.contains(&field.name.as_str())));
    }
    fields
}

/// `outer` names the parameter of each item.
fn update_items(
    desk: &mut Desk<'_>,
    subscription: &mut Value,
    sent: &mut Map<String, Value>,
    outer: impl Fn(usize) -> String,
) -> Result<(), Refusal> {
    let words = ["cancellation_details", "metadata"];
    if subscription["status"] == "canceled" && sent.keys().any(|name| !words.contains(&name.as_str())) {
        let message = "A canceled subscription can only update its cancellation_details and metadata.";
        return Err(Refusal::state("subscription_canceled", message));
    }
    check_due(sent, subscription, &["days_until_due"])?;
    methods::check_own(desk, sent, "default_payment_method", &subscription["customer"])?;
    let ends_trial = ends_trial(subscription, sent)?;
    let before = items_of(subscription).to_vec();
    if let Some(changes) = sent.remove("items") {
        if matches!(subscription["status"].as_str(), Some("incomplete" | "incomplete_expired")) {
            let message = "The fake does not know what a change of items does to an incomplete subscription.";
            return Err(Refusal::param("items", message));
        }
        change_all(desk, subscription, &before, &changes, outer)?;
    }
    // The billing goes by the parameters that come with the change.
    if let Some(resource) = Resource::named("subscriptions") {
        merge(resource, subscription, sent);
    }
    if text(sent, "collection_method") == Some("charge_automatically") {
        subscription["days_until_due"] = Value::Null;
    }
    bill(desk, subscription, &before, ends_trial, sent)?;
    cancel_at_end(desk, subscription, sent);
    Ok(())
}

/// Whether the change ends a trial now.
fn ends_trial(subscription: &Value, sent: &mut Map<String, Value>) -> Result<bool, Refusal> {
    match sent.remove("trial_end") {
        None | Some(Value::Null) => Ok(false),
        Some(end) if end == "now" && subscription["status"] == "trialing" => Ok(true),
        Some(_) => {
            let message =
                "The fake ends a trial that is under way, with trial_end=now. It begins and moves none.";
            Err(Refusal::param("trial_end", message))
        }
    }
}

fn change_all(
    desk: &mut Desk<'_>,
    subscription: &mut Value,
    before: &[Value],
    changes: &Value,
    outer: impl Fn(usize) -> String,
) -> Result<(), Refusal> {
    let mut items = before.to_vec();
    for (at, change) in changes.as_array().into_iter().flatten().enumerate() {
        change_items(desk, &subscription["id"], &mut items, &outer(at), change)?;
    }
    if items.is_empty() {
        let message = "A subscription has at least one item. To end it, cancel it.";
        return Err(Refusal::param("items", message));
    }
    // All items have one period: a new one ends with the others.
    if let Some(known) = before.first() {
        for item in items.iter_mut().filter(|item| !before.iter().any(|other| other["id"] == item["id"])) {
            for name in ["current_period_start", "current_period_end"] {
                item[name] = known[name].clone();
            }
        }
    }
    one_currency(&items, subscription["currency"].as_str())?;
    one_interval(&items)?;
    one_item_each(&items, before)?;
    set_items(subscription, &items);
    Ok(())
}

fn change_items(
    desk: &mut Desk<'_>,
    subscription: &Value,
    items: &mut Vec<Value>,
    outer: &str,
    change: &Value,
) -> Result<(), Refusal> {
    let Some(id) = change["id"].as_str() else {
        items.push(subscription_item(desk, subscription, change, outer, None)?);
        return Ok(());
    };
    let Some(place) = items.iter().position(|item| item["id"] == id) else {
        return Err(Refusal::no_such("subscription_item", id, &within(outer, "id")));
    };
    if change["deleted"] == true {
        items.remove(place);
        return Ok(());
    }
    check_quantity(change, outer)?;
    let item = &mut items[place];
    if change["price"].is_string() {
        // "When changing a subscription item's price, quantity is set to 1 unless a quantity parameter is provided"
        // (<https://docs.stripe.com/api/subscriptions/update>).
        if change["price"] != item["price"]["id"] {
            item["quantity"] = Value::from(1);
        }
        let priced = subscription_item(desk, subscription, change, outer, None)?;
        (item["price"], item["plan"]) = (priced["price"].clone(), priced["plan"].clone());
    }
    if change["quantity"].is_i64() {
        item["quantity"] = change["quantity"].clone();
    }
    check_amount(item, outer)?;
    if !change["metadata"].is_null() {
        merge_metadata(&mut item["metadata"], &change["metadata"]);
    }
    Ok(())
}

/// Notes the prorations of a change, and bills what is to be paid at once. During a trial there is nothing to bill.
fn bill(
    desk: &mut Desk<'_>,
    subscription: &mut Value,
    before: &[Value],
    ends_trial: bool,
    sent: &Map<String, Value>,
) -> Result<(), Refusal> {
    if subscription["status"] == "trialing" && !ends_trial {
        return Ok(());
    }
    let after = items_of(subscription).to_vec();
    let is_changed = prorations::differ(before, &after);
    let is_free =
        |items: &[Value]| items.iter().all(|item| item["price"]["unit_amount"] == 0 || item["quantity"] == 0);
    let has_other_interval = before.first().and_then(interval_of) != after.first().and_then(interval_of);
    let resets = ends_trial || has_other_interval || (is_free(before) && !is_free(&after));
    let behaviour = text(sent, "proration_behavior").unwrap_or("create_prorations");
    if is_changed && !ends_trial && behaviour != "none" {
        prorations::add(desk, subscription, before, &after, resets);
    }
    if resets {
        begin_period(desk.now, subscription, after, ends_trial);
    } else if !is_changed || behaviour != "always_invoice" {
        return Ok(());
    }
    let billed: &[Value] = if resets { items_of(subscription) } else { &[] };
    let mut invoice = draft_for(desk, subscription, billed, "subscription_update");
    take_pending(desk, &mut invoice);
    desk.put("invoices", &invoice);
    subscription["latest_invoice"] = invoice["id"].clone();
    // The statuses are told at `payment_behavior` (<https://docs.stripe.com/api/subscriptions/update>).
    if subscription["collection_method"] != "send_invoice" {
        subscription["status"] = Value::from("active");
    }
    // A payment takes the method of the subscription that is held, so this one is. A refusal takes it back.
    desk.put("subscriptions", subscription);
    if !collect(desk, subscription, invoice, text(sent, "payment_behavior"))? {
        subscription["status"] = Value::from("past_due");
    } else if let Some(held) = desk.get("subscriptions", &subscription["id"]) {
        // An invoice that is sent and comes to nothing is paid.
        subscription["status"] = held["status"].clone();
    }
    Ok(())
}

/// A new period of all items begins now, and the billing date with it.
fn begin_period(now: u64, subscription: &mut Value, mut items: Vec<Value>, ends_trial: bool) {
    for item in &mut items {
        item["current_period_start"] = Value::from(now);
        item["current_period_end"] = Value::from(period_end(now, &item["price"]["recurring"], now));
    }
    set_items(subscription, &items);
    subscription["billing_cycle_anchor"] = Value::from(now);
    if subscription["cancel_at_period_end"] == true {
        subscription["cancel_at"] = items.iter().filter_map(end_of).max().map_or(Value::Null, Value::from);
    }
    if ends_trial {
        subscription["trial_end"] = Value::from(now);
        subscription["status"] = Value::from("active");
    }
}

/// To end with the period, or no longer.
pub(super) fn cancel_at_end(desk: &Desk<'_>, subscription: &mut Value, sent: &Map<String, Value>) {
    let Some(at_end) = sent.get("cancel_at_period_end").and_then(Value::as_bool) else { return };
    let end = items_of(subscription).iter().filter_map(end_of).max();
    let (at, when) = if at_end { (end, Some(desk.now)) } else { (None, None) };
    subscription["cancel_at"] = at.map_or(Value::Null, Value::from);
    subscription["canceled_at"] = when.map_or(Value::Null, Value::from);
}

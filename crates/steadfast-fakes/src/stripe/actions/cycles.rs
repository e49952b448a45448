//! Subscriptions by the clock: a trial ends, a period ends and the next begins, and an invoice tells so.
//!
//! The reference says this of the statuses (<https://docs.stripe.com/api/subscriptions/object>): a trial "moves to
//! active when the trial period is over". A first invoice that is not paid within 23 hours is voided, and the
//! subscription expired. It is past due "when payment to renew it fails", or when an invoice that was sent "is not
//! paid by the due date". A renewal's invoice is a draft for an hour
//! (<https://docs.stripe.com/billing/subscriptions/overview>). Whether and when a payment is tried again, and what
//! becomes of a subscription then, are settings of an account: here it is tried once.

use serde_json::{Map, Value};

use super::super::desk::Desk;
use super::billing::{DAY, check_amount_due, finalize, pay, void};
use super::items::{is_pending_of, take_pending};
use super::subscriptions::{collect, draft_for, set_items};
use crate::calendar::months_later;

/// When a subscription is to be looked at again.
pub(in super::super) fn next(subscription: &Value, now: u64) -> Option<u64> {
    let at = |name: &str| subscription[name].as_u64();
    let by_status = match subscription["status"].as_str()? {
        "canceled" | "incomplete_expired" => return None,
        "incomplete" => at("created").map(|created| created + EXPIRES_AFTER),
        "trialing" => {
            let told = at("trial_end").map(|end| end.saturating_sub(TOLD_BEFORE)).filter(|told| *told > now);
            told.or(at("trial_end"))
        }
        _ => items_of(subscription).iter().filter_map(end_of).min(),
    };
    at("cancel_at").into_iter().chain(by_status).min()
}

/// Does what happens to a subscription now.
pub(in super::super) fn come(desk: &mut Desk<'_>, mut subscription: Value) {
    let now = desk.now;
    let is_due = |time: Option<u64>| time.is_some_and(|time| time <= now);
    let at = |name: &str| subscription[name].as_u64();
    if is_due(at("cancel_at")) {
        bill_what_waits(desk, &mut subscription);
        subscription["ended_at"] = subscription["cancel_at"].clone();
        return set_status(desk, subscription, "canceled", "deleted");
    }
    match subscription["status"].as_str().unwrap_or_default() {
        "incomplete" if is_due(at("created").map(|created| created + EXPIRES_AFTER)) => {
            if let Some(mut invoice) = desk.get("invoices", &subscription["latest_invoice"])
                && invoice["status"] == "open"
            {
                void(desk, &mut invoice);
            }
            subscription["ended_at"] = Value::from(now);
            set_status(desk, subscription, "incomplete_expired", "updated");
        }
        "trialing" if is_due(at("trial_end")) => {
            subscription["status"] = Value::from("active");
            renew(desk, subscription);
        }
        "trialing" if at("trial_end").is_some_and(|end| end.saturating_sub(TOLD_BEFORE) == now) => {
            desk.tell("trial_will_end", &subscription);
            desk.put("subscriptions", &subscription);
        }
        "active" | "past_due" => renew(desk, subscription),
        _ => {}
    }
}

/// "Occurs three days before a subscription's trial period is scheduled to end", or at once if it is shorter
/// (<https://docs.stripe.com/api/events/types>).
pub(super) fn tell_of_short_trial(desk: &mut Desk<'_>, subscription: &Value) {
    if subscription["trial_end"].as_u64().is_some_and(|end| end <= desk.now + TOLD_BEFORE) {
        desk.tell("trial_will_end", subscription);
    }
}

/// With the end of a period "any pending prorations are also left in place and collected"
/// (<https://docs.stripe.com/api/subscriptions/cancel>).
fn bill_what_waits(desk: &mut Desk<'_>, subscription: &mut Value) {
    let customer = subscription["customer"].as_str().unwrap_or_default();
    let items = desk.objects.with(desk.account, "invoiceitems", "customer", customer);
    if !items.iter().any(|item| is_pending_of(item, subscription)) {
        return;
    }
    let mut invoice = draft_for(desk, subscription, &[], "subscription_cycle");
    take_pending(desk, &mut invoice);
    desk.put("invoices", &invoice);
    subscription["latest_invoice"] = invoice["id"].clone();
    // A payment that fails leaves the invoice open.
    collect(desk, subscription, invoice, None).ok();
}

/// The next period of each item whose period is over, and the draft of its invoice.
fn renew(desk: &mut Desk<'_>, mut subscription: Value) {
    let anchor = subscription["billing_cycle_anchor"].as_u64().unwrap_or(desk.now);
    let mut items = items_of(&subscription).to_vec();
    let (mut due, mut before) = (Vec::new(), Value::Null);
    for item in &mut items {
        let Some(end) = end_of(item).filter(|end| *end <= desk.now) else { continue };
        before = item["current_period_start"].clone();
        item["current_period_start"] = Value::from(end);
        item["current_period_end"] = Value::from(period_end(anchor, &item["price"]["recurring"], end));
        due.push(item.clone());
    }
    if due.is_empty() {
        return;
    }
    set_items(&mut subscription, &items);
    let mut invoice = draft_for(desk, &subscription, &due, "subscription_cycle");
    invoice["period_start"] = before;
    invoice["auto_advance"] = Value::from(true);
    invoice["automatically_finalizes_at"] = Value::from(desk.now + DRAFT_FOR);
    take_pending(desk, &mut invoice);
    desk.put("invoices", &invoice);
    desk.tell("created", &invoice);
    subscription["latest_invoice"] = invoice["id"].clone();
    desk.put("subscriptions", &subscription);
    desk.tell("updated", &subscription);
}

/// An invoice's draft has been one for long enough: it is finalized, and paid or sent. Or it was to be paid by now.
pub(in super::super) fn invoice_come(desk: &mut Desk<'_>, mut invoice: Value) {
    let id = &invoice["parent"]["subscription_details"]["subscription"];
    let Some(subscription) = desk.get("subscriptions", id) else { return };
    let now = desk.now;
    let is_due = |name: &str| invoice[name].as_u64().is_some_and(|at| at <= now);
    match invoice["status"].as_str().unwrap_or_default() {
        "draft" if is_due("automatically_finalizes_at") => {}
        "open" if is_due("due_date") => {
            if subscription["latest_invoice"] == invoice["id"] && subscription["status"] == "active" {
                set_status(desk, subscription, "past_due", "updated");
            }
            return;
        }
        // It was finalized, paid or voided meanwhile.
        _ => return,
    }
    // An invoice that is too large to be charged stays a draft.
    if subscription["status"] == "canceled" || check_amount_due(&invoice).is_err() {
        invoice["automatically_finalizes_at"] = Value::Null;
        invoice["auto_advance"] = Value::from(false);
        desk.put("invoices", &invoice);
        return;
    }
    finalize(desk, &mut invoice);
    if invoice["collection_method"] == "send_invoice" {
        desk.tell("sent", &invoice);
    } else if invoice["status"] == "open" {
        let attempts = invoice["attempt_count"].clone();
        if pay(desk, invoice.clone(), &Map::new()).is_err() {
            // Without a payment method nothing was tried, and it failed all the same.
            if let Some(mut invoice) = desk.get("invoices", &invoice["id"])
                && invoice["attempt_count"] == attempts
            {
                invoice["attempted"] = Value::from(true);
                desk.put("invoices", &invoice);
                desk.tell("payment_failed", &invoice);
            }
            // An older draft that is not paid is not the subscription's latest invoice.
            if subscription["latest_invoice"] == invoice["id"] {
                set_status(desk, subscription, "past_due", "updated");
            }
        }
    }
}

/// When an invoice is to be looked at again.
pub(in super::super) fn invoice_next(invoice: &Value, now: u64) -> Option<u64> {
    match invoice["status"].as_str()? {
        "draft" => invoice["automatically_finalizes_at"].as_u64(),
        "open" if invoice["parent"]["type"] == "subscription_details" => {
            // "The number of days from when the invoice is created until it is due"
            // (<https://docs.stripe.com/api/invoices/create#create_invoice-days_until_due>): a draft may be due already.
            invoice["due_date"].as_u64().map(|due| due.max(now))
        }
        _ => None,
    }
}

fn set_status(desk: &mut Desk<'_>, mut subscription: Value, status: &str, what: &str) {
    subscription["status"] = Value::from(status);
    desk.put("subscriptions", &subscription);
    desk.tell(what, &subscription);
}

pub(super) fn items_of(subscription: &Value) -> &[Value] {
    subscription["items"]["data"].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn end_of(item: &Value) -> Option<u64> {
    item["current_period_end"].as_u64()
}

/// The end of the period that begins at `start`. Months are counted from the anchor: a subscription of the 31st stays one.
pub(super) fn period_end(anchor: u64, recurring: &Value, start: u64) -> u64 {
    let count = recurring["interval_count"].as_u64().unwrap_or(1).max(1);
    let months = match recurring["interval"].as_str() {
        Some("day") => return start + count * DAY,
        Some("week") => return start + 7 * count * DAY,
        Some("year") => 12 * count,
        _ => count,
    };
    let ends = (1..).map(|times| months_later(anchor.min(start), times * months));
    ends.into_iter().find(|end| *end > start).unwrap_or(u64::MAX)
}

const EXPIRES_AFTER: u64 = 23 * 3600;
const TOLD_BEFORE: u64 = 3 * DAY;
const DRAFT_FOR: u64 = 3600;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use steadfast_core::internal::vendor::date::days_from_civil;

    #[test]
    fn a_subscription_of_the_31st_stays_one_of_the_31st() {
        let at = |month, day| u64::try_from(days_from_civil(2027, month, day)).unwrap() * DAY;
        let monthly = json!({ "interval": "month", "interval_count": 1 });
        let anchor = at(1, 31);
        for (start, end) in [(at(1, 31), at(2, 28)), (at(2, 28), at(3, 31)), (at(3, 31), at(4, 30))] {
            assert_eq!(period_end(anchor, &monthly, start), end);
        }
        let quarterly = json!({ "interval": "month", "interval_count": 3 });
        assert_eq!(period_end(anchor, &quarterly, at(4, 30)), at(7, 31));
    }
}

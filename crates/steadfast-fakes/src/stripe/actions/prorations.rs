//! The cost of a change of a subscription's items for what is left of the period: a credit and a charge, to the
//! second.
//!
//! They are invoice items, and wait for the subscription's next invoice
//! (<https://docs.stripe.com/billing/subscriptions/prorations>).

use serde_json::{Map, Value, json};

use steadfast_core::clock::Timestamp;
use steadfast_testkit::conformance::rfc3339;

use super::super::desk::Desk;

/// Credits each item that was changed or removed, and charges each that was changed or added. After a reset of the
/// period nothing is charged here: the invoice has the new period whole.
pub(super) fn add(
    desk: &mut Desk<'_>,
    subscription: &Value,
    before: &[Value],
    after: &[Value],
    is_reset: bool,
) {
    for item in before.iter().filter(|item| !after.iter().any(|other| is_same(item, other))) {
        add_item(desk, subscription, item, Part::Unused);
    }
    if is_reset {
        return;
    }
    for item in after.iter().filter(|item| !before.iter().any(|other| is_same(item, other))) {
        add_item(desk, subscription, item, Part::Remaining);
    }
}

/// Whether two subscriptions' items are as one to a bill.
pub(super) fn differ(before: &[Value], after: &[Value]) -> bool {
    before.len() != after.len() || before.iter().any(|item| !after.iter().any(|other| is_same(item, other)))
}

fn is_same(item: &Value, other: &Value) -> bool {
    item["id"] == other["id"]
        && item["price"]["id"] == other["price"]["id"]
        && item["quantity"] == other["quantity"]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Unused,
    Remaining,
}

fn add_item(desk: &mut Desk<'_>, subscription: &Value, item: &Value, part: Part) {
    let now = desk.now;
    let at = |name: &str| item[name].as_u64().unwrap_or(now);
    let (start, end) = (at("current_period_start"), at("current_period_end"));
    let (quantity, price) = (item["quantity"].as_i64().unwrap_or(1), &item["price"]);
    let whole = price["unit_amount"].as_i64().unwrap_or(0).saturating_mul(quantity);
    let left = left_of(whole, start, now, end);
    let customer = Map::from_iter([("customer".to_owned(), subscription["customer"].clone())]);
    let mut made = desk.draft("invoiceitems", &customer);
    made["amount"] = Value::from(if part == Part::Unused { -left } else { left });
    made["currency"] = subscription["currency"].clone();
    made["date"] = Value::from(now);
    made["description"] = Value::from(description(desk, item, part));
    // "Always false for prorations" (<https://docs.stripe.com/api/invoiceitems/object>).
    made["discountable"] = Value::from(false);
    made["parent"] = json!({ "type": "subscription_details", "subscription_details": {
        "subscription": subscription["id"], "subscription_item": item["id"] } });
    made["period"] = json!({ "start": now, "end": end });
    made["pricing"] = pricing(price);
    // Recorded: see `methods.rs`.
    made["pricing"]["unit_amount_decimal"] = Value::Null;
    made["proration"] = Value::from(true);
    made["quantity"] = Value::from(quantity);
    made["quantity_decimal"] = Value::from(quantity.to_string());
    desk.add("invoiceitems", made);
}

/// A price as invoice items and lines name it.
pub(super) fn pricing(price: &Value) -> Value {
    json!({
        "price_details": { "price": price["id"], "product": price["product"] }, "type": "price_details",
        "unit_amount_decimal": price["unit_amount_decimal"],
    })
}

/// The words are composed after Stripe's: "Remaining time on 2 × Gold after 24 Nov 2026".
fn description(desk: &Desk<'_>, item: &Value, part: Part) -> String {
    let name = product_name(desk, &item["price"]);
    let times = match item["quantity"].as_i64() {
        Some(quantity) if quantity != 1 => format!("{quantity} × "),
        _ => String::new(),
    };
    let which = if part == Part::Unused { "Unused" } else { "Remaining" };
    format!("{which} time on {times}{name} after {}", day(desk.now))
}

pub(super) fn product_name(desk: &Desk<'_>, price: &Value) -> String {
    let product = desk.get("products", &price["product"]).unwrap_or_default();
    product["name"].as_str().unwrap_or_default().to_owned()
}

/// `24 Nov 2026`.
fn day(seconds: u64) -> String {
    let date = rfc3339(Timestamp::from_millis(seconds.saturating_mul(1000)));
    let mut parts = date.split(['-', 'T']);
    let (year, month, day) = (parts.next(), parts.next(), parts.next());
    let month = month.and_then(|month| month.parse::<usize>().ok()).unwrap_or(1);
    let month = MONTHS.get(month.saturating_sub(1)).copied().unwrap_or_default();
    format!("{} {month} {}", day.unwrap_or_default(), year.unwrap_or_default())
}

/// The part of an amount for what is left of its period, to the nearest unit of the currency.
fn left_of(whole: i64, start: u64, now: u64, end: u64) -> i64 {
    let left = i128::from(end.saturating_sub(now.max(start)));
    let period = i128::from(end.saturating_sub(start).max(1));
    let nearest = (2 * i128::from(whole) * left + period) / (2 * period);
    i64::try_from(nearest).unwrap_or(i64::MAX)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_to_the_second_and_rounded_to_the_nearest() {
        for (whole, now, left) in [
            (1000, 0, 1000),
            (1000, 50, 500),
            (1000, 99, 10),
            (1000, 100, 0),
            (1000, 200, 0),
            (7, 50, 4),
            (7, 51, 3),
        ] {
            assert_eq!(left_of(whole, 0, now, 100), left, "{whole} at {now}");
        }
        assert_eq!(left_of(i64::MAX, 0, 0, 31_536_000), i64::MAX);
    }

    #[test]
    fn a_day_is_written_as_on_an_invoice() {
        assert_eq!(day(0), "01 Jan 1970");
        assert_eq!(day(1_795_560_000), "24 Nov 2026");
    }
}

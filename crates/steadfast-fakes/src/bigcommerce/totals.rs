//! The total of an order: its products, its shipping, handling and wrapping, less its discounts.
//!
//! "Order `subtotal` and `total` calculate automatically" (github.com/bigcommerce/docs,
//! `docs/store-operations/orders/index.mdx`, "Calculating totals"). The arithmetic is that of the published order 218
//! (`reference/orders.v2.oas2.yml`, `order_Resp`). Its products come to 67.84 and its shipping to 12.00. Less 5.00 of
//! discount and 5.00 of coupons, it comes to 69.84. A discount lowers the tax of the products in proportion: of 5.1607
//! on 67.84 the order shows 4.40. The total tax is that and 0.91 of shipping. The total without tax is the difference.

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::bodies::money;
use super::items::amount;
use super::machine::{Call, Machine};
use super::shares::{CENT_PART, cents};

impl Machine {
    /// The refusal of amounts below zero or too large, and of one that is required with another.
    pub(super) fn check_amounts(&self, call: &Call<'_>) -> Result<(), Reply> {
        if let Some(name) = AMOUNTS.iter().find(|name| !is_amount(&call.body[**name])) {
            return Err(self.refused_body(call, &format!("The field '{name}' is invalid.")));
        }
        let is_alone = |one: &str, other: &str| !call.body[one].is_null() && call.body[other].is_null();
        for [ex, inc] in PAIRS {
            let missing = match (is_alone(inc, ex), is_alone(ex, inc)) {
                (true, _) => ex,
                (_, true) => inc,
                _ => continue,
            };
            let text = format!("The required field '{missing}' was not supplied.");
            return Err(self.refused_body(call, &text));
        }
        // Tax is what an amount with it is more. Where the amount without tax is left out, the base stands for it.
        for name in WITH_TAX {
            let names = [format!("{name}_inc_tax"), format!("{name}_ex_tax"), format!("base_{name}")];
            let [inc, ex, base] = names.each_ref().map(|name| &call.body[name.as_str()]);
            let without = if ex.is_null() { base } else { ex };
            if is_below(inc, without) {
                return Err(self.refused_body(call, &format!("The field '{}' is invalid.", names[0])));
            }
        }
        Ok(())
    }
}

/// Computes the amounts of an order of these lines, with the costs that a request gives. Where it gives none of wrapping,
/// that is what it was, and what the lines' own comes to more.
pub(super) fn sum_up(
    order: &mut Map<String, Value>,
    sent: &Value,
    lines: &[Map<String, Value>],
    more_wrapping: [f64; 2],
) {
    for cost in COSTS {
        let names =
            [format!("base_{cost}_cost"), format!("{cost}_cost_ex_tax"), format!("{cost}_cost_inc_tax")];
        let given = names.map(|name| sent[name.as_str()].clone());
        let [base, ex, inc] = if cost == "wrapping" && given.iter().all(Value::is_null) {
            let [ex, inc] = more_wrapping;
            [("base_wrapping_cost", ex), ("wrapping_cost_ex_tax", ex), ("wrapping_cost_inc_tax", inc)]
                .map(|(name, more)| Value::from((of(order, name) + more).max(0.0)))
        } else {
            given
        };
        settle(order, cost, [&base, &ex, &inc]);
    }
    let (ex, inc) = (sum(lines, "total_ex_tax"), sum(lines, "total_inc_tax"));
    let discount = of(order, "discount_amount");
    let tax = rounded(lines.iter().map(|line| paid_tax(PAID_TAX.map(|name| of(line, name)))).sum());
    let costs = |tax: &str| COSTS.iter().map(|cost| of(order, &format!("{cost}_cost{tax}"))).sum::<f64>();
    let total_inc = rounded((inc + costs("_inc_tax") - discount).max(0.0));
    let total_tax = (tax + costs("_tax")).min(total_inc);
    let items: u64 = lines.iter().filter_map(|line| line["quantity"].as_u64()).sum();
    for (name, value) in [
        ("subtotal_ex_tax", money(ex)),
        ("subtotal_inc_tax", money(inc)),
        ("subtotal_tax", money(tax)),
        ("total_ex_tax", money(rounded(total_inc - total_tax))),
        ("total_inc_tax", money(total_inc)),
        ("total_tax", money(total_tax)),
    ] {
        order.insert(name.to_owned(), value.into());
    }
    order.insert("items_total".to_owned(), items.into());
}

/// The part that is paid of a line's tax: in proportion to what is paid of the whole line, as both are named in
/// [`PAID_TAX`].
pub(super) fn paid_tax([paid, full, tax]: [f64; 3]) -> f64 {
    if full > 0.0 { tax * paid / full } else { 0.0 }
}

/// The cost of the wrapping of these lines, without tax and with it.
pub(super) fn wrapping_of(lines: &[Map<String, Value>]) -> [f64; 2] {
    ["ex", "inc"].map(|tax| sum(lines, &format!("wrapping_cost_{tax}_tax")))
}

/// Whether it is left out, or an amount from zero to what the fake counts with.
pub(super) fn is_amount(sent: &Value) -> bool {
    (0.0..=AMOUNT_MAX).contains(&amount(sent))
}

/// Whether an amount with tax is given, and less than the one without tax.
pub(super) fn is_below(inc: &Value, ex: &Value) -> bool {
    !inc.is_null() && amount(inc) < amount(ex)
}

/// Takes the subtotal and the total that a request gives: "If you override `subtotal` or `total`, override both; the
/// system will not re-calculate the other" (as above).
pub(super) fn take_overrides(order: &mut Map<String, Value>, sent: &Value) {
    for name in ["subtotal", "total"] {
        let [ex, inc] = ["ex", "inc"].map(|tax| format!("{name}_{tax}_tax"));
        if sent[ex.as_str()].is_null() || sent[inc.as_str()].is_null() {
            continue;
        }
        let tax = money(amount(&sent[inc.as_str()]) - amount(&sent[ex.as_str()]));
        order.insert(format!("{name}_tax"), tax.into());
        for name in [ex, inc] {
            let value = sent[name.as_str()].clone();
            order.insert(name, value);
        }
    }
}

/// Whether a change of these members computes an order anew (as above). Addresses do so too at BigCommerce, by its rules
/// of tax and shipping, of which the fake has none. `discount_amount` is how a discount is given.
pub(super) fn is_computed_anew(sent: &Value) -> bool {
    let costs = ["base_shipping_cost", "base_handling_cost", "base_wrapping_cost", "discount_amount"];
    let of_cost = |cost: &str| {
        ["ex", "inc"].iter().any(|tax| !sent[format!("{cost}_cost_{tax}_tax").as_str()].is_null())
    };
    costs.iter().any(|name| !sent[*name].is_null()) || COSTS.iter().any(|cost| of_cost(cost))
}

/// The part of an order's discount that is on this line.
pub(super) fn discount_of(line: &Map<String, Value>) -> f64 {
    let discounts = line.get("applied_discounts").and_then(Value::as_array).into_iter().flatten();
    discounts.map(|discount| amount(&discount["amount"])).sum()
}

/// An amount with its four decimals. Zero has no sign.
pub(super) fn rounded(amount: f64) -> f64 {
    (amount * 10_000.0).round() / 10_000.0 + 0.0
}

/// A cost as a request gives it, if it does. The fake has no rules of tax: what is left out is as the rest is. The base is
/// without tax, as `is_tax_inclusive_pricing` is false.
fn settle(order: &mut Map<String, Value>, cost: &str, [base, ex, inc]: [&Value; 3]) {
    let first = |all: [&Value; 3]| all.into_iter().find(|one| !one.is_null()).map(amount);
    let (Some(base), Some(ex), Some(inc)) =
        (first([base, ex, inc]), first([ex, base, inc]), first([inc, ex, base]))
    else {
        return;
    };
    for (name, value) in [
        (format!("base_{cost}_cost"), base),
        (format!("{cost}_cost_ex_tax"), ex),
        (format!("{cost}_cost_inc_tax"), inc),
        (format!("{cost}_cost_tax"), inc - ex),
    ] {
        order.insert(name, money(value).into());
    }
}

/// "The discount is distributed across products in proportion to the products price", which is
/// `(total_manual_discount*price_ex_tax)/subtotal_ex_tax` (`orderProductAppliedDiscounts`). The published shares are
/// whole cents, and here the last product has what rounding leaves over.
pub(super) fn share_discount(discount: f64, lines: &mut [Map<String, Value>]) {
    let (mut left, mut rest) = (discount, sum(lines, "total_ex_tax"));
    for line in lines {
        let price = of(line, "total_ex_tax");
        let share = match price > 0.0 {
            true if rest - price < CENT_PART => rounded(left),
            true => cents(left * price / rest).min(left),
            false => 0.0,
        };
        (left, rest) = (left - share, rest - price);
        let applied = match share > 0.0 {
            true => json!([{
                "id": "manual-discount", "amount": money(share), "name": "Manual Discount", "code": null, "target": "order",
            }]),
            false => json!([]),
        };
        line.insert("applied_discounts".to_owned(), applied);
        let paid = (of(line, "total_inc_tax") - share).max(0.0);
        line.insert("discounted_total_inc_tax".to_owned(), money(paid).into());
    }
}

fn sum(lines: &[Map<String, Value>], name: &str) -> f64 {
    lines.iter().map(|line| of(line, name)).sum()
}

fn of(object: &Map<String, Value>, name: &str) -> f64 {
    object.get(name).map_or(0.0, amount)
}

/// Of a line: what is paid, what it came to before discounts, and the tax of that.
pub(super) const PAID_TAX: [&str; 3] = ["discounted_total_inc_tax", "total_inc_tax", "total_tax"];

/// The fake's own bound: sums of such amounts stay numbers.
const AMOUNT_MAX: f64 = 1e12;

const COSTS: [&str; 3] = ["shipping", "handling", "wrapping"];

/// The costs that have an amount with tax and one without it.
const WITH_TAX: [&str; 5] = ["shipping_cost", "handling_cost", "wrapping_cost", "subtotal", "total"];

/// "The value can't be negative."
const AMOUNTS: [&str; 15] = [
    "base_shipping_cost",
    "base_handling_cost",
    "base_wrapping_cost",
    "shipping_cost_ex_tax",
    "shipping_cost_inc_tax",
    "handling_cost_ex_tax",
    "handling_cost_inc_tax",
    "wrapping_cost_ex_tax",
    "wrapping_cost_inc_tax",
    "discount_amount",
    "refunded_amount",
    "subtotal_ex_tax",
    "subtotal_inc_tax",
    "total_ex_tax",
    "total_inc_tax",
];

/// "If specified, the field … is also required." Of handling and wrapping the specification does not say so.
const PAIRS: [[&str; 2]; 3] = [
    ["shipping_cost_ex_tax", "shipping_cost_inc_tax"],
    ["subtotal_ex_tax", "subtotal_inc_tax"],
    ["total_ex_tax", "total_inc_tax"],
];

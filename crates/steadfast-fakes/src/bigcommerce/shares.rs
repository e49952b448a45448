//! The share that each item of a refund gives back, of what an order has left to be given back.
//!
//! The amounts are as in the published quote and refund of "Order Refunds" (github.com/bigcommerce/docs,
//! `docs/store-operations/orders/refunds.mdx`). A product at 10.00 with 0.83 of tax is shown as a requested 10, and 0.83
//! of tax is added. An amount of `SHIPPING` or `HANDLING` is without tax too. `ORDER` is a "tax-exempt custom amount".

use serde_json::Value;

use super::items::amount;
use super::totals::{PAID_TAX, paid_tax};

/// An order, and what was given back of it.
#[derive(Debug)]
pub(super) struct Refundable {
    pub(super) order: Value,
    pub(super) products: Vec<Value>,
    pub(super) addresses: Vec<Value>,
    /// The refunds before.
    pub(super) before: Vec<Value>,
}

/// The share that an item gives back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// As the refund shows it.
    pub(super) requested: f64,
    /// With the tax.
    pub(super) whole: f64,
    pub(super) tax: f64,
    /// The whole before it is rounded to cents.
    pub(super) exact: f64,
}

/// The sum that a refund comes to.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) shares: Vec<Share>,
    /// The amount that is given back, and never more than is left.
    pub(super) total: f64,
    pub(super) tax: f64,
    /// How far what is left is below what was asked for: zero or less.
    pub(super) adjustment: f64,
    /// The rest of the order before this refund.
    pub(super) left: f64,
}

impl Refundable {
    /// The sum that the items come to. A thing that they ask for and the order is not of has a no.
    pub(super) fn sum(&self, refund: &Value) -> Result<Sum, &'static str> {
        let items = refund["items"].as_array().map_or(&[][..], Vec::as_slice);
        let mut shares = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if has_adjustments(item) && item["item_type"] != "PRODUCT" {
                return Err("Adjustments are of products alone.");
            }
            let share = self.share(item, &items[..at], &shares)?;
            if share.whole.is_nan() || share.whole <= 0.0 {
                return Err("The refund amount of an item must be greater than zero.");
            }
            shares.push(share);
        }
        let asked = cents(shares.iter().map(|share| share.whole).sum());
        let tax = cents(shares.iter().map(|share| share.tax).sum());
        let given: f64 = self.before.iter().map(|refund| amount(&refund["total_amount"])).sum();
        let left = cents(amount(&self.order["total_inc_tax"])) - given;
        let total = cents(asked.min(left.max(0.0)));
        // No more tax than the order has left of it.
        let tax = tax.min(total).min(cents((amount(&self.order["total_tax"]) - self.tax_given()).max(0.0)));
        Ok(Sum { shares, total, tax, adjustment: cents(total - asked), left: cents(left) })
    }

    fn share(&self, item: &Value, earlier: &[Value], shares: &[Share]) -> Result<Share, &'static str> {
        let asked = amount(&item["amount"]);
        if !is_cents(asked) {
            return Err(NO_CENTS);
        }
        match item["item_type"].as_str() {
            Some("PRODUCT") => {
                let adjustments = item["adjustments"].as_array().into_iter().flatten();
                let adjustments = adjustments.map(|one| amount(&one["amount"])).collect::<Vec<f64>>();
                // "A negative 2 decimal place rounded value to deduct from the amount refunded."
                if adjustments.iter().any(|one| *one >= 0.0) {
                    return Err("The amount of an adjustment must be less than zero.");
                }
                if !adjustments.iter().all(|one| is_cents(*one)) {
                    return Err(NO_CENTS);
                }
                let by: f64 = adjustments.iter().sum();
                let Share { requested, whole, tax, exact } = self.of_product(item, earlier, PAID_TAX)?;
                // "A non-negative 2 decimal place rounded value".
                if requested + by < -CENT_PART {
                    return Err(TOO_MUCH);
                }
                Ok(Share {
                    requested: cents(requested + by),
                    whole: cents(whole + by),
                    tax,
                    exact: exact + by,
                })
            }
            Some("GIFT_WRAPPING") => {
                let names = ["wrapping_cost_inc_tax", "wrapping_cost_inc_tax", "wrapping_cost_tax"];
                self.of_product(item, earlier, names)
            }
            Some("SHIPPING") => self.of_cost(item, earlier, shares, "shipping"),
            Some("HANDLING") => self.of_cost(item, earlier, shares, "handling"),
            Some("TAX") => {
                let given = self.tax_given() + shares.iter().map(|share| share.tax).sum::<f64>();
                let is_too_much = given + asked > cents(amount(&self.order["total_tax"])) + CENT_PART;
                if is_too_much { Err(TOO_MUCH) } else { Ok(Share { tax: asked, ..plain(asked) }) }
            }
            Some("FEE") => Err("An item is not a fee of this order."),
            _ => Ok(plain(asked)),
        }
    }

    /// The share of so many of a product, of what all of it came to: paid, before discounts, and its tax before them.
    fn of_product(
        &self,
        item: &Value,
        earlier: &[Value],
        [paid, full, tax]: [&str; 3],
    ) -> Result<Share, &'static str> {
        let Some(product) = self.products.iter().find(|product| product["id"] == item["item_id"]) else {
            return Err("An item is not a product of this order.");
        };
        let given: u64 = self.same(item, earlier).map(|other| quantity(other, "quantity")).sum();
        let asked = quantity(item, "quantity");
        let all = quantity(product, "quantity");
        if given.saturating_add(asked) > all {
            return Err("The refund quantity is greater than the remaining quantity of the product.");
        }
        let [paid, full, tax] = [paid, full, tax].map(|name| amount(&product[name]));
        let tax = paid_tax([paid, full, tax]);
        // Rounded so that the parts add up to the whole.
        let part = |of: f64| cents(of * ratio(given + asked, all)) - cents(of * ratio(given, all));
        let (whole, tax) = (cents(part(paid)), cents(part(tax)));
        Ok(Share { requested: cents(whole - tax), whole, tax, exact: paid * ratio(asked, all) })
    }

    /// The share of an amount of the order's shipping or handling, with the tax on it.
    fn of_cost(
        &self,
        item: &Value,
        earlier: &[Value],
        shares: &[Share],
        cost: &str,
    ) -> Result<Share, &'static str> {
        if !self.addresses.iter().any(|address| address["id"] == item["item_id"]) {
            return Err("An item is not an address of this order.");
        }
        let [ex, inc] =
            ["ex", "inc"].map(|tax| amount(&self.order[format!("{cost}_cost_{tax}_tax").as_str()]));
        let asked = amount(&item["amount"]);
        let given = self.given_amount(item, earlier, shares);
        if given + asked > ex + CENT_PART {
            return Err(TOO_MUCH);
        }
        let with_tax = |part: f64| if ex > 0.0 { part * inc / ex } else { part };
        // Rounded so that the parts add up to the whole.
        let whole = cents(cents(with_tax(given + asked)) - cents(with_tax(given)));
        Ok(Share { requested: asked, whole, tax: cents(whole - asked), exact: with_tax(asked) })
    }

    /// The amount that earlier items of this kind asked for, of all addresses.
    fn given_amount(&self, item: &Value, earlier: &[Value], shares: &[Share]) -> f64 {
        let is_same = |other: &Value| other["item_type"] == item["item_type"];
        let before = self.refunded_items().filter(|other| is_same(other));
        let now = earlier.iter().zip(shares).filter(|(other, _)| is_same(other));
        before.map(|other| amount(&other["requested_amount"])).sum::<f64>()
            + now.map(|(_, share)| share.requested).sum::<f64>()
    }

    /// The tax that the refunds before gave back. Not that of the merchant's own calculation: with it "order/taxes records
    /// are not updated" (`reference/orders.v3.yml`, `MerchantOverride`).
    fn tax_given(&self) -> f64 {
        let computed = self.before.iter().filter(|refund| refund["uses_merchant_override_values"] != true);
        computed.map(|refund| amount(&refund["total_tax"])).sum()
    }

    /// The earlier items of this kind and id, of refunds before and of this one.
    fn same<'a>(&'a self, item: &'a Value, earlier: &'a [Value]) -> impl Iterator<Item = &'a Value> {
        let is_same = move |other: &&Value| {
            other["item_type"] == item["item_type"] && other["item_id"] == item["item_id"]
        };
        self.refunded_items().chain(earlier).filter(is_same)
    }

    fn refunded_items(&self) -> impl Iterator<Item = &Value> {
        self.before.iter().filter_map(|refund| refund["items"].as_array()).flatten()
    }
}

/// An amount that is given back as it is.
fn plain(amount: f64) -> Share {
    Share { requested: amount, whole: amount, tax: 0.0, exact: amount }
}

fn has_adjustments(item: &Value) -> bool {
    item["adjustments"].as_array().is_some_and(|adjustments| !adjustments.is_empty())
}

pub(super) fn quantity(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or(0)
}

#[allow(clippy::cast_precision_loss, reason = "a fake's orders are of fewer")]
fn ratio(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// "A non-negative 2 decimal place rounded value that represents the amount that can be charged/refunded." Zero has no
/// sign.
pub(super) fn cents(amount: f64) -> f64 {
    (amount * 100.0).round() / 100.0 + 0.0
}

/// Whether it has at most two decimals.
pub(super) fn is_cents(amount: f64) -> bool {
    (cents(amount) - amount).abs() < CENT_PART / 1_000.0
}

/// The words of both are composed.
pub(super) const NO_CENTS: &str = "An amount has two decimals at most.";
pub(super) const TOO_MUCH: &str = "The refund amount is greater than the remaining order balance.";

/// Amounts that differ by less are the same: they have four decimals.
pub(super) const CENT_PART: f64 = 0.000_05;

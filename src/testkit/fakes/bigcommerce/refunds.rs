//! Refunds: of what an order is of, and never of more than that.

use serde_json::Value;

use super::super::fixture::Reply;
use super::items::{amount, not_found};
use super::machine::{Call, Machine, State};
use super::writes::created;

impl Machine {
    pub(super) fn refund(&self, state: &mut State, call: &Call<'_>, order: &str) -> Reply {
        let Some(held) = state.items.one(call.store, "v2/orders", order) else {
            return not_found(call);
        };
        if state.items.recent(call.store, &call.collection(), self.refund_pending, call.now) {
            return self.refuses("Another refund of this order is still being processed.");
        }
        let before = state.items.all(call.store, &call.collection());
        let products = state.items.all(call.store, &format!("v2/orders/{order}/products"));
        let sum = match sum_of(&call.body, &products, &before) {
            Ok(sum) => sum,
            Err(title) => return self.refuses(title),
        };
        let after = before.iter().map(|refund| amount(&refund["total_amount"])).sum::<f64>() + sum;
        if after > amount(&held["total_inc_tax"]) + 0.000_05 {
            return self.refuses("The refund amount is greater than the remaining order balance.");
        }
        let mut refund = call.body.clone();
        refund["order_id"] = held["id"].clone();
        refund["created"] = Value::from(call.now.to_string());
        refund["total_amount"] = Value::from(sum);
        // The specification of 2021 had one here, that of 2026-04 has not.
        if let Some(fields) = refund.as_object_mut() {
            fields.remove("reason");
        }
        if self.drops_refund_reasons {
            let items = refund.get_mut("items").and_then(Value::as_array_mut);
            for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
                item.remove("reason");
            }
        }
        created(201, &self.make(state, call, &call.collection(), refund))
    }

    /// The form is documented. The titles are not, but for the fixture's own.
    fn refuses(&self, title: &str) -> Reply {
        self.fixtures.reply("refund_422").fill("Unable to provide store credit for a guest customer.", title)
    }
}

/// What this refund gives back of an order with these products, of which some may have been given back before. What it
/// asks for and the order is not of has a no.
fn sum_of(refund: &Value, products: &[Value], before: &[Value]) -> Result<f64, &'static str> {
    let items = refund["items"].as_array().map_or(&[][..], Vec::as_slice);
    if items.is_empty() {
        return Err("A refund needs at least one item.");
    }
    let mut sum = 0.0;
    for (at, item) in items.iter().enumerate() {
        let value = match item["item_type"].as_str() {
            Some("PRODUCT") => {
                let others = before.iter().filter_map(|refund| refund["items"].as_array()).flatten();
                product(item, products, others.chain(&items[..at]))?
            }
            Some("ORDER" | "SHIPPING" | "HANDLING" | "TAX" | "FEE") => amount(&item["amount"]),
            _ => return Err("The type of an item is not one that can be refunded."),
        };
        if value.is_nan() || value <= 0.0 {
            return Err("The refund amount of an item must be greater than zero.");
        }
        sum += value;
    }
    Ok(sum)
}

/// What this many of one of the order's products cost.
fn product<'a>(
    item: &Value,
    products: &[Value],
    others: impl Iterator<Item = &'a Value>,
) -> Result<f64, &'static str> {
    let quantity = |item: &Value| item["quantity"].as_u64().unwrap_or(0);
    let is_same = |other: &&Value| other["item_type"] == "PRODUCT" && other["item_id"] == item["item_id"];
    let Some(product) = products.iter().find(|product| product["id"] == item["item_id"]) else {
        return Err("An item is not a product of this order.");
    };
    let (asked, given) = (quantity(item), others.filter(is_same).map(quantity).sum::<u64>());
    if given.saturating_add(asked) > quantity(product) {
        return Err("The refund quantity is greater than the remaining quantity of the product.");
    }
    #[allow(clippy::cast_precision_loss, reason = "it is no more than was ordered")]
    let price = amount(&product["price_inc_tax"]) * asked as f64;
    let adjustments = item["adjustments"].as_array().into_iter().flatten();
    Ok(price + adjustments.map(|one| amount(&one["amount"])).sum::<f64>())
}

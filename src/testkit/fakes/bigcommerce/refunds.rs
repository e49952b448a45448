//! Refunds: of what an order is of, and never of more than that.

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::bodies::money;
use super::hooks;
use super::items::{amount, id_text};
use super::machine::{Call, Machine, State};
use super::orders::{PARTIALLY_REFUNDED, REFUNDED};
use super::writes::created;

impl Machine {
    pub(super) fn refund(
        &self,
        state: &mut State,
        call: &Call<'_>,
        status: u16,
        order: &str,
    ) -> Result<Reply, Reply> {
        let held = state.items.one(call.store, "v2/orders", order).unwrap_or_default();
        if state.items.recent(call.store, &call.collection(), self.settings.refund_pending, call.now) {
            return Err(self.refuses_refund("Another refund of this order is still being processed."));
        }
        let before = state.items.all(call.store, &call.collection());
        let products = state.items.all(call.store, &format!("v2/orders/{order}/products"));
        let values = values_of(&call.body, &products, &before).map_err(|title| self.refuses_refund(title))?;
        let sum: f64 = values.iter().sum();
        let after = before.iter().map(|refund| amount(&refund["total_amount"])).sum::<f64>() + sum;
        let total = amount(&held["total_inc_tax"]);
        if after > total + CENT_PART {
            return Err(self.refuses_refund("The refund amount is greater than the remaining order balance."));
        }
        let payments = self.payments_of(state, call, sum)?;
        let mut refund = Map::new();
        for (name, value) in [
            ("total_amount", Value::from(sum)),
            ("items", self.shown_items(&call.body, &values)),
            ("payments", payments),
        ] {
            refund.insert(name.to_owned(), value);
        }
        let made = self.make(state, call, &call.collection(), refund);
        let data = json!({ "type": "order", "id": held["id"], "refund": { "refund_id": made["id"] } });
        hooks::fire(&self.outbox, &state.items, call, "store/order/refund/created", &data);
        self.count_refunded(state, call, order, &values);
        self.refunded(state, call, order, after, total);
        Ok(created(status, &made))
    }

    /// "The amount given in the array must match the amount used in the refund request body" (BigCommerce, "Create a
    /// refund quote").
    fn payments_of(&self, state: &mut State, call: &Call<'_>, sum: f64) -> Result<Value, Reply> {
        let sent = call.body["payments"].as_array().map_or(&[][..], Vec::as_slice);
        let paid: f64 = sent.iter().map(|payment| amount(&payment["amount"])).sum();
        if !sent.is_empty() && (paid - sum).abs() > CENT_PART {
            return Err(self.refuses_refund("The amounts of the payments are not those of the items."));
        }
        let shown = |payment: &Value| {
            json!({
                "id": state.items.next_id(), "provider_id": payment["provider_id"], "amount": payment["amount"],
                "offline": payment["offline"] == true, "is_declined": false, "declined_message": "",
            })
        };
        Ok(sent.iter().map(shown).collect())
    }

    fn shown_items(&self, refund: &Value, values: &[f64]) -> Value {
        let items = refund["items"].as_array().into_iter().flatten().zip(values);
        let shown = items.map(|(item, value)| {
            let reason = if self.settings.drops_refund_reasons { &Value::Null } else { &item["reason"] };
            json!({
                "item_type": item["item_type"], "item_id": item["item_id"],
                "reason": reason.as_str().unwrap_or_default(), "quantity": item["quantity"].as_u64().unwrap_or(1),
                "adjustments": item["adjustments"].as_array().cloned().unwrap_or_default(), "requested_amount": value,
            })
        });
        shown.collect()
    }

    /// Counts the products that were given back.
    fn count_refunded(&self, state: &mut State, call: &Call<'_>, order: &str, values: &[f64]) {
        let collection = format!("v2/orders/{order}/products");
        for (item, value) in call.body["items"].as_array().into_iter().flatten().zip(values) {
            let id = id_text(&item["item_id"]);
            let product =
                (item["item_type"] == "PRODUCT").then(|| state.items.one(call.store, &collection, &id));
            let Some(product) = product.flatten() else { continue };
            let count = quantity(&product, "quantity_refunded") + quantity(item, "quantity");
            let change = json!({
                "quantity_refunded": count, "is_refunded": count >= quantity(&product, "quantity"),
                "refund_amount": money(amount(&product["refund_amount"]) + value),
            });
            state.items.update(call.store, &collection, &id, &change, call.now);
        }
    }

    /// "Seller has used the Refund action", or "has partially refunded the order".
    fn refunded(&self, state: &mut State, call: &Call<'_>, order: &str, after: f64, total: f64) {
        let is_whole = after >= total - CENT_PART;
        let (status, payment) =
            if is_whole { (REFUNDED, "refunded") } else { (PARTIALLY_REFUNDED, "partially refunded") };
        let mut change = json!({ "status_id": status, "payment_status": payment });
        if !self.settings.refunded_amount_stays_zero {
            change["refunded_amount"] = money(after).into();
        }
        self.change_order(state, call, order, change);
    }

    /// The form is documented. The titles are not, but for the fixture's own.
    pub(super) fn refuses_refund(&self, title: &str) -> Reply {
        self.fixtures.reply("refund_422").fill("Unable to provide store credit for a guest customer.", title)
    }
}

/// What this refund gives back for each item of an order with these products, of which some may have been given back
/// before. What it asks for and the order is not of has a no.
fn values_of(refund: &Value, products: &[Value], before: &[Value]) -> Result<Vec<f64>, &'static str> {
    let items = refund["items"].as_array().map_or(&[][..], Vec::as_slice);
    let mut values = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let value = match item["item_type"].as_str() {
            Some("PRODUCT") => {
                let others = before.iter().filter_map(|refund| refund["items"].as_array()).flatten();
                product(item, products, others.chain(&items[..at]))?
            }
            Some("GIFT_WRAPPING") => return Err("The fake does not implement gift wrapping."),
            _ => amount(&item["amount"]),
        };
        if value.is_nan() || value <= 0.0 {
            return Err("The refund amount of an item must be greater than zero.");
        }
        values.push(value);
    }
    Ok(values)
}

/// What this many of one of the order's products cost.
fn product<'a>(
    item: &Value,
    products: &[Value],
    others: impl Iterator<Item = &'a Value>,
) -> Result<f64, &'static str> {
    let is_same = |other: &&Value| other["item_type"] == "PRODUCT" && other["item_id"] == item["item_id"];
    let Some(product) = products.iter().find(|product| product["id"] == item["item_id"]) else {
        return Err("An item is not a product of this order.");
    };
    let given = others.filter(is_same).map(|other| quantity(other, "quantity")).sum::<u64>();
    let asked = quantity(item, "quantity");
    if given.saturating_add(asked) > quantity(product, "quantity") {
        return Err("The refund quantity is greater than the remaining quantity of the product.");
    }
    #[allow(clippy::cast_precision_loss, reason = "it is no more than was ordered")]
    let price = amount(&product["price_inc_tax"]) * asked as f64;
    let adjustments = item["adjustments"].as_array().into_iter().flatten();
    Ok(price + adjustments.map(|one| amount(&one["amount"])).sum::<f64>())
}

fn quantity(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or(0)
}

/// Amounts that differ by less are the same: they have four decimals.
const CENT_PART: f64 = 0.000_05;

//! Shipments: of an order's products, to one of its addresses, and never of more than was ordered.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::items::id_text;
use super::machine::{Call, Machine, State};
use super::orders::{PARTIALLY_SHIPPED, SHIPPED};

impl Machine {
    pub(super) fn shipment(&self, state: &mut State, call: &Call<'_>, order: &str) -> Result<Reply, Reply> {
        let invalid = |name: &str| self.refused_body(call, &format!("The field '{name}' is invalid."));
        let part = |part: &str| format!("v2/orders/{order}/{part}");
        let held = state.items.one(call.store, "v2/orders", order).unwrap_or_default();
        let address = id_text(&call.body["order_address_id"]);
        let Some(address) = state.items.one(call.store, &part("shipping_addresses"), &address) else {
            return Err(invalid("order_address_id"));
        };
        let (mut asked, mut items) = (BTreeMap::new(), Vec::new());
        for item in call.body["items"].as_array().into_iter().flatten() {
            let id = id_text(&item["order_product_id"]);
            let Some(product) = state.items.one(call.store, &part("products"), &id) else {
                return Err(invalid("order_product_id"));
            };
            let quantity = item["quantity"].as_u64().filter(|quantity| *quantity > 0);
            let Some(quantity) = quantity else { return Err(invalid("quantity")) };
            let sum: &mut u64 = asked.entry(id).or_default();
            *sum = sum.saturating_add(quantity);
            if *sum > count(&product["quantity"]).saturating_sub(count(&product["quantity_shipped"])) {
                return Err(invalid("quantity"));
            }
            items.push(json!({
                "order_product_id": item["order_product_id"], "product_id": product["product_id"], "quantity": quantity,
            }));
        }
        let sum: u64 = asked.values().sum();
        if count(&held["items_shipped"]).saturating_add(sum) >= count(&held["items_total"]) {
            self.check_taking_of(state, call, order, &SHIPPED.into())?;
        }
        let mut shipment = call.body.as_object().cloned().unwrap_or_default();
        for (name, value) in [
            ("items", Value::from(items)),
            ("billing_address", held["billing_address"].clone()),
            ("shipping_address", shown_address(&address)),
            ("customer_id", held["customer_id"].clone()),
            ("generated_tracking_link", call.body["tracking_link"].as_str().unwrap_or_default().into()),
        ] {
            shipment.insert(name.to_owned(), value);
        }
        let made = self.make(state, call, &call.collection(), shipment);
        self.ship(state, call, order, &made, true);
        Ok(Reply::json(201, &made))
    }

    /// Counts what a shipment is of as shipped, or no longer so: "Deleting a shipment does not move the order out of
    /// shipped status" (BigCommerce, "Orders Overview").
    pub(super) fn ship(
        &self,
        state: &mut State,
        call: &Call<'_>,
        order: &str,
        shipment: &Value,
        is_new: bool,
    ) {
        let moved = |shipped: u64, by: u64| if is_new { shipped + by } else { shipped.saturating_sub(by) };
        let mut sum = 0;
        for item in shipment["items"].as_array().into_iter().flatten() {
            let (collection, id) =
                (format!("v2/orders/{order}/products"), id_text(&item["order_product_id"]));
            let by = count(&item["quantity"]);
            let Some(product) = state.items.one(call.store, &collection, &id) else { continue };
            let shipped = json!({ "quantity_shipped": moved(count(&product["quantity_shipped"]), by) });
            state.items.update(call.store, &collection, &id, &shipped, call.now);
            sum += by;
        }
        let (addresses, id) =
            (format!("v2/orders/{order}/shipping_addresses"), id_text(&shipment["order_address_id"]));
        if let Some(address) = state.items.one(call.store, &addresses, &id) {
            let shipped = json!({ "items_shipped": moved(count(&address["items_shipped"]), sum) });
            state.items.update(call.store, &addresses, &id, &shipped, call.now);
        }
        let Some(held) = state.items.one(call.store, "v2/orders", order) else { return };
        let shipped = moved(count(&held["items_shipped"]), sum);
        let mut change = json!({ "items_shipped": shipped });
        if is_new {
            let is_whole = shipped >= count(&held["items_total"]);
            change["status_id"] = if is_whole { SHIPPED } else { PARTIALLY_SHIPPED }.into();
            if is_whole {
                change["date_shipped"] = shipment["date_created"].clone();
            }
        }
        self.change_order(state, call, order, change);
    }
}

/// The address alone.
fn shown_address(held: &Value) -> Value {
    let names = [
        "first_name",
        "last_name",
        "company",
        "street_1",
        "street_2",
        "city",
        "state",
        "zip",
        "country",
        "country_iso2",
        "phone",
        "email",
    ];
    names.iter().map(|name| ((*name).to_owned(), held[*name].clone())).collect()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

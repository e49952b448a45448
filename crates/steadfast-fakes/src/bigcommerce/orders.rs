//! Orders: how they are made, and their statuses.

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::contract::fields_of;
use super::hooks;
use super::items::{V3, amount, id_text};
use super::lines::{line, rows_of_cart};
use super::machine::{Call, Machine, State};
use super::totals::{share_discount, sum_up, take_overrides, wrapping_of};

impl Machine {
    /// Each POST is another order, whatever it carries (no uniqueness is documented, and of checkouts that "you
    /// can create as many orders from the same order (cart) as you want").
    pub(super) fn order(
        &self,
        state: &mut State,
        call: &Call<'_>,
        status: u16,
        cart: Option<&Value>,
    ) -> Result<Reply, Reply> {
        let rows = match cart {
            Some(cart) => rows_of_cart(cart),
            None => {
                self.check_customer(state, call)?;
                self.check_amounts(call)?;
                self.rows(state, call)?
            }
        };
        for row in &rows {
            self.check_variant(state, call, row)?;
        }
        let taking = self.taking(state, call, &rows)?;
        let mut order = call.body.as_object().cloned().unwrap_or_default();
        let addresses =
            order.get("shipping_addresses").and_then(Value::as_array).cloned().unwrap_or_default();
        for name in COMPUTED {
            order.remove(name);
        }
        let mut lines: Vec<Map<String, Value>> = rows.iter().map(|row| line(state, call, row)).collect();
        share_discount(order.get("discount_amount").map_or(0.0, amount), &mut lines);
        sum_up(&mut order, &call.body, &lines, wrapping_of(&lines));
        take_overrides(&mut order, &call.body);
        order.insert("shipping_address_count".to_owned(), addresses.len().into());
        if let Some(cart) = cart {
            order.insert("cart_id".to_owned(), id_text(&cart["id"]).into());
            order.insert("customer_id".to_owned(), cart["customer_id"].clone());
            // "Orders created will be set to incomplete order status."
            order.insert("status_id".to_owned(), 0.into());
        }
        self.name_status(call, &mut order)?;
        let status_id = order.get("status_id").cloned().unwrap_or_else(|| 1.into());
        self.check_taking(state, call, &taking, &status_id)?;
        let made = self.make(state, call, "v2/orders", order);
        let id = id_text(&made["id"]);
        self.hold_parts(state, call, &id, &addresses, lines);
        state.takings.insert((call.store.to_owned(), id.clone()), taking);
        self.move_stock(state, call, &id, &status_id);
        Ok(match cart {
            Some(_) => Reply::json(status, &V3 { data: json!({ "id": made["id"] }), meta: json!({}) }),
            None => Reply::json(if self.settings.orders_answer_ok { 200 } else { status }, &made),
        })
    }

    /// "The field 'customer_id' is invalid" where there is no such customer
    /// (<https://help.rebillia.com/en/articles/13180231-error-codes>). A guest is the customer 0.
    pub(super) fn check_customer(&self, state: &State, call: &Call<'_>) -> Result<(), Reply> {
        if is_held(state, call, &CUSTOMERS, &call.body["customer_id"]) {
            return Ok(());
        }
        Err(self.refused_body(call, "The field 'customer_id' is invalid."))
    }

    /// Whether the store holds it, or is not to ask.
    pub(super) fn knows(&self, state: &State, call: &Call<'_>, collections: &[&str], id: &Value) -> bool {
        !self.settings.refuse_unknown_ids || is_held(state, call, collections, id)
    }

    /// Puts the name of a status beside its number.
    pub(super) fn name_status(&self, call: &Call<'_>, order: &mut Map<String, Value>) -> Result<(), Reply> {
        let Some(status) = order.get("status_id") else { return Ok(()) };
        let Some(name) = status.as_u64().and_then(status_name) else {
            return Err(self.refused_body(call, "The field 'status_id' is invalid."));
        };
        order.insert("status".to_owned(), name.into());
        Ok(())
    }

    fn hold_parts(
        &self,
        state: &mut State,
        call: &Call<'_>,
        order: &str,
        addresses: &[Value],
        lines: Vec<Map<String, Value>>,
    ) {
        let mut first = Value::from(0);
        let items: u64 = lines.iter().filter_map(|line| line["quantity"].as_u64()).sum();
        for (at, address) in addresses.iter().enumerate() {
            let collection = format!("v2/orders/{order}/shipping_addresses");
            let mut fields = fields_of(&collection, call.now);
            fields.extend(address.as_object().cloned().unwrap_or_default());
            // All of it goes to the first address.
            fields.insert("items_total".to_owned(), if at == 0 { items } else { 0 }.into());
            let id = self.hold(state, call, &collection, fields);
            if at == 0 {
                first = id;
            }
        }
        for mut line in lines {
            line.insert("order_address_id".to_owned(), first.clone());
            self.hold(state, call, &format!("v2/orders/{order}/products"), line);
        }
    }

    /// Changes an order, and tells of it. The status is by its number.
    pub(super) fn change_order(&self, state: &mut State, call: &Call<'_>, order: &str, mut fields: Value) {
        let Some(before) = state.items.one(call.store, "v2/orders", order) else { return };
        if let Some(name) = fields["status_id"].as_u64().and_then(status_name) {
            fields["status"] = name.into();
        }
        state.items.update(call.store, "v2/orders", order, &fields, call.now);
        self.move_stock(state, call, order, &fields["status_id"]);
        self.tell_of_order(state, call, &before, &fields["status_id"]);
    }

    /// Tells of an order that was this before, and has this status if it was given one.
    pub(super) fn tell_of_order(&self, state: &State, call: &Call<'_>, before: &Value, status: &Value) {
        hooks::tell(&self.outbox, &state.items, call, "v2/orders", "updated", before);
        if !status.is_null() && *status != before["status_id"] {
            let status = json!({ "previous_status_id": before["status_id"], "new_status_id": status });
            let data = json!({ "type": "order", "id": before["id"], "status": status });
            hooks::fire(&self.outbox, &state.items, call, "store/order/statusUpdated", &data);
        }
    }
}

/// Whether the store holds one of this id. None is none.
fn is_held(state: &State, call: &Call<'_>, collections: &[&str], id: &Value) -> bool {
    let holds = |collection: &&str| state.items.has(call.store, collection, &id_text(id));
    id.is_null() || *id == 0 || collections.iter().any(holds)
}

fn status_name(status: u64) -> Option<&'static str> {
    STATUSES.get(usize::try_from(status).ok()?).copied()
}

pub(super) const PRODUCTS: [&str; 2] = ["v3/catalog/products", "v2/products"];
pub(super) const CUSTOMERS: [&str; 2] = ["v3/customers", "v2/customers"];

/// Members of a body that are computed, or collections of their own.
pub(super) const COMPUTED: [&str; 6] =
    ["products", "consignments", "shipping_addresses", "items_total", "items_shipped", "refunded_amount"];

pub(super) const INCOMPLETE: u64 = 0;
pub(super) const SHIPPED: u64 = 2;
pub(super) const PARTIALLY_SHIPPED: u64 = 3;
pub(super) const REFUNDED: u64 = 4;
pub(super) const CANCELLED: u64 = 5;
pub(super) const DECLINED: u64 = 6;
pub(super) const COMPLETED: u64 = 10;
pub(super) const AWAITING_FULFILLMENT: u64 = 11;
pub(super) const PARTIALLY_REFUNDED: u64 = 14;

/// Of the specification (`orders.v2.oas2.yml`, "Get All Order Statuses"), by their numbers.
const STATUSES: [&str; 15] = [
    "Incomplete",
    "Pending",
    "Shipped",
    "Partially Shipped",
    "Refunded",
    "Cancelled",
    "Declined",
    "Awaiting Payment",
    "Awaiting Pickup",
    "Awaiting Shipment",
    "Completed",
    "Awaiting Fulfillment",
    "Manual Verification Required",
    "Disputed",
    "Partially Refunded",
];

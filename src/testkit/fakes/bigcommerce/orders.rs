//! Orders: what they are of, what that comes to, and their statuses.

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::bodies::money;
use super::contract::{Resource, fields_of};
use super::hooks;
use super::items::{V3, amount, id_text};
use super::machine::{Call, Machine, State};

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
                self.rows(state, call)?
            }
        };
        let taking = self.taking(state, call, &rows)?;
        let mut order = call.body.as_object().cloned().unwrap_or_default();
        let addresses =
            order.get("shipping_addresses").and_then(Value::as_array).cloned().unwrap_or_default();
        // Computed, or collections of their own.
        for name in [
            "products",
            "consignments",
            "shipping_addresses",
            "items_total",
            "items_shipped",
            "refunded_amount",
        ] {
            order.remove(name);
        }
        let lines: Vec<Map<String, Value>> = rows.iter().map(|row| line(state, call, row)).collect();
        total(&mut order, &lines);
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

    /// What an order is asked to be of.
    fn rows(&self, state: &State, call: &Call<'_>) -> Result<Vec<Value>, Reply> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut rows = Vec::new();
        let named = |path: String| move |(at, row): (usize, Value)| (format!("{path}.{at}"), row);
        rows.extend(list(&call.body["products"]).into_iter().enumerate().map(named("products".to_owned())));
        for (at, pickup) in list(&call.body["consignments"]["pickups"]).iter().enumerate() {
            let path = format!("consignments.pickups.{at}.line_items");
            rows.extend(list(&pickup["line_items"]).into_iter().enumerate().map(named(path)));
        }
        for (path, row) in &rows {
            let invalid =
                |name: &str| Err(self.refused_body(call, &format!("The field '{path}.{name}' is invalid.")));
            if row["quantity"].as_u64().is_none_or(|quantity| quantity == 0) {
                return invalid("quantity");
            }
            for price in ["price_inc_tax", "price_ex_tax"] {
                if amount(&row[price]) < 0.0 {
                    return invalid(price);
                }
            }
            // A product of the catalog has a name and a price there. Another brings them.
            let is_of_catalog = row["product_id"].as_u64().is_some_and(|id| id > 0);
            if is_of_catalog && !self.knows(state, call, &PRODUCTS, &row["product_id"]) {
                return invalid("product_id");
            }
            let missing =
                match NAMES.iter().any(|name| row[*name].as_str().is_some_and(|text| !text.is_empty())) {
                    _ if is_of_catalog => None,
                    false => Some("name"),
                    true => ["price_inc_tax", "price_ex_tax"].into_iter().find(|name| row[*name].is_null()),
                };
            if let Some(name) = missing {
                let text = format!("The required field '{path}.{name}' was not supplied.");
                return Err(self.refused_body(call, &text));
            }
        }
        Ok(rows.into_iter().map(|(_, row)| row).collect())
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

/// What an order comes to, as far as the request does not say otherwise.
fn total(order: &mut Map<String, Value>, lines: &[Map<String, Value>]) {
    for tax in ["inc", "ex"] {
        let sum: f64 = lines.iter().map(|line| amount(&line[&format!("total_{tax}_tax")])).sum();
        for name in ["subtotal", "total"] {
            order.entry(format!("{name}_{tax}_tax")).or_insert_with(|| money(sum).into());
        }
    }
    for name in ["subtotal", "total"] {
        let of = |tax: &str| order.get(&format!("{name}_{tax}_tax")).map_or(0.0, amount);
        let tax = money(of("inc") - of("ex"));
        let name = if name == "total" { "total_tax" } else { "subtotal_tax" };
        order.insert(name.to_owned(), tax.into());
    }
    let items: u64 = lines.iter().filter_map(|line| line["quantity"].as_u64()).sum();
    order.insert("items_total".to_owned(), items.into());
}

/// A product of an order, priced by the request or else by the catalog. A product that neither prices costs nothing.
fn line(state: &State, call: &Call<'_>, row: &Value) -> Map<String, Value> {
    let held = row["product_id"].as_u64().and_then(|id| {
        let one = |collection| state.items.one(call.store, collection, &id.to_string());
        PRODUCTS.into_iter().find_map(one)
    });
    let held = held.unwrap_or_default();
    let price = |own: &str, other: &str| {
        [&row[own], &row[other], &held["calculated_price"]]
            .into_iter()
            .find(|price| !price.is_null())
            .map_or(0.0, amount)
    };
    let prices =
        [("inc", price("price_inc_tax", "price_ex_tax")), ("ex", price("price_ex_tax", "price_inc_tax"))];
    priced(call, row, &held, prices)
}

fn priced(call: &Call<'_>, row: &Value, held: &Value, prices: [(&str, f64); 2]) -> Map<String, Value> {
    let quantity = row["quantity"].as_u64().unwrap_or_default();
    #[allow(clippy::cast_precision_loss, reason = "a fake's orders are of fewer")]
    let times = quantity as f64;
    let mut line = fields_of("v2/orders/0/products", call.now);
    let shown = |name: &str| {
        Resource::of(&["v2", "orders", "0", "products"]).is_some_and(|resource| resource.shows(name))
    };
    for (name, value) in row.as_object().into_iter().flatten().filter(|(name, _)| shown(name)) {
        // The options that were chosen are sent in another form than they are shown in.
        if name != "product_options" {
            line.insert(name.clone(), value.clone());
        }
    }
    let mut set = |name: &str, value: Value| line.insert(name.to_owned(), value);
    let name = NAMES.iter().map(|name| &row[*name]).find(|name| name.is_string()).unwrap_or(&held["name"]);
    for alias in NAMES {
        let own = if row[alias].is_string() { &row[alias] } else { name };
        set(alias, Value::from(own.as_str().unwrap_or_default()));
    }
    if row["sku"].is_null() {
        set("sku", Value::from(held["sku"].as_str().unwrap_or_default()));
    }
    set("type", Value::from(held["type"].as_str().unwrap_or("physical")));
    for (tax, price) in prices {
        set(&format!("price_{tax}_tax"), money(price).into());
        set(&format!("total_{tax}_tax"), money(price * times).into());
    }
    let [(_, inc), (_, ex)] = prices;
    set("price_tax", money(inc - ex).into());
    set("total_tax", money((inc - ex) * times).into());
    set("base_price", money(ex).into());
    set("base_total", money(ex * times).into());
    set("discounted_total_inc_tax", money(inc * times).into());
    line
}

/// What an order of this cart is of.
fn rows_of_cart(cart: &Value) -> Vec<Value> {
    let mut rows = Vec::new();
    for (list, price) in [
        ("physical_items", "list_price"),
        ("digital_items", "list_price"),
        ("custom_items", "list_price"),
        ("gift_certificates", "amount"),
    ] {
        for item in cart["line_items"][list].as_array().into_iter().flatten() {
            rows.push(json!({
                "product_id": item["product_id"].as_u64().unwrap_or(0), "name": item["name"], "sku": item["sku"],
                "variant_id": item["variant_id"].as_u64().unwrap_or(0), "quantity": item["quantity"].as_u64().unwrap_or(1),
                "price_inc_tax": item[price], "price_ex_tax": item[price],
            }));
        }
    }
    rows
}

/// Whether the store holds one of this id. None is none.
fn is_held(state: &State, call: &Call<'_>, collections: &[&str], id: &Value) -> bool {
    let holds = |collection: &&str| state.items.one(call.store, collection, &id_text(id)).is_some();
    id.is_null() || *id == 0 || collections.iter().any(holds)
}

fn status_name(status: u64) -> Option<&'static str> {
    STATUSES.get(usize::try_from(status).ok()?).copied()
}

/// `name` is another word for `name_customer`; the merchant's is its own.
const NAMES: [&str; 3] = ["name", "name_customer", "name_merchant"];

pub(super) const PRODUCTS: [&str; 2] = ["v3/catalog/products", "v2/products"];
pub(super) const CUSTOMERS: [&str; 2] = ["v3/customers", "v2/customers"];

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

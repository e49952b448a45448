//! Carts: their lines in one list for each kind, what they come to, and the version that a change may name.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::fixture::Reply;
use super::contract::Resource;
use super::hooks;
use super::items::{Items, V3, amount, id_text, not_found};
use super::lines::{NO_VARIANT, QUANTITY_MAX, variant_of_selections};
use super::machine::{Call, Machine, State, problem};
use super::orders::{CUSTOMERS, PRODUCTS};
use super::totals::is_amount;

impl Machine {
    pub(super) fn cart(&self, state: &mut State, call: &Call<'_>, status: u16) -> Result<Reply, Reply> {
        self.check_cart_customer(state, call)?;
        let lines = self.lines(state, call)?;
        let mut cart = call.body.as_object().cloned().unwrap_or_default();
        cart.remove("custom_items");
        cart.remove("gift_certificates");
        cart.insert("line_items".to_owned(), lists());
        let customer = id_text(&call.body["customer_id"]);
        let customer = state.items.one(call.store, "v3/customers", &customer);
        let email = customer.and_then(|customer| customer["email"].as_str().map(str::to_owned));
        cart.insert("email".to_owned(), email.unwrap_or_default().into());
        let mut cart = Value::Object(cart);
        put_lines(&mut cart, &lines);
        let id = Value::from(new_uuid(&mut state.items));
        let fields = cart.as_object().cloned().unwrap_or_default();
        let made = self.make_with_id(state, call, "v3/carts", id, fields);
        self.tell_of_lines(state, call, &made["id"], "created", &lines);
        Ok(Reply::json(status, &V3 { data: made, meta: json!({}) }))
    }

    /// More lines for a cart.
    pub(super) fn add_lines(
        &self,
        state: &mut State,
        call: &Call<'_>,
        status: u16,
        cart: &str,
    ) -> Result<Reply, Reply> {
        let mut held = self.cart_at(state, call, cart)?;
        let lines = self.lines(state, call)?;
        put_lines(&mut held, &lines);
        let changed = self.hold_cart(state, call, held);
        self.tell_of_lines(state, call, &changed["id"], "created", &lines);
        Ok(Reply::json(status, &V3 { data: changed, meta: json!({}) }))
    }

    /// "Currently, only updating list_price and quantity are supported", of products.
    pub(super) fn change_line(
        &self,
        state: &mut State,
        call: &Call<'_>,
        status: u16,
        [cart, line]: [&str; 2],
    ) -> Result<Reply, Reply> {
        let mut held = self.cart_at(state, call, cart)?;
        let Some((list, at)) = place(&held, line) else { return Err(not_found(call)) };
        let new = &call.body["line_item"];
        let own = &mut held["line_items"][list][at];
        if !list.ends_with("l_items") {
            return Err(problem(422, "Only a product's line can be updated."));
        }
        if new["product_id"] != own["product_id"] {
            return Err(problem(422, "The product of a line cannot be changed."));
        }
        let quantity = quantity(new)?;
        let price =
            if new["list_price"].is_null() { amount(&own["list_price"]) } else { amount(&new["list_price"]) };
        own["quantity"] = quantity.into();
        price_line(own, price, quantity);
        let changed = self.hold_cart(state, call, held);
        self.tell_of_lines(state, call, &changed["id"], "updated", &[(list, json!({ "id": line }))]);
        Ok(Reply::json(status, &V3 { data: changed, meta: json!({}) }))
    }

    /// "Removing the last line_item in the Cart deletes the Cart."
    pub(super) fn remove_line(
        &self,
        state: &mut State,
        call: &Call<'_>,
        [cart, line]: [&str; 2],
    ) -> Result<Reply, Reply> {
        let mut held = self.cart_at(state, call, cart)?;
        let Some((list, at)) = place(&held, line) else { return Err(not_found(call)) };
        if let Some(rows) = held["line_items"][list].as_array_mut() {
            rows.remove(at);
        }
        let is_empty =
            LISTS.iter().all(|list| held["line_items"][*list].as_array().is_none_or(Vec::is_empty));
        let changed = self.hold_cart(state, call, held);
        self.tell_of_lines(state, call, &changed["id"], "deleted", &[(list, json!({ "id": line }))]);
        if !is_empty {
            return Ok(Reply::json(200, &V3 { data: changed, meta: json!({}) }));
        }
        state.items.remove(call.store, "v3/carts", cart, call.now);
        hooks::tell(&self.outbox, &state.items, call, "v3/carts", "deleted", &changed);
        Ok(Reply::empty(204))
    }

    /// Another customer's.
    pub(super) fn change_cart(
        &self,
        state: &mut State,
        call: &Call<'_>,
        status: u16,
        cart: &str,
    ) -> Result<Reply, Reply> {
        let mut held = self.cart_at(state, call, cart)?;
        self.check_cart_customer(state, call)?;
        if let Some(customer) = call.body.get("customer_id") {
            held["customer_id"] = customer.clone();
        }
        let changed = self.hold_cart(state, call, held);
        Ok(Reply::json(status, &V3 { data: changed, meta: json!({}) }))
    }

    fn check_cart_customer(&self, state: &State, call: &Call<'_>) -> Result<(), Reply> {
        let is_known = self.knows(state, call, &CUSTOMERS, &call.body["customer_id"]);
        if is_known { Ok(()) } else { Err(problem(422, "The field 'customer_id' is invalid.")) }
    }

    /// The cart, if it has the version that the request names.
    fn cart_at(&self, state: &State, call: &Call<'_>, cart: &str) -> Result<Value, Reply> {
        let Some(held) = state.items.one(call.store, "v3/carts", cart) else { return Err(not_found(call)) };
        let named = &call.body["version"];
        let is_current = named.is_null() || *named == held["version"];
        if is_current { Ok(held) } else { Err(self.fixtures.reply("cart_conflict")) }
    }

    /// Holds a changed cart, and tells of it.
    fn hold_cart(&self, state: &mut State, call: &Call<'_>, mut cart: Value) -> Value {
        sum_up(&mut cart);
        cart["version"] = (cart["version"].as_u64().unwrap_or(0) + 1).into();
        let id = id_text(&cart["id"]);
        state.items.update(call.store, "v3/carts", &id, &cart, call.now);
        self.made(call, None, &cart["id"], 0);
        hooks::tell(&self.outbox, &state.items, call, "v3/carts", "updated", &cart);
        state.items.one(call.store, "v3/carts", &id).unwrap_or(cart)
    }

    fn tell_of_lines(
        &self,
        state: &State,
        call: &Call<'_>,
        cart: &Value,
        what: &str,
        lines: &[(&str, Value)],
    ) {
        for (_, line) in lines {
            let data = json!({ "type": "cart_line_item", "id": line["id"], "cartId": cart });
            hooks::fire(&self.outbox, &state.items, call, &format!("store/cart/lineItem/{what}"), &data);
        }
    }

    /// The lines of a request, each with its list.
    fn lines(&self, state: &mut State, call: &Call<'_>) -> Result<Vec<(&'static str, Value)>, Reply> {
        let Some(resource) = Resource::of(&["v3", "carts"]) else { return Ok(Vec::new()) };
        let rows = |name: &str| call.body[name].as_array().into_iter().flatten();
        let mut lines = Vec::new();
        for row in rows("line_items") {
            let quantity = quantity(row)?;
            if !self.knows(state, call, &PRODUCTS, &row["product_id"]) {
                return Err(problem(422, "The field 'product_id' is invalid."));
            }
            let product = state.items.one(call.store, "v3/catalog/products", &id_text(&row["product_id"]));
            let product = product.unwrap_or_default();
            let variant = variant_of_selections(state, call, row, &product);
            // "Required if the product has variants" (`reference/carts.v3.yml`, `variant_id`).
            if variant.is_none() && !product.is_null() {
                let names_one = row["variant_id"].as_u64().is_some_and(|id| id > 0);
                let text = if names_one { "The field 'variant_id' is invalid." } else { NO_VARIANT };
                return Err(problem(422, text));
            }
            let variant = variant.unwrap_or_default();
            let list = if product["type"] == "digital" { "digital_items" } else { "physical_items" };
            // A variant may have a price and a SKU of its own.
            let own = [&variant["calculated_price"], &product["calculated_price"]];
            let own = own.into_iter().find(|price| !price.is_null()).map_or(0.0, amount);
            let price = if row["list_price"].is_null() { own } else { amount(&row["list_price"]) };
            let mut line = new_line(&mut state.items, resource, list, row);
            if row["name"].is_null() {
                line["name"] = product["name"].as_str().unwrap_or_default().into();
            }
            let sku = variant["sku"].as_str().filter(|sku| !sku.is_empty()).or(product["sku"].as_str());
            line["sku"] = sku.unwrap_or_default().into();
            // A simple product is sold as its base variant.
            if !variant.is_null() {
                line["variant_id"] = variant["id"].clone();
            }
            line["original_price"] = if product.is_null() { price } else { own }.into();
            price_line(&mut line, price, quantity);
            lines.push((list, line));
        }
        for row in rows("custom_items") {
            let quantity = quantity(row)?;
            let mut line = new_line(&mut state.items, resource, "custom_items", row);
            price_line(&mut line, amount(&row["list_price"]), quantity);
            lines.push(("custom_items", line));
        }
        for row in rows("gift_certificates") {
            // A line of a cart shows none (`ItemGiftCertificateGet`), so what several come to is not known.
            if quantity(row)? > 1 {
                let text = "The fake does not implement a gift certificate with a quantity above 1.";
                return Err(problem(422, text));
            }
            lines.push(("gift_certificates", new_line(&mut state.items, resource, "gift_certificates", row)));
        }
        Ok(lines)
    }
}

/// A line of a held cart, of a product at this price.
pub(super) fn held_cart(id: &str, resource: &Resource, mut cart: Map<String, Value>, line_id: Uuid) -> Value {
    cart.insert("id".to_owned(), id.into());
    cart.insert("line_items".to_owned(), lists());
    let mut line = Value::Object(resource.new_line("physical_items"));
    line["id"] = line_id.to_string().into();
    for (name, value) in [("name", json!("Product 1")), ("product_id", json!(1)), ("quantity", json!(1))] {
        line[name] = value;
    }
    line["original_price"] = 10.into();
    price_line(&mut line, 10.0, 1);
    let mut cart = Value::Object(cart);
    put_lines(&mut cart, &[("physical_items", line)]);
    cart
}

fn new_line(items: &mut Items, resource: &Resource, list: &str, row: &Value) -> Value {
    let mut line = resource.new_line(list);
    for (name, value) in row.as_object().into_iter().flatten() {
        if line.contains_key(name) && name != "gift_wrapping" {
            line.insert(name.clone(), value.clone());
        }
    }
    line.insert("id".to_owned(), new_uuid(items).into());
    Value::Object(line)
}

fn price_line(line: &mut Value, price: f64, quantity: u64) {
    #[allow(clippy::cast_precision_loss, reason = "a fake's carts are of fewer")]
    let whole = price * quantity as f64;
    for (name, value) in [
        ("list_price", price),
        ("sale_price", price),
        ("extended_list_price", whole),
        ("extended_sale_price", whole),
    ] {
        if let Some(held) = line.get_mut(name) {
            *held = value.into();
        }
    }
}

fn put_lines(cart: &mut Value, lines: &[(&'static str, Value)]) {
    for (list, line) in lines {
        if let Some(rows) = cart["line_items"][*list].as_array_mut() {
            rows.push(line.clone());
        }
    }
    sum_up(cart);
}

fn sum_up(cart: &mut Value) {
    let mut sum = 0.0;
    for list in LISTS {
        let price = if list == "gift_certificates" { "amount" } else { "extended_list_price" };
        let rows = cart["line_items"][list].as_array().into_iter().flatten();
        sum += rows.map(|line| amount(&line[price])).sum::<f64>();
    }
    cart["base_amount"] = sum.into();
    cart["cart_amount"] = sum.into();
}

/// The list of a line, and its place in it.
fn place(cart: &Value, line: &str) -> Option<(&'static str, usize)> {
    LISTS.into_iter().find_map(|list| {
        let at = cart["line_items"][list].as_array()?.iter().position(|row| row["id"] == line)?;
        Some((list, at))
    })
}

fn lists() -> Value {
    LISTS.iter().map(|list| ((*list).to_owned(), json!([]))).collect()
}

/// How many a line is of, or the refusal of that and of what one costs.
fn quantity(row: &Value) -> Result<u64, Reply> {
    if ["list_price", "amount"].iter().any(|price| !is_amount(&row[*price])) {
        return Err(problem(422, "The price of a line is negative, or too large."));
    }
    let quantity = row["quantity"].as_u64().filter(|quantity| (1..=QUANTITY_MAX).contains(quantity));
    quantity.ok_or_else(|| problem(422, "The quantity of a line is from 1 to 2147483647."))
}

fn new_uuid(items: &mut Items) -> String {
    uuid_of(items.next_id()).to_string()
}

/// The UUID that stands for a number: a fake's own are the same in every run.
pub(super) fn uuid_of(id: u64) -> Uuid {
    uuid::Builder::from_custom_bytes(u128::from(id).to_be_bytes()).into_uuid()
}

const LISTS: [&str; 4] = ["physical_items", "digital_items", "gift_certificates", "custom_items"];

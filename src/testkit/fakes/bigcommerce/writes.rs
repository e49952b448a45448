//! What each write makes, and which the store refuses.

use http::Method;
use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::fields::fields_of;
use super::items::{Asks, V3, amount, id_text, not_allowed, not_found, question};
use super::machine::{Call, Machine, State, problem_v2};
use super::parts::saved;
use super::routes::{Route, parent_of, route_of};
use super::{hooks, keys};

impl Machine {
    pub(super) fn write(&self, state: &mut State, call: &Call<'_>) -> Reply {
        if call.request.method != Method::POST {
            return self.change(state, call);
        }
        if let Some(refused) = self.is_no_post(call) {
            return refused;
        }
        match call.route {
            ["v2", "orders"] => self.order(state, call, None),
            ["v3", "checkouts", cart, "orders"] => match state.items.one(call.store, "v3/carts", cart) {
                Some(held) => self.order(state, call, Some(&held)),
                None => not_found(call),
            },
            ["v3", "catalog", "products"] => self.product(state, call),
            ["v3", "catalog", "brands" | "categories"] | ["v3", "pricelists"] => self.named(state, call),
            ["v2", "coupons"] => self.coupon(state, call),
            ["v3", "customers"] => self.customers(state, call),
            ["v3", "orders", order, "payment_actions", "refunds"] => self.refund(state, call, order),
            ["v3", "payments", "access_tokens"] => access_token(state, call),
            ["payments"] => self.payment(state, call),
            ["v2", "customers"] => self.customer_v2(state, call),
            ["v3", "customers", "addresses"] => self.addresses(state, call),
            ["v2", "products"] if self.conflict(state, call, "v2/products", None, &call.body).is_some() => {
                self.taken("v2/products", "name")
            }
            ["v3", "carts"] if !any(call, &["line_items", "custom_items", "gift_certificates"]) => {
                self.without("line_items", "line items")
            }
            ["v3", "inventory", "adjustments", "relative"] => self.adjust(state, call),
            ["v2", "orders", _, "shipments"] if call.body["order_address_id"].as_u64().is_none() => {
                without_v2("order_address_id")
            }
            ["v2", "orders", _, "shipments"] if !any(call, &["items"]) => without_v2("items"),
            route if route_of(route).is_some() => {
                let made = self.make(state, call, &call.collection(), call.body.clone());
                if call.is_v2() { Reply::json(201, &made) } else { created(201, &made) }
            }
            _ => not_found(call),
        }
    }

    /// The refusal of a POST that is none of the path's: the method, a parameter, or a body that is no object.
    fn is_no_post(&self, call: &Call<'_>) -> Option<Reply> {
        let route = route_of(call.route);
        if route.is_some_and(|route| !route.takes('P')) || route.is_none() && parent_of(call.route).is_some()
        {
            let is_found = !matches!(call.route, ["v3", "payments", "access_tokens"]);
            return is_found.then(|| not_allowed(call));
        }
        if let Err(refused) = question(call, route.unwrap_or(&Route::OTHER), Asks::Nothing) {
            return Some(refused);
        }
        let is_array = matches!(call.route, ["v3", "customers"] | ["v3", "customers", "addresses"]);
        (!is_array && !call.body.is_object()).then(|| self.not_an_object(call))
    }

    /// The refusal of a body that is JSON, and no object.
    pub(super) fn not_an_object(&self, call: &Call<'_>) -> Reply {
        match call.is_v2() {
            true => problem_v2(400, "The JSON data provided is invalid."),
            false => self.not_json_of("jsobject"),
        }
    }

    /// A change of stock: its answer is the id of a transaction, by the specification.
    pub(super) fn adjust(&self, state: &mut State, call: &Call<'_>) -> Reply {
        if !any(call, &["items"]) {
            return self.without("items", "items");
        }
        let made = self.make(state, call, &call.collection(), call.body.clone());
        Reply::json(200, &json!({ "transaction_id": id_text(&made["id"]), "data": {}, "meta": {} }))
    }

    /// Each POST is another order, whatever it carries (no uniqueness is documented, and of checkouts that "you
    /// can create as many orders from the same order (cart) as you want").
    fn order(&self, state: &mut State, call: &Call<'_>, cart: Option<&Value>) -> Reply {
        if cart.is_none() && !any(call, &["products", "consignments"]) {
            return without_v2("products");
        }
        let now = call.now.to_string().replace("GMT", "+0000");
        let mut order = Value::Object(fields_of("v2/orders", &now));
        for (name, value) in call.body.as_object().into_iter().flatten() {
            // Read-only in BigCommerce's reference, or a collection of its own.
            if !matches!(name.as_str(), "external_id" | "products") {
                order[name] = value.clone();
            }
        }
        let products = cart.map_or_else(|| list(&call.body["products"]), products_of);
        let quantity = |product: &Value| product["quantity"].as_f64().unwrap_or(1.0);
        let price =
            |name: &str| -> f64 { products.iter().map(|one| amount(&one[name]) * quantity(one)).sum() };
        for (tax, price) in [("inc", price("price_inc_tax")), ("ex", price("price_ex_tax"))] {
            for name in ["subtotal", "total"] {
                let name = format!("{name}_{tax}_tax");
                if call.body[&name].is_null() {
                    order[name] = Value::from(format!("{price:.4}"));
                }
            }
        }
        order["items_total"] =
            Value::from(products.iter().filter_map(|one| one["quantity"].as_u64()).sum::<u64>());
        if let Some(cart) = cart {
            order["cart_id"] = id_text(&cart["id"]).into();
        }
        order["date_created"] = Value::from(now);
        let id = state.items.coming_id();
        for part in ["products", "shipments", "shipping_addresses", "coupons"] {
            let url = format!("https://api.bigcommerce.com/stores/{}/v2/orders/{id}/{part}", call.store);
            order[part] = json!({ "url": url, "resource": format!("/orders/{id}/{part}") });
        }
        let made = self.make(state, call, "v2/orders", order);
        for mut product in products {
            product["id"] = Value::from(state.items.next_id());
            product["order_id"] = made["id"].clone();
            state.items.add(call.store, &format!("v2/orders/{id}/products"), &product, call.now);
        }
        if cart.is_some() {
            Reply::json(200, &json!({ "data": { "id": made["id"] }, "meta": {} }))
        } else {
            Reply::json(201, &made)
        }
    }

    fn product(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let mut missing = self.fixtures.reply("v3_validation").value();
        if let Some(errors) = missing["errors"].as_object_mut() {
            errors.retain(|name, _| call.body[name].is_null() || call.body[name] == "");
            if !errors.is_empty() {
                return Reply::json(422, &missing);
            }
        }
        let collection = call.collection();
        if let Some(refused) = self.conflict(state, call, &collection, None, &call.body) {
            return refused;
        }
        let (fields, unsaved) = saved(&state.items, call.store, &collection, None, &call.body);
        let made = self.make(state, call, &collection, fields);
        if unsaved.is_empty() { created(200, &made) } else { self.in_part(&made, &unsaved) }
    }

    fn named(&self, state: &mut State, call: &Call<'_>) -> Reply {
        if call.body["name"].as_str().is_none_or(str::is_empty) {
            return self.without("name", "a name");
        }
        let collection = call.collection();
        if let Some(refused) = self.conflict(state, call, &collection, None, &call.body) {
            return refused;
        }
        created(200, &self.make(state, call, &collection, call.body.clone()))
    }

    fn coupon(&self, state: &mut State, call: &Call<'_>) -> Reply {
        if let Some(refused) = self.conflict(state, call, "v2/coupons", None, &call.body) {
            return refused;
        }
        Reply::json(201, &self.make(state, call, "v2/coupons", call.body.clone()))
    }

    /// A payment, and its transaction on the order that the token was given for.
    fn payment(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let key = keys::of(call).into_iter().next().flatten();
        let id = state.items.next_id();
        let payment = uuid::Builder::from_custom_bytes(u128::from(id).to_be_bytes()).into_uuid().to_string();
        let mut answer = self.fixtures.reply("payment_ok").value();
        answer["data"]["id"] = Value::from(payment.as_str());
        if let Some((order, _)) = key.as_deref().and_then(|token| token.split_once('.')) {
            let transaction = json!({ "id": id, "order_id": order, "event": "authorization", "gateway_transaction_id": payment });
            state.items.add(call.store, &format!("v3/orders/{order}/transactions"), &transaction, call.now);
        }
        self.effect(call, key, &answer["data"]["id"], 0);
        Reply::json(201, &answer)
    }

    /// V3's no to a write without what it needs.
    pub(super) fn without(&self, field: &str, what: &str) -> Reply {
        let mut missing = self.fixtures.reply("v3_validation").value();
        missing["errors"] = json!({ field: format!("Please provide {what}.") });
        Reply::json(422, &missing)
    }

    pub(super) fn make(&self, state: &mut State, call: &Call<'_>, collection: &str, value: Value) -> Value {
        let key = keys::of(call).into_iter().next().flatten();
        self.make_part(state, call, collection, value, key, 0)
    }

    pub(super) fn make_part(
        &self,
        state: &mut State,
        call: &Call<'_>,
        collection: &str,
        value: Value,
        key: Option<String>,
        part: usize,
    ) -> Value {
        let mut fields = fields_of(collection, &call.now.to_string());
        if let Value::Object(sent) = value {
            fields.extend(sent);
        }
        let id = state.items.next_id();
        fields.insert("id".to_owned(), Value::from(id));
        let value = Value::Object(fields);
        state.items.add(call.store, collection, &value, call.now);
        self.effect(call, key, &value["id"], part);
        hooks::tell(&self.outbox, &state.items, call, collection, "created", &value["id"]);
        value
    }
}

/// A V3 answer to a create: 200 for the catalog and price lists, by the specification.
pub(super) fn created(status: u16, made: &Value) -> Reply {
    Reply::json(status, &V3 { data: made, meta: json!({}) })
}

/// V2's no to a write without what it needs.
pub(super) fn without_v2(name: &str) -> Reply {
    problem_v2(400, &format!("The required field '{name}' was not supplied."))
}

/// Whether the body has at least one row in one of these lists.
fn any(call: &Call<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| match &call.body[*name] {
        Value::Array(rows) => !rows.is_empty(),
        // Consignments are an object of lists.
        Value::Object(lists) => {
            lists.values().any(|rows| rows.as_array().is_some_and(|rows| !rows.is_empty()))
        }
        _ => false,
    })
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// What an order of this cart is of.
fn products_of(cart: &Value) -> Vec<Value> {
    let mut products = list(&cart["line_items"]);
    products.extend(list(&cart["custom_items"]));
    for product in &mut products {
        let price = product["list_price"].clone();
        if !price.is_null() {
            (product["price_inc_tax"], product["price_ex_tax"]) = (price.clone(), price);
        }
    }
    products
}

/// The token that pays for an order.
fn access_token(state: &mut State, call: &Call<'_>) -> Reply {
    let order = id_text(&call.body["order"]["id"]);
    if state.items.one(call.store, "v2/orders", &order).is_none() {
        return not_found(call);
    }
    let token = format!("{order}.{}", state.items.next_id());
    Reply::json(201, &json!({ "data": { "id": token }, "meta": {} }))
}

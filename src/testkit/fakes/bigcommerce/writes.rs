//! What each write makes, and which the store refuses.

use http::Method;
use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::items::{V3, amount, not_found};
use super::machine::{Call, Machine, State, problem_v2};
use super::routes::{fields_of, is_collection};
use super::{hooks, keys};

impl Machine {
    pub(super) fn write(&self, state: &mut State, call: &Call<'_>) -> Reply {
        if call.request.method != Method::POST {
            return self.change(state, call);
        }
        match call.route {
            ["v2", "orders"] => self.order(state, call, None),
            ["v3", "checkouts", cart, "orders"] => self.order(state, call, Some(cart)),
            ["v3", "catalog", "products"] => self.product(state, call),
            ["v3", "catalog", kind @ ("brands" | "categories")] => self.named(state, call, kind),
            ["v3", "pricelists"] => self.named(state, call, "price list"),
            ["v2", "coupons"] => self.coupon(state, call),
            ["v3", "customers"] => self.customers(state, call),
            ["v3", "orders", order, "payment_actions", "refunds"] => self.refund(state, call, order),
            ["v3", "payments", "access_tokens"] => {
                let order = &call.body["order"]["id"];
                Reply::json(
                    201,
                    &json!({ "data": { "id": format!("{order}.{}", state.items.next_id()) }, "meta": {} }),
                )
            }
            ["payments"] => self.payment(state, call),
            ["v2", "customers"] => self.customer_v2(state, call),
            ["v2", "products"]
                if state.items.holds(call.store, "v2/products", "name", &call.body["name"]) =>
            {
                problem_v2(409, "The product name is a duplicate.")
            }
            route if is_collection(route) => {
                let made = self.make(state, call, &call.collection(), call.body.clone());
                if call.is_v2() { Reply::json(201, &made) } else { created(201, &made) }
            }
            _ => not_found(call),
        }
    }

    /// Each POST is another order, whatever it carries (no uniqueness is documented, and of checkouts that "you
    /// can create as many orders from the same order (cart) as you want").
    fn order(&self, state: &mut State, call: &Call<'_>, cart: Option<&str>) -> Reply {
        let now = call.now.to_string().replace("GMT", "+0000");
        let mut order = Value::Object(fields_of("v2/orders", &now));
        for (name, value) in call.body.as_object().into_iter().flatten() {
            // Read-only in BigCommerce's reference, or a collection of its own.
            if !matches!(name.as_str(), "external_id" | "products") {
                order[name] = value.clone();
            }
        }
        let products = call.body["products"].as_array().cloned().unwrap_or_default();
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
            order["cart_id"] = Value::from(cart);
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
        let holds =
            |field: &str| state.items.holds(call.store, "v3/catalog/products", field, &call.body[field]);
        if holds("name") {
            return self.fixtures.reply("product_duplicate");
        }
        if holds("sku") {
            return self
                .fixtures
                .reply("product_duplicate")
                .fill("name is a duplicate", "sku is a duplicate");
        }
        created(200, &self.make(state, call, &call.collection(), call.body.clone()))
    }

    fn named(&self, state: &mut State, call: &Call<'_>, kind: &str) -> Reply {
        let name = &call.body["name"];
        if name.as_str().is_none_or(str::is_empty) {
            let mut missing = self.fixtures.reply("v3_validation").value();
            missing["errors"] = json!({ "name": "Please provide a name." });
            return Reply::json(422, &missing);
        }
        if state.items.holds(call.store, &call.collection(), "name", name) {
            let kind = kind
                .strip_suffix("ies")
                .map_or_else(|| kind.trim_end_matches('s').to_owned(), |stem| format!("{stem}y"));
            return self.fixtures.reply("product_duplicate").fill("product name", &format!("{kind} name"));
        }
        created(200, &self.make(state, call, &call.collection(), call.body.clone()))
    }

    fn coupon(&self, state: &mut State, call: &Call<'_>) -> Reply {
        if state.items.holds(call.store, "v2/coupons", "code", &call.body["code"]) {
            return problem_v2(409, "The coupon code is a duplicate.");
        }
        Reply::json(201, &self.make(state, call, "v2/coupons", call.body.clone()))
    }

    /// All or nothing, of which the documents say neither.
    fn customers(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let Some(customers) = call.body.as_array() else {
            return self.not_json_of("jsarray");
        };
        if customers.len() > CUSTOMERS_MAX {
            return self.fixtures.reply("payload_too_large");
        }
        let repeated =
            |at: usize, email: &Value| customers[..at].iter().any(|other| other["email"] == *email);
        let duplicate = customers.iter().enumerate().any(|(at, customer)| {
            let email = &customer["email"];
            state.items.holds(call.store, "v3/customers", "email", email) || repeated(at, email)
        });
        if duplicate {
            return self.fixtures.reply("customer_duplicate");
        }
        let mut made = Vec::new();
        for (part, (customer, key)) in customers.iter().zip(keys::of(call)).enumerate() {
            made.push(self.make_part(state, call, "v3/customers", customer.clone(), key, part));
        }
        Reply::json(200, &json!({ "data": made, "meta": {} }))
    }

    fn refund(&self, state: &mut State, call: &Call<'_>, order: &str) -> Reply {
        if state.items.recent(call.store, &call.collection(), self.refund_pending, call.now) {
            let title = "Another refund of this order is still being processed.";
            return self
                .fixtures
                .reply("refund_422")
                .fill("Unable to provide store credit for a guest customer.", title);
        }
        if let Some(refusal) = self.refunds_too_much(state, call, order) {
            return refusal;
        }
        let mut refund = call.body.clone();
        refund["order_id"] = order.parse::<u64>().map_or_else(|_| Value::from(order), Value::from);
        refund["created"] = Value::from(call.now.to_string());
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

    /// The sum of an order's refunds is never above its total. Of an order that was not made here nothing is known.
    fn refunds_too_much(&self, state: &State, call: &Call<'_>, order: &str) -> Option<Reply> {
        let sum = |refund: &Value| -> f64 {
            refund["items"].as_array().into_iter().flatten().map(|item| amount(&item["amount"])).sum()
        };
        if sum(&call.body) <= 0.0 {
            return None;
        }
        let held = state.items.one(call.store, "v2/orders", order)?;
        let before: f64 = state.items.all(call.store, &call.collection()).iter().map(sum).sum();
        let after = before + sum(&call.body);
        (after > amount(&held["total_inc_tax"]) + 0.000_05).then(|| {
            let title = "The refund amount is greater than the remaining order balance.";
            self.fixtures
                .reply("refund_422")
                .fill("Unable to provide store credit for a guest customer.", title)
        })
    }

    fn customer_v2(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let email = &call.body["email"];
        let names = ["first_name", "last_name", "email"];
        if let Some(name) = names.iter().find(|name| call.body[**name].as_str().is_none_or(str::is_empty)) {
            return problem_v2(400, &format!("The required field '{name}' was not supplied."));
        }
        let taken = ["v2/customers", "v3/customers"];
        if taken.iter().any(|collection| state.items.holds(call.store, collection, "email", email)) {
            return self.fixtures.reply("v2_error_details");
        }
        Reply::json(201, &self.make(state, call, "v2/customers", call.body.clone()))
    }

    fn make(&self, state: &mut State, call: &Call<'_>, collection: &str, value: Value) -> Value {
        let key = keys::of(call).into_iter().next().flatten();
        self.make_part(state, call, collection, value, key, 0)
    }

    fn make_part(
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
fn created(status: u16, made: &Value) -> Reply {
    Reply::json(status, &V3 { data: made, meta: json!({}) })
}

/// The documented limit of one request.
const CUSTOMERS_MAX: usize = 10;

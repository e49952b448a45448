//! The objects that a store holds before any request, as the builder was told.

use serde_json::{Map, Value, json};

use steadfast_core::clock::Timestamp;

use super::super::carts::{held_cart, uuid_of};
use super::super::contract::{Resource, fields_of};
use super::super::fields::finish;
use super::super::settings::BigCommerceSettings;
use super::Items;

impl Items {
    /// Adds the objects that every store holds from the beginning, and that no request made.
    pub(in super::super) fn hold(&mut self, store: &str, held: &BigCommerceSettings, since: Timestamp) {
        if !self.begun.insert(store.to_owned()) {
            return;
        }
        // Ids only rise.
        let last = held.order.iter().chain(&held.product).chain(&held.customer).max().copied().unwrap_or(0);
        self.made = self.made.max(u64::from(last).saturating_sub(99));
        for id in &held.product {
            let product = json!({
                "id": id, "name": format!("Product {id}"), "sku": format!("SKU-{id}"), "price": 10, "weight": 1,
                "inventory_tracking": "product", "inventory_level": QUANTITY,
            });
            self.put(store, "v3/catalog/products", &product, since);
        }
        for id in &held.customer {
            let customer = json!({
                "id": id, "email": format!("customer-{id}@example.com"), "first_name": "Customer", "last_name": id.to_string(),
            });
            self.put(store, "v3/customers", &customer, since);
        }
        for id in &held.order {
            self.hold_order(store, u64::from(*id), since);
        }
        for (at, id) in held.cart.iter().enumerate() {
            let Some(resource) = Resource::of(&["v3", "carts"]) else { continue };
            // Its line has an id above those that requests make.
            let line = uuid_of(u64::MAX - at as u64);
            let cart = held_cart(id, resource, resource.new_object(since), line);
            self.add(store, "v3/carts", &cart, since);
        }
    }

    fn hold_order(&mut self, store: &str, id: u64, since: Timestamp) {
        let order = json!({
            "id": id, "items_total": PRODUCTS * QUANTITY, "subtotal_ex_tax": TOTAL, "subtotal_inc_tax": TOTAL,
            "total_ex_tax": TOTAL, "total_inc_tax": TOTAL, "shipping_address_count": 1,
            "billing_address": { "first_name": "Jane", "last_name": "Doe", "zip": "12345" },
        });
        self.put(store, "v2/orders", &order, since);
        let address = json!({
            "id": 1, "first_name": "Jane", "last_name": "Doe", "zip": "12345", "items_total": PRODUCTS * QUANTITY,
        });
        self.put(store, &format!("v2/orders/{id}/shipping_addresses"), &address, since);
        for product in 1..=PRODUCTS {
            let name = format!("Product {product}");
            let product = json!({
                "id": product, "product_id": product, "name": name, "name_customer": name, "name_merchant": name,
                "type": "physical", "order_address_id": 1, "quantity": QUANTITY, "base_price": "10.0000",
                "price_ex_tax": "10.0000", "price_inc_tax": "10.0000", "base_total": "10000.0000",
                "total_ex_tax": "10000.0000", "total_inc_tax": "10000.0000", "discounted_total_inc_tax": "10000.0000",
            });
            self.put(store, &format!("v2/orders/{id}/products"), &product, since);
        }
    }

    fn put(&mut self, store: &str, collection: &str, fields: &Value, since: Timestamp) {
        let mut object: Map<String, Value> = fields_of(collection, since);
        object.extend(fields.as_object().cloned().unwrap_or_default());
        finish(self, store, collection, &mut object);
        self.add(store, collection, &Value::Object(object), since);
    }
}

/// An order that is held from the beginning is of this many products, so many of each, at 10.0000.
const PRODUCTS: u64 = 50;
const QUANTITY: u64 = 1000;
const TOTAL: &str = "500000.0000";

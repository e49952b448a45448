//! What a store holds before any request, as the builder was told.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::fields::fields_of;
use super::Items;
use crate::clock::Timestamp;

/// What stores hold from the beginning.
#[derive(Debug)]
pub(in super::super) struct Held {
    pub(in super::super) orders: BTreeSet<u64>,
    pub(in super::super) carts: BTreeSet<String>,
    pub(in super::super) since: Timestamp,
}

impl Items {
    /// What every store holds from the beginning, and no request made.
    pub(in super::super) fn hold(&mut self, store: &str, held: &Held) {
        if !self.begun.insert(store.to_owned()) {
            return;
        }
        let date = held.since.to_string().replace("GMT", "+0000");
        for id in &held.orders {
            // Ids only rise.
            self.made = self.made.max(id.saturating_sub(99));
            let mut order = fields_of("v2/orders", &date);
            order.extend(object(json!({
                "id": id, "date_created": date, "items_total": PRODUCTS * QUANTITY,
                "subtotal_ex_tax": TOTAL, "subtotal_inc_tax": TOTAL, "total_ex_tax": TOTAL, "total_inc_tax": TOTAL,
            })));
            self.add(store, "v2/orders", &Value::Object(order), held.since);
            for product in 1..=PRODUCTS {
                let product = json!({
                    "id": product, "order_id": id, "product_id": product, "name": format!("Product {product}"),
                    "quantity": QUANTITY, "price_ex_tax": "10.0000", "price_inc_tax": "10.0000",
                });
                self.add(store, &format!("v2/orders/{id}/products"), &product, held.since);
            }
        }
        for id in &held.carts {
            let line = json!({ "name": "Product 1", "product_id": 1, "quantity": 1, "list_price": 10 });
            let cart = json!({ "id": id, "customer_id": 0, "line_items": [line] });
            self.add(store, "v3/carts", &cart, held.since);
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}

/// An order that is held from the beginning is of this many products, so many of each, at 10.0000.
const PRODUCTS: u64 = 50;
const QUANTITY: u64 = 1000;
const TOTAL: &str = "500000.0000";

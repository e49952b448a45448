//! The members of an object that follow from its place and from its other members.

use serde_json::{Map, Value, json};

use super::items::{Items, amount, base_id, id_text, price_of};

/// Completes a new object that has its id.
pub(super) fn finish(items: &Items, store: &str, collection: &str, fields: &mut Map<String, Value>) {
    let id = id_text(&fields["id"]);
    let link = |path: String| {
        let url = format!("https://api.bigcommerce.com/stores/{store}/v2{path}");
        json!({ "url": url, "resource": path })
    };
    let parts: Vec<&str> = collection.split('/').collect();
    match parts[..] {
        ["v2", "orders"] => {
            for part in ["products", "shipping_addresses", "coupons", "consignments", "fees"] {
                fields.insert(part.to_owned(), link(format!("/orders/{id}/{part}")));
            }
        }
        ["v2", "orders", order, "shipping_addresses"] => {
            let quotes = format!("/orders/{order}/shipping_addresses/{id}/shipping_quotes");
            fields.insert("shipping_quotes".to_owned(), link(quotes));
            fields.insert("order_id".to_owned(), whole(order));
        }
        ["v2", "orders", order, _] | ["v3", "orders", order, "payment_actions", _] => {
            fields.insert("order_id".to_owned(), whole(order));
        }
        ["v2", "customers"] => {
            fields.insert("addresses".to_owned(), link(format!("/customers/{id}/addresses")));
        }
        ["v2", "customers", customer, "addresses"] => {
            fields.insert("customer_id".to_owned(), whole(customer));
        }
        ["v3", "catalog", "products"] => {
            let base = fields["id"].as_u64().map(base_id);
            fields.insert("base_variant_id".to_owned(), base.into());
        }
        ["v3", "catalog", "products", product, "variants"] => {
            let held = items.one(store, "v3/catalog/products", product).unwrap_or_default();
            let own = fields["id"].clone();
            fields.insert("product_id".to_owned(), whole(product));
            fields.insert("sku_id".to_owned(), own);
            let price = price_of(&Value::Object(fields.clone()), &held);
            fields.insert("calculated_price".to_owned(), price);
            if fields["weight"].is_null() {
                fields.insert("calculated_weight".to_owned(), held["weight"].clone());
            } else {
                fields.insert("calculated_weight".to_owned(), fields["weight"].clone());
            }
        }
        ["v3", "catalog", "products", product, "images"] => {
            fields.insert("product_id".to_owned(), whole(product));
        }
        ["v3" | "v2", "hooks"] => {
            fields.insert("store_hash".to_owned(), Value::from(store));
        }
        ["v2", "categories"] => {
            let own = fields["id"].clone();
            fields.insert("parent_category_list".to_owned(), json!([own]));
        }
        _ => {}
    }
    fields.extend(derived(collection, fields));
}

/// The members that follow from others, in a new object and in a changed one.
pub(super) fn derived(collection: &str, object: &Map<String, Value>) -> Map<String, Value> {
    let of = |name: &str| object.get(name).cloned().unwrap_or_default();
    let (name, value) = match collection {
        "v3/catalog/products" | "v2/products" => {
            let sale = of("sale_price");
            ("calculated_price", if amount(&sale) > 0.0 { sale } else { of("price") })
        }
        // The password is not shown.
        "v3/customers" => {
            let is_forced = of("authentication")["force_password_reset"] == true;
            ("authentication", json!({ "force_password_reset": is_forced }))
        }
        _ => return Map::new(),
    };
    Map::from_iter([(name.to_owned(), value)])
}

fn whole(id: &str) -> Value {
    id.parse::<u64>().map_or_else(|_| Value::from(id), Value::from)
}

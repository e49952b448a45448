//! Variants of a product of V3, and the base variant that a product without options is sold as.
//!
//! "In the case where a product is simple, meaning it does not have any options, the product is its own variant - called a
//! base variant" (github.com/bigcommerce/docs, `docs/store-operations/catalog/index.mdx`, "Variants"). `base_variant_id` is
//! null for a complex product, `sku_id` of a base variant is null, and its `option_values` are empty
//! (`reference/catalog/products_catalog.v3.yml`). A price of null is that of the product.

use serde_json::{Map, Value, json};

use steadfast_core::clock::Timestamp;

use super::super::contract::fields_of;
use super::super::stock::PRODUCTS;
use super::{Items, amount, id_text};

impl Items {
    /// Changes the variants as an added object has it: a simple product has a base variant, until it gets one with
    /// options.
    pub(super) fn added(&mut self, store: &str, collection: &str, value: &Value, now: Timestamp) {
        if collection == PRODUCTS {
            if value["base_variant_id"].is_u64() {
                self.put_down(
                    store,
                    &variants_of(value["id"].as_u64().unwrap_or(0)),
                    &base_of(value, now),
                    now,
                );
            }
        } else if let Some(product) = product_of(collection).filter(|_| !is_base(value)) {
            self.complex.insert((store.to_owned(), product.to_owned()));
            self.drop_base(store, product, now);
            self.derive(store, product, now);
        }
    }

    /// Whether another product has this SKU, or another variant: than this one of this product, or any of it without one.
    pub(in super::super) fn has_sku(
        &self,
        store: &str,
        sku: &Value,
        product: Option<&str>,
        variant: Option<&str>,
    ) -> bool {
        let stores = self.complex.range((store.to_owned(), String::new())..);
        let of_store = stores.take_while(|(owner, _)| owner == store).map(|(_, product)| product.as_str());
        let others = of_store.filter(|other| variant.is_some() || Some(*other) != product);
        self.holds(store, PRODUCTS, "sku", sku, product, |_| true)
            || others.map(|other| (other, format!("{PRODUCTS}/{other}/variants"))).any(|(other, variants)| {
                let own = variant.filter(|_| Some(other) == product);
                self.holds(store, &variants, "sku", sku, own, |_| true)
            })
    }

    /// Changes the variants as a changed object has it: a base variant is as its product, and prices that are not a
    /// variant's own are the product's.
    pub(super) fn changed(&mut self, store: &str, collection: &str, id: &str, now: Timestamp) {
        if collection == PRODUCTS {
            self.derive(store, id, now);
        } else if let Some(product) = product_of(collection) {
            self.derive(store, product, now);
        }
    }

    /// The product is simple again once the last variant with options is gone.
    pub(super) fn removed(&mut self, store: &str, collection: &str, now: Timestamp) {
        let Some(product) = product_of(collection) else { return };
        let is_left = self.tables.of(store, collection).is_some_and(|table| table.all().next().is_some());
        let Some(held) = self.one(store, PRODUCTS, product).filter(|_| !is_left) else { return };
        let own = json!({ "base_variant_id": base_id(held["id"].as_u64().unwrap_or(0)) });
        self.set(store, PRODUCTS, product, &own, now);
        if let Some(held) = self.one(store, PRODUCTS, product) {
            self.put_down(store, collection, &base_of(&held, now), now);
        }
    }

    /// At once, also where the variant that takes its place does not show yet.
    fn drop_base(&mut self, store: &str, product: &str, now: Timestamp) {
        let Some(held) = self.one(store, PRODUCTS, product) else { return };
        let Some(base) = held["base_variant_id"].as_u64() else { return };
        self.take_away(store, &format!("{PRODUCTS}/{product}/variants"), &base.to_string());
        self.set(store, PRODUCTS, product, &json!({ "base_variant_id": null }), now);
    }

    /// Sets what follows from the product in each of its variants.
    fn derive(&mut self, store: &str, product: &str, now: Timestamp) {
        let collection = format!("{PRODUCTS}/{product}/variants");
        if self.tables.of(store, &collection).is_none() {
            return;
        }
        let Some(product) = self.one(store, PRODUCTS, product) else { return };
        for variant in self.all(store, &collection) {
            let mut fields = Map::new();
            if is_base(&variant) {
                fields.extend(SHARED.map(|name| (name.to_owned(), product[name].clone())));
            }
            fields.insert("calculated_price".to_owned(), price_of(&variant, &product));
            let weight = if variant["weight"].is_null() { &product["weight"] } else { &variant["weight"] };
            fields.insert("calculated_weight".to_owned(), weight.clone());
            if fields.iter().any(|(name, value)| variant[name.as_str()] != *value) {
                self.set(store, &collection, &id_text(&variant["id"]), &Value::Object(fields), now);
            }
        }
    }
}

/// Where the variants of a product are.
pub(in super::super) fn variants_of(product: u64) -> String {
    format!("{PRODUCTS}/{product}/variants")
}

/// Whether it is the variant of a product without options.
pub(in super::super) fn is_base(variant: &Value) -> bool {
    variant["option_values"].as_array().is_some_and(Vec::is_empty)
}

/// The id of a product's base variant. Ids count the objects that requests make, so it is far above them.
pub(in super::super) fn base_id(product: u64) -> u64 {
    BASE_VARIANTS + product
}

/// The product's id, if a product is looked for by the id of its base variant.
pub(in super::super) fn product_of_base(variant: &Value) -> Option<u64> {
    variant.as_u64()?.checked_sub(BASE_VARIANTS)
}

/// "This price takes into account `sale_price`". One that is null is the product's.
pub(in super::super) fn price_of(variant: &Value, product: &Value) -> Value {
    let sale = &variant["sale_price"];
    match variant["price"].is_null() {
        _ if amount(sale) > 0.0 => sale.clone(),
        true => product["calculated_price"].clone(),
        false => variant["price"].clone(),
    }
}

fn base_of(product: &Value, now: Timestamp) -> Value {
    let id = product["id"].as_u64().unwrap_or(0);
    let mut variant = fields_of(&variants_of(id), now);
    variant.extend(SHARED.map(|name| (name.to_owned(), product[name].clone())));
    for (name, value) in [
        ("id", base_id(id).into()),
        ("product_id", id.into()),
        ("sku_id", Value::Null),
        ("calculated_price", product["calculated_price"].clone()),
        ("calculated_weight", product["weight"].clone()),
    ] {
        variant.insert(name.to_owned(), value);
    }
    Value::Object(variant)
}

/// The product of a collection of variants.
pub(in super::super) fn product_of(collection: &str) -> Option<&str> {
    collection.strip_prefix(PRODUCTS)?.strip_prefix('/')?.strip_suffix("/variants")
}

/// The members that a base variant and its product have in common.
pub(in super::super) const SHARED: [&str; 7] =
    ["sku", "upc", "mpn", "gtin", "bin_picking_number", "inventory_level", "inventory_warning_level"];

const BASE_VARIANTS: u64 = 1_000_000_000;

//! Stock: changes of it, by an amount or to one, of products and of their variants, at the store's one location.

use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::hooks;
use super::items::{id_text, product_of_base};
use super::machine::{Call, Machine, State, problem};

/// A product or a variant that has stock.
pub(super) struct Stocked {
    pub(super) collection: String,
    pub(super) held: Value,
    /// The product, where it is a variant.
    pub(super) product: Option<u64>,
}

impl Machine {
    /// All items are changed or none. The answer is the id of a transaction.
    pub(super) fn adjust(
        &self,
        state: &mut State,
        call: &Call<'_>,
        status: u16,
        is_relative: bool,
    ) -> Result<Reply, Reply> {
        let mut levels: Vec<(Stocked, i64)> = Vec::new();
        for item in call.body["items"].as_array().into_iter().flatten() {
            if item["location_id"] != LOCATION {
                return Err(problem(422, "The fake has one location, with the id 1."));
            }
            let stocked = stocked(state, call, item)?;
            let quantity = item["quantity"].as_i64().unwrap_or(0);
            let id = id_text(&stocked.held["id"]);
            let same = |(other, _): &&(Stocked, i64)| {
                other.collection == stocked.collection && id_text(&other.held["id"]) == id
            };
            let before = levels.iter().rev().find(same).map(|(_, level)| *level);
            let before = before.unwrap_or_else(|| stocked.held["inventory_level"].as_i64().unwrap_or(0));
            let level = if is_relative { before.saturating_add(quantity) } else { quantity };
            if !(0..=LEVEL_MAX).contains(&level) {
                return Err(problem(422, "The stock of an item is between 0 and 2147483647."));
            }
            levels.push((stocked, level));
        }
        let transaction = state.items.next_id();
        let transaction = uuid::Builder::from_custom_bytes(u128::from(transaction).to_be_bytes()).into_uuid();
        for (stocked, level) in levels {
            // Also by an amount: it is not by an order.
            self.set_level(state, call, &stocked, level, "absolute");
        }
        self.made(call, None, &Value::from(transaction.to_string()), 0);
        Ok(Reply::json(status, &json!({ "transaction_id": transaction.to_string() })))
    }

    /// "absolute -- inventory updated using the API or the control panel", "relative -- inventory updated by an order".
    pub(super) fn set_level(
        &self,
        state: &mut State,
        call: &Call<'_>,
        stocked: &Stocked,
        level: i64,
        method: &str,
    ) {
        let id = id_text(&stocked.held["id"]);
        let before = state.items.one(call.store, &stocked.collection, &id).unwrap_or_default();
        let change = json!({ "inventory_level": level });
        state.items.update(call.store, &stocked.collection, &id, &change, call.now);
        let value = level - before["inventory_level"].as_i64().unwrap_or(0);
        let (kind, data) = match stocked.product {
            None => {
                let inventory = json!({ "product_id": before["id"], "method": method, "value": value });
                ("product", json!({ "type": "product", "id": before["id"], "inventory": inventory }))
            }
            Some(product) => {
                let inventory = json!({
                    "product_id": product, "method": method, "value": value, "variant_id": before["id"],
                });
                ("sku", json!({ "type": "sku", "id": before["sku_id"], "inventory": inventory }))
            }
        };
        let by = if method == "relative" { "order/" } else { "" };
        let scope = format!("store/{kind}/inventory/{by}updated");
        hooks::fire(&self.outbox, &state.items, call, &scope, &data);
    }
}

/// The product or the variant that an item names, in one of three ways.
fn stocked(state: &State, call: &Call<'_>, item: &Value) -> Result<Stocked, Reply> {
    let names: Vec<&str> =
        ["sku", "variant_id", "product_id"].into_iter().filter(|name| !item[*name].is_null()).collect();
    let [name] = names[..] else {
        return Err(problem(422, "One of sku, product_id or variant_id is required to identify an item."));
    };
    let wanted = &item[name];
    let product = match name {
        "product_id" => state.items.one(call.store, PRODUCTS, &id_text(wanted)),
        "sku" => state.items.with_field(call.store, PRODUCTS, "sku", wanted),
        // "For products without variants, the webhook fires regardless of how you track inventory", as that of a product
        // (BigCommerce, "Webhook Events", `store/product/inventory/updated`): their stock is the product's.
        _ => {
            let held = product_of_base(wanted).map(|id| id.to_string());
            let held = held.and_then(|id| state.items.one(call.store, PRODUCTS, &id));
            held.filter(|held| held["base_variant_id"] == *wanted)
        }
    };
    if let Some(held) = product {
        // The SKU and the base variant of a simple product are the product, whatever it is tracked by.
        let is_variant = name != "product_id" && held["base_variant_id"].is_u64();
        let is_by_variant = held["inventory_tracking"] == "variant" && !is_variant;
        let stocked = Stocked { collection: PRODUCTS.to_owned(), held, product: None };
        return if is_by_variant { Err(tracked(&stocked, "product", "variant")) } else { Ok(stocked) };
    }
    for product in state.items.all(call.store, PRODUCTS).iter().filter(|_| name != "product_id") {
        let collection = format!("{PRODUCTS}/{}/variants", product["id"]);
        let field = if name == "sku" { "sku" } else { "id" };
        if let Some(held) = state.items.with_field(call.store, &collection, field, wanted) {
            let is_by_variant = product["inventory_tracking"] == "variant";
            let stocked = Stocked { collection, held, product: product["id"].as_u64() };
            return if is_by_variant { Ok(stocked) } else { Err(tracked(&stocked, "variant", "product")) };
        }
    }
    Err(problem(422, &format!("Items with identity: [{name} {}] were not found.", id_text(wanted))))
}

/// The specification has these words of a variant that is tracked by its product.
fn tracked(stocked: &Stocked, what: &str, by: &str) -> Reply {
    let id = &stocked.held["id"];
    let title = format!("[Item with {what}_id {id} is tracked by {by}, please update stock by {by} id]");
    problem(422, &title)
}

pub(super) const PRODUCTS: &str = "v3/catalog/products";
/// The default location of a store.
const LOCATION: u64 = 1;
/// "The total inventory for a product cannot exceed 2,147,483,647 at a single location" (BigCommerce, "Inventory").
const LEVEL_MAX: i64 = 2_147_483_647;

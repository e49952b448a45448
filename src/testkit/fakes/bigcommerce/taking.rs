//! What an order takes from the stock, and when it gives that back.
//!
//! A store has settings for both (`reference/settings.v3.yml`, `InventorySettings`). `update_stock_behavior` is
//! `order_placed` or `order_completed_or_shipped`. `refund_order_stock_adjustment` says whether stock changes "when you
//! refund or cancel an order", but not if it is partially refunded (the webhook `store/product/inventory/order/updated`).
//! An order that is not paid takes nothing: "a store's inventory is not adjusted until a shopper has successfully paid"
//! (BigCommerce, "Buy Online, Pick up in Store", frequently asked questions). Nor does a cart.
//!
//! The words of the refusals are as a partner of BigCommerce lists them
//! (<https://help.rebillia.com/en/articles/13180231-error-codes>). The status 400 is that of V2's other refusals.

use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::items::id_text;
use super::machine::{Call, Machine, State};
use super::orders::{CANCELLED, COMPLETED, DECLINED, INCOMPLETE, PARTIALLY_REFUNDED, REFUNDED, SHIPPED};
use super::stock::{PRODUCTS, Stocked};

/// What an order takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Taking {
    items: Vec<Item>,
    is_taken: bool,
}

#[derive(Clone, Debug)]
struct Item {
    collection: String,
    id: String,
    /// The product, where it is a variant.
    product: Option<u64>,
    quantity: i64,
}

impl Machine {
    /// What an order of these rows will take, once its status says so.
    pub(super) fn taking(&self, state: &State, call: &Call<'_>, rows: &[Value]) -> Result<Taking, Reply> {
        let mut taking = Taking::default();
        for row in rows {
            let Some(id) = row["product_id"].as_u64().filter(|id| *id > 0).map(|id| id.to_string()) else {
                continue;
            };
            let one =
                |collection| state.items.one(call.store, collection, &id).map(|held| (collection, held));
            let Some((collection, held)) = one(PRODUCTS).or_else(|| one("v2/products")) else { continue };
            let quantity = row["quantity"].as_i64().unwrap_or(i64::MAX);
            let bound = |name: &str| held[name].as_i64().filter(|bound| *bound > 0);
            if bound("order_quantity_minimum").is_some_and(|least| quantity < least)
                || bound("order_quantity_maximum").is_some_and(|most| quantity > most)
            {
                return Err(self.refused_body(call, TOO_FEW));
            }
            let item = match held["inventory_tracking"].as_str() {
                Some("product" | "simple") => {
                    Item { collection: collection.to_owned(), id, product: None, quantity }
                }
                Some("variant") => {
                    let variants = format!("{PRODUCTS}/{id}/variants");
                    let all = state.items.all(call.store, &variants);
                    let Some(variant) = all.iter().find(|variant| is_of(row, variant)) else {
                        return Err(
                            self.refused_body(call, "The options of one or more products are invalid.")
                        );
                    };
                    let product = held["id"].as_u64();
                    Item { collection: variants, id: id_text(&variant["id"]), product, quantity }
                }
                _ => continue,
            };
            let same = |other: &&mut Item| other.collection == item.collection && other.id == item.id;
            match taking.items.iter_mut().find(same) {
                Some(other) => other.quantity = other.quantity.saturating_add(item.quantity),
                None => taking.items.push(item),
            }
        }
        Ok(taking)
    }

    /// The refusal of an order that takes its stock with this status, where there is too little.
    pub(super) fn check_taking(
        &self,
        state: &State,
        call: &Call<'_>,
        taking: &Taking,
        status: &Value,
    ) -> Result<(), Reply> {
        if taking.is_taken || self.moves(status) != Some(true) {
            return Ok(());
        }
        let is_short = |item: &Item| level(state, call, item).is_none_or(|level| level < item.quantity);
        if taking.items.iter().any(is_short) { Err(self.refused_body(call, TOO_FEW)) } else { Ok(()) }
    }

    /// The same, of an order that is held.
    pub(super) fn check_taking_of(
        &self,
        state: &State,
        call: &Call<'_>,
        order: &str,
        status: &Value,
    ) -> Result<(), Reply> {
        let held = state.takings.get(&(call.store.to_owned(), order.to_owned()));
        held.map_or(Ok(()), |taking| self.check_taking(state, call, taking, status))
    }

    /// Takes the stock of an order that has this status now, or gives it back.
    pub(super) fn move_stock(&self, state: &mut State, call: &Call<'_>, order: &str, status: &Value) {
        let key = (call.store.to_owned(), order.to_owned());
        let Some(takes) = self.moves(status) else { return };
        let Some(taking) = state.takings.get_mut(&key).filter(|taking| taking.is_taken != takes) else {
            return;
        };
        taking.is_taken = takes;
        let items = taking.items.clone();
        for item in items {
            let Some(before) = level(state, call, &item) else { continue };
            let by = if takes { item.quantity.saturating_neg() } else { item.quantity };
            let stocked = Stocked {
                held: json!({ "id": item.id }),
                collection: item.collection,
                product: item.product,
            };
            self.set_level(state, call, &stocked, before.saturating_add(by).max(0), "relative");
        }
    }

    /// Whether an order of this status has its stock, or gave it back. `None`: it is as before.
    fn moves(&self, status: &Value) -> Option<bool> {
        match status.as_u64()? {
            REFUNDED | CANCELLED => self.settings.returned_orders_restock.then_some(false),
            INCOMPLETE | DECLINED | PARTIALLY_REFUNDED => None,
            SHIPPED | COMPLETED => Some(true),
            _ => (!self.settings.stock_at_shipment).then_some(true),
        }
    }
}

/// Whether a row names this variant, by its id, by its options, or by its SKU.
fn is_of(row: &Value, variant: &Value) -> bool {
    if let Some(id) = row["variant_id"].as_u64().filter(|id| *id > 0) {
        return variant["id"] == id;
    }
    if let Some(options) = row["product_options"].as_array().filter(|options| !options.is_empty()) {
        let values = variant["option_values"].as_array().map_or(&[][..], Vec::as_slice);
        return values.len() == options.len()
            && options.iter().all(|option| {
                let is_it = |value: &Value| {
                    value["option_id"] == option["id"] && id_text(&value["id"]) == id_text(&option["value"])
                };
                values.iter().any(is_it)
            });
    }
    row["sku"].as_str().is_some_and(|sku| !sku.is_empty() && variant["sku"] == sku)
}

fn level(state: &State, call: &Call<'_>, item: &Item) -> Option<i64> {
    let held = state.items.one(call.store, &item.collection, &item.id)?;
    Some(held["inventory_level"].as_i64().unwrap_or(0))
}

const TOO_FEW: &str =
    "Quantities of one or more products are out of stock or did not meet quantity requirements.";

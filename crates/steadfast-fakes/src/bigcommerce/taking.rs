//! The stock that an order takes, and when it gives that back.
//!
//! A store has settings for both (`reference/settings.v3.yml`, `InventorySettings`). `update_stock_behavior` is
//! `order_placed` or `order_completed_or_shipped`. `refund_order_stock_adjustment` says whether stock changes "when you
//! refund or cancel an order", but not if it is partially refunded (the webhook `store/product/inventory/order/updated`).
//! A third, `edit_order_stock_adjustment`, says whether stock changes with an edit of an order. The guide says of an order
//! that was created, paid and then edited: "inventory levels won't reflect a change in stock"
//! (`docs/store-operations/orders/index.mdx`). So it is off here, too, unless a test switches it on.
//!
//! An order that is not paid takes nothing: "a store's inventory is not adjusted until a shopper has successfully paid"
//! (BigCommerce, "Buy Online, Pick up in Store", frequently asked questions). Nor does a cart.
//!
//! The words of the refusals are as a partner of BigCommerce lists them
//! (<https://help.rebillia.com/en/articles/13180231-error-codes>). The status 400 is that of V2's other refusals.

use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::items::{id_text, is_base};
use super::lines::{NO_VARIANT, variant_of};
use super::machine::{Call, Machine, State};
use super::orders::{CANCELLED, COMPLETED, DECLINED, INCOMPLETE, PARTIALLY_REFUNDED, REFUNDED, SHIPPED};
use super::stock::{PRODUCTS, Stocked};

/// The stock that an order takes.
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

impl Taking {
    /// How much more of each item this takes than another. Less is below zero.
    fn more_than(&self, other: &Taking) -> Vec<(Item, i64)> {
        let of = |taking: &Taking, item: &Item| {
            let same = |own: &&Item| own.collection == item.collection && own.id == item.id;
            taking.items.iter().find(same).map_or(0, |own| own.quantity)
        };
        let all = self.items.iter().chain(other.items.iter().filter(|item| of(self, item) == 0));
        all.map(|item| (item.clone(), of(self, item).saturating_sub(of(other, item)))).collect()
    }

    /// This and so much more of each item, or less. It gives back no more than it takes.
    fn plus(mut self, more: Vec<(Item, i64)>) -> Taking {
        for (item, by) in more {
            self.add(Item { quantity: by, ..item });
        }
        self.items.retain(|item| item.quantity > 0);
        self
    }

    fn add(&mut self, item: Item) {
        let same = |other: &&mut Item| other.collection == item.collection && other.id == item.id;
        match self.items.iter_mut().find(same) {
            Some(other) => other.quantity = other.quantity.saturating_add(item.quantity),
            None => self.items.push(item),
        }
    }
}

impl Machine {
    /// The stock that an order of these rows will take, once its status says so.
    pub(super) fn taking(&self, state: &State, call: &Call<'_>, rows: &[Value]) -> Result<Taking, Reply> {
        for row in rows {
            let Some((_, product)) = product_of(state, call, row) else { continue };
            let quantity = row["quantity"].as_i64().unwrap_or(i64::MAX);
            let bound = |name: &str| product[name].as_i64().filter(|bound| *bound > 0);
            if bound("order_quantity_minimum").is_some_and(|least| quantity < least)
                || bound("order_quantity_maximum").is_some_and(|most| quantity > most)
            {
                return Err(self.refused_body(call, TOO_FEW));
            }
            let is_by_variant = product["inventory_tracking"] == "variant";
            if is_by_variant && variant_of(state, call, row, &product).is_none() {
                return Err(self.refused_body(call, NO_VARIANT));
            }
        }
        Ok(taking_of(state, call, rows))
    }

    /// The stock that a held order takes after an edit: as before, but for the rows that the edit touches. They are
    /// given as they were, and as they are. Where the store adjusts no stock with an edit, what is taken stays as it
    /// is. An order that has not taken its stock yet takes that of the rows which it has by then.
    pub(super) fn taking_after(
        &self,
        state: &State,
        call: &Call<'_>,
        order: &str,
        [before, after]: [&[Value]; 2],
    ) -> Result<Taking, Reply> {
        let after = self.taking(state, call, after)?;
        let held = state.takings.get(&(call.store.to_owned(), order.to_owned())).cloned().unwrap_or_default();
        if held.is_taken && !self.settings.edited_orders_restock {
            return Ok(held);
        }
        Ok(held.plus(after.more_than(&taking_of(state, call, before))))
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
        // A product that the catalog has no more takes nothing.
        let is_short = |item: &Item| level(state, call, item).is_some_and(|level| level < item.quantity);
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
            let by = if takes { item.quantity.saturating_neg() } else { item.quantity };
            self.shift(state, call, item, by);
        }
    }

    /// The refusal of an edited order that takes this now, and of which there is too little for what it takes more.
    pub(super) fn check_retaking(
        &self,
        state: &State,
        call: &Call<'_>,
        order: &str,
        taking: &Taking,
        status: &Value,
    ) -> Result<(), Reply> {
        match state.takings.get(&(call.store.to_owned(), order.to_owned())) {
            // It was held from the beginning, and takes no stock.
            None => Ok(()),
            Some(before) if before.is_taken => {
                let is_short = |(item, more): (Item, i64)| {
                    more > 0 && level(state, call, &item).is_some_and(|level| level < more)
                };
                let is_short = taking.more_than(before).into_iter().any(is_short);
                if is_short { Err(self.refused_body(call, TOO_FEW)) } else { Ok(()) }
            }
            Some(_) => self.check_taking(state, call, taking, status),
        }
    }

    /// Puts this in the place of what an order took, and moves the difference if it has its stock.
    pub(super) fn retake(&self, state: &mut State, call: &Call<'_>, order: &str, mut taking: Taking) {
        let key = (call.store.to_owned(), order.to_owned());
        let Some(before) = state.takings.get(&key) else { return };
        taking.is_taken = before.is_taken;
        let moves = if before.is_taken { taking.more_than(before) } else { Vec::new() };
        state.takings.insert(key, taking);
        for (item, more) in moves.into_iter().filter(|(_, more)| *more != 0) {
            self.shift(state, call, item, more.saturating_neg());
        }
    }

    /// Changes the stock of an item of an order.
    fn shift(&self, state: &mut State, call: &Call<'_>, item: Item, by: i64) {
        let Some(before) = level(state, call, &item) else { return };
        let stocked =
            Stocked { held: json!({ "id": item.id }), collection: item.collection, product: item.product };
        self.set_level(state, call, &stocked, before.saturating_add(by).max(0), "relative");
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

/// The stock that these rows take by today's catalog. A product that is not tracked, or is there no more, takes
/// nothing.
fn taking_of(state: &State, call: &Call<'_>, rows: &[Value]) -> Taking {
    let mut taking = Taking::default();
    for item in rows.iter().filter_map(|row| item_of(state, call, row)) {
        taking.add(item);
    }
    taking
}

fn item_of(state: &State, call: &Call<'_>, row: &Value) -> Option<Item> {
    let (collection, product) = product_of(state, call, row)?;
    let quantity = row["quantity"].as_i64().unwrap_or(i64::MAX);
    let own =
        Item { collection: collection.to_owned(), id: id_text(&product["id"]), product: None, quantity };
    match product["inventory_tracking"].as_str()? {
        "product" | "simple" => Some(own),
        "variant" => {
            let variant = variant_of(state, call, row, &product)?;
            // It is the product.
            if is_base(&variant) {
                return Some(own);
            }
            let collection = format!("{PRODUCTS}/{}/variants", own.id);
            Some(Item { collection, id: id_text(&variant["id"]), product: product["id"].as_u64(), quantity })
        }
        _ => None,
    }
}

/// The product of the catalog that a row is of, with its collection.
fn product_of(state: &State, call: &Call<'_>, row: &Value) -> Option<(&'static str, Value)> {
    let id = row["product_id"].as_u64().filter(|id| *id > 0)?.to_string();
    let one = |collection: &'static str| {
        state.items.one(call.store, collection, &id).map(|held| (collection, held))
    };
    one(PRODUCTS).or_else(|| one("v2/products"))
}

/// Whether a row names this variant, by its id, by its options, or by its SKU.
pub(super) fn is_of(row: &Value, variant: &Value) -> bool {
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

//! The lines of an order: what a request asks for, which variants that is of, and what it costs.

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::bodies::money;
use super::contract::{Resource, fields_of};
use super::items::{amount, id_text, is_base, variants_of};
use super::machine::{Call, Machine, State};
use super::orders::PRODUCTS;
use super::taking::is_of;
use super::totals::{is_amount, is_below};

impl Machine {
    /// The rows that a new order is asked to be of.
    pub(super) fn rows(&self, state: &State, call: &Call<'_>) -> Result<Vec<Value>, Reply> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut rows = Vec::new();
        let named = |path: String| move |(at, row): (usize, Value)| (format!("{path}.{at}"), row);
        rows.extend(list(&call.body["products"]).into_iter().enumerate().map(named("products".to_owned())));
        for (at, pickup) in list(&call.body["consignments"]["pickups"]).iter().enumerate() {
            let path = format!("consignments.pickups.{at}.line_items");
            rows.extend(list(&pickup["line_items"]).into_iter().enumerate().map(named(path)));
        }
        for (path, row) in &rows {
            self.check_row(state, call, path, row)?;
        }
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// The refusal of what is no line of an order. A row with an id is of a line that the order has.
    pub(super) fn check_row(
        &self,
        state: &State,
        call: &Call<'_>,
        path: &str,
        row: &Value,
    ) -> Result<(), Reply> {
        let invalid = |name: &str| self.refused_body(call, &format!("The field '{path}.{name}' is invalid."));
        let missing = |name: &str| {
            self.refused_body(call, &format!("The required field '{path}.{name}' was not supplied."))
        };
        if row["quantity"].is_null() {
            return Err(missing("quantity"));
        }
        if row["quantity"].as_u64().is_none_or(|quantity| !(1..=QUANTITY_MAX).contains(&quantity)) {
            return Err(invalid("quantity"));
        }
        for price in PRICES.into_iter().chain(WRAPPING) {
            if !is_amount(&row[price]) {
                return Err(invalid(price));
            }
        }
        // "If provided, then `wrapping_cost_ex_tax` and `wrapping_cost_inc_tax` are required."
        if row["wrapping_id"].as_u64().is_some_and(|id| id > 0)
            && let Some(name) = WRAPPING.into_iter().find(|name| row[*name].is_null())
        {
            return Err(missing(name));
        }
        // "`price_tax = price_inc_tax - price_ex_tax`" (`orders.v2.oas2.yml`): the fake takes no tax below zero. Wrapping
        // that is left out costs nothing.
        if is_below(&row[PRICES[0]], &row[PRICES[1]]) {
            return Err(invalid(PRICES[0]));
        }
        if amount(&row[WRAPPING[1]]) < amount(&row[WRAPPING[0]]) {
            return Err(invalid(WRAPPING[1]));
        }
        // A product of the catalog has a name and a price there. Another brings them.
        if row["product_id"].as_u64().is_some_and(|id| id > 0) {
            let is_known = !row["id"].is_null() || self.knows(state, call, &PRODUCTS, &row["product_id"]);
            return if is_known { Ok(()) } else { Err(invalid("product_id")) };
        }
        if !NAMES.iter().any(|name| row[*name].as_str().is_some_and(|text| !text.is_empty())) {
            return Err(missing("name"));
        }
        PRICES.into_iter().find(|name| row[*name].is_null()).map_or(Ok(()), |name| Err(missing(name)))
    }

    /// The refusal of a row that is of none of a product's variants: its options "are required when adding a product with
    /// variants and not specifying the `variant_id`" (`orders.v2.oas2.yml`).
    pub(super) fn check_variant(&self, state: &State, call: &Call<'_>, row: &Value) -> Result<(), Reply> {
        let product = state.items.one(call.store, PRODUCTS[0], &id_text(&row["product_id"]));
        let is_of_none = product.is_some_and(|product| variant_of(state, call, row, &product).is_none());
        if is_of_none { Err(self.refused_body(call, NO_VARIANT)) } else { Ok(()) }
    }
}

/// A product of an order, priced by the request or else by the catalog. A product that neither prices costs nothing.
pub(super) fn line(state: &State, call: &Call<'_>, row: &Value) -> Map<String, Value> {
    let product = row["product_id"].as_u64().and_then(|id| {
        let one = |collection| state.items.one(call.store, collection, &id.to_string());
        PRODUCTS.into_iter().find_map(one)
    });
    let product = product.unwrap_or_default();
    let variant = variant_of(state, call, row, &product).unwrap_or_default();
    let price = |own: &str, other: &str| {
        [&row[own], &row[other], &variant["calculated_price"], &product["calculated_price"]]
            .into_iter()
            .find(|price| !price.is_null())
            .map_or(0.0, amount)
    };
    let prices =
        [("inc", price("price_inc_tax", "price_ex_tax")), ("ex", price("price_ex_tax", "price_inc_tax"))];
    let mut line = shown(call, row);
    let mut set = |name: &str, value: Value| line.insert(name.to_owned(), value);
    let name = NAMES.iter().map(|name| &row[*name]).find(|name| name.is_string()).unwrap_or(&product["name"]);
    for alias in NAMES {
        let own = if row[alias].is_string() { &row[alias] } else { name };
        set(alias, Value::from(own.as_str().unwrap_or_default()));
    }
    if row["sku"].is_null() {
        let own = variant["sku"].as_str().filter(|sku| !sku.is_empty()).or(product["sku"].as_str());
        set("sku", Value::from(own.unwrap_or_default()));
    }
    if !variant.is_null() {
        set("variant_id", variant["id"].clone());
    }
    set("type", Value::from(product["type"].as_str().unwrap_or("physical")));
    price_line(&mut line, row, prices);
    line
}

/// The variant that a row of this product is of: the one that it names, or that of a product without options.
pub(super) fn variant_of(state: &State, call: &Call<'_>, row: &Value, product: &Value) -> Option<Value> {
    named(state.items.all(call.store, &variants_of(product["id"].as_u64()?)), row)
}

/// The variant that a line of a cart is of: the one that it names by its id, or else by its `option_selections`. These
/// "describe both the variant and the modifier selections" (`reference/carts.v3.yml`), so what is no option of a variant
/// is of a modifier.
pub(super) fn variant_of_selections(
    state: &State,
    call: &Call<'_>,
    row: &Value,
    product: &Value,
) -> Option<Value> {
    let variants = state.items.all(call.store, &variants_of(product["id"].as_u64()?));
    let is_option = |id: &Value| {
        let mut values = variants.iter().filter_map(|variant| variant["option_values"].as_array()).flatten();
        values.any(|value| value["option_id"] == *id)
    };
    let selections = row["option_selections"].as_array().into_iter().flatten();
    let selections = selections.filter(|selection| is_option(&selection["option_id"]));
    let options: Vec<Value> = selections
        .map(|selection| json!({ "id": selection["option_id"], "value": selection["option_value"] }))
        .collect();
    let mut row = row.clone();
    row["product_options"] = options.into();
    named(variants, &row)
}

/// Of these variants the one that a row names, or the base variant if it names none.
fn named(variants: Vec<Value>, row: &Value) -> Option<Value> {
    let names_none = row["variant_id"].as_u64().unwrap_or(0) == 0;
    variants.into_iter().find(|variant| names_none && is_base(variant) || is_of(row, variant))
}

/// A new line with what a row says and a line shows.
fn shown(call: &Call<'_>, row: &Value) -> Map<String, Value> {
    let mut line = fields_of("v2/orders/0/products", call.now);
    let resource = Resource::of(&["v2", "orders", "0", "products"]);
    let shows = |name: &str| resource.is_some_and(|resource| resource.shows(name));
    for (name, value) in row.as_object().into_iter().flatten().filter(|(name, _)| shows(name)) {
        // The options that were chosen are sent in another form than they are shown in.
        if name != "product_options" {
            line.insert(name.clone(), value.clone());
        }
    }
    line
}

fn price_line(line: &mut Map<String, Value>, row: &Value, prices: [(&str, f64); 2]) {
    let quantity = row["quantity"].as_u64().unwrap_or_default();
    #[allow(clippy::cast_precision_loss, reason = "a fake's orders are of fewer")]
    let times = quantity as f64;
    let mut set = |name: &str, value: f64| line.insert(name.to_owned(), money(value).into());
    for (tax, price) in prices {
        set(&format!("price_{tax}_tax"), price);
        set(&format!("total_{tax}_tax"), price * times);
    }
    let [(_, inc), (_, ex)] = prices;
    set("price_tax", inc - ex);
    set("total_tax", (inc - ex) * times);
    set("base_price", ex);
    set("base_total", ex * times);
    set("discounted_total_inc_tax", inc * times);
    let [ex, inc] = WRAPPING.map(|name| amount(&row[name]));
    set("base_wrapping_cost", ex);
    set("wrapping_cost_ex_tax", ex);
    set("wrapping_cost_inc_tax", inc);
    set("wrapping_cost_tax", inc - ex);
}

/// The rows that an order of this cart is of.
pub(super) fn rows_of_cart(cart: &Value) -> Vec<Value> {
    let mut rows = Vec::new();
    for (list, price) in [
        ("physical_items", "list_price"),
        ("digital_items", "list_price"),
        ("custom_items", "list_price"),
        ("gift_certificates", "amount"),
    ] {
        for item in cart["line_items"][list].as_array().into_iter().flatten() {
            rows.push(json!({
                "product_id": item["product_id"].as_u64().unwrap_or(0), "name": item["name"], "sku": item["sku"],
                "variant_id": item["variant_id"].as_u64().unwrap_or(0), "quantity": item["quantity"].as_u64().unwrap_or(1),
                "price_inc_tax": item[price], "price_ex_tax": item[price],
            }));
        }
    }
    rows
}

/// As many as a location can have of a product (BigCommerce, "Inventory").
pub(super) const QUANTITY_MAX: u64 = 2_147_483_647;

pub(super) const NO_VARIANT: &str = "The options of one or more products are invalid.";

/// `name` is another word for `name_customer`; the merchant's is its own.
const NAMES: [&str; 3] = ["name", "name_customer", "name_merchant"];
const PRICES: [&str; 2] = ["price_inc_tax", "price_ex_tax"];
/// Of the whole line: a price "times quantity".
const WRAPPING: [&str; 2] = ["wrapping_cost_ex_tax", "wrapping_cost_inc_tax"];

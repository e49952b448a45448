//! Changes of an order by its client: its members, its products, and what that makes of its totals and of its stock.
//!
//! The rules of products are those of "Update an Order" (github.com/bigcommerce/docs, `reference/orders.v2.oas2.yml`).
//! A row without an `id` adds a product. One with it changes that product, and what it leaves out stays. The quantity 0
//! removes it. "The PUT request clears all discounts and promotions applied to the changed order line items."

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::bodies::money;
use super::items::{amount, id_text, not_found};
use super::lines::line;
use super::machine::{Call, Machine, State};
use super::orders::{COMPUTED, PRODUCTS};
use super::shares::CENT_PART;
use super::taking::Taking;
use super::totals::{discount_of, is_computed_anew, share_discount, sum_up, take_overrides, wrapping_of};
use super::writes::object;

/// The result of a change of an order's products.
#[derive(Debug, Default)]
struct Edited {
    /// All that the order is of. A new one has no id yet.
    lines: Vec<Map<String, Value>>,
    gone: Vec<String>,
    /// Those that the edit changes or removes.
    touched: Vec<String>,
    /// The discount that was on those that are changed or gone.
    cleared: f64,
}

impl Machine {
    pub(super) fn edit_order(
        &self,
        state: &mut State,
        call: &Call<'_>,
        status: u16,
        held: &Value,
    ) -> Result<Reply, Reply> {
        let id = id_text(&held["id"]);
        let mut body = object(&call.body);
        for name in COMPUTED {
            body.remove(name);
        }
        self.name_status(call, &mut body)?;
        self.check_customer(state, call)?;
        self.check_amounts(call)?;
        let edited = self.edited(state, call, &id)?;
        let status_id = &call.body["status_id"];
        let taking = match &edited {
            Some(edited) => Some(self.retaking(state, call, &id, edited, status_id)?),
            None => {
                self.check_taking_of(state, call, &id, status_id)?;
                None
            }
        };
        let mut order = object(held);
        order.extend(body);
        let edited = sum_up_again(state, call, &mut order, edited);
        take_overrides(&mut order, &call.body);
        self.check_refunded(state, call, &id, &order)?;
        if let Some(edited) = edited {
            self.hold_edited(state, call, &id, edited);
        }
        self.update(state, call, ("v2/orders", &id), &Value::Object(order));
        self.made(call, None, &held["id"], 0);
        if let Some(taking) = taking {
            self.retake(state, call, &id, taking);
        }
        self.move_stock(state, call, &id, status_id);
        self.tell_of_order(state, call, held, status_id);
        let changed = state.items.one(call.store, "v2/orders", &id).ok_or_else(|| not_found(call))?;
        Ok(Reply::json(status, &changed))
    }

    /// The products as a request changes them, or the refusal of them. `None`: it says nothing of them.
    fn edited(&self, state: &State, call: &Call<'_>, order: &str) -> Result<Option<Edited>, Reply> {
        let Some(sent) = call.body["products"].as_array() else { return Ok(None) };
        let invalid = |path: String| self.refused_body(call, &format!("The field '{path}' is invalid."));
        if sent.is_empty() {
            return Err(invalid("products".to_owned()));
        }
        let held = state.items.all(call.store, &format!("v2/orders/{order}/products"));
        let addresses = state.items.all(call.store, &format!("v2/orders/{order}/shipping_addresses"));
        let address = addresses.first().map_or(Value::from(0), |address| address["id"].clone());
        let mut edited = Edited { lines: held.iter().map(object).collect(), ..Edited::default() };
        for (at, row) in sent.iter().enumerate() {
            let path = format!("products.{at}");
            if row["id"].is_null() {
                self.check_row(state, call, &path, row)?;
                self.check_variant(state, call, row)?;
                let mut new = line(state, call, row);
                new.insert("order_address_id".to_owned(), address.clone());
                edited.lines.push(new);
                continue;
            }
            // A new one has the id 0 until it is held.
            let is_it = |line: &Map<String, Value>| line["id"] == row["id"] && row["id"] != 0;
            let Some(place) = edited.lines.iter().position(is_it) else {
                return Err(invalid(format!("{path}.id")));
            };
            let before = edited.lines[place].clone();
            let count = |name: &str| before.get(name).and_then(Value::as_u64).unwrap_or(0);
            // Fewer than were shipped or refunded is not documented, so it is refused.
            let least = count("quantity_shipped").max(count("quantity_refunded"));
            edited.cleared += discount_of(&before);
            edited.touched.push(id_text(&row["id"]));
            if row["quantity"] == 0 {
                if least > 0 {
                    return Err(invalid(format!("{path}.quantity")));
                }
                edited.gone.push(id_text(&row["id"]));
                edited.lines.remove(place);
                continue;
            }
            edited.lines[place] = self.changed_line(state, call, &path, (&before, least), row)?;
        }
        if edited.lines.is_empty() {
            return Err(self.refused_body(call, "The fake does not implement an order without products."));
        }
        Ok(Some(edited))
    }

    /// A line as a row changes it, or the refusal of that. At least so many of it were shipped or refunded.
    fn changed_line(
        &self,
        state: &State,
        call: &Call<'_>,
        path: &str,
        (before, least): (&Map<String, Value>, u64),
        row: &Value,
    ) -> Result<Map<String, Value>, Reply> {
        let invalid = |name: &str| self.refused_body(call, &format!("The field '{path}.{name}' is invalid."));
        let is_other = !row["product_id"].is_null() && row["product_id"] != before["product_id"];
        if is_other && !self.knows(state, call, &PRODUCTS, &row["product_id"]) {
            return Err(invalid("product_id"));
        }
        let is_of_same = is_of_same(before, row);
        let merged = merged(before, row, is_of_same);
        self.check_row(state, call, path, &merged)?;
        if !is_of_same {
            self.check_variant(state, call, &merged)?;
        }
        let quantity = merged["quantity"].as_u64().unwrap_or(0);
        if quantity < least {
            return Err(invalid("quantity"));
        }
        let mut changed = line(state, call, &merged);
        // Nor is it documented that what was shipped or refunded becomes another product.
        if least > 0
            && let Some(name) =
                ["product_id", "variant_id"].into_iter().find(|name| changed.get(*name) != before.get(*name))
        {
            return Err(invalid(name));
        }
        changed.extend(KEPT.map(|name| (name.to_owned(), before[name].clone())));
        let refunded = before["quantity_refunded"].as_u64().unwrap_or(0);
        changed.insert("is_refunded".to_owned(), (refunded > 0 && refunded >= quantity).into());
        Ok(changed)
    }

    /// The stock that the edited order takes, or the refusal of it. A line that the edit leaves as it is takes what it
    /// took.
    fn retaking(
        &self,
        state: &State,
        call: &Call<'_>,
        order: &str,
        edited: &Edited,
        status: &Value,
    ) -> Result<Taking, Reply> {
        let is_touched = |id: &Value| *id == 0 || edited.touched.contains(&id_text(id));
        let mut before = state.items.all(call.store, &format!("v2/orders/{order}/products"));
        before.retain(|line| is_touched(&line["id"]));
        let after = edited.lines.iter().filter(|line| is_touched(&line["id"]));
        let after: Vec<Value> = after.cloned().map(Value::Object).collect();
        let taking = self.taking_after(state, call, order, [&before, &after])?;
        self.check_retaking(state, call, order, &taking, status)?;
        Ok(taking)
    }

    /// The refusal of a total that is less than was given back already.
    fn check_refunded(
        &self,
        state: &State,
        call: &Call<'_>,
        id: &str,
        order: &Map<String, Value>,
    ) -> Result<(), Reply> {
        let refunds = state.items.all(call.store, &format!("v3/orders/{id}/payment_actions/refunds"));
        let refunded: f64 = refunds.iter().map(|refund| amount(&refund["total_amount"])).sum();
        if amount(&order["total_inc_tax"]) + CENT_PART < refunded {
            let text = "The fake does not implement a total below what was refunded.";
            return Err(self.refused_body(call, text));
        }
        Ok(())
    }

    /// Holds an order's products as an edit leaves them.
    fn hold_edited(&self, state: &mut State, call: &Call<'_>, order: &str, edited: Edited) {
        let collection = format!("v2/orders/{order}/products");
        for gone in &edited.gone {
            state.items.remove(call.store, &collection, gone, call.now);
        }
        let addresses = format!("v2/orders/{order}/shipping_addresses");
        for address in state.items.all(call.store, &addresses) {
            let its = edited.lines.iter().filter(|line| line["order_address_id"] == address["id"]);
            let count: u64 = its.filter_map(|line| line["quantity"].as_u64()).sum();
            if address["items_total"] != count {
                let change = json!({ "items_total": count });
                state.items.update(call.store, &addresses, &id_text(&address["id"]), &change, call.now);
            }
        }
        for line in edited.lines {
            if line["id"] == 0 {
                self.hold(state, call, &collection, line);
            } else {
                let id = id_text(&line["id"]);
                state.items.update(call.store, &collection, &id, &Value::Object(line), call.now);
            }
        }
    }
}

/// Computes an order anew if a request says something of what it comes to. Gives its products as they are then.
fn sum_up_again(
    state: &State,
    call: &Call<'_>,
    order: &mut Map<String, Value>,
    edited: Option<Edited>,
) -> Option<Edited> {
    if edited.is_none() && !is_computed_anew(&call.body) {
        return None;
    }
    let held = state.items.all(call.store, &format!("v2/orders/{}/products", id_text(&order["id"])));
    let held: Vec<Map<String, Value>> = held.iter().map(object).collect();
    let mut edited = edited.unwrap_or_else(|| Edited { lines: held.clone(), ..Edited::default() });
    if !call.body["discount_amount"].is_null() {
        share_discount(amount(&order["discount_amount"]), &mut edited.lines);
    } else if edited.cleared > 0.0 {
        let left = (amount(&order["discount_amount"]) - edited.cleared).max(0.0);
        order.insert("discount_amount".to_owned(), money(left).into());
    }
    let [[old_ex, old_inc], [ex, inc]] = [wrapping_of(&held), wrapping_of(&edited.lines)];
    sum_up(order, &call.body, &edited.lines, [ex - old_ex, inc - old_inc]);
    Some(edited)
}

/// Whether a row leaves a line of the product and the variant that it is of.
fn is_of_same(before: &Map<String, Value>, sent: &Value) -> bool {
    let differs = |name: &str| !sent[name].is_null() && before.get(name) != Some(&sent[name]);
    let has_options = sent["product_options"].as_array().is_some_and(|options| !options.is_empty());
    !differs("product_id") && !differs("variant_id") && !has_options
}

/// A row that is all that a product is, with what a request says of it. Another product or variant brings its own name,
/// SKU and price.
fn merged(before: &Map<String, Value>, sent: &Value, is_of_same: bool) -> Value {
    let before = Value::Object(before.clone());
    let mut names = vec!["product_id", "quantity"];
    names.extend(WRAPPING);
    if is_of_same {
        names.extend(OWN);
    }
    let mut row: Map<String, Value> =
        names.into_iter().map(|name| (name.to_owned(), before[name].clone())).collect();
    // "If `wrapping_id` is set to `0` and no other wrapping fields are provided, then the wrapping will be removed."
    if sent["wrapping_id"] == 0 {
        row.retain(|name, _| !WRAPPING.contains(&name.as_str()));
    }
    // Its costs are required with it.
    if sent["wrapping_id"].as_u64().is_some_and(|id| id > 0) {
        row.retain(|name, _| !name.starts_with("wrapping_cost"));
    }
    row.extend(object(sent));
    // "`name` and `name_customer` always hold the same value; updating one updates the other."
    for (one, other) in [("name", "name_customer"), ("name_customer", "name")] {
        if !sent[one].is_null() && sent[other].is_null() {
            row.insert(other.to_owned(), sent[one].clone());
        }
    }
    Value::Object(row)
}

/// The members that a change of a product leaves as they are.
const KEPT: [&str; 7] = [
    "id",
    "order_id",
    "order_address_id",
    "order_pickup_method_id",
    "quantity_shipped",
    "quantity_refunded",
    "refund_amount",
];

const WRAPPING: [&str; 5] =
    ["wrapping_id", "wrapping_name", "wrapping_message", "wrapping_cost_ex_tax", "wrapping_cost_inc_tax"];

/// The members that stay while the product and its variant do.
const OWN: [&str; 8] =
    ["variant_id", "sku", "upc", "name", "name_customer", "name_merchant", "price_inc_tax", "price_ex_tax"];

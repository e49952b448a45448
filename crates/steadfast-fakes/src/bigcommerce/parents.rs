//! The parent of a path: an order, a product, a customer or a cart that the store holds, or nothing is there.

use std::time::Duration;

use super::super::fixture::Reply;
use super::items::{ARCHIVE, Items, ORDERS, not_found};
use super::machine::Call;

/// The 404 of a path below something that the store does not hold. A read does not see what does not show yet.
pub(super) fn unknown_parent(items: &Items, call: &Call<'_>, lag: Option<Duration>) -> Option<Reply> {
    let (collection, id) = parent(call.route)?;
    let is_held = match lag {
        Some(lag) => {
            items.shows_one(call.store, collection, id, call.now, lag)
                || collection == ORDERS && items.has(call.store, ARCHIVE, id)
        }
        None => items.has(call.store, collection, id),
    };
    (!is_held).then(|| not_found(call))
}

fn parent<'a>(route: &[&'a str]) -> Option<(&'static str, &'a str)> {
    match route {
        ["v2" | "v3", "orders", id, _, ..] => Some(("v2/orders", id)),
        ["v2", "customers", id, _, ..] => Some(("v2/customers", id)),
        ["v3", "catalog", "products", id, _, ..] => Some(("v3/catalog/products", id)),
        // A checkout has the id of its cart.
        ["v3", "carts" | "checkouts", id, _, ..] => Some(("v3/carts", id)),
        _ => None,
    }
}

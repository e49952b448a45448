//! The fields of resources that carry or stand in for the operation's key.

use http::Method;
use serde_json::Value;

use steadfast_core::internal::vendor::body::{self, RawObject};
use steadfast_core::transport::Request;
use steadfast_core::{Error, Input};

/// A resource that a POST creates, by the route it is posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// `/v2/orders`: the key is stamped as `external_order_id`, unless the caller set that.
    Orders,
    /// `/v3/checkouts/{id}/orders`: found by the cart's id, which is the checkout's.
    CheckoutOrders {
        /// The checkout's id.
        cart_id: String,
    },
    /// `/v3/catalog/products`: found by `sku`, or by `name` where there is none.
    Products,
    /// `/v3/catalog/brands` and `/v3/catalog/categories`, `/v3/pricelists`: found by `name`.
    Named {
        /// The route, which is that of the list too.
        route: &'static str,
    },
    /// `/v3/customers`: found by `email`.
    Customers,
    /// `/v2/coupons`: found by `code`.
    Coupons,
    /// `/v3/orders/{id}/payment_actions/refunds`: the key is stamped into `items[].reason`.
    Refunds {
        /// The route, which is that of the list too.
        route: String,
    },
    /// Payments, carts, shipments, relative stock changes and everything else: cannot be found again.
    Other,
}

impl Resource {
    /// The resource that a POST to `route` creates.
    pub(super) fn of(route: &str) -> Resource {
        let parts: Vec<&str> = route.trim_end_matches('/').split('/').skip(1).collect();
        match parts.as_slice() {
            ["v2", "orders"] => Resource::Orders,
            ["v2", "coupons"] => Resource::Coupons,
            ["v3", "checkouts", id, "orders"] => Resource::CheckoutOrders { cart_id: (*id).to_owned() },
            ["v3", "catalog", "products"] => Resource::Products,
            ["v3", "catalog", "brands"] => Resource::Named { route: "/v3/catalog/brands" },
            ["v3", "catalog", "categories"] => Resource::Named { route: "/v3/catalog/categories" },
            ["v3", "pricelists"] => Resource::Named { route: "/v3/pricelists" },
            ["v3", "customers"] => Resource::Customers,
            ["v3", "orders", _, "payment_actions", "refunds"] => {
                Resource::Refunds { route: route.trim_end_matches('/').to_owned() }
            }
            _ => Resource::Other,
        }
    }

    /// Whether BigCommerce refuses a second one with 409. Elsewhere a 409 is some other conflict.
    pub(super) fn has_unique_field(&self) -> bool {
        matches!(self, Resource::Products | Resource::Named { .. } | Resource::Coupons)
    }

    /// Stamps the key where the resource has room for one, and gives the key as BigCommerce sees it.
    pub(super) fn stamp(&self, request: &mut Request, key: String) -> Result<String, Error> {
        match self {
            Resource::Orders => stamp_order(request, key),
            Resource::Refunds { .. } => stamp_refund(request, key),
            _ => Ok(key),
        }
    }
}

/// Whether a change of an order adds products to it: a row without an `id` is a new one, each time that it is sent
/// (`orders.v2.oas2.yml`, "Update an Order"). A body that cannot be read so, such as XML, may add some.
pub(super) fn adds(route: &str, request: &Request) -> bool {
    let parts: Vec<&str> = route.trim_end_matches('/').split('/').skip(1).collect();
    if request.method != Method::PUT || !matches!(parts.as_slice(), ["v2", "orders", _]) {
        return false;
    }
    let is_new = |row: &Value| match &row["id"] {
        Value::Null => true,
        Value::Number(id) => id.as_u64() == Some(0),
        Value::String(id) => matches!(id.trim(), "" | "0"),
        _ => false,
    };
    if request.body.trim_ascii().is_empty() {
        return false;
    }
    match body::json(&request.body) {
        Some(Value::Object(order)) => match order.get("products").unwrap_or(&Value::Null) {
            Value::Null => false,
            Value::Array(rows) => rows.iter().any(is_new),
            _ => true,
        },
        _ => true,
    }
}

/// `external_id` is read-only; `external_order_id` is the one to write.
fn stamp_order(request: &mut Request, key: String) -> Result<String, Error> {
    let mut order = RawObject::parse(&request.body)?;
    if let Some(theirs) = order.text("external_order_id").filter(|text| !text.is_empty()) {
        return Ok(theirs);
    }
    if order.get("external_order_id").is_some_and(|held| !matches!(held.get(), "null" | "\"\"")) {
        return Err(Error::validation(Input::Body, "`external_order_id` must be a text"));
    }
    order.set("external_order_id", &key)?;
    request.body = order.to_bytes()?;
    Ok(key)
}

/// The key goes into the reason of each item: the current specification (2026-04) knows a reason there alone. Without
/// items there is no place for it, and then no lookup.
fn stamp_refund(request: &mut Request, key: String) -> Result<String, Error> {
    let mut refund = RawObject::parse(&request.body)?;
    let Some(held) = refund.get("items").filter(|held| held.get() != "null") else { return Ok(key) };
    let mut items = body::parse_array(held.get().as_bytes())?;
    for item in &mut items {
        let given = item.text("reason").unwrap_or_default();
        let reason = if given.is_empty() { key.clone() } else { format!("{given} [{key}]") };
        if reason.chars().count() > REASON_LEN_MAX {
            let own = REASON_LEN_MAX - key.len() - 3;
            let problem = format!(
                "an item's `reason` carries the operation's key, which leaves {own} characters for yours"
            );
            return Err(Error::validation(Input::Body, problem));
        }
        item.set("reason", &reason)?;
    }
    refund.set("items", &items)?;
    request.body = refund.to_bytes()?;
    Ok(key)
}

/// BigCommerce, "Create a refund": `items[].reason` takes up to 1000 characters.
const REASON_LEN_MAX: usize = 1000;

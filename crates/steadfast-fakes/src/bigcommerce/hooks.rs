//! Webhooks of a store (<https://developer.bigcommerce.com/docs/integrations/webhooks/events>): the scope, an id, and
//! little more.
//!
//! A scope that the fake never fires cannot be registered: a test would wait for it in vain.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::encoding::hex;
use super::super::fixture::Reply;
use super::super::webhooks::{Delivery, Outbox, Proof};
use super::items::Items;
use super::machine::{Call, Machine};

impl Machine {
    /// The refusal of a hook that would never be told anything.
    pub(super) fn is_no_hook(&self, call: &Call<'_>, sent: &Value) -> Option<Reply> {
        if let Some(scope) = sent["scope"].as_str().filter(|scope| !is_fired(scope)) {
            return Some(self.refused_body(call, &format!("The fake does not fire the scope '{scope}'.")));
        }
        let destination = sent["destination"].as_str()?;
        let is_url = url::Url::parse(destination).is_ok_and(|url| url.host().is_some());
        (!is_url).then(|| self.refused_body(call, "The field 'destination' is invalid."))
    }
}

/// Tells the store's hooks that one of a collection was `created`, `updated` or `deleted`.
pub(super) fn tell(
    outbox: &Outbox,
    items: &Items,
    call: &Call<'_>,
    collection: &str,
    what: &str,
    one: &Value,
) {
    let id = &one["id"];
    let of = |kind: &str| json!({ "type": kind, "id": id });
    let parts: Vec<&str> = collection.split('/').collect();
    let (kind, data) = match parts[..] {
        ["v2", "orders"] if what == "deleted" => {
            return fire(outbox, items, call, "store/order/archived", &of("order"));
        }
        ["v2", "orders"] => ("order", of("order")),
        ["v2", "orders", order, "shipments"] => {
            ("shipment", json!({ "type": "shipment", "id": id, "orderId": number(order) }))
        }
        ["v2", "products"] | ["v3", "catalog", "products"] => ("product", of("product")),
        ["v3", "catalog", "products", product, "variants"] => {
            let sku = json!({ "product_id": number(product), "variant_id": id });
            ("sku", json!({ "type": "sku", "id": one["sku_id"], "sku": sku }))
        }
        ["v2" | "v3", "customers"] => ("customer", of("customer")),
        ["v2", "customers", _, "addresses"] | ["v3", "customers", "addresses"] => {
            let address = json!({ "customer_id": one["customer_id"] });
            ("customer/address", json!({ "type": "customer", "id": id, "address": address }))
        }
        ["v2", "categories"] | ["v3", "catalog", "categories"] => ("category", of("category")),
        ["v3", "carts"] => ("cart", of("cart")),
        ["v3", "pricelists"] => ("priceList", json!({ "price_list_id": id })),
        _ => return,
    };
    fire(outbox, items, call, &format!("store/{kind}/{what}"), &data);
}

/// Tells the store's hooks of this scope.
pub(super) fn fire(outbox: &Outbox, items: &Items, call: &Call<'_>, scope: &str, data: &Value) {
    debug_assert!(is_fired(scope), "{scope} could not be registered");
    let event = items.next_event();
    let hooks = ["v2/hooks", "v3/hooks"].map(|collection| items.all(call.store, collection)).concat();
    if hooks.is_empty() {
        return;
    }
    let created_at = call.now.as_millis() / 1000;
    let seed = format!("{scope}{data}{}{}", call.now.as_millis(), event);
    let hash = hex(&Sha256::digest(seed))[..40].to_owned();
    let body = json!({
        "scope": scope, "store_id": "1001", "data": data, "hash": hash, "created_at": created_at,
        "producer": format!("stores/{}", call.store),
    });
    for hook in hooks {
        let wanted = hook["scope"].as_str().unwrap_or_default();
        let wants =
            wanted == scope || wanted.strip_suffix('*').is_some_and(|scopes| scope.starts_with(scopes));
        if !wants || hook["is_active"] == false {
            continue;
        }
        let mut headers: Vec<(String, String)> = Vec::new();
        for (name, value) in hook["headers"].as_object().into_iter().flatten() {
            headers.push((name.clone(), value.as_str().unwrap_or_default().to_owned()));
        }
        outbox.post(Delivery {
            id: hash.clone(),
            kind: scope.to_owned(),
            url: hook["destination"].as_str().unwrap_or_default().to_owned(),
            body: body.to_string(),
            headers,
            proof: Proof::Standard(CLIENT_SECRET.to_owned()),
            answers: Vec::new(),
        });
    }
}

fn is_fired(scope: &str) -> bool {
    SCOPES.contains(&scope) || WILDCARDS.contains(&scope)
}

fn number(id: &str) -> Value {
    id.parse::<u64>().map_or_else(|_| Value::from(id), Value::from)
}

/// The scopes that the fake fires.
const SCOPES: [&str; 38] = [
    "store/cart/converted",
    "store/cart/created",
    "store/cart/deleted",
    "store/cart/lineItem/created",
    "store/cart/lineItem/deleted",
    "store/cart/lineItem/updated",
    "store/cart/updated",
    "store/category/created",
    "store/category/deleted",
    "store/category/updated",
    "store/customer/address/created",
    "store/customer/address/deleted",
    "store/customer/address/updated",
    "store/customer/created",
    "store/customer/deleted",
    "store/customer/updated",
    "store/order/archived",
    "store/order/created",
    "store/order/refund/created",
    "store/order/statusUpdated",
    "store/order/transaction/created",
    "store/order/updated",
    "store/priceList/created",
    "store/priceList/deleted",
    "store/priceList/updated",
    "store/product/created",
    "store/product/deleted",
    "store/product/inventory/order/updated",
    "store/product/inventory/updated",
    "store/product/updated",
    "store/shipment/created",
    "store/shipment/deleted",
    "store/shipment/updated",
    "store/sku/created",
    "store/sku/deleted",
    "store/sku/inventory/order/updated",
    "store/sku/inventory/updated",
    "store/sku/updated",
];

/// The documented scopes of several events, of which the fake fires some.
const WILDCARDS: [&str; 9] = [
    "store/cart/*",
    "store/cart/lineItem/*",
    "store/category/*",
    "store/customer/*",
    "store/customer/address/*",
    "store/order/*",
    "store/product/*",
    "store/shipment/*",
    "store/sku/*",
];

/// The secret of the app, in base64, which signs: `fake client secret`.
const CLIENT_SECRET: &str = "ZmFrZSBjbGllbnQgc2VjcmV0";

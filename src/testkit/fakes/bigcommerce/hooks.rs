//! Webhooks of a store (<https://developer.bigcommerce.com/docs/integrations/webhooks>): the scope, an id, and no more.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::encoding::hex;
use super::super::webhooks::{Delivery, Outbox, Proof};
use super::items::Items;
use super::machine::Call;

/// Tells the store's hooks that something was `created`, `updated` or `deleted`.
pub(super) fn tell(
    outbox: &Outbox,
    items: &Items,
    call: &Call<'_>,
    collection: &str,
    what: &str,
    id: &Value,
) {
    let kind = match collection {
        "v2/orders" => "order",
        "v2/products" | "v3/catalog/products" => "product",
        "v2/customers" | "v3/customers" => "customer",
        "v2/categories" | "v3/catalog/categories" => "category",
        "v3/carts" => "cart",
        _ => return,
    };
    let scope = format!("store/{kind}/{what}");
    let created_at = call.now.as_millis() / 1000;
    let data = json!({ "type": kind, "id": id });
    let seed = format!("{scope}{data}{}{}", call.now.as_millis(), items.count());
    let hash = hex(&Sha256::digest(seed))[..40].to_owned();
    let body = json!({
        "scope": scope, "store_id": "1001", "data": data, "hash": hash, "created_at": created_at,
        "producer": format!("stores/{}", call.store),
    });
    for hook in items.all(call.store, "v2/hooks").into_iter().chain(items.all(call.store, "v3/hooks")) {
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
            kind: scope.clone(),
            url: hook["destination"].as_str().unwrap_or_default().to_owned(),
            body: body.to_string(),
            headers,
            proof: Proof::Standard(CLIENT_SECRET.to_owned()),
            answers: Vec::new(),
        });
    }
}

/// The secret of the app, in base64, which signs: `fake client secret`.
const CLIENT_SECRET: &str = "ZmFrZSBjbGllbnQgc2VjcmV0";

//! The objects that a GET shows.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::actions::is_no_id;
use super::contract::Resource;
use super::expand::deleted_customer;
use super::objects::{List, Objects};
use super::params::Params;
use super::refusal::Refusal;

/// Where a GET goes, below `/v1/`.
pub(super) fn get(
    objects: &Objects,
    account: &str,
    now: u64,
    rest: &str,
    params: &Params,
    path: &str,
) -> Result<Reply, Refusal> {
    let unknown = || Refusal::unknown_url("GET", path);
    let parts: Vec<&str> = rest.split('/').collect();
    let page = |name, also| objects.list(account, &List::of(name, path, params, also)?);
    let held = |name: &str, id: &str| {
        let object = Resource::named(name).map_or(name, |resource| &resource.object);
        objects.text(account, name, id).ok_or_else(|| Refusal::not_found(object, id))
    };
    match parts[..] {
        [name, word, ..] if is_no_id(name, word) => Err(unknown()),
        ["balance"] => {
            params.decode(&[])?;
            Ok(Reply::json(200, &balance(objects, account, now)))
        }
        ["account"] => {
            params.decode(&[])?;
            Ok(Reply::json(200, &own_account(account)))
        }
        [name] if Resource::named(name).is_some() => page(name, None),
        ["charges", id, "refunds"] => {
            held("charges", id)?;
            page("refunds", Some(("charge", id)))
        }
        ["customers", id, "payment_methods"] => {
            held("customers", id)?;
            page("payment_methods", Some(("customer", id)))
        }
        ["invoices", id, part @ "lines"] | ["transfers", id, part @ "reversals"] => {
            params.decode(&[])?;
            let whole: Value = serde_json::from_str(held(parts[0], id)?.get()).unwrap_or_default();
            Ok(Reply::json(200, &whole[part]))
        }
        ["subscription_items", id] => {
            params.decode(&[])?;
            let subscription = objects.subscription_of(account, id);
            let items = subscription.as_ref().and_then(|found| found["items"]["data"].as_array());
            let item = items.into_iter().flatten().find(|item| item["id"] == id);
            let item = item.ok_or_else(|| Refusal::not_found("subscription_item", id))?;
            Ok(Reply::json(200, item))
        }
        ["customers", id] if objects.is_gone(account, id) => {
            params.decode(&[])?;
            Ok(Reply::json(200, &deleted_customer(id)))
        }
        [name, id] if Resource::named(name).is_some() => {
            params.decode(&[])?;
            Ok(Reply::json(200, &held(name, id)?))
        }
        _ => Err(unknown()),
    }
}

/// The sums that the lines of the balance come to, by currency: pending until they are available.
fn balance(objects: &Objects, account: &str, now: u64) -> Value {
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::from([("usd".to_owned(), (0, 0))]);
    for (currency, available_on, net) in objects.booked(account) {
        let (available, pending) = sums.entry(currency.to_owned()).or_default();
        *(if available_on <= now { available } else { pending }) += net;
    }
    let side = |of: fn(&(i64, i64)) -> i64| -> Vec<Value> {
        let amount = |(currency, sums): (&String, &(i64, i64))| json!({ "amount": of(sums), "currency": currency, "source_types": { "card": of(sums) } });
        sums.iter().map(amount).collect()
    };
    json!({
        "object": "balance", "available": side(|sums| sums.0), "livemode": account.ends_with("/live"),
        "pending": side(|sums| sums.1),
    })
}

/// The account whose key it is.
fn own_account(account: &str) -> Value {
    let fields = Resource::named("accounts").map_or_else(Map::new, |resource| resource.fields.clone());
    let mut own = Value::Object(fields);
    own["id"] = Value::from(account.split('/').next().unwrap_or_default());
    own["object"] = Value::from("account");
    own["charges_enabled"] = Value::from(true);
    own
}

//! What a store holds, and its look-ups.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::super::serve::query;
use super::machine::{Call, problem, problem_v2};
use crate::clock::Timestamp;

/// Everything in all stores, oldest first.
#[derive(Debug, Default)]
pub(super) struct Items {
    all: Vec<Item>,
    made: u64,
}

#[derive(Debug)]
struct Item {
    store: String,
    collection: String,
    value: Value,
    made: Timestamp,
}

impl Items {
    /// A new id. The first is 100, as the fixtures' orders have it.
    pub(super) fn next_id(&mut self) -> u64 {
        self.made += 1;
        99 + self.made
    }

    pub(super) fn add(&mut self, store: &str, collection: &str, value: Value, made: Timestamp) {
        self.all.push(Item { store: store.to_owned(), collection: collection.to_owned(), value, made });
    }

    /// Whether the store holds one with this field, shown in look-ups or not: uniqueness does not lag.
    pub(super) fn holds(&self, store: &str, collection: &str, field: &str, value: &Value) -> bool {
        let mut all = self.of(store, collection);
        !value.is_null() && all.any(|item| same(&item.value[field], value))
    }

    /// Whether one was made less than `within` ago.
    pub(super) fn recent(&self, store: &str, collection: &str, within: Duration, now: Timestamp) -> bool {
        self.of(store, collection).any(|item| now.since(item.made) < within)
    }

    pub(super) fn update(
        &mut self,
        store: &str,
        collection: &str,
        id: &str,
        fields: &Value,
    ) -> Option<Value> {
        let item = self.all.iter_mut().find(|item| item.is(store, collection) && is_id(&item.value, id))?;
        for (name, value) in fields.as_object().into_iter().flatten() {
            item.value[name] = value.clone();
        }
        Some(item.value.clone())
    }

    pub(super) fn remove(&mut self, store: &str, collection: &str, id: &str) -> bool {
        let before = self.all.len();
        self.all.retain(|item| !(item.is(store, collection) && is_id(&item.value, id)));
        self.all.len() < before
    }

    /// Answers a look-up: a list, or one by its id.
    pub(super) fn get(&self, call: &Call<'_>, lag: Duration) -> Reply {
        let collection = call.collection();
        if let Some((parent, id)) = collection.rsplit_once('/').filter(|(_, id)| id.parse::<u64>().is_ok()) {
            let found =
                self.of(call.store, parent).find(|item| is_id(&item.value, id) && item.shows(call.now, lag));
            return match found {
                Some(item) if call.is_v2() => Reply::json(200, &item.value),
                Some(item) => Reply::json(200, &json!({ "data": item.value, "meta": {} })),
                None if call.is_v2() => problem_v2(404, "The requested resource was not found."),
                None => problem(404, "The resource was not found."),
            };
        }
        if call.is_v2() {
            let supported = supported(&collection);
            let unknown =
                call.request.url.query_pairs().find(|(name, _)| !supported.contains(&name.as_ref()));
            if let Some((name, _)) = unknown {
                return problem_v2(400, &format!("The field '{name}' is not supported by this resource."));
            }
        }
        // Read once: a long run has many rows.
        let filters: Vec<(String, String)> = call.request.url.query_pairs().into_owned().collect();
        let found: Vec<&Value> = self
            .of(call.store, &collection)
            .filter(|item| matches(&item.value, &filters) && item.shows(call.now, lag))
            .map(|item| &item.value)
            .collect();
        let per_page = number(call, "limit").unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
        let page = number(call, "page").unwrap_or(1).max(1);
        let shown: Vec<&Value> =
            found.iter().skip((page - 1).saturating_mul(per_page)).take(per_page).copied().collect();
        if !call.is_v2() {
            let pagination = json!({
                "total": found.len(), "count": shown.len(), "per_page": per_page, "current_page": page,
                "total_pages": found.len().div_ceil(per_page),
            });
            return Reply::json(200, &json!({ "data": shown, "meta": { "pagination": pagination } }));
        }
        if shown.is_empty() { Reply::empty(204) } else { Reply::json(200, &json!(shown)) }
    }

    fn of(&self, store: &str, collection: &str) -> impl Iterator<Item = &Item> {
        self.all.iter().filter(move |item| item.is(store, collection))
    }
}

impl Item {
    fn is(&self, store: &str, collection: &str) -> bool {
        self.store == store && self.collection == collection
    }

    fn shows(&self, now: Timestamp, lag: Duration) -> bool {
        now >= self.made.plus(lag)
    }
}

/// Whether an item passes the request's filters. `field:in` takes a list; `min_id` and `max_id` are bounds; of
/// the rest, a field that the item has must be equal. A filter by what the item has not passes: V3 ignores
/// filters that it does not know.
fn matches(value: &Value, filters: &[(String, String)]) -> bool {
    let id = value["id"].as_u64().unwrap_or(0);
    filters.iter().all(|(name, wanted)| match name.as_str() {
        "page" | "limit" | "sort" | "include" => true,
        "min_id" => wanted.parse().is_ok_and(|bound: u64| id >= bound),
        "max_id" => wanted.parse().is_ok_and(|bound: u64| id <= bound),
        name => match name.strip_suffix(":in") {
            Some(field) => wanted.split(',').any(|one| equal(&value[field], one)),
            None => value.get(name).is_none_or(|held| equal(held, wanted)),
        },
    })
}

fn equal(held: &Value, wanted: &str) -> bool {
    match held {
        Value::String(text) => text.eq_ignore_ascii_case(wanted),
        Value::Number(number) => number.to_string() == wanted,
        Value::Bool(flag) => wanted == if *flag { "true" } else { "false" },
        _ => false,
    }
}

fn same(held: &Value, value: &Value) -> bool {
    value.as_str().map_or_else(|| held == value, |text| equal(held, text))
}

fn is_id(value: &Value, id: &str) -> bool {
    equal(&value["id"], id)
}

fn number(call: &Call<'_>, name: &str) -> Option<usize> {
    query(call.request, name)?.parse().ok()
}

/// The filters that V2 knows (its reference pages for orders and coupons); any other is a 400.
fn supported(collection: &str) -> &'static [&'static str] {
    match collection {
        "v2/orders" => &[
            "min_id",
            "max_id",
            "customer_id",
            "email",
            "status_id",
            "cart_id",
            "payment_method",
            "channel_id",
            "external_order_id",
            "is_deleted",
            "page",
            "limit",
            "sort",
        ],
        "v2/coupons" => &["id", "code", "name", "type", "min_id", "max_id", "page", "limit"],
        _ => &["page", "limit"],
    }
}

/// Both as the V2 and V3 reference pages give them.
const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 250;

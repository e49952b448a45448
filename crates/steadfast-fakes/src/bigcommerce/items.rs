//! The objects that a store holds, and its lookups.

mod candidates;
mod filters;
mod held;
mod lists;
mod question;
mod variants;

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use filters::{Filter, is_decimal};
use steadfast_core::clock::Timestamp;

use super::super::fixture::{Reply, parsed, text_of};
use super::super::serve::shows;
use super::super::table::{Row, Table, Tables, Term};
use super::contract;
use super::machine::{Call, problem, problem_v2};
pub(super) use question::{Asks, question};
pub(super) use variants::{SHARED, base_id, is_base, price_of, product_of, product_of_base, variants_of};

/// Everything in all stores, a table for each store's each collection.
#[derive(Debug, Default)]
pub(super) struct Items {
    tables: Tables<Item>,
    made: u64,
    /// How many events were told of.
    told: Cell<u64>,
    /// By store, the products that had variants with options.
    complex: BTreeSet<(String, String)>,
    /// The stores that were asked for something.
    begun: HashSet<String>,
}

#[derive(Debug)]
struct Item {
    text: Box<RawValue>,
    made: Timestamp,
    modified: Timestamp,
    /// The values that lookups and filters with bounds look at. Beside the text: a lookup that had to take a hundred
    /// thousand texts apart would be slow.
    id: Value,
    terms: Vec<Term>,
    total: f64,
    price: f64,
}

impl Items {
    /// A new id. The first is 100, as the fixtures' orders have it.
    pub(super) fn next_id(&mut self) -> u64 {
        self.made += 1;
        99 + self.made
    }

    /// The number of an event.
    pub(super) fn next_event(&self) -> u64 {
        self.told.set(self.told.get() + 1);
        self.told.get()
    }

    pub(super) fn add(&mut self, store: &str, collection: &str, value: &Value, made: Timestamp) {
        self.put_down(store, collection, value, made);
        self.added(store, collection, value, made);
    }

    fn put_down(&mut self, store: &str, collection: &str, value: &Value, made: Timestamp) {
        self.tables.of_mut(store, collection).add(Item::new(value, made, made));
    }

    /// Whether the store holds another than `id` with this field, of those that are `also` so, shown in lookups or not: uniqueness
    /// does not lag.
    pub(super) fn holds(
        &self,
        store: &str,
        collection: &str,
        field: &str,
        value: &Value,
        id: Option<&str>,
        also: impl Fn(&Value) -> bool,
    ) -> bool {
        debug_assert!(LOOKED_UP_BY.contains(&field), "{field} has no terms");
        let (Some(table), Some(term)) = (self.tables.of(store, collection), term(field, value)) else {
            return false;
        };
        table.with(&[term]).any(|(_, item)| {
            let held = parsed(&item.text);
            same(&held[field], value) && id.is_none_or(|id| !equal(&held["id"], id)) && also(&held)
        })
    }

    /// Whether one was made less than `within` ago.
    pub(super) fn recent(&self, store: &str, collection: &str, within: Duration, now: Timestamp) -> bool {
        self.tables
            .of(store, collection)
            .is_some_and(|table| table.all().any(|item| now.since(item.made) < within))
    }

    /// Sets fields of an item, and the time of its change.
    pub(super) fn update(&mut self, store: &str, collection: &str, id: &str, fields: &Value, now: Timestamp) {
        self.set(store, collection, id, fields, now);
        self.changed(store, collection, id, now);
    }

    fn set(&mut self, store: &str, collection: &str, id: &str, fields: &Value, now: Timestamp) {
        let found = self.tables.of(store, collection).and_then(|table| with_id(table, id).next());
        let Some((ordinal, item)) = found else { return };
        let made = item.made;
        let mut changed = parsed(&item.text);
        // The items stay in the order of their ids.
        for (name, value) in
            fields.as_object().into_iter().flatten().filter(|(name, _)| !READ_ONLY.contains(&name.as_str()))
        {
            changed[name] = value.clone();
        }
        // In the form that the creation has.
        for name in MODIFIED {
            if let Some(at) = contract::like(&changed[name], now) {
                changed[name] = at;
            }
        }
        self.tables.of_mut(store, collection).replace(ordinal, Item::new(&changed, made, now));
    }

    pub(super) fn remove(&mut self, store: &str, collection: &str, id: &str, now: Timestamp) -> bool {
        let is_gone = self.take_away(store, collection, id);
        self.removed(store, collection, now);
        is_gone
    }

    fn take_away(&mut self, store: &str, collection: &str, id: &str) -> bool {
        let Some(table) = self.tables.of(store, collection) else { return false };
        let gone: Vec<u64> = with_id(table, id).map(|(ordinal, _)| ordinal).collect();
        for ordinal in &gone {
            self.tables.of_mut(store, collection).remove(*ordinal);
        }
        !gone.is_empty()
    }

    /// All of a collection, oldest first.
    pub(super) fn all(&self, store: &str, collection: &str) -> Vec<Value> {
        let table = self.tables.of(store, collection);
        table.into_iter().flat_map(Table::all).map(|item| parsed(&item.text)).collect()
    }

    /// One by its id, shown in lookups or not.
    pub(super) fn one(&self, store: &str, collection: &str, id: &str) -> Option<Value> {
        with_id(self.tables.of(store, collection)?, id).next().map(|(_, item)| parsed(&item.text))
    }

    /// Whether the store holds one of this id, shown in lookups or not.
    pub(super) fn has(&self, store: &str, collection: &str, id: &str) -> bool {
        self.tables.of(store, collection).is_some_and(|table| with_id(table, id).next().is_some())
    }

    /// Whether one shows in lookups by now.
    pub(super) fn shows_one(
        &self,
        store: &str,
        collection: &str,
        id: &str,
        now: Timestamp,
        lag: Duration,
    ) -> bool {
        let table = self.tables.of(store, collection);
        table.is_some_and(|table| with_id(table, id).any(|(_, item)| item.shows(now, lag)))
    }

    /// The first with this field.
    pub(super) fn with_field(
        &self,
        store: &str,
        collection: &str,
        field: &str,
        value: &Value,
    ) -> Option<Value> {
        debug_assert!(LOOKED_UP_BY.contains(&field), "{field} has no terms");
        let (table, term) = (self.tables.of(store, collection)?, term(field, value)?);
        let mut held = table.with(&[term]).map(|(_, item)| parsed(&item.text));
        held.find(|held| same(&held[field], value) || held[field] == *value)
    }

    #[cfg(test)]
    pub(super) fn take_shown(&self) -> u64 {
        self.tables.take_shown()
    }
}

impl Item {
    fn new(value: &Value, made: Timestamp, modified: Timestamp) -> Item {
        let (total, price) = (amount(&value["total_inc_tax"]), amount(&value["price"]));
        let of = |field: &&str| term(field, value.get(field)?);
        let terms = LOOKED_UP_BY.iter().filter_map(of).collect();
        Item { text: text_of(value), made, modified, id: value["id"].clone(), terms, total, price }
    }

    fn shows(&self, now: Timestamp, lag: Duration) -> bool {
        shows(self.made, now, lag)
    }

    /// Whether it passes these filters. A field that it has not equals nothing.
    fn matches(&self, filters: &[Filter]) -> bool {
        if !filters.iter().filter(|filter| filter.is_light()).all(|filter| filter.passes_light(self)) {
            return false;
        }
        let mut others = filters.iter().filter(|filter| !filter.is_light()).peekable();
        others.peek().is_none() || {
            let value = parsed(&self.text);
            others.all(|filter| filter.passes(&value))
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a fake makes fewer")]
    fn id_number(&self) -> f64 {
        self.id.as_u64().unwrap_or(0) as f64
    }
}

impl Row for Item {
    fn terms(&self) -> Vec<Term> {
        self.terms.clone()
    }
}

/// An amount, as text or as a number.
pub(super) fn amount(value: &Value) -> f64 {
    number(value).unwrap_or(0.0)
}

pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// An id, as text or as a number.
pub(super) fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// A store's answer to a path that leads nowhere.
pub(super) fn not_found(call: &Call<'_>) -> Reply {
    let text = "The requested resource was not found.";
    if call.is_v2() { problem_v2(404, text) } else { problem(404, "The resource was not found.") }
}

/// A store's answer to a method that a path does not have.
pub(super) fn not_allowed(call: &Call<'_>) -> Reply {
    let text = "The requested method is not allowed.";
    if call.is_v2() { problem_v2(405, text) } else { problem(405, text) }
}

/// A V3 answer.
#[derive(Serialize)]
pub(super) struct V3<T> {
    pub(super) data: T,
    pub(super) meta: Value,
}

/// The term of a field with this value, as a filter compares: amounts as numbers, and texts in any case. None of null,
/// which nothing equals.
fn term(field: &str, value: &Value) -> Option<Term> {
    if is_decimal(field) {
        // Zero has two signs, and is equal to itself.
        return Some(Term::new(field, (number(value)? + 0.0).to_bits()));
    }
    let text = match value {
        Value::Null => return None,
        Value::String(text) => text.to_ascii_lowercase(),
        // `true`, a number, or what is only ever compared whole.
        other => other.to_string().to_ascii_lowercase(),
    };
    Some(Term::new(field, text))
}

fn with_id<'a>(table: &'a Table<Item>, id: &'a str) -> impl Iterator<Item = (u64, &'a Item)> {
    let terms: Vec<Term> = term("id", &Value::from(id)).into_iter().collect();
    table.with(&terms).filter(move |(_, item)| equal(&item.id, id))
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

pub(super) const ORDERS: &str = "v2/orders";
/// Orders that were removed: BigCommerce archives them, and lists them with `is_deleted=true` alone.
pub(super) const ARCHIVE: &str = "v2/orders?is_deleted=true";

/// Of which BigCommerce's reference says that no client changes them.
const READ_ONLY: [&str; 3] = ["id", "date_created", "date_modified"];

/// The times of a change, each in the form of its resource.
const MODIFIED: [&str; 3] = ["date_modified", "updated_at", "updated_time"];

/// The fields by which an item is found without a walk over its collection: those that lists are asked for by a value of,
/// and what the store holds unique.
const LOOKED_UP_BY: &[&str] = &[
    "id",
    "external_order_id",
    "cart_id",
    "sku",
    "name",
    "email",
    "code",
    "customer_id",
    "status_id",
    "payment_method",
    "channel_id",
    "price",
    "weight",
    "brand_id",
    "parent_id",
    "is_visible",
    "is_featured",
    "inventory_level",
    "total_sold",
    "type",
    "availability",
    "page_title",
    "company",
    "phone",
    "first_name",
    "last_name",
    "customer_group_id",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::candidates::candidates;
    use super::filters::DayOnly;
    use super::*;
    use steadfast_core::Random as _;
    use steadfast_testkit::SeededRandom;

    /// Values that are equal in one way and not in another.
    fn values() -> Vec<Option<Value>> {
        let all =
            json!(["a", "A", "", "true", true, 7, "7", "7.0", 1.5, "1.5", 0, "-0", null, ["a"], {"a": 1}]);
        all.as_array().unwrap().iter().cloned().map(Some).chain([None]).collect()
    }

    /// The last has no terms.
    const FIELDS: [&str; 4] = ["sku", "name", "price", "other"];

    fn with(filters: &[Filter], items: &Items) -> [Vec<String>; 2] {
        let table = items.tables.of("s", "c").unwrap();
        let texts = |rows: Box<dyn Iterator<Item = &Item>>| -> Vec<String> {
            rows.filter(|item| item.matches(filters)).map(|item| item.text.get().to_owned()).collect()
        };
        [texts(Box::new(candidates(table, filters))), texts(Box::new(table.all()))]
    }

    #[test]
    fn an_id_is_read_only() {
        let mut items = Items::default();
        items.add("s", "c", &json!({ "id": 7 }), Timestamp::from_millis(0));
        items.update("s", "c", "7", &json!({ "id": 9, "name": "a" }), Timestamp::from_millis(1));
        assert_eq!(items.one("s", "c", "7"), Some(json!({ "id": 7, "name": "a" })));
    }

    #[test]
    fn what_is_found_by_its_terms_is_what_a_walk_over_everything_finds() {
        let (random, values) = (SeededRandom::new(7), values());
        let mut items = Items::default();
        let pick = |count: usize| usize::try_from(random.next_u64()).unwrap() % count;
        let fields = || {
            let mut fields = json!({});
            for field in FIELDS {
                if let Some(value) = &values[pick(values.len())] {
                    fields[field] = value.clone();
                }
            }
            fields
        };
        for id in 0..300 {
            let mut item = fields();
            item["id"] = Value::from(id);
            items.add("s", "c", &item, Timestamp::from_millis(0));
        }
        for _ in 0..100 {
            items.update("s", "c", &pick(300).to_string(), &fields(), Timestamp::from_millis(1));
            items.remove("s", "c", &pick(300).to_string(), Timestamp::from_millis(1));
        }
        let wanted = ["a", "A", "", "true", "TRUE", "7", "7.0", "1.5", "-0", "null", "a,7", "[\"a\"]", "x"];
        let read = |name: &str, wanted| Filter::read(name, wanted, &DayOnly::Begins);
        let mut found = 0;
        for (field, wanted) in FIELDS.iter().flat_map(|field| wanted.map(|one| (field, one))) {
            for (name, other) in [(format!("{field}:in"), "name"), ((*field).to_owned(), "sku")] {
                // A price is a number.
                let Ok(filter) = read(&name, wanted) else { continue };
                let read = |name: &str, wanted| read(name, wanted).unwrap();
                let one = vec![filter];
                let two = vec![read(&name, wanted), read(other, "A")];
                for filters in [one, two] {
                    let [by_terms, by_walk] = with(&filters, &items);
                    assert_eq!(by_terms, by_walk, "{filters:?}");
                    found += by_walk.len();
                }
            }
        }
        assert!(found > 1_000, "{found}");
        let table = items.tables.of("s", "c").unwrap();
        for (field, value) in
            ["sku", "name"].iter().flat_map(|field| values.iter().flatten().map(move |v| (field, v)))
        {
            let by_walk = !value.is_null() && table.all().any(|item| same(&parsed(&item.text)[field], value));
            assert_eq!(items.holds("s", "c", field, value, None, |_| true), by_walk, "{field} {value}");
        }
    }
}

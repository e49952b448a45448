//! What a store holds, and its lookups.

mod candidates;
mod held;

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::fixture::{Reply, parsed, text_of};
use super::super::serve::{query, shows};
use super::super::table::{Row, Table, Tables, Term};
use super::machine::{Call, problem, problem_v2};
use super::routes::{filters_of, is_collection, is_item};
use crate::clock::Timestamp;
use crate::vendor::date::days_from_civil;
use candidates::candidates;
pub(super) use held::Held;

/// Everything in all stores, a table for each store's each collection.
#[derive(Debug, Default)]
pub(super) struct Items {
    tables: Tables<Item>,
    made: u64,
    /// The stores that were asked for something.
    begun: HashSet<String>,
}

#[derive(Debug)]
struct Item {
    text: Box<RawValue>,
    made: Timestamp,
    /// What filters with bounds look at. Beside the text: a lookup that had to take a hundred thousand texts apart would
    /// be slow.
    id: u64,
    total: f64,
    price: f64,
}

impl Items {
    /// A new id. The first is 100, as the fixtures' orders have it.
    pub(super) fn next_id(&mut self) -> u64 {
        self.made += 1;
        99 + self.made
    }

    /// The id that the next item gets.
    pub(super) fn coming_id(&self) -> u64 {
        100 + self.made
    }

    pub(super) fn add(&mut self, store: &str, collection: &str, value: &Value, made: Timestamp) {
        self.tables.of_mut(store, collection).add(Item::new(value, made));
    }

    /// Whether the store holds one with this field, shown in lookups or not: uniqueness does not lag.
    pub(super) fn holds(&self, store: &str, collection: &str, field: &str, value: &Value) -> bool {
        debug_assert!(LOOKED_UP_BY.contains(&field), "{field} has no terms");
        let (Some(table), Some(term)) = (self.tables.of(store, collection), term(field, value)) else {
            return false;
        };
        table.with(&[term]).any(|(_, item)| same(&parsed(&item.text)[field], value))
    }

    /// Whether one was made less than `within` ago.
    pub(super) fn recent(&self, store: &str, collection: &str, within: Duration, now: Timestamp) -> bool {
        self.tables
            .of(store, collection)
            .is_some_and(|table| table.all().any(|item| now.since(item.made) < within))
    }

    /// The item as it is then.
    pub(super) fn update(
        &mut self,
        store: &str,
        collection: &str,
        id: &str,
        fields: &Value,
    ) -> Option<Box<RawValue>> {
        let (ordinal, item) = with_id(self.tables.of(store, collection)?, id).next()?;
        let made = item.made;
        let mut changed = parsed(&item.text);
        // An id is read-only, so that the items stay in its order.
        for (name, value) in fields.as_object().into_iter().flatten().filter(|(name, _)| *name != "id") {
            changed[name] = value.clone();
        }
        let item = Item::new(&changed, made);
        let text = item.text.clone();
        self.tables.of_mut(store, collection).replace(ordinal, item);
        Some(text)
    }

    pub(super) fn remove(&mut self, store: &str, collection: &str, id: &str) -> bool {
        let Some(table) = self.tables.of(store, collection) else { return false };
        let gone: Vec<u64> = with_id(table, id).map(|(ordinal, _)| ordinal).collect();
        for ordinal in &gone {
            self.tables.of_mut(store, collection).remove(*ordinal);
        }
        !gone.is_empty()
    }

    /// Answers a lookup: a list, or one by its id.
    pub(super) fn get(&self, call: &Call<'_>, lag: Duration) -> Reply {
        let collection = call.collection();
        let (collection, counts) = match collection.strip_suffix("/count") {
            Some(counted) if call.is_v2() && is_collection(&call.route[..call.route.len() - 1]) => {
                (counted.to_owned(), true)
            }
            _ => (collection, false),
        };
        if !counts && !is_collection(call.route) && !is_item(call.route) {
            return not_found(call);
        }
        if let Some((parent, id)) =
            collection.rsplit_once('/').filter(|_| !counts && !is_collection(call.route))
        {
            let table = self.tables.of(call.store, parent);
            let mut found = table.into_iter().flat_map(|table| with_id(table, id));
            return match found.find(|(_, item)| item.shows(call.now, lag)) {
                Some((_, item)) if call.is_v2() => Reply::json(200, &item.text),
                Some((_, item)) => Reply::json(200, &V3 { data: &item.text, meta: json!({}) }),
                None => not_found(call),
            };
        }
        if call.is_v2() {
            let supported = filters_of(collection.trim_end_matches("/count"));
            let pages = ["page", "limit", "sort", "include"];
            let known = |name: &str| supported.contains(&name) || pages.contains(&name);
            if let Some((name, _)) = call.request.url.query_pairs().find(|(name, _)| !known(name)) {
                return problem_v2(400, &format!("The field '{name}' is not supported by this resource."));
            }
        }
        let pairs = call.request.url.query_pairs().into_owned();
        let filters: Vec<(String, String)> = pairs
            .filter(|(name, _)| !matches!(name.as_str(), "page" | "limit" | "sort" | "include"))
            .collect();
        let passing = passing(self.tables.of(call.store, &collection), &filters, call.now, lag);
        if counts {
            return Reply::json(200, &json!({ "count": passing.count() }));
        }
        let per_page = number(call, "limit").unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
        let page = number(call, "page").unwrap_or(1).max(1);
        let before = (page - 1).saturating_mul(per_page);
        let passing = passing.map(|item| &*item.text);
        if call.is_v2() {
            let shown: Vec<&RawValue> = passing.skip(before).take(per_page).collect();
            return if shown.is_empty() { Reply::empty(204) } else { Reply::json(200, &shown) };
        }
        let found: Vec<&RawValue> = passing.collect();
        let shown: Vec<&RawValue> = found.iter().skip(before).take(per_page).copied().collect();
        let pagination = json!({
            "total": found.len(), "count": shown.len(), "per_page": per_page, "current_page": page,
            "total_pages": found.len().div_ceil(per_page),
        });
        Reply::json(200, &V3 { data: shown, meta: json!({ "pagination": pagination }) })
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

    /// The ids of those that pass a request's filters.
    pub(super) fn ids(&self, call: &Call<'_>, collection: &str, lag: Duration) -> Vec<String> {
        let filters: Vec<(String, String)> = call.request.url.query_pairs().into_owned().collect();
        let passing = passing(self.tables.of(call.store, collection), &filters, call.now, lag);
        passing.map(|item| parsed(&item.text)["id"].to_string()).collect()
    }

    /// How many things were made.
    pub(super) fn count(&self) -> u64 {
        self.made
    }

    #[cfg(test)]
    pub(super) fn take_shown(&self) -> u64 {
        self.tables.take_shown()
    }
}

impl Item {
    fn new(value: &Value, made: Timestamp) -> Item {
        let (total, price) = (amount(&value["total_inc_tax"]), amount(&value["price"]));
        Item { text: text_of(value), made, id: value["id"].as_u64().unwrap_or(0), total, price }
    }

    fn shows(&self, now: Timestamp, lag: Duration) -> bool {
        shows(self.made, now, lag)
    }

    /// Whether it passes these filters. `field:in` takes a list; of the rest, a field that the item has must be equal. A
    /// filter by what the item has not passes: V3 ignores filters that it does not know.
    fn matches(&self, filters: &[&(String, String)]) -> bool {
        if filters.is_empty() {
            return true;
        }
        let value = parsed(&self.text);
        filters.iter().all(|(name, wanted)| match name.as_str() {
            "exclude_type" => !equal(&value["type"], wanted),
            name => match name.strip_suffix(":in") {
                Some(field) => wanted.split(',').any(|one| equal(&value[field], one)),
                None => value.get(name).is_none_or(|held| equal(held, wanted)),
            },
        })
    }
}

/// A filter that bounds what is beside the text, read once for all items.
type Bound = Box<dyn Fn(&Item) -> bool>;

/// `None` if the filter is no bound.
fn bound(name: &str, wanted: &str) -> Option<Bound> {
    let (number, whole) = (wanted.parse().unwrap_or(f64::NAN), wanted.parse::<u64>().ok());
    Some(match name {
        "min_id" => Box::new(move |item| whole.is_some_and(|bound| item.id >= bound)),
        "max_id" => Box::new(move |item| whole.is_some_and(|bound| item.id <= bound)),
        "min_date_created" | "min_date_modified" => {
            let day = date(wanted);
            Box::new(move |item| day.is_some_and(|bound| item.made >= bound))
        }
        "max_date_created" | "max_date_modified" => {
            let day = date(wanted);
            Box::new(move |item| day.is_some_and(|bound| item.made <= bound))
        }
        "min_total" => Box::new(move |item| item.total >= number),
        "max_total" => Box::new(move |item| item.total <= number),
        "min_price" => Box::new(move |item| item.price >= number),
        "max_price" => Box::new(move |item| item.price <= number),
        _ => return None,
    })
}

/// Oldest first, all that a request's lookup shows. It is as long as its asker reads it: a page is not worth a walk over
/// everything.
fn passing<'a>(
    table: Option<&'a Table<Item>>,
    filters: &'a [(String, String)],
    now: Timestamp,
    lag: Duration,
) -> impl Iterator<Item = &'a Item> {
    let (mut bounds, mut others) = (Vec::new(), Vec::new());
    for filter in filters {
        match bound(&filter.0, &filter.1) {
            Some(bound) => bounds.push(bound),
            None => others.push(filter),
        }
    }
    let all = table.into_iter().flat_map(|table| candidates(table, filters));
    all.filter(move |item| {
        item.shows(now, lag) && bounds.iter().all(|is_within| is_within(item)) && item.matches(&others)
    })
}

impl Row for Item {
    fn terms(&self) -> Vec<Term> {
        let value = parsed(&self.text);
        let of =
            |field: &&str| value.get(field).map_or_else(|| Some(without(field)), |held| term(field, held));
        LOOKED_UP_BY.iter().filter_map(of).collect()
    }
}

/// An amount, as text or as a number.
pub(super) fn amount(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0.0)
}

/// An id, as text or as a number.
pub(super) fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// A date as a filter has it: RFC 2822, or ISO 8601 in UTC.
fn date(text: &str) -> Option<Timestamp> {
    if let Ok(at) = httpdate::parse_http_date(&text.replace("+0000", "GMT")) {
        let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
        return Some(Timestamp::from_millis(u64::try_from(since.as_millis()).ok()?));
    }
    let (day, time) = text.split_once('T').unwrap_or((text, "00:00:00"));
    let numbers =
        |text: &str, by| text.splitn(3, by).map(|part| part.parse::<i64>().ok()).collect::<Option<Vec<_>>>();
    let time = time.trim_end_matches('Z').split(['+', '.']).next().unwrap_or_default();
    let ([year, month, day], [hour, minute, second]) = (&numbers(day, '-')?[..], &numbers(time, ':')?[..])
    else {
        return None;
    };
    let seconds = days_from_civil(*year, *month, *day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(Timestamp::from_millis(u64::try_from(seconds).ok()? * 1000))
}

/// What a store says of a path that leads nowhere.
pub(super) fn not_found(call: &Call<'_>) -> Reply {
    let text = "The requested resource was not found.";
    if call.is_v2() { problem_v2(404, text) } else { problem(404, "The resource was not found.") }
}

/// A V3 answer.
#[derive(Serialize)]
pub(super) struct V3<T> {
    pub(super) data: T,
    pub(super) meta: Value,
}

/// The term of a field with this value, as [`equal`] compares: in any case. None of null, which nothing equals.
fn term(field: &str, value: &Value) -> Option<Term> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) => text.to_ascii_lowercase(),
        // `true`, a number, or what is only ever compared whole.
        other => other.to_string().to_ascii_lowercase(),
    };
    Some(Term::new(field, text))
}

/// The term of an item without this field: of one with it, the text is hashed.
fn without(field: &str) -> Term {
    Term::new(field, ())
}

fn with_id<'a>(table: &'a Table<Item>, id: &'a str) -> impl Iterator<Item = (u64, &'a Item)> {
    let terms: Vec<Term> = term("id", &Value::from(id)).into_iter().collect();
    table.with(&terms).filter(move |(_, item)| equal(&parsed(&item.text)["id"], id))
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

fn number(call: &Call<'_>, name: &str) -> Option<usize> {
    query(call.request, name)?.parse().ok()
}

/// The fields by which an item is found without a walk over its collection: what clients look for their own
/// writes by, and what the store holds unique.
const LOOKED_UP_BY: &[&str] =
    &["id", "external_order_id", "cart_id", "sku", "name", "email", "code", "customer_id"];

/// Both as the V2 and V3 reference pages give them.
const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 250;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random as _;
    use crate::testkit::SeededRandom;

    /// Values that are equal in one way and not in another.
    fn values() -> Vec<Option<Value>> {
        let all = json!(["a", "A", "", "true", true, 7, "7", 1.5, "1.5", null, ["a"], {"a": 1}]);
        all.as_array().unwrap().iter().cloned().map(Some).chain([None]).collect()
    }

    fn with(filters: &[(String, String)], items: &Items) -> [Vec<String>; 2] {
        let table = items.tables.of("s", "c").unwrap();
        let filters_all: Vec<&(String, String)> = filters.iter().collect();
        let texts = |rows: Box<dyn Iterator<Item = &Item>>| -> Vec<String> {
            rows.filter(|item| item.matches(&filters_all)).map(|item| item.text.get().to_owned()).collect()
        };
        [texts(candidates(table, filters)), texts(Box::new(table.all()))]
    }

    #[test]
    fn an_id_is_read_only() {
        let mut items = Items::default();
        items.add("s", "c", &json!({ "id": 7 }), Timestamp::from_millis(0));
        let changed = items.update("s", "c", "7", &json!({ "id": 9, "name": "a" })).unwrap();
        assert_eq!(parsed(&changed), json!({ "id": 7, "name": "a" }));
    }

    #[test]
    fn what_is_found_by_its_terms_is_what_a_walk_over_everything_finds() {
        let (random, values) = (SeededRandom::new(7), values());
        let mut items = Items::default();
        let pick = |count: usize| usize::try_from(random.next_u64()).unwrap() % count;
        let fields = || {
            let mut fields = json!({});
            for field in ["sku", "name", "other"] {
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
            items.update("s", "c", &pick(300).to_string(), &fields());
            items.remove("s", "c", &pick(300).to_string());
        }
        let wanted = ["a", "A", "", "true", "TRUE", "7", "1.5", "null", "a,7", "[\"a\"]", "x"];
        let mut found = 0;
        for (field, wanted) in
            ["sku", "name", "other"].iter().flat_map(|field| wanted.map(|one| (field, one)))
        {
            for (name, other) in [(format!("{field}:in"), "name"), ((*field).to_owned(), "sku")] {
                let filters = [(name, wanted.to_owned()), (other.to_owned(), "A".to_owned())];
                for filters in [&filters[..1], &filters] {
                    let [by_terms, by_walk] = with(filters, &items);
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
            assert_eq!(items.holds("s", "c", field, value), by_walk, "{field} {value}");
        }
    }
}

//! The objects that Stripe holds: every one made, readable at once (lists are read-after-write; Search is not, and
//! there is none here).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::fixture::{Reply, parsed, text_of};
use super::super::table::{Row, Table, Tables, Term};
use super::contract::{Field, Kind, Resource};
use super::refusal::Refusal;

mod list;
mod undo;

pub(super) use list::{LIMIT_DEFAULT, LIMIT_MAX, List};
use undo::Change;

/// All objects, a table for each account's each resource.
#[derive(Debug, Default)]
pub(super) struct Objects {
    tables: Tables<Object>,
    made: u64,
    /// Customers that were deleted: they are shown as such.
    gone: HashSet<(String, String)>,
    booked: HashMap<String, Booked>,
    /// The changes of the write under way; `None` if none is.
    changes: Option<Vec<Change>>,
}

/// The sums that the lines of an account's balance come to, by currency and by the second in which they are available.
/// Lines do not change, and a balance of very many is told as fast as one of a few.
type Booked = BTreeMap<(String, u64), i64>;

#[derive(Clone, Debug)]
struct Object {
    id: String,
    created: u64,
    so_far: SoFar,
    terms: Box<[Term]>,
    text: Box<RawValue>,
}

/// When the oldest and the newest were made, of an object and all before it. Who wants what is newer than all of them,
/// or older, need not go further back, wherever the clock was set meanwhile.
#[derive(Clone, Copy, Debug)]
struct SoFar {
    oldest: u64,
    newest: u64,
}

impl SoFar {
    /// Of an object that was made then, behind another.
    fn behind(last: Option<&Object>, created: u64) -> SoFar {
        let before = last.map_or(SoFar { oldest: created, newest: created }, |last| last.so_far);
        SoFar { oldest: before.oldest.min(created), newest: before.newest.max(created) }
    }

    fn may_hold(self, created: &RangeInclusive<i64>) -> bool {
        let [oldest, newest] = [self.oldest, self.newest].map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        newest >= *created.start() && oldest <= *created.end()
    }
}

impl Object {
    fn new(resource: &str, value: &Value, so_far: SoFar) -> Object {
        let id = value["id"].as_str().unwrap_or_default().to_owned();
        let filters = Resource::named(resource).map_or(&[][..], |resource| &resource.list);
        let term = |field: &Field| {
            let (name, held) = held(&field.name, value);
            (!matches!(field.kind, Kind::Range) && !held.is_null()).then(|| term(name, held))
        };
        let items = (resource == "subscriptions").then(|| &value["items"]["data"]);
        let items = items.and_then(Value::as_array).into_iter().flatten();
        let items = items.filter_map(|item| item["id"].as_str()).map(|id| Term::new("item", id));
        // No list has a filter for it. The transfers of a charge are summed up.
        let source = (resource == "transfers").then(|| value["source_transaction"].as_str()).flatten();
        let source = source.map(|charge| Term::new("source_transaction", charge));
        let own = items.chain(source).chain([Term::new("id", &id)]);
        let terms = filters.iter().filter_map(term).chain(own).collect();
        Object { id, created: created(value), so_far, terms, text: text_of(value) }
    }
}

impl Row for Object {
    fn terms(&self) -> Vec<Term> {
        self.terms.to_vec()
    }
}

impl Objects {
    /// A new id.
    pub(super) fn next_id(&mut self, prefix: &str) -> String {
        self.made += 1;
        if prefix.is_empty() { format!("{:08}", self.made) } else { format!("{prefix}_{:014}", self.made) }
    }

    pub(super) fn add(&mut self, account: &str, resource: &str, value: &Value) {
        let table = self.tables.of_mut(account, resource);
        let so_far = SoFar::behind(table.all().next_back(), created(value));
        table.add(Object::new(resource, value, so_far));
        if resource == "balance_transactions" {
            self.book(account, value, 1);
        }
        self.note(|| Change::added(account, resource, value));
    }

    /// Adds a line to the balance, or takes it out of it.
    fn book(&mut self, account: &str, line: &Value, times: i64) {
        let currency = line["currency"].as_str().unwrap_or_default().to_owned();
        let available_on = line["available_on"].as_u64().unwrap_or(u64::MAX);
        let booked = self.booked.entry(account.to_owned()).or_default();
        *booked.entry((currency, available_on)).or_default() += times * line["net"].as_i64().unwrap_or(0);
    }

    /// The sums that an account's balance adds up from: a currency, the second in which it is available, and the net
    /// amount.
    pub(super) fn booked(&self, account: &str) -> impl Iterator<Item = (&str, u64, i64)> {
        let booked = self.booked.get(account).into_iter().flatten();
        booked.map(|((currency, available_on), net)| (&**currency, *available_on, *net))
    }

    /// Puts a changed object in its place.
    pub(super) fn replace(&mut self, account: &str, resource: &str, value: &Value) {
        let table = self.tables.of_mut(account, resource);
        let found = find(table, value["id"].as_str().unwrap_or_default());
        if let Some((ordinal, was)) = found.map(|(ordinal, object)| (ordinal, object.clone())) {
            table.replace(ordinal, Object::new(resource, value, was.so_far));
            self.note(|| Change::was(account, resource, ordinal, was));
        }
    }

    pub(super) fn get(&self, account: &str, resource: &str, id: &str) -> Option<Value> {
        self.text(account, resource, id).map(parsed)
    }

    pub(super) fn text(&self, account: &str, resource: &str, id: &str) -> Option<&RawValue> {
        let (_, object) = find(self.tables.of(account, resource)?, id)?;
        Some(&object.text)
    }

    pub(super) fn remove(&mut self, account: &str, resource: &str, id: &str) -> bool {
        let table = self.tables.of_mut(account, resource);
        let Some((ordinal, was)) = find(table, id).map(|(ordinal, object)| (ordinal, object.clone())) else {
            return false;
        };
        table.remove(ordinal);
        if resource == "customers" {
            self.gone.insert((account.to_owned(), id.to_owned()));
        }
        self.note(|| Change::was(account, resource, ordinal, was));
        true
    }

    /// Whether it is a customer that was deleted.
    pub(super) fn is_gone(&self, account: &str, id: &str) -> bool {
        self.gone.contains(&(account.to_owned(), id.to_owned()))
    }

    /// All objects of an account, oldest first.
    pub(super) fn all(&self, account: &str, resource: &str) -> Vec<Value> {
        let table = self.tables.of(account, resource);
        table.into_iter().flat_map(Table::all).map(|object| parsed(&object.text)).collect()
    }

    /// All objects of an account whose field holds this, oldest first.
    pub(super) fn with(&self, account: &str, resource: &str, field: &str, held: &str) -> Vec<Value> {
        let held = Value::from(held);
        let table = self.tables.of(account, resource);
        let found = table.into_iter().flat_map(|table| table.under(term(field, &held), 0, u64::MAX));
        found.map(|(_, object)| parsed(&object.text)).filter(|value| value[field] == held).collect()
    }

    /// The subscription that has this item.
    pub(super) fn subscription_of(&self, account: &str, item: &str) -> Option<Value> {
        let table = self.tables.of(account, "subscriptions")?;
        let found = table.under(Term::new("item", item), 0, u64::MAX);
        found.map(|(_, object)| parsed(&object.text)).find(|value: &Value| {
            value["items"]["data"].as_array().into_iter().flatten().any(|held| held["id"] == item)
        })
    }

    pub(super) fn list(&self, account: &str, list: &List<'_>) -> Result<Reply, Refusal> {
        let none = Table::default();
        let table = self.tables.of(account, list.resource).unwrap_or(&none);
        let place = |cursor: &Option<String>, param, none| match cursor {
            Some(id) => match find(table, id) {
                Some((ordinal, _)) => Ok(ordinal),
                None => Err(Refusal::no_such(list.object(), id, param)),
            },
            None => Ok(none),
        };
        let below = place(&list.starting_after, "starting_after", u64::MAX)?;
        let above = place(&list.ending_before, "ending_before", 0)?;
        // A page goes on from its cursor: towards the newer ones if it ends before one.
        let forward = list.ending_before.is_some();
        let found = table.under_all(&list.terms(), above, below, forward);
        let mut data: Vec<&RawValue> = found
            .take_while(|(_, object)| forward || object.so_far.may_hold(&list.created))
            .filter(|(_, object)| list.matches(object))
            // One more than is shown tells whether there are more.
            .take(list.limit + 1)
            .map(|(_, object)| &*object.text)
            .collect();
        let has_more = data.len() > list.limit;
        data.truncate(list.limit);
        if forward {
            data.reverse();
        }
        Ok(Reply::json(200, &Page { data, has_more, object: "list", url: list.path }))
    }

    /// The objects of an account between two places in their list, with the place of each, oldest first.
    pub(super) fn between(
        &self,
        account: &str,
        resource: &str,
        above: u64,
        below: u64,
    ) -> impl DoubleEndedIterator<Item = (u64, Value)> {
        let found = self.tables.of(account, resource).map(|table| table.between(above, below));
        found.into_iter().flatten().map(|(place, object)| (place, parsed(&object.text)))
    }

    #[cfg(test)]
    pub(super) fn take_shown(&self) -> u64 {
        self.tables.take_shown()
    }
}

fn find<'a>(table: &'a Table<Object>, id: &str) -> Option<(u64, &'a Object)> {
    table.under(Term::new("id", id), 0, u64::MAX).find(|(_, object)| object.id == id)
}

/// An invoice item has a date alone, and is listed by it.
fn created(value: &Value) -> u64 {
    value["created"].as_u64().or_else(|| value["date"].as_u64()).unwrap_or(0)
}

fn term(field: &str, held: &Value) -> Term {
    match held {
        Value::String(text) => Term::new(field, text),
        other => Term::new(field, other.to_string()),
    }
}

/// The field and the value that a filter of this name looks at.
fn held<'a>(filter: &'a str, value: &'a Value) -> (&'a str, &'a Value) {
    let name = match filter {
        "lookup_keys" => "lookup_key",
        "ids" => "id",
        other => other,
    };
    (name, &value[name])
}

#[derive(Serialize)]
struct Page<'a> {
    data: Vec<&'a RawValue>,
    has_more: bool,
    object: &'a str,
    url: &'a str,
}

/// A page that is part of an object, with all that is in it.
pub(super) fn inner_list(data: &[Value], path: &str) -> Value {
    json!({ "data": data, "has_more": false, "object": "list", "url": path })
}

#[cfg(test)]
mod tests {
    use super::super::desk::Desk;
    use super::super::life::Due;
    use super::super::params::Params;
    use super::*;
    use serde_json::Map;
    use steadfast_core::Random as _;
    use steadfast_testkit::SeededRandom;
    use wiremock::Request;

    const ACCOUNT: &str = "acct_own/test";

    fn request(query: &str, body: &str) -> Request {
        Request {
            url: format!("http://stripe.test/v1/refunds?{query}").parse().unwrap(),
            method: http::Method::GET,
            headers: http::HeaderMap::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn add(objects: &mut Objects, created: u64, charge: &str) -> Value {
        let mut desk = Desk {
            objects,
            methods: &mut HashMap::new(),
            due: &mut Due::default(),
            account: ACCOUNT,
            now: created,
            version: "",
            request_id: None,
            key: None,
            events: Vec::new(),
            before: HashMap::new(),
        };
        let mut refund = desk.draft("refunds", &Map::new());
        refund["charge"] = Value::from(charge);
        desk.add_quietly("refunds", &refund);
        refund
    }

    /// The ids of a page, and whether more follow.
    fn page(objects: &Objects, query: &str) -> (Vec<String>, bool) {
        let params = Params::of(&request(query, ""));
        let list = List::of("refunds", "/v1/refunds", &params, None).unwrap();
        let page = objects.list(ACCOUNT, &list).unwrap().value();
        let ids = page["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
        (ids.collect(), page["has_more"].as_bool().unwrap())
    }

    #[test]
    fn what_is_taken_back_was_never_there() {
        let mut objects = Objects::default();
        let (first, second) = (add(&mut objects, 1, "ch_1"), add(&mut objects, 2, "ch_2"));
        let customer = json!({ "id": "cus_1", "created": 1 });
        let line =
            |id: &str| json!({ "id": id, "created": 1, "currency": "usd", "available_on": 5, "net": 7 });
        objects.add(ACCOUNT, "customers", &customer);
        objects.add(ACCOUNT, "balance_transactions", &line("txn_1"));
        let told = |objects: &Objects| {
            let all = ["refunds", "customers", "balance_transactions"].map(|name| objects.all(ACCOUNT, name));
            let booked: Vec<_> =
                objects.booked(ACCOUNT).map(|(at, until, net)| (at.to_owned(), until, net)).collect();
            (all, booked, objects.is_gone(ACCOUNT, "cus_1"), page(objects, "charge=ch_9"))
        };
        let before = told(&objects);
        objects.begin();
        let third = add(&mut objects, 3, "ch_3");
        for (object, charge) in [(&second, "ch_8"), (&third, "ch_9"), (&second, "ch_9")] {
            let mut changed = object.clone();
            changed["charge"] = Value::from(charge);
            objects.replace(ACCOUNT, "refunds", &changed);
        }
        for (name, gone) in [("refunds", &first), ("refunds", &third), ("customers", &customer)] {
            assert!(objects.remove(ACCOUNT, name, gone["id"].as_str().unwrap()));
        }
        objects.add(ACCOUNT, "balance_transactions", &line("txn_2"));
        let changed = told(&objects);
        assert!(changed.0 != before.0 && changed.1 != before.1 && changed.2 && changed.3 != before.3);
        objects.take_back();
        assert_eq!(told(&objects), before);
        // A change that is kept is not taken back, nor one that nobody notes.
        objects.begin();
        let fourth = add(&mut objects, 4, "ch_4");
        objects.keep();
        let fifth = add(&mut objects, 5, "ch_5");
        objects.take_back();
        assert_eq!(objects.all(ACCOUNT, "refunds"), [first, second, fourth, fifth]);
    }

    #[test]
    fn a_list_is_all_that_was_made_in_its_time_newest_first_though_the_clock_was_set() {
        let random = SeededRandom::new(7);
        let mut objects = Objects::default();
        let mut made: Vec<(String, u64)> = Vec::new();
        for second in 0..60 {
            // The clock runs on, and is set back and forth.
            let created = second + random.next_u64() % 20;
            let object = add(&mut objects, created, &format!("ch_{}", second % 3));
            made.push((object["id"].as_str().unwrap().to_owned(), created));
        }
        for gone in [3, 20, 40] {
            let (id, _) = made.remove(gone);
            assert!(objects.remove(ACCOUNT, "refunds", &id));
        }
        for (bound, passes) in [
            ("gt", (|created, second| created > second) as fn(u64, u64) -> bool),
            ("gte", |created, second| created >= second),
            ("lt", |created, second| created < second),
            ("lte", |created, second| created <= second),
        ] {
            for second in 0..80 {
                let within = made.iter().rev().filter(|(_, created)| passes(*created, second));
                let ids: Vec<String> = within.map(|(id, _)| id.clone()).collect();
                let asked = format!("created[{bound}]={second}");
                assert_eq!(page(&objects, &format!("{asked}&limit=100")), (ids.clone(), false), "{asked}");
                let mut paged = Vec::new();
                let mut more = true;
                while more {
                    let after = paged.last().map_or(String::new(), |id| format!("&starting_after={id}"));
                    let (next, has_more) = page(&objects, &format!("{asked}&limit=7{after}"));
                    assert_eq!(has_more, paged.len() + next.len() < ids.len(), "{asked}{after}");
                    paged.extend(next);
                    more = has_more;
                }
                assert_eq!(paged, ids, "{asked} in pages");
                let mut back: Vec<String> = Vec::new();
                more = !ids.is_empty();
                while more {
                    let last = ids.last().unwrap();
                    let before = back.first().unwrap_or(last);
                    let (mut next, has_more) =
                        page(&objects, &format!("{asked}&limit=7&ending_before={before}"));
                    next.append(&mut back);
                    (back, more) = (next, has_more);
                }
                assert_eq!(back, ids[..ids.len().saturating_sub(1)], "{asked} in pages, backwards");
            }
        }
        for second in 0..80 {
            let exact = made.iter().rev().filter(|(_, created)| *created == second);
            let ids: Vec<String> = exact.map(|(id, _)| id.clone()).collect();
            assert_eq!(page(&objects, &format!("created={second}&limit=100")), (ids, false));
        }
        let of_one = made.iter().rev().filter(|(id, _)| id[3..].parse::<u64>().unwrap() % 3 == 1);
        let of_one: Vec<String> = of_one.map(|(id, _)| id.clone()).collect();
        assert_eq!(page(&objects, "charge=ch_0&limit=100"), (of_one, false));
    }
}

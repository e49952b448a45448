//! What Stripe holds: every object made, readable at once (lists are read-after-write; Search is not, and
//! there is none here).

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use wiremock::Request;

use super::super::fixture::{Reply, parsed, text_of};
use super::super::table::{Row, Table, Tables, Term};
use super::machine::missing;
use super::params::Params;
use crate::clock::Timestamp;

/// All objects, a table for each account's each resource.
#[derive(Debug, Default)]
pub(super) struct Objects {
    tables: Tables<Object>,
    made: u64,
}

#[derive(Debug)]
struct Object {
    /// `None` if the caller put something else than text in its place.
    id: Option<String>,
    created: u64,
    /// When the newest was made, of this and all before it: who wants what is newer need not go further back,
    /// wherever the clock was set meanwhile.
    newest: u64,
    text: Box<RawValue>,
}

impl Object {
    fn new(value: &Value, newest: u64) -> Object {
        let id = value["id"].as_str().map(str::to_owned);
        Object { id, created: value["created"].as_u64().unwrap_or(0), newest, text: text_of(value) }
    }

    fn is(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }
}

impl Row for Object {
    fn terms(&self) -> Vec<Term> {
        self.id.iter().map(|id| Term::new("id", id)).collect()
    }
}

impl Objects {
    pub(super) fn create(&mut self, account: &str, resource: &str, params: &Params, now: Timestamp) -> Value {
        self.made += 1;
        let (object, prefix) = naming(resource);
        let now = now.as_millis() / 1000;
        let mut fields = Map::new();
        fields.insert("id".to_owned(), Value::from(format!("{prefix}_{:014}", self.made)));
        fields.insert("object".to_owned(), Value::from(object));
        fields.insert("created".to_owned(), Value::from(now));
        fields.insert("livemode".to_owned(), Value::from(account.ends_with("/live")));
        fields.insert("metadata".to_owned(), json!({}));
        fields.extend(params.fields());
        let value = Value::Object(fields);
        let table = self.tables.of_mut(account, resource);
        let newest = table.all().next_back().map_or(now, |last| last.newest.max(now));
        table.add(Object::new(&value, newest));
        value
    }

    pub(super) fn update(
        &mut self,
        account: &str,
        resource: &str,
        id: &str,
        params: &Params,
    ) -> Option<Value> {
        let (ordinal, object) = find(self.tables.of(account, resource)?, id)?;
        let (mut value, newest) = (parsed(&object.text), object.newest);
        for (name, sent) in params.fields() {
            match (&mut value[name.as_str()], sent) {
                // Metadata is merged field by field (<https://docs.stripe.com/api/metadata>).
                (Value::Object(held), Value::Object(sent)) => held.extend(sent),
                (held, sent) => *held = sent,
            }
        }
        self.tables.of_mut(account, resource).replace(ordinal, Object::new(&value, newest));
        Some(value)
    }

    pub(super) fn read(&self, account: &str, resource: &str, id: &str) -> Reply {
        let found = self.tables.of(account, resource).and_then(|table| find(table, id));
        found.map_or_else(|| missing(id), |(_, object)| Reply::json(200, &object.text))
    }

    pub(super) fn remove(&mut self, account: &str, resource: &str, id: &str) -> Reply {
        let found = self.tables.of(account, resource).and_then(|table| find(table, id));
        let Some((ordinal, _)) = found else { return missing(id) };
        self.tables.of_mut(account, resource).remove(ordinal);
        Reply::json(200, &json!({ "id": id, "object": naming(resource).0, "deleted": true }))
    }

    pub(super) fn list(&self, account: &str, resource: &str, path: &str, list: &List) -> Reply {
        let Some(limit) = list.limit else {
            let error = json!({
                "message": "Invalid integer: limit must be between 1 and 100.",
                "param": "limit", "type": "invalid_request_error"
            });
            return Reply::json(400, &json!({ "error": error }));
        };
        let none = Table::default();
        let table = self.tables.of(account, resource).unwrap_or(&none);
        let end = match &list.starting_after {
            Some(after) => match under(table, after).rev().find(|(_, object)| list.matches(object)) {
                Some((ordinal, _)) => ordinal,
                None => return missing(after),
            },
            None => u64::MAX,
        };
        let since = list.since();
        let newest = table.before(end).rev().take_while(|object| object.newest >= since);
        // One more than is shown tells whether there are more.
        let found = newest.filter(|object| list.matches(object)).take(limit + 1);
        let mut data: Vec<&RawValue> = found.map(|object| &*object.text).collect();
        let has_more = data.len() > limit;
        data.truncate(limit);
        Reply::json(200, &Page { data, has_more, object: "list", url: path })
    }

    #[cfg(test)]
    pub(super) fn take_shown(&self) -> u64 {
        self.tables.take_shown()
    }
}

/// The objects with this id, oldest first: a caller may give an id twice.
fn under<'a>(table: &'a Table<Object>, id: &'a str) -> impl DoubleEndedIterator<Item = (u64, &'a Object)> {
    table.with(&[Term::new("id", id)]).filter(move |(_, object)| object.is(id))
}

fn find<'a>(table: &'a Table<Object>, id: &'a str) -> Option<(u64, &'a Object)> {
    under(table, id).next()
}

#[derive(Serialize)]
struct Page<'a> {
    data: Vec<&'a RawValue>,
    has_more: bool,
    object: &'a str,
    url: &'a str,
}

/// What a list request asks for.
#[derive(Debug)]
pub(super) struct List {
    /// `None` if it is out of bounds.
    limit: Option<usize>,
    starting_after: Option<String>,
    created: Vec<(String, u64)>,
    equal: Vec<(String, String)>,
}

impl List {
    pub(super) fn of(request: &Request) -> List {
        let mut list =
            List { limit: Some(LIMIT_DEFAULT), starting_after: None, created: Vec::new(), equal: Vec::new() };
        for (name, value) in request.url.query_pairs().into_owned() {
            match name.as_str() {
                "limit" => list.limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit)),
                "starting_after" => list.starting_after = Some(value),
                name if name.starts_with("expand") => {}
                name => match (name.strip_prefix("created["), value.parse()) {
                    (Some(bound), Ok(seconds)) => {
                        list.created.push((bound.trim_end_matches(']').to_owned(), seconds));
                    }
                    _ => list.equal.push((name.to_owned(), value)),
                },
            }
        }
        list
    }

    /// Nothing that it asks for was made before this, in seconds.
    fn since(&self) -> u64 {
        let since = self.created.iter().map(|(bound, seconds)| match bound.as_str() {
            "gt" => seconds.saturating_add(1),
            "gte" => *seconds,
            _ => 0,
        });
        since.max().unwrap_or(0)
    }

    fn matches(&self, object: &Object) -> bool {
        let created = object.created;
        let in_time = self.created.iter().all(|(bound, seconds)| match bound.as_str() {
            "gt" => created > *seconds,
            "gte" => created >= *seconds,
            "lt" => created < *seconds,
            "lte" => created <= *seconds,
            _ => false,
        });
        if !in_time || self.equal.is_empty() {
            return in_time;
        }
        let value = parsed(&object.text);
        self.equal.iter().all(|(name, wanted)| value[name.as_str()] == wanted.as_str())
    }
}

/// A resource's object name and id prefix, as in Stripe's API reference; a resource not listed gets its own
/// name.
fn naming(resource: &str) -> (&str, &str) {
    match resource {
        "payment_intents" => ("payment_intent", "pi"),
        "charges" => ("charge", "ch"),
        "refunds" => ("refund", "re"),
        "customers" => ("customer", "cus"),
        "products" => ("product", "prod"),
        "prices" => ("price", "price"),
        "invoices" => ("invoice", "in"),
        "subscriptions" => ("subscription", "sub"),
        "transfers" => ("transfer", "tr"),
        "payouts" => ("payout", "po"),
        "coupons" => ("coupon", "co"),
        other => (other, other),
    }
}

/// Both from <https://docs.stripe.com/api/pagination>.
const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random as _;
    use crate::testkit::SeededRandom;

    const ACCOUNT: &str = "acct_own/test";

    fn request(query: &str, body: &str) -> Request {
        Request {
            url: format!("http://stripe.test/v1/refunds?{query}").parse().unwrap(),
            method: http::Method::GET,
            headers: http::HeaderMap::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    /// The ids of a page, and whether more follow.
    fn page(objects: &Objects, query: &str) -> (Vec<String>, bool) {
        let list = List::of(&request(query, ""));
        let page = objects.list(ACCOUNT, "refunds", "/v1/refunds", &list).value();
        let ids = page["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
        (ids.collect(), page["has_more"].as_bool().unwrap())
    }

    #[test]
    fn a_list_is_all_that_was_made_in_its_time_newest_first_though_the_clock_was_set() {
        let random = SeededRandom::new(7);
        let mut objects = Objects::default();
        let mut made: Vec<(String, u64)> = Vec::new();
        for second in 0..60 {
            // The clock runs on, and is set back and forth.
            let created = second + random.next_u64() % 20;
            let params = Params::of(&request("", &format!("charge=ch_{}", second % 3)));
            let now = Timestamp::from_millis(created * 1000 + 999);
            let object = objects.create(ACCOUNT, "refunds", &params, now);
            made.push((object["id"].as_str().unwrap().to_owned(), created));
        }
        for gone in [3, 20, 40] {
            let (id, _) = made.remove(gone);
            assert_eq!(objects.remove(ACCOUNT, "refunds", &id).status, 200);
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
            }
        }
        let of_one = made.iter().rev().filter(|(id, _)| id[3..].parse::<u64>().unwrap() % 3 == 1);
        let of_one: Vec<String> = of_one.map(|(id, _)| id.clone()).collect();
        assert_eq!(page(&objects, "charge=ch_0&limit=100"), (of_one, false));
    }
}

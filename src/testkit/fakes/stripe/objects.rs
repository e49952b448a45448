//! What Stripe holds: every object made, readable at once (lists are read-after-write; Search is not, and
//! there is none here).

use serde_json::{Map, Value, json};
use wiremock::Request;

use super::super::fixture::Reply;
use super::machine::missing;
use super::params::Params;
use crate::clock::Timestamp;

/// All objects, oldest first.
#[derive(Debug, Default)]
pub(super) struct Objects {
    all: Vec<Object>,
    made: u64,
}

#[derive(Debug)]
struct Object {
    account: String,
    resource: String,
    value: Value,
}

impl Object {
    fn is(&self, account: &str, resource: &str) -> bool {
        self.account == account && self.resource == resource
    }
}

impl Objects {
    pub(super) fn create(&mut self, account: &str, resource: &str, params: &Params, now: Timestamp) -> Value {
        self.made += 1;
        let (object, prefix) = naming(resource);
        let mut fields = Map::new();
        fields.insert("id".to_owned(), Value::from(format!("{prefix}_{:014}", self.made)));
        fields.insert("object".to_owned(), Value::from(object));
        fields.insert("created".to_owned(), Value::from(now.as_millis() / 1000));
        fields.insert("livemode".to_owned(), Value::from(account.ends_with("/live")));
        fields.insert("metadata".to_owned(), json!({}));
        fields.extend(params.fields());
        let value = Value::Object(fields);
        self.all.push(Object {
            account: account.to_owned(),
            resource: resource.to_owned(),
            value: value.clone(),
        });
        value
    }

    pub(super) fn update(
        &mut self,
        account: &str,
        resource: &str,
        id: &str,
        params: &Params,
    ) -> Option<Value> {
        let object =
            self.all.iter_mut().find(|object| object.is(account, resource) && object.value["id"] == id)?;
        for (name, value) in params.fields() {
            match (&mut object.value[name.as_str()], value) {
                // Metadata is merged field by field (<https://docs.stripe.com/api/metadata>).
                (Value::Object(held), Value::Object(sent)) => held.extend(sent),
                (held, sent) => *held = sent,
            }
        }
        Some(object.value.clone())
    }

    pub(super) fn read(&self, account: &str, resource: &str, id: &str) -> Reply {
        let found = self.all.iter().find(|object| object.is(account, resource) && object.value["id"] == id);
        found.map_or_else(|| missing(id), |object| Reply::json(200, &object.value))
    }

    pub(super) fn remove(&mut self, account: &str, resource: &str, id: &str) -> Reply {
        let at = self.all.iter().position(|object| object.is(account, resource) && object.value["id"] == id);
        let Some(at) = at else { return missing(id) };
        self.all.remove(at);
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
        let mut newest: Vec<&Value> = self
            .all
            .iter()
            .rev()
            .filter(|object| object.is(account, resource))
            .map(|object| &object.value)
            .filter(|value| list.matches(value))
            .collect();
        if let Some(after) = &list.starting_after {
            match newest.iter().position(|value| value["id"] == after.as_str()) {
                Some(at) => drop(newest.drain(..=at)),
                None => return missing(after),
            }
        }
        let has_more = newest.len() > limit;
        newest.truncate(limit);
        Reply::json(200, &json!({ "object": "list", "url": path, "has_more": has_more, "data": newest }))
    }
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

    fn matches(&self, value: &Value) -> bool {
        let created = value["created"].as_u64().unwrap_or(0);
        let in_time = self.created.iter().all(|(bound, seconds)| match bound.as_str() {
            "gt" => created > *seconds,
            "gte" => created >= *seconds,
            "lt" => created < *seconds,
            "lte" => created <= *seconds,
            _ => false,
        });
        in_time && self.equal.iter().all(|(name, wanted)| value[name.as_str()] == wanted.as_str())
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

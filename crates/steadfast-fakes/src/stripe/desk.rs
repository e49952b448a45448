//! Where a write is carried out: the objects of one account, the time, and what is told of it.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::cards::Charging;
use super::contract::{Resource, is_event};
use super::life::Due;
use super::objects::Objects;
use super::refusal::Refusal;

/// One write under way.
pub(super) struct Desk<'a> {
    pub(super) objects: &'a mut Objects,
    /// The outcome of charging each payment method, where that is not success.
    pub(super) methods: &'a mut HashMap<String, Charging>,
    /// The events that are to happen by themselves.
    pub(super) due: &'a mut Due,
    pub(super) account: &'a str,
    /// Seconds.
    pub(super) now: u64,
    pub(super) version: &'a str,
    /// `None` for what happens by itself.
    pub(super) request_id: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    /// The events that happened, for the webhooks: the kind, and the event.
    pub(super) events: Vec<Value>,
    /// The text of each changed object, by id, as it was when an event last told of it.
    pub(super) before: HashMap<String, String>,
}

/// The outcome of a write.
pub(super) type Made = Result<Value, Refusal>;

impl Desk<'_> {
    /// An object of this resource as these parameters make it, not yet held.
    pub(super) fn draft(&mut self, name: &str, params: &Map<String, Value>) -> Value {
        let Some(resource) = Resource::named(name) else { return Value::Null };
        let mut fields = Map::new();
        let given = params.get("id").and_then(Value::as_str).map(str::to_owned);
        let id = given.unwrap_or_else(|| self.objects.next_id(&resource.prefix));
        fields.insert("id".to_owned(), Value::from(id));
        fields.insert("object".to_owned(), Value::from(resource.object.as_str()));
        if resource.created {
            fields.insert("created".to_owned(), Value::from(self.now));
        }
        if resource.livemode {
            fields.insert("livemode".to_owned(), Value::from(self.account.ends_with("/live")));
        }
        if resource.create.iter().flatten().any(|field| field.name == "metadata") {
            fields.insert("metadata".to_owned(), json!({}));
        }
        fields.extend(resource.fields.clone());
        let mut object = Value::Object(fields);
        merge(resource, &mut object, params);
        object
    }

    /// Holds a new object, and tells of it.
    pub(super) fn add(&mut self, name: &str, object: Value) -> Value {
        self.add_quietly(name, &object);
        self.tell("created", &object);
        object
    }

    /// Holds a new object without an event.
    pub(super) fn add_quietly(&mut self, name: &str, object: &Value) {
        self.objects.add(self.account, name, object);
        self.due.note(self.account, name, object, self.now);
    }

    /// Puts a changed object in its place.
    pub(super) fn put(&mut self, name: &str, object: &Value) {
        let id = object["id"].as_str().unwrap_or_default();
        if let Some(before) = self.objects.text(self.account, name, id) {
            self.before.entry(id.to_owned()).or_insert_with(|| before.get().to_owned());
        }
        self.objects.replace(self.account, name, object);
        self.due.note(self.account, name, object, self.now);
    }

    /// The object that a parameter or a field names.
    pub(super) fn get(&self, name: &str, id: &Value) -> Option<Value> {
        self.objects.get(self.account, name, id.as_str()?)
    }

    /// The object that a parameter names; refused if there is none.
    pub(super) fn named(&self, name: &str, id: &str, param: &str) -> Made {
        let object = Resource::named(name).map_or(name, |resource| &resource.object);
        let found = self.objects.get(self.account, name, id);
        found.ok_or_else(|| Refusal::no_such(object, id, param))
    }

    /// An event: `{object}.{what}`. Where Stripe has no event of that type, nothing is told.
    pub(super) fn tell(&mut self, what: &str, object: &Value) {
        let before = self.before.remove(object["id"].as_str().unwrap_or_default());
        let kind = object["object"].as_str().unwrap_or_default();
        let kind = if kind == "subscription" { "customer.subscription" } else { kind };
        let kind = format!("{kind}.{what}");
        if !is_event(&kind) {
            return;
        }
        let mut event = self.draft("events", &Map::new());
        event["type"] = Value::from(kind);
        event["api_version"] = Value::from(self.version);
        event["data"] = json!({ "object": object });
        // "Only included in events of type `*.updated`" (<https://docs.stripe.com/api/events/object>).
        if what == "updated" {
            let before = before.and_then(|before| serde_json::from_str::<Value>(&before).ok());
            event["data"]["previous_attributes"] =
                before.map_or_else(|| json!({}), |before| previous(&before, object));
        }
        event["request"] = json!({ "id": self.request_id, "idempotency_key": self.key });
        self.add_quietly("events", &event);
        self.events.push(event);
    }
}

/// The attributes that changed, with the values that they had. Of a hash they are within it, and an array is shown
/// whole (<https://docs.stripe.com/api/events/object#event_object-data-previous_attributes>).
fn previous(before: &Value, now: &Value) -> Value {
    let (Some(was), Some(is)) = (before.as_object(), now.as_object()) else { return before.clone() };
    let names = was.keys().chain(is.keys().filter(|name| !was.contains_key(*name)));
    let changed = names.map(String::as_str).filter(|name| before[*name] != now[*name]);
    Value::Object(changed.map(|name| (name.to_owned(), previous(&before[name], &now[name]))).collect())
}

/// Sets what the parameters say, as far as an object shows it.
pub(super) fn merge(resource: &Resource, object: &mut Value, params: &Map<String, Value>) {
    for (name, sent) in params {
        if name == "metadata" {
            merge_metadata(&mut object["metadata"], sent);
        } else if resource.shows(name) && name != "id" {
            let unset = || resource.fields.get(name).cloned().unwrap_or(Value::Null);
            object[name] = match sent {
                Value::Null => unset(),
                Value::Object(sent) => {
                    let held = object[name].as_object().cloned();
                    let shape = || resource.shapes.get(name).and_then(Value::as_object).cloned();
                    let mut whole = held.or_else(shape).unwrap_or_default();
                    whole.extend(sent.iter().map(|(name, value)| (name.clone(), completed(name, value))));
                    Value::Object(whole)
                }
                sent => sent.clone(),
            };
        }
    }
}

/// Metadata is merged field by field (<https://docs.stripe.com/api/metadata>).
pub(super) fn merge_metadata(held: &mut Value, sent: &Value) {
    let Value::Object(sent) = sent else {
        *held = json!({});
        return;
    };
    let mut whole = held.as_object().cloned().unwrap_or_default();
    for (name, value) in sent {
        if value.is_null() {
            whole.remove(name);
        } else {
            whole.insert(name.clone(), value.clone());
        }
    }
    *held = Value::Object(whole);
}

/// An address has all its fields.
fn completed(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(sent) if name == "address" => {
            let names = ["city", "country", "line1", "line2", "postal_code", "state"];
            let mut whole: Map<String, Value> =
                names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
            whole.extend(sent.clone());
            Value::Object(whole)
        }
        other => other.clone(),
    }
}

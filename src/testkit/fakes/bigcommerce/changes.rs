//! Changes and removals: of one by its id, of several in one request, of all that a filter names.

use http::Method;
use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::hooks;
use super::items::{V3, not_found};
use super::machine::{Call, Machine, State, problem};
use super::routes::{is_collection, is_item};

impl Machine {
    pub(super) fn change(&self, state: &mut State, call: &Call<'_>) -> Reply {
        match (&call.request.method, is_collection(call.route), is_item(call.route)) {
            (&Method::PUT, true, _) if !call.is_v2() => self.change_several(state, call),
            (&Method::DELETE, true, _) => self.remove_several(state, call),
            (_, _, true) => self.change_one(state, call),
            _ => not_found(call),
        }
    }

    fn change_one(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let collection = call.collection();
        let (parent, id) = collection.rsplit_once('/').unwrap_or((collection.as_str(), ""));
        let (what, changed) = match call.request.method {
            Method::PUT => ("updated", state.items.update(call.store, parent, id, &call.body).map(Some)),
            Method::DELETE => ("deleted", state.items.remove(call.store, parent, id).then_some(None)),
            _ => ("", None),
        };
        let Some(changed) = changed else { return not_found(call) };
        self.changed(state, call, parent, what, id);
        match changed {
            None => Reply::empty(204),
            Some(changed) if call.is_v2() => Reply::json(200, &changed),
            Some(changed) => Reply::json(200, &V3 { data: changed, meta: json!({}) }),
        }
    }

    /// V3 takes an array, and each item names its id. All or nothing, of which the documents say neither.
    fn change_several(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let collection = call.collection();
        let Some(items) = call.body.as_array().filter(|items| !items.is_empty()) else {
            return self.not_json_of("jsarray");
        };
        if items.len() > ITEMS_MAX {
            return self.fixtures.reply("payload_too_large");
        }
        let id = |item: &Value| item["id"].to_string();
        if items.iter().any(|item| state.items.one(call.store, &collection, &id(item)).is_none()) {
            return problem(422, "One or more of the ids do not exist.");
        }
        let mut changed = Vec::new();
        for item in items {
            changed.extend(state.items.update(call.store, &collection, &id(item), item));
            self.changed(state, call, &collection, "updated", &id(item));
        }
        Reply::json(200, &json!({ "data": changed, "meta": {} }))
    }

    /// V3 needs a filter, such as `id:in`; V2 empties the collection.
    fn remove_several(&self, state: &mut State, call: &Call<'_>) -> Reply {
        if !call.is_v2() && call.request.url.query_pairs().next().is_none() {
            return problem(422, "At least one filter is required, such as id:in.");
        }
        let collection = call.collection();
        for id in state.items.ids(call, &collection, self.apply_after) {
            state.items.remove(call.store, &collection, &id);
            self.changed(state, call, &collection, "deleted", &id);
        }
        Reply::empty(204)
    }

    fn changed(&self, state: &State, call: &Call<'_>, collection: &str, what: &str, id: &str) {
        self.effect(call, None, &Value::from(id), 0);
        let id = id.parse::<u64>().map_or_else(|_| Value::from(id), Value::from);
        hooks::tell(&self.outbox, &state.items, call, collection, what, &id);
    }
}

/// The documented limit of one request.
const ITEMS_MAX: usize = 10;

//! Changes and removals of what a store holds: one by its id, or several.

use http::Method;
use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::hooks;
use super::items::{Asks, V3, not_allowed, not_found, question};
use super::machine::{Call, Machine, State, problem};
use super::parts::saved;
use super::routes::{Route, parent_of, route_of};

impl Machine {
    pub(super) fn change(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let is = |method: Method| call.request.method == method;
        let reply = match (route_of(call.route), parent_of(call.route)) {
            (Some(route), _) if is(Method::PUT) && route.takes('U') => {
                question(call, route, Asks::Nothing).map(|_| self.change_several(state, call))
            }
            (Some(route), _) if is(Method::DELETE) && route.takes('D') => {
                self.remove_several(state, call, route)
            }
            (_, Some(route)) if is(Method::PUT) || is(Method::DELETE) => {
                question(call, route, Asks::Nothing).map(|_| self.change_one(state, call))
            }
            (None, None) => Ok(not_found(call)),
            _ => Ok(not_allowed(call)),
        };
        reply.unwrap_or_else(|refused| refused)
    }

    fn change_one(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let collection = call.collection();
        let (parent, id) = collection.rsplit_once('/').unwrap_or((collection.as_str(), ""));
        if state.items.one(call.store, parent, id).is_none() {
            return not_found(call);
        }
        if call.request.method == Method::DELETE {
            state.items.remove(call.store, parent, id);
            self.changed(state, call, parent, "deleted", id, 0);
            return Reply::empty(204);
        }
        if !call.body.is_object() {
            return self.not_an_object(call);
        }
        if let Some(refused) = self.conflict(state, call, parent, Some(id), &call.body) {
            return refused;
        }
        let (fields, unsaved) = saved(&state.items, call.store, parent, Some(id), &call.body);
        let changed = state.items.update(call.store, parent, id, &fields, call.now);
        let Some(changed) = changed else { return not_found(call) };
        self.changed(state, call, parent, "updated", id, 0);
        match call.is_v2() {
            true => Reply::json(200, &changed),
            false if unsaved.is_empty() => Reply::json(200, &V3 { data: changed, meta: json!({}) }),
            false => self.in_part(&json!(changed), &unsaved),
        }
    }

    /// V3 takes an array, and each item names its id.
    fn change_several(&self, state: &mut State, call: &Call<'_>) -> Reply {
        if call.route == ["v3", "inventory", "adjustments", "absolute"] {
            return self.adjust(state, call);
        }
        let collection = call.collection();
        let Some(items) = call.body.as_array().filter(|items| !items.is_empty()) else {
            return self.not_json_of("jsarray");
        };
        if let Some(refused) = self.is_no_batch(items) {
            return refused;
        }
        let id = |item: &Value| item["id"].to_string();
        let judge = |state: &State, item: &Value| {
            if state.items.one(call.store, &collection, &id(item)).is_none() {
                return Some(problem(422, "One or more of the ids do not exist."));
            }
            self.conflict(state, call, &collection, Some(&id(item)), item)
        };
        let apply = |state: &mut State, part: usize, item: &Value| {
            let (fields, unsaved) = saved(&state.items, call.store, &collection, Some(&id(item)), item);
            let changed = state.items.update(call.store, &collection, &id(item), &fields, call.now);
            self.changed(state, call, &collection, "updated", &id(item), part);
            (json!(changed), unsaved)
        };
        self.batch(state, &collection, items, judge, apply)
    }

    /// V3 needs a filter, such as `id:in`; V2 empties the collection.
    fn remove_several(&self, state: &mut State, call: &Call<'_>, route: &Route) -> Result<Reply, Reply> {
        let ids = state.items.ids(call, route, self.apply_after)?;
        if !call.is_v2() && call.request.url.query_pairs().next().is_none() {
            return Ok(problem(422, "At least one filter is required, such as id:in."));
        }
        let collection = call.collection();
        for (part, id) in ids.into_iter().enumerate() {
            state.items.remove(call.store, &collection, &id);
            self.changed(state, call, &collection, "deleted", &id, part);
        }
        Ok(Reply::empty(204))
    }

    fn changed(&self, state: &State, call: &Call<'_>, collection: &str, what: &str, id: &str, part: usize) {
        self.effect(call, None, &Value::from(id), part);
        let id = id.parse::<u64>().map_or_else(|_| Value::from(id), Value::from);
        hooks::tell(&self.outbox, &state.items, call, collection, what, &id);
    }

    /// What a second of a unique field is answered, if another than `id` has it.
    pub(super) fn conflict(
        &self,
        state: &State,
        call: &Call<'_>,
        collection: &str,
        id: Option<&str>,
        fields: &Value,
    ) -> Option<Reply> {
        let unique: &[&str] = match collection {
            "v3/catalog/products" => &["name", "sku"],
            "v3/catalog/brands" | "v3/catalog/categories" | "v3/pricelists" | "v2/products" => &["name"],
            "v2/coupons" => &["code"],
            "v2/customers" | "v3/customers" => &["email"],
            _ => &[],
        };
        let is_empty = |value: &Value| value.is_null() || value == "";
        let taken = unique.iter().find(|field| {
            let value = &fields[**field];
            !is_empty(value) && state.items.holds(call.store, collection, field, value, id)
        })?;
        Some(self.taken(collection, taken))
    }
}

//! Changes and removals of what a store holds: one by its id, or several.

use http::Method;
use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::contract::{Resource, Taken};
use super::fields::derived;
use super::hooks;
use super::items::{ARCHIVE, Asks, ORDERS, SHARED, V3, id_text, is_base, not_allowed, not_found, question};
use super::machine::{Call, Machine, State, problem};
use super::parents::unknown_parent;
use super::parts::saved;
use super::routes::{Route, parent_of, route_of};
use super::stock::PRODUCTS;
use super::writes::{object, read_all};

impl Machine {
    pub(super) fn change(&self, state: &mut State, call: &mut Call<'_>) -> Result<Reply, Reply> {
        let is = |method: Method| call.request.method == method;
        let of_one = if is(Method::PUT) { 'U' } else { 'D' };
        match (route_of(call.route), parent_of(call.route)) {
            (Some(route), _) if is(Method::PUT) && route.takes('U') => {
                question(call, route, Asks::Nothing)?;
                self.change_several(state, call)
            }
            (Some(route), _) if is(Method::DELETE) && route.takes('D') => {
                self.remove_several(state, call, route)
            }
            (_, Some(route)) if route.one.is_empty() => Err(not_found(call)),
            (_, Some(route)) if (is(Method::PUT) || is(Method::DELETE)) && route.one.contains(of_one) => {
                question(call, route, Asks::Nothing)?;
                self.change_one(state, call)
            }
            (None, None) => Err(not_found(call)),
            _ => Err(not_allowed(call)),
        }
    }

    fn change_one(&self, state: &mut State, call: &mut Call<'_>) -> Result<Reply, Reply> {
        if let Some(refused) = unknown_parent(&state.items, call, None) {
            return Err(refused);
        }
        let is_removal = call.request.method == Method::DELETE;
        // The line of a cart is in the cart.
        let line =
            if let ["v3", "carts", cart, "items", line] = call.route { Some([*cart, *line]) } else { None };
        if is_removal && let Some(line) = line {
            return self.remove_line(state, call, line);
        }
        let collection = call.collection();
        let (parent, id) = collection.rsplit_once('/').unwrap_or((collection.as_str(), ""));
        let held = state.items.one(call.store, parent, id);
        let Some(held) = held.or_else(|| line.map(|_| Value::Null)) else { return Err(not_found(call)) };
        if is_removal {
            if is_variant(parent) && is_base(&held) {
                return Err(problem(422, "The fake does not implement the removal of a base variant."));
            }
            state.items.remove(call.store, parent, id, call.now);
            self.removed(state, call, parent, &held, 0);
            // "When a webhook is deleted, it is returned in the response as a 200 OK."
            return Ok(match parent {
                "v3/hooks" => Reply::json(200, &V3 { data: held, meta: json!({}) }),
                _ => Reply::empty(204),
            });
        }
        let Some(taken) = resource(parent).and_then(Resource::update) else { return Err(not_allowed(call)) };
        call.body = self.read(call, taken)?;
        match (call.route, line) {
            (_, Some(line)) => self.change_line(state, call, taken.status, line),
            (["v3", "carts", cart], _) => self.change_cart(state, call, taken.status, cart),
            (["v2", "orders", _], _) => self.edit_order(state, call, taken.status, &held),
            _ => self.change_held(state, call, taken, (parent, id), &held),
        }
    }

    fn change_held(
        &self,
        state: &mut State,
        call: &Call<'_>,
        taken: &Taken,
        (parent, id): (&str, &str),
        held: &Value,
    ) -> Result<Reply, Reply> {
        if let Some(refused) = self.conflict(state, call, parent, Some(id), &call.body) {
            return Err(refused);
        }
        if is_variant(parent) && is_base(held) {
            self.check_shared(state, call, held)?;
        }
        let (fields, unsaved) = saved(&state.items, call.store, parent, Some(id), &call.body);
        self.update(state, call, (parent, id), &fields);
        self.made(call, None, &held["id"], 0);
        hooks::tell(&self.outbox, &state.items, call, parent, "updated", held);
        let Some(changed) = state.items.one(call.store, parent, id) else { return Err(not_found(call)) };
        Ok(match call.is_v2() {
            true => Reply::json(taken.status, &changed),
            false if unsaved.is_empty() => Reply::json(taken.status, &V3 { data: changed, meta: json!({}) }),
            false => self.in_part(&changed, &unsaved),
        })
    }

    /// The refusal of what a base variant shares with its product, and the product would not have.
    fn check_shared(&self, state: &State, call: &Call<'_>, base: &Value) -> Result<(), Reply> {
        let shared =
            SHARED.iter().filter_map(|name| Some(((*name).to_owned(), call.body.get(*name)?.clone())));
        let shared: Value = shared.collect();
        if SHARED.iter().any(|name| shared.get(*name).is_some_and(Value::is_null)) {
            let text = "The fake does not implement null for what a base variant shares with its product.";
            return Err(problem(422, text));
        }
        if shared["inventory_level"].as_i64().is_some_and(|level| level < 0) {
            return Err(problem(422, "The stock must not be negative."));
        }
        let product = id_text(&base["product_id"]);
        self.conflict(state, call, PRODUCTS, Some(&product), &shared).map_or(Ok(()), Err)
    }

    /// Sets what an object shows. The members that a base variant has of its product are set there.
    pub(super) fn update(
        &self,
        state: &mut State,
        call: &Call<'_>,
        (collection, id): (&str, &str),
        fields: &Value,
    ) {
        let Some(held) = state.items.one(call.store, collection, id) else { return };
        if is_variant(collection) && is_base(&held) {
            let shared = SHARED.iter().filter(|name| !fields[**name].is_null());
            let shared: Value = shared.map(|name| ((*name).to_owned(), fields[*name].clone())).collect();
            state.items.update(call.store, PRODUCTS, &id_text(&held["product_id"]), &shared, call.now);
        }
        let (mut fields, mut all) = (object(fields), object(&held));
        fields.retain(|name, _| all.contains_key(name));
        all.extend(fields.clone());
        fields.extend(derived(collection, &all));
        state.items.update(call.store, collection, id, &Value::Object(fields), call.now);
    }

    /// V3 takes an array, and each item names its id.
    fn change_several(&self, state: &mut State, call: &mut Call<'_>) -> Result<Reply, Reply> {
        let Some(taken) = Resource::of(call.route).and_then(Resource::several) else {
            return Err(not_allowed(call));
        };
        if call.route == ["v3", "inventory", "adjustments", "absolute"] {
            call.body = self.read(call, taken)?;
            return self.adjust(state, call, taken.status, false);
        }
        let call = &*call;
        let collection = call.collection();
        let Some(sent) = call.body.as_array().filter(|items| !items.is_empty()) else {
            return Err(self.not_json_of("jsarray"));
        };
        if let Some(refused) = self.is_no_batch(sent) {
            return Err(refused);
        }
        let items = read_all(self, call, taken, sent)?;
        let id = |item: &Value| item["id"].to_string();
        let judge = |state: &State, item: &Value| {
            if !state.items.has(call.store, &collection, &id(item)) {
                return Some(problem(422, "One or more of the ids do not exist."));
            }
            self.conflict(state, call, &collection, Some(&id(item)), item)
        };
        let apply = |state: &mut State, part: usize, item: &Value| {
            let id = id(item);
            let (fields, unsaved) = saved(&state.items, call.store, &collection, Some(&id), item);
            self.update(state, call, (&collection, &id), &fields);
            let changed = state.items.one(call.store, &collection, &id).unwrap_or_default();
            self.made(call, None, &changed["id"], part);
            hooks::tell(&self.outbox, &state.items, call, &collection, "updated", &changed);
            (changed, unsaved)
        };
        Ok(self.batch(state, &collection, &items, judge, apply))
    }

    /// V3 needs a filter, such as `id:in`; V2 empties the collection.
    fn remove_several(&self, state: &mut State, call: &Call<'_>, route: &Route) -> Result<Reply, Reply> {
        if let Some(refused) = unknown_parent(&state.items, call, None) {
            return Err(refused);
        }
        let ids = state.items.ids(call, route, self.settings.apply_after)?;
        if !call.is_v2() && call.request.url.query_pairs().next().is_none() {
            // "If not provided, a 204 is returned, with no changes to the data."
            return match call.route {
                ["v3", "customers"] => Ok(Reply::empty(204)),
                _ => Err(problem(422, "At least one filter is required, such as id:in.")),
            };
        }
        let collection = call.collection();
        for (part, id) in ids.into_iter().enumerate() {
            let Some(held) = state.items.one(call.store, &collection, &id) else { continue };
            state.items.remove(call.store, &collection, &id, call.now);
            self.removed(state, call, &collection, &held, part);
        }
        Ok(Reply::empty(204))
    }

    fn removed(&self, state: &mut State, call: &Call<'_>, collection: &str, held: &Value, part: usize) {
        self.made(call, None, &Value::from(id_text(&held["id"])), part);
        if collection == ORDERS {
            let mut archived = held.clone();
            archived["is_deleted"] = true.into();
            state.items.add(call.store, ARCHIVE, &archived, call.now);
        }
        if let ["v2", "orders", order, "shipments", ..] = call.route {
            self.ship(state, call, order, held, false);
        }
        hooks::tell(&self.outbox, &state.items, call, collection, "deleted", held);
    }
}

fn is_variant(collection: &str) -> bool {
    collection.starts_with(PRODUCTS) && collection.ends_with("/variants")
}

fn resource(collection: &str) -> Option<&'static Resource> {
    Resource::of(&collection.split('/').collect::<Vec<&str>>())
}

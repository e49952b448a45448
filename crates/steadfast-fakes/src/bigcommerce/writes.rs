//! The objects that each POST makes, and the POSTs that the store refuses.

use http::Method;
use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::contract::{Resource, Taken, fields_of};
use super::fields::finish;
use super::items::{Asks, V3, id_text, not_allowed, not_found, product_of, question};
use super::machine::{Call, Machine, State, problem};
use super::parents::unknown_parent;
use super::parts::saved;
use super::routes::{Route, parent_of, route_of};
use super::stock::PRODUCTS;
use super::{hooks, keys};

impl Machine {
    pub(super) fn write(&self, state: &mut State, call: &mut Call<'_>) -> Reply {
        let reply = if call.request.method == Method::POST {
            self.post(state, call)
        } else {
            self.change(state, call)
        };
        reply.unwrap_or_else(|refused| refused)
    }

    fn post(&self, state: &mut State, call: &mut Call<'_>) -> Result<Reply, Reply> {
        self.is_post(call)?;
        if let Some(refused) = unknown_parent(&state.items, call, None) {
            return Err(refused);
        }
        let Some(taken) = Resource::of(call.route).and_then(Resource::create) else {
            return Err(not_found(call));
        };
        match call.route {
            ["v3", "customers"] | ["v3", "customers", "addresses"] => return self.people(state, call, taken),
            _ => call.body = self.read(call, taken)?,
        }
        let (call, status) = (&*call, taken.status);
        match call.route {
            ["v2", "orders"] => self.order(state, call, status, None),
            ["v3", "checkouts", cart, "orders"] => {
                let cart = state.items.one(call.store, "v3/carts", cart);
                self.order(state, call, status, Some(&cart.unwrap_or_default()))
            }
            ["v2", "orders", order, "shipments"] => self.shipment(state, call, order),
            ["v3", "carts"] => self.cart(state, call, status),
            ["v3", "carts", cart, "items"] => self.add_lines(state, call, status, cart),
            ["v3", "orders", order, "payment_actions", "refunds"] => self.refund(state, call, status, order),
            ["v3", "orders", order, "payment_actions", "refund_quotes"] => {
                self.refund_quote(state, call, status, order)
            }
            ["v3", "payments", "access_tokens"] => self.access_token(state, call, status),
            ["payments"] => self.payment(state, call, status),
            ["v3", "inventory", "adjustments", "relative"] => self.adjust(state, call, status, true),
            ["v3", "catalog", "products"] => self.product(state, call, status),
            _ => self.plain(state, call, status),
        }
    }

    /// The refusal of a POST that is none of the path's: the method, a parameter, or a body that is no object.
    fn is_post(&self, call: &Call<'_>) -> Result<(), Reply> {
        let route = route_of(call.route);
        if route.is_some_and(|route| !route.takes('P')) || route.is_none() && parent_of(call.route).is_some()
        {
            let is_found = !matches!(call.route, ["v3", "payments", "access_tokens"]);
            if is_found {
                return Err(not_allowed(call));
            }
        }
        question(call, route.unwrap_or(&Route::OTHER), Asks::Nothing)?;
        let is_array = matches!(call.route, ["v3", "customers"] | ["v3", "customers", "addresses"]);
        if is_array || call.body.is_object() { Ok(()) } else { Err(self.not_an_object(call)) }
    }

    fn product(&self, state: &mut State, call: &Call<'_>, status: u16) -> Result<Reply, Reply> {
        let collection = call.collection();
        if let Some(refused) = self.conflict(state, call, &collection, None, &call.body) {
            return Err(refused);
        }
        let (fields, unsaved) = saved(&state.items, call.store, &collection, None, &call.body);
        let made = self.make(state, call, &collection, object(&fields));
        Ok(if unsaved.is_empty() { created(status, &made) } else { self.in_part(&made, &unsaved) })
    }

    /// Makes an object that has no rules but those of its body, and that some of its fields are unique.
    fn plain(&self, state: &mut State, call: &Call<'_>, status: u16) -> Result<Reply, Reply> {
        let collection = call.collection();
        if let Some(refused) = self.conflict(state, call, &collection, None, &call.body) {
            return Err(refused);
        }
        let made = self.make(state, call, &collection, object(&call.body));
        Ok(if call.is_v2() { Reply::json(status, &made) } else { created(status, &made) })
    }

    pub(super) fn make(
        &self,
        state: &mut State,
        call: &Call<'_>,
        collection: &str,
        fields: Map<String, Value>,
    ) -> Value {
        let id = Value::from(state.items.next_id());
        self.make_with_id(state, call, collection, id, fields)
    }

    pub(super) fn make_with_id(
        &self,
        state: &mut State,
        call: &Call<'_>,
        collection: &str,
        id: Value,
        fields: Map<String, Value>,
    ) -> Value {
        let key = keys::of(call).into_iter().next().flatten();
        self.put_down(state, call, (collection, id), fields, (key, 0))
    }

    /// One item of a batch.
    pub(super) fn make_part(
        &self,
        state: &mut State,
        call: &Call<'_>,
        collection: &str,
        fields: Map<String, Value>,
        (key, part): (Option<String>, usize),
    ) -> Value {
        let id = Value::from(state.items.next_id());
        self.put_down(state, call, (collection, id), fields, (key, part))
    }

    /// Adds an object, counts its effect, and tells the webhooks of it.
    fn put_down(
        &self,
        state: &mut State,
        call: &Call<'_>,
        (collection, id): (&str, Value),
        fields: Map<String, Value>,
        (key, part): (Option<String>, usize),
    ) -> Value {
        let value = self.new_one(state, call, collection, id, fields);
        self.made(call, key.as_deref(), &value["id"], part);
        hooks::tell(&self.outbox, &state.items, call, collection, "created", &value);
        value
    }

    /// A part of what was made, which is no effect of its own. Gives its id.
    pub(super) fn hold(
        &self,
        state: &mut State,
        call: &Call<'_>,
        collection: &str,
        fields: Map<String, Value>,
    ) -> Value {
        let id = Value::from(state.items.next_id());
        self.new_one(state, call, collection, id, fields)["id"].take()
    }

    fn new_one(
        &self,
        state: &mut State,
        call: &Call<'_>,
        collection: &str,
        id: Value,
        sent: Map<String, Value>,
    ) -> Value {
        let mut fields = fields_of(collection, call.now);
        // A member that an object does not show is gone: the vendor takes it and does not give it back.
        fields.extend(sent.into_iter().filter(|(name, _)| fields.contains_key(name)).collect::<Map<_, _>>());
        fields.insert("id".to_owned(), id);
        finish(&state.items, call.store, collection, &mut fields);
        let value = Value::Object(fields);
        state.items.add(call.store, collection, &value, call.now);
        value
    }

    /// The answer to a second of a unique field, if another than `id` has it; and to a body that names another that
    /// there is not.
    pub(super) fn conflict(
        &self,
        state: &State,
        call: &Call<'_>,
        collection: &str,
        id: Option<&str>,
        fields: &Value,
    ) -> Option<Reply> {
        let unique: &[&str] = match collection {
            "v3/catalog/products" => &["name"],
            "v3/catalog/brands"
            | "v3/catalog/categories"
            | "v3/pricelists"
            | "v2/products"
            | "v2/brands"
            | "v2/categories" => &["name"],
            "v2/coupons" => &["code"],
            "v2/customers" | "v3/customers" => &["email"],
            "v2/hooks" | "v3/hooks" => return self.is_no_hook(call, fields),
            _ => &[],
        };
        let is_category = collection.ends_with("/categories");
        let held = id.filter(|_| is_category).and_then(|id| state.items.one(call.store, collection, id));
        let held = held.unwrap_or_default();
        let of = |name: &str| if fields[name].is_null() { &held[name] } else { &fields[name] };
        // A category shares its name with none below the same parent.
        let parent = |category: &Value| category.as_u64().unwrap_or(0);
        let beside = |other: &Value| !is_category || parent(&other["parent_id"]) == parent(of("parent_id"));
        let taken = |field: &&&str| {
            let value = of(field);
            let holds = |collection, id| state.items.holds(call.store, collection, field, value, id, beside);
            // A customer of V2 is one of V3's.
            let is_customer = collection == "v2/customers";
            !is_empty(value) && (holds(collection, id) || is_customer && holds("v3/customers", None))
        };
        let taken = unique.iter().find(taken).map(|field| self.taken(collection, field));
        let taken = taken.or_else(|| {
            has_twin(state, call, collection, id, &fields["sku"]).then(|| self.taken(collection, "sku"))
        });
        taken.or_else(|| unknown_other(state, call, collection, fields))
    }
}

/// Whether another product or variant has the SKU of one.
fn has_twin(state: &State, call: &Call<'_>, collection: &str, id: Option<&str>, sku: &Value) -> bool {
    let has_sku = |product, variant| state.items.has_sku(call.store, sku, product, variant);
    match product_of(collection) {
        _ if is_empty(sku) => false,
        // A new variant is none of those that there are.
        Some(product) => has_sku(Some(product), id.or(Some(""))),
        None => collection == PRODUCTS && has_sku(id, None),
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value == ""
}

/// The refusal of a product whose brand or category is not held, or of a category whose parent is not. Of a product that
/// is documented as a conflict. Of a category no more is documented than that invalid data is a 422.
fn unknown_other(state: &State, call: &Call<'_>, collection: &str, fields: &Value) -> Option<Reply> {
    let is_unknown = |collection: &str, id: &Value| {
        !id.is_null() && *id != 0 && !state.items.has(call.store, collection, &id_text(id))
    };
    match collection {
        "v3/catalog/products" => {
            let categories = fields["categories"].as_array().into_iter().flatten();
            if is_unknown("v3/catalog/brands", &fields["brand_id"]) {
                return Some(problem(409, "The brand_id is invalid."));
            }
            let mut categories = categories.filter(|id| is_unknown("v3/catalog/categories", id));
            categories.next().map(|id| problem(409, &format!("The category_id {id} is invalid.")))
        }
        "v3/catalog/categories" => is_unknown(collection, &fields["parent_id"])
            .then(|| problem(422, "The parent category does not exist.")),
        _ => None,
    }
}

/// A V3 answer to a create.
pub(super) fn created(status: u16, made: &Value) -> Reply {
    Reply::json(status, &V3 { data: made, meta: json!({}) })
}

/// The members of an object.
pub(super) fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// The objects of a batch, as [`Machine::read_part`] gives them.
pub(super) fn read_all(
    machine: &Machine,
    call: &Call<'_>,
    taken: &Taken,
    items: &[Value],
) -> Result<Vec<Value>, Reply> {
    items.iter().map(|item| machine.read_part(call, taken, item)).collect()
}

//! Customers and their addresses, several at once in V3.

use serde_json::Value;

use super::super::fixture::Reply;
use super::keys;
use super::machine::{Call, Machine, State};
use super::writes::without_v2;

impl Machine {
    pub(super) fn customers(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let Some(customers) = call.body.as_array() else {
            return self.not_json_of("jsarray");
        };
        if let Some(refused) = self.is_no_batch(customers) {
            return refused;
        }
        let keys = keys::of(call);
        let judge =
            |state: &State, customer: &Value| self.conflict(state, call, "v3/customers", None, customer);
        let apply = |state: &mut State, part: usize, customer: &Value| {
            let key = keys[part].clone();
            (self.make_part(state, call, "v3/customers", customer.clone(), key, part), Vec::new())
        };
        self.batch(state, "v3/customers", customers, judge, apply)
    }

    /// Each is of a customer that the store has.
    pub(super) fn addresses(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let Some(addresses) = call.body.as_array() else {
            return self.not_json_of("jsarray");
        };
        if !are_objects(addresses) {
            return self.not_json_of("jsobject");
        }
        let judge = |state: &State, address: &Value| {
            let id = address["customer_id"].to_string();
            let is_held = state.items.one(call.store, "v3/customers", &id).is_some();
            (!is_held).then(|| self.without("customer_id", "the id of a customer"))
        };
        let apply = |state: &mut State, part: usize, address: &Value| {
            (self.make_part(state, call, "v3/customers/addresses", address.clone(), None, part), Vec::new())
        };
        self.batch(state, "v3/customers/addresses", addresses, judge, apply)
    }

    pub(super) fn customer_v2(&self, state: &mut State, call: &Call<'_>) -> Reply {
        let email = &call.body["email"];
        let names = ["first_name", "last_name", "email"];
        if let Some(name) = names.iter().find(|name| call.body[**name].as_str().is_none_or(str::is_empty)) {
            return without_v2(name);
        }
        let taken = ["v2/customers", "v3/customers"];
        if taken.iter().any(|collection| state.items.holds(call.store, collection, "email", email, None)) {
            return self.fixtures.reply("v2_error_details");
        }
        Reply::json(201, &self.make(state, call, "v2/customers", call.body.clone()))
    }

    /// The refusal of a batch that has too many items, or one that is no object.
    pub(super) fn is_no_batch(&self, items: &[Value]) -> Option<Reply> {
        if items.len() > ITEMS_MAX {
            return Some(self.fixtures.reply("payload_too_large"));
        }
        (!are_objects(items)).then(|| self.not_json_of("jsobject"))
    }
}

/// Whether all of a batch's items are objects.
fn are_objects(items: &[Value]) -> bool {
    items.iter().all(Value::is_object)
}

/// The documented limit of one request.
const ITEMS_MAX: usize = 10;

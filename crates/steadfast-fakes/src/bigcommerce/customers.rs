//! Customers and their addresses, several at once in V3.

use serde_json::Value;

use super::super::fixture::Reply;
use super::contract::Taken;
use super::keys;
use super::machine::{Call, Machine, State};
use super::writes::{object, read_all};

impl Machine {
    /// Several customers, or several addresses. Each address is of a customer that the store has.
    pub(super) fn people(&self, state: &mut State, call: &Call<'_>, taken: &Taken) -> Result<Reply, Reply> {
        let collection = call.collection();
        let are_customers = collection == CUSTOMERS;
        let Some(sent) = call.body.as_array() else {
            return Err(self.not_json_of("jsarray"));
        };
        if are_customers && let Some(refused) = self.is_no_batch(sent) {
            return Err(refused);
        }
        if !are_objects(sent) {
            return Err(self.not_json_of("jsobject"));
        }
        let people = read_all(self, call, taken, sent)?;
        let keys = keys::of(call);
        let judge = |state: &State, one: &Value| {
            if are_customers {
                return self.conflict(state, call, CUSTOMERS, None, one);
            }
            let is_held = state.items.has(call.store, CUSTOMERS, &one["customer_id"].to_string());
            (!is_held).then(|| self.without(&["customer_id".to_owned()]))
        };
        let apply = |state: &mut State, part: usize, one: &Value| {
            let key = keys.get(part).cloned().flatten();
            (self.make_part(state, call, &collection, object(one), (key, part)), Vec::new())
        };
        Ok(self.batch(state, &collection, &people, judge, apply))
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

const CUSTOMERS: &str = "v3/customers";
/// The documented limit of one request.
const ITEMS_MAX: usize = 10;

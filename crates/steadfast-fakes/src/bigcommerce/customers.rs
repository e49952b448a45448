//! Customers and their addresses, several at once in V3.

use serde_json::Value;

use super::super::fixture::Reply;
use super::contract::Taken;
use super::keys;
use super::machine::{Call, Machine, State};
use super::writes::{object, read_all};

impl Machine {
    pub(super) fn customers(
        &self,
        state: &mut State,
        call: &Call<'_>,
        taken: &Taken,
    ) -> Result<Reply, Reply> {
        let Some(sent) = call.body.as_array() else {
            return Err(self.not_json_of("jsarray"));
        };
        if let Some(refused) = self.is_no_batch(sent) {
            return Err(refused);
        }
        let customers = read_all(self, call, taken, sent)?;
        let keys = keys::of(call);
        let judge =
            |state: &State, customer: &Value| self.conflict(state, call, "v3/customers", None, customer);
        let apply = |state: &mut State, part: usize, customer: &Value| {
            let key = keys[part].clone();
            (self.make_part(state, call, "v3/customers", object(customer), (key, part)), Vec::new())
        };
        Ok(self.batch(state, "v3/customers", &customers, judge, apply))
    }

    /// Each is of a customer that the store has.
    pub(super) fn addresses(
        &self,
        state: &mut State,
        call: &Call<'_>,
        taken: &Taken,
    ) -> Result<Reply, Reply> {
        let Some(sent) = call.body.as_array() else {
            return Err(self.not_json_of("jsarray"));
        };
        if !are_objects(sent) {
            return Err(self.not_json_of("jsobject"));
        }
        let addresses = read_all(self, call, taken, sent)?;
        let judge = |state: &State, address: &Value| {
            let id = address["customer_id"].to_string();
            let is_held = state.items.has(call.store, "v3/customers", &id);
            (!is_held).then(|| self.without(&["customer_id".to_owned()]))
        };
        let apply = |state: &mut State, part: usize, address: &Value| {
            let fields = object(address);
            (self.make_part(state, call, "v3/customers/addresses", fields, (None, part)), Vec::new())
        };
        Ok(self.batch(state, "v3/customers/addresses", &addresses, judge, apply))
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

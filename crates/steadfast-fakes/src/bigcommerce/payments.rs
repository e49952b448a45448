//! Payments: the token for an order, and the payment that it is used for.

use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::contract::fields_of;
use super::items::{V3, amount, id_text, not_found};
use super::machine::{Call, Machine, State, problem};
use super::orders::{AWAITING_FULFILLMENT, INCOMPLETE};
use super::{hooks, keys};

impl Machine {
    /// The token that pays for an order.
    pub(super) fn access_token(
        &self,
        state: &mut State,
        call: &Call<'_>,
        status: u16,
    ) -> Result<Reply, Reply> {
        let order = id_text(&call.body["order"]["id"]);
        if !state.items.has(call.store, "v2/orders", &order) {
            return Err(not_found(call));
        }
        let token = format!("{order}.{}", state.items.next_id());
        state.tokens.insert((call.store.to_owned(), token.clone()), order);
        Ok(Reply::json(status, &V3 { data: json!({ "id": token }), meta: json!({}) }))
    }

    /// A payment of all that an order comes to, and its transaction. "Orders must be in Incomplete Status", and after a
    /// successful payment the order "is then automatically moved to an Awaiting Fulfillment status". Where it came from a
    /// cart, "once the order is paid, the cart is deleted".
    pub(super) fn payment(&self, state: &mut State, call: &Call<'_>, status: u16) -> Result<Reply, Reply> {
        let token = keys::payment_token(&call.request.headers).unwrap_or_default().to_owned();
        let Some(order) = state.tokens.get(&(call.store.to_owned(), token.clone())).cloned() else {
            return Err(problem(401, "A valid payment access token is required."));
        };
        let held = state.items.one(call.store, "v2/orders", &order).unwrap_or_default();
        if held["status_id"] != INCOMPLETE {
            return Err(self.fixtures.reply("payment_order_invalid"));
        }
        // Who pays second "will encounter an out-of-stock message". Its form here is composed.
        self.check_taking_of(state, call, &order, &AWAITING_FULFILLMENT.into())?;
        let id = state.items.next_id();
        let payment = uuid::Builder::from_custom_bytes(u128::from(id).to_be_bytes()).into_uuid().to_string();
        let mut answer = self.fixtures.reply("payment_ok").value();
        answer["data"]["id"] = Value::from(payment.as_str());
        let collection = format!("v3/orders/{order}/transactions");
        let mut transaction = fields_of(&collection, call.now);
        for (name, value) in [
            ("id", Value::from(id)),
            ("order_id", Value::from(order.as_str())),
            ("event", Value::from("authorization")),
            ("method", Value::from("credit_card")),
            ("amount", Value::from(amount(&held["total_inc_tax"]))),
            ("currency", held["currency_code"].clone()),
            ("gateway", Value::from("fake")),
            ("gateway_transaction_id", Value::from(payment.as_str())),
            ("status", Value::from("ok")),
            ("payment_method_id", call.body["payment"]["payment_method_id"].clone()),
        ] {
            transaction.insert(name.to_owned(), value);
        }
        state.items.add(call.store, &collection, &Value::Object(transaction), call.now);
        self.made(call, Some(&token), &answer["data"]["id"], 0);
        let data = json!({
            "type": "transaction", "order_id": order, "transaction_id": payment, "transaction_status": "complete",
            "transaction_type": "authorization",
            "result": { "code": "authorized", "message": "Authorized", "type": "success" },
            "platform_transaction_id": id.to_string(), "provider_transaction_id": payment,
        });
        hooks::fire(&self.outbox, &state.items, call, "store/order/transaction/created", &data);
        self.change_order(state, call, &order, json!({ "status_id": AWAITING_FULFILLMENT }));
        self.convert_cart(state, call, &held);
        Ok(Reply::json(status, &answer))
    }

    fn convert_cart(&self, state: &mut State, call: &Call<'_>, order: &Value) {
        let Some(cart) = order["cart_id"].as_str() else { return };
        if state.items.remove(call.store, "v3/carts", cart, call.now) {
            let data = json!({ "type": "cart", "id": cart, "orderId": order["id"] });
            hooks::fire(&self.outbox, &state.items, call, "store/cart/converted", &data);
        }
    }
}

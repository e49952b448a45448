//! Refunds: of what an order is of, and never of more than that. A quote says beforehand what a refund comes to.

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::bodies::money;
use super::hooks;
use super::items::{amount, id_text};
use super::machine::{Call, Machine, State};
use super::orders::{INCOMPLETE, PARTIALLY_REFUNDED, REFUNDED};
use super::shares::{CENT_PART, NO_CENTS, Refundable, Share, Sum, TOO_MUCH, cents, is_cents, quantity};
use super::totals::rounded;
use super::writes::created;

impl Machine {
    pub(super) fn refund(
        &self,
        state: &mut State,
        call: &Call<'_>,
        status: u16,
        order: &str,
    ) -> Result<Reply, Reply> {
        if state.items.recent(call.store, &call.collection(), self.settings.refund_pending, call.now) {
            return Err(self.refuses_refund("Another refund of this order is still being processed."));
        }
        let of = refundable(state, call, order);
        // "You must receive payment of the order before you can issue a refund."
        if of.order["status_id"] == INCOMPLETE {
            return Err(self.refuses_refund("The order is incomplete."));
        }
        let sum = of.sum(&call.body).map_err(|title| self.refuses_refund(title))?;
        let (given, tax) = self.given_back(call, &sum)?;
        let payments = self.payments_of(state, call, &of, given)?;
        let mut refund = Map::new();
        for (name, value) in [
            ("total_amount", Value::from(given)),
            ("total_tax", Value::from(tax)),
            ("uses_merchant_override_values", call.body["merchant_calculated_override"].is_object().into()),
            ("items", self.shown_items(&call.body, &sum.shares)),
            ("payments", payments),
        ] {
            refund.insert(name.to_owned(), value);
        }
        let made = self.make(state, call, &call.collection(), refund);
        let data = json!({ "type": "order", "id": of.order["id"], "refund": { "refund_id": made["id"] } });
        hooks::fire(&self.outbox, &state.items, call, "store/order/refund/created", &data);
        self.count_refunded(state, call, order, &sum.shares, given);
        let total = cents(amount(&of.order["total_inc_tax"]));
        self.refunded(state, call, order, total - sum.left + given, total);
        Ok(created(status, &made))
    }

    /// The amount that a refund would come to, and the means by which it may be paid. It changes nothing.
    ///
    /// The members are those of `RefundQuote_Full` (github.com/bigcommerce/docs, `reference/orders.v3.yml`). The guide
    /// "Order Refunds" has `is_tax_included` for `tax_inclusive`, so the quote has both. They are false there although
    /// the total includes the tax: the amounts of the items are without it.
    pub(super) fn refund_quote(
        &self,
        state: &State,
        call: &Call<'_>,
        status: u16,
        order: &str,
    ) -> Result<Reply, Reply> {
        let of = refundable(state, call, order);
        let sum = of.sum(&call.body).map_err(|title| self.refused_body(call, title))?;
        if sum.total <= 0.0 {
            return Err(self.refused_body(call, TOO_MUCH));
        }
        let exact: f64 = sum.shares.iter().map(|share| share.exact).sum();
        let whole: f64 = sum.shares.iter().map(|share| share.whole).sum();
        let items = call.body["items"].as_array().into_iter().flatten().zip(&sum.shares);
        let of_order = items.filter(|(item, _)| item["item_type"] == "ORDER");
        let quote = json!({
            "order_id": of.order["id"], "total_refund_amount": sum.total, "total_refund_tax_amount": sum.tax,
            "order_level_refund_amount": cents(of_order.map(|(_, share)| share.whole).sum()),
            "rounding": rounded(whole - exact), "adjustment": sum.adjustment, "tax_inclusive": false,
            "is_tax_included": false, "refund_methods": methods(state, call, &of, sum.total),
        });
        Ok(created(status, &quote))
    }

    /// The amount and the tax that are given back: those of the items, or what the merchant calculated. An amount above
    /// what is left is taken down to that as a quote takes it, where the payments say so too.
    fn given_back(&self, call: &Call<'_>, sum: &Sum) -> Result<(f64, f64), Reply> {
        let merchants = &call.body["merchant_calculated_override"];
        if merchants.is_object() {
            let [total, tax] = ["total_amount", "total_tax"].map(|name| amount(&merchants[name]));
            if !is_cents(total) || !is_cents(tax) {
                return Err(self.refuses_refund(NO_CENTS));
            }
            // The amount is "a non-negative 2 decimal place rounded value", and the tax is "refunded back to the shopper"
            // with it (`MerchantOverride`).
            if !(0.0..=total).contains(&tax) {
                return Err(self.refuses_refund("The tax of an override is not from zero to its amount."));
            }
            let is_left = total <= sum.left + CENT_PART;
            return if is_left { Ok((total, tax)) } else { Err(self.refuses_refund(TOO_MUCH)) };
        }
        let is_as_quoted = sum.total > 0.0 && (of_payments(&call.body) - sum.total).abs() <= CENT_PART;
        let is_too_much = sum.total <= 0.0 || sum.adjustment < 0.0 && !is_as_quoted;
        if is_too_much { Err(self.refuses_refund(TOO_MUCH)) } else { Ok((sum.total, sum.tax)) }
    }

    /// "The amount given in the array must match the amount used in the refund request body" (BigCommerce, "Create a
    /// refund quote").
    fn payments_of(
        &self,
        state: &mut State,
        call: &Call<'_>,
        of: &Refundable,
        sum: f64,
    ) -> Result<Value, Reply> {
        let sent = paid(&call.body);
        // "A non-negative 2 decimal place rounded value".
        if sent.iter().any(|payment| amount(&payment["amount"]) < 0.0) {
            return Err(self.refuses_refund("The amount of a payment must not be negative."));
        }
        if (of_payments(&call.body) - sum).abs() > CENT_PART {
            return Err(self.refuses_refund("The amounts of the payments are not those of the items."));
        }
        // The specification has these words.
        if is_guests(&of.order) && sent.iter().any(|payment| payment["provider_id"] == STORE_CREDIT) {
            return Err(self.refuses_refund(NO_CREDIT));
        }
        let shown = |payment: &Value| {
            json!({
                "id": state.items.next_id(), "provider_id": payment["provider_id"], "amount": payment["amount"],
                "offline": payment["offline"] == true, "is_declined": false, "declined_message": "",
            })
        };
        Ok(sent.iter().map(shown).collect())
    }

    fn shown_items(&self, refund: &Value, shares: &[Share]) -> Value {
        let items = refund["items"].as_array().into_iter().flatten().zip(shares);
        let shown = items.map(|(item, share)| {
            let reason = if self.settings.drops_refund_reasons { &Value::Null } else { &item["reason"] };
            json!({
                "item_type": item["item_type"], "item_id": item["item_id"],
                "reason": reason.as_str().unwrap_or_default(), "quantity": item["quantity"].as_u64().unwrap_or(1),
                "adjustments": item["adjustments"].as_array().cloned().unwrap_or_default(),
                "requested_amount": share.requested,
            })
        });
        shown.collect()
    }

    /// Counts the products that were given back. Of an amount that is not the items' own, each has its part.
    fn count_refunded(&self, state: &mut State, call: &Call<'_>, order: &str, shares: &[Share], given: f64) {
        let asked: f64 = shares.iter().map(|share| share.whole).sum();
        let collection = format!("v2/orders/{order}/products");
        for (item, share) in call.body["items"].as_array().into_iter().flatten().zip(shares) {
            let id = id_text(&item["item_id"]);
            let product =
                (item["item_type"] == "PRODUCT").then(|| state.items.one(call.store, &collection, &id));
            let Some(product) = product.flatten() else { continue };
            let count = quantity(&product, "quantity_refunded") + quantity(item, "quantity");
            let change = json!({
                "quantity_refunded": count, "is_refunded": count >= quantity(&product, "quantity"),
                "refund_amount": money(amount(&product["refund_amount"]) + share.whole * given / asked),
            });
            state.items.update(call.store, &collection, &id, &change, call.now);
        }
    }

    /// "Seller has used the Refund action", or "has partially refunded the order".
    fn refunded(&self, state: &mut State, call: &Call<'_>, order: &str, after: f64, total: f64) {
        let is_whole = after >= total - CENT_PART;
        let (status, payment) =
            if is_whole { (REFUNDED, "refunded") } else { (PARTIALLY_REFUNDED, "partially refunded") };
        let mut change = json!({ "status_id": status, "payment_status": payment });
        if !self.settings.refunded_amount_stays_zero {
            change["refunded_amount"] = money(after).into();
        }
        self.change_order(state, call, order, change);
    }

    /// The form is documented. The titles are not, but for the fixture's own.
    pub(super) fn refuses_refund(&self, title: &str) -> Reply {
        self.fixtures.reply("refund_422").fill(NO_CREDIT, title)
    }
}

fn refundable(state: &State, call: &Call<'_>, order: &str) -> Refundable {
    let all = |collection: String| state.items.all(call.store, &collection);
    Refundable {
        order: state.items.one(call.store, "v2/orders", order).unwrap_or_default(),
        products: all(format!("v2/orders/{order}/products")),
        addresses: all(format!("v2/orders/{order}/shipping_addresses")),
        before: all(format!("v3/orders/{order}/payment_actions/refunds")),
    }
}

/// The ways to give this back, each by itself: by the provider that took the payment, to a customer's store credit, or by
/// the merchant's own hand. The forms of the last two are those of the specification (`RefundQuote_Full`).
fn methods(state: &State, call: &Call<'_>, of: &Refundable, amount: f64) -> Value {
    let option = |provider: &str, description: &str, reason: &str| {
        let is_offline = !reason.is_empty();
        json!([{
            "provider_id": provider, "provider_description": description, "amount": amount, "offline": is_offline,
            "offline_provider": is_offline, "offline_reason": reason,
        }])
    };
    let transactions = format!("v3/orders/{}/transactions", of.order["id"]);
    let mut methods = Vec::new();
    for paid in state.items.all(call.store, &transactions).iter().take(1) {
        methods.push(option(paid["gateway"].as_str().unwrap_or_default(), "Fake", ""));
    }
    if !is_guests(&of.order) {
        methods.push(option(STORE_CREDIT, "Store Credit", ""));
    }
    methods.push(option("custom", "Custom", "This is an offline payment provider."));
    methods.into()
}

fn paid(refund: &Value) -> &[Value] {
    refund["payments"].as_array().map_or(&[][..], Vec::as_slice)
}

fn of_payments(refund: &Value) -> f64 {
    paid(refund).iter().map(|payment| amount(&payment["amount"])).sum()
}

fn is_guests(order: &Value) -> bool {
    order["customer_id"].as_u64().unwrap_or(0) == 0
}

const STORE_CREDIT: &str = "storecredit";
const NO_CREDIT: &str = "Unable to provide store credit for a guest customer.";

//! The balance that a customer has in credit or owes, which the next invoice takes in when it is finalized.
//!
//! A negative balance is a credit, and a positive one is owed. There is one for each currency. A customer shows that of
//! its own (<https://docs.stripe.com/billing/customer/balance>).

use serde_json::{Value, json};

use super::super::desk::Desk;
use super::checks::minimum;

/// The balance in a currency.
pub(super) fn balance_of(desk: &Desk<'_>, customer: &Value, currency: &Value) -> i64 {
    let held = desk.objects.get(desk.account, BALANCES, &id_of(customer, currency));
    held.and_then(|held| held["amount"].as_i64()).unwrap_or(0)
}

/// Adds to a balance. The customer shows it, and so do the customer's drafts: until an invoice is finalized, its
/// `starting_balance` is "the current customer balance" (<https://docs.stripe.com/api/invoices/object>).
pub(super) fn add(desk: &mut Desk<'_>, customer: &Value, currency: &Value, amount: i64) {
    if amount == 0 {
        return;
    }
    let (id, balance) =
        (id_of(customer, currency), balance_of(desk, customer, currency).saturating_add(amount));
    let held = json!({ "id": id, "amount": balance });
    if desk.objects.text(desk.account, BALANCES, &id).is_some() {
        desk.objects.replace(desk.account, BALANCES, &held);
    } else {
        desk.objects.add(desk.account, BALANCES, &held);
    }
    if let Some(mut shown) = desk.get("customers", customer).filter(|shown| shown["currency"] == *currency) {
        shown["balance"] = Value::from(balance);
        desk.put("customers", &shown);
        desk.tell("updated", &shown);
    }
    let customer = customer.as_str().unwrap_or_default();
    for mut draft in desk.objects.with(desk.account, "invoices", "customer", customer) {
        if draft["status"] == "draft" && draft["currency"] == *currency {
            draft["starting_balance"] = Value::from(balance);
            set_amount_due(&mut draft);
            desk.put("invoices", &draft);
        }
    }
}

/// Sets the amount that is due of an invoice, as its total and its customer's balance stand.
pub(super) fn set_amount_due(invoice: &mut Value) {
    let due = owed(invoice).max(0);
    for name in ["amount_due", "amount_remaining"] {
        invoice[name] = Value::from(due);
    }
}

/// Takes the customer's balance into an invoice that is finalized. Gives what the balance changes by.
///
/// A total below zero becomes a credit. An amount that is due and "less than Stripe's minimum allowed charge per
/// currency" is not charged, and is owed with the next invoice (<https://docs.stripe.com/api/invoices>).
pub(super) fn settle(desk: &Desk<'_>, invoice: &mut Value) -> i64 {
    let start = balance_of(desk, &invoice["customer"], &invoice["currency"]);
    invoice["starting_balance"] = Value::from(start);
    set_amount_due(invoice);
    let owed = owed(invoice);
    let is_left = owed < minimum(invoice["currency"].as_str().unwrap_or_default());
    let end = if is_left { owed } else { 0 };
    if is_left {
        for name in ["amount_due", "amount_remaining"] {
            invoice[name] = Value::from(0);
        }
    }
    invoice["ending_balance"] = Value::from(end);
    end.saturating_sub(start)
}

/// Gives back what a finalized invoice took of the balance: `unapplied_from_invoice`, in Stripe's words
/// (<https://docs.stripe.com/api/customer_balance_transactions/object>).
pub(super) fn give_back(desk: &mut Desk<'_>, invoice: &Value) {
    let at = |name: &str| invoice[name].as_i64().unwrap_or(0);
    let taken = at("starting_balance").saturating_sub(at("ending_balance"));
    add(desk, &invoice["customer"], &invoice["currency"], taken);
}

fn owed(invoice: &Value) -> i64 {
    let at = |name: &str| invoice[name].as_i64().unwrap_or(0);
    at("total").saturating_add(at("starting_balance"))
}

fn id_of(customer: &Value, currency: &Value) -> String {
    format!("{}/{}", customer.as_str().unwrap_or_default(), currency.as_str().unwrap_or_default())
}

/// The name that they are kept under. It is no resource of the API, so no path leads to it.
const BALANCES: &str = "balances";

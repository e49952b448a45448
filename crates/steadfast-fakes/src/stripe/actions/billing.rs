//! Invoices: from the draft to the payment.

use serde_json::{Map, Value, json};

use super::super::desk::{Desk, Made};
use super::super::refusal::Refusal;
use super::checks::{AMOUNT_MAX, not_negative};
use super::items::{lines, take_pending};
use super::{amount, balances, flag, intents, items, methods, subscriptions, text};

pub(super) fn create(desk: &mut Desk<'_>, name: &str, sent: &Map<String, Value>) -> Made {
    if text(sent, "customer").is_none() {
        return Err(Refusal::missing("customer"));
    }
    match name {
        "invoices" => create_invoice(desk, sent),
        "invoiceitems" => items::create(desk, sent),
        _ => subscriptions::create(desk, sent),
    }
}

fn create_invoice(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    check_due(sent, &Value::Null, &DUE)?;
    methods::check_own(desk, sent, "default_payment_method", &sent["customer"])?;
    let mut invoice = draft_invoice(desk, sent);
    desk.add_quietly("invoices", &invoice);
    if text(sent, "pending_invoice_items_behavior") == Some("include") {
        take_pending(desk, &mut invoice);
    }
    customers_currency(desk, &invoice["customer"], &invoice["currency"]);
    desk.put("invoices", &invoice);
    desk.tell("created", &invoice);
    Ok(invoice)
}

/// The first currency that a customer is billed in is the customer's own from then on.
pub(super) fn customers_currency(desk: &mut Desk<'_>, customer: &Value, currency: &Value) {
    if let Some(mut customer) = desk.get("customers", customer).filter(|held| held["currency"].is_null()) {
        customer["currency"] = currency.clone();
        desk.put("customers", &customer);
    }
}

/// A bill that is sent to the customer has a time until which it is to be paid, and nothing else has one
/// (<https://docs.stripe.com/api/invoices/create#create_invoice-days_until_due>).
pub(super) fn check_due(sent: &Map<String, Value>, held: &Value, names: &[&str]) -> Result<(), Refusal> {
    not_negative(sent, names)?;
    let named: Vec<&str> =
        names.iter().copied().filter(|name| sent.get(*name).is_some_and(|sent| !sent.is_null())).collect();
    if named.len() > 1 {
        return Err(Refusal::exclusive(&named));
    }
    let method = sent.get("collection_method").unwrap_or(&held["collection_method"]);
    let has = !named.is_empty() || names.iter().any(|name| held[*name].is_u64() && !sent.contains_key(*name));
    match (method == "send_invoice", named.first()) {
        (true, _) if !has => Err(Refusal::missing("days_until_due")),
        (false, Some(name)) => {
            Err(Refusal::param(name, format!("{name} goes with collection_method=send_invoice alone.")))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_update(
    desk: &Desk<'_>,
    invoice: &mut Value,
    sent: &Map<String, Value>,
) -> Result<(), Refusal> {
    // "Once an invoice is finalized, monetary values, as well as collection_method, become uneditable"
    // (<https://docs.stripe.com/api/invoices/update>).
    // Of the other two: "This field can only be updated on draft invoices."
    let terms = ["collection_method", "days_until_due", "due_date"];
    if let Some(term) = terms.iter().find(|term| sent.contains_key(**term) && invoice["status"] != "draft") {
        let message = format!("The {term} of a finalized invoice cannot be changed.");
        return Err(Refusal::state("invoice_not_editable", message));
    }
    check_due(sent, invoice, &DUE)?;
    methods::check_own(desk, sent, "default_payment_method", &invoice["customer"])?;
    if text(sent, "collection_method") == Some("charge_automatically") {
        invoice["due_date"] = Value::Null;
    }
    let created = invoice["created"].as_u64().unwrap_or(desk.now);
    set_due(invoice, sent, created);
    Ok(())
}

fn set_due(invoice: &mut Value, sent: &Map<String, Value>, from: u64) {
    if let Some(days) = amount(sent, "days_until_due").and_then(|days| u64::try_from(days).ok()) {
        invoice["due_date"] = Value::from(from.saturating_add(days.saturating_mul(DAY)));
    }
}

pub(super) fn draft_invoice(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Value {
    let mut invoice = desk.draft("invoices", sent);
    let customer = desk.get("customers", &invoice["customer"]).unwrap_or_default();
    for name in ["address", "email", "name", "phone", "shipping", "tax_exempt"] {
        invoice[format!("customer_{name}")] = customer[name].clone();
    }
    let currency = text(sent, "currency").or(customer["currency"].as_str()).unwrap_or(CURRENCY);
    invoice["currency"] = Value::from(currency.to_lowercase());
    invoice["auto_advance"] = Value::from(flag(sent, "auto_advance"));
    for name in ["period_start", "period_end"] {
        invoice[name] = Value::from(desk.now);
    }
    set_due(&mut invoice, sent, desk.now);
    let balance = balances::balance_of(desk, &invoice["customer"], &invoice["currency"]);
    invoice["starting_balance"] = Value::from(balance);
    balances::set_amount_due(&mut invoice);
    invoice["lines"] = lines(&invoice, &[]);
    invoice
}

pub(super) fn act(desk: &mut Desk<'_>, action: &str, mut invoice: Value, sent: &Map<String, Value>) -> Made {
    let status = invoice["status"].as_str().unwrap_or_default().to_owned();
    let refused = |wanted: &str| {
        let message = format!("This invoice has a status of {status}; it must be {wanted}.");
        Refusal::state("invoice_not_editable", message)
    };
    if status == "draft" && matches!(action, "finalize" | "send" | "pay") {
        check_amount_due(&invoice)?;
    }
    match (action, status.as_str()) {
        ("finalize", "draft") => {
            if sent.contains_key("auto_advance") {
                invoice["auto_advance"] = Value::from(flag(sent, "auto_advance"));
            }
            finalize(desk, &mut invoice);
        }
        ("send", "draft" | "open") => {
            if status == "draft" {
                finalize(desk, &mut invoice);
            }
            desk.tell("sent", &invoice);
        }
        ("pay", "draft" | "open" | "uncollectible") => {
            if status == "draft" {
                finalize(desk, &mut invoice);
            }
            return pay(desk, invoice, sent);
        }
        ("void", "open" | "uncollectible") => void(desk, &mut invoice),
        ("mark_uncollectible", "open") => {
            close(desk, &mut invoice, "uncollectible", "marked_uncollectible");
            subscriptions::after_write_off(desk, &invoice);
        }
        ("pay", "paid") => {
            return Err(Refusal::state("invoice_already_paid", "Invoice is already paid"));
        }
        ("finalize", _) => return Err(refused("draft")),
        _ => return Err(refused("open")),
    }
    Ok(invoice)
}

/// Nothing is charged that is larger than Stripe takes, so nothing larger is finalized. The sentence is composed.
pub(super) fn check_amount_due(invoice: &Value) -> Result<(), Refusal> {
    if invoice["amount_due"].as_u64().is_some_and(|due| due > AMOUNT_MAX) {
        let message = format!("The amount due of an invoice must be no more than {AMOUNT_MAX}.");
        return Err(Refusal::state("amount_too_large", message));
    }
    Ok(())
}

/// Makes a draft an open invoice, or a paid one if nothing is due. That this is told as `invoice.payment_succeeded` too
/// is seen in clients' reports (`whisper-money/whisper-money#540`), and not documented.
pub(super) fn finalize(desk: &mut Desk<'_>, invoice: &mut Value) {
    invoice["automatically_finalizes_at"] = Value::Null;
    let number = desk.objects.next_id("FAKE").replace('_', "-");
    if invoice["number"].is_null() {
        invoice["number"] = Value::from(number);
    }
    if invoice["effective_at"].is_null() {
        invoice["effective_at"] = Value::from(desk.now);
    }
    let change = balances::settle(desk, invoice);
    let id = invoice["id"].as_str().unwrap_or_default();
    let page = format!("https://invoice.stripe.com/i/{id}");
    (invoice["invoice_pdf"], invoice["hosted_invoice_url"]) =
        (Value::from(format!("{page}/pdf")), Value::from(page));
    close(desk, invoice, "open", "finalized");
    balances::add(desk, &invoice["customer"], &invoice["currency"], change);
    if invoice["amount_due"] == 0 {
        invoice["attempted"] = Value::from(true);
        close(desk, invoice, "paid", "paid");
        desk.tell("payment_succeeded", invoice);
        subscriptions::after_payment(desk, invoice);
    }
}

pub(super) fn void(desk: &mut Desk<'_>, invoice: &mut Value) {
    close(desk, invoice, "void", "voided");
    balances::give_back(desk, invoice);
}

/// Gives it a status, and the time of that.
pub(super) fn close(desk: &mut Desk<'_>, invoice: &mut Value, status: &str, what: &str) {
    invoice["status"] = Value::from(status);
    invoice["status_transitions"][format!("{what}_at")] = Value::from(desk.now);
    desk.put("invoices", invoice);
    desk.tell(what, invoice);
}

pub(super) fn pay(desk: &mut Desk<'_>, mut invoice: Value, sent: &Map<String, Value>) -> Made {
    if invoice["status"] == "paid" {
        return Ok(invoice);
    }
    let due = invoice["amount_remaining"].as_i64().unwrap_or(0);
    if !flag(sent, "paid_out_of_band") {
        let customer = desk.get("customers", &invoice["customer"]).unwrap_or_default();
        let of = &invoice["parent"]["subscription_details"]["subscription"];
        let subscription = desk.get("subscriptions", of).unwrap_or_default();
        // "If not set, defaults to the subscription's default payment method, if any, or to the default payment method in
        // the customer's invoice settings" (<https://docs.stripe.com/api/invoices/object>).
        let methods = [
            sent.get("payment_method").unwrap_or(&Value::Null),
            &invoice["default_payment_method"],
            &subscription["default_payment_method"],
            &customer["invoice_settings"]["default_payment_method"],
        ];
        let Some(method) = methods.into_iter().find(|method| method.is_string()).cloned() else {
            let message = "This customer has no attached payment source or default payment method.";
            return Err(Refusal::state("resource_missing", message));
        };
        invoice["attempted"] = Value::from(true);
        invoice["attempt_count"] = Value::from(invoice["attempt_count"].as_i64().unwrap_or(0) + 1);
        desk.put("invoices", &invoice);
        let intent = json!({
            "amount": due, "currency": invoice["currency"], "customer": invoice["customer"], "payment_method": method,
            "confirm": true, "off_session": true,
        });
        let currency = invoice["currency"].as_str().unwrap_or_default().to_owned();
        if let Err(refusal) = intents::make(desk, intent.as_object().unwrap_or(&Map::new()), currency) {
            desk.tell("payment_failed", &invoice);
            return Err(refusal);
        }
    }
    invoice["amount_paid"] = Value::from(due);
    invoice["amount_remaining"] = Value::from(0);
    close(desk, &mut invoice, "paid", "paid");
    desk.tell("payment_succeeded", &invoice);
    subscriptions::after_payment(desk, &invoice);
    Ok(invoice)
}

pub(super) const DAY: u64 = 24 * 3600;

/// Of an account in the United States, and so of a customer who was not billed yet.
pub(super) const CURRENCY: &str = "usd";

const DUE: [&str; 2] = ["days_until_due", "due_date"];

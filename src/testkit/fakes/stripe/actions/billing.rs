//! Invoices, and the items that they add up.

use serde_json::{Map, Value, json};

use super::super::desk::{Desk, Made};
use super::super::objects::inner_list;
use super::super::refusal::Refusal;
use super::{amount, flag, intents, subscriptions, text};

pub(super) fn create(desk: &mut Desk<'_>, name: &str, sent: &Map<String, Value>) -> Made {
    if text(sent, "customer").is_none() {
        return Err(Refusal::missing("customer"));
    }
    match name {
        "invoices" => create_invoice(desk, sent),
        "invoiceitems" => create_item(desk, sent),
        _ => subscriptions::create(desk, sent),
    }
}

fn create_invoice(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    let mut invoice = draft_invoice(desk, sent);
    desk.add_quietly("invoices", &invoice);
    if text(sent, "pending_invoice_items_behavior") == Some("include") {
        let customer = text(sent, "customer").unwrap_or_default();
        for mut item in desk.objects.with(desk.account, "invoiceitems", "customer", customer) {
            if item["invoice"].is_null() {
                item["invoice"] = invoice["id"].clone();
                desk.put("invoiceitems", &item);
            }
        }
    }
    add_up(desk, &mut invoice);
    desk.put("invoices", &invoice);
    desk.tell("created", &invoice);
    Ok(invoice)
}

pub(super) fn draft_invoice(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Value {
    let mut invoice = desk.draft("invoices", sent);
    let customer = desk.get("customers", &invoice["customer"]).unwrap_or_default();
    for name in ["address", "email", "name", "phone", "shipping", "tax_exempt"] {
        invoice[format!("customer_{name}")] = customer[name].clone();
    }
    invoice["currency"] = Value::from(text(sent, "currency").unwrap_or("usd").to_lowercase());
    invoice["auto_advance"] = Value::from(flag(sent, "auto_advance"));
    for name in ["period_start", "period_end"] {
        invoice[name] = Value::from(desk.now);
    }
    if let Some(days) = amount(sent, "days_until_due").and_then(|days| u64::try_from(days).ok()) {
        invoice["due_date"] = Value::from(desk.now + days * DAY);
    }
    invoice["lines"] = lines(&invoice, &[]);
    invoice
}

fn lines(invoice: &Value, data: &[Value]) -> Value {
    let path = format!("/v1/invoices/{}/lines", invoice["id"].as_str().unwrap_or_default());
    let mut list = inner_list(data, &path);
    list["total_count"] = Value::from(data.len());
    list
}

/// Takes the invoice's items as its lines, and their sum.
fn add_up(desk: &Desk<'_>, invoice: &mut Value) {
    let id = invoice["id"].as_str().unwrap_or_default();
    let items = desk.objects.with(desk.account, "invoiceitems", "invoice", id);
    let data: Vec<Value> = items.iter().rev().map(|item| line(item, id)).collect();
    set_lines(invoice, &data);
}

pub(super) fn set_lines(invoice: &mut Value, data: &[Value]) {
    let sum: i64 = data.iter().filter_map(|line| line["amount"].as_i64()).sum();
    invoice["lines"] = lines(invoice, data);
    if let Some(currency) = data.first().map(|line| line["currency"].clone()) {
        invoice["currency"] = currency;
    }
    for name in ["subtotal", "total"] {
        invoice[name] = Value::from(sum);
    }
    for name in ["amount_due", "amount_remaining"] {
        invoice[name] = Value::from(sum.max(0));
    }
}

pub(super) fn line(item: &Value, invoice: &str) -> Value {
    let details = json!({ "invoice_item": item["id"], "proration": false, "proration_details": null, "subscription": null });
    json!({
        "id": item["id"].as_str().unwrap_or_default().replacen("ii_", "il_", 1), "object": "line_item",
        "amount": item["amount"], "currency": item["currency"], "description": item["description"],
        "discount_amounts": [], "discountable": item["discountable"], "discounts": [], "invoice": invoice,
        "livemode": item["livemode"], "metadata": item["metadata"],
        "parent": { "invoice_item_details": details, "subscription_item_details": null, "type": "invoice_item_details" },
        "period": item["period"], "pretax_credit_amounts": [], "pricing": item["pricing"], "quantity": item["quantity"],
        "quantity_decimal": item["quantity_decimal"], "subscription": null, "subtotal": item["amount"], "taxes": [],
    })
}

fn create_item(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    if let Some(id) = text(sent, "invoice") {
        let invoice = desk.named("invoices", id, "invoice")?;
        if invoice["status"] != "draft" || invoice["customer"] != sent["customer"] {
            let message = "The invoice must be a draft, and of the same customer.";
            return Err(Refusal::state("invoice_not_editable", message));
        }
    }
    let mut item = desk.draft("invoiceitems", sent);
    let quantity = amount(sent, "quantity").unwrap_or(1);
    let price = sent.get("pricing").and_then(|pricing| pricing["price"].as_str());
    let unit = match (amount(sent, "amount"), text(sent, "unit_amount_decimal"), price) {
        (Some(whole), None, None) if sent.get("quantity").is_none() => {
            item["amount"] = Value::from(whole);
            None
        }
        (None, Some(unit), None) => {
            let whole = unit.parse::<i64>();
            Some(whole.map_err(|_| Refusal::param("unit_amount_decimal", "The fake takes whole units."))?)
        }
        (None, None, Some(price)) => {
            let price = desk.named("prices", price, "pricing[price]")?;
            item["currency"] = price["currency"].clone();
            item["pricing"] = json!({
                "price_details": { "price": price["id"], "product": price["product"] }, "type": "price_details",
                "unit_amount_decimal": price["unit_amount_decimal"],
            });
            Some(price["unit_amount"].as_i64().unwrap_or(0))
        }
        _ => return Err(Refusal::missing("amount")),
    };
    if let Some(unit) = unit {
        item["amount"] = Value::from(unit * quantity);
    }
    if item["currency"] == "" {
        item["currency"] = Value::from(text(sent, "currency").unwrap_or("usd").to_lowercase());
    }
    item["quantity"] = Value::from(quantity);
    item["quantity_decimal"] = Value::from(quantity.to_string());
    item["date"] = Value::from(desk.now);
    if text(sent, "period").is_none() && !sent.contains_key("period") {
        item["period"] = json!({ "start": desk.now, "end": desk.now });
    }
    let item = desk.add("invoiceitems", item);
    after_item(desk, &item);
    Ok(item)
}

/// Adds up anew the invoice that an item belongs to.
pub(super) fn after_item(desk: &mut Desk<'_>, item: &Value) {
    if let Some(mut invoice) = desk.get("invoices", &item["invoice"]) {
        add_up(desk, &mut invoice);
        desk.put("invoices", &invoice);
        desk.tell("updated", &invoice);
    }
}

pub(super) fn is_draft(desk: &Desk<'_>, invoice: &Value) -> bool {
    desk.get("invoices", invoice).is_none_or(|invoice| invoice["status"] == "draft")
}

pub(super) fn act(desk: &mut Desk<'_>, action: &str, mut invoice: Value, sent: &Map<String, Value>) -> Made {
    let status = invoice["status"].as_str().unwrap_or_default().to_owned();
    let refused = |wanted: &str| {
        let message = format!("This invoice has a status of {status}; it must be {wanted}.");
        Refusal::state("invoice_not_editable", message)
    };
    match (action, status.as_str()) {
        ("finalize", "draft") => finalize(desk, &mut invoice),
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
        ("void", "open" | "uncollectible") => close(desk, &mut invoice, "void", "voided"),
        ("mark_uncollectible", "open") => close(desk, &mut invoice, "uncollectible", "marked_uncollectible"),
        ("pay", "paid") => {
            return Err(Refusal::state("invoice_already_paid", "Invoice is already paid"));
        }
        ("finalize", _) => return Err(refused("draft")),
        _ => return Err(refused("open")),
    }
    Ok(invoice)
}

pub(super) fn finalize(desk: &mut Desk<'_>, invoice: &mut Value) {
    let number = desk.objects.next_id("FAKE").replace('_', "-");
    if invoice["number"].is_null() {
        invoice["number"] = Value::from(number);
    }
    invoice["effective_at"] = Value::from(desk.now);
    invoice["ending_balance"] = Value::from(0);
    let id = invoice["id"].as_str().unwrap_or_default();
    let page = format!("https://invoice.stripe.com/i/{id}");
    (invoice["invoice_pdf"], invoice["hosted_invoice_url"]) =
        (Value::from(format!("{page}/pdf")), Value::from(page));
    close(desk, invoice, "open", "finalized");
    if invoice["amount_due"] == 0 {
        close(desk, invoice, "paid", "paid");
    }
}

/// Gives it a status, and the time of that.
fn close(desk: &mut Desk<'_>, invoice: &mut Value, status: &str, what: &str) {
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
        let methods = [
            sent.get("payment_method").unwrap_or(&Value::Null),
            &invoice["default_payment_method"],
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
        if let Err(refusal) = intents::create(desk, intent.as_object().unwrap_or(&Map::new())) {
            desk.tell("payment_failed", &invoice);
            return Err(refusal);
        }
    }
    invoice["amount_paid"] = Value::from(due);
    invoice["amount_remaining"] = Value::from(0);
    close(desk, &mut invoice, "paid", "paid");
    desk.tell("payment_succeeded", &invoice);
    Ok(invoice)
}

pub(super) const DAY: u64 = 24 * 3600;

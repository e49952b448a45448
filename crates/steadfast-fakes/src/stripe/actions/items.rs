//! Invoice items: what they cost, and the invoice that adds them up.

use serde_json::{Map, Value, json};

use super::super::desk::{Desk, Made};
use super::super::objects::inner_list;
use super::super::refusal::Refusal;
use super::billing::customers_currency;
use super::checks::AMOUNT_MAX;
use super::{amount, balances, text};

pub(super) fn create(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    let invoice = text(sent, "invoice").map(|id| desk.named("invoices", id, "invoice")).transpose()?;
    if let Some(invoice) = &invoice
        && (invoice["status"] != "draft" || invoice["customer"] != sent["customer"])
    {
        let message = "The invoice must be a draft, and of the same customer.";
        return Err(Refusal::state("invoice_not_editable", message));
    }
    let mut item = desk.draft("invoiceitems", sent);
    item["currency"] = Value::from(currency_of(desk, sent)?);
    if let Some(invoice) = invoice.filter(|invoice| invoice["currency"] != item["currency"]) {
        let message = format!("The invoice's currency is {}, and so its items' is.", invoice["currency"]);
        return Err(Refusal::param("currency", message));
    }
    (item["quantity"], item["quantity_decimal"]) = (Value::from(1), Value::from("1"));
    if !cost(desk, &mut item, sent)? {
        return Err(Refusal::missing("amount"));
    }
    // "Defaults to false for prorations or negative invoice items" (<https://docs.stripe.com/api/invoiceitems/create>).
    if !sent.contains_key("discountable") && item["amount"].as_i64().is_some_and(|amount| amount < 0) {
        item["discountable"] = Value::from(false);
    }
    item["date"] = Value::from(desk.now);
    if sent.get("period").is_none_or(Value::is_null) {
        item["period"] = json!({ "start": desk.now, "end": desk.now });
    }
    customers_currency(desk, &item["customer"], &item["currency"]);
    let item = desk.add("invoiceitems", item);
    after_change(desk, &item);
    Ok(item)
}

/// That of the price, or what is sent, or the customer's.
fn currency_of(desk: &Desk<'_>, sent: &Map<String, Value>) -> Result<String, Refusal> {
    let asked = text(sent, "currency").map(str::to_lowercase);
    let price = sent.get("pricing").and_then(|pricing| desk.get("prices", &pricing["price"]));
    let of_price = price.and_then(|price| price["currency"].as_str().map(str::to_owned));
    match (asked, of_price) {
        (Some(asked), Some(of_price)) if asked != of_price => {
            Err(Refusal::param("currency", format!("The price is in {of_price}.")))
        }
        (asked, of_price) => Ok(of_price.or(asked).unwrap_or_else(|| {
            let customer = sent.get("customer").and_then(|id| desk.get("customers", id)).unwrap_or_default();
            customer["currency"].as_str().unwrap_or(super::billing::CURRENCY).to_owned()
        })),
    }
}

/// Changes what an item costs. The value that it was made with counts on: a quantity alone is of the price that it
/// has.
///
/// The items of a draft that was deleted stay with it. They can be neither changed nor removed, and no later invoice
/// takes them (recorded: see `methods.rs`). Stripe's documentation does not say.
pub(super) fn change(
    desk: &Desk<'_>,
    item: &mut Value,
    sent: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    if !item["invoice"].is_null() && !is_draft(desk, &item["invoice"]) {
        let message = "This invoice item belongs to an invoice that is no longer a draft.";
        return Err(Refusal::state("invoice_not_editable", message));
    }
    if item["proration"] == true {
        check_proration(sent)?;
    }
    let price = sent.get("pricing").and_then(|pricing| desk.get("prices", &pricing["price"]));
    if price.is_some_and(|price| price["currency"] != item["currency"]) {
        return Err(Refusal::param("pricing[price]", "The price is in another currency than the item."));
    }
    cost(desk, item, sent)?;
    for name in ["amount", "unit_amount_decimal", "pricing", "quantity"] {
        sent.remove(name);
    }
    Ok(())
}

/// The subject of a proration cannot be changed (recorded by `seahaven_stripe_world`, `resources/invoiceitems.py`).
/// Nor does it become `discountable`, which "cannot be set to true for prorations"
/// (<https://docs.stripe.com/api/invoiceitems/update>).
fn check_proration(sent: &Map<String, Value>) -> Result<(), Refusal> {
    let frozen = ["pricing", "quantity", "unit_amount_decimal"];
    if let Some(name) = frozen.into_iter().find(|name| sent.contains_key(*name)) {
        let message = "The pricing and the quantity of a proration cannot be changed.";
        return Err(Refusal::param(name, message));
    }
    if sent.get("discountable") == Some(&Value::Bool(true)) {
        return Err(Refusal::param("discountable", "A proration is not discountable."));
    }
    Ok(())
}

/// Sets an item's amount, quantity and price. A proration keeps the last two. Tells whether anything was sent that has
/// to do with them.
fn cost(desk: &Desk<'_>, item: &mut Value, sent: &Map<String, Value>) -> Result<bool, Refusal> {
    let price = sent.get("pricing").and_then(|pricing| desk.get("prices", &pricing["price"]));
    let quantity = amount(sent, "quantity");
    if quantity.is_some_and(|quantity| quantity < 0) {
        let refusal = Refusal::param("quantity", "Invalid non-negative integer");
        return Err(refusal.code("parameter_invalid_integer"));
    }
    let pricing = match (amount(sent, "amount"), text(sent, "unit_amount_decimal"), price) {
        (Some(whole), None, None) if quantity.is_none() => {
            item["amount"] = Value::from(whole);
            if item["proration"] != true {
                (item["quantity"], item["quantity_decimal"]) = (Value::from(1), Value::from("1"));
                item["pricing"] = Value::Null;
            }
            return Ok(true);
        }
        (Some(_), None, None) => return Err(Refusal::exclusive(&["amount", "quantity"])),
        (None, Some(unit), None) => json!({ "type": "price_details", "unit_amount_decimal": unit }),
        (None, None, Some(price)) => json!({
            "price_details": { "price": price["id"], "product": price["product"] }, "type": "price_details",
            "unit_amount_decimal": price["unit_amount_decimal"],
        }),
        (None, None, None) if quantity.is_none() => return Ok(false),
        (None, None, None) if item["pricing"].is_object() => item["pricing"].clone(),
        (None, None, None) => {
            let message = "The quantity of an item goes with pricing or unit_amount_decimal.";
            return Err(Refusal::param("quantity", message));
        }
        _ => return Err(Refusal::exclusive(&["amount", "unit_amount_decimal", "pricing"])),
    };
    let quantity = quantity.or(item["quantity"].as_i64()).unwrap_or(1);
    let unit = pricing["unit_amount_decimal"].as_str().and_then(|unit| unit.parse::<i64>().ok());
    let unit = unit.ok_or_else(|| {
        Refusal::param("unit_amount_decimal", "The fake bills whole units of a currency, and no part of one.")
    })?;
    let whole = unit.checked_mul(quantity).filter(|whole| whole.unsigned_abs() <= AMOUNT_MAX);
    let whole = whole.ok_or_else(|| {
        let names = ["quantity", "unit_amount_decimal", "pricing"];
        let name = names.into_iter().find(|name| sent.contains_key(*name)).unwrap_or("quantity");
        Refusal::param(name, "The amount is too large.").code("amount_too_large")
    })?;
    (item["amount"], item["pricing"]) = (Value::from(whole), pricing);
    (item["quantity"], item["quantity_decimal"]) = (Value::from(quantity), Value::from(quantity.to_string()));
    Ok(true)
}

/// Adds up anew the invoice that an item belongs to.
pub(super) fn after_change(desk: &mut Desk<'_>, item: &Value) {
    if let Some(mut invoice) = desk.get("invoices", &item["invoice"]) {
        add_up(desk, &mut invoice);
        desk.put("invoices", &invoice);
        desk.tell("updated", &invoice);
    }
}

/// Whether an invoice is there, and a draft.
pub(super) fn is_draft(desk: &Desk<'_>, invoice: &Value) -> bool {
    desk.get("invoices", invoice).is_some_and(|invoice| invoice["status"] == "draft")
}

pub(super) fn lines(invoice: &Value, data: &[Value]) -> Value {
    let path = format!("/v1/invoices/{}/lines", invoice["id"].as_str().unwrap_or_default());
    let mut list = inner_list(data, &path);
    list["total_count"] = Value::from(data.len());
    list
}

/// Takes the invoice's items as its lines, beside those of its subscription, and their sum.
pub(super) fn add_up(desk: &Desk<'_>, invoice: &mut Value) {
    let id = invoice["id"].as_str().unwrap_or_default();
    let items = desk.objects.with(desk.account, "invoiceitems", "invoice", id);
    let lines = invoice["lines"]["data"].as_array().into_iter().flatten();
    // A proration is of a subscription too, but it is an item.
    let of_subscription = |line: &&Value| {
        let details = &line["parent"]["subscription_item_details"];
        details.is_object() && details["invoice_item"].is_null()
    };
    let own = items.iter().rev().map(|item| line(item, id));
    let data: Vec<Value> = own.chain(lines.filter(of_subscription).cloned()).collect();
    set_lines(invoice, &data);
}

/// Takes the customer's items that wait for an invoice, as far as "the currency parameter dictates"
/// (<https://docs.stripe.com/invoicing/multi-currency-customers>), and adds up. An invoice of one subscription leaves
/// the prorations of another.
pub(super) fn take_pending(desk: &mut Desk<'_>, invoice: &mut Value) {
    let customer = invoice["customer"].as_str().unwrap_or_default();
    let of = &invoice["parent"]["subscription_details"]["subscription"];
    for mut item in desk.objects.with(desk.account, "invoiceitems", "customer", customer) {
        let belongs = &item["parent"]["subscription_details"]["subscription"];
        let is_other = of.is_string() && belongs.is_string() && of != belongs;
        if item["invoice"].is_null() && item["currency"] == invoice["currency"] && !is_other {
            item["invoice"] = invoice["id"].clone();
            desk.put("invoiceitems", &item);
        }
    }
    add_up(desk, invoice);
}

/// Whether an item comes from a change of this subscription, and waits for its next invoice.
pub(super) fn is_pending_of(item: &Value, subscription: &Value) -> bool {
    item["invoice"].is_null() && item["parent"]["subscription_details"]["subscription"] == subscription["id"]
}

pub(super) fn set_lines(invoice: &mut Value, data: &[Value]) {
    let amounts = data.iter().filter_map(|line| line["amount"].as_i64());
    let sum = amounts.fold(0, i64::saturating_add);
    invoice["lines"] = lines(invoice, data);
    for name in ["subtotal", "total"] {
        invoice[name] = Value::from(sum);
    }
    balances::set_amount_due(invoice);
}

pub(super) fn line(item: &Value, invoice: &str) -> Value {
    json!({
        "id": item["id"].as_str().unwrap_or_default().replacen("ii_", "il_", 1), "object": "line_item",
        "amount": item["amount"], "currency": item["currency"], "description": item["description"],
        "discount_amounts": [], "discountable": item["discountable"], "discounts": [], "invoice": invoice,
        "livemode": item["livemode"], "metadata": item["metadata"],
        "parent": parent_of(item),
        "period": item["period"], "pretax_credit_amounts": [], "pricing": item["pricing"], "quantity": item["quantity"],
        "quantity_decimal": item["quantity_decimal"],
        "subscription": item["parent"]["subscription_details"]["subscription"], "subtotal": item["amount"], "taxes": [],
    })
}

/// The parent that generated a line: an item of the account's own, or a change of a subscription.
fn parent_of(item: &Value) -> Value {
    let of = &item["parent"]["subscription_details"];
    if of.is_object() {
        return json!({ "invoice_item_details": null, "type": "subscription_item_details",
            "subscription_item_details": { "invoice_item": item["id"], "proration": item["proration"],
                "proration_details": { "credited_items": null }, "subscription": of["subscription"],
                "subscription_item": of["subscription_item"] } });
    }
    let details = json!({ "invoice_item": item["id"], "proration": false, "proration_details": null, "subscription": null });
    json!({ "invoice_item_details": details, "subscription_item_details": null, "type": "invoice_item_details" })
}

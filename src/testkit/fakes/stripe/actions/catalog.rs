//! What is sold, at which price, and where the account is told of it.

use serde_json::{Map, Value, json};

use super::super::desk::{Desk, Made};
use super::super::refusal::Refusal;
use super::{amount, flag, text};

pub(super) fn create(desk: &mut Desk<'_>, name: &str, sent: &Map<String, Value>) -> Made {
    if let Some(id) = text(sent, "id").filter(|id| desk.objects.text(desk.account, name, id).is_some()) {
        let message = format!("An object with the ID '{id}' already exists.");
        return Err(Refusal::param("id", message).code("resource_already_exists"));
    }
    let mut object = desk.draft(name, sent);
    if let Some(currency) = text(sent, "currency") {
        object["currency"] = Value::from(currency.to_lowercase());
    }
    match name {
        "products" => object["updated"] = Value::from(desk.now),
        "prices" => price(desk, &mut object, sent)?,
        "plans" => plan(desk, &mut object, sent)?,
        "coupons" => check_coupon(sent)?,
        "promotion_codes" => promotion(desk, &mut object, sent)?,
        "tax_rates" => object["effective_percentage"] = object["percentage"].clone(),
        "shipping_rates" => {
            object["tax_behavior"] =
                sent.get("tax_behavior").cloned().unwrap_or_else(|| Value::from("unspecified"));
        }
        "subscription_schedules" => object["current_phase"] = Value::Null,
        "webhook_endpoints" => endpoint(&mut object),
        _ => {}
    }
    let made = desk.add(name, object);
    Ok(match name {
        // Shown once, to who made it.
        "webhook_endpoints" => {
            let mut shown = made;
            shown["secret"] =
                Value::from(super::super::webhooks::secret_of(shown["id"].as_str().unwrap_or_default()));
            shown
        }
        _ => made,
    })
}

fn price(desk: &mut Desk<'_>, price: &mut Value, sent: &Map<String, Value>) -> Result<(), Refusal> {
    match (text(sent, "product"), sent.get("product_data").and_then(Value::as_object)) {
        (Some(_), None) => {}
        (None, Some(data)) => {
            let mut product = desk.draft("products", data);
            product["updated"] = Value::from(desk.now);
            price["product"] = desk.add("products", product)["id"].clone();
        }
        _ => return Err(Refusal::missing("product")),
    }
    let unit = amount(sent, "unit_amount");
    let decimal = text(sent, "unit_amount_decimal").map(str::to_owned);
    match (unit, decimal) {
        (Some(unit), None) if unit >= 0 => price["unit_amount_decimal"] = Value::from(unit.to_string()),
        (None, Some(decimal)) => {
            price["unit_amount"] = decimal.parse::<i64>().map_or(Value::Null, Value::from);
            price["unit_amount_decimal"] = Value::from(decimal);
        }
        (Some(_), None) => return Err(Refusal::param("unit_amount", "Invalid non-negative integer")),
        _ => return Err(Refusal::missing("unit_amount")),
    }
    price["tax_behavior"] = sent.get("tax_behavior").cloned().unwrap_or_else(|| Value::from("unspecified"));
    if let Some(recurring) = sent.get("recurring").and_then(Value::as_object) {
        let mut whole = json!({
            "interval_count": 1, "meter": null, "trial_period_days": null, "usage_type": "licensed",
        });
        for (name, value) in recurring {
            whole[name] = value.clone();
        }
        price["recurring"] = whole;
        price["type"] = Value::from("recurring");
    }
    Ok(())
}

fn plan(desk: &Desk<'_>, plan: &mut Value, sent: &Map<String, Value>) -> Result<(), Refusal> {
    if text(sent, "product").is_none() {
        return Err(Refusal::missing("product"));
    }
    desk.named("products", text(sent, "product").unwrap_or_default(), "product")?;
    plan["amount_decimal"] =
        plan["amount"].as_i64().map_or(Value::Null, |amount| Value::from(amount.to_string()));
    Ok(())
}

fn check_coupon(sent: &Map<String, Value>) -> Result<(), Refusal> {
    let percent = sent.get("percent_off").and_then(Value::as_f64);
    match (percent, amount(sent, "amount_off")) {
        (None, None) => return Err(Refusal::param("percent_off", "Must provide percent_off or amount_off.")),
        (Some(_), Some(_)) => {
            let message = "You may only specify one of these parameters: percent_off, amount_off.";
            return Err(Refusal::param("percent_off", message).code("parameters_exclusive"));
        }
        (Some(percent), None) if !(percent > 0.0 && percent <= 100.0) => {
            return Err(Refusal::param("percent_off", "percent_off must be between 0 and 100."));
        }
        (None, Some(_)) if text(sent, "currency").is_none() => return Err(Refusal::missing("currency")),
        _ => {}
    }
    let repeats = text(sent, "duration") == Some("repeating");
    if repeats != amount(sent, "duration_in_months").is_some() {
        let message = "duration_in_months goes with duration=repeating, and with no other.";
        return Err(Refusal::param("duration_in_months", message));
    }
    Ok(())
}

fn promotion(desk: &mut Desk<'_>, code: &mut Value, sent: &Map<String, Value>) -> Result<(), Refusal> {
    let promotion = sent.get("promotion").and_then(Value::as_object);
    let coupon = promotion.and_then(|promotion| text(promotion, "coupon"));
    let Some(coupon) = coupon else { return Err(Refusal::missing("promotion[coupon]")) };
    desk.named("coupons", coupon, "promotion[coupon]")?;
    if text(sent, "code").is_none() {
        code["code"] = Value::from(desk.objects.next_id("CODE").replace('_', ""));
    }
    Ok(())
}

fn endpoint(endpoint: &mut Value) {
    if endpoint["enabled_events"].is_null() {
        endpoint["enabled_events"] = json!([]);
    }
}

pub(super) fn update_endpoint(endpoint: &mut Value, sent: &Map<String, Value>) {
    if sent.contains_key("disabled") {
        endpoint["status"] = Value::from(if flag(sent, "disabled") { "disabled" } else { "enabled" });
    }
}

/// What still needs it.
pub(super) fn check_removal(desk: &Desk<'_>, name: &str, object: &Value) -> Result<(), Refusal> {
    let id = object["id"].as_str().unwrap_or_default();
    match name {
        "products" if !desk.objects.with(desk.account, "prices", "product", id).is_empty() => {
            let message = "This product cannot be deleted because it has one or more user-created prices.";
            Err(Refusal::state("product_has_prices", message))
        }
        "invoices" if object["status"] != "draft" => {
            let message = "You can only delete draft invoices.";
            Err(Refusal::state("invoice_not_editable", message))
        }
        "invoiceitems"
            if !object["invoice"].is_null() && !super::billing::is_draft(desk, &object["invoice"]) =>
        {
            let message = "This invoice item belongs to an invoice that is no longer a draft.";
            Err(Refusal::state("invoice_not_editable", message))
        }
        _ => Ok(()),
    }
}

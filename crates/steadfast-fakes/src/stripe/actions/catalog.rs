//! The products that are sold, at which price, and where the account is told of it.

use serde_json::{Map, Value, json};

use super::super::desk::{Desk, Made};
use super::super::refusal::Refusal;
use super::{amount, flag, text};

pub(super) fn create(desk: &mut Desk<'_>, name: &str, sent: &Map<String, Value>) -> Made {
    check_id(desk, name, sent, "id")?;
    let mut object = desk.draft(name, sent);
    if let Some(currency) = text(sent, "currency") {
        object["currency"] = Value::from(currency.to_lowercase());
    }
    match name {
        "products" => product(desk, &mut object, sent)?,
        "prices" => price(desk, &mut object, sent)?,
        "plans" => {
            check_interval(sent, "")?;
            (object["amount"], object["amount_decimal"]) = unit_of(sent, "amount", "amount_decimal")?;
        }
        "coupons" => check_coupon(sent)?,
        "webhook_endpoints" => check_url(desk, sent)?,
        "promotion_codes" if text(sent, "code").is_none() => {
            object["code"] = Value::from(desk.objects.next_id("CODE").replace('_', ""));
        }
        "tax_rates" => object["effective_percentage"] = object["percentage"].clone(),
        "shipping_rates" => object["tax_behavior"] = tax_behavior(sent),
        "subscription_schedules" => object["current_phase"] = Value::Null,
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

/// An id of the caller's own is of no other object.
fn check_id(desk: &Desk<'_>, name: &str, sent: &Map<String, Value>, param: &str) -> Result<(), Refusal> {
    match text(sent, "id").filter(|id| desk.objects.text(desk.account, name, id).is_some()) {
        Some(id) => {
            let message = format!("An object with the ID '{id}' already exists.");
            Err(Refusal::param(param, message).code("resource_already_exists"))
        }
        None => Ok(()),
    }
}

fn tax_behavior(sent: &Map<String, Value>) -> Value {
    sent.get("tax_behavior").cloned().unwrap_or_else(|| Value::from("unspecified"))
}

fn product(desk: &mut Desk<'_>, product: &mut Value, sent: &Map<String, Value>) -> Result<(), Refusal> {
    product["updated"] = Value::from(desk.now);
    if let Some(data) = sent.get("default_price_data").and_then(Value::as_object) {
        if let Some(recurring) = data.get("recurring").and_then(Value::as_object) {
            check_interval(recurring, "default_price_data[recurring]")?;
        }
        let mut data = data.clone();
        data.insert("product".to_owned(), product["id"].clone());
        let price = create(desk, "prices", &data).map_err(|refusal| refusal.within("default_price_data"))?;
        product["default_price"] = price["id"].clone();
    }
    Ok(())
}

pub(super) fn update_product(
    desk: &Desk<'_>,
    product: &mut Value,
    sent: &Map<String, Value>,
) -> Result<(), Refusal> {
    let price = sent.get("default_price").and_then(|id| desk.get("prices", id));
    if price.is_some_and(|price| price["product"] != product["id"]) {
        let message = "The default price must be a price of this product.";
        return Err(Refusal::param("default_price", message));
    }
    product["updated"] = Value::from(desk.now);
    Ok(())
}

fn price(desk: &mut Desk<'_>, price: &mut Value, sent: &Map<String, Value>) -> Result<(), Refusal> {
    (price["unit_amount"], price["unit_amount_decimal"]) =
        unit_of(sent, "unit_amount", "unit_amount_decimal")?;
    take_lookup_key(desk, price, sent)?;
    price["tax_behavior"] = tax_behavior(sent);
    if let Some(recurring) = sent.get("recurring").and_then(Value::as_object) {
        let mut whole = json!({
            "interval_count": 1, "meter": null, "trial_period_days": null, "usage_type": "licensed",
        });
        check_interval(recurring, "recurring")?;
        for (name, value) in recurring {
            whole[name] = value.clone();
        }
        price["recurring"] = whole;
        price["type"] = Value::from("recurring");
    }
    match (text(sent, "product"), sent.get("product_data").and_then(Value::as_object)) {
        (Some(_), None) => {}
        (None, Some(data)) => {
            check_id(desk, "products", data, "product_data[id]")?;
            let mut product = desk.draft("products", data);
            product["updated"] = Value::from(desk.now);
            price["product"] = desk.add("products", product)["id"].clone();
        }
        (Some(_), Some(_)) => return Err(Refusal::exclusive(&["product", "product_data"])),
        (None, None) => return Err(Refusal::missing("product")),
    }
    Ok(())
}

/// "Maximum of three years interval allowed (3 years, 36 months, or 156 weeks)"
/// (<https://docs.stripe.com/api/prices/create>). The most in days is composed, and so are the sentences.
fn check_interval(recurring: &Map<String, Value>, outer: &str) -> Result<(), Refusal> {
    let Some(count) = amount(recurring, "interval_count") else { return Ok(()) };
    let param = super::subscriptions::within(outer, "interval_count");
    if count < 1 {
        return Err(Refusal::param(&param, "Invalid positive integer").code("parameter_invalid_integer"));
    }
    let most = match text(recurring, "interval") {
        Some("day") => 1095,
        Some("week") => 156,
        Some("month") => 36,
        _ => 3,
    };
    if count > most {
        return Err(Refusal::param(&param, "The maximum interval is three years."));
    }
    Ok(())
}

/// The amount of one unit: as a number, null if it is no whole one, and as text.
fn unit_of(sent: &Map<String, Value>, whole: &str, decimal: &str) -> Result<(Value, Value), Refusal> {
    let negative =
        |name| Refusal::param(name, "Invalid non-negative integer").code("parameter_invalid_integer");
    match (amount(sent, whole), text(sent, decimal)) {
        (Some(unit), None) if unit < 0 => Err(negative(whole)),
        (None, Some(text)) if text.starts_with('-') => Err(negative(decimal)),
        (Some(unit), None) => Ok((Value::from(unit), Value::from(unit.to_string()))),
        (None, Some(text)) => Ok((text.parse::<i64>().map_or(Value::Null, Value::from), Value::from(text))),
        (Some(_), Some(_)) => Err(Refusal::exclusive(&[whole, decimal])),
        (None, None) => Err(Refusal::missing(whole)),
    }
}

/// A lookup key is of one active price. With `transfer_lookup_key` it is taken from the other one
/// (<https://docs.stripe.com/products-prices/manage-prices#lookup-keys>).
pub(super) fn take_lookup_key(
    desk: &mut Desk<'_>,
    price: &Value,
    sent: &Map<String, Value>,
) -> Result<(), Refusal> {
    let Some(key) = text(sent, "lookup_key") else { return Ok(()) };
    let held = desk.objects.with(desk.account, "prices", "lookup_key", key);
    for mut other in held.into_iter().filter(|other| other["id"] != price["id"] && other["active"] == true) {
        if !flag(sent, "transfer_lookup_key") {
            let id = other["id"].as_str().unwrap_or_default();
            let message = format!("A price (`{id}`) already uses that lookup key.");
            return Err(Refusal::param("lookup_key", message));
        }
        other["lookup_key"] = Value::Null;
        desk.put("prices", &other);
        desk.tell("updated", &other);
    }
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

pub(super) fn update_endpoint(
    desk: &Desk<'_>,
    endpoint: &mut Value,
    sent: &Map<String, Value>,
) -> Result<(), Refusal> {
    check_url(desk, sent)?;
    if sent.contains_key("disabled") {
        endpoint["status"] = Value::from(if flag(sent, "disabled") { "disabled" } else { "enabled" });
    }
    Ok(())
}

/// Refuses an address that is no receiver's. In live mode it must be HTTPS, and the refusal has no code
/// (`stripe/stripe-connect-custom-rocketdeliveries#10`, `saleor/saleor#9567`). Otherwise the code is `url_invalid`
/// (<https://docs.stripe.com/error-codes#url-invalid>). The sentence for another scheme is composed.
fn check_url(desk: &Desk<'_>, sent: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(receiver) = text(sent, "url") else { return Ok(()) };
    if desk.account.ends_with("/live") && !receiver.starts_with("https://") {
        let message = format!("Invalid URL: {receiver}. URLs in livemode must begin with \"https://\"");
        return Err(Refusal::param("url", message));
    }
    let parsed = url::Url::parse(receiver);
    let message = match parsed.as_ref().map(url::Url::scheme) {
        Ok("http" | "https") => return Ok(()),
        _ if !receiver.contains("://") => "Invalid URL: An explicit scheme (such as https) must be provided.",
        Ok(_) => "Invalid URL: The URL must begin with http or https.",
        Err(_) => "Not a valid URL",
    };
    Err(Refusal::param("url", message).code("url_invalid"))
}

/// Refuses the removal of an object that others still need.
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
        // "if an invoice is for a subscription, it must be voided" (<https://docs.stripe.com/api/invoices/delete>).
        "invoices" if object["parent"]["type"] == "subscription_details" => {
            let message = "An invoice of a subscription cannot be deleted. It can be voided.";
            Err(Refusal::state("invoice_not_editable", message))
        }
        "invoiceitems"
            if !object["invoice"].is_null() && !super::items::is_draft(desk, &object["invoice"]) =>
        {
            let message = "This invoice item belongs to an invoice that is no longer a draft.";
            Err(Refusal::state("invoice_not_editable", message))
        }
        _ => Ok(()),
    }
}

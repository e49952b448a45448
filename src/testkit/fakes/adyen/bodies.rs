//! What a request's body must be, in Adyen's own order: readable, of known members, of a merchant account, complete.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::super::fixture::{Fixtures, Reply};

/// An amount in minor units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) value: i64,
    pub(super) currency: String,
}

#[derive(Debug, Deserialize)]
struct Shape {
    required: Vec<String>,
    members: Vec<String>,
}

/// The body of a request of this type of Adyen's specification, or the refusal of it.
pub(super) fn read(fixtures: &Fixtures, kind: &str, body: &[u8]) -> Result<Value, Reply> {
    let Ok(value @ Value::Object(_)) = serde_json::from_slice::<Value>(body) else {
        return Err(fixtures.reply("invalid_json"));
    };
    let Some(shape) = SHAPES.get(kind) else { return Err(fixtures.reply("not_found")) };
    let members = value.as_object().into_iter().flatten().map(|(name, _)| name);
    let unknown: Vec<&str> =
        members.filter(|name| !shape.members.contains(name)).map(String::as_str).collect();
    if !unknown.is_empty() {
        let reply = fixtures.reply("unknown_fields").fill("<type>", kind);
        return Err(reply.fill("<fields>", &unknown.join(", ")));
    }
    let is_missing = |name: &str| match &value[name] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let requires = |name: &str| shape.required.iter().any(|required| required == name);
    if requires("merchantAccount") && is_missing("merchantAccount") {
        return Err(fixtures.reply("invalid_merchant"));
    }
    match shape.required.iter().find(|name| is_missing(name)).map(String::as_str) {
        None => Ok(value),
        Some("amount") => Err(fixtures.reply("amount_missing")),
        Some("reference") => Err(fixtures.reply("reference_missing")),
        Some("returnUrl") => Err(fixtures.reply("return_url_missing")),
        Some(other) => Err(fixtures.reply("field_missing").fill("<field>", other)),
    }
}

/// The amount of a request that has one.
pub(super) fn amount(fixtures: &Fixtures, body: &Value) -> Result<Amount, Reply> {
    let Some(value) = body["amount"]["value"].as_i64().filter(|value| *value >= 0) else {
        return Err(fixtures.reply("amount_invalid"));
    };
    let currency = body["amount"]["currency"].as_str().unwrap_or_default();
    if currency.len() != 3 || !currency.bytes().all(|letter| letter.is_ascii_uppercase()) {
        return Err(fixtures.reply("currency_invalid"));
    }
    Ok(Amount { value, currency: currency.to_owned() })
}

/// The brand of the card in a payment method, or the method's own name; `None` if the fake does not know it.
pub(super) fn method(fixtures: &Fixtures, body: &Value) -> Result<Option<&'static str>, Reply> {
    let method = &body["paymentMethod"];
    let encrypted = method["encryptedCardNumber"].as_str().map(|text| text.trim_start_matches("test_"));
    match method["type"].as_str() {
        Some("ideal") => Ok(Some("ideal")),
        Some("scheme") => match method["number"].as_str() {
            Some(number) if !has_check_digit(number) => Err(fixtures.reply("card_invalid")),
            Some(number) => Ok(Some(brand(number))),
            None if encrypted.is_some() => Ok(encrypted.map(brand)),
            None if method["storedPaymentMethodId"].is_string() => Ok(Some("visa")),
            None => Err(fixtures.reply("field_missing").fill("<field>", "paymentMethod.encryptedCardNumber")),
        },
        Some(_) => Ok(None),
        None => Err(fixtures.reply("field_missing").fill("<field>", "paymentMethod.type")),
    }
}

fn brand(number: &str) -> &'static str {
    match number.as_bytes().first() {
        Some(b'3') => "amex",
        Some(b'2' | b'5') => "mc",
        _ => "visa",
    }
}

/// Luhn's (ISO/IEC 7812-1).
fn has_check_digit(number: &str) -> bool {
    let double = |digit: u32| if digit > 4 { 2 * digit - 9 } else { 2 * digit };
    let mut sum = 0;
    for (place, digit) in number.chars().rev().enumerate() {
        let Some(digit) = digit.to_digit(10) else { return false };
        sum += if place % 2 == 1 { double(digit) } else { digit };
    }
    number.len() >= 12 && sum % 10 == 0
}

static SHAPES: LazyLock<HashMap<String, Shape>> = LazyLock::new(|| {
    let mut all: serde_json::Map<String, Value> =
        serde_json::from_str(include_str!("../../fixtures/adyen_contract.json")).expect("it is in the crate");
    all.remove("_about");
    serde_json::from_value(Value::Object(all)).expect("it is in the crate")
});

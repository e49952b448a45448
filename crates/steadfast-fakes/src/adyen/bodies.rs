//! The rules for a request's body, in Adyen's own order: readable, of known members, of a merchant account, complete.

use serde_json::Value;

use super::super::fixture::{Fixtures, Reply};
use super::contract::{self, Wrong, is_missing};

/// An amount in minor units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) value: i64,
    pub(super) currency: String,
}

/// The body of a request of this type of Adyen's specification, or the refusal of it.
pub(super) fn read(fixtures: &Fixtures, kind: &str, body: &[u8]) -> Result<Value, Reply> {
    let Ok(value @ Value::Object(_)) = serde_json::from_slice::<Value>(body) else {
        return Err(fixtures.reply("invalid_json"));
    };
    checked(fixtures, kind, value)
}

/// The same of a body that is JSON already.
pub(super) fn checked(fixtures: &Fixtures, kind: &str, value: Value) -> Result<Value, Reply> {
    let Some(shape) = contract::shape(kind) else { return Err(fixtures.reply("not_found")) };
    let wrong = contract::check(kind, &value).err();
    // A member that cannot be read comes before one that is missing, and that before one that is too long.
    let (unreadable, late): (Option<Wrong>, Option<Wrong>) = match wrong {
        Some(wrong @ (Wrong::Unknown { .. } | Wrong::Kind { .. })) => (Some(wrong), None),
        wrong => (None, wrong),
    };
    if let Some(wrong) = unreadable {
        return Err(refusal(fixtures, &wrong));
    }
    let requires = |name: &str| shape.required.iter().any(|required| required == name);
    if requires("merchantAccount") && is_missing(&value["merchantAccount"]) {
        return Err(fixtures.reply("invalid_merchant"));
    }
    match shape.required.iter().find(|name| is_missing(&value[name.as_str()])) {
        Some(name) => Err(missing(fixtures, name)),
        None => late.map_or(Ok(value), |wrong| Err(refusal(fixtures, &wrong))),
    }
}

fn missing(fixtures: &Fixtures, member: &str) -> Reply {
    match member {
        "amount" => fixtures.reply("amount_missing"),
        "reference" => fixtures.reply("reference_missing"),
        "returnUrl" => fixtures.reply("return_url_missing"),
        "amount.value" => fixtures.reply("amount_invalid"),
        "amount.currency" => fixtures.reply("currency_invalid"),
        other => fixtures.reply("field_missing").fill("<field>", other),
    }
}

fn refusal(fixtures: &Fixtures, wrong: &Wrong) -> Reply {
    match wrong {
        Wrong::Unknown { kind, members } => {
            fixtures.reply("unknown_fields").fill("<type>", kind).fill("<fields>", &members.join(", "))
        }
        Wrong::Kind { member, .. } if member == "amount.value" => fixtures.reply("amount_invalid"),
        Wrong::Kind { value, expected, .. } => {
            let input: String = value.chars().take(INPUT_SHOWN).collect();
            fixtures.reply("wrong_kind").fill("<expected>", expected).fill("<input>", &input)
        }
        Wrong::Missing { member } => missing(fixtures, member),
        Wrong::Bounds { member } if member.ends_with("amount.currency") => fixtures.reply("currency_invalid"),
        Wrong::Currency => fixtures.reply("currency_invalid"),
        Wrong::Bounds { member } => fixtures.reply("out_of_bounds").fill("<field>", member),
        Wrong::Metadata => fixtures.reply("metadata_too_large"),
        Wrong::MetadataKey => fixtures.reply("metadata_key_too_large"),
    }
}

/// The refusal of what Adyen does and the fake does not, in the words of a validation: it is known that nothing took effect.
pub(super) fn unsupported(fixtures: &Fixtures, what: &str) -> Reply {
    fixtures.reply("unsupported").fill("<field>", what)
}

/// The amount of a request that has one, which [`read`] has checked.
pub(super) fn amount(fixtures: &Fixtures, body: &Value) -> Result<Amount, Reply> {
    let value = body["amount"]["value"].as_i64().filter(|value| *value >= 0);
    let value = value.ok_or_else(|| fixtures.reply("amount_invalid"))?;
    let currency = body["amount"]["currency"].as_str().unwrap_or_default().to_owned();
    add_up(fixtures, body, value, &currency)?;
    Ok(Amount { value, currency })
}

/// That splits come to the amount, in its currency (<https://docs.adyen.com/platforms/online-payments/split-transactions>).
/// Those without an amount are fees, of which Adyen knows the amount. The code of the refusal is composed.
fn add_up(fixtures: &Fixtures, body: &Value, value: i64, currency: &str) -> Result<(), Reply> {
    let splits = body["splits"].as_array().into_iter().flatten().map(|split| &split["amount"]);
    let amounts: Vec<&Value> = splits.filter(|amount| !amount.is_null()).collect();
    let sum: i128 = amounts.iter().filter_map(|amount| amount["value"].as_i64()).map(i128::from).sum();
    let is_foreign = |amount: &&Value| amount["currency"].as_str().is_some_and(|other| other != currency);
    if amounts.iter().any(is_foreign) || !amounts.is_empty() && sum != i128::from(value) {
        return Err(fixtures.reply("field_invalid").fill("<field>", "splits"));
    }
    Ok(())
}

/// Of a value that could not be read.
const INPUT_SHOWN: usize = 80;

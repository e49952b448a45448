//! Payment methods, and the customers that they are attached to.

use serde_json::{Map, Value, json};

use super::super::cards::{Card, Charging};
use super::super::desk::{Desk, Made};
use super::super::refusal::Refusal;
use super::text;

pub(super) fn create(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    if text(sent, "type").is_none_or(|kind| kind != "card") {
        return Err(match text(sent, "type") {
            None => Refusal::missing("type"),
            Some(other) => {
                Refusal::param("type", format!("The payment method type \"{other}\" is not activated."))
            }
        });
    }
    let details = sent.get("card").and_then(Value::as_object).ok_or_else(|| Refusal::missing("card"))?;
    let (name, param) = match (text(details, "token"), text(details, "number")) {
        (Some(token), _) => (token.to_owned(), "card[token]"),
        (None, Some(number)) => (number.replace([' ', '-'], ""), "card[number]"),
        (None, None) => return Err(Refusal::missing("card[number]")),
    };
    let Some(card) = Card::named(&name) else {
        let message = "Your card number is incorrect. The fake knows Stripe's test cards.";
        return Err(Refusal::card("incorrect_number", "incorrect_number", message).with("param", param));
    };
    let expires =
        details.get("exp_month").and_then(Value::as_i64).zip(details.get("exp_year").and_then(Value::as_i64));
    let mut rest = sent.clone();
    rest.remove("card");
    let method = hold(desk, card, expires, &rest);
    Ok(method)
}

fn hold(desk: &mut Desk<'_>, card: Card, expires: Option<(i64, i64)>, sent: &Map<String, Value>) -> Value {
    let mut method = desk.draft("payment_methods", sent);
    method["type"] = Value::from("card");
    method["allow_redisplay"] =
        sent.get("allow_redisplay").cloned().unwrap_or_else(|| Value::from("unspecified"));
    method["card"] = card.shown(expires);
    if card.behaviour != Charging::Pays
        && let Some(id) = method["id"].as_str()
    {
        desk.methods.insert(id.to_owned(), card.behaviour);
    }
    desk.add_quietly("payment_methods", &method);
    method
}

/// The payment method of this id. A test value such as `pm_card_visa` makes a new one.
pub(super) fn take(desk: &mut Desk<'_>, name: &str, param: &str) -> Made {
    match Card::named(name).filter(|_| name.starts_with("pm_card_")) {
        Some(card) => Ok(hold(desk, card, None, &Map::new())),
        None => {
            let found = desk.objects.get(desk.account, "payment_methods", name);
            found.ok_or_else(|| Refusal::no_such("PaymentMethod", name, param))
        }
    }
}

/// What comes of charging it.
pub(super) fn behaviour(desk: &Desk<'_>, method: &Value) -> Charging {
    method["id"].as_str().and_then(|id| desk.methods.get(id)).copied().unwrap_or(Charging::Pays)
}

/// Keeps it for the customer, if there is one.
pub(super) fn keep(desk: &mut Desk<'_>, method: &Value, customer: &Value) {
    if customer.is_string() && method["customer"].is_null() {
        let mut method = method.clone();
        method["customer"] = customer.clone();
        desk.put("payment_methods", &method);
        desk.tell("attached", &method);
    }
}

pub(super) fn attach(desk: &mut Desk<'_>, mut method: Value, sent: &Map<String, Value>) -> Made {
    let customer = sent.get("customer").cloned().unwrap_or(Value::Null);
    if !method["customer"].is_null() && method["customer"] != customer {
        return Err(attached());
    }
    if let Some(refusal) = behaviour(desk, &method).refusal() {
        return Err(refusal);
    }
    method["customer"] = customer;
    desk.put("payment_methods", &method);
    desk.tell("attached", &method);
    Ok(method)
}

pub(super) fn detach(desk: &mut Desk<'_>, mut method: Value) -> Made {
    if method["customer"].is_null() {
        let message =
            "The payment method you provided is not attached to a customer so detachment is impossible.";
        return Err(Refusal::state("payment_method_not_attached", message));
    }
    method["customer"] = Value::Null;
    desk.put("payment_methods", &method);
    desk.tell("detached", &method);
    Ok(method)
}

/// Refuses a payment method that is not the customer's own.
pub(super) fn check_own(
    desk: &Desk<'_>,
    sent: &Map<String, Value>,
    param: &str,
    customer: &Value,
) -> Result<(), Refusal> {
    match sent.get(param).filter(|id| id.is_string()) {
        Some(id) if !is_of(desk, id, customer) => Err(not_own(id, param)),
        _ => Ok(()),
    }
}

/// The default of a customer's invoices is a payment method of the customer's.
pub(super) fn check_default(
    desk: &Desk<'_>,
    customer: &Value,
    sent: &Map<String, Value>,
) -> Result<(), Refusal> {
    match default_of(sent) {
        Some(id) if !is_of(desk, id, customer) => Err(not_own(id, DEFAULT)),
        _ => Ok(()),
    }
}

fn is_of(desk: &Desk<'_>, method: &Value, customer: &Value) -> bool {
    customer.is_string()
        && desk.get("payment_methods", method).is_some_and(|method| method["customer"] == *customer)
}

fn not_own(id: &Value, param: &str) -> Refusal {
    let id = id.as_str().unwrap_or_default();
    let message = format!(
        "The customer does not have a payment method with the ID {id}. The payment method must be attached to the customer."
    );
    Refusal::param(param, message).code("resource_missing")
}

fn default_of(sent: &Map<String, Value>) -> Option<&Value> {
    let default = &sent.get("invoice_settings")?["default_payment_method"];
    Some(default).filter(|id| id.is_string())
}

pub(super) fn create_customer(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    if let Some(source) = text(sent, "source") {
        let card = Card::named(source).ok_or_else(|| Refusal::no_such("token", source, "source"))?;
        if let Some(refusal) = card.behaviour.refusal() {
            return Err(refusal);
        }
    }
    // Of a new customer it can only be the one that comes with it.
    if let Some(default) = default_of(sent).filter(|id| sent.get("payment_method") != Some(*id)) {
        return Err(not_own(default, DEFAULT));
    }
    let method = text(sent, "payment_method").map(|name| take(desk, name, "payment_method")).transpose()?;
    if method.as_ref().is_some_and(|method| !method["customer"].is_null()) {
        return Err(attached());
    }
    let mut customer = desk.draft("customers", sent);
    if let (Some(method), true) = (&method, default_of(sent).is_some()) {
        customer["invoice_settings"]["default_payment_method"] = method["id"].clone();
    }
    set_unset(&mut customer);
    if text(sent, "source").is_some() {
        customer["default_source"] = Value::from(desk.objects.next_id("card"));
    }
    let customer = desk.add("customers", customer);
    if let Some(method) = method {
        keep(desk, &method, &customer["id"]);
    }
    Ok(customer)
}

/// What is there, as nothing, where no request has set it.
fn set_unset(customer: &mut Value) {
    for (name, unset) in [
        ("address", Value::Null),
        ("currency", Value::Null),
        ("delinquent", Value::from(false)),
        ("discount", Value::Null),
        ("invoice_prefix", Value::from("FAKE")),
        ("name", Value::Null),
        ("next_invoice_sequence", Value::from(1)),
        ("phone", Value::Null),
        ("preferred_locales", json!([])),
        ("tax_exempt", Value::from("none")),
        ("test_clock", Value::Null),
    ] {
        if customer[name].is_null() {
            customer[name] = unset;
        }
    }
}

fn attached() -> Refusal {
    let message = "The payment method you provided has already been attached to a customer.";
    Refusal::state("payment_method_already_attached", message)
}

const DEFAULT: &str = "invoice_settings[default_payment_method]";

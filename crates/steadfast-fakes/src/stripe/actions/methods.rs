//! Payment methods, and the customers that they are attached to.
//!
//! A fact that is marked "recorded" is a third party's reading: the Python package `seahaven-stripe-world` 0.3.0
//! (<https://github.com/Kiln-AI/stripe_world>). It recorded answers of a sandbox at version 2026-08-26.dahlia. The
//! fake's own version is older.

use serde_json::{Map, Value, json};

use super::super::cards::{Card, Charging, kept_refusal};
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

/// The outcome of charging it.
pub(super) fn behaviour(desk: &Desk<'_>, method: &Value) -> Charging {
    method["id"].as_str().and_then(|id| desk.methods.get(id)).copied().unwrap_or(Charging::Pays)
}

/// The purpose that a payment method was used for. A customer's own can be used for anything and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It was charged or detached: it is spent.
    Spent,
    /// It was set up for no customer: one can still keep it
    /// (<https://docs.stripe.com/payments/checkout/save-and-reuse>).
    SetUp,
}

/// Notes what a payment method is used for now, unless a customer has it.
pub(super) fn used(desk: &mut Desk<'_>, method: &Value, by: Use) {
    let held = desk.get("payment_methods", &method["id"]);
    if held.is_none_or(|held| !held["customer"].is_null()) {
        return;
    }
    let mark = json!({ "id": method["id"], "spent": by == Use::Spent });
    if desk.get(USED, &method["id"]).is_some() {
        desk.objects.replace(desk.account, USED, &mark);
    } else {
        desk.objects.add(desk.account, USED, &mark);
    }
}

/// Refuses one that was used without a customer, or detached from one. "After a `PaymentMethod` is detached, it can no
/// longer be used for a payment or re-attached to a Customer" (<https://docs.stripe.com/api/payment_methods/detach>).
/// The words are those of `liberapay/liberapay.com#2686`.
pub(super) fn check_unused(desk: &Desk<'_>, method: &Value) -> Result<(), Refusal> {
    if method["customer"].is_null() && desk.get(USED, &method["id"]).is_some() {
        return Err(Refusal::plain(NOT_AGAIN).in_execution());
    }
    Ok(())
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
    check_kept(desk, &method)?;
    method["customer"] = customer;
    desk.put("payment_methods", &method);
    desk.tell("attached", &method);
    Ok(method)
}

/// Refuses what no customer can keep. The words for one that is spent are those of
/// `stripe/stripe-php#1221`.
fn check_kept(desk: &Desk<'_>, method: &Value) -> Result<(), Refusal> {
    if desk.get(USED, &method["id"]).is_some_and(|used| used["spent"] == true) {
        return Err(Refusal::plain(NEVER_KEPT).in_execution());
    }
    let last4 = method["card"]["last4"].as_str().unwrap_or_default();
    kept_refusal(behaviour(desk, method), last4).map_or(Ok(()), Err)
}

pub(super) fn detach(desk: &mut Desk<'_>, mut method: Value) -> Made {
    if method["customer"].is_null() {
        let message =
            "The payment method you provided is not attached to a customer so detachment is impossible.";
        return Err(Refusal::state("payment_method_not_attached", message));
    }
    method["customer"] = Value::Null;
    desk.put("payment_methods", &method);
    used(desk, &method, Use::Spent);
    desk.tell("detached", &method);
    Ok(method)
}

/// Refuses a payment method of another customer than the intent's (words, codes and parameters recorded).
pub(super) fn check_owner(
    desk: &Desk<'_>,
    method: &Value,
    customer: &Value,
    kind: &str,
) -> Result<(), Refusal> {
    let held = desk.get("payment_methods", method).unwrap_or_default();
    let (Some(id), Some(owner)) = (held["id"].as_str(), held["customer"].as_str()) else { return Ok(()) };
    let refusal = match customer.as_str() {
        Some(customer) if customer == owner => return Ok(()),
        Some(customer) => {
            let message = format!(
                "The PaymentMethod {id} does not belong to the Customer you supplied {customer}. Please use this \
                 PaymentMethod with the Customer that it belongs to instead."
            );
            Refusal::param("payment_method", message)
        }
        None => {
            let setup = kind == "SetupIntent";
            let (supplied, param) = if setup {
                (format!("The payment method supplied ({id})"), "payment_method")
            } else {
                (format!("The `payment_method` parameter supplied {id}"), "source")
            };
            let message = format!(
                "{supplied} belongs to the Customer {owner}. Please include the Customer in the `customer` parameter on \
                 the {kind}."
            );
            let refusal = Refusal::param(param, message);
            if setup { refusal } else { refusal.code("parameter_missing") }
        }
    };
    Err(refusal.in_execution())
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
        if let Some(refusal) = card.kept_refusal() {
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
    if let Some(method) = &method {
        check_kept(desk, method)?;
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

/// Sets the members that are there, as nothing, where no request has set them.
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

/// The fake's own table of the payment methods that were used without a customer. No request can name it.
const USED: &str = "used payment methods";

const NOT_AGAIN: &str = "The provided PaymentMethod was previously used with a PaymentIntent without Customer \
    attachment, shared with a connected account without Customer attachment, or was detached from a Customer. It may \
    not be used again. To use a PaymentMethod multiple times, you must attach it to a Customer first.";

const NEVER_KEPT: &str = "This PaymentMethod was previously used without being attached to a Customer or was detached \
    from a Customer, and may not be used again.";

const DEFAULT: &str = "invoice_settings[default_payment_method]";

//! Payment intents: their life from the first parameter to the money
//! (<https://docs.stripe.com/payments/paymentintents/lifecycle>). Setup intents have `setups.rs`.

use serde_json::{Map, Value, json};

use super::super::cards::Charging;
use super::super::contract::Resource;
use super::super::desk::{Desk, Made, merge};
use super::super::refusal::Refusal;
use super::{amount, charges, checks, flag, methods, redirects, refunds, text};

pub(super) fn create(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    let currency = text(sent, "currency").unwrap_or_default().to_lowercase();
    checks::at_least_minimum(amount(sent, "amount").unwrap_or(0), &currency)?;
    let mut sent = sent.clone();
    redirects::prepare(desk, "PaymentIntent", &mut sent)?;
    make(desk, &sent, currency)
}

/// An intent of any amount: that of an invoice is not the caller's choice.
pub(super) fn make(desk: &mut Desk<'_>, sent: &Map<String, Value>, currency: String) -> Made {
    let mut sent = sent.clone();
    take_method(desk, &mut sent)?;
    let mut intent = desk.draft("payment_intents", &sent);
    intent["currency"] = Value::from(currency);
    intent["client_secret"] = secret(&intent);
    after_update(&mut intent);
    let intent = desk.add("payment_intents", intent);
    if flag(&sent, "confirm") { confirm(desk, intent, &sent) } else { Ok(intent) }
}

pub(super) fn secret(intent: &Value) -> Value {
    Value::from(format!("{}_secret_fake", intent["id"].as_str().unwrap_or_default()))
}

/// Puts the payment method's own id in place of a test value such as `pm_card_visa`.
pub(super) fn take_method(desk: &mut Desk<'_>, sent: &mut Map<String, Value>) -> Result<(), Refusal> {
    if let Some(name) = text(sent, "payment_method") {
        let method = methods::take(desk, name, "payment_method")?;
        methods::check_unused(desk, &method)?;
        sent.insert("payment_method".to_owned(), method["id"].clone());
    }
    Ok(())
}

/// Refuses what may no longer be changed, and takes the payment method.
pub(super) fn prepare_update(
    desk: &mut Desk<'_>,
    intent: &Value,
    sent: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    if intent["object"] == "payment_intent" {
        let amount = amount(sent, "amount").or(intent["amount"].as_i64()).unwrap_or(0);
        let currency = text(sent, "currency").or(intent["currency"].as_str()).unwrap_or_default();
        checks::at_least_minimum(amount, &currency.to_lowercase())?;
    }
    let status = intent["status"].as_str().unwrap_or_default();
    let free = ["requires_payment_method", "requires_confirmation", "requires_action"];
    let only_words =
        sent.keys().all(|name| matches!(name.as_str(), "metadata" | "description" | "receipt_email"));
    if free.contains(&status) || only_words {
        take_method(desk, sent)?;
        if intent["object"] == "setup_intent" {
            let after = |name: &str| sent.get(name).unwrap_or(&intent[name]);
            methods::check_owner(desk, after("payment_method"), after("customer"), "SetupIntent")
                .map_err(|refusal| refusal.with("setup_intent", intent.clone()))?;
        }
        return Ok(());
    }
    let kind = if intent["object"] == "payment_intent" { "PaymentIntent" } else { "SetupIntent" };
    let message = format!(
        "This {kind}'s parameters could not be updated because it has a status of {status}. Only a {kind} with one of \
         the following statuses may be updated: {}.",
        free.join(", ")
    );
    Err(unexpected(intent, message))
}

/// Sets what an intent waits for: a payment method decides that, by whether it has one.
pub(super) fn after_update(intent: &mut Value) {
    let waits = ["requires_payment_method", "requires_confirmation"];
    if waits.contains(&intent["status"].as_str().unwrap_or_default()) {
        intent["status"] = Value::from(waits[usize::from(!intent["payment_method"].is_null())]);
    }
}

pub(super) fn unexpected(intent: &Value, message: impl Into<String>) -> Refusal {
    let object = intent["object"].as_str().unwrap_or_default();
    Refusal::state(&format!("{object}_unexpected_state"), message).with(object, intent.clone())
}

pub(super) fn confirm(desk: &mut Desk<'_>, mut intent: Value, sent: &Map<String, Value>) -> Made {
    check_confirmable(&intent)?;
    let mut sent = sent.clone();
    take_method(desk, &mut sent)?;
    if let Some(resource) = Resource::named("payment_intents") {
        let shown = sent.iter().filter(|(name, _)| !matches!(name.as_str(), "amount" | "currency"));
        merge(resource, &mut intent, &shown.map(|(name, value)| (name.clone(), value.clone())).collect());
    }
    let Some(method) = method_of(desk, &intent) else {
        return Err(unexpected(&intent, NO_METHOD));
    };
    methods::check_unused(desk, &method)?;
    methods::check_owner(desk, &method["id"], &intent["customer"], "PaymentIntent")
        .map_err(|refusal| refusal.with("payment_intent", intent.clone()))?;
    redirects::check(&intent, &sent)?;
    intent["payment_method"] = method["id"].clone();
    let behaviour = methods::behaviour(desk, &method);
    match behaviour {
        Charging::Declines(..) => Err(decline(desk, intent, &method, behaviour)),
        Charging::Authenticates if flag(&sent, "off_session") || flag(&sent, "error_on_requires_action") => {
            Err(decline(desk, intent, &method, behaviour))
        }
        Charging::Authenticates => {
            intent["status"] = Value::from("requires_action");
            intent["next_action"] = next_action(&sent);
            desk.put("payment_intents", &intent);
            desk.tell("requires_action", &intent);
            Ok(intent)
        }
        Charging::Pays => Ok(paid(desk, intent, &method)),
    }
}

fn check_confirmable(intent: &Value) -> Result<(), Refusal> {
    match intent["status"].as_str().unwrap_or_default() {
        "requires_payment_method" | "requires_confirmation" | "requires_action" => Ok(()),
        "succeeded" | "requires_capture" => {
            let message = "You cannot confirm this PaymentIntent because it has already succeeded after being previously confirmed.";
            Err(unexpected(intent, message))
        }
        status => {
            let message =
                format!("You cannot confirm this PaymentIntent because it has a status of {status}.");
            Err(unexpected(intent, message))
        }
    }
}

/// The intent's payment method, or else the default of its customer (recorded: see `methods.rs`).
fn method_of(desk: &Desk<'_>, intent: &Value) -> Option<Value> {
    desk.get("payment_methods", &intent["payment_method"]).or_else(|| {
        let customer = desk.get("customers", &intent["customer"])?;
        desk.get("payment_methods", &customer["invoice_settings"]["default_payment_method"])
    })
}

pub(super) fn next_action(sent: &Map<String, Value>) -> Value {
    match text(sent, "return_url").filter(|_| !flag(sent, "use_stripe_sdk")) {
        Some(url) => json!({ "type": "redirect_to_url",
            "redirect_to_url": { "return_url": url, "url": "https://hooks.stripe.com/3d_secure_2/hosted" } }),
        None => json!({ "type": "use_stripe_sdk", "use_stripe_sdk": { "type": "three_d_secure_redirect" } }),
    }
}

/// The charge of an intent, not yet held.
fn charge_of(desk: &mut Desk<'_>, intent: &Value, method: &Value) -> Value {
    let mut charge = desk.draft("charges", &Map::new());
    for name in [
        "amount",
        "currency",
        "customer",
        "description",
        "metadata",
        "on_behalf_of",
        "receipt_email",
        "shipping",
        "statement_descriptor",
        "statement_descriptor_suffix",
        "transfer_group",
        "application_fee_amount",
    ] {
        charge[name] = intent[name].clone();
    }
    charge["payment_intent"] = intent["id"].clone();
    charge["payment_method"] = method["id"].clone();
    charge["billing_details"] = method["billing_details"].clone();
    charge
}

/// An intent that could not be paid. Who would have to authenticate and is not there was charged nothing: there is no
/// charge then (recorded: see `methods.rs`).
fn decline(desk: &mut Desk<'_>, mut intent: Value, method: &Value, behaviour: Charging) -> Refusal {
    let refusal = match behaviour.refusal() {
        Some(refusal) => {
            let charge = charge_of(desk, &intent, method);
            let charge = charges::fail(desk, charge, behaviour);
            methods::used(desk, method, methods::Use::Spent);
            intent["latest_charge"] = charge["id"].clone();
            refusal.with("charge", charge["id"].clone())
        }
        None => {
            intent["latest_charge"] = Value::Null;
            Refusal::card(UNAUTHENTICATED, UNAUTHENTICATED, NOT_AUTHENTICATED)
        }
    };
    let refusal = refusal.with("payment_method", method.clone());
    intent["status"] = Value::from("requires_payment_method");
    intent["payment_method"] = Value::Null;
    intent["last_payment_error"] = refusal.error();
    desk.put("payment_intents", &intent);
    desk.tell("payment_failed", &intent);
    refusal.with("payment_intent", intent).leaving()
}

fn paid(desk: &mut Desk<'_>, mut intent: Value, method: &Value) -> Value {
    let manual = intent["capture_method"] == "manual";
    let mut charge = charge_of(desk, &intent, method);
    charges::pay(desk, &mut charge, &method["card"], !manual);
    let charge = charges::hold_new(desk, charge);
    intent["latest_charge"] = charge["id"].clone();
    intent["next_action"] = Value::Null;
    intent["last_payment_error"] = Value::Null;
    let (status, field, what) = if manual {
        ("requires_capture", "amount_capturable", "amount_capturable_updated")
    } else {
        ("succeeded", "amount_received", "succeeded")
    };
    intent["status"] = Value::from(status);
    intent[field] = intent["amount"].clone();
    if !intent["setup_future_usage"].is_null() {
        methods::keep(desk, method, &intent["customer"]);
    }
    methods::used(desk, method, methods::Use::Spent);
    desk.put("payment_intents", &intent);
    desk.tell(what, &intent);
    intent
}

pub(super) fn capture(desk: &mut Desk<'_>, mut intent: Value, sent: &Map<String, Value>) -> Made {
    if intent["status"] != "requires_capture" {
        let message = format!(
            "This PaymentIntent could not be captured because it has a status of {}. Only a PaymentIntent with one of \
             the following statuses may be captured: requires_capture.",
            intent["status"].as_str().unwrap_or_default()
        );
        return Err(unexpected(&intent, message));
    }
    let most = intent["amount_capturable"].as_i64().unwrap_or(0);
    let taken = amount(sent, "amount_to_capture").unwrap_or(most);
    if !(1..=most).contains(&taken) {
        let message = format!("The amount to capture is between 1 and the amount authorised, {most}.");
        return Err(Refusal::amount(message).code("amount_too_large").with("param", "amount_to_capture"));
    }
    if let Some(mut charge) = desk.get("charges", &intent["latest_charge"]) {
        charges::settle(desk, &mut charge, taken);
    }
    if let Some(resource) = Resource::named("payment_intents") {
        merge(resource, &mut intent, sent);
    }
    intent["status"] = Value::from("succeeded");
    intent["amount_received"] = Value::from(taken);
    intent["amount_capturable"] = Value::from(0);
    desk.put("payment_intents", &intent);
    desk.tell("succeeded", &intent);
    Ok(intent)
}

pub(super) fn cancel(desk: &mut Desk<'_>, mut intent: Value, sent: &Map<String, Value>) -> Made {
    let status = intent["status"].as_str().unwrap_or_default();
    let open = ["requires_payment_method", "requires_capture", "requires_confirmation", "requires_action"];
    if !open.contains(&status) {
        let message = format!(
            "You cannot cancel this PaymentIntent because it has a status of {status}. Only a PaymentIntent with one \
             of the following statuses may be canceled: {}.",
            open.join(", ")
        );
        return Err(unexpected(&intent, message));
    }
    if status == "requires_capture"
        && refunds::releases_are_refunds(desk)
        && let Some(mut charge) = desk.get("charges", &intent["latest_charge"])
    {
        let whole = charge["amount"].as_i64().unwrap_or(0);
        refunds::release(desk, &mut charge, whole, 0);
    }
    intent["amount_capturable"] = Value::from(0);
    Ok(close(desk, "payment_intents", intent, sent))
}

/// Cancels an intent of either kind.
pub(super) fn close(desk: &mut Desk<'_>, name: &str, mut intent: Value, sent: &Map<String, Value>) -> Value {
    intent["status"] = Value::from("canceled");
    intent["cancellation_reason"] = sent.get("cancellation_reason").cloned().unwrap_or_default();
    intent["next_action"] = Value::Null;
    if name == "payment_intents" {
        intent["canceled_at"] = Value::from(desk.now);
    }
    desk.put(name, &intent);
    desk.tell("canceled", &intent);
    intent
}

const UNAUTHENTICATED: &str = "authentication_required";

const NOT_AUTHENTICATED: &str = "Your card was declined. This transaction requires authentication.";

const NO_METHOD: &str = "You cannot confirm this PaymentIntent because it's missing a payment method. You can either \
    update the PaymentIntent with a payment method and then confirm it again, or confirm it again directly with a \
    payment method or ConfirmationToken.";

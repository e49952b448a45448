//! Which kinds of payment methods an intent takes, and whether its confirmation has to say where the customer returns.
//!
//! From version 2023-08-16 on an intent takes what is enabled in the Dashboard, unless its creation names the kinds
//! or turns that off (<https://docs.stripe.com/upgrades/manage-payment-methods>). Some of these redirect the customer.
//! So a confirmation without `return_url` is refused, whatever is paid with
//! (`opencollective/opencollective-frontend#12346`). Neither `off_session` nor `use_stripe_sdk` is documented to change
//! that. Stripe's example of `off_session` sends `return_url` too
//! (<https://docs.stripe.com/payments/link/save-and-reuse>).

use serde_json::{Map, Value, json};

use super::super::desk::Desk;
use super::super::headers::is_since;
use super::super::refusal::Refusal;
use super::{flag, text};

/// Checks what a creation says of the kinds, and sets what it does not say.
pub(super) fn prepare(desk: &Desk<'_>, kind: &str, sent: &mut Map<String, Value>) -> Result<(), Refusal> {
    only_with_confirm(kind, sent)?;
    let types = sent.get("payment_method_types").and_then(Value::as_array);
    let automatic = sent.get("automatic_payment_methods").and_then(Value::as_object);
    let enabled = automatic.map(|automatic| flag(automatic, "enabled"));
    match (types, enabled) {
        (Some(_), Some(true)) => {
            return Err(Refusal::exclusive(&["automatic_payment_methods", "payment_method_types"]));
        }
        (Some(types), _) => check_types(types)?,
        (None, None) if is_since(desk.version, "2023-08-16") => {
            let automatic = json!({ "allow_redirects": "always", "enabled": true });
            sent.insert("automatic_payment_methods".to_owned(), automatic);
        }
        (None, _) => {}
    }
    if let Some(Value::Object(automatic)) = sent.get_mut("automatic_payment_methods") {
        automatic.entry("allow_redirects").or_insert_with(|| Value::from("always"));
    }
    Ok(())
}

/// "This parameter can only be used with `confirm=true`" (<https://docs.stripe.com/api/payment_intents/create>).
/// The words were published for `mandate` (`opencollective/opencollective-api#9603`).
fn only_with_confirm(kind: &str, sent: &Map<String, Value>) -> Result<(), Refusal> {
    let sent_early = ["error_on_requires_action", "off_session", "return_url"]
        .into_iter()
        .find(|name| sent.get(*name).is_some_and(|value| !value.is_null()));
    match sent_early {
        Some(name) if !flag(sent, "confirm") => {
            let message = format!(
                "The parameter `{name}` cannot be passed when creating a {kind} unless `confirm` is set to true."
            );
            let intent = if kind == "SetupIntent" { "setup_intent" } else { "payment_intent" };
            Err(Refusal::param(name, message).code(&format!("{intent}_invalid_parameter")))
        }
        _ => Ok(()),
    }
}

/// The fake's account takes cards.
fn check_types(types: &[Value]) -> Result<(), Refusal> {
    match types.iter().find(|kind| **kind != "card") {
        Some(other) => {
            let message = format!(
                "The payment method type {other} is invalid. Please ensure the provided type is activated in your \
                 dashboard (https://dashboard.stripe.com/account/payments/settings)."
            );
            Err(Refusal::param("payment_method_types", message))
        }
        None => Ok(()),
    }
}

/// Refuses a confirmation that does not say where the customer comes back, where it has to.
pub(super) fn check(intent: &Value, sent: &Map<String, Value>) -> Result<(), Refusal> {
    let automatic = &intent["automatic_payment_methods"];
    let may_redirect = automatic["enabled"] == true && automatic["allow_redirects"] != "never";
    if !may_redirect || text(sent, "return_url").is_some() {
        return Ok(());
    }
    let kind = if intent["object"] == "setup_intent" { "SetupIntent" } else { "PaymentIntent" };
    Err(Refusal::plain(format!(
        "This {kind} is configured to accept payment methods enabled in your Dashboard. Because some of these payment \
         methods might redirect your customer off of your page, you must provide a `return_url`. If you don't want to \
         accept redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and \
         `automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents."
    )))
}

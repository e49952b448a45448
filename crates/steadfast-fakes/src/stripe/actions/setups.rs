//! Setup intents: a payment method is made ready for payments to come
//! (<https://docs.stripe.com/payments/setup-intents>).

use serde_json::{Map, Value};

use super::super::cards::{Charging, kept_refusal};
use super::super::desk::{Desk, Made};
use super::super::refusal::Refusal;
use super::intents::{after_update, close, next_action, secret, take_method, unexpected};
use super::{flag, methods, redirects, text};

pub(super) fn create(desk: &mut Desk<'_>, sent: &Map<String, Value>) -> Made {
    let mut sent = sent.clone();
    redirects::prepare(desk, KIND, &mut sent)?;
    take_method(desk, &mut sent)?;
    if flag(&sent, "confirm") && text(&sent, "payment_method").is_none() {
        return Err(Refusal::state("setup_intent_unexpected_state", NO_METHOD));
    }
    let mut intent = desk.draft("setup_intents", &sent);
    methods::check_owner(desk, &intent["payment_method"], &intent["customer"], KIND)?;
    intent["client_secret"] = secret(&intent);
    after_update(&mut intent);
    let intent = desk.add("setup_intents", intent);
    if flag(&sent, "confirm") { confirm(desk, intent, &sent) } else { Ok(intent) }
}

/// The payment method comes before the status (recorded: see `methods.rs`).
pub(super) fn confirm(desk: &mut Desk<'_>, mut intent: Value, sent: &Map<String, Value>) -> Made {
    let mut sent = sent.clone();
    take_method(desk, &mut sent)?;
    let named = sent.get("payment_method").filter(|method| method.is_string());
    let Some(method) = desk.get("payment_methods", named.unwrap_or(&intent["payment_method"])) else {
        return Err(unexpected(&intent, NO_METHOD));
    };
    check_confirmable(&intent)?;
    methods::check_unused(desk, &method)?;
    methods::check_owner(desk, &method["id"], &intent["customer"], KIND)
        .map_err(|refusal| refusal.with("setup_intent", intent.clone()))?;
    redirects::check(&intent, &sent)?;
    intent["payment_method"] = method["id"].clone();
    let behaviour = methods::behaviour(desk, &method);
    let last4 = method["card"]["last4"].as_str().unwrap_or_default();
    match kept_refusal(behaviour, last4) {
        Some(refusal) => {
            intent["status"] = Value::from("requires_payment_method");
            intent["payment_method"] = Value::Null;
            intent["last_setup_error"] = refusal.error();
            desk.put("setup_intents", &intent);
            desk.tell("setup_failed", &intent);
            return Err(refusal.with("setup_intent", intent).leaving());
        }
        None if behaviour == Charging::Authenticates => {
            intent["status"] = Value::from("requires_action");
            intent["next_action"] = next_action(&sent);
            desk.put("setup_intents", &intent);
            desk.tell("requires_action", &intent);
        }
        None => {
            methods::keep(desk, &method, &intent["customer"]);
            methods::used(desk, &method, methods::Use::SetUp);
            intent["status"] = Value::from("succeeded");
            desk.put("setup_intents", &intent);
            desk.tell("succeeded", &intent);
        }
    }
    Ok(intent)
}

fn check_confirmable(intent: &Value) -> Result<(), Refusal> {
    let finished = match intent["status"].as_str().unwrap_or_default() {
        "succeeded" => "has already succeeded",
        "canceled" => "has been canceled",
        _ => return Ok(()),
    };
    Err(unexpected(intent, format!("You cannot confirm this SetupIntent because it {finished}.")))
}

pub(super) fn cancel(desk: &mut Desk<'_>, intent: Value, sent: &Map<String, Value>) -> Made {
    match intent["status"].as_str() {
        Some("succeeded") => Err(unexpected(&intent, SUCCEEDED)),
        Some("canceled") => {
            Err(unexpected(&intent, "You cannot cancel this SetupIntent because it is already canceled."))
        }
        _ => Ok(close(desk, "setup_intents", intent, sent)),
    }
}

const KIND: &str = "SetupIntent";

const NO_METHOD: &str = "You cannot confirm this SetupIntent because it's missing a payment method. You can either update \
    the SetupIntent with a payment method and then confirm it again, or confirm it again directly with a payment method \
    or ConfirmationToken.";

const SUCCEEDED: &str = "You cannot cancel this SetupIntent because it has a status of succeeded. Only a SetupIntent with \
    one of the following statuses may be canceled: `requires_payment_method`, `requires_confirmation`, or \
    `requires_action`.";

//! What each write does: creates, updates, actions and removals, by resource.

use serde_json::{Map, Value, json};

use super::contract::{Field, Kind, Resource};
use super::desk::{Desk, Made, merge};
use super::params::Params;
use super::refusal::Refusal;

mod billing;
mod catalog;
mod charges;
mod intents;
mod methods;
mod payouts;
mod subscriptions;

/// Where a POST goes, below `/v1/`.
pub(super) fn post(desk: &mut Desk<'_>, rest: &str, params: &Params, path: &str) -> Made {
    let unknown = || Refusal::unknown_url("POST", path);
    let parts: Vec<&str> = rest.split('/').collect();
    match parts[..] {
        [name] => {
            let fields = Resource::named(name).and_then(|resource| resource.create.as_ref());
            let sent = decoded(desk, fields.ok_or_else(unknown)?, params)?;
            create(desk, name, &sent)
        }
        [name, id] => {
            let resource = Resource::named(name).ok_or_else(unknown)?;
            let held = held(desk, name, id)?;
            let sent = decoded(desk, resource.update.as_ref().ok_or_else(unknown)?, params)?;
            update(desk, name, held, &sent)
        }
        ["charges", id, "refund" | "refunds"] => {
            let charge = held(desk, "charges", id)?;
            let fields = Resource::named("refunds").and_then(|resource| resource.create.as_ref());
            let mut sent = decoded(desk, fields.ok_or_else(unknown)?, params)?;
            sent.insert("charge".to_owned(), charge["id"].clone());
            create(desk, "refunds", &sent)
        }
        ["transfers", id, "reversals"] => {
            let transfer = held(desk, "transfers", id)?;
            let fields = [("amount", Kind::Int), ("description", Kind::Text), ("metadata", Kind::Metadata)];
            payouts::reverse(desk, transfer, &decoded(desk, &optional(fields), params)?)
        }
        [name, id, action] => {
            let fields = fields_of(name, action).ok_or_else(unknown)?;
            let held = held(desk, name, id)?;
            let sent = decoded(desk, &fields, params)?;
            act(desk, name, action, held, &sent).unwrap_or_else(|| Err(unknown()))
        }
        _ => Err(unknown()),
    }
}

/// The object in the path.
pub(super) fn held(desk: &Desk<'_>, name: &str, id: &str) -> Made {
    let object = Resource::named(name).map_or(name, |resource| &resource.object);
    let found = desk.objects.get(desk.account, name, id);
    found.ok_or_else(|| Refusal::not_found(object, id))
}

/// The parameters, and whether what they name is there.
fn decoded(desk: &Desk<'_>, fields: &[Field], params: &Params) -> Result<Map<String, Value>, Refusal> {
    let sent = params.decode(fields)?;
    for (param, resource) in NAMES {
        if let Some(id) = sent.get(param).and_then(Value::as_str) {
            desk.named(resource, id, param)?;
        }
    }
    if let Some(currency) = sent.get("currency").and_then(Value::as_str)
        && !CURRENCIES.split(' ').any(|known| known.eq_ignore_ascii_case(currency))
    {
        let message =
            format!("Invalid currency: {currency}. Stripe currently supports these currencies: {CURRENCIES}");
        return Err(Refusal::param("currency", message));
    }
    if sent.get("amount").and_then(Value::as_i64).is_some_and(|amount| amount < 1) {
        return Err(Refusal::param("amount", "Invalid positive integer").code("parameter_invalid_integer"));
    }
    if sent.get("amount").and_then(Value::as_i64).is_some_and(|amount| amount > AMOUNT_MAX) {
        return Err(Refusal::param("amount", "Amount must be no more than 99999999").code("amount_too_large"));
    }
    Ok(sent)
}

fn create(desk: &mut Desk<'_>, name: &str, sent: &Map<String, Value>) -> Made {
    match name {
        "charges" => charges::create(desk, sent),
        "refunds" => charges::refund(desk, sent),
        "payment_intents" => intents::create(desk, sent),
        "setup_intents" => intents::create_setup(desk, sent),
        "payment_methods" => methods::create(desk, sent),
        "customers" => methods::create_customer(desk, sent),
        "payouts" | "topups" | "transfers" => payouts::create(desk, name, sent),
        "invoices" | "invoiceitems" | "subscriptions" => billing::create(desk, name, sent),
        _ => catalog::create(desk, name, sent),
    }
}

fn update(desk: &mut Desk<'_>, name: &str, mut object: Value, sent: &Map<String, Value>) -> Made {
    match name {
        "payment_intents" => intents::check_update(&object, sent)?,
        "subscriptions" => subscriptions::update(desk, &mut object, sent)?,
        "webhook_endpoints" => catalog::update_endpoint(&mut object, sent),
        "products" => object["updated"] = Value::from(desk.now),
        _ => {}
    }
    let mut sent = sent.clone();
    sent.remove("items");
    if let Some(currency) = sent.get("currency").and_then(Value::as_str).map(str::to_lowercase) {
        sent.insert("currency".to_owned(), Value::from(currency));
    }
    if name == "payment_intents" {
        intents::take_method(desk, &mut sent)?;
    }
    if let Some(resource) = Resource::named(name) {
        merge(resource, &mut object, &sent);
    }
    match name {
        "payment_intents" => intents::after_update(&mut object),
        "invoiceitems" => billing::after_item(desk, &object),
        _ => {}
    }
    desk.put(name, &object);
    desk.tell("updated", &object);
    Ok(object)
}

/// What an action takes; `None` for one that the fake does not know.
fn fields_of(name: &str, action: &str) -> Option<Vec<Field>> {
    let text = Kind::Text;
    let update = |more: Vec<Field>| {
        let known = Resource::named(name).and_then(|resource| resource.update.clone()).unwrap_or_default();
        let known = known
            .into_iter()
            .filter(|field| !matches!(field.name.as_str(), "amount" | "currency" | "customer"));
        known.chain(more).collect()
    };
    Some(match (name, action) {
        ("payment_intents" | "setup_intents", "confirm") => update(optional([
            ("payment_method", text.clone()),
            ("return_url", text.clone()),
            ("receipt_email", text),
            ("off_session", Kind::Bool),
            ("error_on_requires_action", Kind::Bool),
            ("use_stripe_sdk", Kind::Bool),
        ])),
        ("payment_intents", "capture") => optional([
            ("amount_to_capture", Kind::Int),
            ("application_fee_amount", Kind::Int),
            ("final_capture", Kind::Bool),
            ("metadata", Kind::Metadata),
            ("statement_descriptor", text.clone()),
            ("statement_descriptor_suffix", text),
        ]),
        ("payment_intents" | "setup_intents", "cancel") => optional([("cancellation_reason", text)]),
        ("charges", "capture") => optional([
            ("amount", Kind::Int),
            ("application_fee_amount", Kind::Int),
            ("receipt_email", text.clone()),
            ("statement_descriptor", text.clone()),
            ("statement_descriptor_suffix", text.clone()),
            ("transfer_group", text),
        ]),
        ("payment_methods", "attach") => {
            vec![Field { name: "customer".to_owned(), required: true, kind: text }]
        }
        ("payment_methods", "detach") | ("refunds" | "payouts" | "topups", "cancel") => Vec::new(),
        ("invoices", "pay") => optional([
            ("payment_method", text),
            ("paid_out_of_band", Kind::Bool),
            ("off_session", Kind::Bool),
        ]),
        ("invoices", "finalize") => optional([("auto_advance", Kind::Bool)]),
        ("invoices", "send" | "void" | "mark_uncollectible") => Vec::new(),
        _ => return None,
    })
}

/// `None` for an action that the fake does not know.
fn act(
    desk: &mut Desk<'_>,
    name: &str,
    action: &str,
    held: Value,
    sent: &Map<String, Value>,
) -> Option<Made> {
    Some(match (name, action) {
        ("payment_intents", "confirm") => intents::confirm(desk, held, sent),
        ("payment_intents", "capture") => intents::capture(desk, held, sent),
        ("payment_intents", "cancel") => intents::cancel(desk, held, sent),
        ("setup_intents", "confirm") => intents::confirm_setup(desk, held, sent),
        ("setup_intents", "cancel") => intents::cancel_setup(desk, held, sent),
        ("charges", "capture") => charges::capture(desk, held, sent),
        ("refunds", "cancel") => Err(charges::cannot_cancel(&held)),
        ("payment_methods", "attach") => methods::attach(desk, held, sent),
        ("payment_methods", "detach") => methods::detach(desk, held),
        ("payouts" | "topups", "cancel") => payouts::cancel(desk, name, held),
        ("invoices", action) => billing::act(desk, action, held, sent),
        _ => return None,
    })
}

/// Removes what can be removed.
pub(super) fn delete(desk: &mut Desk<'_>, name: &str, id: &str, path: &str) -> Made {
    let gone = |object: &Value| json!({ "id": object["id"], "object": object["object"], "deleted": true });
    match name {
        "subscriptions" => {
            let subscription = held(desk, name, id)?;
            subscriptions::cancel(desk, subscription)
        }
        "customers" | "products" | "coupons" | "plans" | "invoices" | "invoiceitems"
        | "webhook_endpoints" | "accounts" => {
            let object = held(desk, name, id)?;
            catalog::check_removal(desk, name, &object)?;
            desk.objects.remove(desk.account, name, id);
            if name == "invoiceitems" {
                billing::after_item(desk, &object);
            }
            desk.tell("deleted", &object);
            Ok(gone(&object))
        }
        _ => Err(Refusal::unknown_url("DELETE", path)),
    }
}

fn optional<const N: usize>(fields: [(&str, Kind); N]) -> Vec<Field> {
    fields.map(|(name, kind)| Field { name: name.to_owned(), required: false, kind }).to_vec()
}

/// The amount that a parameter names.
fn amount(sent: &Map<String, Value>, name: &str) -> Option<i64> {
    sent.get(name).and_then(Value::as_i64)
}

fn flag(sent: &Map<String, Value>, name: &str) -> bool {
    sent.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn text<'a>(sent: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    sent.get(name).and_then(Value::as_str)
}

/// A hundredth of the currency, but where it has none.
fn money(cents: i64, currency: &str) -> String {
    format!("{}.{:02} {currency}", cents / 100, cents % 100)
}

/// Parameters that name objects.
const NAMES: [(&str, &str); 7] = [
    ("customer", "customers"),
    ("charge", "charges"),
    ("payment_intent", "payment_intents"),
    ("price", "prices"),
    ("product", "products"),
    ("invoice", "invoices"),
    ("subscription", "subscriptions"),
];

/// Documented at <https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts>.
const AMOUNT_MAX: i64 = 99_999_999;

/// Documented at <https://docs.stripe.com/currencies#presentment-currencies>.
const CURRENCIES: &str = "usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp \
    byn bzd cad cdf chf clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd \
    hnl htg huf idr ils inr isk jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk \
    mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar \
    sbd scr sek sgd shp sle sos srd std szl thb tjs tnd top try ttd twd tzs uah ugx uyu uzs vnd vuv wst xaf xcd xof \
    xpf yer zar zmw";

//! The acts of each write: creates, updates, actions and removals, by resource.

use checks::decoded;
use serde_json::{Map, Value, json};

use super::contract::{Field, Kind, Resource};
use super::desk::{Desk, Made, merge};
use super::params::Params;
use super::refusal::Refusal;

mod balances;
mod billing;
mod catalog;
mod changes;
mod charges;
mod checks;
pub(super) mod cycles;
mod intents;
mod items;
mod methods;
mod payouts;
mod prorations;
mod redirects;
mod refunds;
mod setups;
mod subscriptions;

/// Where a POST goes, below `/v1/`.
pub(super) fn post(desk: &mut Desk<'_>, rest: &str, params: &Params, path: &str) -> Made {
    let unknown = || Refusal::unknown_url("POST", path);
    let parts: Vec<&str> = rest.split('/').collect();
    match parts[..] {
        [name, word, ..] if is_no_id(name, word) => Err(unknown()),
        [name] => {
            let fields = Resource::named(name).and_then(|resource| resource.create.as_ref());
            let sent = decoded(desk, fields.ok_or_else(unknown)?, params)?;
            create(desk, name, &sent)
        }
        ["subscription_items", id] => changes::update_item(desk, id, params),
        [name, id] => {
            let resource = Resource::named(name).ok_or_else(unknown)?;
            let held = held(desk, name, id)?;
            let sent = decoded(desk, resource.update.as_ref().ok_or_else(unknown)?, params)?;
            update(desk, name, held, &sent)
        }
        ["charges", id, last @ ("refund" | "refunds")] => {
            let charge = held(desk, "charges", id)?;
            let fields = Resource::named("refunds").and_then(|resource| resource.create.clone());
            let mut fields = fields.ok_or_else(unknown)?;
            // The path names it.
            fields.retain(|field| !matches!(field.name.as_str(), "charge" | "payment_intent"));
            let mut sent = decoded(desk, &fields, params)?;
            sent.insert("charge".to_owned(), charge["id"].clone());
            let refund = create(desk, "refunds", &sent)?;
            // The older route shows the charge (recorded: see `methods.rs`).
            if last == "refund" { held(desk, "charges", id) } else { Ok(refund) }
        }
        ["transfers", id, "reversals"] => {
            let transfer = held(desk, "transfers", id)?;
            let fields = [("amount", Kind::Int), ("metadata", Kind::Metadata)];
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

/// Whether Stripe has a path of this word where it has ids too. The fake has none of them: what a client may not read after
/// its write, a fake need not show.
pub(super) fn is_no_id(name: &str, word: &str) -> bool {
    word == "search" || name == "invoices" && matches!(word, "create_preview" | "upcoming")
}

/// The object in the path.
pub(super) fn held(desk: &Desk<'_>, name: &str, id: &str) -> Made {
    let object = Resource::named(name).map_or(name, |resource| &resource.object);
    let found = desk.objects.get(desk.account, name, id);
    found.ok_or_else(|| Refusal::not_found(object, id))
}

fn create(desk: &mut Desk<'_>, name: &str, sent: &Map<String, Value>) -> Made {
    match name {
        "charges" => charges::create(desk, sent),
        "refunds" => refunds::create(desk, sent),
        "payment_intents" => intents::create(desk, sent),
        "setup_intents" => setups::create(desk, sent),
        "payment_methods" => methods::create(desk, sent),
        "customers" => methods::create_customer(desk, sent),
        "payouts" | "topups" | "transfers" => payouts::create(desk, name, sent),
        "invoices" | "invoiceitems" | "subscriptions" => billing::create(desk, name, sent),
        _ => catalog::create(desk, name, sent),
    }
}

fn update(desk: &mut Desk<'_>, name: &str, mut object: Value, sent: &Map<String, Value>) -> Made {
    let mut sent = sent.clone();
    match name {
        "customers" => methods::check_default(desk, &object["id"], &sent)?,
        "payment_intents" | "setup_intents" => intents::prepare_update(desk, &object, &mut sent)?,
        "invoices" => billing::check_update(desk, &mut object, &sent)?,
        "invoiceitems" => items::change(desk, &mut object, &mut sent)?,
        "subscriptions" => changes::update(desk, &mut object, &mut sent)?,
        "webhook_endpoints" => catalog::update_endpoint(desk, &mut object, &sent)?,
        "products" => catalog::update_product(desk, &mut object, &sent)?,
        "prices" => catalog::take_lookup_key(desk, &object, &sent)?,
        _ => {}
    }
    if let Some(currency) = text(&sent, "currency").map(str::to_lowercase) {
        sent.insert("currency".to_owned(), Value::from(currency));
    }
    if let Some(resource) = Resource::named(name) {
        merge(resource, &mut object, &sent);
    }
    match name {
        "payment_intents" | "setup_intents" => intents::after_update(&mut object),
        _ => {}
    }
    desk.put(name, &object);
    if name == "invoiceitems" {
        items::after_change(desk, &object);
    }
    desk.tell("updated", &object);
    Ok(object)
}

/// The fields that an action takes; `None` for one that the fake does not know.
fn fields_of(name: &str, action: &str) -> Option<Vec<Field>> {
    let text = Kind::Text;
    // As an update takes them.
    let and_updated = |fields: Vec<Field>, names: &[&str]| {
        let resource = Resource::named(name);
        let updated = names.iter().filter_map(|name| resource.and_then(|resource| resource.updated(name)));
        fields.into_iter().chain(updated).collect()
    };
    let descriptors = [("statement_descriptor", text.clone()), ("statement_descriptor_suffix", text.clone())];
    Some(match (name, action) {
        ("payment_intents", "confirm") => {
            let fields = [
                ("payment_method", text.clone()),
                ("return_url", text.clone()),
                ("receipt_email", text),
                ("off_session", Kind::Bool),
                ("error_on_requires_action", Kind::Bool),
                ("use_stripe_sdk", Kind::Bool),
            ];
            and_updated(optional(fields), &["capture_method", "setup_future_usage", "shipping"])
        }
        ("setup_intents", "confirm") => {
            optional([("payment_method", text.clone()), ("return_url", text), ("use_stripe_sdk", Kind::Bool)])
        }
        ("payment_intents", "capture") => {
            let fields = [("amount_to_capture", Kind::Int), ("metadata", Kind::Metadata)];
            optional(fields).into_iter().chain(optional(descriptors)).collect()
        }
        ("payment_intents", "cancel") => optional([(
            "cancellation_reason",
            Kind::one_of("abandoned duplicate fraudulent requested_by_customer"),
        )]),
        ("setup_intents", "cancel") => {
            optional([("cancellation_reason", Kind::one_of("abandoned duplicate requested_by_customer"))])
        }
        ("charges", "capture") => {
            let fields = [("amount", Kind::Int), ("receipt_email", text.clone()), ("transfer_group", text)];
            optional(fields).into_iter().chain(optional(descriptors)).collect()
        }
        ("payment_methods", "attach") => {
            let kind = Kind::Id("customers".to_owned());
            vec![Field { name: "customer".to_owned(), required: true, kind }]
        }
        ("payment_methods", "detach") | ("refunds" | "payouts" | "topups", "cancel") => Vec::new(),
        ("invoices", "pay") => optional([("payment_method", text), ("paid_out_of_band", Kind::Bool)]),
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
        ("setup_intents", "confirm") => setups::confirm(desk, held, sent),
        ("setup_intents", "cancel") => setups::cancel(desk, held, sent),
        ("charges", "capture") => charges::capture(desk, held, sent),
        ("refunds", "cancel") => Err(refunds::cannot_cancel(&held)),
        ("payment_methods", "attach") => methods::attach(desk, held, sent),
        ("payment_methods", "detach") => methods::detach(desk, held),
        ("payouts" | "topups", "cancel") => payouts::cancel(desk, name, held),
        ("invoices", action) => billing::act(desk, action, held, sent),
        _ => return None,
    })
}

/// Removes what can be removed.
pub(super) fn delete(desk: &mut Desk<'_>, name: &str, id: &str, params: &Params, path: &str) -> Made {
    let gone = |object: &Value| json!({ "id": object["id"], "object": object["object"], "deleted": true });
    match name {
        _ if is_no_id(name, id) => Err(Refusal::unknown_url("DELETE", path)),
        "subscriptions" => {
            let subscription = held(desk, name, id)?;
            let details = Resource::named(name).and_then(|resource| resource.updated("cancellation_details"));
            let sent = decoded(desk, details.as_slice(), params)?;
            subscriptions::cancel(desk, subscription, &sent)
        }
        "customers" | "products" | "coupons" | "plans" | "invoices" | "invoiceitems"
        | "webhook_endpoints" | "accounts" => {
            let object = held(desk, name, id)?;
            params.decode(&[])?;
            catalog::check_removal(desk, name, &object)?;
            if name == "customers" {
                subscriptions::cancel_all_of(desk, id)?;
            }
            desk.objects.remove(desk.account, name, id);
            if name == "invoiceitems" {
                items::after_change(desk, &object);
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

/// An amount as refusals show it: its unit is a hundredth of the currency, but where that has none.
fn money(amount: i64, currency: &str) -> String {
    if WHOLE.split(' ').any(|whole| whole == currency) {
        return format!("{amount} {currency}");
    }
    let decimal = format!("{}.{:02}", amount / 100, amount % 100);
    // Recorded for these two.
    match currency {
        "usd" => format!("${decimal}"),
        "eur" => format!("€{decimal}"),
        _ => format!("{decimal} {currency}"),
    }
}

/// The currencies without a hundredth (<https://docs.stripe.com/currencies#zero-decimal>). That page lists `ugx` too,
/// and has its amounts in hundredths all the same (<https://docs.stripe.com/currencies#special-cases>).
const WHOLE: &str = "bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf";

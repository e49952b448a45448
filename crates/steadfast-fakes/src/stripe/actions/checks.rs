//! The things that a form is held against before anything is done: the objects that it names, currencies and amounts.

use serde_json::{Map, Value};

use super::super::contract::{Field, Kind};
use super::super::desk::Desk;
use super::super::params::Params;
use super::super::refusal::Refusal;
use super::money;

/// The parameters, and whether what they name is there.
pub(super) fn decoded(
    desk: &Desk<'_>,
    fields: &[Field],
    params: &Params,
) -> Result<Map<String, Value>, Refusal> {
    let sent = params.decode(fields)?;
    check_all(desk, fields, &sent, "")?;
    let amount = sent.get("amount").and_then(Value::as_i64);
    let kind = fields.iter().find(|field| field.name == "amount").map(|field| &field.kind);
    let (least, of_which) = match kind {
        // An invoice item may credit, and cost nothing (<https://docs.stripe.com/api/invoiceitems/create>).
        Some(Kind::Signed) => (i64::MIN, ""),
        // "(or 0 for a free plan)" (<https://docs.stripe.com/api/plans/create>).
        Some(Kind::Whole) => (0, "non-negative"),
        _ => (1, "positive"),
    };
    if amount.is_some_and(|amount| amount < least) {
        let refusal = Refusal::param("amount", format!("Invalid {of_which} integer"));
        return Err(refusal.code("parameter_invalid_integer"));
    }
    if amount.is_some_and(|amount| amount.unsigned_abs() > AMOUNT_MAX) {
        return Err(Refusal::param("amount", "Amount must be no more than 99999999").code("amount_too_large"));
    }
    Ok(sent)
}

fn check_all(
    desk: &Desk<'_>,
    fields: &[Field],
    sent: &Map<String, Value>,
    outer: &str,
) -> Result<(), Refusal> {
    for Field { name, kind, .. } in fields {
        if let Some(value) = sent.get(name) {
            let param = if outer.is_empty() { name.clone() } else { format!("{outer}[{name}]") };
            if name == "currency" {
                known_currency(value, &param)?;
            }
            check(desk, kind, value, &param)?;
        }
    }
    Ok(())
}

fn check(desk: &Desk<'_>, kind: &Kind, value: &Value, param: &str) -> Result<(), Refusal> {
    match (kind, value) {
        (Kind::Id(resource), Value::String(id)) => desk.named(resource, id, param).map(drop),
        (Kind::Hash(fields), Value::Object(sent)) => check_all(desk, fields, sent, param),
        (Kind::List(inner), Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(at, item)| check(desk, inner, item, &format!("{param}[{at}]")))
        }
        _ => Ok(()),
    }
}

fn known_currency(value: &Value, param: &str) -> Result<(), Refusal> {
    match value.as_str() {
        Some(currency) if !CURRENCIES.split(' ').any(|known| known.eq_ignore_ascii_case(currency)) => {
            let known = format!(
                "Invalid currency: {currency}. Stripe currently supports these currencies: {CURRENCIES}"
            );
            Err(Refusal::param(param, known))
        }
        _ => Ok(()),
    }
}

/// Refuses a payment that is smaller than Stripe takes in its currency.
pub(super) fn at_least_minimum(amount: i64, currency: &str) -> Result<(), Refusal> {
    let minimum = minimum(currency);
    if amount >= minimum {
        return Ok(());
    }
    let message = format!("Amount must be at least {}", money(minimum, currency));
    Err(Refusal::param("amount", message).code("amount_too_small"))
}

/// Refuses a number below zero.
pub(super) fn not_negative(sent: &Map<String, Value>, names: &[&str]) -> Result<(), Refusal> {
    let is_negative = |name: &&str| sent.get(*name).and_then(Value::as_i64).is_some_and(|number| number < 0);
    match names.iter().copied().find(is_negative) {
        Some(name) => {
            let refusal = Refusal::param(name, "Invalid non-negative integer");
            Err(refusal.code("parameter_invalid_integer"))
        }
        None => Ok(()),
    }
}

/// The smallest payment in a currency; 0 where none is documented.
pub(super) fn minimum(currency: &str) -> i64 {
    let known = MINIMA.iter().find(|(_, known)| known.split(' ').any(|known| known == currency));
    known.map_or(0, |(minimum, _)| *minimum)
}

/// Documented at <https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts>.
pub(super) const AMOUNT_MAX: u64 = 99_999_999;

/// The smallest payment, and the currencies that have it. Documented at the same place.
const MINIMA: [(i64, &str); 9] = [
    (30, "gbp"),
    (50, "usd ars aud brl cad chf cop eur idr ils inr jpy krw nzd php rub sgd zar"),
    (200, "aed myr pln ron"),
    (250, "dkk"),
    (300, "nok sek"),
    (400, "hkd"),
    (1000, "mxn thb"),
    (1500, "czk"),
    (17500, "huf"),
];

/// Documented at <https://docs.stripe.com/currencies#presentment-currencies>.
const CURRENCIES: &str = "usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp \
    byn bzd cad cdf chf clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd \
    hnl htg huf idr ils inr isk jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk \
    mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar \
    sbd scr sek sgd shp sle sos srd std szl thb tjs tnd top try ttd twd tzs uah ugx uyu uzs vnd vuv wst xaf xcd xof \
    xpf yer zar zmw";

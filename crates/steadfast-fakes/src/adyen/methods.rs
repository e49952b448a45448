//! Payment methods: a card, and `ideal`, which redirects.
//!
//! A card's data is encrypted by Adyen's libraries in the shopper's browser. In the test environment it may come in the
//! open behind `test_` (<https://docs.adyen.com/development-resources/testing/payments-and-modifications>). The fake has
//! no keys: what comes otherwise cannot be decrypted. It stores no cards, so that no token of one is known.

use serde_json::Value;

use super::super::fixture::{Fixtures, Reply};
use super::bodies;

/// The method that a payment is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Method {
    /// The card's brand, or the method's own name.
    pub(super) name: &'static str,
    /// Whether expiry date and security code are those of Adyen's test cards, as far as they are given.
    pub(super) is_whole: bool,
}

/// `POST /paymentMethods`. It makes nothing, so that it is no effect. Names are in English for each `shopperLocale`.
pub(super) fn list(fixtures: &Fixtures, body: &[u8]) -> Result<Reply, Reply> {
    let body = bodies::read(fixtures, "PaymentMethodsRequest", body)?;
    if !body["amount"].is_null() {
        bodies::amount(fixtures, &body)?;
    }
    // The fake has neither orders nor stores, and does not tell debit cards from credit cards.
    let foreign = ["order", "storeFiltrationMode"].into_iter().find(|name| !body[name].is_null());
    let foreign =
        foreign.or_else(|| (body["splitCardFundingSources"] == true).then_some("splitCardFundingSources"));
    if let Some(name) = foreign {
        return Err(bodies::unsupported(fixtures, name));
    }
    let offered = offered(&body).ok_or_else(|| bodies::unsupported(fixtures, LISTS))?;
    let mut told = fixtures.reply("payment_methods").value();
    if let Some(all) = told["paymentMethods"].as_array_mut() {
        all.retain(|one| one["type"].as_str().is_some_and(|kind| offered.contains(&kind)));
    }
    Ok(Reply::json(200, &told))
}

/// The types that a shopper is offered, by these members of a request. `None` if the fake does not know what they ask for:
/// a list that is empty, or that names a card's brand.
///
/// `ideal` is for NL and EUR (<https://docs.adyen.com/payment-methods/ideal/api-only>). A request that says neither gets it
/// too: the example `post-paymentMethods-basic-200` of CheckoutService-v71.
pub(super) fn offered(body: &Value) -> Option<Vec<&'static str>> {
    let allowed = named(body, "allowedPaymentMethods");
    let blocked = named(body, "blockedPaymentMethods");
    let is_unknown = |all: &Vec<&str>| all.is_empty() || all.iter().any(|name| BRANDS.contains(name));
    if [&allowed, &blocked].into_iter().flatten().any(is_unknown) {
        return None;
    }
    let is_at = |place: &Value, expected: &str| place.is_null() || place == expected;
    let has_ideal = is_at(&body["countryCode"], "NL") && is_at(&body["amount"]["currency"], "EUR");
    let is_offered = |name: &&'static str| {
        allowed.as_ref().is_none_or(|all| all.contains(name))
            && blocked.as_ref().is_none_or(|all| !all.contains(name))
            && (*name != "ideal" || has_ideal)
    };
    Some(OFFERED.into_iter().filter(is_offered).collect())
}

fn named<'a>(body: &'a Value, member: &str) -> Option<Vec<&'a str>> {
    Some(body[member].as_array()?.iter().filter_map(Value::as_str).collect())
}

/// The payment method of a request; `None` if the fake does not know it.
pub(super) fn method(fixtures: &Fixtures, body: &Value) -> Result<Option<Method>, Reply> {
    let method = &body["paymentMethod"];
    let kind = method["type"].as_str().ok_or_else(|| missing(fixtures, "paymentMethod.type"))?;
    if TOKENS.iter().any(|name| !method[name].is_null()) {
        return Err(fixtures.reply("contract_missing"));
    }
    match kind {
        "ideal" => Ok(Some(Method { name: "ideal", is_whole: true })),
        "scheme" => card(fixtures, method),
        _ => Ok(None),
    }
}

fn card(fixtures: &Fixtures, method: &Value) -> Result<Option<Method>, Reply> {
    if !method["encryptedCard"].is_null() {
        return Err(fixtures.reply("not_decrypted"));
    }
    let given = |open: &str, encrypted: &str| match (method[open].as_str(), method[encrypted].as_str()) {
        (Some(open), _) => Ok(Some(open.to_owned())),
        (None, Some(text)) => match text.strip_prefix("test_") {
            Some(open) => Ok(Some(open.to_owned())),
            None => Err(fixtures.reply("not_decrypted")),
        },
        (None, None) => Ok(None),
    };
    let number = given("number", "encryptedCardNumber")?;
    let number = number.ok_or_else(|| missing(fixtures, "paymentMethod.encryptedCardNumber"))?;
    if !has_check_digit(&number) {
        return Err(fixtures.reply("card_invalid"));
    }
    let Some(name) = brand(&number) else { return Ok(None) };
    let is = |given: Option<String>, expected: &str| given.is_none_or(|given| given == expected);
    let code = if name == "amex" { "7373" } else { "737" };
    let is_whole = is(given("expiryMonth", "encryptedExpiryMonth")?, "03")
        && is(given("expiryYear", "encryptedExpiryYear")?, "2030")
        && is(given("cvc", "encryptedSecurityCode")?, code);
    Ok(Some(Method { name, is_whole }))
}

fn missing(fixtures: &Fixtures, member: &str) -> Reply {
    fixtures.reply("field_missing").fill("<field>", member)
}

/// Those of Adyen's test cards that the fake knows.
fn brand(number: &str) -> Option<&'static str> {
    let first: u32 = number.get(..4)?.parse().ok()?;
    match first {
        3400..=3499 | 3700..=3799 => Some("amex"),
        2221..=2720 | 5100..=5599 => Some("mc"),
        4000..=4999 => Some("visa"),
        _ => None,
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

/// As the fixture lists them.
const OFFERED: [&str; 2] = ["ideal", "scheme"];
/// The lists that [`offered`] does not know.
pub(super) const LISTS: &str = "allowedPaymentMethods or blockedPaymentMethods of this kind";
const BRANDS: [&str; 3] = ["amex", "mc", "visa"];
/// The members that stand for a stored card or account.
const TOKENS: [&str; 2] = ["storedPaymentMethodId", "recurringDetailReference"];

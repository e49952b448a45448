//! Stripe's own test cards (<https://docs.stripe.com/testing>): numbers, tokens and payment methods, and what each does.

use serde_json::{Value, json};

use super::refusal::Refusal;

/// The outcome of charging a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charging {
    Pays,
    /// Declined, with Stripe's code and the bank's.
    Declines(&'static str, &'static str, &'static str),
    /// The customer must authenticate first.
    Authenticates,
}

/// A card that the fake knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card {
    brand: &'static str,
    last4: &'static str,
    funding: &'static str,
    pub(super) behaviour: Charging,
}

impl Card {
    /// By its number, its token (`tok_visa`) or its payment method (`pm_card_visa`).
    pub(super) fn named(name: &str) -> Option<Card> {
        let name = name.strip_prefix("pm_card_").or_else(|| name.strip_prefix("tok_")).unwrap_or(name);
        let found = CARDS.iter().find(|(number, names, ..)| *number == name || names.contains(&name));
        found.map(|(number, _, brand, funding, behaviour)| Card {
            brand,
            last4: &number[number.len() - 4..],
            funding,
            behaviour: *behaviour,
        })
    }

    /// As a payment method shows it.
    pub(super) fn shown(self, expires: Option<(i64, i64)>) -> Value {
        let (month, year) = expires.unwrap_or((8, 2034));
        json!({
            "brand": self.brand, "checks": { "address_line1_check": null, "address_postal_code_check": null, "cvc_check": "pass" },
            "country": "US", "display_brand": self.brand, "exp_month": month, "exp_year": year,
            "fingerprint": format!("fake{}{}", self.brand, self.last4), "funding": self.funding, "generated_from": null,
            "last4": self.last4, "networks": { "available": [self.brand], "preferred": null }, "regulated_status": "unregulated",
            "three_d_secure_usage": { "supported": true }, "wallet": null,
        })
    }

    /// Why a customer cannot keep it; `None` if one can.
    pub(super) fn kept_refusal(self) -> Option<Refusal> {
        kept_refusal(self.behaviour, self.last4)
    }
}

/// The card that a customer can keep and that is declined whenever it is charged.
/// "Attaching this card to a Customer object succeeds, but attempts to charge the customer fail"
/// (<https://docs.stripe.com/testing#declined-payments>).
const KEPT_AND_DECLINED: &str = "0341";

/// Why a customer cannot keep a card that ends so; `None` if one can.
pub(super) fn kept_refusal(behaviour: Charging, last4: &str) -> Option<Refusal> {
    behaviour.refusal().filter(|_| last4 != KEPT_AND_DECLINED)
}

impl Charging {
    /// The refusal of a card that is declined.
    pub(super) fn refusal(self) -> Option<Refusal> {
        match self {
            Charging::Declines(code, decline_code, message) => {
                Some(Refusal::card(code, decline_code, message))
            }
            _ => None,
        }
    }
}

const GENERIC: Charging = Charging::Declines("card_declined", "generic_decline", "Your card was declined.");

type Known = (&'static str, &'static [&'static str], &'static str, &'static str, Charging);

const CARDS: [Known; 15] = [
    ("4242424242424242", &["visa"], "visa", "credit", Charging::Pays),
    ("4000056655665556", &["visa_debit"], "visa", "debit", Charging::Pays),
    ("5555555555554444", &["mastercard"], "mastercard", "credit", Charging::Pays),
    ("378282246310005", &["amex"], "amex", "credit", Charging::Pays),
    ("6011111111111117", &["discover"], "discover", "credit", Charging::Pays),
    ("4000000000000341", &["chargeCustomerFail"], "visa", "credit", GENERIC),
    ("4000000000000002", &["chargeDeclined", "visa_chargeDeclined"], "visa", "credit", GENERIC),
    (
        "4000000000009995",
        &["chargeDeclinedInsufficientFunds", "visa_chargeDeclinedInsufficientFunds"],
        "visa",
        "credit",
        Charging::Declines("card_declined", "insufficient_funds", "Your card has insufficient funds."),
    ),
    (
        "4000000000009987",
        &["visa_chargeDeclinedLostCard"],
        "visa",
        "credit",
        Charging::Declines("card_declined", "lost_card", "Your card was declined."),
    ),
    (
        "4000000000009979",
        &["visa_chargeDeclinedStolenCard"],
        "visa",
        "credit",
        Charging::Declines("card_declined", "stolen_card", "Your card was declined."),
    ),
    (
        "4000000000000069",
        &["chargeDeclinedExpiredCard"],
        "visa",
        "credit",
        Charging::Declines("expired_card", "expired_card", "Your card has expired."),
    ),
    (
        "4000000000000127",
        &["chargeDeclinedIncorrectCvc"],
        "visa",
        "credit",
        Charging::Declines("incorrect_cvc", "incorrect_cvc", "Your card's security code is incorrect."),
    ),
    (
        "4000000000000119",
        &["chargeDeclinedProcessingError"],
        "visa",
        "credit",
        Charging::Declines(
            "processing_error",
            "processing_error",
            "An error occurred while processing your card. Try again in a little bit.",
        ),
    ),
    ("4000002760003184", &["authenticationRequired"], "visa", "credit", Charging::Authenticates),
    (
        "4000002500003155",
        &["authenticationRequiredOnSetup", "threeDSecure2Required"],
        "visa",
        "credit",
        Charging::Authenticates,
    ),
];

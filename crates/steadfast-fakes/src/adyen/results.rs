//! Results that a test payment asks for (<https://docs.adyen.com/development-resources/testing/result-codes>).

use serde_json::Value;

/// The outcome of asking the issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) code: &'static str,
    /// Why it was refused, and the number of that reason.
    pub(super) reason: Option<(&'static str, u64)>,
}

impl Outcome {
    pub(super) const AUTHORISED: Outcome = Outcome { code: "Authorised", reason: None };
    pub(super) const DECLINED: Outcome = Outcome { code: "Refused", reason: Some(("Refused", 2)) };

    /// The one that a payment request asks for; `None` if it asks for one that the fake does not know.
    pub(super) fn of(body: &Value) -> Option<Outcome> {
        let number = match &body["additionalData"]["RequestedTestAcquirerResponseCode"] {
            Value::Null => None,
            Value::String(text) => Some(text.parse::<u64>().ok()?),
            number => Some(number.as_u64()?),
        };
        if let Some(number) = number {
            return RESULTS.iter().find(|(known, ..)| *known == number).map(|found| Outcome::in_row(*found));
        }
        let holder = body["paymentMethod"]["holderName"].as_str().unwrap_or_default();
        // Behind a colon stands what the scheme said.
        let name = holder.split(':').next().unwrap_or_default().trim();
        match RESULTS.iter().find(|(_, known, ..)| *known == name) {
            Some(found) => Some(Outcome::in_row(*found)),
            // A name of Adyen's list that the fake does not know, or one that is misspelt.
            None if is_of_the_list(name) => None,
            None => Some(Outcome::AUTHORISED),
        }
    }

    fn in_row((number, _, reason, code): Row) -> Outcome {
        Outcome { code, reason: (!reason.is_empty()).then_some((reason, number)) }
    }

    /// The outcome of the shopper's act where a redirect led to.
    pub(super) fn of_shopper(word: &str) -> Option<Outcome> {
        Some(match word {
            "" => Outcome::AUTHORISED,
            "Refused" => Outcome::DECLINED,
            "Cancelled" => Outcome { code: "Cancelled", reason: None },
            "Pending" => Outcome { code: "Pending", reason: None },
            "Error" => Outcome { code: "Error", reason: Some(("Acquirer Error", 4)) },
            _ => return None,
        })
    }

    pub(super) fn is_final(self) -> bool {
        !matches!(self.code, "Received" | "Pending")
    }

    pub(super) fn is_authorised(self) -> bool {
        self.code == "Authorised"
    }
}

/// Which change of a payment fails after it was taken, by its holder's name: "Test failed modifications"
/// (<https://docs.adyen.com/development-resources/testing/result-code-testing/testing-with-card-holder-name>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failing {
    Capture,
    Refund,
}

impl Failing {
    pub(super) fn of(body: &Value) -> Option<Failing> {
        match body["paymentMethod"]["holderName"].as_str() {
            Some("capture failed") => Some(Failing::Capture),
            Some("refund failed") => Some(Failing::Refund),
            _ => None,
        }
    }
}

/// Written as the names of the list are: `NOT_SUBMITTED`.
fn is_of_the_list(name: &str) -> bool {
    let is_capital = |letter: u8| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == b'_';
    name.contains('_') && name.bytes().all(is_capital)
}

type Row = (u64, &'static str, &'static str, &'static str);

/// Number, holder's name, reason, result: the list at the head's address. 30 is left out, which authorises a part of the
/// amount. So are those after 33, whose names differ from one copy of the list to the next.
const RESULTS: [Row; 33] = [
    (0, "UNKNOWN", "Unknown", "Error"),
    (1, "APPROVED", "", "Authorised"),
    (2, "DECLINED", "Refused", "Refused"),
    (3, "REFERRAL", "Referral", "Refused"),
    (4, "ERROR", "Acquirer Error", "Error"),
    (5, "BLOCK_CARD", "Blocked Card", "Refused"),
    (6, "CARD_EXPIRED", "Expired Card", "Refused"),
    (7, "INVALID_AMOUNT", "Invalid Amount", "Refused"),
    (8, "INVALID_CARD_NUMBER", "Invalid Card Number", "Refused"),
    (9, "ISSUER_UNAVAILABLE", "Issuer Unavailable", "Refused"),
    (10, "NOT_SUPPORTED", "Not supported", "Refused"),
    (11, "NOT_3D_AUTHENTICATED", "3D Not Authenticated", "Refused"),
    (12, "NOT_ENOUGH_BALANCE", "Not enough balance", "Refused"),
    (13, "PENDING", "", "Received"),
    (14, "ACQUIRER_FRAUD", "Acquirer Fraud", "Refused"),
    (15, "CANCELLED", "Cancelled", "Refused"),
    (16, "SHOPPER_CANCELLED", "Shopper Cancelled", "Refused"),
    (17, "INVALID_PIN", "Invalid Pin", "Refused"),
    (18, "PIN_TRIES_EXCEEDED", "Pin tries exceeded", "Refused"),
    (19, "PIN_VALIDATION_NOT_POSSIBLE", "Pin validation not possible", "Refused"),
    (20, "FRAUD", "FRAUD", "Refused"),
    (21, "NOT_SUBMITTED", "Not Submitted", "Refused"),
    (22, "FRAUD_CANCELLED", "FRAUD-CANCELLED", "Cancelled"),
    (23, "TRANSACTION_NOT_PERMITTED", "Transaction Not Permitted", "Refused"),
    (24, "CVC_DECLINED", "CVC Declined", "Refused"),
    (25, "RESTRICTED_CARD", "Restricted Card", "Refused"),
    (26, "REVOCATION_OF_AUTH", "Revocation Of Auth", "Refused"),
    (27, "DECLINED_NON_GENERIC", "Declined Non Generic", "Refused"),
    (28, "WITHDRAWAL_AMOUNT_EXCEEDED", "Withdrawal amount exceeded", "Refused"),
    (29, "WITHDRAWAL_COUNT_EXCEEDED", "Withdrawal count exceeded", "Refused"),
    (31, "ISSUER_SUSPECTED_FRAUD", "Issuer Suspected Fraud", "Refused"),
    (32, "AVS_DECLINED", "AVS Declined", "Refused"),
    (33, "PIN_REQUIRED", "Card requires online pin", "Refused"),
];

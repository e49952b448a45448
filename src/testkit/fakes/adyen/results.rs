//! Results that a test payment asks for (<https://docs.adyen.com/development-resources/testing/result-codes>).

use serde_json::Value;

/// What asking the issuer comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) code: &'static str,
    /// Why it was refused, and the number of that reason.
    pub(super) reason: Option<(&'static str, u64)>,
}

impl Outcome {
    pub(super) const AUTHORISED: Outcome = Outcome { code: "Authorised", reason: None };

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
        let found = RESULTS.iter().find(|(_, known, ..)| *known == name);
        Some(found.map_or(Outcome::AUTHORISED, |found| Outcome::in_row(*found)))
    }

    fn in_row((number, _, reason, code): Row) -> Outcome {
        Outcome { code, reason: (!reason.is_empty()).then_some((reason, number)) }
    }

    /// What the shopper did where a redirect led to.
    pub(super) fn of_shopper(word: &str) -> Option<Outcome> {
        Some(match word {
            "" => Outcome::AUTHORISED,
            "Refused" => Outcome { code: "Refused", reason: Some(("Refused", 2)) },
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

type Row = (u64, &'static str, &'static str, &'static str);

/// Number, holder's name, reason, result.
const RESULTS: [Row; 17] = [
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
];

//! Who captures a payment: Adyen by itself, or a request.
//!
//! "By default, payments are captured automatically without a delay, immediately after authorization"
//! (<https://docs.adyen.com/online-payments/capture>). No webhook tells of such a capture. A report on point-of-sale
//! payments says so: "On auto capture you will only receive an AUTHORISATION notification and no CAPTURE notification"
//! (github.com/Adyen/adyen-magento/issues/640, 2016).

use std::time::Duration;

use serde_json::Value;

/// The thing that captures a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Captures {
    /// Time: so long after the payment request.
    After(Duration),
    /// A request, and nothing else.
    ByRequest,
}

impl Captures {
    /// The capture that a payment request asks for goes before the account's setting. `None` if the fake does not know
    /// what it asks for.
    ///
    /// `captureDelayHours` is "the delay between the authorization and automatic capture" (`PaymentRequest` of
    /// CheckoutService-v71). `manualCapture` is "true" "to require manual capture for the transaction"
    /// (`AdditionalDataCommon`). The effect of the two together is not documented.
    pub(super) fn of(body: &Value, method: &str, is_manual: bool) -> Option<Captures> {
        let delay = body["captureDelayHours"].as_u64();
        let by_request = match &body["additionalData"]["manualCapture"] {
            Value::Null => false,
            Value::String(text) if text == "false" => false,
            Value::String(text) if text == "true" && delay.is_none() => true,
            _ => return None,
        };
        // It has no separate capture: the overview of payment methods (<https://docs.adyen.com/payment-methods>).
        if method == "ideal" {
            return Some(Captures::After(Duration::ZERO));
        }
        Some(match delay {
            Some(hours) => Captures::After(Duration::from_secs(hours * 3600)),
            None if by_request || is_manual => Captures::ByRequest,
            None => Captures::After(Duration::ZERO),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_request_goes_before_the_account_and_the_method_before_both() {
        let manual = |value: Value| json!({ "additionalData": { "manualCapture": value } });
        let (at_once, later) = (Captures::After(Duration::ZERO), Captures::After(Duration::from_secs(7200)));
        for (body, of_automatic, of_manual) in [
            (json!({}), Some(at_once), Some(Captures::ByRequest)),
            (json!({ "captureDelayHours": 2 }), Some(later), Some(later)),
            (json!({ "captureDelayHours": 0 }), Some(at_once), Some(at_once)),
            (manual(json!("true")), Some(Captures::ByRequest), Some(Captures::ByRequest)),
            (manual(json!("false")), Some(at_once), Some(Captures::ByRequest)),
            (manual(json!("yes")), None, None),
            (manual(json!(1)), None, None),
            (json!({ "captureDelayHours": 2, "additionalData": { "manualCapture": "true" } }), None, None),
        ] {
            let of = |is_manual: bool| Captures::of(&body, "visa", is_manual);
            assert_eq!((of(false), of(true)), (of_automatic, of_manual), "{body}");
            let ideal = Captures::of(&body, "ideal", true);
            assert_eq!(ideal, of_automatic.map(|_| at_once), "{body}");
        }
    }
}

//! The requests that are made to Adyen.

use serde_json::{Value, json};

/// A payment, or one that its issuer refuses: both are answers of Adyen's.
pub fn payment(number: usize) -> Value {
    let holder = if number % 3 == 1 { "DECLINED" } else { "Ann Example" };
    json!({
        "merchantAccount": "ShopECOM", "reference": format!("order-{number}"),
        "returnUrl": "https://shop.example/return",
        "amount": { "value": 1000 + number, "currency": "EUR" },
        "paymentMethod": {
            "type": "scheme", "encryptedCardNumber": "test_4111111111111111",
            "encryptedExpiryMonth": "test_03", "encryptedExpiryYear": "test_2030",
            "encryptedSecurityCode": "test_737", "holderName": holder,
        },
    })
}

/// A request that Adyen refuses to carry out.
pub fn without_amount(number: usize) -> Value {
    let mut payment = payment(number);
    payment["amount"] = json!({ "value": 1000 + number, "currency": "NONE" });
    payment
}

/// A cancellation of whatever has this reference: Adyen takes it, whether or not there is anything.
pub fn cancellation(number: usize) -> Value {
    json!({
        "merchantAccount": "ShopECOM", "paymentReference": format!("other-{number}"),
        "reference": format!("cancel-{number}"),
    })
}

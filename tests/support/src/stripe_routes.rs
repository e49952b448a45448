//! Routes of Stripe's, beside payments: those that take a stamp, and one that has no list to look at.

use steadfast::{Call, Client};

/// Something is made, on a route that follows from the number.
pub fn create(client: &Client, number: usize) -> Call {
    let amount = (1000 + number).to_string();
    let (path, form): (&str, &[(&str, &str)]) = match number % 9 {
        0 => ("customers", &[("description", &amount)]),
        1 => ("products", &[("name", &amount)]),
        2 => ("setup_intents", &[("description", &amount)]),
        3 => ("tax_rates", &[("display_name", &amount), ("inclusive", "false"), ("percentage", "20")]),
        4 => ("coupons", &[("name", &amount), ("percent_off", "10"), ("duration", "once")]),
        5 => ("topups", &[("amount", &amount), ("currency", "usd"), ("description", "a topup")]),
        6 => ("accounts", &[("type", "custom"), ("email", "ann@example.com")]),
        7 => ("prices", &[("currency", "usd"), ("unit_amount", &amount), ("product_data[name]", "A thing")]),
        _ => (
            "shipping_rates",
            &[
                ("display_name", &amount),
                ("type", "fixed_amount"),
                ("fixed_amount[amount]", "500"),
                ("fixed_amount[currency]", "usd"),
            ],
        ),
    };
    client.post(&format!("/v1/{path}")).form(form)
}

/// A payment method of this number. Its route has no list by time, and so no lookup.
pub fn create_unlisted(client: &Client, number: usize) -> Call {
    let order = (1000 + number).to_string();
    let form = [("type", "card"), ("card[token]", "tok_visa"), ("metadata[order]", order.as_str())];
    client.post("/v1/payment_methods").form(&form)
}

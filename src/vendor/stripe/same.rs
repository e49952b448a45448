//! The comparison of an object with our key with the request that was sent.
//!
//! Two services that share an account may make the same key, and then an object is another's. The members are compared
//! that distinguish two: those of the form that Stripe gives back under the same name. A member that Stripe gives back
//! in another form is no difference. A member that the object does not have is no evidence; one that is null was not
//! set.

use serde_json::Value;

use steadfast_core::internal::guard::Guard;
use steadfast_core::transport::Request;

/// Returns true if the object agrees with the form.
pub(super) fn is_what_was_sent(request: &Request, object: &Value) -> bool {
    let form: Vec<_> = url::form_urlencoded::parse(&request.body).collect();
    let agrees = |name: &str, value: &str| match held(object, name) {
        Some(held) => is_same(value, held),
        None => true,
    };
    // The last of a name counts.
    let is_last = |place: usize, name: &str| form[place + 1..].iter().all(|(later, _)| later != name);
    Guard::HitAtStripe.is_out()
        || form.iter().enumerate().all(|(place, (name, value))| {
            value.is_empty() || !tells_apart(name) || !is_last(place, name) || agrees(name, value)
        })
}

/// Returns true if a member of a form distinguishes two objects, and stays as it was sent.
fn tells_apart(name: &str) -> bool {
    let outer = name.split('[').next().unwrap_or_default();
    TELLING.contains(&name) || TELLING_WITH_PARTS.contains(&outer)
}

/// Returns the object's value under a name such as `metadata[order]`. An object that stands for its id is that id. A
/// list of one is compared, such as a subscription's `items[0][price]`; in which order Stripe lists several is not
/// documented.
fn held<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let mut held = object;
    for part in name.split(['[', ']']).filter(|part| !part.is_empty()) {
        held = match held {
            Value::Object(members) => match (members.get("data"), part) {
                (Some(Value::Array(one)), "0") if one.len() == 1 => one.first()?,
                _ => members.get(part)?,
            },
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(held.get("id").unwrap_or(held))
}

fn is_same(sent: &str, held: &Value) -> bool {
    let sent = sent.trim();
    match held {
        Value::String(text) => sent.eq_ignore_ascii_case(text.trim()) || is_same_number(sent, text),
        Value::Number(number) => is_same_number(sent, &number.to_string()),
        Value::Bool(flag) => sent.eq_ignore_ascii_case(if *flag { "true" } else { "false" }),
        Value::Null => false,
        // In another form altogether.
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Compares as decimals: `10` is `10.0`.
fn is_same_number(sent: &str, held: &str) -> bool {
    fn plain(text: &str) -> Option<(&str, &str)> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        (!whole.is_empty() && is_number(whole) && is_number(fraction))
            .then(|| (whole.trim_start_matches('0'), fraction.trim_end_matches('0')))
    }
    let both = (plain(sent), plain(held));
    matches!(both, (Some(sent), Some(held)) if sent == held)
}

/// Members that docs.stripe.com/api has on both sides, in the request that creates and in the object. Not among them
/// are members that move by themselves, that stand for something else (a test's `pm_card_visa`, a token), or that an
/// object shows elsewhere.
const TELLING: [&str; 46] = [
    "amount",
    "amount_off",
    "application_fee_amount",
    "billing_scheme",
    "capture_method",
    "charge",
    "client_reference_id",
    "code",
    "collection_method",
    "country",
    "coupon",
    "currency",
    "customer",
    "days_until_due",
    "description",
    "destination",
    "display_name",
    "duration",
    "duration_in_months",
    "email",
    "from_subscription",
    "inclusive",
    "interval",
    "interval_count",
    "invoice",
    "max_redemptions",
    "mode",
    "name",
    "nickname",
    "on_behalf_of",
    "payment_intent",
    "percent_off",
    "percentage",
    "phone",
    "price",
    "product",
    "quantity",
    "receipt_email",
    "source_transaction",
    "statement_descriptor",
    "statement_descriptor_suffix",
    "subscription",
    "tax_behavior",
    "transfer_group",
    "type",
    "unit_amount",
];
/// Members of the same kind, with parts in brackets.
const TELLING_WITH_PARTS: [&str; 6] =
    ["address", "items", "metadata", "recurring", "shipping", "transfer_data"];

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;

    fn agrees(form: &str, object: &Value) -> bool {
        let mut request =
            Request::new(Method::POST, "https://api.stripe.com/v1/charges".parse().expect("a url"));
        request.body = form.to_owned().into();
        is_what_was_sent(&request, object)
    }

    #[test]
    fn two_subscriptions_of_one_customer_differ_in_their_items() {
        let item = json!({"id": "si_1", "quantity": 2, "price": {"id": "price_1", "unit_amount": 500}});
        let object = json!({"customer": "cus_1", "items": {"object": "list", "data": [item]}});
        for (form, expected) in [
            ("customer=cus_1&items[0][price]=price_1&items[0][quantity]=2", true),
            ("customer=cus_1&items[0][price]=price_1", true),
            ("customer=cus_1&items[0][price_data][unit_amount]=700", true),
            ("customer=cus_1&items[0][price]=price_2&items[0][quantity]=2", false),
            ("customer=cus_1&items[0][price]=price_1&items[0][quantity]=3", false),
        ] {
            assert_eq!(agrees(form, &object), expected, "{form}");
        }
        let two = json!({"items": {"object": "list", "data": [item, {"price": {"id": "price_2"}}]}});
        assert!(agrees("items[0][price]=price_2&items[1][price]=price_1", &two), "in any order");
        for (form, object) in [("quantity=2&price=price_1", &item), ("quantity=2.0", &item)] {
            assert!(agrees(form, object), "{form}");
        }
        assert!(!agrees("quantity=20", &item) && !agrees("price=price_9", &item));
    }

    #[test]
    fn stripes_own_form_of_a_value_is_no_difference() {
        let object = json!({
            "amount": 1000, "currency": "usd", "customer": {"id": "cus_1"}, "percent_off": 25.0, "inclusive": true,
            "description": "Order 42", "metadata": {"order": "42"}, "shipping": {"address": {"city": "Rome"}},
            "payment_method": "pm_1", "status": "succeeded", "transfer_data": null, "source": {"id": "card_1"},
        });
        for form in [
            "amount=1000&currency=USD&customer=cus_1",
            "amount=01000",
            "percent_off=25&inclusive=true",
            "description=%20Order+42%20&metadata[order]=42",
            "shipping[address][city]=Rome",
            "payment_method=pm_card_visa&confirm=true&source=tok_visa&expand[0]=customer",
            "metadata[gone]=&metadata[dropped]=1&unknown=1&transfer_data=",
            "amount=5&amount=1000",
        ] {
            assert!(agrees(form, &object), "{form}");
        }
        for form in [
            "amount=1001",
            "amount=100",
            "currency=eur",
            "customer=cus_2",
            "percent_off=2.5",
            "inclusive=false",
            "description=Order+43",
            "metadata[order]=43",
            "shipping[address][city]=Paris",
            "amount=1000&amount=5",
        ] {
            assert!(!agrees(form, &object), "{form}");
        }
        assert!(!agrees("customer=cus_1", &json!({ "customer": null })), "it has none");
    }
}

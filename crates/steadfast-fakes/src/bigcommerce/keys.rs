//! Which of a write's own fields tells it from another: where an adapter stamps its key, or what the vendor
//! itself holds unique.

use http::HeaderMap;
use serde_json::Value;

use super::super::serve::header;
use super::machine::Call;

/// The wire key of each item of a write, in order; one item for all but customers.
pub(super) fn of(call: &Call<'_>) -> Vec<Option<String>> {
    if call.request.method != http::Method::POST {
        return vec![None];
    }
    let text = |name: &str| text(&call.body[name]);
    vec![match call.route {
        ["v2", "orders"] => text("external_order_id"),
        ["v3", "checkouts", cart, "orders"] => Some((*cart).to_owned()),
        ["v3", "catalog", "products"] => text("sku").or_else(|| text("name")),
        ["v3", "catalog", "brands" | "categories"] | ["v3", "pricelists"] => text("name"),
        ["v2", "coupons"] => text("code"),
        ["v3", "orders", _, "payment_actions", "refunds"] => {
            let items = call.body["items"].as_array();
            let reasons = items.into_iter().flatten().filter_map(|item| self::text(&item["reason"]));
            reasons.map(|reason| in_reason(&reason)).next()
        }
        ["payments"] => payment_token(&call.request.headers).map(str::to_owned),
        ["v3", "customers"] => {
            return call
                .body
                .as_array()
                .into_iter()
                .flatten()
                .map(|item| self::text(&item["email"]))
                .collect();
        }
        _ => None,
    }]
}

/// The token of `Authorization: PAT …`.
pub(super) fn payment_token(headers: &HeaderMap) -> Option<&str> {
    header(headers, "authorization")?.strip_prefix("PAT ").filter(|token| !token.is_empty())
}

/// The UUID that was added to the reason of a refund's item, or the whole reason.
fn in_reason(reason: &str) -> String {
    let words = reason.split(|letter: char| !(letter.is_ascii_hexdigit() || letter == '-'));
    let mut keys = words.filter(|word| uuid::Uuid::try_parse(word).is_ok_and(|_| word.len() == 36));
    keys.next().unwrap_or(reason).to_owned()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::in_reason;

    #[test]
    fn the_key_in_a_reason_is_found_wherever_it_stands() {
        let key = "0190a5b2-7c3e-8def-8123-456789abcdef";
        assert_eq!(in_reason(key), key);
        assert_eq!(in_reason(&format!("damaged [steadfast:{key}]")), key);
        assert_eq!(in_reason("damaged"), "damaged");
    }
}

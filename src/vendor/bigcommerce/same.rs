//! The comparison of a found object with the request that was sent.
//!
//! A SKU, a name or an e-mail address may have been taken by another client. An object is ours only if every field that
//! we set, and that is read back at all, holds the value that we set. BigCommerce reads some fields back in other
//! forms, which is no difference: `225` as `"225.0000"`, nothing as null or an empty text, and V2 gives a link where a
//! list was written.

use serde_json::Value;

/// Whether `theirs` agrees with every field that `ours` set.
pub(super) fn agrees(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours.iter().all(|(name, value)| {
            let folds = || is_folded(name) && same_but_for_case(value, &theirs[name]);
            theirs.get(name).is_none_or(|held| agrees(value, held) || folds())
        }),
        (Value::Array(ours), Value::Array(theirs)) => matches_all(ours, theirs, agrees),
        // A V2 link: what is behind it is not here to compare.
        (Value::Array(_), Value::Object(link)) => link.contains_key("resource") || link.contains_key("url"),
        (ours, theirs) if is_nothing(ours) || is_nothing(theirs) => is_nothing(ours) && is_nothing(theirs),
        // A text may be kept without the blanks around it.
        (Value::String(ours), Value::String(theirs)) if ours.trim() == theirs.trim() => true,
        (ours, theirs) => ours == theirs || same_number(ours, theirs),
    }
}

/// Whether each of `ours` is one of `theirs`, and each of those is one of ours. A list may come back in another order.
pub(super) fn matches_all(ours: &[Value], theirs: &[Value], is_it: impl Fn(&Value, &Value) -> bool) -> bool {
    let mut left: Vec<&Value> = theirs.iter().collect();
    ours.len() == theirs.len()
        && ours.iter().all(|ours| {
            let place = left.iter().position(|theirs| is_it(ours, theirs));
            place.map(|place| left.swap_remove(place)).is_some()
        })
}

/// Fields whose case BigCommerce may fold: addresses of e-mail, and codes of currencies and countries.
fn is_folded(name: &str) -> bool {
    matches!(name, "email" | "currency_code" | "default_currency_code" | "country_iso2" | "country_code")
}

fn same_but_for_case(ours: &Value, theirs: &Value) -> bool {
    let (Some(ours), Some(theirs)) = (ours.as_str(), theirs.as_str()) else { return false };
    ours.trim().eq_ignore_ascii_case(theirs.trim())
}

/// Whether a row of a batch's answer is the one of `item`: it has the item's `id`. Where the item has none, the row has
/// some of its fields and agrees in all that it has.
pub(super) fn is_row_of(item: &Value, row: &Value) -> bool {
    let shared = |name: &String| !is_nothing(&row[name.as_str()]);
    match (&item["id"], item.as_object()) {
        (Value::Null, Some(fields)) => fields.keys().any(shared) && agrees(item, row),
        (Value::Null, None) => false,
        (id, _) => agrees(id, &row["id"]),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

/// Equal as decimal numbers, digit by digit: money is not compared as a float. One side must be a number in JSON or have
/// a decimal point, so that the texts "007" and "7" stay two: a code is no amount.
fn same_number(ours: &Value, theirs: &Value) -> bool {
    let has_point = |value: &Value| value.as_str().is_some_and(|text| text.contains('.'));
    // No amount begins so.
    let is_code = |value: &Value| {
        value.as_str().is_some_and(|text| text.len() > 1 && text.starts_with('0') && !text.contains('.'))
    };
    let is_amount = ours.is_number()
        || theirs.is_number()
        || (has_point(ours) || has_point(theirs)) && !is_code(ours) && !is_code(theirs);
    if !is_amount {
        return false;
    }
    match (decimal(ours), decimal(theirs)) {
        (Some(ours), Some(theirs)) => ours == theirs,
        _ => false,
    }
}

/// A plain decimal without the zeros that say nothing, and whether it is negative.
fn decimal(value: &Value) -> Option<(bool, String)> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let (negative, digits) = text.strip_prefix('-').map_or((false, text.as_str()), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let plain = format!("{}.{}", whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    Some((negative && plain != ".", plain))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_vendors_other_forms_of_the_same_value_agree() {
        for (ours, theirs) in [
            (json!({ "total": 225 }), json!({ "total": "225.0000", "id": 7 })),
            (json!({ "total": "225.00" }), json!({ "total": 225.0 })),
            (json!({ "note": "" }), json!({ "note": null })),
            (json!({ "password": "x" }), json!({ "id": 1 })),
            (
                json!({ "products": [{ "id": 1 }] }),
                json!({ "products": { "url": "x", "resource": "/orders/1" } }),
            ),
            (json!({ "a": [1, 2], "b": { "c": true } }), json!({ "a": [1, 2], "b": { "c": true, "d": 1 } })),
        ] {
            assert!(agrees(&ours, &theirs), "{ours} {theirs}");
        }
    }

    #[test]
    fn another_value_does_not_agree() {
        for (ours, theirs) in [
            (json!({ "name": "Mug" }), json!({ "name": "Cup" })),
            (json!({ "price": 10 }), json!({ "price": "10.01" })),
            (json!({ "price": 10 }), json!({ "price": 100 })),
            (json!({ "price": 1 }), json!({ "price": -1 })),
            (json!({ "price": 10 }), json!({ "price": null })),
            (json!({ "visible": true }), json!({ "visible": false })),
            (json!({ "a": [1] }), json!({ "a": [1, 2] })),
            (json!({ "a": [1] }), json!({ "a": {} })),
            (json!({ "a": { "b": 1 } }), json!({ "a": { "b": 2 } })),
        ] {
            assert!(!agrees(&ours, &theirs), "{ours} {theirs}");
        }
    }

    #[test]
    fn texts_that_look_like_numbers_stay_texts() {
        assert!(!agrees(&json!("007"), &json!("7")));
        assert!(agrees(&json!(7), &json!("7.0")));
        assert!(agrees(&json!("5.00"), &json!("5.0000")));
        assert!(!agrees(&json!("007"), &json!("7.0")) && !agrees(&json!("7.0"), &json!("007")));
    }

    #[test]
    fn an_amount_without_a_point_is_the_vendors_with_one() {
        for (ours, theirs) in [
            (json!("10"), json!("10.0000")),
            (json!("10.0000"), json!("10")),
            (json!("0"), json!("0.0000")),
            (json!("-3"), json!("-3.00")),
            (json!(10), json!("10.0000")),
            (json!(10.5), json!("10.5000")),
        ] {
            assert!(agrees(&ours, &theirs), "{ours} {theirs}");
        }
        for (ours, theirs) in [("10", "100.0"), ("10", "10.01"), ("10", "1.0"), ("3", "-3.0")] {
            assert!(!agrees(&json!(ours), &json!(theirs)), "{ours} {theirs}");
        }
    }
}

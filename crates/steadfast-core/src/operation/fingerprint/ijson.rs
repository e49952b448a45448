//! The test for I-JSON (RFC 7493), which is the JSON that RFC 8785 canonicalises.
//!
//! Outside it two texts that differ may become one: of repeated members a parser keeps one, of an integer beyond 2^53
//! or a long decimal it keeps the nearest double. Such a text has no canonical form and counts byte for byte.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The value of an I-JSON text; `None` for any other text.
pub(super) fn parse(text: &[u8]) -> Option<Value> {
    let Unique(value) = serde_json::from_slice(text).ok()?;
    numbers(text).all(is_exact).then_some(value)
}

/// A value in which no object names a member twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unique, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Unique)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Unique(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let Unique(value) = map.next_value()?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member's name appears twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

/// The numbers of a text that is JSON, as they are written.
fn numbers(text: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (first, after) = rest.split_first()?;
            match first {
                b'"' => rest = after_string(after),
                b'-' | b'0'..=b'9' => {
                    let is_in = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                    let end = rest.iter().position(|byte| !is_in(byte)).unwrap_or(rest.len());
                    let (number, after) = rest.split_at(end);
                    rest = after;
                    return std::str::from_utf8(number).ok();
                }
                _ => rest = after,
            }
        }
    })
}

/// Returns the rest after the quotation mark that ends the string which `text` is in.
fn after_string(text: &[u8]) -> &[u8] {
    let mut at = 0;
    loop {
        match text.get(at) {
            Some(b'"') => return &text[at + 1..],
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return &[],
        }
    }
}

/// Whether a double holds the number, and the parser gives that double.
fn is_exact(number: &str) -> bool {
    if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return number.parse::<i64>().is_ok_and(|integer| integer.unsigned_abs() < TWO_TO_53);
    }
    let Ok(double) = number.parse::<f64>() else { return false };
    let parsed = serde_json::from_str::<f64>(number);
    double.is_finite()
        && parsed.is_ok_and(|parsed| parsed.to_bits() == double.to_bits())
        && Decimal::of(number) == Decimal::of(&format!("{double:e}"))
}

/// A decimal number: its digits without the zeros at either end, and the place of its point.
#[derive(PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn of(number: &str) -> Option<Decimal> {
        let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        let leading = all.len() - digits.len();
        let digits = digits.trim_end_matches('0').to_owned();
        let exponent: i64 = exponent.parse().ok()?;
        if digits.is_empty() {
            return Some(Decimal { is_negative: false, digits, exponent: 0 });
        }
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(leading).ok()?;
        Some(Decimal { is_negative, digits, exponent: exponent.checked_add(point)? })
    }
}

/// The first integer that a double shares with another (RFC 7493, section 2.2).
const TWO_TO_53: u64 = 1 << 53;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_with_an_ambiguous_value_are_not_i_json() {
        for outside in [
            r#"{"a":1,"a":2}"#,
            r#"[{"b":{"a":1,"\u0061":1}}]"#,
            "9007199254740992",
            "-9007199254740992",
            "123456789012345678901234567890",
            "[0.1000000000000000055511151231257827]",
            "9007199254740993.0",
            "1e400",
            r#""\ud800""#,
            "{",
            "",
        ] {
            assert_eq!(parse(outside.as_bytes()), None, "{outside}");
        }
    }

    #[test]
    fn other_texts_are_i_json() {
        for inside in [
            r#"{"a":1,"b":{"a":2},"c":[{"a":1},{"a":1}]}"#,
            "9007199254740991",
            "-9007199254740991",
            "[10.00, 0.1, -0.0, 0, -0, 1e2, 1.5E-7, 1e22, 0.000, 100.50e+1]",
            r#"{"text":"9007199254740993 \" 1e400 \\","true":true,"null":null}"#,
        ] {
            let expected: Value = serde_json::from_str(inside).expect(inside);
            assert_eq!(parse(inside.as_bytes()), Some(expected), "{inside}");
        }
    }

    proptest! {
        #[test]
        fn every_double_is_exact_as_it_is_written_shortest(bits: u64) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite());
            let text = format!("{double:e}");
            let is_read_right = serde_json::from_str::<f64>(&text).ok() == Some(double);
            prop_assert_eq!(is_exact(&text), is_read_right, "{}", text);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            parse(&bytes);
            numbers(&bytes).count();
        }
    }
}

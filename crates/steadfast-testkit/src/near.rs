//! Deserialization of tables with a hint: an unknown name is refused with the nearest known one.
//!
//! serde's own error lists all names and leaves it to the reader to find the typing mistake. This one is made
//! while the name is read, so that the format still adds the line number.

use serde::de::value::StringDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use steadfast_core::internal::suggest::{nearest, shown};

/// Reads a struct.
///
/// # Errors
///
/// The format's; for an unknown name, with the nearest known one.
pub(crate) fn near<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(Near(deserializer))
}

struct Near<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Near<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, known, Known { inner: visitor, known })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A wrapper of a visitor, of a table's fields or of a field's name, with the names that are known there.
struct Known<T> {
    inner: T,
    known: &'static [&'static str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Known<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Known { inner: map, known: self.known })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Known<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.inner.next_key_seed(Known { inner: seed, known: self.known })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Known<K> {
    type Value = K::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K::Value, D::Error> {
        let name = String::deserialize(deserializer)?;
        if !self.known.contains(&name.as_str()) {
            return Err(match nearest(&name, self.known.iter().copied()) {
                Some(meant) => {
                    D::Error::custom(format!("unknown field `{}`; did you mean `{meant}`?", shown(&name)))
                }
                None => D::Error::unknown_field(&name, self.known),
            });
        }
        let name: StringDeserializer<D::Error> = name.into_deserializer();
        self.inner.deserialize(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "what is read is not looked at")]
    struct Outer {
        #[serde(default, deserialize_with = "near")]
        inner: Inner,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Inner {
        search_lag: u32,
        token: Option<String>,
    }

    #[test]
    fn a_misspelt_name_is_refused_in_its_line_with_the_nearest_one() {
        let read = |text: &str| toml::from_str::<Outer>(text);
        let good = read("[inner]\nsearch_lag = 3\ntoken = 't'").unwrap().inner;
        assert_eq!((good.search_lag, good.token.as_deref()), (3, Some("t")));
        for (text, line, expected) in [
            (
                "[inner]\ntoken = 't'\nserch_lag = 3",
                "line 3, column 1",
                "`serch_lag`; did you mean `search_lag`?",
            ),
            ("[inner]\nweather = 3", "line 2, column 1", "`weather`, expected `search_lag` or `token`"),
            ("[inner]\nsearch_lag = 'x'", "line 2, column 14", "expected u32"),
            ("inner = 3", "line 1, column 9", "expected struct Inner"),
        ] {
            let problem = read(text).unwrap_err().to_string();
            assert!(problem.contains(line) && problem.contains(expected), "{problem}");
        }
    }
}

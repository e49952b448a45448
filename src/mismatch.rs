//! The reason for which a document does not fit a type, as a kind and not as a text.
//!
//! A type reports to serde the value that it met and the one that it expected. A format makes one text of both, and its
//! error is that text. So a document that did not fit is read again, from a [`Document`], whose error keeps both. The
//! place comes from the format's own error.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeOwned, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

/// Mistake at the place where a type stopped to read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mismatch {
    UnknownField {
        name: String,
        known: &'static [&'static str],
    },
    UnknownVariant {
        name: String,
        known: &'static [&'static str],
    },
    MissingField(&'static str),
    /// Neither one of the names nor a table with one of them.
    Choice {
        met: Met,
        known: &'static [&'static str],
    },
    /// A list is longer or shorter than it should be.
    Length {
        /// Expectation in the type's words.
        expected: String,
    },
    Value {
        met: Met,
        /// Expectation in the type's words, such as "u64" or "a string".
        expected: String,
    },
    /// A type has checked more than its fields do, and says so in words of its own.
    Custom(String),
}

/// A value that did not fit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Met {
    Text(String),
    /// A number, as it would be written.
    Number(String),
    Boolean(bool),
    Null,
    List,
    Table,
    /// Another mistake, in serde's words.
    Other(String),
}

impl Mismatch {
    /// Returns the reason for which `document` is not a `T`; `None` if it is one.
    pub(crate) fn of<T: DeserializeOwned>(document: Document) -> Option<Mismatch> {
        T::deserialize(document).err()
    }

    /// Whether the type has names of its own, and not the one that is written.
    pub(crate) fn is_over_a_name(&self) -> bool {
        matches!(self, Mismatch::UnknownField { .. } | Mismatch::UnknownVariant { .. })
    }
}

impl From<Unexpected<'_>> for Met {
    fn from(unexpected: Unexpected<'_>) -> Met {
        match unexpected {
            Unexpected::Str(text) => Met::Text(text.to_owned()),
            Unexpected::Unsigned(number) => Met::Number(number.to_string()),
            Unexpected::Signed(number) => Met::Number(number.to_string()),
            Unexpected::Float(number) => Met::Number(format!("{number:?}")),
            Unexpected::Bool(value) => Met::Boolean(value),
            Unexpected::Unit | Unexpected::Option => Met::Null,
            Unexpected::Seq => Met::List,
            Unexpected::Map => Met::Table,
            other => Met::Other(other.to_string()),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document does not fit its type")
    }
}

impl std::error::Error for Mismatch {}

impl Error for Mismatch {
    fn custom<T: fmt::Display>(words: T) -> Mismatch {
        Mismatch::Custom(words.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Mismatch {
        Mismatch::Value { met: unexpected.into(), expected: expected.to_string() }
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Mismatch {
        Mismatch::invalid_type(unexpected, expected)
    }

    fn invalid_length(_length: usize, expected: &dyn Expected) -> Mismatch {
        Mismatch::Length { expected: expected.to_string() }
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Mismatch {
        Mismatch::UnknownField { name: name.to_owned(), known }
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Mismatch {
        Mismatch::UnknownVariant { name: name.to_owned(), known }
    }

    fn missing_field(field: &'static str) -> Mismatch {
        Mismatch::MissingField(field)
    }
}

/// A document of any format, with its fields in their order and as often as they are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Document {
    Null,
    Boolean(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Document>),
    Table(Vec<(Name, Document)>),
}

/// A field's name. A map whose keys are numbers has them as text in most formats.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Name(String);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Document, E> {
        Ok(Document::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Document, E> {
        Ok(Document::Boolean(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Document, E> {
        Ok(Document::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Document, E> {
        Ok(Document::Signed(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Document, E> {
        Ok(Document::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Document, E> {
        Ok(Document::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Document, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Document::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Document::Table(fields))
    }
}

impl Document {
    fn met(&self) -> Met {
        Met::from(match self {
            Document::Null => Unexpected::Unit,
            Document::Boolean(value) => Unexpected::Bool(*value),
            Document::Unsigned(number) => Unexpected::Unsigned(*number),
            Document::Signed(number) => Unexpected::Signed(*number),
            Document::Float(number) => Unexpected::Float(*number),
            Document::Text(text) => Unexpected::Str(text),
            Document::List(_) => Unexpected::Seq,
            Document::Table(_) => Unexpected::Map,
        })
    }
}

impl<'de> Deserializer<'de> for Document {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self {
            Document::Null => visitor.visit_unit(),
            Document::Boolean(value) => visitor.visit_bool(value),
            Document::Unsigned(value) => visitor.visit_u64(value),
            Document::Signed(value) => visitor.visit_i64(value),
            Document::Float(value) => visitor.visit_f64(value),
            Document::Text(value) => visitor.visit_string(value),
            Document::List(items) => {
                let mut items = SeqDeserializer::new(items.into_iter());
                let value = visitor.visit_seq(&mut items)?;
                items.end().map(|()| value)
            }
            Document::Table(fields) => visitor.visit_map(MapDeserializer::new(fields.into_iter())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self {
            Document::Null => visitor.visit_none(),
            value => visitor.visit_some(value),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        // A format's own type, such as `serde_json::value::RawValue`, which no other format can read.
        if name.starts_with('$') {
            return Err(Mismatch::custom("of another format"));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self {
            Document::Text(variant) => visitor.visit_enum(variant.into_deserializer()),
            Document::Table(fields) => {
                visitor.visit_enum(MapAccessDeserializer::new(MapDeserializer::new(fields.into_iter())))
            }
            other => Err(Mismatch::Choice { met: other.met(), known: variants }),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

macro_rules! read_number {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            if let Ok(number) = self.0.parse() {
                return visitor.visit_u64(number);
            }
            match self.0.parse() {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => visitor.visit_string(self.0),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Name {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_string(self.0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0.parse() {
            Ok(value) => visitor.visit_bool(value),
            Err(_) => visitor.visit_string(self.0),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    read_number! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

impl IntoDeserializer<'_, Mismatch> for Name {
    type Deserializer = Name;

    fn into_deserializer(self) -> Name {
        self
    }
}

impl IntoDeserializer<'_, Mismatch> for Document {
    type Deserializer = Document;

    fn into_deserializer(self) -> Document {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        number: u16,
        #[serde(default)]
        note: Option<String>,
        #[serde(default)]
        amounts: BTreeMap<u32, f64>,
        #[serde(default)]
        paid: Option<Paid>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Paid {
        Cash,
        Card { last: String },
    }

    fn read<T: DeserializeOwned>(json: &str) -> Result<T, Mismatch> {
        T::deserialize(serde_json::from_str::<Document>(json).expect(json))
    }

    #[test]
    fn a_fitting_document_reads_as_its_format_reads_it() {
        for json in [
            r#"{"number":7}"#,
            r#"{"number":7,"note":null,"paid":"cash"}"#,
            r#"{"number":7,"note":"x","amounts":{"1":1.5,"20":-2},"paid":{"card":{"last":"4242"}}}"#,
        ] {
            let direct: Order = serde_json::from_str(json).expect(json);
            assert_eq!(read::<Order>(json), Ok(direct), "{json}");
        }
    }

    #[test]
    fn a_mismatch_is_reported_by_its_kind() {
        let value = |met, expected: &str| Mismatch::Value { met, expected: expected.to_owned() };
        for (json, expected) in [
            ("{}", Mismatch::MissingField("number")),
            (r#"{"number":-1}"#, value(Met::Number("-1".into()), "u16")),
            (r#"{"number":1.0}"#, value(Met::Number("1.0".into()), "u16")),
            (r#"{"number":null}"#, value(Met::Null, "u16")),
            (r#"{"number":1,"note":[1]}"#, value(Met::List, "a string")),
            (r#"{"number":1,"note":{}}"#, value(Met::Table, "a string")),
            (r#"{"number":1,"note":true}"#, value(Met::Boolean(true), "a string")),
            (r#"{"number":1,"amounts":{"x":1}}"#, value(Met::Text("x".into()), "u32")),
            (
                r#"{"number":1,"other":1}"#,
                Mismatch::UnknownField {
                    name: "other".into(),
                    known: &["number", "note", "amounts", "paid"],
                },
            ),
            (
                r#"{"number":1,"paid":5}"#,
                Mismatch::Choice { met: Met::Number("5".into()), known: &["cash", "card"] },
            ),
            (
                r#"{"number":1,"paid":"soon"}"#,
                Mismatch::UnknownVariant { name: "soon".into(), known: &["cash", "card"] },
            ),
        ] {
            assert_eq!(read::<Order>(json), Err(expected), "{json}");
        }
    }

    #[test]
    fn a_list_of_another_length_is_distinguished() {
        let told = read::<(u64, u64)>("[1]");
        assert_eq!(told, Err(Mismatch::Length { expected: "a tuple of size 2".to_owned() }));
    }

    #[test]
    fn a_type_that_only_its_format_can_read_has_no_kind() {
        let met = read::<Box<serde_json::value::RawValue>>("{}");
        assert!(matches!(met, Err(Mismatch::Custom(_))), "{met:?}");
    }
}

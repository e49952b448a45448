//! [`Schema`]: the schema that has the tables.

use std::fmt;

/// A schema's name that is safe in a statement: `Display` quotes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schema(Box<str>);

impl Schema {
    /// Parses a name. The error is the problem alone, for a message that names the place.
    pub(super) fn parse(name: &str) -> Result<Schema, String> {
        let letters = |letter: u8| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let problem = if name.is_empty() || name.len() > LENGTH_MAX {
            format!("a schema's name has 1 to {LENGTH_MAX} letters")
        } else if !name.bytes().all(letters) || name.as_bytes()[0].is_ascii_digit() {
            "a schema's name is of lower-case letters, digits and `_`, and does not begin with a digit"
                .to_owned()
        } else if name.starts_with("pg_") || matches!(name, "information_schema") {
            "that schema is the server's own; name another".to_owned()
        } else {
            return Ok(Schema(name.into()));
        };
        Err(problem)
    }

    /// Returns the bare name, for a value in a catalogue.
    pub(super) fn name(&self) -> &str {
        &self.0
    }
}

impl Default for Schema {
    fn default() -> Schema {
        Schema("steadfast".into())
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// Maximum length: an identifier has at most 63 bytes, and a role's name adds `_dispatcher`.
const LENGTH_MAX: usize = 52;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schemas_name_cannot_escape_its_quotes_or_name_a_system_schema() {
        for good in ["steadfast", "payments", "_x1", "user", "a".repeat(52).as_str()] {
            assert_eq!(Schema::parse(good).expect(good).to_string(), format!("\"{good}\""));
        }
        let long = "a".repeat(53);
        for bad in [
            "",
            "Payments",
            "pay-ments",
            "1st",
            "a b",
            "a\"; DROP",
            "pg_catalog",
            "information_schema",
            "ä",
            &long,
        ] {
            assert!(Schema::parse(bad).is_err(), "{bad}");
        }
    }
}

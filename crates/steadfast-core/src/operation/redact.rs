//! [`RedactedFields`]: what of an operation is never shown.

use std::sync::Arc;

use crate::error::invalid::InputErrorExt;
use crate::error::{Error, Input};

/// Names of fields, headers and query parameters whose values are not shown to anyone who looks at an operation,
/// however much is asked for. They are stored and sent like any other.
///
/// Upper and lower case are the same. A name stands for a field of that name at any depth; it is not a path.
/// Cheap to clone; without names nothing is allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedactedFields(Option<Arc<[String]>>);

impl RedactedFields {
    /// The most names that one call, or one client, may give.
    pub const COUNT_MAX: usize = 64;

    /// The longest name, in bytes.
    pub const NAME_BYTES_MAX: usize = 255;

    /// No fields.
    pub const NONE: RedactedFields = RedactedFields(None);

    /// Creates a set of these fields, each once.
    ///
    /// # Errors
    ///
    /// Refuses with `VALIDATION.redact` if a name is empty or over [`NAME_BYTES_MAX`](RedactedFields::NAME_BYTES_MAX),
    /// or there are over [`COUNT_MAX`](RedactedFields::COUNT_MAX).
    pub fn new<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Result<RedactedFields, Error> {
        RedactedFields::NONE.with(names)
    }

    /// Adds these fields.
    ///
    /// # Errors
    ///
    /// The errors are those of [`new`](RedactedFields::new).
    pub fn with<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) -> Result<RedactedFields, Error> {
        let mut all = self.names().to_vec();
        for name in names {
            let mut name: String = name.into();
            if name.is_empty() {
                return Err(Error::invalid(Input::Redact, "a field's name must not be empty"));
            }
            if name.len() > RedactedFields::NAME_BYTES_MAX {
                let problem = format!(
                    "a field's name of {} bytes; at most {} are allowed",
                    name.len(),
                    RedactedFields::NAME_BYTES_MAX
                );
                return Err(Error::invalid(Input::Redact, problem));
            }
            name.make_ascii_lowercase();
            if !all.contains(&name) {
                if all.len() == RedactedFields::COUNT_MAX {
                    let problem = format!("at most {} fields are allowed", RedactedFields::COUNT_MAX);
                    return Err(Error::invalid(Input::Redact, problem));
                }
                all.push(name);
            }
        }
        Ok(RedactedFields::from_stored(all))
    }

    /// Returns the union with `other`: the fields of a call and those of its client.
    #[must_use]
    pub fn and(&self, other: &RedactedFields) -> RedactedFields {
        if other.is_empty() || self == other {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let more = other.names().iter().filter(|name| !self.names().contains(name));
        RedactedFields(Some(self.names().iter().chain(more).cloned().collect()))
    }

    /// Names as a store kept them.
    pub fn from_stored(names: Vec<String>) -> RedactedFields {
        RedactedFields((!names.is_empty()).then(|| names.into()))
    }

    /// The names, in lower case.
    pub fn names(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Text that is shown in place of a redacted field.
pub const REDACTED: &str = "[redacted]";

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(names: &[&str]) -> RedactedFields {
        RedactedFields::new(names.iter().copied()).expect("valid")
    }

    #[test]
    fn names_are_kept_once_whatever_their_case() {
        assert_eq!(fields(&["Email", "card", "EMAIL"]).names(), ["email", "card"]);
        assert_eq!(fields(&[]), RedactedFields::NONE);
        let both = fields(&["card", "email"]).and(&fields(&["email", "iban"]));
        assert_eq!(both.names(), ["card", "email", "iban"]);
        assert_eq!(fields(&["a"]).and(&RedactedFields::NONE), fields(&["a"]));
        assert_eq!(RedactedFields::NONE.and(&fields(&["a"])), fields(&["a"]));
        assert!(RedactedFields::NONE.and(&RedactedFields::NONE).is_empty());
    }

    #[test]
    fn there_is_a_limit_on_number_and_length() {
        let name = |nth: usize| format!("field-{nth}");
        let most = RedactedFields::new((0..RedactedFields::COUNT_MAX).map(name)).expect("as many as allowed");
        assert_eq!(most.with(["FIELD-3"]).expect("there already"), most);
        assert_eq!(most.with(["one more"]).expect_err("too many").code(), "VALIDATION.redact");
        let longest = "x".repeat(RedactedFields::NAME_BYTES_MAX);
        assert_eq!(fields(&[&longest]).names(), std::slice::from_ref(&longest));
        for wrong in [String::new(), longest + "x"] {
            assert_eq!(RedactedFields::new([wrong]).expect_err("refused").code(), "VALIDATION.redact");
        }
    }
}

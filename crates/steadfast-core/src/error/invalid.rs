//! A mistake in an input: the input, the field in it, the problem and the remedy.
//!
//! Each is a type of its own and not a word of the text: the [code](Error::code) follows from the [`Input`], and the
//! vendors file finds line and column by the [`Field`].

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::borrow::Cow;
use std::fmt;

use easy_ext::ext;

use super::{Effect, Error, Kind};
use crate::error::ErrorExt;

/// Input that an error refuses. Its [code](Error::code) follows from it: `VALIDATION.body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Input {
    /// The operation's key.
    Key,
    /// The base URL of a client or an adapter.
    BaseUrl,
    /// The path of a call.
    Path,
    /// A header, by its name or its value.
    Header,
    /// The body of a call.
    Body,
    /// The vendor's secret.
    Secret,
    /// A policy.
    Policy,
    /// The names of fields that are redacted.
    Redact,
    /// The retention of records.
    Retention,
    /// The name of a sequence.
    Sequence,
    /// The fingerprint of an incoming request.
    Inbound,
    /// The terms that services share which share an account's records.
    Terms,
    /// Any other, by its name. Its code is `VALIDATION.input`.
    Other(&'static str),
}

impl Input {
    /// The input's name in an error's text.
    pub const fn name(self) -> &'static str {
        match self {
            Input::Other(name) => name,
            named => named.code().split_at("VALIDATION.".len()).1,
        }
    }

    pub(super) const fn code(self) -> &'static str {
        match self {
            Input::Key => "VALIDATION.key",
            Input::BaseUrl => "VALIDATION.base_url",
            Input::Path => "VALIDATION.path",
            Input::Header => "VALIDATION.header",
            Input::Body => "VALIDATION.body",
            Input::Secret => "VALIDATION.secret",
            Input::Policy => "VALIDATION.policy",
            Input::Redact => "VALIDATION.redact",
            Input::Retention => "VALIDATION.retention",
            Input::Sequence => "VALIDATION.sequence",
            Input::Inbound => "VALIDATION.inbound",
            Input::Terms => "VALIDATION.terms",
            Input::Other(_) => "VALIDATION.input",
        }
    }
}

/// A field by the names that lead to it from its input, such as `backoff.steps[1]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field(Vec<Segment>);

/// One segment of the path of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    Name(Cow<'static, str>),
    /// Index in a list, from 0.
    Item(usize),
}

impl Field {
    pub fn of(names: &[&'static str]) -> Field {
        Field(names.iter().map(|name| Segment::Name(Cow::Borrowed(name))).collect())
    }

    /// A field that has its name from a caller, such as a route.
    pub fn named(name: &str) -> Field {
        Field(vec![Segment::Name(Cow::Owned(name.to_owned()))])
    }

    /// An item of the list that this field is.
    pub fn item(mut self, index: usize) -> Field {
        self.0.push(Segment::Item(index));
        self
    }

    /// Returns the field's path below `input`, for an input that is itself a field.
    pub fn below(&self, input: &'static str) -> Field {
        Field(Field::of(&[input]).0.into_iter().chain(self.0.iter().cloned()).collect())
    }

    pub fn segments(&self) -> &[Segment] {
        &self.0
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Name(name) if at == 0 => f.write_str(name)?,
                Segment::Name(name) => write!(f, ".{name}")?,
                Segment::Item(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// `field!(timeout.attempt)`, `field!(backoff.steps[index])`.
#[doc(hidden)]
#[macro_export]
macro_rules! field {
    ($($name:ident).+) => { $crate::internal::error::Field::of(&[$(stringify!($name)),+]) };
    ($($name:ident).+ [$index:expr]) => { $crate::field!($($name).+).item($index) };
}
pub use field;

/// An input that is refused before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub input: Input,
    /// Field of the input that is wrong. `None` if it is the input as a whole.
    pub field: Option<Field>,
    /// The fields that it is compared with.
    pub beside: Vec<Field>,
    /// The adapter's option that set the input, where the text speaks of what became of it.
    pub set_by: Option<&'static str>,
    /// A switch that allows it: a method of the builder, and a key of the vendors file.
    pub unless: Option<&'static str>,
    /// Problem and remedy, in words. The text does not begin with the field's name.
    pub problem: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid {}: ", self.input.name())?;
        match &self.field {
            // A route is its caller's word, and quoted.
            Some(route) if self.input == Input::Retention => write!(f, "`{route}`: ")?,
            Some(field) => write!(f, "{field}: ")?,
            None => {}
        }
        f.write_str(&self.problem)?;
        self.unless.map_or(Ok(()), |switch| write!(f, " or {switch}()"))
    }
}

impl Error {
    /// A configuration error, for an adapter that refuses what it was built with.
    pub fn validation(input: Input, problem: impl Into<String>) -> Error {
        Error::invalid(input, problem)
    }

    fn with_invalid(mut self, change: impl FnOnce(&mut Invalid)) -> Error {
        if let Kind::Invalid(invalid) = &mut self.0.kind {
            change(invalid);
        }
        self
    }
}

/// Methods that only the crates of this workspace call.
#[ext(InputErrorExt)]
impl Error {
    /// Says which field of the input is refused.
    pub fn at(self, field: Field) -> Error {
        self.with_invalid(|invalid| invalid.field = Some(field))
    }

    /// Says with which field the refused one is compared.
    pub fn beside(self, field: Field) -> Error {
        self.with_invalid(|invalid| invalid.beside.push(field))
    }

    pub fn invalid(input: Input, problem: impl Into<String>) -> Error {
        let problem = problem.into();
        let invalid = Invalid { input, field: None, beside: Vec::new(), set_by: None, unless: None, problem };
        Error::new(Kind::Invalid(Box::new(invalid)), Effect::None)
    }

    /// Says which option of an adapter set what is refused.
    pub fn set_by(self, option: &'static str) -> Error {
        self.with_invalid(|invalid| invalid.set_by = Some(option))
    }

    /// Says which switch allows it.
    pub fn unless(self, switch: &'static str) -> Error {
        self.with_invalid(|invalid| invalid.unless = Some(switch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_input_is_named_by_its_field_and_coded_by_its_type() {
        let index = 1;
        let steps = field!(backoff.steps[index]);
        let error = Error::invalid(Input::Policy, "zero").at(steps.clone());
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("VALIDATION.policy", "invalid policy: backoff.steps[1]: zero")
        );
        assert_eq!(steps.below("policy").to_string(), "policy.backoff.steps[1]");
        let error = Error::invalid(Input::Retention, "too short").at(Field::named("/v1/x.y"));
        assert_eq!(error.to_string(), "invalid retention: `/v1/x.y`: too short");
        let error = Error::invalid(Input::Other("by"), "use https").unless("allow_plain_http");
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("VALIDATION.input", "invalid by: use https or allow_plain_http()")
        );
    }
}

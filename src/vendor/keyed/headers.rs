//! The headers that a keyed vendor wants on each request.

use http::header::{HeaderName, HeaderValue};

use steadfast_core::Error;
use steadfast_core::internal::error::{Field, field};
use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::operation::is_secret;
use steadfast_core::internal::request::is_of_the_connection;
use steadfast_core::vendor::KeyPlace;

use super::KeyedConfig;
use super::config::{check_header_name, invalid};

/// The headers, without those that `check` refuses.
pub(super) fn of(config: &KeyedConfig) -> Vec<(HeaderName, HeaderValue)> {
    let pair = |(name, value): (&String, &String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value).ok()?))
    };
    config.headers.iter().filter(|(_, value)| !value.trim().is_empty()).filter_map(pair).collect()
}

/// # Errors
///
/// A validation error that names the header.
pub(super) fn check(config: &KeyedConfig) -> Result<(), Error> {
    let mut seen: Vec<HeaderName> = Vec::new();
    for (written, value) in &config.headers {
        let field = || Field::named(written).below("headers");
        check_header_name(field(), written)?;
        let Ok(name) = HeaderName::from_bytes(written.as_bytes()) else { continue };
        let is_named = |other: &str| name.as_str().eq_ignore_ascii_case(other);
        if is_secret(&name) || config.auth.as_ref().is_some_and(|auth| is_named(&auth.header)) {
            let problem = "it carries a secret, and these are recorded; `auth` is for it";
            return Err(invalid(field(), problem).beside(field!(auth.header)));
        }
        if matches!(&config.key, Some(KeyPlace::Header(key)) if is_named(key)) {
            return Err(invalid(field(), "the key goes there").beside(field!(key.header)));
        }
        if is_of_the_connection(&name) {
            return Err(invalid(field(), "it is the connection's own"));
        }
        if value.trim().is_empty() {
            return Err(invalid(field(), "it is empty; set the value that the vendor has given you"));
        }
        if HeaderValue::from_str(value).is_err() {
            return Err(invalid(field(), "it holds a character that a header cannot carry"));
        }
        if seen.contains(&name) {
            return Err(invalid(field(), "it is there twice, in other letters"));
        }
        seen.push(name);
    }
    Ok(())
}

//! Keeps secrets out of the file, and out of the errors about it.

use toml::de::{DeTable, DeValue};

use super::document::{Path, each_key};
use super::source::Source;
use crate::error::Error;

/// Refuses every key that by its name would hold a secret. This comes before anything else is read, because an
/// error about anything else might quote the value.
pub(super) fn refuse_literal(source: &Source<'_>, root: &DeTable<'_>) -> Result<(), Error> {
    let mut first: Option<(usize, String)> = None;
    each_key(root, &Path::default(), &mut |path, key, value| {
        let name = key.get_ref().to_ascii_lowercase().replace('-', "_");
        let is_value = !matches!(value.get_ref(), DeValue::Table(_));
        let start = key.span().start;
        if is_value
            && SECRET_KEYS.contains(&name.as_str())
            && first.as_ref().is_none_or(|(at, _)| start < *at)
        {
            let problem = format!(
                "`{}` in {path} would put a secret into this file; keep it in an environment variable and name \
                 that here: `secret_env = \"{}\"`",
                key.get_ref(),
                example_variable(path.vendor().unwrap_or("vendor"))
            );
            first = Some((start, problem));
        }
    });
    match first {
        Some((start, problem)) => Err(source.error(start, problem)),
        None => Ok(()),
    }
}

/// Refuses what is not the name of an environment variable in capitals. Most secrets are not, so that one
/// written here by mistake is caught; the message does not repeat it.
pub(super) fn check_variable(name: &str) -> Result<(), String> {
    let is_name = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && (1..=VARIABLE_MAX).contains(&text.len())
    };
    if is_name(name) {
        return Ok(());
    }
    Err("it takes the name of an environment variable in capitals, digits and `_`, such as \
         \"STRIPE_SECRET_KEY\"; if this is the secret itself, take it out of the file and replace it at the vendor"
        .to_owned())
}

/// A name for the variable that holds this vendor's secret.
pub(super) fn example_variable(vendor: &str) -> String {
    let name: String = vendor
        .to_ascii_uppercase()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
        .collect();
    match check_variable(&name) {
        Ok(()) => format!("{name}_SECRET"),
        Err(_) => "VENDOR_SECRET".to_owned(),
    }
}

/// What vendors call their credentials.
const SECRET_KEYS: [&str; 17] = [
    "secret",
    "secret_key",
    "api_key",
    "apikey",
    "api_secret",
    "api_token",
    "access_key",
    "access_token",
    "auth_token",
    "bearer",
    "bearer_token",
    "client_secret",
    "password",
    "private_key",
    "server_token",
    "token",
    "webhook_secret",
];

/// Longer than any name in use.
const VARIABLE_MAX: usize = 128;

//! Keeps secrets out of the file, and out of the errors about it.

use toml::de::{DeTable, DeValue};

use super::document::{each_key, take_out};
use super::mistakes::{Mistake, Mistakes};
use super::path::Path;

/// Reports every key that by its name would hold a secret, and takes it out. This comes before anything else is read,
/// because a mistake about anything else might quote the value.
pub(super) fn take_literals(root: &mut DeTable<'_>, mistakes: &mut Mistakes<'_>) {
    let mut found: Vec<(usize, Path, String)> = Vec::new();
    let top = mistakes.source().top();
    each_key(root, &top, &mut |path, key, value| {
        let name = key.get_ref().to_ascii_lowercase().replace('-', "_");
        let is_value = !matches!(value.get_ref(), DeValue::Table(_));
        if !is_value || !SECRET_KEYS.contains(&name.as_str()) {
            return;
        }
        let (instead, variable) = match name.as_str() {
            "seal_key" | "seal_keys" => ("seal_keys_env", "STEADFAST_SEAL_KEYS".to_owned()),
            _ => ("secret_env", example_variable(path.vendor().unwrap_or("vendor"))),
        };
        let own = key.get_ref();
        let problem = if top.is_in_table() {
            format!("`{own}` in {path} would put a secret into this text; give it to `Keyed::new`")
        } else {
            format!(
                "`{own}` in {path} would put a secret into this file; keep it in an environment variable and \
                 name that here: `{instead} = \"{variable}\"`"
            )
        };
        found.push((key.span().start, path.then(instead), problem));
    });
    found.sort_by_key(|(start, ..)| *start);
    for (start, instead, problem) in found {
        mistakes.tell(Mistake::certain(start, problem));
        take_out(root, &top, start, mistakes);
        // It was meant for that key, which is then not missing.
        mistakes.took_out(instead);
    }
}

/// Refuses what is not the name of an environment variable in capitals, such as `example`. Most secrets are not, so
/// that one written here by mistake is caught; the message does not repeat it, and says what is then to be done.
pub(super) fn check_variable(name: &str, example: &str, then: &str) -> Result<(), String> {
    if is_variable(name) {
        return Ok(());
    }
    Err(format!(
        "it takes the name of an environment variable in capitals, digits and `_`, such as \"{example}\"; if \
         this is the secret itself, take it out of the file and {then}"
    ))
}

fn is_variable(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && (1..=VARIABLE_MAX).contains(&name.len())
}

/// A name for the variable that holds this vendor's secret.
pub(super) fn example_variable(vendor: &str) -> String {
    let name: String = vendor
        .to_ascii_uppercase()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
        .collect();
    if is_variable(&name) { format!("{name}_SECRET") } else { "VENDOR_SECRET".to_owned() }
}

/// Names that vendors give their credentials, and the names of our own.
const SECRET_KEYS: [&str; 19] = [
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
    "seal_key",
    "seal_keys",
    "server_token",
    "token",
    "webhook_secret",
];

/// Longer than any name in use.
const VARIABLE_MAX: usize = 128;

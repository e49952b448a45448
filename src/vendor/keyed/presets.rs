//! Vendors that are nothing but data, and are known: `adapter = "square"` in the vendors file.
//!
//! A preset holds what the vendor documents of its keys. What it does not document is not in here. Without a window an
//! unknown outcome is never sent again. Where neither base URL nor the form of the secret is known for certain, the table
//! that names the preset says them. What a table says counts before its preset.

use super::config::KeyedConfig;

/// The presets: names, and what is known of each.
pub(crate) const PRESETS: [(&str, &str); 7] = [
    ("checkout", CHECKOUT),
    ("gocardless", GOCARDLESS),
    ("increase", INCREASE),
    ("paypal", PAYPAL),
    ("plaid", PLAID),
    ("resend", RESEND),
    ("square", SQUARE),
];

/// Checkout.com, "Idempotency": 24 hours are safe, and only a 2xx is stored.
const CHECKOUT: &str = r#"
    key = { header = "Cko-Idempotency-Key" }
    window = "24h"
"#;

/// GoCardless, "Idempotency keys": a second request is told of the first one's object by a 409. No window is stated.
const GOCARDLESS: &str = r#"
    key = { header = "Idempotency-Key" }
    duplicate = [{ status = 409, says = "idempotent_creation_conflict" }]
"#;

/// Increase, "Idempotency keys": up to 200 characters. A replay is marked, and a conflict names the object that the key
/// has made. No window is stated.
const INCREASE: &str = r#"
    key = { header = "Idempotency-Key" }
    key_len_max = 200
    replay = { header = { name = "Idempotent-Replayed", value = "true" } }
    duplicate = [{ status = 409, has = "resource_id" }]
"#;

/// developer.paypal.com, "Idempotency": 108 characters; 6 hours are the shortest that any of its APIs keeps a key. No
/// window here: not every route takes the key, and one that ignores it would execute a repeat.
const PAYPAL: &str = r#"
    base_url = "https://api-m.paypal.com"
    auth = { header = "Authorization", prefix = "Bearer " }
    key = { header = "PayPal-Request-Id" }
    key_len_max = 108
    reused = [{ says = "DUPLICATE_REQUEST_ID" }]
"#;

/// Plaid: a field of the body, up to 50 characters; a second request gets the same object. No window is stated.
const PLAID: &str = r#"
    key = { body = "idempotency_key" }
    key_len_max = 50
"#;

/// resend.com/docs, "Idempotency keys": 256 characters, 24 hours. No window here, as of PayPal: mail takes the key, and
/// other routes are not known to.
const RESEND: &str = r#"
    base_url = "https://api.resend.com"
    auth = { header = "Authorization", prefix = "Bearer " }
    key = { header = "Idempotency-Key" }
    key_len_max = 256
    reused = [{ status = 409, says = "invalid_idempotent_request" }]
    in_progress = [{ status = 409, says = "concurrent_idempotent_requests" }]
"#;

/// developer.squareup.com, "Idempotency": a field of the body, and 45 characters are safe on every endpoint. No window is
/// stated.
const SQUARE: &str = r#"
    base_url = "https://connect.squareup.com"
    auth = { header = "Authorization", prefix = "Bearer " }
    key = { body = "idempotency_key" }
    key_len_max = 45
    reused = [{ says = "IDEMPOTENCY_KEY_REUSED" }]
"#;

impl KeyedConfig {
    /// What is known of a vendor, by its name in small letters: `checkout`, `gocardless`, `increase`, `paypal`, `plaid`,
    /// `resend` or `square`. `None` for any other.
    ///
    /// It holds where the key goes, how long it may be, and what marks its answers. The time for which the vendor replays
    /// it is there only where it holds for every route, at Checkout.com. Else set [`window`](KeyedConfig::window).
    ///
    /// Where [`base_url`](KeyedConfig::base_url) is empty or [`auth`](KeyedConfig::auth) is `None`, set it. Of
    /// Checkout.com, GoCardless, Increase and Plaid neither is known here.
    ///
    /// ```
    /// use steadfast::vendor::{Keyed, KeyedConfig, Vendor};
    ///
    /// let square = KeyedConfig::preset("square").expect("a preset");
    /// Keyed::new(square, "an-access-token").check()?;
    ///
    /// let mut plaid = KeyedConfig::preset("plaid").expect("a preset");
    /// plaid.base_url = "https://sandbox.plaid.com".into();
    /// Keyed::new(plaid, "").check()?;
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    pub fn preset(name: &str) -> Option<KeyedConfig> {
        let (name, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
        let text = format!("{text}\nname = \"{name}\"");
        let mut table: toml::Table = text.parse().ok()?;
        table.entry("base_url").or_insert_with(|| "".into());
        table.try_into().ok()
    }
}

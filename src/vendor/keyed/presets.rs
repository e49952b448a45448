//! Vendors that are nothing but data, and are known: `adapter = "square"` in the vendors file.
//!
//! A preset holds the vendor's documentation of its keys, and its address in production. Undocumented facts are not in
//! here. Without a window an unknown outcome is never sent again. Where the vendor names the routes that take the key,
//! the window is theirs alone. A table's own values count before its preset's.
//!
//! A header with an empty value is one that the table must say, because it differs from account to account.

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

/// checkout.com/docs, "Idempotency", for the routes. 24 hours is the shortest time that it has stated for production (until
/// 2024 it stated two minutes for the sandbox), and only a 2xx is stored. `/transfers` is at a host of its own. Address and token are those of checkout-sdk-python, where an account's own
/// prefix before the host is optional; checkout.com/docs, "API endpoints", recommends it.
const CHECKOUT: &str = r#"
    base_url = "https://api.checkout.com"
    auth = { header = "Authorization", prefix = "Bearer " }
    key = { header = "Cko-Idempotency-Key" }
    window = "24h"
    keyed_routes = [
        "POST /payment-contexts",
        "POST /payments",
        "POST /payments/{id}/authorizations",
        "POST /payments/{id}/cancellations",
        "POST /payments/{id}/captures",
        "POST /payments/{id}/refunds",
        "POST /payments/{id}/voids",
        "POST /transfers",
    ]
"#;

/// GoCardless, "Idempotency keys": a second request gets the first one's object in a 409. No window is stated. Address,
/// token and version are those of gocardless-pro-python; a request without the version is refused.
const GOCARDLESS: &str = r#"
    base_url = "https://api.gocardless.com"
    auth = { header = "Authorization", prefix = "Bearer " }
    headers = { GoCardless-Version = "2015-07-06" }
    key = { header = "Idempotency-Key" }
    duplicate = [{ status = 409, says = "idempotent_creation_conflict" }]
"#;

/// increase.com/documentation/idempotency-keys: up to 200 characters, for all POSTs. A replay is marked, and a conflict names
/// the object that the key has made. No window is stated. Address and token are those of increase-python.
const INCREASE: &str = r#"
    base_url = "https://api.increase.com"
    auth = { header = "Authorization", prefix = "Bearer " }
    key = { header = "Idempotency-Key" }
    key_len_max = 200
    replay = { header = { name = "Idempotent-Replayed", value = "true" } }
    duplicate = [{ status = 409, has = "resource_id" }]
"#;

/// developer.paypal.com, "Idempotency": 108 characters. The routes are those of paypal-rest-api-specifications that have the
/// header `PayPal-Request-Id` and keep a key for 6 hours or more. That is 6 hours for orders, 72 hours for billing and the
/// catalogue, 30 days for `/v1/payments`, 45 days for `/v2/payments`. Left out is what keeps it for 3 hours: `/v3/vault/payment-tokens`,
/// `/v3/vault/setup-tokens` and `/v1/payment-experience/web-profiles`. `PayPal-Auth-Assertion` names the merchant that a
/// partner calls for (developer.paypal.com, "REST requests"). `DUPLICATE_REQUEST_ID` is not known to come for another
/// body alone: the key may have made something in a life that is no longer on record.
const PAYPAL: &str = r#"
    base_url = "https://api-m.paypal.com"
    auth = { header = "Authorization", prefix = "Bearer " }
    key = { header = "PayPal-Request-Id" }
    account_headers = ["PayPal-Auth-Assertion"]
    key_len_max = 108
    window = "6h"
    keyed_routes = [
        "POST /v1/billing/plans",
        "POST /v1/billing/subscriptions",
        "POST /v1/billing/subscriptions/{id}/capture",
        "POST /v1/catalogs/products",
        "POST /v1/checkout/orders/{id}/pay",
        "POST /v1/payments/authorization/{id}/void",
        "POST /v1/payments/capture/{id}/refund",
        "POST /v1/payments/orders/{id}/do-void",
        "POST /v1/payments/payment/{id}/execute",
        "POST /v1/payments/payouts",
        "POST /v1/payments/sale/{id}/refund",
        "POST /v2/checkout/orders",
        "POST /v2/checkout/orders/{id}/authorize",
        "POST /v2/checkout/orders/{id}/capture",
        "POST /v2/payments/authorizations/{id}/capture",
        "POST /v2/payments/authorizations/{id}/reauthorize",
        "POST /v2/payments/captures/{id}/refund",
    ]
    duplicate = [{ says = "DUPLICATE_REQUEST_ID" }]
"#;

/// Plaid: a field of the body, up to 50 characters; a second request gets the same object. Most routes state no window, so
/// none is here. Address, headers and the routes whose request has the field are those of plaid-python. The others, reads
/// among them, are POSTs too.
const PLAID: &str = r#"
    base_url = "https://production.plaid.com"
    auth = { header = "PLAID-SECRET" }
    headers = { PLAID-CLIENT-ID = "" }
    account_headers = ["PLAID-CLIENT-ID"]
    key = { body = "idempotency_key" }
    key_len_max = 50
    keyed_routes = [
        "POST /bank_transfer/create",
        "POST /payment_initiation/consent/payment/execute",
        "POST /payment_initiation/payment/reverse",
        "POST /processor/bank_transfer/create",
        "POST /transfer/authorization/create",
        "POST /transfer/create",
        "POST /transfer/ledger/deposit",
        "POST /transfer/ledger/distribute",
        "POST /transfer/ledger/withdraw",
        "POST /transfer/recurring/create",
        "POST /transfer/refund/create",
        "POST /transfer/return/recover",
        "POST /wallet/transaction/execute",
    ]
"#;

/// resend.com/docs, "Idempotency keys": 256 characters, 24 hours, on these two routes.
const RESEND: &str = r#"
    base_url = "https://api.resend.com"
    auth = { header = "Authorization", prefix = "Bearer " }
    key = { header = "Idempotency-Key" }
    key_len_max = 256
    window = "24h"
    keyed_routes = ["POST /emails", "POST /emails/batch"]
    reused = [{ status = 409, says = "invalid_idempotent_request" }]
    in_progress = [{ status = 409, says = "concurrent_idempotent_requests" }]
"#;

/// developer.squareup.com, "Idempotency": a field of the body, and 45 characters are safe on every endpoint. No window is
/// stated. The routes are those of square-python-sdk 45.1.0.20260819 whose request has the field for a key of its own: on
/// others it is a field that Square does not know. Two are left out: `POST /v2/payments/cancel`, where the field names
/// another payment's key, and `PUT /v2/vendors/{id}`, which `/v2/vendors/bulk-update` would be too.
const SQUARE: &str = r#"
    base_url = "https://connect.squareup.com"
    auth = { header = "Authorization", prefix = "Bearer " }
    key = { body = "idempotency_key" }
    key_len_max = 45
    keyed_routes = [
        "POST /v2/bank-accounts",
        "POST /v2/bookings",
        "POST /v2/bookings/custom-attribute-definitions",
        "POST /v2/bookings/{id}/cancel",
        "POST /v2/cards",
        "POST /v2/catalog/batch-upsert",
        "POST /v2/catalog/object",
        "POST /v2/customers",
        "POST /v2/customers/custom-attribute-definitions",
        "POST /v2/customers/groups",
        "POST /v2/customers/{id}/custom-attributes/{key}",
        "POST /v2/devices/codes",
        "POST /v2/disputes/{id}/evidence-text",
        "POST /v2/gift-cards",
        "POST /v2/gift-cards/activities",
        "POST /v2/inventory/adjustment-reasons/create",
        "POST /v2/inventory/batch-change",
        "POST /v2/inventory/changes/batch-create",
        "POST /v2/invoices",
        "POST /v2/invoices/{id}/publish",
        "POST /v2/labor/break-types",
        "POST /v2/labor/scheduled-shifts",
        "POST /v2/labor/scheduled-shifts/{id}/publish",
        "POST /v2/labor/shifts",
        "POST /v2/labor/timecards",
        "POST /v2/locations/custom-attribute-definitions",
        "POST /v2/locations/{id}/checkouts",
        "POST /v2/locations/{id}/custom-attributes/{key}",
        "POST /v2/loyalty/accounts",
        "POST /v2/loyalty/accounts/{id}/accumulate",
        "POST /v2/loyalty/accounts/{id}/adjust",
        "POST /v2/loyalty/programs/{id}/promotions",
        "POST /v2/loyalty/rewards",
        "POST /v2/loyalty/rewards/{id}/redeem",
        "POST /v2/merchants/custom-attribute-definitions",
        "POST /v2/merchants/{id}/custom-attributes/{key}",
        "POST /v2/online-checkout/payment-links",
        "POST /v2/orders",
        "POST /v2/orders/clone",
        "POST /v2/orders/custom-attribute-definitions",
        "POST /v2/orders/{id}/custom-attributes/{key}",
        "POST /v2/orders/{id}/pay",
        "POST /v2/payments",
        "POST /v2/refunds",
        "POST /v2/subscriptions",
        "POST /v2/team-members",
        "POST /v2/team-members/jobs",
        "POST /v2/terminals/actions",
        "POST /v2/terminals/checkouts",
        "POST /v2/terminals/refunds",
        "POST /v2/transfer-orders",
        "POST /v2/transfer-orders/{id}/cancel",
        "POST /v2/transfer-orders/{id}/receive",
        "POST /v2/transfer-orders/{id}/start",
        "POST /v2/vendors/create",
        "POST /v2/webhooks/subscriptions",
        "POST /v2/webhooks/subscriptions/{id}/signature-key",
        "PUT /v2/bookings/custom-attribute-definitions/{key}",
        "PUT /v2/bookings/{id}",
        "PUT /v2/bookings/{id}/custom-attributes/{key}",
        "PUT /v2/customers/custom-attribute-definitions/{key}",
        "PUT /v2/inventory/adjustments/update",
        "PUT /v2/invoices/{id}",
        "PUT /v2/locations/custom-attribute-definitions/{key}",
        "PUT /v2/merchants/custom-attribute-definitions/{key}",
        "PUT /v2/orders/custom-attribute-definitions/{key}",
        "PUT /v2/orders/{id}",
        "PUT /v2/payments/{id}",
        "PUT /v2/transfer-orders/{id}",
    ]
    reused = [{ says = "IDEMPOTENCY_KEY_REUSED" }]
"#;

impl KeyedConfig {
    /// Returns the preset of a vendor, by its name in small letters: `checkout`, `gocardless`, `increase`, `paypal`,
    /// `plaid`, `resend` or `square`. `None` for any other.
    ///
    /// It holds the vendor's address in production, how the secret is sent, where the key goes, how long it may be, and
    /// the marks of its answers. Checkout.com, PayPal and Resend state for how long they replay it and on which routes.
    /// The others state no time: set [`window`](KeyedConfig::window) if your agreement with them does.
    ///
    /// For Plaid, set the value of `PLAID-CLIENT-ID` in [`headers`](KeyedConfig::headers).
    ///
    /// ```
    /// use steadfast::vendor::{Keyed, KeyedConfig, Vendor};
    ///
    /// let square = KeyedConfig::preset("square").expect("a preset");
    /// Keyed::new(square, "an-access-token").check()?;
    ///
    /// let mut plaid = KeyedConfig::preset("plaid").expect("a preset");
    /// plaid.base_url = "https://sandbox.plaid.com".into();
    /// plaid.headers.insert("PLAID-CLIENT-ID".into(), "5f1a".into());
    /// Keyed::new(plaid, "a-secret").check()?;
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    pub fn preset(name: &str) -> Option<KeyedConfig> {
        let (name, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
        toml::from_str(&format!("{text}\nname = \"{name}\"")).ok()
    }
}

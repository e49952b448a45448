//! Accounts that are held because the vendor refuses their credentials.

use tracing::{info, warn};

/// The account's operations wait from now on.
pub(crate) fn held(vendor: &str, account: &str) {
    warn!(
        steadfast.vendor = vendor,
        steadfast.account = account,
        "the account is held, because the vendor refuses its credentials"
    );
    gauge(vendor, account, 1.0);
}

/// The vendor accepts them again.
pub(crate) fn released(vendor: &str, account: &str) {
    info!(steadfast.vendor = vendor, steadfast.account = account, "the account is no longer held");
    gauge(vendor, account, 0.0);
}

#[cfg(feature = "metrics")]
fn gauge(vendor: &str, account: &str, value: f64) {
    metrics::gauge!(HELD, "vendor" => vendor.to_owned(), "account" => account.to_owned()).set(value);
}

#[cfg(not(feature = "metrics"))]
fn gauge(_: &str, _: &str, _: f64) {}

/// 1 while the account is held.
#[cfg(feature = "metrics")]
pub(super) const HELD: &str = "steadfast_account_held";

//! What several processes do together.

use tracing::debug;

/// So many dispatchers share an account's recovery from now on.
pub(crate) fn shared(vendor: &str, account: &str, dispatchers: u32) {
    debug!(
        steadfast.vendor = vendor,
        steadfast.account = account,
        steadfast.dispatchers = dispatchers,
        "recovery is shared"
    );
}

//! Events of several processes that recover together.

use tracing::{debug, warn};

/// Reports the number of dispatchers that share an account's recovery from now on.
pub(crate) fn shared(vendor: &str, account: &str, dispatchers: u32) {
    debug!(
        steadfast.vendor = vendor,
        steadfast.account = account,
        steadfast.dispatchers = dispatchers,
        "recovery is shared"
    );
}

/// A dispatcher of a store without `Delivery` has started.
pub(crate) fn undivided(store: &str) {
    warn!(
        steadfast.store = store,
        "the store has no delivery: each process takes to find out what is due, and shares no rate with the others"
    );
}

//! Events of the breaker.

use std::time::Duration;

/// Change of state, to be reported once the lock is free: a subscriber may call back.
pub(super) enum Change {
    Opened { why: &'static str, open: Duration },
    HalfOpened,
    Closed,
}

impl Change {
    #[allow(clippy::needless_pass_by_value, reason = "an event is said once")]
    pub(super) fn log(change: Option<Change>, vendor: &str, route: Option<&str>) {
        match change {
            None => {}
            Some(Change::Opened { why, open }) => {
                tracing::warn!(
                    steadfast.vendor = vendor,
                    steadfast.route = route,
                    why,
                    open_ms = u64::try_from(open.as_millis()).unwrap_or(u64::MAX),
                    "circuit opened"
                );
            }
            Some(Change::HalfOpened) => {
                tracing::info!(steadfast.vendor = vendor, steadfast.route = route, "circuit half-open");
            }
            Some(Change::Closed) => {
                tracing::info!(steadfast.vendor = vendor, steadfast.route = route, "circuit closed");
            }
        }
    }
}

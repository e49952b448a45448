//! The event of a panic that was caught: in a store, an adapter or a transport that the service brought.

use std::any::Any;

use tracing::error;

use steadfast_core::internal::panic_text;

/// Recovery caught a panic while it was `doing` something, and goes on.
pub(crate) fn recovery_panicked(vendor: &str, doing: &str, panic: &(dyn Any + Send)) {
    error!(
        steadfast.vendor = vendor,
        steadfast.doing = doing,
        steadfast.cause = panic_text(panic),
        "recovery panicked, and goes on"
    );
}

//! What is said of a panic that was caught: in a store, an adapter or a transport that the service brought.

use std::any::Any;

use tracing::error;

/// Recovery caught a panic while it was `doing` something, and goes on.
pub(crate) fn recovery_panicked(vendor: &str, doing: &str, panic: &(dyn Any + Send)) {
    error!(
        steadfast.vendor = vendor,
        steadfast.doing = doing,
        steadfast.cause = words(panic),
        "recovery panicked, and goes on"
    );
}

/// What a panic said.
pub(crate) fn words(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => words,
        (_, Some(words)) => words,
        _ => "a panic without words",
    }
}

//! Events of a streamed reply after its call.

use tracing::warn;

use super::Whose;

/// The body of a streamed reply ended before it was whole.
pub(crate) fn broke_off(whose: Whose<'_>, bytes: u64, code: &'static str) {
    event!(warn, whose, "a streamed reply broke off", { steadfast.bytes = bytes, error.type = code, });
}

//! Events of calls that are enqueued, and of rows in the outbox.

use tracing::{debug, warn};

use steadfast_core::Error;
use steadfast_core::internal::error::Chain;

use super::{Whose, count};

/// An operation is on record, and nothing is sent: `is_new` if it was not before.
pub(crate) fn enqueued(whose: Whose<'_>, is_new: bool) {
    event!(debug, whose, "enqueued", { steadfast.new = is_new, });
}

/// A call is written in the caller's transaction; whether that commits is not known yet.
pub(crate) fn put_in_outbox(whose: Whose<'_>) {
    event!(debug, whose, "put in the outbox", {});
}

/// A row of the outbox cannot become an operation, and is kept aside.
pub(crate) fn rejected(vendor: &str, number: u64, error: &Error) {
    warn!(
        steadfast.vendor = vendor,
        steadfast.number = number,
        steadfast.key = error.key(),
        error.type = error.code(),
        steadfast.cause = %Chain(error),
        "rejected by the outbox"
    );
    count(REJECTIONS, vendor, "code", error.code());
    // Whoever is paged for dead letters is to hear of this: it waits for a person too.
    count(super::DEAD_LETTERS, vendor, "reason", super::REJECTED_ROW);
}

/// Rows of the outbox that cannot become operations, by `code`.
pub(super) const REJECTIONS: &str = "steadfast_outbox_rejections_total";

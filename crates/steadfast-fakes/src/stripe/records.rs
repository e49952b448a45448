//! The record that Stripe keeps under a key: an [`Answer`] in v1, the id of what was made or changed in v2.

use std::time::Duration;

use steadfast_core::clock::Timestamp;

use super::super::fixture::Reply;
use super::super::records::Record;
use super::machine::Write;

/// An answer of v1's, and the id of the request that it was first given to.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) reply: Reply,
    pub(super) request_id: String,
}

impl Record<Answer> {
    pub(super) fn new(
        write: &Write<'_>,
        params: String,
        reply: &Reply,
        now: Timestamp,
        busy_until: Timestamp,
    ) -> Self {
        let mut reply = reply.clone();
        // A plain 200 carries the header on its first answer only; a replayed 500 keeps it, which is how an
        // SDK learns that it will never change (the fixtures `create_ok_replayed` and `stored_500`).
        if reply.status == 200 {
            reply.headers.retain(|(name, _)| name != "Stripe-Should-Retry");
        }
        Record {
            endpoint: write.path.to_owned(),
            params,
            kept: Answer { reply, request_id: write.request_id.to_owned() },
            busy_until,
            free_from: now.plus(TTL),
        }
    }
}

/// "Keys can be removed after they're at least 24 hours old" (<https://docs.stripe.com/api/idempotent_requests>).
/// The fake removes them at that age exactly: the earliest that a client must be ready for.
const TTL: Duration = Duration::from_secs(24 * 3600);

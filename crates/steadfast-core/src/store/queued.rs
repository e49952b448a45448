//! Rows of an outbox, as operators are shown them.

use serde::{Serialize, Serializer};
use serde_json::json;

use crate::clock::Timestamp;
use crate::operation::OperationId;

/// Counts of an account's rows in the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxTally {
    /// The client's namespace.
    pub namespace: String,
    /// The adapter's name.
    pub vendor: String,
    /// The adapter's account.
    pub account: String,
    /// Rows that no dispatcher has admitted yet.
    pub waiting: u64,
    /// Time at which the oldest of those was written. If it is long ago, no dispatcher has a client of this account.
    pub oldest: Option<Timestamp>,
    /// Rows that were rejected.
    pub rejected: u64,
}

/// Row of the outbox, as a query by its key shows it: a call that no dispatcher has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queued {
    /// Its place in the outbox.
    pub number: u64,
    /// The name of its operation, by the account and the path as they are written. An adapter may name it otherwise.
    pub id: OperationId,
    /// Time at which it was written.
    pub enqueued_at: Timestamp,
    /// Earliest time to send; `None` is at once.
    pub due: Option<Timestamp>,
    /// The sequence that it is enqueued into.
    pub sequence: Option<String>,
    /// Reason of its rejection. `None` while it waits.
    pub rejected: Option<String>,
}

/// A row that was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its place in the outbox.
    pub number: u64,
    /// The client's namespace.
    pub namespace: String,
    /// The adapter's name.
    pub vendor: String,
    /// The adapter's account.
    pub account: String,
    /// The method.
    pub method: String,
    /// The key as it was written.
    pub key: String,
    /// Time of the rejection.
    pub at: Timestamp,
    /// Reason of the rejection. Never a header's value, a query or a body.
    pub why: String,
    /// The sequence that it holds: the rows behind it wait until it is mended or deleted.
    pub holds: Option<String>,
}

impl Serialize for Rejected {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self;
        json!({
            "number": row.number, "namespace": row.namespace, "vendor": row.vendor, "account": row.account,
            "method": row.method, "key": row.key, "at_ms": row.at.as_millis(), "why": row.why,
            "holds_sequence": row.holds,
        })
        .serialize(serializer)
    }
}

impl Queued {
    /// A row that waits, is due at once and is in no sequence. Set the fields that it has beside these.
    pub fn new(number: u64, id: OperationId, enqueued_at: Timestamp) -> Queued {
        Queued { number, id, enqueued_at, due: None, sequence: None, rejected: None }
    }
}

impl Serialize for Queued {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self;
        json!({
            "number": row.number, "scope": row.id.scope.as_str(), "key": row.id.key.as_str(),
            "enqueued_at_ms": row.enqueued_at.as_millis(), "due_ms": row.due.map(Timestamp::as_millis),
            "sequence": row.sequence, "rejected": row.rejected,
        })
        .serialize(serializer)
    }
}

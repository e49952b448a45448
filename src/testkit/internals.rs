//! What the crate's own tests and benches drive. The run-time state of policies. The rule that says whether an operation
//! may be sent again. What only the stores of this crate can do besides [`Store`](crate::store::Store).
//!
//! No part of the interface: it changes without notice. Service code has no use for it.

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::NotesExt;
use steadfast_core::operation::record::{self, Claim, Claimed, Notes, Record};

use crate::client::Client;

pub use steadfast_core::internal::operation::{
    Facts, LookUp, Repeat, Ruling, Sent, Why, Window, may_send, slack, window,
};
pub use steadfast_core::internal::policy::{
    Admission, Breaker, Budget, Gates, Outcome, Pause, Permit, Rate, Recovery, Refusal,
};
pub use steadfast_core::internal::random::SystemRandom;
pub use steadfast_core::internal::store::{
    Account, Backlog, Beat, Delivery, Facts as PlaceFacts, Head, Heartbeat, Look, Maintenance, Noted, Outbox,
    OutboxRow, Peer, Place, Queue, Reseal, ResealedBatch, Restore, Row, Sealing, Sight, Stage, Standing,
    Statement, Version, Waiting, Wakes,
};
pub use steadfast_core::internal::testkit::spare;

/// The gates of a client. Their times are those of its clock.
pub fn gates(client: &Client) -> &Gates {
    &client.engine.gates
}

/// What the claim of a row that was written at `written` comes to, where this is on record and the store believes
/// `believed`. It is the rule of [`Outbox::admit`], for an outbox of a test's own.
pub fn claimed_by_row(held: &Record, claim: Claim, written: Timestamp, believed: Timestamp) -> Claimed {
    let notes = Notes { believed: Some(believed), ..Notes::default() };
    record::claim(Some(held), claim, &notes.of_row(written)).1
}

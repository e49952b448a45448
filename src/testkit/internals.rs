//! What the crate's own tests and benches drive. The run-time state of policies. The rule that says whether an operation
//! may be sent again. What only the stores of this crate can do besides [`Store`](crate::store::Store).
//!
//! No part of the interface: it changes without notice. Service code has no use for it.

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::NotesExt;
use steadfast_core::operation::record;
use steadfast_core::operation::record::{Claim, Claimed, Notes, Record};

use crate::client::Client;

pub use steadfast_core::internal::operation::Facts;
pub use steadfast_core::internal::operation::LookUp;
pub use steadfast_core::internal::operation::Repeat;
pub use steadfast_core::internal::operation::Ruling;
pub use steadfast_core::internal::operation::Sent;
pub use steadfast_core::internal::operation::Why;
pub use steadfast_core::internal::operation::Window;
pub use steadfast_core::internal::operation::may_send;
pub use steadfast_core::internal::operation::slack;
pub use steadfast_core::internal::operation::window;
pub use steadfast_core::internal::policy::Admission;
pub use steadfast_core::internal::policy::Breaker;
pub use steadfast_core::internal::policy::Budget;
pub use steadfast_core::internal::policy::Gates;
pub use steadfast_core::internal::policy::Outcome;
pub use steadfast_core::internal::policy::Pause;
pub use steadfast_core::internal::policy::Permit;
pub use steadfast_core::internal::policy::Rate;
pub use steadfast_core::internal::policy::Recovery;
pub use steadfast_core::internal::policy::Refusal;
pub use steadfast_core::internal::random::SystemRandom;
pub use steadfast_core::internal::store::Account;
pub use steadfast_core::internal::store::Backlog;
pub use steadfast_core::internal::store::Beat;
pub use steadfast_core::internal::store::Facts as PlaceFacts;
pub use steadfast_core::internal::store::Head;
pub use steadfast_core::internal::store::Heartbeat;
pub use steadfast_core::internal::store::Look;
pub use steadfast_core::internal::store::Noted;
pub use steadfast_core::internal::store::Outbox;
pub use steadfast_core::internal::store::OutboxRow;
pub use steadfast_core::internal::store::Peer;
pub use steadfast_core::internal::store::Place;
pub use steadfast_core::internal::store::Queue;
pub use steadfast_core::internal::store::Reseal;
pub use steadfast_core::internal::store::ResealedBatch;
pub use steadfast_core::internal::store::Restore;
pub use steadfast_core::internal::store::Row;
pub use steadfast_core::internal::store::Sight;
pub use steadfast_core::internal::store::Stage;
pub use steadfast_core::internal::store::Standing;
pub use steadfast_core::internal::store::Statement;
pub use steadfast_core::internal::store::Upkeep;
pub use steadfast_core::internal::store::Waiting;
pub use steadfast_core::internal::store::Wakes;
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

//! What the crate's own tests and benches drive. The run-time state of policies. The rule that says whether an operation
//! may be sent again. What only the stores of this crate can do besides [`Store`](crate::store::Store).
//!
//! No part of the interface: it changes without notice. Service code has no use for it.

use crate::client::Client;
use crate::clock::Timestamp;
use crate::operation::record::{self, Claim, Claimed, Notes, Record};
use crate::store::Memory;

pub use crate::operation::record::resend::{
    Facts, LookUp, Repeat, Ruling, Sent, Why, Window, may_send, slack, window,
};
pub use crate::policy::breaker::{Breaker, Permit};
pub use crate::policy::budget::Budget;
pub use crate::policy::gates::{Admission, Gates, Outcome, Refusal};
pub use crate::policy::pause::Pause;
pub use crate::policy::rate::Rate;
pub use crate::policy::recovery::Recovery;
pub use crate::random::SystemRandom;
pub use crate::store::backlog::{Backlog, Queue};
pub use crate::store::heartbeat::{Beat, Heartbeat, Peer};
pub use crate::store::look::{Look, Sight, Waiting};
pub use crate::store::outbox::{Account, Outbox, OutboxRow, Statement};
pub use crate::store::place::{Facts as PlaceFacts, Noted, Place};
pub use crate::store::standing::{Stage, Standing};
pub use crate::store::upkeep::{Head, Reseal, ResealedBatch, Restore, Row, Upkeep};
pub use crate::store::wakes::Wakes;

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

/// Tells a store in memory that an outbox of a test's own has `rows` more of this key. A purge spares its record.
pub fn spare(memory: &Memory, key: &str, rows: i64) {
    memory.spare(key, rows);
}

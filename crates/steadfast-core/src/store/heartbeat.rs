//! Heartbeats, by which the dispatchers of one store know of each other: each says now and then that it is there, and
//! how it does.
//!
//! A store does not interpret what they say. It keeps the last heartbeat of each for as long as that is to last, and
//! gives it to the others with its age. So no process's clock is compared with another's.

use std::time::Duration;

use crate::clock::Timestamp;

/// What the dispatchers of one process tell those of others, in [`Delivery::heartbeat`](super::delivery::Delivery::heartbeat).
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// As [`Claim::now`](crate::operation::record::Claim::now).
    pub now: Timestamp,
    /// How long it is kept: a process that says nothing for longer has gone. What was said by a clock that is ahead
    /// by more says nothing of its age, and is forgotten.
    pub lasts: Duration,
    /// One for each account that is delivered for.
    pub beats: Vec<Beat>,
}

/// What one dispatcher says about one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// As [`Takeover::account`](crate::operation::record::Takeover::account) names it.
    pub account: String,
    /// The dispatcher's name. No two in any process have the same.
    pub dispatcher: String,
    /// A short text; `None` from one that delivers for this account no more, and is forgotten at once.
    pub says: Option<String>,
}

/// A dispatcher, another one or this one: its last heartbeat about one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// As [`Beat::account`].
    pub account: String,
    /// As [`Beat::dispatcher`].
    pub dispatcher: String,
    /// As [`Beat::says`].
    pub says: String,
    /// How long ago it said so, by the store's clock.
    pub ago: Duration,
}

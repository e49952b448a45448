//! Heartbeats, by which the dispatchers of one store know of each other: each says now and then that it is there, and
//! how it does.
//!
//! A store does not interpret what they say. It keeps the last heartbeat of each for as long as that is to last, and
//! gives it to the others with its age. So no process's clock is compared with another's.

use std::time::Duration;

use crate::clock::Timestamp;

/// Heartbeat of the dispatchers of one process, for those of others, in
/// [`Delivery::heartbeat`](super::delivery::Delivery::heartbeat).
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// Time in the store, as for [`Claim::now`](crate::operation::record::Claim::now).
    pub now: Timestamp,
    /// Time for which it is kept: a process without a heartbeat for longer has gone. A heartbeat by a clock that is
    /// ahead by more shows nothing of its age, and is forgotten.
    pub lasts: Duration,
    /// One beat for each account that is delivered for.
    pub beats: Vec<Beat>,
}

/// Heartbeat of one dispatcher for one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The account, named as [`Takeover::account`](crate::operation::record::Takeover::account) names it.
    pub account: String,
    /// The dispatcher's name. No two in any process have the same.
    pub dispatcher: String,
    /// A short text; `None` from one that delivers for this account no more, and is forgotten at once.
    pub says: Option<String>,
}

/// A dispatcher, another one or this one: its last heartbeat about one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The account, as in [`Beat::account`].
    pub account: String,
    /// The dispatcher's name, as in [`Beat::dispatcher`].
    pub dispatcher: String,
    /// Its text, as in [`Beat::says`].
    pub says: String,
    /// Age of the heartbeat, by the store's clock.
    pub ago: Duration,
}

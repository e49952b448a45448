//! Taking operations that nobody holds any more: a sweeper's work after a crash, a dispatcher's on a schedule.
//!
//! One question for both and not two: what differs is the state that is looked for and what the state says of
//! the effect. A taker names the account that it can carry on with, because several clients may share a store.

use std::time::Duration;

use super::{Record, State};
use crate::clock::Timestamp;
use crate::error::Effect;

/// What to take, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    /// Which operations.
    pub what: Left,
    /// Only those that this account [reaches](crate::operation::Scope::is_reached_by): another account's
    /// secret would send them elsewhere. `None` for any.
    pub account: Option<String>,
    /// The taker's wall time.
    pub now: Timestamp,
    /// How long the taker may hold each before somebody else may take it.
    pub lease: Duration,
    /// At most so many, those that have waited longest first.
    pub limit: usize,
}

/// How an operation came to be held by nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// In progress, its lease run out: the holder died or is too slow. Its effect is unknown from here on.
    Lapsed,
    /// Scheduled, and due.
    Due,
}

impl Record {
    /// The record as the taker holds it, its fence moved by one; `None` if it is not what `take` asks for.
    pub fn take(&self, take: &Take) -> Option<Record> {
        if take.account.as_deref().is_some_and(|account| !self.id.scope.is_reached_by(account)) {
            return None;
        }
        let effect = match (take.what, &self.state) {
            (Left::Lapsed, State::InProgress { lease_until }) if *lease_until <= take.now => Effect::Unknown,
            (Left::Due, State::Scheduled { at }) if *at <= take.now => self.effect,
            _ => return None,
        };
        Some(self.taken(take.now, take.lease, effect))
    }
}

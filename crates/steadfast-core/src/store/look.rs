//! The question of an idle dispatcher to its store: one for all of its accounts.

use super::outbox::Account;
use crate::clock::Timestamp;

/// Question of a dispatcher to its store, in [`Delivery::look`](super::delivery::Delivery::look).
#[derive(Clone, Debug)]
pub struct Look {
    /// Time in the store, as for [`Claim::now`](crate::operation::record::Claim::now).
    pub now: Timestamp,
    /// The end of the look: the dispatcher looks again before anything later is due.
    pub until: Timestamp,
    /// The accounts that it delivers for, as [`Takeover::account`](crate::operation::record::Takeover::account) names one.
    pub accounts: Vec<String>,
    /// The same accounts as [`Outbox::have_rows`](super::outbox::Outbox::have_rows) names them, in the same order;
    /// empty if the store has no outbox, or the asker does not need it.
    pub outbox: Vec<Account>,
}

impl Look {
    /// Moves the look's times to `now`, the store's own clock, as
    /// [`Takeover::rebased`](crate::operation::record::Takeover::rebased) does.
    #[must_use]
    pub fn rebased(self, now: Timestamp) -> Look {
        let until = now.plus(self.until.since(self.now));
        Look { now, until, ..self }
    }
}

/// Pending work: the answer to a [`Look`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Pending work of each account that was asked for, in that order.
    pub waiting: Vec<Waiting>,
    /// Whether there is a record whose time is over, for [`Store::purge`](crate::store::Store::purge).
    pub expired: bool,
    /// Answer of [`Outbox::have_rows`](super::outbox::Outbox::have_rows) to [`Look::outbox`], by a store that finds it
    /// in the same question. `None` if it has to be asked there.
    pub rows: Option<Vec<bool>>,
}

/// Pending work of an account's dispatcher. It may be more than there is, and never less: the dispatcher then takes
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The earliest time at which something scheduled is due, if that is no later than [`Look::until`].
    pub due: Option<Timestamp>,
    /// Whether a lease has run out.
    pub lapsed: bool,
}

/// Number of latest-expiring leases and schedules that a take and a look also check for clock errors.
pub const FAR_MAX: usize = 16;

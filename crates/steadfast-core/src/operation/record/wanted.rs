//! [`Wanted`]: what a taker wants of what is due, and which of it first.
//!
//! Nearly always everything, the longest waiting first. While a circuit is open or an account is held, what could not be
//! sent is left where it is. It would fill each take, and what can be sent would wait behind it.

use easy_ext::ext;

use super::Record;
use crate::clock::Timestamp;
use crate::operation::{RouteName, Scope};

/// Selection of a taker among the operations that are due. Default: all, those that have waited longest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Parts, of all of which the operation is.
    pub only: Vec<Part>,
    /// Parts, of none of which the operation is.
    pub without: Vec<Part>,
    /// Selects operations that were held before (`true`) or that were not (`false`); `None` for both.
    pub tried: Option<bool>,
    /// Latest time of the first claim and, if no process has held the operation, of the due time; `None` for no limit.
    pub waiting_since: Option<Timestamp>,
    /// True to take those first that are due the shortest time.
    pub newest: bool,
}

/// Operations that have something in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// [Path](Scope::account_path) of the account.
    Account(String),
    /// Name of the route, at any account.
    Route(RouteName),
}

/// Properties that decide whether a scheduled operation is wanted.
pub struct Waits<'a> {
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub scope: &'a Scope,
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub tried: bool,
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub claimed_at: Timestamp,
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub due: Timestamp,
}

impl Wanted {
    /// Whether that is everything, in the usual order.
    pub fn is_all(&self) -> bool {
        *self == Wanted::default()
    }
}

/// Methods that only the crates of this workspace call.
#[ext(WantedExt)]
impl Wanted {
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn has(&self, waits: &Waits<'_>) -> bool {
        let since = |since: Timestamp| waits.claimed_at <= since && (waits.tried || waits.due <= since);
        self.tried.is_none_or(|tried| tried == waits.tried)
            && self.waiting_since.is_none_or(since)
            && self.only.iter().all(|part| part.has(waits.scope))
            && !self.without.iter().any(|part| part.has(waits.scope))
    }
}

impl Part {
    fn has(&self, scope: &Scope) -> bool {
        match self {
            Part::Account(path) => scope.account_path() == path,
            Part::Route(name) => name.is_of(scope.route()),
        }
    }
}

impl Record {
    /// Whether a process has held it in this life.
    pub(crate) fn is_tried(&self) -> bool {
        self.fence != self.first_fence || self.attempts > 0
    }

    pub(crate) fn waits(&self, due: Timestamp) -> Waits<'_> {
        Waits { scope: &self.id.scope, tried: self.is_tried(), claimed_at: self.claimed_at, due }
    }
}

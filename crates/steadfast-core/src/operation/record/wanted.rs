//! [`Wanted`]: what a taker wants of what is due, and which of it first.
//!
//! Nearly always everything, the longest waiting first. While a circuit is open or an account is held, what could not be
//! sent is left where it is. It would fill each take, and what can be sent would wait behind it.

use easy_ext::ext;

use super::Record;
use crate::clock::Timestamp;
use crate::operation::{RouteName, Scope};

/// Which of the operations that are due a taker wants. Default: all, those that have waited longest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only those of all of these.
    pub only: Vec<Part>,
    /// None of any of these.
    pub without: Vec<Part>,
    /// Only those that were held before, or only those that were not.
    pub tried: Option<bool>,
    /// Only those that were first claimed by then and, if no process has held them, were due by then.
    pub waiting_since: Option<Timestamp>,
    /// Those that are due the shortest time first.
    pub newest: bool,
}

/// Operations that have something in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Of the account with this [path](Scope::account_path).
    Account(String),
    /// Of the route with this name, at any account.
    Route(RouteName),
}

/// What decides whether an operation that is scheduled is wanted.
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

/// What this workspace alone asks of it.
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

//! A client whose terms for an account differ from those in the store.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::{Error, Input};

/// Why this client's terms are not those in the store, once that was asked.
#[derive(Debug, Default)]
pub(crate) struct Disagreement {
    /// So that a call takes no lock.
    is_there: AtomicBool,
    problem: Mutex<String>,
    /// The store was asked, and could not answer.
    pub(super) is_unanswered: AtomicBool,
    /// The store has answered.
    pub(super) is_answered: AtomicBool,
}

impl Disagreement {
    pub(super) fn note(&self, problem: Option<&str>) {
        *self.problem.lock() = problem.unwrap_or_default().to_owned();
        self.is_there.store(problem.is_some(), Ordering::Release);
    }

    /// Refuses a keyed call of a client whose terms differ.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.is_there.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(refused(&self.problem.lock()))
    }
}

/// The error of a client whose terms differ.
pub(super) fn refused(problem: &str) -> Error {
    Error::invalid(Input::Terms, problem)
}

//! [`StoreError`]: the error of a store that could not do what it was asked.

use std::error::Error as StdError;
use std::fmt;

use easy_ext::ext;

use crate::error::BoxError;
use crate::guard::Guard;

/// A store that could not do what it was asked.
///
/// ```
/// use steadfast::store::{StoreError, StoreErrorKind};
///
/// /// Whether it is worth coming back, as an operator's tool sees it.
/// fn is_worth_a_retry(error: &StoreError) -> bool {
///     matches!(error.kind(), StoreErrorKind::Locked | StoreErrorKind::Full)
/// }
///
/// let full = StoreError::new("no space left on the device").of_kind(StoreErrorKind::Full);
/// assert!(is_worth_a_retry(&full));
/// ```
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    problem: String,
    source: Option<BoxError>,
}

/// Kind of a store's failure, as far as its operator can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Another process holds the store for longer than it waits. Try again.
    Locked,
    /// The store may not be written.
    ReadOnly,
    /// The store does not exist where one was to be, and none was made.
    Absent,
    /// The store has no room left. Nothing was written.
    Full,
    /// A stored value cannot be read as the value that was written.
    Corrupt,
    /// The store belongs to another program. It was not touched.
    Foreign,
    /// A newer release of this crate wrote it. It was not touched.
    Newer,
    /// The store, or the record in question, is sealed with a key that was not given, or this build cannot unseal
    /// (feature `seal`). It was not touched.
    Sealed,
    /// Its file was deleted or replaced while it was open. Nothing is written any more.
    Replaced,
    /// Its records are being copied, or were copied to another store. Nothing was written.
    Closed,
    /// The store was opened at another place than its records are from: it may be a copy, whose original sends the
    /// same. Nothing was written. `steadfast here` shows which it is.
    Displaced,
    /// The store's own work has stopped; it must be opened again.
    Stopped,
    /// The caller's input: a cursor of another store, or what this store does not keep.
    Invalid,
    /// The server cannot be reached, or takes no connections yet. Nothing was written.
    Unreachable,
    /// The connection broke before the answer came. The request may be on record, or may not.
    Lost,
    /// No connection was free in time, or the server has none left. Nothing was written. Try again.
    Busy,
    /// The server refused the user: a wrong password, or a role without the right. Nothing was written.
    Denied,
    /// The server is not known to be the right one: it has no TLS, or not the certificate that was asked for. Nothing
    /// was sent to it, and nothing was written.
    Untrusted,
    /// A statement took longer than it may, and was undone. Nothing was written. Try again.
    TimedOut,
    /// An older release of this crate made the schema, and it was not brought up to date. It was not touched.
    Older,
    /// The server cannot do what this crate needs: it is too old. Nothing was written.
    Unsupported,
    /// Anything else.
    Other,
}

impl StoreError {
    /// A failure, described for an operator.
    pub fn new(problem: impl Into<String>) -> StoreError {
        StoreError { kind: StoreErrorKind::Other, problem: problem.into(), source: None }
    }

    /// A failure with its cause.
    pub fn with_source(
        problem: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> StoreError {
        StoreError { source: Some(source.into()), ..StoreError::new(problem) }
    }

    /// Sets the kind, which is [`StoreErrorKind::Other`] by default.
    #[must_use]
    pub fn of_kind(self, kind: StoreErrorKind) -> StoreError {
        StoreError { kind, ..self }
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

/// Methods that only the crates of this workspace call.
#[ext(StoreErrorExt)]
impl StoreError {
    /// Clones the failure for another caller that it concerns too.
    pub fn again(&self) -> StoreError {
        let source = self.source.as_ref().map(|source| source.to_string().into());
        StoreError { kind: self.kind, problem: self.problem.clone(), source }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// Whether a claim that failed like this is provably not on file.
pub fn wrote_nothing(failure: &StoreError) -> bool {
    match failure.kind() {
        StoreErrorKind::Locked
        | StoreErrorKind::ReadOnly
        | StoreErrorKind::Absent
        | StoreErrorKind::Full
        | StoreErrorKind::Foreign
        | StoreErrorKind::Newer
        | StoreErrorKind::Sealed
        | StoreErrorKind::Replaced
        | StoreErrorKind::Closed
        | StoreErrorKind::Displaced
        | StoreErrorKind::Invalid
        | StoreErrorKind::Unreachable
        | StoreErrorKind::Busy
        | StoreErrorKind::Denied
        | StoreErrorKind::Untrusted
        | StoreErrorKind::TimedOut
        | StoreErrorKind::Older
        | StoreErrorKind::Unsupported => true,
        // A commit that failed at the disk may have been written down; one whose answer was lost, or whose writer
        // stopped, too.
        StoreErrorKind::Corrupt | StoreErrorKind::Lost | StoreErrorKind::Other => false,
        StoreErrorKind::Stopped => Guard::StoppedWriter.is_out(),
    }
}

//! Store errors from SQLite's errors.

use rusqlite::{Error, ErrorCode, ffi};

use steadfast_core::store::{StoreError, StoreErrorKind};

/// Returns the error of a statement that failed; `doing` names its purpose.
pub(super) fn failed(doing: &str, error: Error) -> StoreError {
    let kind = kind(&error);
    let problem = match kind {
        StoreErrorKind::Locked => format!("SQLite could not {doing}: another connection holds the file"),
        StoreErrorKind::ReadOnly => format!("SQLite could not {doing}: the file is not writable"),
        StoreErrorKind::Full => format!("SQLite could not {doing}: no room is left"),
        StoreErrorKind::Corrupt => format!("SQLite could not {doing}: the file is damaged or no database"),
        _ => format!("SQLite could not {doing}"),
    };
    StoreError::with_source(problem, error).of_kind(kind)
}

fn kind(error: &Error) -> StoreErrorKind {
    // On a full disk the memory that connections share cannot be created, before anything is written to the
    // log. At a commit it fails after that: see `writer`.
    if is_shared_memory(error) {
        return StoreErrorKind::Full;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::Locked,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreErrorKind::ReadOnly,
        Some(ErrorCode::DiskFull) => StoreErrorKind::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreErrorKind::Corrupt,
        // The row itself: too large, or against the schema. A retry fails too.
        Some(ErrorCode::TooBig | ErrorCode::TypeMismatch) => StoreErrorKind::Invalid,
        Some(ErrorCode::ConstraintViolation) if is_of_row(error) => StoreErrorKind::Invalid,
        Some(_) => StoreErrorKind::Other,
        // SQLite did not fail: its values have another type or range than those that were written.
        None => StoreErrorKind::Corrupt,
    }
}

/// Returns true if a constraint forbids the row's own values. A duplicate comes from another connection, and
/// the error of a trigger may pass.
fn is_of_row(error: &Error) -> bool {
    let of_row = [
        ffi::SQLITE_CONSTRAINT_CHECK,
        ffi::SQLITE_CONSTRAINT_NOTNULL,
        ffi::SQLITE_CONSTRAINT_DATATYPE,
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
    ];
    error.sqlite_error().is_some_and(|error| of_row.contains(&error.extended_code))
}

/// Returns true if the memory that connections share could not be created, or could not grow.
pub(super) fn is_shared_memory(error: &Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHMSIZE)
}

/// Conversion of SQLite's errors into a store's.
pub(super) trait ErrorContext<T> {
    /// Converts the error; `doing` names the purpose of the statement.
    fn while_doing(self, doing: &str) -> Result<T, StoreError>;
}

impl<T> ErrorContext<T> for Result<T, Error> {
    fn while_doing(self, doing: &str) -> Result<T, StoreError> {
        self.map_err(|error| failed(doing, error))
    }
}

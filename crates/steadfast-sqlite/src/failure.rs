//! SQLite's errors as a store's.

use rusqlite::{Error, ErrorCode, ffi};

use steadfast_core::store::{StoreError, StoreErrorKind};

/// What SQLite met while `doing` something.
pub(super) fn failed(doing: &str, error: Error) -> StoreError {
    let kind = kind(&error);
    let problem = match kind {
        StoreErrorKind::Locked => format!("SQLite could not {doing}: another connection holds the file"),
        StoreErrorKind::ReadOnly => format!("SQLite could not {doing}: the file may not be written"),
        StoreErrorKind::Full => format!("SQLite could not {doing}: no room is left"),
        StoreErrorKind::Corrupt => format!("SQLite could not {doing}: the file is damaged or no database"),
        _ => format!("SQLite could not {doing}"),
    };
    StoreError::with_source(problem, error).of_kind(kind)
}

fn kind(error: &Error) -> StoreErrorKind {
    // On a full disk the memory that connections share cannot be made, before anything is written to the log. At a
    // commit it is after that: see `writer`.
    if is_shared_memory(error) {
        return StoreErrorKind::Full;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::Locked,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreErrorKind::ReadOnly,
        Some(ErrorCode::DiskFull) => StoreErrorKind::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreErrorKind::Corrupt,
        // The row: too large, or of what the schema forbids. The next time it is no better.
        Some(ErrorCode::TooBig | ErrorCode::TypeMismatch) => StoreErrorKind::Invalid,
        Some(ErrorCode::ConstraintViolation) if is_of_row(error) => StoreErrorKind::Invalid,
        Some(_) => StoreErrorKind::Other,
        // Not SQLite but the values that it gave: of another type or range than was written.
        None => StoreErrorKind::Corrupt,
    }
}

/// Whether the row's own values are what a constraint forbids. A duplicate is another connection's doing, and what a
/// trigger raises may be over the next time.
fn is_of_row(error: &Error) -> bool {
    let of_row = [
        ffi::SQLITE_CONSTRAINT_CHECK,
        ffi::SQLITE_CONSTRAINT_NOTNULL,
        ffi::SQLITE_CONSTRAINT_DATATYPE,
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
    ];
    error.sqlite_error().is_some_and(|error| of_row.contains(&error.extended_code))
}

/// Whether the memory that connections share could not be made, or grow.
pub(super) fn is_shared_memory(error: &Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHMSIZE)
}

/// Makes a failure of SQLite's into a store's on the way out.
pub(super) trait While<T> {
    /// Says what was being done.
    fn while_doing(self, doing: &str) -> Result<T, StoreError>;
}

impl<T> While<T> for Result<T, Error> {
    fn while_doing(self, doing: &str) -> Result<T, StoreError> {
        self.map_err(|error| failed(doing, error))
    }
}

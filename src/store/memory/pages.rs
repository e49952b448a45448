//! Pages of a list: a cursor is the number of the row after them.

use crate::operation::record::{Cursor, Page};
use crate::store::{StoreError, StoreErrorKind};

/// The number of the first row after a page.
pub(super) fn start(after: Option<&Cursor>) -> Result<u64, StoreError> {
    let Some(cursor) = after else { return Ok(0) };
    cursor.as_str().parse().map_err(|_| {
        let problem = format!("{:?} is not a place in a list of this store", cursor.as_str());
        StoreError::new(problem).of_kind(StoreErrorKind::Invalid)
    })
}

pub(super) fn page<T>(rows: impl Iterator<Item = (u64, T)>, limit: usize) -> Page<T> {
    let limit = limit.max(1);
    let mut kept = Vec::new();
    for (number, row) in rows {
        if kept.len() == limit {
            return Page { rows: kept, next: Some(Cursor::new(number.to_string())) };
        }
        kept.push(row);
    }
    Page { rows: kept, next: None }
}

//! Pages of a list: a cursor is the number of the row after them.

use crate::operation::record::{Filter, Page};
use crate::store::{StoreError, StoreErrorKind};

/// The number of the first row after a page. A column of 64 bits with a sign can hold it.
///
/// # Errors
///
/// A [`StoreError`] of kind [`Invalid`](StoreErrorKind::Invalid): no page ended so.
pub fn start(after: Option<&str>) -> Result<u64, StoreError> {
    let Some(cursor) = after else { return Ok(0) };
    let number: Option<u64> = cursor.parse().ok().filter(|number| i64::try_from(*number).is_ok());
    number.ok_or_else(|| {
        let problem = format!("{cursor:?} is not a place in a list of this store");
        StoreError::new(problem).of_kind(StoreErrorKind::Invalid)
    })
}

/// Refuses a filter that no list of a store can answer: the code comes from the log of attempts, which a list does not
/// read. To leave it out would list what was not asked for.
///
/// # Errors
///
/// A [`StoreError`] of kind [`Invalid`](StoreErrorKind::Invalid).
pub fn listable(filter: &Filter) -> Result<(), StoreError> {
    match &filter.code {
        None => Ok(()),
        Some(code) => {
            let problem = format!("a store cannot list by the code {code:?}; DeadLetters::list can");
            Err(StoreError::new(problem).of_kind(StoreErrorKind::Invalid))
        }
    }
}

/// A page of `limit` rows, and at least one. `rows` are at least one more than that if there are more.
pub fn page<N: ToString, T>(rows: impl Iterator<Item = (N, T)>, limit: usize) -> Page<T> {
    let limit = limit.max(1);
    let mut kept = Vec::new();
    for (number, row) in rows {
        if kept.len() == limit {
            return Page { rows: kept, next: Some(number.to_string()) };
        }
        kept.push(row);
    }
    Page { rows: kept, next: None }
}

/// The most rows of one page, so that a list of everything does not become one answer.
pub const ROWS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_a_number_that_every_store_can_hold() {
        for (text, expected) in
            [("0", Some(0)), ("9223372036854775807", Some(i64::MAX as u64)), ("9223372036854775808", None)]
        {
            assert_eq!(start(Some(text)).ok(), expected, "{text}");
        }
        for text in ["", "-1", "x", "1.0"] {
            let error = start(Some(text)).expect_err(text);
            assert_eq!(error.kind(), StoreErrorKind::Invalid);
        }
    }
}

//! The calls that failed since the vendor last succeeded.
//!
//! A call's attempts fail together when the request is the cause. One poison request, sent five times, says no more of
//! the vendor than sent once. It would open the circuit of an otherwise idle client. So a call's failures count once
//! until the vendor succeeds again. That goes for the row and for the rates: a failure rate that counted each attempt
//! would open on the same request twenty attempts later. A call is recognised by a number and not by its permit,
//! because an operation comes back, hours later and from the record.
//!
//! The memory is bounded. Where more different calls fail than it holds, the oldest is forgotten and may count
//! again: by then it is not one request that fails.

use std::collections::VecDeque;

/// The calls that have failed in this row, oldest first.
#[derive(Debug)]
pub(super) struct Row {
    calls: VecDeque<u64>,
}

impl Default for Row {
    /// Allocates room for all that it will hold: nothing is allocated in the middle of an outage.
    fn default() -> Row {
        Row { calls: VecDeque::with_capacity(REMEMBERED_MAX) }
    }
}

impl Row {
    /// Whether this is the first failure of `call` in the row. A call without a number is always another one.
    pub(super) fn is_first_of(&mut self, call: Option<u64>) -> bool {
        let Some(call) = call else { return true };
        if self.calls.contains(&call) {
            return false;
        }
        if self.calls.len() >= REMEMBERED_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
        true
    }

    /// The vendor has succeeded.
    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }
}

/// Three times the default minimum of calls, and few enough to look through at each failure.
const REMEMBERED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_once_until_the_row_ends() {
        let mut row = Row::default();
        assert!(row.is_first_of(Some(1)));
        assert!(row.is_first_of(Some(2)));
        assert!(!row.is_first_of(Some(1)));
        assert!(row.is_first_of(None));
        assert!(row.is_first_of(None));
        row.clear();
        assert!(row.is_first_of(Some(1)));
    }

    #[test]
    fn the_memory_holds_64_calls_and_forgets_the_oldest() {
        let mut row = Row::default();
        assert!((0..64).all(|call| row.is_first_of(Some(call))));
        assert!(!row.is_first_of(Some(0)));
        assert!(row.is_first_of(Some(64)));
        assert!(!row.is_first_of(Some(1)));
        assert!(row.is_first_of(Some(0)), "forgotten");
        assert_eq!(row.calls.len(), 64);
    }
}

//! A write of an outcome that failed.
//!
//! The holder has the vendor's answer, and only the record of it spares other processes the search for it. So the write is
//! made again while the hold and the call's time last. The vendor's word is then written down without the caller,
//! while the hold lasts.

use std::time::Duration;

use crate::clock::Instant;
use crate::guard::Guard;
use crate::operation::record::State;

/// A write that failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedWrite {
    /// The wait before the next try.
    pub pause: Duration,
    /// End of the caller's time, with the grace for a write.
    pub until: Instant,
    /// End of the hold.
    pub over_at: Instant,
    /// True if another process has the operation.
    pub is_fenced: bool,
    /// True for an outcome that only this process knows of.
    pub is_vendors_word: bool,
}

/// How a failed write goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// It is tried again at this time, unless it is on record by then.
    At(Instant),
    /// It goes on without the caller.
    WithoutCaller,
    /// It is given up: the operation is recovered once its lease is over.
    Never,
}

/// Whether a failed write is tried again.
pub fn after_failed_write(failed: &FailedWrite, now: Instant) -> Rewrite {
    let again_at = now.plus(failed.pause);
    if failed.is_fenced || again_at >= failed.over_at || Guard::WriteAgain.is_out() {
        return Rewrite::Never;
    }
    match again_at < failed.until {
        true => Rewrite::At(again_at),
        false if failed.is_vendors_word => Rewrite::WithoutCaller,
        false => Rewrite::Never,
    }
}

/// Whether it is an outcome that only the process knows of that has the answer.
pub const fn is_vendors_word(state: &State) -> bool {
    matches!(state, State::Succeeded { .. } | State::Refused { .. })
}

/// The wait before the second of two tries, doubled up to the most: a lock is let go of within milliseconds, a store that
/// restarts comes back within seconds.
pub const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest wait between two tries.
pub const PAUSE_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_written_again_while_hold_and_time_last() {
        let at = |ms| Instant::ORIGIN.plus(Duration::from_millis(ms));
        let failed = FailedWrite {
            pause: PAUSE_MIN,
            until: at(200),
            over_at: at(300),
            is_fenced: false,
            is_vendors_word: false,
        };
        let word = FailedWrite { is_vendors_word: true, ..failed };
        for (failed, now_ms, next) in [
            (failed, 0, Rewrite::At(at(50))),
            (failed, 149, Rewrite::At(at(199))),
            (failed, 150, Rewrite::Never),
            (word, 150, Rewrite::WithoutCaller),
            (word, 249, Rewrite::WithoutCaller),
            (word, 250, Rewrite::Never),
            (FailedWrite { is_fenced: true, ..word }, 0, Rewrite::Never),
        ] {
            assert_eq!(after_failed_write(&failed, at(now_ms)), next, "{failed:?} at {now_ms} ms");
        }
    }
}

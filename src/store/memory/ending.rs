//! The index by time: which records time will end, and what their end means.

use std::collections::BTreeSet;

use crate::clock::Timestamp;
use crate::operation::record::{Phase, Record};

/// By [`Bucket`], the earliest first; of one time, the one that was claimed first. Records by their numbers, which are
/// quicker to compare than their names.
pub(super) type Ending = [BTreeSet<(Timestamp, u64)>; 3];

/// What the end of a record's time means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bucket {
    Lapses,
    Due,
    Expires,
}

/// When a record's time is over, if it ever is, and what that means.
pub(super) fn ends(record: &Record) -> Option<(Bucket, Timestamp)> {
    bucket(record.phase()).zip(record.until())
}

/// Notes when the time of the record with this number ends now, and no more when it ended `before`.
pub(super) fn move_time(
    ending: &mut Ending,
    number: u64,
    before: Option<(Bucket, Timestamp)>,
    now: Option<(Bucket, Timestamp)>,
) {
    if before == now {
        return;
    }
    if let Some((bucket, at)) = before {
        ending[bucket as usize].remove(&(at, number));
    }
    if let Some((bucket, at)) = now {
        ending[bucket as usize].insert((at, number));
    }
}

fn bucket(phase: Phase) -> Option<Bucket> {
    match phase {
        Phase::InProgress => Some(Bucket::Lapses),
        Phase::Scheduled => Some(Bucket::Due),
        Phase::Succeeded | Phase::Refused | Phase::Resolved => Some(Bucket::Expires),
        Phase::Dead => None,
    }
}

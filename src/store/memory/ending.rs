//! The index by time: which records time will end, and what their end means.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Row;
use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::Phase;

/// By [`Bucket`], the earliest first.
pub(super) type Ending = [BTreeSet<(Timestamp, Arc<OperationId>)>; 3];

/// What the end of a record's time means.
#[derive(Clone, Copy)]
pub(super) enum Bucket {
    Lapses,
    Due,
    Expires,
}

/// When a record's time is over, if it ever is, and what that means. What waits for its turn is due at no time.
fn ends(row: &Row) -> Option<(Bucket, Timestamp)> {
    let phase = row.record.phase();
    if phase == Phase::Scheduled && row.waits {
        return None;
    }
    bucket(phase).zip(row.record.until())
}

pub(super) fn begin_time(ending: &mut Ending, row: &Row) {
    if let Some((bucket, at)) = ends(row) {
        ending[bucket as usize].insert((at, row.id.clone()));
    }
}

pub(super) fn end_time(ending: &mut Ending, row: &Row) {
    if let Some((bucket, at)) = ends(row) {
        ending[bucket as usize].remove(&(at, row.id.clone()));
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

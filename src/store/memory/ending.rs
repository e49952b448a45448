//! The index by time: which records time will end, and what their end means.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::{Phase, Record};

/// By [`Bucket`], the earliest first.
pub(super) type Ending = [BTreeSet<(Timestamp, Arc<OperationId>)>; 3];

/// What the end of a record's time means.
#[derive(Clone, Copy)]
pub(super) enum Bucket {
    Lapses,
    Due,
    Expires,
}

/// When a record's time is over, if it ever is, and what that means.
pub(super) fn ends(record: &Record) -> Option<(Bucket, Timestamp)> {
    bucket(record.phase()).zip(record.until())
}

pub(super) fn begin_time(ending: &mut Ending, record: &Record, id: &Arc<OperationId>) {
    if let Some((bucket, at)) = ends(record) {
        ending[bucket as usize].insert((at, id.clone()));
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

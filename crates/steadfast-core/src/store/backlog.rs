//! The backlog of a store in numbers, with the status of its dispatchers: for an operator's one screen.
//!
//! A list of five thousand operations is no answer to "what waits". Counting needs no list: a database groups what is open
//! by an index of it alone, however many operations have ended.

use std::collections::BTreeMap;

use super::heartbeat::Peer;
use crate::clock::Timestamp;
pub use crate::operation::record::view::LATE;
use crate::operation::record::{Phase, Summary};
use crate::operation::{Key, Scope};

/// Backlog of a store, as [`Delivery::backlog`](super::delivery::Delivery::backlog) gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Operations in progress, scheduled ones and unresolved dead letters, by scope and phase; none is empty.
    pub queues: Vec<Queue>,
    /// The last word of every dispatcher, if it is not too old.
    pub peers: Vec<Peer>,
}

/// The operations of one scope in one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The scope.
    pub scope: Scope,
    /// The phase: in progress, scheduled or dead.
    pub phase: Phase,
    /// Number of operations.
    pub count: u64,
    /// Number of scheduled ones whose time has come.
    pub overdue: u64,
    /// Number of those that wait for their turn in a sequence.
    pub behind: u64,
    /// Number of scheduled ones that were sent before.
    pub tried: u64,
    /// Number of those that were sent before and are due in more than a day.
    pub late: u64,
    /// The earliest time at which one is due, or a lease ends. `None` if all wait for their turn, and for dead letters.
    pub next: Option<Timestamp>,
    /// Key of the operation that moved last, of those that were sent before; without any, of those that a process had
    /// in hand.
    pub last: Option<Key>,
}

/// Whether an operation has a step on record, when it moved, and its key: the greatest is its queue's [`last`](Queue::last).
type Moved = (bool, Timestamp, String);

/// Groups the rows of a list, for a store that cannot count.
pub fn queues(rows: impl Iterator<Item = Summary>, now: Timestamp) -> Vec<Queue> {
    let mut queues: BTreeMap<(Scope, Phase), (Queue, Moved)> = BTreeMap::new();
    for row in rows {
        let is_scheduled = row.phase == Phase::Scheduled;
        let waits = row.sequence.as_ref().is_some_and(|place| place.behind.is_some());
        let due = row.until.filter(|_| !waits && row.phase != Phase::Dead);
        let (is_tried, until) = (is_scheduled && row.attempts > 0, due.filter(|_| is_scheduled));
        let (queue, moved) = queues.entry((row.id.scope.clone(), row.phase)).or_insert_with(|| {
            let (scope, phase) = (row.id.scope.clone(), row.phase);
            let none = Queue {
                scope,
                phase,
                count: 0,
                overdue: 0,
                behind: 0,
                tried: 0,
                late: 0,
                next: None,
                last: None,
            };
            (none, Default::default())
        });
        queue.count += 1;
        queue.overdue += u64::from(until.is_some_and(|until| until <= now));
        queue.behind += u64::from(waits);
        queue.tried += u64::from(is_tried);
        queue.late += u64::from(is_tried && until.is_some_and(|until| until > now.plus(LATE)));
        queue.next = [queue.next, due].into_iter().flatten().min();
        // What an outage spares is no step of the ladder, and was in a process's hand all the same.
        let was_held = row.attempts > 0 || row.updated_at > row.claimed_at;
        let this = (row.attempts > 0, row.updated_at, row.id.key.as_str().to_owned());
        if was_held && row.phase != Phase::Dead && this > *moved {
            (queue.last, *moved) = (Some(row.id.key.clone()), this);
        }
    }
    queues.into_values().map(|(queue, _)| queue).collect()
}

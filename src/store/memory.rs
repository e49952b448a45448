//! [`Memory`]: records that live as long as the process.
//!
//! One lock around a map and an index by expiry. A lock and not a concurrent map: a claim must look and write
//! in one step, a step takes well under a microsecond, and nothing is awaited or called back while it is held.
//! The index makes every purge proportional to what it removes; a scan over all records would stall the claim
//! that happens to trigger it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::{self, Claim, Claimed, Declined, Record, Transition};
use crate::store::{Store, StoreError};

/// The default store: in memory, bounded, and **lost in a crash**.
///
/// Within one process it keeps every rule of [`Store`]. What it cannot do is survive: after a crash or a
/// restart, nothing here knows which operations were under way, which took effect, or which were scheduled or
/// dead letters. A caller who then sends the same key again sends it for real. Only a vendor that replays keys
/// by itself (Stripe, within its window) still holds the effect to one. Clones of an `Arc<Memory>` share one
/// store; two processes never do.
///
/// # Bound
///
/// At most [`Memory::RECORDS_MAX`] records, or what [`with_capacity`](Memory::with_capacity) says. Each claim
/// also removes a few records that have expired by its `now`. When the store is full of records that have not,
/// a claim of a new operation fails; records are never dropped to make room, since a dropped record is a
/// licence to send twice. Dead letters do not expire and count.
pub struct Memory {
    inner: Mutex<Inner>,
    records_max: usize,
}

#[derive(Default)]
struct Inner {
    records: HashMap<Arc<OperationId>, Record>,
    /// Every record that expires, by when. Kept in step by [`Inner::put`] and [`Inner::purge`] alone.
    expiring: BTreeSet<(Timestamp, Arc<OperationId>)>,
}

impl Memory {
    /// How many records a store holds unless told otherwise. At a few KiB each, some hundred MiB at worst.
    pub const RECORDS_MAX: usize = 100_000;

    /// An empty store for [`Memory::RECORDS_MAX`] records.
    pub fn new() -> Memory {
        Memory::with_capacity(Memory::RECORDS_MAX)
    }

    /// An empty store for at most `records_max` records. Nothing is allocated ahead.
    pub fn with_capacity(records_max: usize) -> Memory {
        Memory { inner: Mutex::default(), records_max }
    }

    /// How many records it holds, expired ones that are not yet purged included.
    pub fn len(&self) -> usize {
        self.inner.lock().records.len()
    }

    /// Whether it holds no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("records", &self.len())
            .field("records_max", &self.records_max)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Memory {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let mut inner = self.inner.lock();
        inner.purge(claim.now, PURGE_PER_CLAIM);
        let existing = inner.records.get(&claim.id);
        if existing.is_none() && inner.records.len() >= self.records_max {
            let problem = format!(
                "the store in memory is full: its bound is {} records and none has expired",
                self.records_max
            );
            return Err(StoreError::new(problem));
        }
        let (write, claimed) = record::claim(existing, claim);
        if let Some(record) = write {
            inner.put(record);
        }
        Ok(claimed)
    }

    async fn transition(
        &self,
        id: &OperationId,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let mut inner = self.inner.lock();
        let Some(held) = inner.records.get(id) else {
            return Ok(Err(Declined::Absent));
        };
        let moved = held.apply(transition);
        if let Ok(record) = &moved {
            inner.put(record.clone());
        }
        Ok(moved)
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        Ok(self.inner.lock().records.get(id).cloned())
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        Ok(self.inner.lock().purge(now, limit))
    }
}

impl Inner {
    fn put(&mut self, record: Record) {
        let expires_at = record.expires_at();
        let id = match self.records.get_key_value(&record.id) {
            Some((id, held)) => {
                let id = id.clone();
                if let Some(at) = held.expires_at() {
                    self.expiring.remove(&(at, id.clone()));
                }
                id
            }
            None => Arc::new(record.id.clone()),
        };
        if let Some(at) = expires_at {
            self.expiring.insert((at, id.clone()));
        }
        self.records.insert(id, record);
    }

    fn purge(&mut self, now: Timestamp, limit: usize) -> usize {
        let mut removed = 0;
        while removed < limit {
            match self.expiring.first() {
                Some((at, _)) if *at <= now => {}
                _ => break,
            }
            if let Some((_, id)) = self.expiring.pop_first() {
                self.records.remove(&id);
                removed += 1;
            }
        }
        removed
    }
}

/// How many expired records a claim clears away: more than the one it may add, so that the store shrinks
/// faster than it grows, and few enough not to be felt.
const PURGE_PER_CLAIM: usize = 2;

#[cfg(test)]
mod tests;

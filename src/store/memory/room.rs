//! Making room: what has expired goes, and when nothing has, what was settled first.

use std::sync::Arc;

use super::{Bucket, Inner};
use crate::clock::Timestamp;
use crate::guard::Guard;
use crate::operation::record::Phase;
use crate::operation::{Key, OperationId};
use crate::store::{StoreError, StoreErrorKind};

impl Inner {
    /// Removes at most `limit` records that have expired as far as the store believes the time; how many there were.
    pub(super) fn purge(&mut self, now: Timestamp, limit: usize) -> usize {
        let now = self.notes.now(now);
        let mut removed = 0;
        while removed < limit {
            let expiring = &mut self.ending[Bucket::Expires as usize];
            match expiring.first() {
                Some((at, _)) if *at <= now || Guard::PurgeOnlyExpired.is_out() => {}
                _ => break,
            }
            let Some((_, number)) = expiring.pop_first() else { break };
            if let Some(id) = self.order.get(&number).cloned() {
                self.remove(&id);
            }
            removed += 1;
        }
        removed
    }

    /// Removes the settled record that is nearest to its expiry, if there is one; whether there was. Resolved dead
    /// letters stay: a person's word is on them, and they are few. So does what has this key, which a claim starts over.
    pub(super) fn evict(&mut self, records_max: usize, predecessor: Option<&Key>) -> bool {
        let settled = |id: &&Arc<OperationId>| {
            if predecessor == Some(&id.key) {
                return false;
            }
            let phase = self.rows.get(*id).map(|row| row.record.phase());
            matches!(phase, Some(Phase::Succeeded | Phase::Refused)) || Guard::EvictOnlySettled.is_out()
        };
        let expiring = self.ending[Bucket::Expires as usize].iter();
        let next = expiring.filter_map(|(_, number)| self.order.get(number)).find(settled);
        let Some(id) = next.cloned() else { return false };
        self.remove(&id);
        self.evicted += 1;
        if self.evicted.is_power_of_two() {
            tracing::warn!(
                "the store in memory is full, at {records_max} records: {} settled operations were forgotten before \
                 their time, and their keys would be sent anew. Give it a greater bound, or the client a store in a file",
                self.evicted
            );
        }
        true
    }
}

pub(super) fn full(records_max: usize) -> StoreError {
    let problem = format!(
        "the store in memory is full: its bound is {records_max} records, and all of them are under way or dead letters"
    );
    StoreError::new(problem).of_kind(StoreErrorKind::Full)
}

//! Making room: what has expired goes, and when nothing has, what was settled first.

use std::sync::Arc;

use super::{Bucket, Inner};
use crate::clock::Timestamp;
use crate::guard::Guard;
use crate::operation::record::Phase;
use crate::operation::{Key, OperationId};
#[cfg(feature = "testkit")]
use crate::store::outbox::form::spares;
use crate::store::{StoreError, StoreErrorKind};

impl Inner {
    /// Removes at most `limit` records that have expired as far as the store believes the time; how many there were.
    pub(super) fn purge(&mut self, now: Timestamp, limit: usize) -> usize {
        let now = self.notes.now(now);
        let mut removed = 0;
        while removed < limit {
            let expiring = self.ending[Bucket::Expires as usize].iter();
            let mut expired =
                expiring.take_while(|(at, _)| *at <= now || Guard::PurgeOnlyExpired.is_out()).copied();
            let Some(next) = expired.find(|(_, number)| !self.is_spared(*number)) else { break };
            self.ending[Bucket::Expires as usize].remove(&next);
            let (_, number) = next;
            if let Some(id) = self.order.get(&number).cloned() {
                self.remove(&id);
            }
            removed += 1;
        }
        removed
    }

    /// Whether an outbox beside it has a row of the record's key.
    fn is_spared(&self, number: u64) -> bool {
        #[cfg(feature = "testkit")]
        return self.order.get(&number).is_some_and(|id| {
            let rows = self.rows_of_key.get(id.key.as_str());
            spares(rows.is_some_and(|rows| *rows > 0), false)
        });
        #[cfg(not(feature = "testkit"))]
        {
            let _ = number;
            false
        }
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

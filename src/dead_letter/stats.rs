//! Counts of operations, by vendor and phase, with their age.

use std::collections::BTreeSet;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{Filter, Page, Phase, Summary, Tally};
use steadfast_core::store::{OutboxTally, Rejected};

use super::{DeadLetterError, DeadLetters, OPEN};

/// The store in numbers.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::operation::record::Phase;
///
/// let stats = letters.stats().await?;
/// assert_eq!((stats.count(Phase::Dead), stats.count(Phase::Succeeded)), (2, 0));
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Time at which they were taken, for ages.
    pub now: Timestamp,
    /// Counts by vendor, then by phase; empty groups are left out.
    pub groups: Vec<Tally>,
    /// Counts of the store's [outbox](crate::outbox), by account; empty if it has none. Not among the groups: these are
    /// no operations yet.
    pub outbox: Vec<OutboxTally>,
    /// The accounts of the outbox whose rows no client admits, `{namespace}/{vendor}/{account}`: their name is
    /// misspelt, or they are another service's. This is as far as the clients show that are known here, or those that
    /// have [registered](crate::Client::register) in the store.
    pub unadmitted: BTreeSet<String>,
    /// Dead letters that hold their [sequence](crate::Sequence), oldest first, at most [`Stats::HELD_MAX`].
    pub held: Vec<Summary>,
    /// Whether there are more of them.
    pub held_more: bool,
}

impl DeadLetters {
    /// Counts all operations.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`].
    pub async fn stats(&self) -> Result<Stats, DeadLetterError> {
        let groups = self.store.tally().await.map_err(DeadLetterError::store("count"))?;
        let outbox = match self.store.outbox() {
            Some(outbox) => outbox.counts().await.map_err(DeadLetterError::store("count the outbox"))?,
            None => Vec::new(),
        };
        let unadmitted = self.unadmitted(&outbox).await?;
        let holding = Filter { phases: OPEN.to_vec(), holds_sequence: true, ..Filter::default() };
        let held = self.page(&holding, None, Stats::HELD_MAX).await?;
        let held_more = held.next.is_some();
        Ok(Stats { now: self.now(), groups, outbox, unadmitted, held_more, held: held.rows })
    }

    /// Returns the number of rows of the [outbox](crate::outbox) that cannot become operations. They are no dead
    /// letters, but an operator should see them at the same place.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`].
    pub async fn rejected_rows(&self) -> Result<u64, DeadLetterError> {
        let Some(outbox) = self.store.outbox() else { return Ok(0) };
        let counts = outbox.counts().await.map_err(DeadLetterError::store("count the outbox"))?;
        Ok(counts.iter().map(|account| account.rejected).sum())
    }

    /// A page of at most `limit` rows of the [outbox](crate::outbox) that cannot become operations, by number, each with
    /// the reason.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`]; also for a cursor that this store did not give.
    pub async fn rejected(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Rejected>, DeadLetterError> {
        match self.store.outbox() {
            Some(outbox) => outbox
                .rejected(after, limit)
                .await
                .map_err(DeadLetterError::store("list the rejected rows of the outbox")),
            None => Ok(Page { rows: Vec::new(), next: None }),
        }
    }
}

impl Stats {
    /// Number of dead letters holding a sequence that are named: as many as a person reads.
    pub const HELD_MAX: usize = 20;

    /// Returns the number of operations in a phase, of all accounts.
    pub fn count(&self, phase: Phase) -> u64 {
        self.groups.iter().filter(|group| group.phase == phase).map(|group| group.count).sum()
    }
}

//! The leases in the source.

use std::time::Duration;

use super::{CopyError, Run};
use crate::clock::Timestamp;
use crate::operation::record::{CLOCKS_DIFFER_MAX, Filter, Phase};

impl Run<'_> {
    pub(super) async fn refuse_while_held(&self) -> Result<(), CopyError> {
        match self.held().await? {
            Some((held, last)) => Err(CopyError::Held { held, last }),
            None => Ok(()),
        }
    }

    /// Waits until no process holds anything. No process claims meanwhile, and a holder renews its lease only as long
    /// as it works.
    pub(super) async fn wait_for_holders(&self) -> Result<(), CopyError> {
        let clock = &self.how.clock;
        while let Some((_, last)) = self.held().await? {
            let left = last.since(self.now());
            clock.sleep_until(clock.now().plus(left.min(LOOK_EVERY))).await;
        }
        Ok(())
    }

    /// Returns the number of operations that are held, and the end of the last lease. As for a takeover, a lease of a
    /// clock that was wrong keeps no process out: see
    /// [`Record::is_of_a_wrong_clock`](crate::operation::record::Record::is_of_a_wrong_clock).
    async fn held(&self) -> Result<Option<(u64, Timestamp)>, CopyError> {
        let now = self.now();
        let filter = Filter { phases: vec![Phase::InProgress], ..Filter::default() };
        let (mut held, mut after) = (None, None);
        loop {
            let page = self.source.store.list(&filter, after.as_deref(), PAGE).await;
            let page = page.map_err(self.source.failed())?;
            for summary in &page.rows {
                let is_of_a_wrong_clock = summary.updated_at > now.plus(CLOCKS_DIFFER_MAX);
                let ends = summary.until.filter(|until| *until > now && !is_of_a_wrong_clock);
                if let Some(until) = ends {
                    let (count, last) = held.unwrap_or((0, until));
                    held = Some((count + 1, until.max(last)));
                }
            }
            if page.next.is_none() {
                return Ok(held);
            }
            after = page.next;
        }
    }

    /// Returns the time in the source, by the clock of its leases.
    fn now(&self) -> Timestamp {
        self.source.store.time(self.how.clock.wall())
    }
}

/// A holder is mostly done long before its lease ends.
const LOOK_EVERY: Duration = Duration::from_secs(1);

const PAGE: usize = 1_000;

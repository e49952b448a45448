//! [`Bounds`]: how far takes, looks and purges have read the indexes of times.
//!
//! Each row that is taken, settled or purged leaves a dead entry in such an index. No vacuum can remove it
//! while any transaction in the database is older, such as a report that runs for an hour. A take that starts
//! at the beginning each time would read all dead entries, and more each time.
//!
//! The bound is only in this process's memory. A row may appear below it: a transaction committed late, or a
//! take's own transaction was rolled back. A full scan finds it, every few seconds, and less often where a scan
//! takes long. A short full scan is a take or a look from the beginning, at no extra cost. A long one is a
//! separate [`search`] below the bound, beside the takes, which only moves the bound back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::store::to_ms;
use steadfast_core::operation::record::Phase;
use steadfast_core::store::StoreError;

use super::Shared;
use super::row::Reader;
use super::take::{OF_ACCOUNT, OPEN, READABLE, TakeValues};

/// Lower bounds from which this process reads the indexes of times.
#[derive(Debug, Default)]
pub(super) struct Bounds(Mutex<HashMap<BoundKey, Bound>>);

/// Phase and account of a bound; `None` means all accounts. A purge has one bound for all phases: [`ENDED`].
type BoundKey = (Phase, Option<String>);

/// Key of the purge's bound in [`Bounds`].
pub(super) const ENDED: Phase = Phase::Succeeded;

#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    /// All rows that were due earlier (ms) are taken, as far as this process saw.
    from: i64,
    /// Time of the next full scan.
    full_scan_at: Instant,
    full_scan_took: Duration,
    /// True while a [`search`] is in flight.
    is_searching: bool,
    /// True if the last read returned as many rows as its limit.
    reached_limit: bool,
}

/// A read of the index that is in flight.
#[derive(Debug)]
pub(super) struct BoundedRead {
    name: BoundKey,
    began: Instant,
    is_full_scan: bool,
    /// Lower bound of the read, in ms; 0 for a full scan.
    pub(super) from: i64,
    /// True if the previous read returned as many rows as its limit.
    pub(super) reached_limit: bool,
}

impl Bounds {
    pub(super) fn begin(&self, name: BoundKey, began: Instant) -> BoundedRead {
        let bound = self.0.lock().get(&name).copied();
        let is_full_scan =
            bound.is_none_or(|bound| began >= bound.full_scan_at && bound.full_scan_took <= SHORT_SCAN_MAX);
        let from = bound.filter(|_| !is_full_scan).map_or(0, |bound| bound.from);
        BoundedRead {
            name,
            began,
            is_full_scan,
            from,
            reached_limit: bound.is_some_and(|bound| bound.reached_limit),
        }
    }

    /// Records the end of a read at `ended`, when the server's clock showed `now`. `full_to` is the due time
    /// (ms) of the last row if the read reached its limit; `None` if it saw all rows.
    pub(super) fn end(&self, bounded: BoundedRead, ended: Instant, now: Timestamp, full_to: Option<i64>) {
        let mut bounds = self.0.lock();
        let bound = bounds.entry(bounded.name).or_default();
        if bounded.is_full_scan {
            bound.full_scan_ended(bounded.began, ended);
        } else if to_ms(now) < bound.from {
            // The server's clock was set back: rows that are due by now may lie below the bound.
            bound.full_scan_at = bounded.began;
        }
        bound.reached_limit = full_to.is_some();
        // Unless a search moved the bound back meanwhile, to where this read has not been.
        if bound.from >= bounded.from {
            // All rows that were due by then were seen, except those that commit late.
            bound.from = full_to.unwrap_or_else(|| to_ms(now.minus(OVERLAP)));
        }
    }

    /// Returns the bounds below which a [`search`] is due, and marks them as searched.
    fn begin_searches(&self, now: Instant) -> Vec<(BoundKey, i64)> {
        let mut bounds = self.0.lock();
        let is_time = |bound: &Bound| {
            now >= bound.full_scan_at && bound.full_scan_took > SHORT_SCAN_MAX && !bound.is_searching
        };
        let due = bounds.iter_mut().filter(|(_, bound)| is_time(bound));
        due.map(|(name, bound)| {
            bound.is_searching = true;
            (name.clone(), bound.from)
        })
        .collect()
    }

    /// Records the end of a search and the due time (ms) of the first row that it found.
    fn end_search(&self, name: &BoundKey, began: Instant, ended: Instant, found: Option<i64>) {
        if let Some(bound) = self.0.lock().get_mut(name) {
            bound.is_searching = false;
            bound.full_scan_ended(began, ended);
            bound.from = found.map_or(bound.from, |found| found.min(bound.from));
        }
    }
}

impl Bound {
    fn full_scan_ended(&mut self, began: Instant, ended: Instant) {
        self.full_scan_took = ended.since(began);
        self.full_scan_at = began.plus(FULL_SCAN_EVERY.max(self.full_scan_took * FULL_SCAN_PART));
    }
}

/// Starts a search below each bound whose full scan is due, in the background.
pub(super) fn search(shared: &Arc<Shared>) {
    let due = shared.bounds.begin_searches(shared.time.instant());
    if due.is_empty() {
        return;
    }
    let own = Arc::clone(shared);
    shared.connections.spawn(async move {
        for (name, from) in due {
            let began = own.time.instant();
            // If the search failed, the next one may succeed.
            let found = first_below(&own, &name, from).await.unwrap_or_default();
            own.bounds.end_search(&name, began, own.time.instant(), found);
        }
    });
}

/// Returns the due time (ms) of the first row below the bound.
async fn first_below(
    shared: &Arc<Shared>,
    (phase, account): &BoundKey,
    from: i64,
) -> Result<Option<i64>, StoreError> {
    let schema = shared.connections.schema();
    let which = if *phase == ENDED {
        "o.phase > 2".to_owned()
    } else {
        format!("{OPEN} AND {OF_ACCOUNT} AND {READABLE}")
    };
    let sql = format!(
        "SELECT o.wake_ms FROM {schema}.operation o WHERE {which} AND o.wake_ms < $5 ORDER BY o.wake_ms LIMIT $6"
    );
    let (take_values, own) =
        (TakeValues::new(shared, (*phase, account.as_deref()), (from, 1)), Arc::clone(shared));
    shared
        .connections
        .run(async move {
            // On an exclusive connection: on a shared one, the queries of callers would wait for this.
            let exclusive = own.connections.exclusive().await?;
            let values = take_values.values(&take_values.limit);
            let take_values = exclusive.query_typed(&sql, &values);
            let rows = exclusive.in_time(SEARCH_MAX, "scan below the bound", take_values).await?;
            rows.first().map(|row| Reader::of(row).next::<i64>()).transpose()
        })
        .await
}

/// Overlap of two reads. A row that commits later than this after its own time is found by the full scan.
const OVERLAP: Duration = Duration::from_secs(2);

/// Time between two full scans.
const FULL_SCAN_EVERY: Duration = Duration::from_secs(5);

/// A full scan takes at most one part in so many of the time.
const FULL_SCAN_PART: u32 = 50;

/// A full scan that takes longer becomes a separate search, which no caller waits for.
const SHORT_SCAN_MAX: Duration = Duration::from_millis(10);

/// Limit of a search, longer than one of the largest table takes. A search holds one of the connections that
/// transactions need, and a server's host that lost power never answers.
const SEARCH_MAX: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn name() -> BoundKey {
        (Phase::Scheduled, Some("default/stripe/test".to_owned()))
    }

    /// Makes one look from `began` on that takes `takes`, at the server's `second`.
    fn look(bounds: &Bounds, began: Instant, takes: Duration, second: u64) -> i64 {
        let bounded = bounds.begin(name(), began);
        let from = bounded.from;
        bounds.end(bounded, began.plus(takes), Timestamp::from_millis(second * 1_000), None);
        from
    }

    fn at(second: u64) -> Instant {
        Instant::default().plus(Duration::from_secs(second))
    }

    #[test]
    fn a_short_full_scan_replaces_the_bounded_read() {
        let bounds = Bounds::default();
        assert_eq!(look(&bounds, at(0), MS, 1_000), 0);
        assert_eq!(look(&bounds, at(4), MS, 1_004), 998_000);
        assert!(bounds.begin_searches(at(4)).is_empty());
        assert_eq!(look(&bounds, at(5), MS, 1_005), 0, "it is time again");
    }

    #[test]
    fn a_long_full_scan_runs_as_a_search_that_only_moves_the_bound_back() {
        let bounds = Bounds::default();
        look(&bounds, at(0), 200 * MS, 1_000);
        // A fiftieth of the time: after ten seconds.
        assert!(bounds.begin_searches(at(9)).is_empty());
        assert_eq!(look(&bounds, at(11), MS, 1_011), 998_000);
        assert_eq!(bounds.begin_searches(at(11)), [(name(), 1_009_000)]);
        assert!(bounds.begin_searches(at(60)).is_empty(), "one at a time");
        // A look that began before the search found something does not move the bound over it.
        let bounded = bounds.begin(name(), at(12));
        bounds.end_search(&name(), at(11), at(12), Some(500_000));
        bounds.end(bounded, at(12), Timestamp::from_millis(1_012_000), None);
        assert_eq!(look(&bounds, at(13), MS, 1_013), 500_000);
        assert_eq!(look(&bounds, at(14), MS, 1_014), 1_011_000);
        // It took a second, and is due again after fifty; it finds nothing, in no time.
        assert!(bounds.begin_searches(at(60)).is_empty());
        assert_eq!(bounds.begin_searches(at(61)).len(), 1);
        bounds.end_search(&name(), at(61), at(61), None);
        assert_eq!(look(&bounds, at(62), MS, 1_062), 1_012_000);
        assert_eq!(look(&bounds, at(66), MS, 1_066), 0, "a short one is made in its place again");
    }

    #[test]
    fn a_clock_that_was_set_back_causes_a_full_scan() {
        let bounds = Bounds::default();
        look(&bounds, at(0), MS, 1_000);
        look(&bounds, at(1), MS, 10);
        assert_eq!(look(&bounds, at(2), MS, 11), 0);
    }
}

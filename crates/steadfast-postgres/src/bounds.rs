//! [`Bounds`]: up to where takers, lookers and purges have seen the indexes of times.
//!
//! Each row that is taken, settled or purged leaves an entry behind in such an index. No vacuum can remove it while a
//! transaction anywhere in the database is older, such as a report that runs for an hour. From the beginning each
//! time, a taker would read all of them, and more each time.
//!
//! The bound is only what this process remembers. A row may appear below it: a transaction committed late, or a
//! taker's own transaction was undone. A look at everything finds it, every few seconds, and less often where that
//! takes long. A look at everything that is short is a take or a look from the beginning, at no cost of its own. Once
//! it is not, a [`search`] of its own goes through what is below the bound, beside the takes, and only moves the
//! bound back.

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
use super::take::{Asked, OF_ACCOUNT, OPEN, READABLE};

/// From when on each taker of this process looks.
#[derive(Debug, Default)]
pub(super) struct Bounds(Mutex<HashMap<Name, Bound>>);

/// What is looked for, and for which account. Of what is to be purged, all phases are one: [`ENDED`].
type Name = (Phase, Option<String>);

/// All that has ended, in [`Bounds`].
pub(super) const ENDED: Phase = Phase::Succeeded;

#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    /// What was due before that is taken, as far as this process saw.
    from: i64,
    /// When everything is looked at again, and how long that took the last time.
    whole_at: Instant,
    whole_took: Duration,
    /// A [`search`] is under way.
    is_sought: bool,
    /// Whether there was more than was asked for.
    is_more: bool,
}

/// A look that is under way.
#[derive(Debug)]
pub(super) struct Begun {
    name: Name,
    began: Instant,
    is_whole: bool,
    /// What is due before that has been seen.
    pub(super) from: i64,
    /// Whether there was more than was asked for the last time.
    pub(super) is_more: bool,
}

impl Bounds {
    pub(super) fn begin(&self, name: Name, began: Instant) -> Begun {
        let bound = self.0.lock().get(&name).copied();
        let is_whole = bound.is_none_or(|bound| began >= bound.whole_at && bound.whole_took <= SHORT);
        let from = bound.filter(|_| !is_whole).map_or(0, |bound| bound.from);
        Begun { name, began, is_whole, from, is_more: bound.is_some_and(|bound| bound.is_more) }
    }

    /// The look has ended at `ended`, by the server's clock at `now`. `full_to` says when the last was due of as many as
    /// were asked for; `None` if all were seen.
    pub(super) fn end(&self, begun: Begun, ended: Instant, now: Timestamp, full_to: Option<i64>) {
        let mut bounds = self.0.lock();
        let bound = bounds.entry(begun.name).or_default();
        if begun.is_whole {
            bound.whole_looked_at(begun.began, ended);
        } else if to_ms(now) < bound.from {
            // The server's clock was set back: what is due by now may lie below the bound.
            bound.whole_at = begun.began;
        }
        bound.is_more = full_to.is_some();
        // Unless it was moved back meanwhile, to where this look has not been.
        if bound.from >= begun.from {
            // All rows that were due by then were seen, but for those that commit late.
            bound.from = full_to.unwrap_or_else(|| to_ms(now.minus(OVERLAP)));
        }
    }

    /// Below which bounds a [`search`] is to look.
    fn sought(&self, now: Instant) -> Vec<(Name, i64)> {
        let mut bounds = self.0.lock();
        let is_time = |bound: &Bound| now >= bound.whole_at && bound.whole_took > SHORT && !bound.is_sought;
        let due = bounds.iter_mut().filter(|(_, bound)| is_time(bound));
        due.map(|(name, bound)| {
            bound.is_sought = true;
            (name.clone(), bound.from)
        })
        .collect()
    }

    /// A search has ended, with the first that it has found.
    fn searched(&self, name: &Name, began: Instant, ended: Instant, found: Option<i64>) {
        if let Some(bound) = self.0.lock().get_mut(name) {
            bound.is_sought = false;
            bound.whole_looked_at(began, ended);
            bound.from = found.map_or(bound.from, |found| found.min(bound.from));
        }
    }
}

impl Bound {
    fn whole_looked_at(&mut self, began: Instant, ended: Instant) {
        self.whole_took = ended.since(began);
        self.whole_at = began.plus(WHOLE_EVERY.max(self.whole_took * WHOLE_PART));
    }
}

/// Looks below the bounds where it is time for that, beside all other work.
pub(super) fn search(shared: &Arc<Shared>) {
    let sought = shared.bounds.sought(shared.time.instant());
    if sought.is_empty() {
        return;
    }
    let own = Arc::clone(shared);
    shared.connections.spawn(async move {
        for (name, from) in sought {
            let began = own.time.instant();
            // If it came to nothing, the next one may find more.
            let found = first_below(&own, &name, from).await.unwrap_or_default();
            own.bounds.searched(&name, began, own.time.instant(), found);
        }
    });
}

/// The time of the first row that lies below the bound.
async fn first_below(
    shared: &Arc<Shared>,
    (phase, account): &Name,
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
    let (asked, own) = (Asked::new(shared, (*phase, account.as_deref()), (from, 1)), Arc::clone(shared));
    shared
        .connections
        .run(async move {
            // Each query on a connection that calls share would wait for this.
            let exclusive = own.connections.exclusive().await?;
            let values = asked.values(&asked.limit);
            let asked = exclusive.query_typed(&sql, &values);
            let rows = exclusive.in_time(SEARCH_MAX, "look at everything", asked).await?;
            rows.first().map(|row| Reader::of(row).next::<i64>()).transpose()
        })
        .await
}

/// A transaction that commits later than this after its own time is found by the look at everything.
const OVERLAP: Duration = Duration::from_secs(2);

/// How often everything is looked at.
const WHOLE_EVERY: Duration = Duration::from_secs(5);

/// A look at everything takes at most one part in so many of the time.
const WHOLE_PART: u32 = 50;

/// A look at everything that takes longer is a search of its own, which no caller waits for.
const SHORT: Duration = Duration::from_millis(10);

/// Longer than a search of the largest table takes. It holds one of the connections that transactions need, and a
/// server's host that lost power never answers.
const SEARCH_MAX: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn name() -> Name {
        (Phase::Scheduled, Some("default/stripe/test".to_owned()))
    }

    /// One look from `began` on, of this length, at the server's second.
    fn look(bounds: &Bounds, began: Instant, long: Duration, second: u64) -> i64 {
        let begun = bounds.begin(name(), began);
        let from = begun.from;
        bounds.end(begun, began.plus(long), Timestamp::from_millis(second * 1_000), None);
        from
    }

    fn at(second: u64) -> Instant {
        Instant::default().plus(Duration::from_secs(second))
    }

    #[test]
    fn a_short_look_at_everything_is_made_in_its_place() {
        let bounds = Bounds::default();
        assert_eq!(look(&bounds, at(0), MS, 1_000), 0);
        assert_eq!(look(&bounds, at(4), MS, 1_004), 998_000);
        assert!(bounds.sought(at(4)).is_empty());
        assert_eq!(look(&bounds, at(5), MS, 1_005), 0, "it is time again");
    }

    #[test]
    fn a_long_one_is_a_search_of_its_own_that_only_moves_the_bound_back() {
        let bounds = Bounds::default();
        look(&bounds, at(0), 200 * MS, 1_000);
        // A fiftieth of the time: after ten seconds.
        assert!(bounds.sought(at(9)).is_empty());
        assert_eq!(look(&bounds, at(11), MS, 1_011), 998_000);
        assert_eq!(bounds.sought(at(11)), [(name(), 1_009_000)]);
        assert!(bounds.sought(at(60)).is_empty(), "one at a time");
        // A look that began before the search found something does not move the bound over it.
        let begun = bounds.begin(name(), at(12));
        bounds.searched(&name(), at(11), at(12), Some(500_000));
        bounds.end(begun, at(12), Timestamp::from_millis(1_012_000), None);
        assert_eq!(look(&bounds, at(13), MS, 1_013), 500_000);
        assert_eq!(look(&bounds, at(14), MS, 1_014), 1_011_000);
        // It took a second, and is due again after fifty; it finds nothing, in no time.
        assert!(bounds.sought(at(60)).is_empty());
        assert_eq!(bounds.sought(at(61)).len(), 1);
        bounds.searched(&name(), at(61), at(61), None);
        assert_eq!(look(&bounds, at(62), MS, 1_062), 1_012_000);
        assert_eq!(look(&bounds, at(66), MS, 1_066), 0, "a short one is made in its place again");
    }

    #[test]
    fn a_server_that_was_set_back_is_looked_at_from_the_beginning() {
        let bounds = Bounds::default();
        look(&bounds, at(0), MS, 1_000);
        look(&bounds, at(1), MS, 10);
        assert_eq!(look(&bounds, at(2), MS, 11), 0);
    }
}

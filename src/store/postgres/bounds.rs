//! [`Bounds`]: up to where takers, lookers and purges have seen the indexes of times.
//!
//! Whatever is taken, settled or purged leaves an entry behind in such an index, which no vacuum can remove while a
//! transaction anywhere in the database is older: a report that runs for an hour. From the beginning each time, a taker
//! would read all of them, and more each time.
//!
//! The bound is only what this process remembers. What appears below it (a transaction that committed late, a taker whose
//! own transaction was undone) is found by a look at everything, every few seconds, and less often where that takes long.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Instant, Timestamp};
use crate::operation::record::Phase;
use crate::store::numbers::to_ms;

/// From when on each taker of this process looks.
#[derive(Debug, Default)]
pub(super) struct Bounds(Mutex<HashMap<Name, Bound>>);

/// What is looked for, and for which account. Of what is to be purged, all phases are one: [`ENDED`].
type Name = (Phase, Option<String>);

/// All that has ended, in [`Bounds`].
pub(super) const ENDED: Phase = Phase::Succeeded;

#[derive(Clone, Copy, Debug)]
struct Bound {
    /// What was due before that is taken, as far as this process saw.
    from: i64,
    /// When everything is looked at again.
    whole_at: Instant,
    /// Whether there was more than was asked for.
    is_more: bool,
}

/// A look that is under way.
#[derive(Debug)]
pub(super) struct Begun {
    name: Name,
    began: Instant,
    bound: Option<Bound>,
    is_whole: bool,
    /// What is due before that has been seen.
    pub(super) from: i64,
    /// Whether there was more than was asked for the last time.
    pub(super) is_more: bool,
}

impl Bounds {
    pub(super) fn begin(&self, name: Name, began: Instant) -> Begun {
        let bound = self.0.lock().get(&name).copied();
        let is_whole = bound.is_none_or(|bound| began >= bound.whole_at);
        let from = bound.filter(|_| !is_whole).map_or(0, |bound| bound.from);
        Begun { name, began, bound, is_whole, from, is_more: bound.is_some_and(|bound| bound.is_more) }
    }

    /// The look has ended at `ended`, by the server's clock at `now`. `full_to` says when the last was due of as many as
    /// were asked for; `None` if all were seen.
    pub(super) fn end(&self, begun: Begun, ended: Instant, now: Timestamp, full_to: Option<i64>) {
        let Begun { name, began, bound, is_whole, .. } = begun;
        let whole_at = match bound {
            // The server's clock was set back: what is due by now may lie below the bound.
            Some(bound) if to_ms(now) < bound.from => began,
            Some(bound) if !is_whole => bound.whole_at,
            _ => began.plus(WHOLE_EVERY.max(ended.since(began) * WHOLE_PART)),
        };
        // Whatever was due by then was seen, but for what commits late.
        let from = full_to.unwrap_or_else(|| to_ms(now.minus(OVERLAP)));
        self.0.lock().insert(name, Bound { from, whole_at, is_more: full_to.is_some() });
    }
}

/// A transaction that commits later than this after its own time is found by the look at everything.
const OVERLAP: Duration = Duration::from_secs(2);

/// How often everything is looked at.
const WHOLE_EVERY: Duration = Duration::from_secs(5);

/// A look at everything takes at most one part in so many of the time.
const WHOLE_PART: u32 = 50;

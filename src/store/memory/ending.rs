//! The index by time: which records time will end, and what their end means.

use std::collections::BTreeSet;

use super::Inner;
use crate::clock::Timestamp;
use crate::operation::record::{CLOCKS_DIFFER_MAX, Left, Phase, Record};
use crate::store::seals::Seals;
use crate::store::{Look, Sight, Waiting};

/// By [`Bucket`], the earliest first; of one time, the one that was claimed first. Records by their numbers, which are
/// quicker to compare than their names.
pub(super) type Ending = [BTreeSet<(Timestamp, u64)>; 3];

/// What the end of a record's time means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bucket {
    Lapses,
    Due,
    Expires,
}

impl Bucket {
    /// Where a taker finds what was left so.
    pub(super) const fn of(what: Left) -> Bucket {
        match what {
            Left::Lapsed => Bucket::Lapses,
            Left::Due => Bucket::Due,
        }
    }
}

impl Inner {
    /// What a dispatcher finds.
    pub(super) fn look(&mut self, look: &Look, seals: &Seals) -> Sight {
        self.notes.saw(look.now);
        let now = self.notes.now(look.now);
        Sight {
            waiting: look.accounts.iter().map(|account| self.waiting(account, look, seals)).collect(),
            expired: self.ending[Bucket::Expires as usize].first().is_some_and(|(at, _)| *at <= now),
            rows: None,
        }
    }

    /// What waits for a taker of this account.
    fn waiting(&self, account: &str, look: &Look, seals: &Seals) -> Waiting {
        Waiting {
            due: self.first_of(Left::Due, account, (look.now, look.until), seals),
            lapsed: self.first_of(Left::Lapsed, account, (look.now, look.now), seals).is_some(),
        }
    }

    /// When the first of this account ends, if that is by `until`; at once, if a clock that was wrong put it far off.
    fn first_of(
        &self,
        what: Left,
        account: &str,
        (now, until): (Timestamp, Timestamp),
        seals: &Seals,
    ) -> Option<Timestamp> {
        let ending = &self.ending[Bucket::of(what) as usize];
        let is_ours = |number: &u64| {
            let row = self.rows.get(self.order.get(number)?).filter(|row| row.check(seals).is_ok());
            row.filter(|row| row.record.id.scope.is_reached_by(account))
        };
        let in_time = ending.iter().take_while(|(at, _)| *at <= until);
        let first = in_time.filter(|(_, number)| is_ours(number).is_some()).map(|(at, _)| *at).next();
        let from = now.plus(CLOCKS_DIFFER_MAX);
        // As a take looks for them: among those that end last.
        let far = || ending.iter().rev().take_while(|(at, _)| *at > from).take(FAR_MAX);
        let is_free = |number: &u64| is_ours(number).is_some_and(|row| row.record.is_free(now));
        first
            .filter(|at| *at <= now)
            .or_else(|| far().any(|(_, number)| is_free(number)).then_some(now))
            .or(first)
    }
}

/// When a record's time is over, if it ever is, and what that means. What `waits` for its turn is due at no time.
pub(super) fn ends(record: &Record, waits: bool) -> Option<(Bucket, Timestamp)> {
    let phase = record.phase();
    if waits && phase == Phase::Scheduled {
        return None;
    }
    bucket(phase).zip(record.until())
}

/// Notes when the time of the record with this number ends now, and no more when it ended `before`.
pub(super) fn move_time(
    ending: &mut Ending,
    number: u64,
    before: Option<(Bucket, Timestamp)>,
    now: Option<(Bucket, Timestamp)>,
) {
    if before == now {
        return;
    }
    if let Some((bucket, at)) = before {
        ending[bucket as usize].remove(&(at, number));
    }
    if let Some((bucket, at)) = now {
        ending[bucket as usize].insert((at, number));
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

/// Among how many a look searches for those of a clock that was wrong: a take of the usual size sees as many.
const FAR_MAX: usize = 16;

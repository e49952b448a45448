//! The index by time: which records time will end, and what their end means.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Index, IndexMut};

use super::Inner;
use crate::clock::Timestamp;
use crate::operation::record::take::RecordTakeExt;
use crate::operation::record::{CLOCKS_DIFFER_MAX, Phase, Record};
use crate::store::StoreError;
use crate::store::delivery::{Look, Sight, Waiting};
use crate::store::look::FAR_MAX;
use crate::store::tenants::{Tenants, behind};

/// Times by [`Bucket`], the earliest first; of one time, the record that was claimed first. Records are there by their
/// numbers, which are quicker to compare than their names.
#[derive(Default)]
pub(super) struct Ending {
    times: [Times; 3],
    /// Times in [`Bucket::Due`], by account. An account without any has no entry.
    due_of: BTreeMap<String, Times>,
}

type Times = BTreeSet<(Timestamp, u64)>;

impl Index<usize> for Ending {
    type Output = Times;

    fn index(&self, bucket: usize) -> &Times {
        &self.times[bucket]
    }
}

impl IndexMut<usize> for Ending {
    fn index_mut(&mut self, bucket: usize) -> &mut Times {
        &mut self.times[bucket]
    }
}

impl Ending {
    /// Iterates over due operations of the accounts that this one reaches, one of each in turn.
    pub(super) fn due_in_turn(
        &self,
        account: &str,
        now: Timestamp,
        tenants: &Tenants,
    ) -> impl Iterator<Item = u64> + use<'_> {
        let has_due = |(_, times): &(&String, &Times)| times.first().is_some_and(|(at, _)| *at <= now);
        let all = self.scheduled_of(account).filter(has_due);
        let line = tenants.in_turn(account, all.map(|(tenant, _)| tenant.clone()).collect());
        let due = move |tenant| {
            self.due_of.get(&tenant).map(|times| times.iter().take_while(move |(at, _)| *at <= now))
        };
        let mut line: Vec<_> = line.into_iter().filter_map(due).collect();
        let mut next = 0;
        std::iter::from_fn(move || {
            while !line.is_empty() {
                next %= line.len();
                if let Some((_, number)) = line[next].next() {
                    next += 1;
                    return Some(*number);
                }
                drop(line.remove(next));
            }
            None
        })
    }

    /// Returns the due operations of all accounts that this one reaches, in the order of time.
    pub(super) fn due(&self, account: &str, now: Timestamp, newest_first: bool) -> Vec<(Timestamp, u64)> {
        let all = self.scheduled_of(account);
        let mut due: Vec<_> =
            all.flat_map(|(_, times)| times.iter().take_while(|(at, _)| *at <= now).copied()).collect();
        due.sort_unstable();
        if newest_first {
            due.reverse();
        }
        due
    }

    /// Returns the scheduled operations, by the accounts that this one reaches.
    fn scheduled_of(&self, account: &str) -> impl Iterator<Item = (&String, &Times)> + use<'_> {
        let (after, before) = behind(account);
        let range = (Bound::Excluded(after), Bound::Excluded(before));
        let others = self.due_of.range::<String, _>(range);
        self.due_of.get_key_value(account).into_iter().chain(others)
    }
}

/// Meaning of the end of a record's time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bucket {
    Lapses,
    Due,
    Expires,
}

impl Bucket {
    /// Returns the bucket in which a taker finds operations of this phase; `None` if there are none to take.
    pub(super) const fn of(phase: Phase) -> Option<Bucket> {
        match phase {
            Phase::InProgress => Some(Bucket::Lapses),
            Phase::Scheduled => Some(Bucket::Due),
            Phase::Succeeded | Phase::Refused | Phase::Dead | Phase::Resolved => None,
        }
    }
}

impl Inner {
    /// Returns the pending work of a dispatcher.
    pub(super) fn look(&mut self, look: &Look) -> Result<Sight, StoreError> {
        self.standing.check_new()?;
        self.notes.saw(look.now);
        let now = self.notes.now(look.now);
        Ok(Sight {
            waiting: look.accounts.iter().map(|account| self.waiting(account, look)).collect(),
            expired: self.ending[Bucket::Expires as usize].first().is_some_and(|(at, _)| *at <= now),
            rows: None,
        })
    }

    /// Returns the pending work of a taker of this account.
    fn waiting(&self, account: &str, look: &Look) -> Waiting {
        Waiting {
            due: self.first_of(Bucket::Due, account, (look.now, look.until)),
            lapsed: self.first_of(Bucket::Lapses, account, (look.now, look.now)).is_some(),
        }
    }

    /// Returns the end of the first of this account, if that is by `until`; `now`, if a clock that was wrong put it far
    /// off.
    fn first_of(
        &self,
        bucket: Bucket,
        account: &str,
        (now, until): (Timestamp, Timestamp),
    ) -> Option<Timestamp> {
        let ending = &self.ending[bucket as usize];
        let is_ours = |number: &u64| {
            let row = self.rows.get(self.order.get(number)?);
            row.filter(|row| row.record.id.scope.is_reached_by(account))
        };
        let first_in = |times: &Times| {
            let mut in_time = times.iter().take_while(|(at, _)| *at <= until);
            in_time.find(|(_, number)| is_ours(number).is_some()).map(|(at, _)| *at)
        };
        let first = match bucket {
            // Of its own accounts: another one's backlog is not read through at each look.
            Bucket::Due => self.ending.scheduled_of(account).filter_map(|(_, times)| first_in(times)).min(),
            Bucket::Lapses | Bucket::Expires => first_in(ending),
        };
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

/// Returns the end of a record's time, if it ever ends, and its meaning. An operation that `waits` for its turn is due
/// at no time.
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
    (number, account): (u64, &str),
    before: Option<(Bucket, Timestamp)>,
    now: Option<(Bucket, Timestamp)>,
) {
    if before == now {
        return;
    }
    if let Some((bucket, at)) = before {
        ending[bucket as usize].remove(&(at, number));
        if bucket == Bucket::Due
            && let Some(times) = ending.due_of.get_mut(account)
        {
            times.remove(&(at, number));
            if times.is_empty() {
                ending.due_of.remove(account);
            }
        }
    }
    if let Some((bucket, at)) = now {
        ending[bucket as usize].insert((at, number));
        if bucket == Bucket::Due {
            match ending.due_of.get_mut(account) {
                Some(times) => drop(times.insert((at, number))),
                None => drop(ending.due_of.insert(account.to_owned(), Times::from([(at, number)]))),
            }
        }
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

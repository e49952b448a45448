//! The takeover of operations that no process holds any more: after a crash, or when they are due.
//!
//! One question for both and not two: what differs is the state that is looked for and what the state says of
//! the effect. A taker names the account that it can carry on with, because several clients may share a store.
//!
//! A record that was last moved in the future was moved by a clock that was wrong. Its lease says nothing of when its
//! holder ends. A clock that was a day ahead would keep every process out for a day, and its replay window would then
//! be taken for open. Such a record may be taken at once. How long its lease was is still known, so the process that
//! takes it waits that long before a lookup counts. Not so a call that was left for later and not taken yet: it waits
//! for its time.

use std::sync::Arc;
use std::time::Duration;

use easy_ext::ext;

use super::{CLOCKS_DIFFER_MAX, Phase, Record, State, Wanted};
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::guard::Guard;
use crate::operation::record::wanted::WantedExt;

/// Takeover: the operations to take, and the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// Phase of the operations to take; only those are taken that no process holds any more.
    ///
    /// [`InProgress`](Phase::InProgress) takes lapsed ones: their lease has run out, because the holder died or is too
    /// slow. Their effect is unknown from here on. [`Scheduled`](Phase::Scheduled) takes those that are due. A takeover
    /// of any other phase takes nothing.
    pub phase: Phase,
    /// Account of the taker: only operations that it [reaches](crate::operation::Scope::is_reached_by) are taken,
    /// because another account's secret would send them elsewhere. `None` for any.
    pub account: Option<String>,
    /// Time in the store, as for [`Claim::now`](super::Claim::now).
    pub now: Timestamp,
    /// Length of each lease: after it, another process may take the operation.
    pub lease: Duration,
    /// The taker's longest exchange.
    pub attempt_max: Duration,
    /// The vendor's clock less the taker's, in milliseconds, if it is known.
    pub vendor_clock_ms: Option<i64>,
    /// Process that takes, as for [`Claim::holder`](super::Claim::holder).
    pub holder: Option<Arc<str>>,
    /// Most operations to take: those that have waited longest first; of those that are due, of each account in turn.
    /// Those of a clock that was wrong come after the others. A store looks for them among the `limit` that end last,
    /// and 16 at least.
    pub limit: usize,
    /// Selection among the operations that are due. It has no meaning for lapsed ones.
    pub wanted: Wanted,
}

impl Takeover {
    /// Moves the takeover's time to `now`, the store's own clock.
    #[must_use]
    pub fn rebased(self, now: Timestamp) -> Takeover {
        Takeover { now, ..self }
    }
}

/// The process that takes an operation over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taker<'a> {
    pub now: Timestamp,
    pub lease: Duration,
    pub attempt_max: Duration,
    pub vendor_clock_ms: Option<i64>,
    pub holder: Option<&'a Arc<str>>,
}

impl Record {
    /// The record as the taker holds it, its fence moved by one; `None` if it is not what `take` asks for, or
    /// [waits](Record::waits_for) for its turn.
    pub fn take(&self, take: &Takeover) -> Option<Record> {
        if take.account.as_deref().is_some_and(|account| !self.id.scope.is_reached_by(account)) {
            return None;
        }
        if self.phase() != take.phase || !take.wanted.has(&self.waits(self.until().unwrap_or_default())) {
            return None;
        }
        let Takeover { now, lease, attempt_max, vendor_clock_ms, .. } = *take;
        self.left_to(Taker { now, lease, attempt_max, vendor_clock_ms, holder: take.holder.as_ref() })
    }

    /// Returns the record as taken over, as [`take`](Record::take) does, of any operation that is in progress or
    /// scheduled.
    pub(super) fn left_to(&self, taker: Taker<'_>) -> Option<Record> {
        let now = taker.now;
        match self.state {
            State::InProgress { .. } | State::Scheduled { .. } if !self.is_free(now) => None,
            // The holder may have sent and died before it could say so; its last request may still be on its way.
            State::InProgress { lease_until } => {
                let mut record = self.taken(taker, Guard::LapsedIsUnknown.or(Effect::Unknown, self.effect));
                let ended = self
                    .read_at(lease_until, now)
                    .max(now)
                    .plus(Guard::LongestAttempt.keeps(self.attempt_max));
                record.unknown_since = record.unknown_since.max(Some(ended));
                record.lookups = 0;
                Some(record)
            }
            State::Scheduled { .. } => {
                let mut record = self.taken(taker, self.effect);
                // The vendor's window has not begun, nor what a lookup may find. An adopted operation may have
                // been sent under its first name, although a person resolved it as not applied.
                if self.is_as_enqueued() && self.first_scope.is_none() {
                    (record.claimed_at, record.vendor_clock_ms) = (now, taker.vendor_clock_ms);
                }
                Some(record)
            }
            State::Succeeded { .. } | State::Refused { .. } | State::Dead { .. } => None,
        }
    }

    /// Taken by another process. The request on record stays: what is resent is what was first sent.
    pub(super) fn taken(&self, taker: Taker<'_>, effect: Effect) -> Record {
        let now = taker.now;
        let mut record = self.moved(State::InProgress { lease_until: now.plus(taker.lease) }, now);
        record.fence = self.fence.saturating_add(1);
        record.effect = effect;
        record.holder = taker.holder.cloned();
        // A request of the longest of all holders may still be under way.
        let longest = if effect == Effect::Unknown { self.attempt_max } else { Duration::ZERO };
        record.attempt_max = taker.attempt_max.max(longest);
        record.unknown_since = self.unknown_since.map(|since| {
            // Later than a request that was sent by now can end: a clock that was wrong wrote it.
            let is_possible = since <= now.plus(CLOCKS_DIFFER_MAX).plus(self.attempt_max);
            if is_possible { since } else { self.read_at(since, now) }
        });
        record
    }

    /// Whether no process has held or sent it in this life.
    fn is_as_enqueued(&self) -> bool {
        self.fence == self.first_fence && self.attempts == 0 && self.effect == Effect::None
    }

    /// Whether the clock that last moved the record was ahead of `now` by more than clocks differ.
    pub fn is_of_a_wrong_clock(&self, now: Timestamp) -> bool {
        self.updated_at > now.plus(CLOCKS_DIFFER_MAX)
    }

    /// A time on record, read at `now`: one of a wrong clock is as far from now as it was from the time of its
    /// writing. That time can only have been in the past.
    fn read_at(&self, time: Timestamp, now: Timestamp) -> Timestamp {
        if self.is_of_a_wrong_clock(now) { now.plus(time.since(self.updated_at)) } else { time }
    }
}

/// Methods that only the crates of this workspace call.
#[ext(RecordTakeExt)]
impl Record {
    /// Returns true if a process may take the operation at `now`, if it has not ended and does not wait for its turn.
    ///
    /// A scheduled call keeps its time, whatever clock that time is from: sent too late it is a nuisance, sent before
    /// its time it cannot be taken back.
    pub fn is_free(&self, now: Timestamp) -> bool {
        if self.waits_for().is_some() {
            return false;
        }
        let (until, is_for_later) = match self.state {
            State::InProgress { lease_until } => (lease_until, false),
            State::Scheduled { at } => {
                if Guard::NotBeforeDue.is_out() {
                    return true;
                }
                let is_for_later = self.is_as_enqueued() && at > self.updated_at;
                (at, Guard::LaterKeepsItsTime.keeps(is_for_later))
            }
            State::Succeeded { .. } | State::Refused { .. } | State::Dead { .. } => return false,
        };
        let is_of_a_wrong_clock = || Guard::LeaseOfWrongClock.keeps(self.is_of_a_wrong_clock(now));
        until <= now || (!is_for_later && is_of_a_wrong_clock())
    }
}

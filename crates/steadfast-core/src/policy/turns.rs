//! The shares of live calls and of recovery in one rate limit.
//!
//! First come, first served would starve one of them. A backlog of ten thousand takes all there is for a minute, and
//! each caller is refused meanwhile. A busy service takes what becomes free before a recovered operation comes back
//! to ask. So while both want room, each start puts the other side in credit, in proportion to the shares. The side
//! in credit gets what there is. This is deficit round-robin (Shreedhar and Varghese, "Efficient Fair Queueing Using
//! Deficit Round-Robin", 1995), with one account for the two of them. While one wants nothing, the other may have it
//! all, but recovery leaves a twentieth for a call that comes without notice.
//!
//! Who *wants* is known exactly for recovery, which waits at the gate. A caller is refused and goes: its want lasts
//! for as long as the limit counts starts.
//!
//! Where dispatchers of several processes deliver for one account, the limit is the vendor's and not each process's
//! own. Recovery then has a part of it: the rest beside all live calls together, as far as each process has reported
//! them. It is never less than recovery's share of the limit, divided by the dispatchers. A live call is held back by
//! its own process's limit alone.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::rate::{Rate, RateConfig, Start};
use super::recovery::Part;
use crate::clock::Instant;

#[derive(Debug)]
pub(super) struct Turns {
    calls: u32,
    per: Duration,
    spacing: Duration,
    /// Recovery's own starts, and how many of them this process may make in a period.
    recovered: Rate,
    is_divided: AtomicBool,
    headroom: u32,
    /// Recovery's part of a thousand.
    share: i64,
    /// The most starts that recovery may be owed, and live calls.
    owed_max: (i64, i64),
    /// Starts that recovery is owed, in thousandths; live calls, if negative.
    owed: AtomicI64,
    /// Recovered attempts that wait at the gate.
    waiting: AtomicU32,
    live_wants_until: AtomicU64,
}

impl Turns {
    /// `share` is recovery's.
    pub(super) fn new(rate: &RateConfig, share: f64) -> Turns {
        let calls = rate.calls.max(1);
        let share = (share.clamp(0.0, 1.0) * THOUSAND as f64).round() as i64;
        let owed = |part: i64| ((i64::from(calls) * part / THOUSAND).max(1) + 1) * THOUSAND;
        Turns {
            calls,
            per: rate.per,
            spacing: rate.per / calls,
            recovered: Rate::rarely_used(&RateConfig { burst: None, ..*rate }, Instant::ORIGIN),
            is_divided: AtomicBool::new(false),
            headroom: if calls == 1 { 0 } else { (calls / HEADROOM_PART).max(1) },
            share,
            owed_max: (owed(share), owed(THOUSAND - share)),
            owed: AtomicI64::new(0),
            waiting: AtomicU32::new(0),
            live_wants_until: AtomicU64::new(0),
        }
    }

    /// Sets room aside for a live call's attempt, unless it is recovery's turn.
    ///
    /// # Errors
    ///
    /// When to come back.
    #[inline]
    pub(super) fn admit_live<'a>(&self, rate: &'a Rate, now: Instant) -> Result<Start<'a>, Instant> {
        let admitted = if self.is_free() { rate.reserve(now) } else { self.live_beside_recovery(rate, now) };
        if admitted.is_err() {
            self.live_wants_until.fetch_max(now.plus(self.per).as_nanos(), Ordering::Relaxed);
        }
        admitted
    }

    /// Whether no other call waits for room.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    #[cold]
    fn live_beside_recovery<'a>(&self, rate: &'a Rate, now: Instant) -> Result<Start<'a>, Instant> {
        let owed = self.owed.load(Ordering::Relaxed);
        if owed > 0 && rate.room(now).is_none_or(|room| (i64::from(room) - 1) * THOUSAND < owed) {
            return Err(now.plus(self.spacing));
        }
        let start = rate.reserve(now)?;
        self.credit(self.share);
        Ok(start)
    }

    /// Sets room aside for a recovered attempt, unless it is the live calls' turn.
    ///
    /// # Errors
    ///
    /// When to come back.
    pub(super) fn admit_recovered<'a>(&'a self, rate: &'a Rate, now: Instant) -> Result<Start<'a>, Instant> {
        if self.room_for_recovery(rate, now) == 0 {
            return Err(now.plus(self.spacing));
        }
        let part = self.recovered.reserve(now)?;
        let start = rate.reserve(now)?;
        if self.live_wants(now) || self.owed.load(Ordering::Relaxed) > 0 {
            self.credit(self.share - THOUSAND);
        }
        Ok(start.and(part))
    }

    /// Returns the number of recovered attempts that may start at `now`.
    pub(super) fn room_for_recovery(&self, rate: &Rate, now: Instant) -> u32 {
        let part = self.part_left(now);
        let owed = self.owed.load(Ordering::Relaxed);
        let live_is_owed = self.live_wants(now) && owed < 0;
        let Some(room) = rate.room(now) else { return part.min(u32::from(!live_is_owed)) };
        let left_to_live = match owed {
            1.. => 0,
            _ if live_is_owed => self.headroom.max(owed.unsigned_abs().div_ceil(THOUSAND as u64) as u32),
            _ => self.headroom,
        };
        room.saturating_sub(left_to_live).min(part)
    }

    /// Returns the rest, at `now`, of recovery's part of the limit.
    fn part_left(&self, now: Instant) -> u32 {
        if !self.is_divided.load(Ordering::Relaxed) {
            return u32::MAX;
        }
        self.recovered.room(now).unwrap_or(0)
    }

    /// Refuses if recovery has used its part of the limit up: the parts of other processes are not waited for.
    ///
    /// # Errors
    ///
    /// The time to come back.
    pub(super) fn check_part(&self, now: Instant) -> Result<(), Instant> {
        if self.part_left(now) > 0 { Ok(()) } else { Err(now.plus(self.spacing.max(PART_PAUSE))) }
    }

    /// Shares the limit with the dispatchers of other processes.
    pub(super) fn divide(&self, part: &Part) {
        self.is_divided.store(*part != Part::WHOLE, Ordering::Relaxed);
        self.recovered.allow(part.of(
            self.calls,
            self.headroom,
            (self.per, self.share as f64 / THOUSAND as f64),
        ));
    }

    /// Returns the number of live attempts that have started so far, wrapping.
    pub(super) fn live_started(&self, rate: &Rate) -> u32 {
        rate.started().wrapping_sub(self.recovered.started())
    }

    /// Says that a recovered attempt waits, until the guard is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting)
    }

    fn live_wants(&self, now: Instant) -> bool {
        now.as_nanos() < self.live_wants_until.load(Ordering::Relaxed)
    }

    fn credit(&self, by: i64) {
        let (recovery_max, live_max) = self.owed_max;
        let add = |owed: i64| Some((owed + by).clamp(-live_max, recovery_max));
        // It always adds.
        let _ = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

/// A recovered attempt that waits for room in the rate limit.
#[derive(Debug)]
pub struct Waiting<'a>(&'a AtomicU32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Pause between two looks at a part that is used up. Operations are taken twenty times a second at most.
const PART_PAUSE: Duration = Duration::from_millis(50);

const THOUSAND: i64 = 1_000;

/// Recovery leaves one start in so many for the first live call: the next refusals show how many there are.
const HEADROOM_PART: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// Whether it was admitted; then it starts at once.
    fn starts(admitted: Result<Start<'_>, Instant>, now: Instant) -> bool {
        admitted.map(|mut start| start.begin(now)).is_ok()
    }

    /// Counts the starts of live calls and of recovery in `seconds` if both ask every few milliseconds, each as often
    /// as given.
    fn run(config: RateConfig, share: f64, seconds: u64, (live, recovered): (bool, bool)) -> (u32, u32) {
        let (rate, turns) = (Rate::new(&config, at(0)), Turns::new(&config, share));
        let _waiting = recovered.then(|| turns.wait());
        let mut started = (0, 0);
        for ms in 0..seconds * 1_000 {
            // Live calls ask first, and more often.
            for _ in 0..3 {
                started.0 += u32::from(live && starts(turns.admit_live(&rate, at(ms)), at(ms)));
            }
            started.1 += u32::from(recovered && starts(turns.admit_recovered(&rate, at(ms)), at(ms)));
        }
        started
    }

    #[test]
    fn both_sides_get_their_shares_however_small_the_limit() {
        for calls in [1, 2, 3, 25, 200] {
            for burst in [None, Some(1)] {
                let config = RateConfig { calls, per: SECOND, burst };
                for share in [0.25, 0.5, 0.75] {
                    let (live, recovered) = run(config, share, 100, (true, true));
                    let all = f64::from(live + recovered);
                    assert!(all >= f64::from(calls) * 95.0, "{config:?}: {all} of {}", calls * 100);
                    let has = f64::from(recovered) / all;
                    assert!((has - share).abs() < 0.1, "{config:?}: {has} of {share}");
                }
            }
        }
    }

    #[test]
    fn a_side_alone_has_the_limit_but_for_recoverys_headroom() {
        let config = RateConfig::new(200, SECOND);
        let (live, _) = run(config, 0.5, 10, (true, false));
        assert_eq!(live, 2_000);
        let (_, recovered) = run(config, 0.5, 10, (false, true));
        assert_eq!(recovered, 1_900);
        let (_, recovered) = run(RateConfig::new(1, SECOND), 0.5, 10, (false, true));
        assert_eq!(recovered, 10, "of one there is no part to leave");
    }

    #[test]
    fn a_caller_who_comes_without_notice_is_admitted_beside_a_backlog() {
        let config = RateConfig::new(200, SECOND);
        let (rate, turns) = (Rate::new(&config, at(0)), Turns::new(&config, 0.5));
        let _waiting = turns.wait();
        while starts(turns.admit_recovered(&rate, at(0)), at(0)) {}
        // A twentieth is ten, until what is left is recovery's part of them.
        let admitted = (0..10).filter(|_| starts(turns.admit_live(&rate, at(1)), at(1))).count();
        assert_eq!(admitted, 7);
    }

    #[test]
    fn a_side_that_waits_no_more_holds_the_other_back_no_more() {
        let config = RateConfig::new(1, SECOND);
        let (rate, turns) = (Rate::new(&config, at(0)), Turns::new(&config, 0.5));
        let waiting = turns.wait();
        assert!(starts(turns.admit_live(&rate, at(0)), at(0)));
        assert!(turns.admit_live(&rate, at(1_000)).is_err(), "recovery's turn");
        drop(waiting);
        assert!(starts(turns.admit_live(&rate, at(1_000)), at(1_000)));
    }
}

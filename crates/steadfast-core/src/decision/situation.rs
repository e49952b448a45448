//! The questions that several rules ask of a situation.

use std::time::Duration;

use super::waits::{SLEEP_MAX, spread_over};
use super::{CallEnd, Context, LogFacts, Now, Phase, Planned, Postponed, Progress, RefusedAs, Step, Why};
use crate::clock::Instant;
use crate::effect::Effect;
use crate::guard::Guard;
use crate::operation::record::resend::{Facts, Lookup, Ruling, Window, may_send};
use crate::vendor::SpeaksFor;

/// A call at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) progress: &'a Progress,
    pub(super) now: Now,
    /// A random number from 0 up to 1.
    pub(super) draw: f64,
}

impl Situation<'_> {
    /// Whether the operation may be sent, now: see [`may_send`].
    pub(super) fn ruling(&self) -> Ruling {
        let has_lookup = self.context.lookups_max > 0 && self.progress.has_lookup();
        let lookup = match has_lookup {
            false => Lookup::None,
            true if self.progress.phase().lookups() < self.context.lookups_max => Lookup::NotAsked,
            true => Lookup::CannotTell,
        };
        self.ruling_after(lookup)
    }

    /// The same, with what a lookup has just said.
    pub(super) fn ruling_after(&self, lookup: Lookup) -> Ruling {
        let effect = self.progress.effect();
        // A clean call is spared the clocks.
        let window =
            if effect == Effect::None { Window::None } else { self.progress.window(self.context, self.now) };
        let (repeat, resends_left) = (self.context.repeat, self.progress.resends_left());
        may_send(&Facts { effect, repeat, window, lookup, resends_left })
    }

    /// Whether a definite no to the last attempt is the operation's outcome: no earlier attempt may have taken effect, or
    /// the adapter says that the no speaks for those too. An unkeyed call has no outcome but its last answer, and a safe
    /// method no effect.
    pub(super) fn is_settled_by(&self, speaks_for: SpeaksFor) -> bool {
        self.progress.effect() == Effect::None
            || speaks_for == SpeaksFor::EarlierToo
            || Guard::SpeaksFor.is_out()
            || !self.context.is_operation()
            || self.context.is_safe
    }

    /// End of the settle time. It counts once, from the last send that may have taken effect, also if another process
    /// sent it.
    pub(super) fn settled_at(&self) -> Instant {
        let settle = Guard::SettleTime.keeps(self.context.settle_time);
        match (self.progress.phase(), self.progress.settling()) {
            (Phase::Unknown { since: Some(ours), .. }, _) => ours.plus(settle),
            (_, Some(theirs)) if Guard::SettleOnce.holds() => theirs.over_at(settle),
            _ => self.now.at.plus(settle),
        }
    }

    /// True once the effect has been unknown for a day, or for the retention. Lookups that keep failing are postponed
    /// until then. After that the operation becomes a dead letter: every operation ends in one state, and an operator is
    /// told within a day.
    ///
    /// No lookup failed while no process held the operation. So a process that has just found it tries for an hour first,
    /// unless the operation is older than the retention.
    pub(super) fn is_past_keeping(&self) -> bool {
        let (progress, now) = (self.progress, self.now.at);
        let unknown_for = progress.unknown_for(now);
        let is_tried = match (progress.phase(), progress.settling()) {
            (Phase::Unknown { since: None, .. }, Some(settling)) => settling.known_for(now) >= LOOKUP_GAP_MAX,
            _ => true,
        };
        let is_held = progress.refused_as().is_some_and(RefusedAs::goes_on);
        unknown_for >= self.context.retention || (unknown_for >= LOOKUPS_LAST && !is_held && is_tried)
    }

    /// Until when the vendor asks to be left alone, if that is not over.
    fn left_alone(&self) -> Option<Instant> {
        let until = self.progress.left_alone_until().filter(|until| *until >= self.now.at);
        Guard::NeverEarly.keeps(until)
    }

    /// How much longer the vendor asks to be left alone.
    pub(super) fn asked(&self) -> Duration {
        self.left_alone().map_or(Duration::ZERO, |until| until.since(self.now.at))
    }

    /// Whether the vendor's wait is beyond what a call waits out: over the policy's cap it is for the schedule.
    pub(super) fn is_over_the_cap(&self) -> bool {
        self.asked() > self.context.pause_max
    }

    /// `at`, or when the vendor no longer asks to be left alone. A vendor's wait is a floor: it is never cut, and jitter
    /// only ever comes on top of it.
    pub(super) fn not_early(&self, at: Instant) -> Instant {
        let spread = |until: Instant| until.plus(spread_over(until.since(self.now.at), self.draw));
        self.left_alone().map_or(at, |until| at.max(spread(until)))
    }

    /// The wait where the vendor does not say one: the ladder's first step, never nothing.
    pub(super) fn first_step(&self) -> Duration {
        let first = self.context.backoff.steps.first().copied();
        first.unwrap_or(FALLBACK_STEP).max(Duration::from_millis(1))
    }

    /// Whether recovery leaves the wait until `at` to the schedule.
    pub(super) fn is_too_long_to_sleep(&self, at: Instant) -> bool {
        self.context.is_recovery && at.since(self.now.at) > SLEEP_MAX
    }

    /// Whether the hold lasts for `needed` from now. A call without a key needs none.
    pub(super) fn is_held_for(&self, needed: Duration) -> bool {
        self.progress.lease().is_none_or(|lease| lease.lasts(self.now.at, needed))
    }

    /// Whether the vendor asks to be left alone by now. A call without a key leaves at once.
    pub(super) fn heeds_pause(&self, is_paused: bool) -> bool {
        Guard::PauseAskedAgain.keeps(is_paused && self.context.is_operation())
    }

    /// Waits, with the lease kept for the wait and the attempt after it. Recovery does not wait for long: the operation is
    /// scheduled for that time, and what it occupied is free for another.
    pub(super) fn wait(&self, planned: Planned) -> Step {
        if self.is_too_long_to_sleep(planned.until) {
            return self.postpone(planned.until, Why::Retry);
        }
        let needed = planned.until.since(self.now.at).saturating_add(self.context.attempt_max);
        if self.is_held_for(needed) {
            Step::Wait(planned)
        } else {
            Step::Renew { needed, spends_resend: false, wait: Some(planned) }
        }
    }

    /// Leaves the operation to the schedule, until `at` or until the vendor no longer asks this process to be left alone.
    /// Nothing else keeps a wait beyond the policy's cap, and the process that takes the operation next does not know it.
    pub(super) fn postpone(&self, at: Instant, why: Why) -> Step {
        self.postpone_after(None, at, why)
    }

    /// The same after an attempt, which the ladder gives a wait.
    pub(super) fn postpone_after(&self, rung: Option<Duration>, at: Instant, why: Why) -> Step {
        let is_early = self.progress.left_alone_until().is_some_and(|until| at < until);
        let at = if is_early { self.not_early(at) } else { at };
        Step::Write(CallEnd::Postponed(Postponed { at, why, rung }))
    }

    /// Whose the refusal of credentials is that the operation met; `None` until the log was read.
    pub(super) fn refused_as(&self, log: Option<Option<&LogFacts>>) -> Option<RefusedAs> {
        if self.context.recorded.is_some_and(|recorded| recorded.is_first_take) {
            return Some(RefusedAs::Account);
        }
        let refusals = log?.and_then(|log| log.refusals);
        Some(match refusals.filter(|refusals| refusals.is_answered_since) {
            None => RefusedAs::Account,
            Some(refusals) if refusals.in_a_row > self.context.backoff.steps.len() => RefusedAs::Alone,
            Some(refusals) => RefusedAs::AtTimes { refusals: refusals.in_a_row },
        })
    }
}

/// The wait after `failing_for` without success, a tenth of it. A lookup that fails for a minute is tried again within seconds,
/// and one that fails for a week about a hundred times in all.
pub(super) fn grown(failing_for: Duration) -> Duration {
    (failing_for / 10).min(LOOKUP_GAP_MAX)
}

/// However long it has failed: a vendor that answers again is asked within the hour.
pub const LOOKUP_GAP_MAX: Duration = Duration::from_secs(60 * 60);

/// How long lookups that come to no answer are repeated: a vendor's outage is over within the day, and a person who is
/// told later can do less.
pub(super) const LOOKUPS_LAST: Duration = Duration::from_secs(24 * 3600);

const FALLBACK_STEP: Duration = Duration::from_millis(500);

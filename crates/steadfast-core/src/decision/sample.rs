//! Calls at one moment, for the tables of the rules.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use super::{
    Attempted, CallEnd, Context, Goal, Last, Lease, LogFacts, Now, Observed, Planned, Postponed, Progress,
    Recorded, Settling, Step, TakenOperation, Why, next_step,
};
use crate::clock::{Instant, Timestamp};
use crate::effect::Effect;
use crate::error::{Reason, Refusal};
use crate::operation::record::resend::Repeat;
use crate::operation::record::{Record, RecordExt};
use crate::operation::{Key, OnUnknown, OperationId, Scope};
use crate::policy::gates::Outcome as Health;
use crate::policy::{Backoff, Jitter};
use crate::store::sample::{ATTEMPT, LEASE, claim_at};
use crate::transport::SendErrorKind;
use crate::vendor::{SpeaksFor, Verdict};

/// A call, and the moment at which its next step is asked for.
#[derive(Clone)]
pub(super) struct Sample {
    context: Context<'static>,
    progress: Progress,
    now: Now,
    draw: f64,
}

impl Sample {
    /// A call without a key.
    pub fn plain() -> Sample {
        let progress = Progress::of_call(OnUnknown::Park);
        Sample { context: context(None), progress, now: NOW, draw: 0.0 }
    }

    /// A POST that its caller has claimed, at a vendor without keys and lookups. The ladder has two steps, 0.5 s and 2 s,
    /// the call has a minute, and the lease lasts for 55 s.
    pub fn claimed() -> Sample {
        Sample::held(|_| {})
    }

    /// An operation that recovery took, and that was not sent before.
    pub fn taken() -> Sample {
        Sample::held(|record| record.fence += 1).with(|context| context.is_recovery = true)
    }

    /// An operation that was sent once, and taken over by another caller: it may have taken effect.
    pub fn unknown() -> Sample {
        Sample::unknown_for(Duration::ZERO)
    }

    /// The same, sent so long ago.
    pub fn unknown_for(passed: Duration) -> Sample {
        Sample::held(|record| {
            (record.fence, record.attempts, record.effect) = (2, 1, Effect::Unknown);
            (record.claimed_at, record.unknown_since) =
                (NOW.wall.minus(passed), Some(NOW.wall.minus(passed)));
        })
    }

    /// A call whose record `change` has made another.
    pub fn held(change: impl FnOnce(&mut Record)) -> Sample {
        let id = OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new("k").expect("a key"));
        let mut record = Record::first(claim_at(&id, NOW.wall));
        change(&mut record);
        let recorded = Recorded {
            claimed_at: record.claimed_at,
            attempt_max: record.attempt_max,
            is_first_hold: record.fence == record.first_fence,
            is_first_take: record.fence == record.first_fence + 1 && record.attempts == 0,
            is_accepted: record.fence != record.first_fence,
        };
        let lease = Lease::of(&record, NOW.at.plus(LEASE), Duration::from_secs(10), NOW.at);
        let settling = Settling::of(&record, NOW.at, Some(NOW.wall));
        let progress = Progress::of_record(&record, lease, settling);
        Sample { context: context(Some(recorded)), progress, now: NOW, draw: 0.0 }
    }

    pub fn with(mut self, change: impl FnOnce(&mut Context<'static>)) -> Sample {
        change(&mut self.context);
        self
    }

    pub fn recovered(self) -> Sample {
        self.with(|context| context.is_recovery = true)
    }

    /// At a vendor with a lookup.
    pub fn looked_up(self) -> Sample {
        self.seen(&Observed::Taken(TakenOperation { has_lookup: true, ..TAKEN }))
    }

    /// At a vendor that replays for a day.
    pub fn replayed(self) -> Sample {
        self.with(|context| context.replay_window = Some(Duration::from_secs(24 * 3600)))
    }

    pub fn drawn(self, draw: f64) -> Sample {
        Sample { draw, ..self }
    }

    pub fn later(mut self, passed_ms: u64) -> Sample {
        let passed = Duration::from_millis(passed_ms);
        self.now = Now { wall: self.now.wall.plus(passed), at: self.now.at.plus(passed) };
        self
    }

    /// The machine sleeps, and its monotonic clock with it.
    pub fn slept(mut self, passed_ms: u64) -> Sample {
        self.now.wall = self.now.wall.plus(ms(passed_ms));
        self
    }

    pub fn seen(mut self, observed: &Observed) -> Sample {
        self.progress.observe(&self.context, observed, self.now);
        self
    }

    pub fn did(mut self, step: Step) -> Sample {
        self.progress.follow(&step, self.now);
        self
    }

    pub fn wants(self, goal: Goal) -> Sample {
        self.did(Step::Pursue(goal))
    }

    pub fn last(&self) -> Last {
        self.progress.last()
    }
}

/// Each row: a call, what is observed, and the step after it.
#[track_caller]
pub(super) fn check<const ROWS: usize>(rows: [(Sample, Observed, Step); ROWS]) {
    for (row, (call, observed, step)) in rows.into_iter().enumerate() {
        let call = call.seen(&observed);
        let next = next_step(&call.context, &call.progress, &observed, call.now, call.draw);
        assert_eq!(next, step, "row {row}");
    }
}

fn context(recorded: Option<Recorded>) -> Context<'static> {
    Context {
        recorded,
        is_recovery: false,
        started: NOW.at,
        deadline: at(60_000),
        retries_allowed: true,
        backoff: Cow::Borrowed(&*LADDER),
        attempt_max: ATTEMPT,
        pause_max: Duration::from_secs(30),
        retention: Duration::from_secs(72 * 3600),
        lookups_max: 2,
        repeat: Repeat::Other,
        is_safe: false,
        replay_window: None,
        settle_time: Duration::from_secs(30),
        lists_deleted: true,
        queue_max: Duration::from_secs(5),
    }
}

static LADDER: LazyLock<Backoff> =
    LazyLock::new(|| Backoff::ladder([ms(500), ms(2_000)]).jitter(Jitter::None));

pub(super) const TAKEN: TakenOperation =
    TakenOperation { is_ours: true, is_addressed: true, is_given_up: false, has_lookup: false };

/// Long after the beginning of both clocks.
pub(super) const NOW: Now =
    Now { wall: Timestamp::from_millis(1_700_000_000_000), at: Instant::from_nanos(1_000_000_000_000_000) };

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// So many milliseconds after [`NOW`].
pub(super) fn at(after_ms: u64) -> Instant {
    NOW.at.plus(ms(after_ms))
}

/// An attempt that was answered, without a wait.
pub(super) fn answered(status: u16, verdict: Verdict) -> Attempted {
    Attempted {
        began: NOW.at,
        ended: NOW.at,
        verdict,
        status: Some(status),
        failure: None,
        asked_wait: None,
        has_lookup: false,
        health: Health::Neutral,
        down: None,
        answered_at: None,
    }
}

/// An attempt whose answer did not come.
pub(super) fn lost() -> Attempted {
    let verdict = Verdict::Retry { effect: Effect::Unknown, not_before: None };
    let failure = Some(SendErrorKind::Timeout);
    Attempted { status: None, failure, health: Health::Failure, ..answered(0, verdict) }
}

/// An attempt that the vendor did not take.
pub(super) fn put_off() -> Attempted {
    answered(429, Verdict::Retry { effect: Effect::None, not_before: None })
}

pub(super) fn refused(refusal: Refusal) -> Attempted {
    answered(422, Verdict::Refused { refusal, speaks_for: SpeaksFor::ThisAttempt })
}

/// A log of one attempt that did nothing.
pub(super) fn log() -> LogFacts {
    LogFacts {
        was_in_doubt: false,
        is_last_unknown: false,
        last_ended: None,
        sends: 1,
        refusals: None,
        first_doubt: NOW.wall,
    }
}

pub(super) const fn wait(until: Instant, why: Why, rung_ms: u64) -> Planned {
    Planned { until, why, rung: ms(rung_ms) }
}

pub(super) const fn postponed(at: Instant, why: Why, rung: Option<Duration>) -> Step {
    Step::Write(CallEnd::Postponed(Postponed { at, why, rung }))
}

pub(super) const fn dead_letter(reason: Reason) -> Step {
    Step::Write(CallEnd::DeadLetter(reason))
}

//! What a call under way is made of, and what is known of its operation so far.

use std::time::Duration;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::ext::RecordResendExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::operation::{Facts, LookUp, Repeat, Ruling, Window, may_send};
use steadfast_core::operation::record::Record;
use steadfast_core::policy::{Backoff, Timeouts};
use steadfast_core::transport::{Answer, Request, SendError, SendErrorKind};
use steadfast_core::{AttemptReport, Effect, OnUnknown, Refusal};

use super::credentials::RefusedAs;
use super::hold::Hold;
use super::leaving::Leaving;
use super::outage::Outage;
use super::stream::Aside;
use super::{Engine, Work};

/// One call under way.
pub(super) struct Run<'a> {
    pub(super) engine: &'a Engine,
    pub(super) request: &'a Request,
    /// Boxed: most calls have none, and a record is large.
    pub(super) hold: Option<Box<Hold<'a>>>,
    pub(super) timeout: Timeouts,
    pub(super) started: Instant,
    pub(super) deadline: Instant,
    pub(super) pass_deadline_on: bool,
    /// Attempts over the operation's whole life.
    pub(super) attempts: u32,
    /// Those among them that are no steps of the ladder: see [`outage_of`](Run::outage_of).
    pub(super) spared: u32,
    /// Those that were none in earlier runs, and are not among `attempts`; 0 until they are asked for.
    pub(super) spared_before: u32,
    /// When this run's last attempt ended.
    pub(super) failed_at: Option<Instant>,
    pub(super) phase: Phase,
    /// What to do where the effect stays unknown: as on record, for an operation.
    pub(super) on_unknown: OnUnknown,
    /// How many more sends may be a second effect.
    pub(super) resends_left: u32,
    pub(super) reports: Vec<AttemptReport>,
    /// How many of them went with a write to the record.
    pub(super) reports_written: usize,
    /// Time spent in waits, all told.
    pub(super) waited: Duration,
    pub(super) backoff: &'a Backoff,
    pub(super) retries_allowed: bool,
    /// No caller waits for it.
    pub(super) recovered: bool,
    /// When the process that took it over stops.
    pub(super) leaving: Option<Leaving>,
    /// Attempts and lookups of a recovered operation that were admitted in this run.
    pub(super) starts: u32,
    pub(super) wait_before: Duration,
    /// The latest that the vendor asked this call to wait for.
    pub(super) left_alone_until: Option<Instant>,
    /// Tells a call without a key from all others once it has failed.
    pub(super) number: Option<u64>,
    pub(super) last: Last,
    /// The last attempt was not answered, or with a 5xx: the next one has a new connection.
    pub(super) unanswered: bool,
    /// Whose refusal of credentials the last attempt or lookup met, if it met one.
    pub(super) refused_as: Option<RefusedAs>,
    /// For a call whose reply is streamed.
    pub(super) aside: Option<Box<Aside<'a>>>,
}

/// What the sends so far came to, of whichever run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// None took effect.
    NotApplied,
    /// None took effect: a lookup's miss was taken for proof, which a vendor's word on a duplicate can still shake.
    ProvenAbsent,
    /// One may have.
    Unknown {
        /// When the last such send has arrived if it ever does, if it was this run's; else that is on record.
        since: Option<Instant>,
        /// Lookups that were answered since then, of whichever run.
        look_ups: u32,
    },
}

impl Phase {
    fn of(record: &Record) -> Phase {
        match record.effect {
            Effect::Unknown => {
                Phase::Unknown { since: None, look_ups: Guard::LookUpsOverRuns.keeps(record.look_ups) }
            }
            _ => Phase::NotApplied,
        }
    }

    pub(super) const fn effect(self) -> Effect {
        match self {
            Phase::NotApplied | Phase::ProvenAbsent => Effect::None,
            Phase::Unknown { .. } => Effect::Unknown,
        }
    }

    pub(super) const fn look_ups(self) -> u32 {
        match self {
            Phase::NotApplied | Phase::ProvenAbsent => 0,
            Phase::Unknown { look_ups, .. } => look_ups,
        }
    }
}

/// What the last attempt met, for the error that may come of it.
#[derive(Default)]
pub(super) struct Last {
    pub(super) answer: Option<Answer>,
    /// It was a definite no, to the last attempt alone.
    pub(super) refusal: Option<Refusal>,
    pub(super) failure: Option<SendError>,
    /// Why it was no step of the ladder, if it was none.
    pub(super) outage: Option<Outage>,
}

impl Last {
    pub(super) fn failed_with(&self) -> Option<SendErrorKind> {
        self.failure.as_ref().map(SendError::kind)
    }
}

impl<'a> Run<'a> {
    /// `request` is the one on record, for an operation.
    pub(super) fn new(
        engine: &'a Engine,
        work: &'a Work,
        request: &'a Request,
        hold: Option<Box<Hold<'a>>>,
        started: Instant,
        deadline: Instant,
    ) -> Run<'a> {
        let (backoff, timeout) = (work.backoff(&engine.policy), work.timeout(&engine.policy));
        let hold = hold.map(|hold| hold.for_call_until(deadline));
        let record = hold.as_ref().map(|hold| &hold.record);
        let asked_for = u32::from(work.on_unknown == OnUnknown::Resend);
        let record_effect = record.map_or(Effect::None, |record| record.effect);
        Run {
            engine,
            request,
            attempts: record.map_or(0, |record| record.attempts),
            spared: 0,
            spared_before: 0,
            failed_at: None,
            phase: record.map_or(Phase::NotApplied, Phase::of),
            on_unknown: record.map_or(work.on_unknown, |record| record.on_unknown),
            resends_left: record.map_or(asked_for, |record| record.resends_left),
            hold,
            timeout,
            started,
            deadline,
            pass_deadline_on: work.pass_deadline_on,
            reports: Vec::new(),
            reports_written: 0,
            waited: Duration::ZERO,
            backoff,
            retries_allowed: work.retries_allowed,
            recovered: work.recovered,
            leaving: None,
            starts: 0,
            wait_before: Duration::ZERO,
            left_alone_until: None,
            number: None,
            last: Last::default(),
            unanswered: record_effect == Effect::Unknown,
            refused_as: None,
            aside: None,
        }
    }

    /// Notes what an attempt may have done, and for how long it may still be `queued` on its way. A safe method (RFC 9110, section 9.2.1) does nothing, so that its last
    /// definite answer is the call's, whatever came before it.
    pub(super) fn note(&mut self, effect: Effect, queued: Duration) {
        if effect == Effect::Unknown && !Guard::SafeHasNoEffect.keeps(self.request.method.is_safe()) {
            let ended = self.engine.clock.now().plus(queued);
            self.phase = Phase::Unknown { since: Some(ended), look_ups: 0 };
        }
    }

    /// A lookup was answered.
    pub(super) fn count_look_up(&mut self) {
        if let Phase::Unknown { look_ups, .. } = &mut self.phase {
            *look_ups = look_ups.saturating_add(1);
        }
    }

    /// Whether the operation may be sent, now: see [`may_send`].
    pub(super) fn ruling(&self) -> Ruling {
        // A lookup takes a request to be built, and counts only where nothing else allows the send.
        match self.ruling_after(LookUp::None) {
            allowed @ Ruling::Send(_) => allowed,
            _ => self.ruling_after(self.look_up_so_far()),
        }
    }

    /// The same, with what a lookup has just said.
    pub(super) fn ruling_after(&self, look_up: LookUp) -> Ruling {
        let effect = self.phase.effect();
        may_send(&Facts {
            effect,
            repeat: self.repeat(),
            // A clean call is spared the clocks.
            window: if effect == Effect::None { Window::None } else { self.window() },
            look_up,
            resends_left: self.resends_left,
        })
    }

    fn repeat(&self) -> Repeat {
        let by_http = steadfast_core::vendor::is_idempotent(&self.request.method);
        let by_vendor = self.engine.vendor.is_idempotent(self.request);
        Repeat::chosen(&self.request.method, Guard::RepeatByVendor.or(by_vendor, by_http), self.on_unknown)
    }

    fn look_up_so_far(&self) -> LookUp {
        let look_ups_max = self.engine.policy.look_ups_max;
        if look_ups_max == 0 || !self.has_look_up() {
            return LookUp::None;
        }
        if self.phase.look_ups() < look_ups_max { LookUp::NotAsked } else { LookUp::CannotTell }
    }

    /// Until when the vendor answers a resend from its own record. A call without a key has no window.
    pub(super) fn window(&self) -> Window {
        let engine = self.engine;
        self.window_at(|| (engine.wall(), engine.clock.now()))
    }

    /// The same, at a moment by both clocks.
    pub(super) fn window_at(&self, moment: impl FnOnce() -> (Timestamp, Instant)) -> Window {
        let Some(hold) = &self.hold else { return Window::None };
        let replay = self.engine.vendor.replay_window(self.request);
        let (wall, now) = moment();
        hold.record.window(replay, wall, Some(hold.measured(now)))
    }
}

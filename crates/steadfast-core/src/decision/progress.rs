//! The knowledge of a call so far.

use std::mem;
use std::time::Duration;

use super::outage::{self, Outage, Spared};
use super::{
    AttemptOutcome, Attempted, CallEnd, Concluded, Context, Errand, Goal, Lease, LogFacts, LogQuestion,
    LookedUp, Now, Observed, Planned, Purpose, RefusedAs, Settling, Step, Why, meets_refusal,
};
use crate::clock::{Instant, Timestamp};
use crate::effect::Effect;
use crate::error::Refusal;
use crate::guard::Guard;
use crate::operation::OnUnknown;
use crate::operation::record::Record;
use crate::operation::record::resend::{Sent, Window, window};
use crate::transport::SendErrorKind;

/// The state of one call under way. It changes by [`observe`](Progress::observe) and [`follow`](Progress::follow) alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    goal: Goal,
    phase: Phase,
    /// `None` for a call without a key.
    lease: Option<Lease>,
    /// Last write to the record.
    updated_at: Timestamp,
    /// End of the last send of unknown effect, as recorded.
    unknown_since: Option<Timestamp>,
    /// The last send of unknown effect before this hold; `None` if there was none.
    settling: Option<Settling>,
    has_lookup: bool,
    /// Attempts over the operation's whole life.
    attempts: u32,
    /// Those among them that are no steps of the ladder.
    spared: u32,
    /// Those that were none in earlier runs, and are not among `attempts`; 0 until the log was read.
    spared_before: u32,
    /// `attempts` at the beginning of this run.
    recorded_attempts: u32,
    resends_left: u32,
    /// End of this run's last attempt.
    attempted_at: Option<Instant>,
    last: Last,
    reading: LogQuestion,
    /// Set while the last attempt or lookup met refused credentials.
    refused_as: Option<RefusedAs>,
    /// The last attempt was not answered, or with a 5xx: the next one has a new connection.
    is_unanswered: bool,
    /// Attempts and lookups of this run that the gates let through.
    admitted: u32,
    planned: Option<Planned>,
    /// Length of the wait under way.
    wait: Duration,
    has_waited: bool,
    waited: Duration,
    /// The ladder's last wait.
    rung: Duration,
    /// The latest that the vendor asked this call to wait for.
    left_alone_until: Option<Instant>,
    pages: u32,
    ending: Option<CallEnd>,
    /// When the write of the ending began, or the look at the record after it.
    stored_at: Option<Timestamp>,
}

/// The last attempt and lookup of this run, as far as a later step asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Last {
    /// The attempt; `None` before the first.
    pub attempted: Option<Attempted>,
    /// The last page of a lookup; `None` before the first.
    pub looked: Option<LookedUp>,
    /// True until the log says whether it was a step of the ladder.
    pub is_open: bool,
    /// Set if it was a definite no to that attempt alone.
    pub refusal: Option<Refusal>,
    /// Set if it was no step of the ladder.
    pub outage: Option<Outage>,
}

/// The effect of all sends so far, of whichever run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// None took effect.
    NotApplied,
    /// None took effect: a lookup's miss was taken for proof, which a vendor's word on a duplicate can still shake.
    ProvenAbsent,
    /// One may have.
    Unknown {
        /// When the last such send has arrived if it ever does; `None` if it was an earlier run's.
        since: Option<Instant>,
        /// Lookups that were answered since then, of whichever run.
        lookups: u32,
    },
}

impl Phase {
    /// Lookups that were answered since the effect is unknown.
    pub const fn lookups(self) -> u32 {
        match self {
            Phase::NotApplied | Phase::ProvenAbsent => 0,
            Phase::Unknown { lookups, .. } => lookups,
        }
    }
}

impl Progress {
    /// The progress of a call without a key.
    pub fn of_call(on_unknown: OnUnknown) -> Progress {
        Progress {
            goal: Goal::Send(Errand::Send),
            phase: Phase::NotApplied,
            lease: None,
            updated_at: Timestamp::from_millis(0),
            unknown_since: None,
            settling: None,
            has_lookup: false,
            attempts: 0,
            spared: 0,
            spared_before: 0,
            recorded_attempts: 0,
            resends_left: u32::from(on_unknown == OnUnknown::Resend),
            attempted_at: None,
            reading: LogQuestion::Resume,
            last: Last::default(),
            refused_as: None,
            is_unanswered: false,
            admitted: 0,
            planned: None,
            wait: Duration::ZERO,
            has_waited: false,
            waited: Duration::ZERO,
            rung: Duration::ZERO,
            left_alone_until: None,
            pages: 0,
            ending: None,
            stored_at: None,
        }
    }

    /// The progress of an operation that is held under a lease.
    pub fn of_record(record: &Record, lease: Lease, settling: Option<Settling>) -> Progress {
        let phase = match record.effect {
            Effect::Unknown => {
                Phase::Unknown { since: None, lookups: Guard::LookupsOverRuns.keeps(record.lookups) }
            }
            Effect::None | Effect::Applied => Phase::NotApplied,
        };
        Progress {
            phase,
            lease: Some(lease),
            updated_at: record.updated_at,
            unknown_since: record.unknown_since,
            settling,
            attempts: record.attempts,
            recorded_attempts: record.attempts,
            resends_left: record.resends_left,
            is_unanswered: record.effect == Effect::Unknown,
            ..Progress::of_call(record.on_unknown)
        }
    }

    /// Notes the result of a step.
    pub fn observe(&mut self, context: &Context<'_>, observed: &Observed, now: Now) {
        match observed {
            Observed::Taken(taken) => {
                self.goal = Goal::Resume;
                self.has_lookup = taken.has_lookup;
                self.waited = now.at.since(context.started);
            }
            Observed::Claimed { admitted_at, .. } => {
                self.admitted = 1;
                self.waited = admitted_at.since(context.started);
            }
            Observed::Admitted { .. } => self.admitted = self.admitted.saturating_add(1),
            Observed::Renewed { until, updated_at, .. } => {
                self.updated_at = *updated_at;
                if let Some(lease) = &mut self.lease {
                    lease.renew(*until);
                }
            }
            Observed::Woken => {
                self.has_waited = true;
                self.waited = self.waited.saturating_add(self.wait);
            }
            Observed::Attempted(attempted) => self.observe_attempt(context, attempted, now),
            Observed::Log(log) => self.observe_log(log.as_ref(), now),
            Observed::LookedUp { looked, asked_wait, ended } => {
                self.note_wait(*asked_wait, *ended);
                self.observe_lookup(*looked);
            }
            Observed::Pursued
            | Observed::Charged { .. }
            | Observed::HeldBack { .. }
            | Observed::Stopping { .. }
            | Observed::CredentialsNoted
            | Observed::Written { .. }
            | Observed::Reread { .. }
            | Observed::Failed => {}
        }
    }

    fn observe_attempt(&mut self, context: &Context<'_>, attempted: &Attempted, now: Now) {
        let spared = outage::of(context, self, attempted, now);
        self.attempts = self.attempts.saturating_add(1);
        self.attempted_at = Some(attempted.ended);
        self.has_lookup = attempted.has_lookup;
        self.is_unanswered = match (attempted.status, attempted.failure) {
            (Some(status), _) => status >= 500,
            // What was not processed came over a connection that is closing. A host without ports needs those it has.
            (None, failure) => !matches!(failure, Some(SendErrorKind::NotProcessed | SendErrorKind::Local)),
        };
        self.note_wait(attempted.asked_wait, attempted.ended);
        self.refused_as = None;
        self.last = Last { attempted: Some(*attempted), ..Last::default() };
        match attempted.outcome() {
            AttemptOutcome::Done { .. } => {}
            AttemptOutcome::Refused { refusal, .. } => {
                let is_no = refusal != Refusal::Duplicate
                    && !meets_refusal(context, &attempted.verdict, attempted.status);
                self.last.refusal = Some(refusal).filter(|_| is_no);
            }
            AttemptOutcome::Retry { effect } => {
                self.note_effect(context, effect, attempted);
                match spared {
                    Spared::Yes(outage) => self.spare(Some(outage)),
                    Spared::ByLog => self.last.is_open = true,
                    Spared::No => {}
                }
            }
            AttemptOutcome::Unknown => self.note_effect(context, Effect::Unknown, attempted),
        }
    }

    fn observe_log(&mut self, log: Option<&LogFacts>, now: Now) {
        if self.reading == LogQuestion::Miss && !self.believes_miss(log, now) {
            self.last.looked = Some(LookedUp::CannotTell);
        }
        let is_open = mem::take(&mut self.last.is_open);
        if let (true, Some(log), Some(attempted)) = (is_open, log, self.last.attempted) {
            self.spared_before = log.sends.saturating_sub(self.recorded_attempts);
            if let Some(outage) = outage::by_log(log, &attempted, now) {
                self.spare(Some(outage));
            }
        }
    }

    fn observe_lookup(&mut self, looked: LookedUp) {
        (self.refused_as, self.last.looked) = (None, Some(looked));
        match (looked, &mut self.phase) {
            (LookedUp::More, _) => self.pages = self.pages.saturating_add(1),
            (looked, Phase::Unknown { lookups, .. }) if looked.is_answered() => {
                *lookups = lookups.saturating_add(1);
            }
            _ => {}
        }
    }

    /// Notes the effect of an attempt, and that it may still be on its way. An earlier one may be so for longer: what was
    /// queued arrives after what is answered at once. A safe method does nothing, so that its last definite answer is the
    /// call's, whatever came before it.
    fn note_effect(&mut self, context: &Context<'_>, effect: Effect, attempted: &Attempted) {
        if effect == Effect::Unknown && !Guard::SafeHasNoEffect.keeps(context.is_safe) {
            let queued = if attempted.status.is_some() { Duration::ZERO } else { context.queue_max };
            self.doubt(attempted.ended.plus(queued));
        }
    }

    /// The effect is unknown, anew: of a send that has arrived by `since`, or by when an earlier one has.
    fn doubt(&mut self, since: Instant) {
        let earlier = match (self.phase, self.settling) {
            (Phase::Unknown { since: Some(ours), .. }, _) => ours,
            (Phase::Unknown { .. }, Some(theirs)) => theirs.over_at(Duration::ZERO),
            _ => Instant::ORIGIN,
        };
        self.phase = Phase::Unknown { since: Some(since.max(earlier)), lookups: 0 };
    }

    /// Notes a wait that the vendor asks for, in an answer to an attempt or a lookup that came at `ended`.
    fn note_wait(&mut self, asked: Option<Duration>, ended: Instant) {
        self.left_alone_until = self.left_alone_until.max(asked.map(|asked| ended.plus(asked)));
    }

    fn spare(&mut self, outage: Option<Outage>) {
        self.spared = self.spared.saturating_add(1);
        self.last.outage = outage;
    }

    /// Notes a step that is about to be carried out.
    pub fn follow(&mut self, step: &Step, now: Now) {
        match *step {
            Step::Pursue(goal) => self.pursue(goal, now),
            Step::ReadLog(reading) => self.reading = reading,
            Step::Charge(planned) => self.planned = Some(planned),
            Step::Admit(errand) => {
                self.planned = None;
                if errand != Errand::Lookup {
                    self.goal = Goal::Send(errand);
                }
            }
            Step::Renew { wait, .. } => self.planned = wait,
            Step::Wait(planned) => {
                self.planned = Some(planned);
                self.wait = planned.until.since(now.at);
                if planned.why == Why::Retry {
                    self.rung = planned.rung;
                }
            }
            Step::Send if self.goal == Goal::Send(Errand::SendAtRisk) => {
                self.resends_left = self.after_resend();
            }
            Step::NoteCredentials(refused_as) => {
                self.refused_as = Some(refused_as);
                if refused_as.goes_on() && !matches!(self.goal, Goal::Lookup(_)) {
                    self.spare(self.last.outage);
                }
            }
            Step::Write(ending) => {
                (self.ending, self.stored_at) = (Some(ending), Some(now.wall));
                if matches!(ending, CallEnd::Refused(_)) && self.lease.is_some() {
                    self.phase = Phase::NotApplied;
                }
            }
            Step::Reread => self.stored_at = Some(now.wall),
            Step::Send | Step::Lookup | Step::Tell(_) => {}
        }
    }

    fn pursue(&mut self, goal: Goal, now: Now) {
        // What may be repeated is on record as used before it leaves, and is used when it leaves.
        let is_put_off = goal == self.goal && goal == Goal::Send(Errand::SendAtRisk);
        if is_put_off && Guard::PutOffIsNotUsed.is_out() {
            self.resends_left = self.after_resend();
        }
        match goal {
            // The vendor holds such a resource, although a lookup had not shown it: the miss may have come too early and
            // the resource be our own first send's. Another miss is no proof now.
            Goal::Lookup(search)
                if search.purpose == Purpose::Duplicate && !matches!(self.goal, Goal::Lookup(_)) =>
            {
                self.doubt(now.at);
            }
            Goal::Conclude { purpose, concluded: Concluded::Absent } if purpose != Purpose::Duplicate => {
                self.phase = Phase::ProvenAbsent;
            }
            _ => {}
        }
        self.pages = 0;
        self.goal = goal;
    }

    /// Sends left that may be a second effect, after the next one.
    pub(super) fn after_resend(&self) -> u32 {
        self.resends_left.saturating_sub(Guard::ResendCounted.keeps(1))
    }

    /// Whether a miss proves that there is no effect. Where the vendor does not list what was deleted, it proves nothing
    /// later than an hour after the first send in doubt. A log that cannot be read excludes nothing.
    fn believes_miss(&self, log: Option<&LogFacts>, now: Now) -> bool {
        let Some(log) = log else { return false };
        let unknown_for = self.unknown_for(now.at).max(now.wall.since(log.first_doubt));
        unknown_for <= MISS_LAST
    }

    /// Until when the vendor answers a resend from its own record. A call without a key has no window.
    pub fn window(&self, context: &Context<'_>, now: Now) -> Window {
        let (Some(recorded), Some(lease)) = (context.recorded, self.lease()) else { return Window::None };
        let sent = Sent {
            claimed_at: recorded.claimed_at,
            updated_at: self.updated_at(),
            now: now.wall,
            measured: Some(lease.measured(now.at)),
            attempt_max: recorded.attempt_max,
        };
        window(context.replay_window, &sent)
    }

    /// How long the effect has been unknown: since this run's own last such send, or an earlier one.
    pub fn unknown_for(&self, now: Instant) -> Duration {
        match self.phase {
            Phase::Unknown { since: Some(ours), .. } => now.since(ours),
            _ => self.settling.map_or(Duration::ZERO, |settling| settling.unknown_for(now)),
        }
    }

    /// Attempts that are steps of the ladder.
    pub const fn steps_taken(&self) -> u32 {
        self.attempts.saturating_sub(self.spared)
    }

    /// Effect of all sends together.
    pub const fn effect(&self) -> Effect {
        match self.phase {
            Phase::NotApplied | Phase::ProvenAbsent => Effect::None,
            Phase::Unknown { .. } => Effect::Unknown,
        }
    }

    /// The ending that was decided on; `None` while there is none.
    pub const fn ending(&self) -> Option<CallEnd> {
        self.ending
    }
}

macro_rules! readers {
    ($($(#[$doc:meta])+ $name:ident: $type:ty,)+) => {
        impl Progress {
            $($(#[$doc])+
            pub const fn $name(&self) -> $type {
                self.$name
            })+
        }
    };
}

readers! {
    /// The aim of the present step.
    goal: Goal,
    /// The effect of all sends so far.
    phase: Phase,
    /// The lease; `None` for a call without a key.
    lease: Option<Lease>,
    /// Last write to the record.
    updated_at: Timestamp,
    /// End of the last send of unknown effect, as recorded.
    unknown_since: Option<Timestamp>,
    /// The last send of unknown effect before this hold.
    settling: Option<Settling>,
    /// Whether the vendor has a lookup for the operation.
    has_lookup: bool,
    /// Attempts over the operation's whole life.
    attempts: u32,
    /// Attempts of earlier runs that were no steps of the ladder.
    spared_before: u32,
    /// Sends left that may be a second effect.
    resends_left: u32,
    /// End of this run's last attempt.
    attempted_at: Option<Instant>,
    /// Set while the last attempt or lookup met refused credentials.
    refused_as: Option<RefusedAs>,
    /// Whether the next exchange has a new connection.
    is_unanswered: bool,
    /// Attempts and lookups of this run that the gates let through.
    admitted: u32,
    /// The wait that is decided on.
    planned: Option<Planned>,
    /// Whether this run has waited.
    has_waited: bool,
    /// Time spent in waits.
    waited: Duration,
    /// The ladder's last wait.
    rung: Duration,
    /// The latest that the vendor asked this call to wait for.
    left_alone_until: Option<Instant>,
    /// Pages of the lookup that were answered.
    pages: u32,
    /// The last attempt.
    last: Last,
    /// The reason for which the log is read.
    reading: LogQuestion,
    /// When the write of the ending began, or the look at the record after it, by the wall clock.
    stored_at: Option<Timestamp>,
}

/// How long after a send a miss proves that nothing was made, where what is deleted is not listed. Staff who delete what
/// was made a moment ago are rare, and later on they are not.
const MISS_LAST: Duration = Duration::from_secs(60 * 60);

//! The world around the decision: a vendor, a record, time, and the one run that goes on.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::attempt::{LOOKUP, report};
use steadfast_core::internal::decision::{
    CallEnd, CallerAnswer, Context, Evidence, Lease, LogFacts, LogQuestion, LookedUp, Moment, Now, Observed,
    Progress, Recorded, Settling, Step, TakenOperation, next_step,
};
use steadfast_core::internal::ext::RecordExt as _;
use steadfast_core::internal::operation::Repeat;
use steadfast_core::operation::record::{Claim, Record, State, Takeover, Transition};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::policy::{Backoff, Jitter};
use steadfast_core::{AttemptReport, Effect, OnUnknown, Refusal};
use support::commands;

/// A vendor's way with a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Replays,
    ReplaysAndLooksUp,
    LooksUp,
    Neither,
    Idempotent,
}

pub const KINDS: [Kind; 5] =
    [Kind::Replays, Kind::ReplaysAndLooksUp, Kind::LooksUp, Kind::Neither, Kind::Idempotent];

/// How the operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Its caller claims it.
    Claimed,
    /// It is left to recovery.
    Enqueued,
    /// It is a call without a key.
    Plain,
}

#[derive(Clone, Copy, Debug)]
pub struct Premise {
    pub kind: Kind,
    pub begins: Begins,
    /// Its caller accepts one second effect.
    pub resends: bool,
}

pub const ATTEMPT: Duration = Duration::from_secs(20);
pub const MARGIN: Duration = Duration::from_secs(10);
/// Within the connection's queue a request is late by that, and at the vendor by this; its index lags. Lag and lateness
/// together are the settle time, and not a second less.
pub const QUEUE: Duration = Duration::from_secs(5);
pub const LATE: Duration = Duration::from_secs(10);
const LAG: Duration = Duration::from_secs(20);
pub const WINDOW: Duration = Duration::from_secs(24 * 3600);
pub const HOUR: Duration = Duration::from_secs(3600);
const LOOKUPS_MAX: u32 = 2;

/// One rung: a ladder ends after two failures.
static LADDER: LazyLock<Backoff> =
    LazyLock::new(|| Backoff::ladder([Duration::from_secs(2)]).jitter(Jitter::None));

#[derive(Clone)]
pub struct World {
    pub setup: Premise,
    /// True time.
    pub at: Instant,
    /// The requests that the vendor has executed, and what it refused and keeps under the key.
    pub ledger: Vec<Arrival>,
    /// When each request that is on its way arrives.
    pub flights: Vec<Instant>,
    pub record: Option<Arc<Record>>,
    /// The operation's log.
    pub lines: Vec<AttemptReport>,
    pub run: Option<UnderWay>,
    /// A process that stands still while another one carries on.
    pub asleep: Option<Box<Asleep>>,
    /// Until when the vendor asks to be left alone.
    pub paused_until: Instant,
    /// Lookups that were answered since the last send.
    pub lookups: u32,
    /// A lookup that was true missed what is there, in breach of the settle time.
    pub is_broken_word: bool,
    /// How much may still go wrong.
    pub troubles: u8,
    pub has_slept: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    at: Instant,
    is_applied: bool,
}

/// One run of the decision. Between two steps it has the step that comes next.
#[derive(Clone)]
pub struct UnderWay {
    pub context: Context<'static>,
    pub progress: Progress,
    pub fence: u64,
    /// How far its own clock is behind: the machine slept.
    pub slept: Duration,
    pub step: Step,
    pub lines: Vec<AttemptReport>,
    /// A retry was paid for.
    pub is_paid: bool,
    /// Until when its process lets nothing through, because the vendor asked for that.
    pub paused_until: Instant,
    taken: TakenOperation,
}

#[derive(Clone)]
pub struct Asleep {
    pub run: UnderWay,
    pub observed: Observed,
    pub since: Instant,
    /// Its monotonic clock stands still too.
    pub is_machine: bool,
    pub others_ran: bool,
}

/// How an operation that is free is taken.
#[derive(Clone, Copy, Debug)]
pub struct Take {
    pub is_recovery: bool,
    pub taken: TakenOperation,
    pub at: Instant,
}

/// The vendor's answer to a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    Done { replayed: bool },
    Refused,
}

impl World {
    pub fn new(kind: Kind, begins: Begins, resends: bool, troubles: u8) -> World {
        let at = Instant::from_nanos(1_000_000_000_000_000);
        let mut world = World {
            setup: Premise { kind, begins, resends },
            at,
            ledger: Vec::new(),
            flights: Vec::new(),
            record: None,
            lines: Vec::new(),
            run: None,
            asleep: None,
            paused_until: at,
            lookups: 0,
            is_broken_word: false,
            troubles,
            has_slept: false,
        };
        let on_unknown = if resends { OnUnknown::Resend } else { OnUnknown::ByMethod };
        if begins != Begins::Plain {
            let id = OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new("k").expect("a key"));
            let url = "https://vendor.test/x".parse().expect("a URL");
            let request = steadfast_core::transport::Request::new(http::Method::POST, url);
            let due = (begins == Begins::Enqueued).then(|| wall(at));
            let claim = commands::claim(&id, request, wall(at));
            let claim =
                Claim { due, on_unknown, attempt_max: ATTEMPT + QUEUE, lease: ATTEMPT + MARGIN, ..claim };
            world.record = Some(Arc::new(Record::first(claim)));
        }
        if begins != Begins::Enqueued {
            let observed = Observed::Claimed { admitted_at: at, is_paused: false };
            world.begin(false, TAKEN, on_unknown);
            world = world.hear(&observed).expect("a send");
        }
        world
    }

    pub fn now(&self) -> Now {
        let slept = self.run.as_ref().map_or(Duration::ZERO, |run| run.slept);
        Now { wall: wall(self.at), at: before(self.at, slept) }
    }

    /// Lets time pass: what is on its way arrives.
    pub fn advance(&mut self, to: Instant) {
        let to = to.max(self.at);
        let mut arrived: Vec<_> = self.flights.extract_if(.., |flight| *flight <= to).collect();
        arrived.sort();
        for at in arrived {
            self.arrive(at, false);
        }
        self.at = to;
    }

    /// The vendor executes what arrives, or answers it from its record.
    pub fn arrive(&mut self, at: Instant, is_refused: bool) -> Reaction {
        let keeps =
            matches!(self.setup.kind, Kind::Replays | Kind::ReplaysAndLooksUp) && self.record.is_some();
        let kept = self.ledger.iter().find(|entry| keeps && at.since(entry.at) < WINDOW);
        match kept {
            Some(entry) if entry.is_applied => Reaction::Done { replayed: true },
            Some(_) => Reaction::Refused,
            None if is_refused => {
                if keeps {
                    self.ledger.push(Arrival { at, is_applied: false });
                }
                Reaction::Refused
            }
            None => {
                if self.setup.kind != Kind::Idempotent || self.effects() == 0 {
                    self.ledger.push(Arrival { at, is_applied: true });
                }
                Reaction::Done { replayed: false }
            }
        }
    }

    pub fn effects(&self) -> u32 {
        self.ledger.iter().filter(|entry| entry.is_applied).count() as u32
    }

    /// Whether a lookup shows an effect by now.
    pub fn is_listed(&self) -> bool {
        self.ledger.iter().any(|entry| entry.is_applied && entry.at.plus(LAG) <= self.at)
    }

    /// Whether an effect is old enough for staff to have deleted it.
    pub fn may_be_deleted(&self) -> bool {
        self.ledger.iter().all(|entry| self.at.since(entry.at) > HOUR)
    }

    /// Whether there is no effect, and none on its way.
    fn is_without_effect(&self) -> bool {
        let mut later = self.clone();
        later.advance(self.flights.iter().copied().max().unwrap_or(self.at));
        later.effects() == 0
    }

    /// The run begins. Its part of the world is on record.
    fn begin(&mut self, is_recovery: bool, taken: TakenOperation, on_unknown: OnUnknown) {
        let now = Now { wall: wall(self.at), at: self.at };
        let kind = self.setup.kind;
        let recorded = self.record.as_deref().map(|record| Recorded {
            claimed_at: record.claimed_at,
            attempt_max: record.attempt_max,
            is_first_hold: record.fence == record.first_fence,
            is_first_take: record.fence == record.first_fence + 1 && record.attempts == 0,
            is_accepted: record.fence != record.first_fence,
        });
        let context = Context {
            recorded,
            is_recovery,
            started: now.at,
            deadline: now.at.plus(Duration::from_secs(if is_recovery { 120 } else { 60 })),
            retries_allowed: true,
            backoff: Cow::Borrowed(&*LADDER),
            attempt_max: ATTEMPT,
            pause_max: Duration::from_secs(60),
            retention: 72 * HOUR,
            lookups_max: LOOKUPS_MAX,
            repeat: if kind == Kind::Idempotent { Repeat::Idempotent } else { Repeat::Other },
            is_safe: false,
            replay_window: matches!(kind, Kind::Replays | Kind::ReplaysAndLooksUp).then_some(WINDOW),
            settle_time: LAG + LATE,
            lists_deleted: kind == Kind::ReplaysAndLooksUp,
            queue_max: QUEUE,
        };
        let progress = match self.record.clone() {
            None => Progress::of_call(on_unknown),
            Some(record) => {
                let lease = Lease::of(&record, now.at.plus(ATTEMPT + MARGIN), MARGIN, now.at);
                let settling = Settling::of(&record, now.at, Some(now.wall));
                // All clocks are right: what the record says is what its process measured.
                let measured = |settling: Settling| {
                    let unknown_for = now.wall.since(record.unknown_since.unwrap_or(now.wall));
                    let late = record.unknown_since.map_or(Duration::ZERO, |since| since.since(now.wall));
                    let ended = before(now.at.plus(late), unknown_for);
                    let ended = Moment::of(ended).min(settling.ended);
                    Settling { ended, unknown_for, known_for: unknown_for, ..settling }
                };
                let settling = settling.map(measured);
                Progress::of_record(&record, lease, settling)
            }
        };
        let fence = self.record.as_ref().map_or(0, |record| record.fence);
        let (slept, step, lines) = (Duration::ZERO, Step::Reread, Vec::new());
        let (is_paid, paused_until) = (false, self.at);
        self.run =
            Some(UnderWay { context, progress, fence, slept, step, lines, is_paid, paused_until, taken });
    }

    /// A process takes the operation.
    pub fn take(mut self, take: Take) -> Result<World, &'static str> {
        self.advance(take.at);
        let Some(record) = &self.record else { return Err("nothing to take") };
        let has_lapsed = matches!(record.state, State::InProgress { .. });
        let command = commands::takeover(record.phase(), wall(self.at));
        let command = Takeover { lease: ATTEMPT + MARGIN, attempt_max: ATTEMPT + QUEUE, ..command };
        let Some(record) = record.take(&command) else {
            return Err("an operation that is free is not taken");
        };
        if has_lapsed {
            self.lookups = 0;
        }
        self.record = Some(Arc::new(record));
        self.begin(take.is_recovery, take.taken, OnUnknown::ByMethod);
        self.hear(&Observed::Taken(take.taken))
    }

    /// A write of the run; `None` if the store declines it.
    pub fn write(&mut self, to: State, is_spent: bool) -> Option<()> {
        let now = self.now();
        let (run, record) = (self.run.as_mut()?, self.record.clone()?);
        let evidence = Evidence::of(&run.context, &run.progress, is_spent, now);
        let transition = Transition {
            fence: run.fence,
            now: now.wall,
            attempts: evidence.attempts,
            effect: evidence.effect,
            unknown_since: evidence.unknown_since,
            lookups: evidence.lookups,
            resends_left: evidence.resends_left,
            to,
            reports: Vec::new(),
        };
        self.lines.append(&mut run.lines);
        let written = record.apply(transition).ok()?;
        self.record = Some(Arc::new(written));
        Some(())
    }

    /// The log as the run reads it.
    pub fn log(&self, is_answered_since: bool) -> Option<LogFacts> {
        let claimed_at = self.record.as_ref()?.claimed_at;
        let mut facts = LogFacts::of(&self.lines, &self.run.as_ref()?.lines, claimed_at);
        if let Some(refusals) = &mut facts.refusals {
            refusals.is_answered_since = is_answered_since;
        }
        Some(facts)
    }

    /// Leaves a line on the run's log, of what began so long ago.
    pub fn leave_line(&mut self, verdict: &str, effect: Effect, status: Option<u16>, latency: Duration) {
        if let Some(run) = &mut self.run {
            let mut line = report(1, wall(self.at).minus(latency), verdict, effect);
            (line.status, line.latency) = (status, latency);
            run.lines.push(line);
        }
    }

    /// The run hears what came of its step, and decides on the next.
    pub fn hear(mut self, observed: &Observed) -> Result<World, &'static str> {
        let now = self.now();
        let Some(run) = &mut self.run else { return Err("no run hears") };
        run.progress.observe(&run.context, observed, now);
        run.step = next_step(&run.context, &run.progress, observed, now, 0.0);
        let is_miss_judged =
            matches!(observed, Observed::Log(_)) && run.progress.reading() == LogQuestion::Miss;
        let is_absent = run.progress.last().looked == Some(LookedUp::Absent);
        run.progress.follow(&run.step, now);
        if is_miss_judged {
            let effect = if is_absent { Effect::None } else { Effect::Unknown };
            self.leave_line(LOOKUP, effect, Some(200), Duration::ZERO);
        }
        Ok(self)
    }

    /// Checks the step that was decided on.
    pub fn check(&self) -> Result<(), &'static str> {
        let Some(run) = &self.run else { return Ok(()) };
        let now = self.now().at;
        let is_ours = run.taken.is_ours && run.taken.is_addressed && !run.taken.is_given_up;
        let broken = match (run.step, &self.record) {
            (Step::Send | Step::Lookup, _) if !is_ours => "what is another's is asked for",
            (Step::Send | Step::Lookup, Some(_)) if self.at < self.paused_until || now < run.paused_until => {
                "the vendor is not left alone"
            }
            (Step::Send, Some(record)) if !self.time().is_zero() && !self.is_held(record, run) => {
                "a send while another process could hold it"
            }
            (Step::Send, _) if is_retry(run) && !run.is_paid => "a retry that is not paid for",
            (Step::Lookup, _) if self.lookups >= LOOKUPS_MAX => "a lookup too many",
            (Step::Tell(CallerAnswer::End(Effect::None)), _)
                if !matches!(run.progress.ending(), Some(CallEnd::Success(_)))
                    && !self.is_broken_word
                    && !self.is_without_effect() =>
            {
                "told no effect, and there is one"
            }
            (Step::Tell(_), _)
                if matches!(run.progress.ending(), Some(CallEnd::Success(_))) && self.effects() == 0 =>
            {
                "told of an effect, and there is none"
            }
            (Step::Write(CallEnd::Refused(Refusal::Unauthorized)), _)
                if run.context.recorded.is_some_and(|recorded| recorded.is_accepted) =>
            {
                "refused credentials end what was accepted"
            }
            _ => return Ok(()),
        };
        Err(broken)
    }

    fn is_held(&self, record: &Record, run: &UnderWay) -> bool {
        record.fence == run.fence && self.free_at().is_some_and(|free_at| self.at < free_at)
    }

    /// For how long an exchange that begins now may last: nothing leaves without time.
    pub fn time(&self) -> Duration {
        let Some(run) = &self.run else { return Duration::ZERO };
        let over_at = run.progress.lease().map_or(run.context.deadline, |lease| lease.stop_at());
        let now = self.now().at;
        over_at.min(run.context.deadline).min(now.plus(ATTEMPT)).since(now)
    }

    /// Checks the world, after a write that came of `before` too.
    pub fn audit(&self, before: &World) -> Result<(), &'static str> {
        let granted = u32::from(self.setup.resends);
        let used = self.record.as_ref().map_or(granted, |record| granted.saturating_sub(record.resends_left));
        if self.effects() > 1 + used && !self.is_broken_word {
            return Err("an effect too many");
        }
        let (Some(record), Some(old)) = (&self.record, &before.record) else { return Ok(()) };
        if Arc::ptr_eq(record, old) {
            return Ok(());
        }
        let is_same_send = record.unknown_since == old.unknown_since && record.fence == old.fence;
        let goes_back = record.fence < old.fence
            || record.attempts < old.attempts
            || record.resends_left > old.resends_left
            || (is_same_send && record.effect == Effect::Unknown && record.lookups < old.lookups);
        let is_trusted = |refusal| !self.is_broken_word || refusal == Some(Refusal::Duplicate);
        match record.state {
            _ if goes_back => Err("a counter goes back"),
            State::Succeeded { .. } if self.effects() == 0 => Err("succeeded without an effect"),
            State::Refused { refusal, .. } if is_trusted(Some(refusal)) && !self.is_without_effect() => {
                Err("refused, and there is an effect")
            }
            State::Dead { .. }
                if record.effect == Effect::None && is_trusted(None) && !self.is_without_effect() =>
            {
                Err("dead without an effect, and there is one")
            }
            _ => Ok(()),
        }
    }

    /// When the operation may be taken; `None` once it is settled.
    pub fn free_at(&self) -> Option<Instant> {
        match self.record.as_ref()?.state {
            State::InProgress { lease_until: at } | State::Scheduled { at } => {
                Some(self.at.plus(at.since(wall(self.at))))
            }
            _ => None,
        }
    }

    /// When the vendor stops to replay the key.
    pub fn window_ends(&self) -> Option<Instant> {
        let first = self.ledger.first()?;
        Some(first.at.plus(WINDOW))
    }

    /// The process is gone, with what it was told and what it has not written.
    pub fn die(&mut self) {
        self.paused_until = self.at;
    }

    /// The run is over.
    pub fn ended(mut self) -> World {
        self.run = None;
        if let Some(asleep) = &mut self.asleep {
            asleep.others_ran = true;
        }
        self
    }

    /// The work under way, for a story.
    pub fn doing(&self) -> String {
        let at = self.at.since(Instant::from_nanos(1_000_000_000_000_000));
        let step = self.run.as_ref().map(|run| run.step);
        format!("{at:?} {step:?}")
    }

    /// All that the ways on from here depend on, but for the troubles that are left.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest(DefaultHasher::new());
        let record = self.record.as_deref().map(|record| {
            let times = (record.claimed_at, record.updated_at, record.unknown_since, record.until());
            let counts = (record.fence, record.attempts, record.lookups, record.resends_left);
            (record.phase(), record.effect, times, counts)
        });
        let world = (&self.ledger, &self.flights, self.paused_until, self.lookups, self.has_slept);
        let asleep = self.asleep.as_ref().map(|asleep| {
            (asleep.since, asleep.is_machine, asleep.others_ran, &asleep.observed, shown(&asleep.run))
        });
        let lines = self.lines.iter().map(line).collect::<Vec<_>>();
        let run = self.run.as_ref().map(shown);
        write!(digest, "{:?}", (self.at.as_nanos(), record, world, self.is_broken_word, asleep, lines, run))
            .expect("a digest takes all");
        digest.0.finish()
    }
}

/// A send that is not the operation's first needs to be paid for by its caller.
fn is_retry(run: &UnderWay) -> bool {
    !run.context.is_recovery && (run.progress.attempts() > 0 || run.progress.effect() == Effect::Unknown)
}

type Line<'a> = (&'a str, Effect, Timestamp, Duration, Option<u16>);

fn line(report: &AttemptReport) -> Line<'_> {
    (&report.verdict, report.effect, report.started_at, report.latency, report.status)
}

fn shown(run: &UnderWay) -> impl fmt::Debug {
    let facts = (run.context.started, run.context.is_recovery, run.context.recorded);
    let lines: Vec<_> = run.lines.iter().map(|report| format!("{:?}", line(report))).collect();
    (
        facts,
        run.progress.clone(),
        run.step,
        run.fence,
        run.slept,
        (run.is_paid, run.paused_until),
        run.taken,
        lines,
    )
}

struct Digest(DefaultHasher);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

pub const TAKEN: TakenOperation =
    TakenOperation { is_ours: true, is_addressed: true, is_given_up: false, has_lookup: false };

impl Kind {
    pub fn has_lookup(self) -> bool {
        matches!(self, Kind::LooksUp | Kind::ReplaysAndLooksUp)
    }
}

/// Every host's wall clock is right here: [`states`](crate::states) has those that are not.
pub fn wall(at: Instant) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + at.as_nanos() / 1_000_000)
}

pub fn before(at: Instant, by: Duration) -> Instant {
    Instant::from_nanos(at.as_nanos() - by.as_nanos() as u64)
}

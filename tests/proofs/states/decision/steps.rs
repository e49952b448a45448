//! How a step goes: each way in which the world can answer it. A step that goes as it should costs nothing.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use steadfast_core::clock::Instant;
use steadfast_core::internal::attempt::LOOKUP;
use steadfast_core::internal::decision::{
    AttemptOutcome, Attempted, CallEnd, Down, LookedUp, Observed, Planned, Step, Success, TakenOperation,
};
use steadfast_core::internal::operation::Window;
use steadfast_core::internal::policy::Outcome as Health;
use steadfast_core::operation::record::State;
use steadfast_core::transport::{Answer, SendErrorKind};
use steadfast_core::vendor::{SpeaksFor, Verdict};
use steadfast_core::{Effect, Gate, Refusal};

use crate::states::decision::world::{
    ATTEMPT, Asleep, HOUR, LATE, MARGIN, QUEUE, Reaction, TAKEN, Take, World, before,
};

/// A way on, and the world at its end; or the promise that is broken there.
pub type Way = (&'static str, Result<World, &'static str>);

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    Refused,
    /// It arrives at the last moment at which it may.
    OnItsWay,
    Lost,
}

const ANSWER: Duration = Duration::from_millis(100);
const DAY: Duration = Duration::from_secs(26 * 3600);

impl World {
    /// Every way on from here.
    pub fn ways(&self) -> Vec<Way> {
        let mut ways = Ways { from: self, ways: Vec::new() };
        match (&self.run, &self.asleep, self.free_at()) {
            (Some(run), ..) => ways.carry_out(run.step),
            (None, Some(asleep), free_at) if asleep.others_ran || free_at.is_none() => ways.wake(asleep),
            (None, _, Some(free_at)) => ways.take(free_at.max(self.at)),
            (None, _, None) if self.flights.is_empty() => {}
            (None, _, None) => {
                let last = self.flights.iter().copied().max().unwrap_or(self.at);
                ways.go("what is on its way arrives", 0, |world| {
                    world.advance(last);
                    None
                });
            }
        }
        ways.ways
    }
}

struct Ways<'a> {
    from: &'a World,
    ways: Vec<Way>,
}

impl Ways<'_> {
    /// One way: what happens, and what the run observes; `None` where it ends.
    fn go(&mut self, way: &'static str, troubles: u8, happens: impl FnOnce(&mut World) -> Option<Observed>) {
        let Some(left) = self.from.troubles.checked_sub(troubles) else { return };
        let mut world = self.from.clone();
        world.troubles = left;
        let observed = happens(&mut world);
        if let (0, Some(observed)) = (troubles, &observed) {
            self.sleep(&world, observed);
        }
        let next = world.audit(self.from).and_then(|()| match &observed {
            Some(observed) => world.hear(observed),
            None => Ok(world.ended()),
        });
        self.ways.push((way, next));
    }

    /// The process stands still before it hears, for a day or until another one has carried on. With its machine, its own
    /// clock does too. Its next send then leaves in the known gap before the first byte, or not at all.
    fn sleep(&mut self, world: &World, observed: &Observed) {
        let (Some(left), false, Some(_)) = (world.troubles.checked_sub(1), world.has_slept, &world.record)
        else {
            return;
        };
        for is_machine in [false, true] {
            let mut alone = World { troubles: left, has_slept: true, ..world.clone() };
            let mut others = alone.clone();
            alone.advance(world.at.plus(DAY));
            if let (Some(run), true) = (&mut alone.run, is_machine) {
                run.slept = run.slept.saturating_add(DAY);
            }
            let alone = alone.audit(self.from).and_then(|()| alone.hear(observed));
            if !(is_machine && leaves(&alone)) {
                self.ways.push(("it stands still for a day", alone));
            }
            if let (Some(run), Some(_)) = (others.run.take(), others.free_at()) {
                let (observed, since) = (observed.clone(), world.at);
                others.asleep =
                    Some(Box::new(Asleep { run, observed, since, is_machine, others_ran: false }));
                // What was true a quarter of a second ago is told.
                others.advance(world.at.plus(3 * ANSWER));
                self.ways
                    .push((if is_machine { "its machine sleeps" } else { "it stands still" }, Ok(others)));
            }
        }
    }

    fn wake(&mut self, asleep: &Asleep) {
        let mut world = self.from.clone();
        world.asleep = None;
        // It was not told.
        world.paused_until = world.at;
        let mut run = asleep.run.clone();
        if asleep.is_machine {
            run.slept = run.slept.saturating_add(world.at.since(asleep.since));
        }
        world.run = Some(run);
        let next = world.hear(&asleep.observed);
        if !(asleep.is_machine && leaves(&next)) {
            self.ways.push(("it goes on", next));
        }
    }

    fn take(&mut self, at: Instant) {
        let taken = TakenOperation { has_lookup: self.from.setup.kind.has_lookup(), ..TAKEN };
        let recovery = Take { is_recovery: true, taken, at };
        let not_ours = TakenOperation { is_ours: false, ..taken };
        let elsewhere = TakenOperation { is_addressed: false, ..taken };
        let last = self.from.window_ends().map(|ends| before(ends, ATTEMPT / 2)).filter(|last| *last > at);
        for (way, troubles, take) in [
            ("recovery takes it", 0, recovery),
            ("a caller takes it", 1, Take { is_recovery: false, ..recovery }),
            ("recovery takes it a day later", 1, Take { at: at.plus(DAY), ..recovery }),
            ("recovery takes it as the window ends", 1, Take { at: last.unwrap_or(at), ..recovery }),
            ("another client takes it", 1, Take { taken: not_ours, ..recovery }),
            ("it is for another host", 1, Take { taken: elsewhere, ..recovery }),
        ] {
            if let Some(left) = self.from.troubles.checked_sub(troubles) {
                let world = World { troubles: left, ..self.from.clone() };
                self.ways.push((way, world.take(take).and_then(|next| next.audit(self.from).map(|()| next))));
            }
        }
    }

    fn carry_out(&mut self, step: Step) {
        let Some(run) = &self.from.run else { return };
        let (is_recovery, paused_until) = (run.context.is_recovery, run.paused_until);
        if self.from.record.is_some() {
            self.go("it dies", 1, |world| {
                world.die();
                None
            });
        }
        match step {
            Step::Pursue(_) => self.go("set", 0, |_| Some(Observed::Pursued)),
            Step::ReadLog(_) => {
                self.go("read", 0, |world| Some(Observed::Log(world.log(false))));
                self.go("not read", 1, |_| Some(Observed::Log(None)));
                if self.from.log(false).is_some_and(|log| log.refusals.is_some()) {
                    self.go("others are answered", 0, |world| Some(Observed::Log(world.log(true))));
                }
            }
            Step::Charge(_) => {
                self.go("paid", 0, |world| {
                    world.run.as_mut()?.is_paid = true;
                    Some(Observed::Charged { is_paid: true })
                });
                self.go("not paid", 1, |_| Some(Observed::Charged { is_paid: false }));
            }
            Step::Admit(_) if self.from.now().at < paused_until => self.go("paused", 0, |_| {
                Some(Observed::HeldBack { gate: Gate::Pause, retry_at: Some(paused_until) })
            }),
            Step::Admit(_) => self.admit(is_recovery),
            Step::Renew { needed, spends_resend, .. } => self.renew(needed, spends_resend),
            Step::Wait(planned) => self.wait(planned, is_recovery),
            Step::Send => self.send(),
            Step::Lookup => self.lookup(),
            Step::NoteCredentials(_) => self.go("noted", 0, |_| Some(Observed::CredentialsNoted)),
            Step::Write(ending) => self.write(ending),
            Step::Reread => {
                let reread = |slow: Duration| {
                    move |world: &mut World| {
                        let asked = world.now().at;
                        let is_unchanged = world.record.as_ref()?.fence == world.run.as_ref()?.fence;
                        world.advance(world.at.plus(slow));
                        Some(Observed::Reread { is_unchanged, asked })
                    }
                };
                self.go("read", 0, reread(Duration::ZERO));
                self.go("read slowly", 1, reread(3 * ANSWER));
            }
            Step::Tell(_) => self.go("told", 0, |_| None),
        }
    }

    fn admit(&mut self, is_recovery: bool) {
        let now = self.from.now().at;
        let held = |gate, wait: Option<Duration>| {
            let retry_at = wait.map(|wait| now.plus(wait));
            move |_: &mut World| Some(Observed::HeldBack { gate, retry_at })
        };
        self.go("admitted", 0, |_| Some(Observed::Admitted { is_paused: false }));
        self.go("full", 1, held(Gate::Concurrency, None));
        self.go("the kill switch", 1, held(Gate::KillSwitch, None));
        self.go("the circuit is open", 1, held(Gate::Breaker, Some(3 * MARGIN / 10)));
        self.go("the circuit is open for long", 1, held(Gate::Breaker, Some(HOUR)));
        if is_recovery {
            self.go("it stops", 1, |_| Some(Observed::Stopping { paused_until: None }));
        }
    }

    fn renew(&mut self, needed: Duration, spends_resend: bool) {
        let lasts = needed.saturating_add(MARGIN);
        let renews = |world: &mut World| {
            let lease_until = world.now().wall.plus(lasts);
            world.write(State::InProgress { lease_until }, spends_resend)
        };
        let renewed = |world: &mut World| {
            let (until, updated_at) = (world.now().at.plus(lasts), world.now().wall);
            let is_paused = world.now().at < world.run.as_ref()?.paused_until;
            Some(match renews(world) {
                Some(()) => Observed::Renewed { until, updated_at, is_paused },
                None => Observed::Failed,
            })
        };
        self.go("renewed", 0, renewed);
        self.go("renewed, and another call is told to wait", 1, |world| {
            let now = world.now().at;
            world.run.as_mut()?.paused_until = now.plus(Duration::from_secs(2));
            renewed(world)
        });
        self.go("it fails", 1, |_| Some(Observed::Failed));
        self.go("it is not acknowledged", 1, |world| {
            renews(world);
            Some(Observed::Failed)
        });
    }

    fn wait(&mut self, planned: Planned, is_recovery: bool) {
        self.go("over", 0, |world| {
            let wait = planned.until.since(world.now().at);
            world.advance(world.at.plus(wait));
            Some(Observed::Woken)
        });
        if is_recovery {
            self.go("it stops", 1, |_| Some(Observed::Stopping { paused_until: None }));
        }
    }

    fn send(&mut self) {
        let Some(run) = &self.from.run else { return };
        let now = self.from.now();
        let most = self.from.time();
        let (is_recovery, has_key) = (run.context.is_recovery, run.context.recorded.is_some());
        let in_window = matches!(run.progress.window(&run.context, now), Window::Open { .. });
        let none = Verdict::Retry { effect: Effect::None, not_before: None };
        if most.is_zero() {
            return self.go("there is no time", 0, |world| attempted(world, most, (None, none), false));
        }
        let exchange = |world: &mut World, fate: Fate, heard: Option<Heard>| {
            let arrived = match fate {
                Fate::Arrives | Fate::Refused => Some(world.arrive(world.at, fate == Fate::Refused)),
                Fate::OnItsWay => {
                    world.flights.push(world.at.plus(most).plus(QUEUE).plus(LATE));
                    None
                }
                Fate::Lost => None,
            };
            let speaks_for = if in_window { SpeaksFor::EarlierToo } else { SpeaksFor::ThisAttempt };
            heard.unwrap_or(match arrived {
                Some(Reaction::Done { replayed }) => (Some(200), Verdict::Done { replayed }),
                _ => (Some(422), Verdict::Refused { refusal: Refusal::Rejected, speaks_for }),
            })
        };
        self.go("answered", 0, |world| {
            let heard = exchange(world, Fate::Arrives, None);
            attempted(world, most, heard, false)
        });
        for (way, fate, heard) in outcomes() {
            self.go(way, 1, |world| {
                let heard = exchange(world, fate, heard);
                attempted(world, most, heard, false)
            });
        }
        if is_recovery {
            self.go("503 behind an open circuit", 1, |world| {
                let unknown = Verdict::Retry { effect: Effect::Unknown, not_before: None };
                attempted(world, most, (Some(503), unknown), true)
            });
        }
        if has_key {
            self.go("done, and it dies", 1, |world| {
                exchange(world, Fate::Arrives, None);
                world.die();
                None
            });
            self.go("on its way, and it dies", 1, |world| {
                // As late as a dead holder's may be: the longest exchange after its lease.
                let lease_over = world.free_at().unwrap_or(world.at);
                world.flights.push(lease_over.plus(ATTEMPT).plus(QUEUE).plus(LATE));
                world.die();
                None
            });
        }
    }

    fn lookup(&mut self) {
        let Some(run) = &self.from.run else { return };
        let is_accepted = run.context.recorded.is_some_and(|recorded| recorded.is_accepted);
        let failed = |meets_refusal, down| LookedUp::Failed { meets_refusal, down };
        let missed = LookedUp::Absent;
        let is_listed = self.from.is_listed();
        let mut ways = vec![
            ("answered", 0, if is_listed { LookedUp::Found } else { missed }),
            ("it cannot tell", 1, LookedUp::CannotTell),
            ("another page", 1, LookedUp::More),
            ("it fails", 1, failed(false, None)),
        ];
        if is_accepted {
            ways.push(("401", 1, failed(true, None)));
        }
        if run.context.is_recovery {
            ways.push(("it fails behind an open circuit", 1, failed(false, Some(Down::Account))));
        }
        if is_listed && !run.context.lists_deleted && self.from.may_be_deleted() {
            ways.push(("what was done is deleted", 1, missed));
        }
        for (way, troubles, looked) in ways {
            self.go(way, troubles, |world| looked_up(world, looked));
        }
        if is_listed {
            self.go("it is not shown in time", 1, |world| {
                world.is_broken_word = true;
                looked_up(world, missed)
            });
        }
    }

    fn write(&mut self, ending: CallEnd) {
        let answer = |status| Answer::new(status, HeaderMap::new(), Vec::new());
        let to = |world: &World| match ending {
            CallEnd::Success(how) => {
                State::Succeeded { answer: answer(StatusCode::OK), reconciled: how == Success::Reconciled }
            }
            CallEnd::Refused(refusal) => {
                State::Refused { refusal, answer: answer(StatusCode::UNPROCESSABLE_ENTITY) }
            }
            CallEnd::DeadLetter(reason) => State::Dead { reason, answer: None },
            CallEnd::Postponed(postponed) => {
                State::Scheduled { at: world.now().wall.plus(postponed.at.since(world.now().at)) }
            }
        };
        let written = |world: &mut World, slow: Duration| {
            let began = world.now().at;
            let written = world.record.is_none() || world.write(to(world), false).is_some();
            world.advance(world.at.plus(slow));
            Some(if written { Observed::Written { began } } else { Observed::Failed })
        };
        self.go("written", 0, |world| written(world, Duration::ZERO));
        if self.from.record.is_some() {
            self.go("written slowly", 1, |world| written(world, 3 * ANSWER));
            self.go("not written", 1, |_| Some(Observed::Failed));
            self.go("written, and not acknowledged", 1, |world| {
                written(world, Duration::ZERO);
                Some(Observed::Failed)
            });
        }
    }
}

/// The run's knowledge of a request: the status, if it is answered, and the adapter's word.
type Heard = (Option<u16>, Verdict);

/// The possible fates of a send that does not go well. Without words of its own, the vendor answers.
fn outcomes() -> [(&'static str, Fate, Option<Heard>); 13] {
    use Fate::{Arrives, Lost, OnItsWay, Refused};

    let retry = |effect| Verdict::Retry { effect, not_before: None };
    let no = |refusal| Verdict::Refused { refusal, speaks_for: SpeaksFor::ThisAttempt };
    let asks = Verdict::Retry { effect: Effect::None, not_before: Some(Duration::from_secs(3)) };
    let (lost, none) = ((None, retry(Effect::Unknown)), retry(Effect::None));
    [
        ("the answer is lost", Arrives, Some(lost)),
        ("it is on its way", OnItsWay, Some(lost)),
        ("it is lost", Lost, Some(lost)),
        ("done, and a 500", Arrives, Some((Some(500), retry(Effect::Unknown)))),
        ("not done, and a 500", Lost, Some((Some(500), retry(Effect::Unknown)))),
        ("done, and a 500 for good", Arrives, Some((Some(500), Verdict::Unknown))),
        ("not done, and a 500 for good", Lost, Some((Some(500), Verdict::Unknown))),
        ("429", Lost, Some((Some(429), asks))),
        ("refused", Refused, None),
        ("a duplicate", Lost, Some((Some(409), no(Refusal::Duplicate)))),
        ("a key of another request", Lost, Some((Some(409), no(Refusal::KeyReused)))),
        ("401", Lost, Some((Some(401), no(Refusal::Unauthorized)))),
        ("it cannot be sent", Lost, Some((None, none))),
    ]
}

fn leaves(next: &Result<World, &'static str>) -> bool {
    next.as_ref().is_ok_and(|world| world.run.as_ref().is_some_and(|run| run.step == Step::Send))
}

/// An attempt comes to its end, within `most`.
fn attempted(
    world: &mut World,
    most: Duration,
    (status, verdict): (Option<u16>, Verdict),
    is_down: bool,
) -> Option<Observed> {
    let began = world.now().at;
    let is_lost = status.is_none() && verdict == Verdict::Retry { effect: Effect::Unknown, not_before: None };
    let took = if is_lost { most } else { ANSWER.min(most) };
    world.advance(world.at.plus(took));
    let ended = world.now().at;
    let asked_wait = match verdict {
        Verdict::Retry { not_before, .. } => not_before,
        _ => None,
    };
    let outcome = AttemptOutcome::of(&verdict, status.is_some());
    let is_duplicate = matches!(verdict, Verdict::Refused { refusal: Refusal::Duplicate, .. });
    if outcome.effect() == Effect::Unknown || is_duplicate {
        world.lookups = 0;
    }
    if let Some(asked) = asked_wait {
        world.paused_until = world.at.plus(asked);
        world.run.as_mut()?.paused_until = ended.plus(asked);
    }
    let is_failure = is_lost || status.is_some_and(|status| status >= 500);
    let failure = match (status, is_lost) {
        (Some(_), _) => None,
        (None, true) => Some(SendErrorKind::Timeout),
        (None, false) => Some(SendErrorKind::Local),
    };
    world.leave_line(verdict.name(), outcome.effect(), status, took);
    Some(Observed::Attempted(Attempted {
        began,
        ended,
        verdict,
        status,
        failure,
        asked_wait,
        has_lookup: world.setup.kind.has_lookup() && world.record.is_some(),
        health: if is_failure { Health::Failure } else { Health::Neutral },
        down: is_down.then_some(Down::Account),
        answered_at: None,
    }))
}

fn looked_up(world: &mut World, looked: LookedUp) -> Option<Observed> {
    world.advance(world.at.plus(ANSWER));
    let effect = match looked {
        LookedUp::Found => Effect::Applied,
        LookedUp::Absent => Effect::None,
        _ => Effect::Unknown,
    };
    // The log says first whether a miss is believed.
    let is_judged = looked != LookedUp::Absent || world.run.as_ref()?.context.lists_deleted;
    if looked != LookedUp::More && is_judged {
        world.leave_line(LOOKUP, effect, Some(200), ANSWER);
    }
    // Of a process that is overtaken, none counts.
    let is_holder = world.record.as_ref()?.fence == world.run.as_ref()?.fence;
    if is_holder && matches!(looked, LookedUp::Found | LookedUp::Absent | LookedUp::CannotTell) {
        world.lookups += 1;
    }
    Some(Observed::LookedUp { looked, asked_wait: None, ended: world.now().at })
}

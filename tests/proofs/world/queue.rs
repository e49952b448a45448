//! The work that a schedule leaves to dispatchers: calls that are enqueued, their sequences, who delivers them, and
//! the clock of the store's server. Each drawn from a stream of its own, so that it does not change what the others
//! draw.

use std::time::Duration;

use steadfast::BoxFuture;
use steadfast::clock::{Clock, Instant, Timestamp};
use steadfast::testkit::TestClock;

use crate::world::course::wall_of;
use crate::world::plan::{
    Caller, Disruption, Operation, Operator, Schedule, Trouble, WallClock, Weather, What, When, disruption,
    off, wall_clock,
};
use crate::world::vendors::Kind;
use support::draw::{Draw, ms, secs};

/// Who delivers, and what there is to deliver.
#[derive(Debug)]
pub struct Queue {
    pub what: Queued,
    /// Each host's dispatcher, if it has one.
    pub desks: Vec<Option<Desk>>,
    /// How often the one looks that delivers at the end.
    pub rest_period: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// Some of what a schedule has anyway.
    Mixed,
    /// Sequences of one vendor.
    Lines,
    /// An account's backlog, and a few operations of another account.
    Tenants,
    /// All of what a schedule has, on hosts that do nothing but enqueue and dispatch, with clocks that are right.
    Punctual,
}

/// The dispatcher of a host, over all of its clients.
#[derive(Clone, Debug)]
pub struct Desk {
    pub period: Duration,
    pub at_once: Option<usize>,
    /// When it is stopped, since the schedule began; the limit; and for how long nobody dispatches there then.
    pub stops: Vec<(Duration, Duration, Duration)>,
}

/// How a caller leaves its call to a dispatcher.
#[derive(Clone, Copy, Debug)]
pub struct Enqueue {
    pub due: Due,
    /// Waits for the outcome for so long.
    pub waits: Option<Duration>,
    /// Wants to take the call back so long after that.
    pub cancels: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Now,
    /// So long after the schedule began, by the right time.
    At(Duration),
    After(Duration),
}

/// A sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: usize,
    /// Its dead letter lets the next one go.
    pub skips: bool,
}

/// The clock of the store's server.
#[derive(Clone, Copy, Debug)]
pub struct ServerPlan {
    pub clock: WallClock,
    /// When another server takes its place, and by how much that one's clock differs.
    pub step: Option<(Duration, i64)>,
    /// From when to when it is ahead, and by how much.
    pub ahead: Option<(Duration, Duration, i64)>,
}

impl ServerPlan {
    pub fn of(draw: &Draw, span: Duration) -> Option<ServerPlan> {
        let steps = |draw: &Draw| (draw.within(secs(0)..span), off(draw));
        let of = |draw: &Draw| ServerPlan {
            clock: wall_clock(draw),
            step: draw.one_in(6).then(|| steps(draw)),
            ahead: None,
        };
        draw.one_in(5).then(|| of(draw))
    }

    /// For a moment, or for longer, its clock is days ahead.
    pub fn ahead(self, draw: &Draw, span: Duration) -> ServerPlan {
        let from = draw.within(secs(0)..span);
        let lasts = if draw.one_in(3) { draw.within(secs(1)..span) } else { draw.within(ms(1)..secs(5)) };
        let by = draw.within(secs(24 * 3600)..secs(30 * 24 * 3600));
        let ahead = Some((from, from + lasts, i64::try_from(by.as_millis()).expect("a month")));
        ServerPlan { ahead: ahead.filter(|_| draw.one_in(3)), ..self }
    }

    /// By how much it is ahead at this time.
    pub fn ahead_at(&self, at: Instant) -> Duration {
        let passed = at.since(Instant::ORIGIN);
        let is_ahead = |(from, to, _): &(Duration, Duration, i64)| (*from..*to).contains(&passed);
        self.ahead.filter(is_ahead).map_or(Duration::ZERO, |(.., by_ms)| ms(by_ms.unsigned_abs()))
    }
}

/// The server's clock, as it runs.
#[derive(Clone, Debug)]
pub struct ServerClock(pub TestClock, pub ServerPlan);

impl Clock for ServerClock {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wall(&self) -> Timestamp {
        let passed = self.0.now().since(Instant::ORIGIN);
        let stepped_ms = self.1.step.filter(|(at, _)| passed >= *at).map_or(0, |(_, by_ms)| by_ms);
        let ahead_ms = self.1.ahead_at(self.0.now()).as_millis() as i64;
        wall_of(&self.0, self.1.clock, stepped_ms + ahead_ms)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }
}

impl Schedule {
    /// A value that is drawn here stands over one that is drawn elsewhere.
    pub fn with_queue(self, draw: &Draw, span: Duration) -> Schedule {
        let is_of_its_own = self.is_backlog || self.dispatcher || self.horizon != span * 2;
        match draw.below(14) {
            _ if is_of_its_own => self,
            0..=2 => self.with_some_enqueued(draw, span),
            3..=5 => self.with_lines(draw, span),
            6 => self.with_tenants(draw),
            7 => self.with_punctual(draw, span),
            _ => self,
        }
    }

    fn with_some_enqueued(mut self, draw: &Draw, span: Duration) -> Schedule {
        if draw.one_in(3) {
            self.add_host(draw, span);
        }
        let operations = self.operations.iter_mut().filter(|operation| operation.kind != Kind::Get);
        for caller in operations.flat_map(|operation| &mut operation.callers) {
            caller.enqueues = (!draw.one_in(3)).then(|| enqueue(draw, span));
        }
        let desks = (0..self.hosts).map(|_| (!draw.one_in(4)).then(|| desk(draw, span))).collect();
        self.with_desks(Queued::Mixed, desks, span)
    }

    /// Several who write about the same thing, one after the other.
    fn with_lines(mut self, draw: &Draw, span: Duration) -> Schedule {
        use Kind::{Bare, Brand, Declined, Delete, Email, Intent, Keyed, Order, Patch, Product};
        if draw.one_in(2) {
            self.add_host(draw, span);
        }
        let kinds: &[Kind] = [
            &[Intent, Intent, Declined, Product][..],
            &[Order, Brand],
            &[Email],
            &[Keyed],
            &[Bare, Patch, Delete],
        ][draw.index(5)];
        let lines = 1 + draw.index(2);
        let skips: Vec<bool> = (0..lines).map(|_| draw.one_in(2)).collect();
        let first = draw.within(secs(0)..span / 4);
        let gap = draw.within(ms(0)..span / 20);
        let hosts = self.hosts;
        let operation = |place: u32| {
            let number = draw.index(lines);
            // It goes with the call: one may say otherwise than the rest.
            let skips = skips[number] != draw.one_in(8);
            let at = first + gap * place;
            let mut callers = vec![Caller {
                host: draw.index(hosts),
                persists: !draw.one_in(4),
                cancels_after: draw.one_in(10).then(|| draw.within(ms(1)..secs(2))),
                enqueues: Some(enqueue(draw, span)),
                ..Caller::once(at, None)
            }];
            if draw.one_in(3) {
                // The same key again: a call that would jump the queue, or one who asks twice.
                let at = at + draw.within(secs(0)..span / 3);
                let enqueues = draw.one_in(2).then(|| enqueue(draw, span));
                let deadline = draw.one_in(3).then(|| draw.within(ms(5)..secs(20)));
                callers.push(Caller {
                    host: draw.index(hosts),
                    persists: draw.one_in(2),
                    waits: draw.one_in(2),
                    enqueues,
                    ..Caller::once(at, deadline)
                });
            }
            let line = (!draw.one_in(10)).then_some(Line { number, skips });
            Operation { kind: kinds[draw.index(kinds.len())], resends: draw.one_in(6), line, callers }
        };
        self.operations = (0..3 + u32::try_from(draw.below(6)).expect("few")).map(operation).collect();
        let redrive = |_| Disruption {
            host: draw.index(hosts),
            when: When::At(draw.within(span / 4..span * 2)),
            what: What::Redrive,
        };
        self.disruptions.extend((0..draw.below(4)).map(redrive));
        self.extras.records_max = None;
        self.operator =
            [Operator::Resolves, Operator::Redrives, Operator::Forces, Operator::Nothing][draw.index(4)];
        let desks = (0..hosts).map(|_| (!draw.one_in(5)).then(|| desk(draw, span))).collect();
        self.with_desks(Queued::Lines, desks, span)
    }

    /// One tenant's backlog, and another one's few, at a healthy vendor.
    fn with_tenants(mut self, draw: &Draw) -> Schedule {
        let at_once = |at, due| Caller {
            enqueues: Some(Enqueue { due, waits: None, cancels: None }),
            ..Caller::once(at, None)
        };
        let own = |kind, callers| Operation { kind, resends: false, line: None, callers };
        let mut operations: Vec<Operation> =
            (0..40 + draw.below(50)).map(|_| own(Kind::Intent, vec![at_once(secs(1), Due::Now)])).collect();
        operations.extend((0..1 + draw.below(3)).map(|_| {
            let due = if draw.one_in(3) { Due::After(draw.within(ms(0)..secs(3))) } else { Due::Now };
            own(Kind::OtherIntent, vec![at_once(draw.within(secs(1)..secs(5)), due)])
        }));
        self.hosts = 1;
        self.clocks = vec![WallClock::default()];
        self.rate = None;
        self.operations = operations;
        self.disruptions = Vec::new();
        self.weather = calm();
        self.operator = Operator::Nothing;
        self.again_after = None;
        self.extras = crate::world::extras::Extras::default();
        self.horizon = secs(120);
        let desk = Desk { period: secs(1), at_once: Some(1 + draw.index(3)), stops: Vec::new() };
        self.with_desks(Queued::Tenants, vec![Some(desk)], secs(90))
    }

    fn with_punctual(mut self, draw: &Draw, span: Duration) -> Schedule {
        if draw.one_in(2) {
            self.add_host(draw, span);
        }
        self.clocks = vec![WallClock::default(); self.hosts];
        self.disruptions = Vec::new();
        for operation in self.operations.iter_mut().filter(|operation| operation.kind == Kind::Get) {
            operation.kind = Kind::Email;
        }
        for caller in self.operations.iter_mut().flat_map(|operation| &mut operation.callers) {
            caller.enqueues = Some(enqueue(draw, span));
        }
        self.extras = crate::world::extras::Extras::default();
        let desk = |_| {
            let period = draw.within(ms(200)..secs(2)).max(span / 2_000);
            Some(Desk { period, at_once: None, stops: Vec::new() })
        };
        let desks = (0..self.hosts).map(desk).collect();
        self.with_desks(Queued::Punctual, desks, span)
    }

    fn add_host(&mut self, draw: &Draw, span: Duration) {
        self.hosts += 1;
        self.clocks.push(wall_clock(draw));
        self.recovers_every.push(None);
        self.disruptions.extend((0..draw.below(2)).map(|_| disruption(draw, self.hosts, span)));
    }

    /// A host dispatches, or does what it would do anyway.
    fn with_desks(mut self, what: Queued, mut desks: Vec<Option<Desk>>, span: Duration) -> Schedule {
        let is_set = |disruption: &Disruption| matches!(disruption.what, What::Step(_));
        if self.clocks.iter().any(|clock| clock.off_ms != 0) || self.disruptions.iter().any(is_set) {
            // Hosts whose clocks are far apart take an operation from each other at each look.
            for desk in desks.iter_mut().flatten() {
                desk.period = desk.period.max(secs(7));
            }
        }
        for (every, _) in self.recovers_every.iter_mut().zip(&desks).filter(|(_, desk)| desk.is_some()) {
            *every = None;
        }
        self.recovers_every.truncate(self.hosts);
        let rest_period = secs(1).max(span / 300);
        self.queue = Some(Queue { what, desks, rest_period });
        self
    }
}

pub fn calm() -> Weather {
    Weather { percent: 0, troubles: vec![Trouble::NoConnection], outages: Vec::new() }
}

fn enqueue(draw: &Draw, span: Duration) -> Enqueue {
    let far = if draw.one_in(12) { secs(26 * 3600) } else { span };
    let due = match draw.below(6) {
        0 => Due::At(draw.within(secs(0)..far)),
        1 => Due::After(draw.within(secs(0)..far)),
        _ => Due::Now,
    };
    Enqueue {
        due,
        // Whoever waits looks each second.
        waits: draw.one_in(2).then(|| draw.within(ms(0)..secs(60))),
        cancels: draw.one_in(5).then(|| draw.within(ms(0)..span / 3)),
    }
}

fn desk(draw: &Draw, span: Duration) -> Desk {
    // Over hours, a dispatcher that looks every second would do little else.
    let period = [ms(200), secs(1), secs(7)][draw.index(3)].max(span / 400);
    let stop = |_| {
        let at = draw.within(secs(1)..span);
        (at, [secs(0), secs(5), secs(35)][draw.index(3)], draw.within(ms(1)..span / 4))
    };
    Desk {
        period,
        at_once: draw.one_in(3).then(|| 1 + draw.index(3)),
        stops: (0..draw.below(3)).map(stop).collect(),
    }
}

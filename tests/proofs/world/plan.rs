//! The events of one schedule, drawn from its seed before anything runs.

use std::time::Duration;

use crate::world::extras::Extras;
pub use crate::world::process::When;
use crate::world::queue::{Enqueue, Line, Queue, ServerPlan};
use crate::world::vendors::Kind;
pub use support::draw::{Draw, ms, secs};

/// One schedule.
#[derive(Debug)]
pub struct Schedule {
    pub hosts: usize,
    /// The records are in an SQLite file, else in memory.
    pub sqlite: bool,
    /// The preset `interactive`, else `background`.
    pub interactive: bool,
    /// A rate limit, of so many a second. No preset has one.
    pub rate: Option<u32>,
    /// How far each host's wall clock is off at the start, and by how much it drifts.
    pub clocks: Vec<WallClock>,
    pub vendor_off_ms: i64,
    /// How long what took effect stays out of lookups, as a part of the adapter's settle time in percent.
    pub lag_percent: u32,
    pub operations: Vec<Operation>,
    pub disruptions: Vec<Disruption>,
    pub weather: Weather,
    /// How often each host recovers what nobody holds; some never do.
    pub recovers_every: Vec<Option<Duration>>,
    /// Hosts run the crate's own dispatcher instead.
    pub dispatcher: bool,
    /// Dozens of operations that a crash left, at vendors without troubles.
    pub is_backlog: bool,
    /// Then every host is dead and all troubles are over.
    pub horizon: Duration,
    pub operator: Operator,
    /// How long after all that the keys are used again.
    pub again_after: Option<Duration>,
    pub extras: Extras,
    /// The calls that are left to dispatchers.
    pub queue: Option<Queue>,
    /// The store is a server's, with a clock of its own; else it has the clocks of its hosts.
    pub server: Option<ServerPlan>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    pub off_ms: i64,
    pub drift_ppm: i64,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    pub kind: Kind,
    /// Accepts a second effect where nobody can tell.
    pub resends: bool,
    /// Its place, if it is enqueued into a sequence.
    pub line: Option<Line>,
    pub callers: Vec<Caller>,
}

/// Somebody who sends an operation's key.
#[derive(Clone, Debug)]
pub struct Caller {
    pub host: usize,
    pub at: Duration,
    /// Whether the key is sent again until the operation has ended; else once, and recovery has to do the rest.
    pub persists: bool,
    pub deadline: Option<Duration>,
    /// Goes away after so long, without a word.
    pub cancels_after: Option<Duration>,
    /// Waits for whoever holds the key, instead of being told that somebody does.
    pub waits: bool,
    /// Leaves the call to a dispatcher, instead of sending it.
    pub enqueues: Option<Enqueue>,
}

/// Something that goes wrong with a host or around it.
#[derive(Clone, Debug)]
pub struct Disruption {
    pub host: usize,
    pub when: When,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    /// The host dies, and another takes its place after this time.
    Crash(Duration),
    /// All its tasks stop for this time, and the world goes on.
    Stall(Duration),
    /// The store fails the operation. Only around one of them.
    StoreFails,
    /// The host's wall clock steps by this many milliseconds.
    Step(i64),
    /// An operator redrives every dead letter that can be redriven without force.
    Redrive,
    /// An operator removes what has expired.
    Purge,
}

/// The act of an operator once all is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Nothing,
    Redrives,
    /// When the vendors have forgotten their keys, which is a day later at most of them.
    RedrivesNextDay,
    Forces,
    /// Gives the true word on each dead letter, and redrives.
    Resolves,
}

/// The weather that requests meet.
#[derive(Debug)]
pub struct Weather {
    /// How many of a hundred requests meet trouble.
    pub percent: u64,
    pub troubles: Vec<Trouble>,
    /// The vendors are away from the first to the second of each.
    pub outages: Vec<(Duration, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No connection: refused at once.
    NoConnection,
    /// No connection: nothing answers the first packet.
    ConnectHangs,
    /// It leaves and never arrives, and nobody says so.
    LostOnTheWay,
    /// It leaves and never arrives; the connection is reset.
    ResetOnTheWay,
    /// It is carried out, and the connection is reset.
    AnswerLost,
    /// It is carried out, and no answer comes.
    AnswerHangs,
    /// It arrives as late as its connection can carry it.
    Late,
    /// A proxy answers, and does not pass it on.
    ProxyBefore(Page),
    /// It is carried out, and a proxy answers in the vendor's place.
    ProxyAfter(Page),
    /// The vendor's own failures.
    Stored500,
    Error500Before,
    Error500After,
    TooMany(u32),
    KeyInUse,
    /// The vendor declines what it would have done at another time, and keeps that under the key.
    Declined,
    /// The same, and the connection is reset.
    DeclineLost,
}

/// A page that is not the vendor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    pub html: bool,
    /// Its `Retry-After`, in seconds.
    pub wait: Option<u32>,
}

impl Schedule {
    /// Whether a host meets one of these.
    pub fn meets(&self, host: usize, is_one: impl Fn(What) -> bool) -> bool {
        self.disruptions.iter().any(|disruption| disruption.host == host && is_one(disruption.what))
    }

    pub fn of(seed: u64) -> Schedule {
        let draw = Draw::new(seed, 0);
        let hosts = 1 + draw.index(2);
        let long = draw.one_in(4);
        let span = if long { secs(4 * 3600) } else { secs(90) };
        let mut operations: Vec<Operation> =
            (0..1 + draw.below(4)).map(|_| operation(&draw, hosts, span)).collect();
        if draw.one_in(6) {
            // One who writes to the same entity after the first.
            let (first, second) = (operation(&draw, hosts, secs(1)), operation(&draw, hosts, secs(60)));
            operations =
                vec![Operation { kind: Kind::Put, ..first }, Operation { kind: Kind::PutAfter, ..second }];
        }
        let schedule = Schedule {
            hosts,
            sqlite: draw.one_in(16),
            interactive: draw.one_in(3),
            rate: draw.one_in(10).then_some(2),
            clocks: (0..hosts).map(|_| wall_clock(&draw)).collect(),
            vendor_off_ms: if draw.one_in(4) { signed(&draw, draw.below(120_000)) } else { 0 },
            lag_percent: [0, 10, 50, 90][draw.index(4)],
            operations,
            disruptions: (0..draw.below(5)).map(|_| disruption(&draw, hosts, span)).collect(),
            weather: weather(&draw, span),
            dispatcher: false,
            is_backlog: false,
            recovers_every: (0..hosts).map(|_| (!draw.one_in(4)).then(|| span / 60 * 2)).collect(),
            horizon: span * 2,
            operator: match draw.below(8) {
                0 => Operator::Redrives,
                1 => Operator::RedrivesNextDay,
                2 => Operator::Forces,
                3 => Operator::Resolves,
                _ => Operator::Nothing,
            },
            again_after: draw.one_in(4).then(|| draw.within(secs(23 * 3600)..secs(9 * 24 * 3600))),
            extras: Extras::default(),
            queue: None,
            server: None,
        };
        // A store with threads takes a schedule ten times as long, so that few have one.
        let schedule = Schedule { sqlite: schedule.sqlite && Draw::new(seed, 3).one_in(3), ..schedule };
        let schedule = match draw.below(36) {
            0 => schedule.with_backlog(&draw),
            1 | 2 => schedule.with_crowd(&draw),
            3 | 4 => schedule.with_dispatcher(&draw),
            _ => schedule,
        };
        let mut schedule =
            schedule.with_extras(&Draw::new(seed, 2), span).with_queue(&Draw::new(seed, 5), span);
        schedule.extras.is_outlived = Draw::new(seed, 4).one_in(8);
        schedule.server = ServerPlan::of(&Draw::new(seed, 6), span);
        // A stream in which the seeds that these tests name keep their vendors, most of them.
        let mut schedule = schedule.with_cast(&Draw::new(seed, 26)).with_declines(&Draw::new(seed, 27));
        schedule.server = schedule.server.map(|server| server.ahead(&Draw::new(seed, 61), span));
        let schedule =
            schedule.with_store_away(&Draw::new(seed, 28), span).with_standby(&Draw::new(seed, 62));
        let schedule = schedule.with_another(&Draw::new(seed, 29), span);
        let schedule = schedule.with_connections(&Draw::new(seed, 50));
        let schedule = schedule.with_sign_in(&Draw::new(seed, 71), span);
        // A stream in which no seed that these tests name has an outbox.
        schedule.with_rows(&Draw::new(seed, 41), span)
    }

    /// A crash leaves dozens of operations at a healthy vendor.
    fn with_backlog(self, draw: &Draw) -> Schedule {
        let caller = Caller {
            host: 0,
            at: secs(1),
            persists: false,
            deadline: None,
            cancels_after: None,
            waits: false,
            enqueues: None,
        };
        let operation =
            |_| Operation { kind: Kind::Keyed, resends: false, line: None, callers: vec![caller.clone()] };
        let crash = Disruption {
            host: 0,
            when: When::At(secs(1) + ms(draw.below(3))),
            what: What::Crash(secs(9_999)),
        };
        Schedule {
            hosts: 1,
            clocks: vec![WallClock::default()],
            rate: None,
            operations: (0..20 + draw.below(20)).map(operation).collect(),
            disruptions: vec![crash],
            weather: Weather { percent: 0, troubles: vec![Trouble::NoConnection], outages: Vec::new() },
            recovers_every: vec![None],
            is_backlog: true,
            horizon: secs(10),
            operator: Operator::Nothing,
            again_after: None,
            ..self
        }
    }

    /// Many callers with very little time each, at a healthy vendor.
    fn with_crowd(self, draw: &Draw) -> Schedule {
        let crowd = |place: u64| {
            let deadline = if place < 6 { Some(draw.within(ms(5)..ms(60))) } else { None };
            let at = ms(1_000 + 100 * place);
            let caller = Caller::once(at, deadline);
            Operation { kind: Kind::Keyed, resends: false, line: None, callers: vec![caller] }
        };
        Schedule {
            operations: (0..8).map(crowd).collect(),
            disruptions: Vec::new(),
            weather: Weather { percent: 0, troubles: vec![Trouble::NoConnection], outages: Vec::new() },
            ..self
        }
    }

    /// Hosts that do nothing but call and dispatch, with clocks that are right.
    fn with_dispatcher(self, draw: &Draw) -> Schedule {
        let operation = |_| {
            let kind = [Kind::Order, Kind::Email, Kind::Intent][draw.index(3)];
            let deadline = Some(draw.within(ms(300)..secs(8)));
            let at = draw.within(secs(0)..secs(20));
            let caller = Caller::once(at, deadline);
            Operation { kind, resends: false, line: None, callers: vec![caller] }
        };
        Schedule {
            hosts: 1,
            clocks: vec![WallClock::default()],
            operations: (0..2 + draw.below(4)).map(operation).collect(),
            disruptions: Vec::new(),
            recovers_every: vec![None],
            dispatcher: true,
            horizon: secs(120),
            ..self
        }
    }
}

impl Caller {
    /// On the first host, once.
    pub const fn once(at: Duration, deadline: Option<Duration>) -> Caller {
        Caller { host: 0, at, persists: false, deadline, cancels_after: None, waits: false, enqueues: None }
    }
}

fn operation(draw: &Draw, hosts: usize, span: Duration) -> Operation {
    use Kind::{Bare, Brand, Declined, Delete, Email, Get, Intent, Keyed, Order, Patch, Product, Put};
    let kinds = [Intent, Intent, Intent, Declined, Product, Order, Order, Brand, Email, Email, Keyed, Keyed];
    let kinds = [&kinds[..], &[Bare, Bare, Patch, Delete, Put, Get]].concat();
    let first = draw.within(secs(0)..span / 4);
    let mut callers = vec![caller(draw, hosts, first)];
    if draw.one_in(2) {
        // The same key, at the very same time or later.
        let later = if draw.one_in(3) { Duration::ZERO } else { draw.within(secs(0)..span / 3) };
        callers.push(caller(draw, hosts, first + later));
    }
    Operation { kind: kinds[draw.index(kinds.len())], resends: draw.one_in(5), line: None, callers }
}

fn caller(draw: &Draw, hosts: usize, at: Duration) -> Caller {
    Caller {
        host: draw.index(hosts),
        at,
        persists: !draw.one_in(3),
        deadline: match draw.below(8) {
            0 => Some(Duration::ZERO),
            1 | 2 => Some(draw.within(ms(5)..secs(20))),
            _ => None,
        },
        cancels_after: draw.one_in(8).then(|| draw.within(ms(1)..secs(30))),
        waits: false,
        enqueues: None,
    }
}

pub fn wall_clock(draw: &Draw) -> WallClock {
    let drift_ppm = if draw.one_in(4) { signed(draw, draw.below(2_000)) } else { 0 };
    let off_ms = if draw.one_in(3) { off(draw) } else { 0 };
    WallClock { off_ms, drift_ppm }
}

/// Seconds, minutes, or days.
pub fn off(draw: &Draw) -> i64 {
    let most = [10_000, 61_000, 12 * 60_000, 26 * 3_600_000, 3 * 86_400_000][draw.index(5)];
    signed(draw, draw.below(most))
}

fn signed(draw: &Draw, value: u64) -> i64 {
    let value = i64::try_from(value).expect("small");
    if draw.one_in(3) { -value } else { value }
}

fn weather(draw: &Draw, span: Duration) -> Weather {
    let outage = |_| {
        let from = draw.within(Duration::ZERO..span);
        (from, from + draw.within(secs(1)..span))
    };
    Weather {
        percent: [0, 30, 60, 95][draw.index(4)],
        // A few at a time, so that a schedule can be of nothing but answers lost after they were applied.
        troubles: (0..1 + draw.below(4)).map(|_| trouble(draw)).collect(),
        outages: (0..draw.below(3).saturating_sub(1)).map(outage).collect(),
    }
}

fn trouble(draw: &Draw) -> Trouble {
    match draw.below(18) {
        0 => Trouble::NoConnection,
        1 => Trouble::ConnectHangs,
        2 => Trouble::LostOnTheWay,
        3 => Trouble::ResetOnTheWay,
        4..=6 => Trouble::AnswerLost,
        7 => Trouble::AnswerHangs,
        8 | 9 => Trouble::Late,
        10 | 11 => Trouble::ProxyBefore(page(draw)),
        12 => Trouble::ProxyAfter(page(draw)),
        13 => Trouble::Stored500,
        14 => Trouble::Error500Before,
        15 => Trouble::Error500After,
        16 => Trouble::TooMany(u32::try_from(1 + draw.below(150)).expect("small")),
        _ => Trouble::KeyInUse,
    }
}

fn page(draw: &Draw) -> Page {
    const STATUSES: [u16; 18] =
        [200, 302, 304, 400, 401, 403, 404, 405, 408, 410, 413, 421, 429, 431, 500, 502, 503, 504];
    Page {
        status: STATUSES[draw.index(STATUSES.len())],
        html: !draw.one_in(4),
        wait: draw.one_in(3).then(|| [1, 30, 120, 7200][draw.index(4)]),
    }
}

pub fn disruption(draw: &Draw, hosts: usize, span: Duration) -> Disruption {
    let when = match draw.below(9) {
        0 | 1 => When::BeforeWrite(draw.below(8)),
        2 | 3 => When::AfterWrite(draw.below(8)),
        4 => When::AfterTake(draw.below(2)),
        5 | 6 => When::AfterSend(draw.below(5)),
        _ => When::At(draw.within(secs(0)..span)),
    };
    let at_store = matches!(when, When::BeforeWrite(_) | When::AfterWrite(_) | When::AfterTake(_));
    let what = match draw.below(9) {
        0 | 1 => What::Crash(draw.within(ms(1)..secs(120))),
        2 | 3 => What::Stall(draw.within(ms(1)..span)),
        4 | 5 if at_store => What::StoreFails,
        6 => What::Redrive,
        7 | 8 => What::Step(off(draw)),
        _ => What::Crash(draw.within(ms(1)..secs(3))),
    };
    Disruption { host: draw.index(hosts), when, what }
}

//! What happens in one schedule, drawn from its seed before anything runs.
//!
//! Chance that must be drawn while it runs (a request's way, a jitter) has streams of its own, from the same
//! seed.

use std::time::Duration;

use steadfast::testkit::{Fault, WaitForm};

pub use crate::draw::{Draw, ms, secs};
pub use crate::process::When;

/// One schedule.
#[derive(Debug)]
pub struct Schedule {
    pub processes: usize,
    pub operations: Vec<Operation>,
    /// Which requests meet which faults.
    pub faults: Faults,
    /// How often each process recovers what nobody holds; some never do.
    pub recovers_every: Vec<Option<Duration>>,
    pub disruptions: Vec<Disruption>,
    /// Whether the gates that hold load back, budget and breaker, are those of the defaults.
    pub guarded_load: bool,
    /// What an operator does once all is at rest.
    pub redrive: Redrive,
}

#[derive(Debug)]
pub struct Faults {
    /// How many of a hundred requests meet one.
    pub percent: u64,
    pub kinds: Vec<Fault>,
}

/// What one operation asks of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stripe: replays its key, and can be looked up.
    Intent,
    /// Stripe: refused.
    Declined,
    /// Stripe, on a route that has no lookup.
    Product,
    /// BigCommerce: no key, looked up by the stamped one.
    Order,
    /// BigCommerce: no key, a second one is refused by its name.
    Brand,
    /// Postmark: no key, and a search whose miss proves nothing.
    Email,
    /// A vendor by configuration that replays its key.
    Keyed,
    /// A vendor by configuration with neither key nor lookup.
    Bare,
    /// Stripe, on another route that takes a stamp.
    Created,
    /// Stripe's second interface: replays what has succeeded, and has no lookup.
    V2,
    /// Adyen: replays its key for a week, and has no lookup. Some are refused by their issuer, which is an answer.
    Payment,
    /// Adyen: refused.
    Unpaid,
    /// A preset of the keyed adapter.
    Preset(&'static str),
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    pub kind: Kind,
    pub callers: Vec<Caller>,
}

/// Somebody who sends an operation's key.
#[derive(Debug)]
pub struct Caller {
    pub process: usize,
    pub at: Duration,
    /// Whether the key is sent again until the operation has ended; else once, and recovery has to do the rest.
    pub persists: bool,
    pub deadline: Option<Duration>,
}

/// Something that goes wrong with a process or around it.
#[derive(Clone, Debug)]
pub struct Disruption {
    pub process: usize,
    pub when: When,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    /// The process dies, and another takes its place after this time.
    Crash(Duration),
    /// The process stands still for this time.
    Pause(Duration),
    /// The store fails the operation. Only around one of them.
    StoreFails,
    /// The wall clock is off by this many milliseconds from now on.
    WallOff(i64),
    /// An operator redrives every dead letter that can be redriven without force.
    Redrive,
}

/// What an operator does at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redrive {
    Never,
    /// At once, twice at the same time.
    AtOnce,
    /// When the vendors have forgotten their keys, which is a day later at most of them, with faults as before.
    NextDay,
}

impl Schedule {
    /// All disruptions are over by then, and every process is dead.
    pub const HORIZON: Duration = Duration::from_secs(50);

    /// How far the wall clock is ever off. The adapters allow for five minutes between their clock and ours.
    pub const WALL_OFF_MAX_MS: u64 = 4 * 60 * 1000;

    pub fn of(seed: u64) -> Schedule {
        let draw = Draw::new(seed, 0);
        let processes = 1 + draw.index(3);
        let operations = (0..1 + draw.below(4)).map(|_| operation(&draw, processes)).collect();
        let disruptions = (0..draw.below(5)).map(|_| disruption(&draw, processes)).collect();
        let recovers = |_| (!draw.one_in(4)).then(|| draw.within(secs(1)..secs(8)));
        Schedule {
            processes,
            operations,
            faults: faults(&draw),
            recovers_every: (0..processes).map(recovers).collect(),
            disruptions,
            guarded_load: draw.one_in(4),
            redrive: match draw.below(4) {
                0 => Redrive::Never,
                1 => Redrive::AtOnce,
                _ => Redrive::NextDay,
            },
        }
        .with_cast(&Draw::new(seed, 2))
    }

    /// How long after the schedule all keys are forgotten.
    pub fn forgotten_after(&self) -> Duration {
        let kept = |operation: &Operation| match operation.kind {
            Kind::V2 => 30 * 24,
            Kind::Payment | Kind::Unpaid => 7 * 24,
            _ => 24,
        };
        let kept = self.operations.iter().map(kept).max().unwrap_or_default();
        secs((kept + 2) * 3600)
    }
}

fn operation(draw: &Draw, processes: usize) -> Operation {
    use Kind::{Bare, Brand, Declined, Email, Intent, Keyed, Order, Product};
    // The more of those for which nothing but the hold keeps a second send away.
    let kinds = [Intent, Intent, Declined, Product, Order, Order, Order, Brand, Email, Keyed, Bare, Bare];
    let first = draw.within(secs(0)..secs(8));
    let mut callers = vec![caller(draw, processes, first)];
    if draw.one_in(2) {
        // The same key, at the very same time or a little later.
        let later = if draw.one_in(2) { Duration::ZERO } else { draw.within(secs(0)..secs(6)) };
        callers.push(caller(draw, processes, first + later));
    }
    Operation { kind: kinds[draw.index(kinds.len())], callers }
}

fn caller(draw: &Draw, processes: usize, at: Duration) -> Caller {
    Caller {
        process: draw.index(processes),
        at,
        persists: !draw.one_in(4),
        deadline: draw.one_in(5).then(|| draw.within(ms(50)..secs(5))),
    }
}

fn faults(draw: &Draw) -> Faults {
    let all = [
        Fault::DropBeforeRead,
        Fault::DropAfterApply,
        Fault::Reset,
        Fault::ResetAfterApply,
        Fault::Hang,
        Fault::HangAfterApply,
        Fault::SlowBody(ms(700)),
        Fault::TruncatedBody,
        Fault::Error500Before,
        Fault::Error500After,
        Fault::Stored500,
        Fault::Html,
        Fault::TooManyRequests(WaitForm::Seconds(2)),
        Fault::TooManyRequests(WaitForm::None),
        Fault::KeyInUse,
    ];
    // A few at a time, so that a schedule can be of nothing but answers lost after they were applied.
    let kinds = (0..1 + draw.below(6)).map(|_| all[draw.index(all.len())]).collect();
    Faults { percent: [0, 20, 50, 80][draw.index(4)], kinds }
}

fn disruption(draw: &Draw, processes: usize) -> Disruption {
    let when = match draw.below(9) {
        0 | 1 => When::BeforeWrite(draw.below(8)),
        2 | 3 => When::AfterWrite(draw.below(8)),
        4 => When::AfterTake(draw.below(2)),
        5 | 6 => When::AfterSend(draw.below(5)),
        _ => When::At(draw.within(secs(0)..secs(25))),
    };
    let at_store = matches!(when, When::BeforeWrite(_) | When::AfterWrite(_) | When::AfterTake(_));
    let what = match draw.below(8) {
        0 => What::Crash(draw.within(ms(1)..secs(15))),
        // Shorter than a lease, or long enough for somebody else to take over, look up and send.
        1 => What::Pause(draw.within(ms(1)..secs(3))),
        2 | 3 => What::Pause(draw.within(secs(8)..secs(30))),
        4 if at_store => What::StoreFails,
        5 => What::Redrive,
        6 => {
            let most = Schedule::WALL_OFF_MAX_MS;
            let off = if draw.one_in(2) { draw.below(10_000) } else { draw.below(most) };
            let off = i64::try_from(off).expect("small");
            What::WallOff(if draw.one_in(3) { -off } else { off })
        }
        _ => What::Crash(draw.within(ms(1)..secs(3))),
    };
    Disruption { process: draw.index(processes), when, what }
}

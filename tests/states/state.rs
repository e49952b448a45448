//! One state of the search: the store, the vendor, what is on its way, and what each host has heard.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use steadfast::Effect;
use steadfast::operation::record::{Notes, Record, State as OnRecord};
use steadfast::request::Request;

use crate::audit::Breach;
use crate::host::{Doing, Heard};
use crate::shelf::Trouble;
use crate::vendor::{Entry, Outcome};

/// Everything there is, as plain data.
#[derive(Clone, Debug)]
pub struct State {
    /// From the first state. It does not tell states apart: breadth first, each is met first on a shortest way.
    pub steps: usize,
    /// True time.
    pub now_ms: u64,
    /// Whether the vendor answers a key from its own record.
    pub replays: bool,
    pub record: Option<Arc<Record>>,
    pub notes: Notes,
    pub hosts: [Host; 2],
    pub flights: Vec<Flight>,
    pub ledger: Vec<Entry>,
    pub lives: Vec<Life>,
    pub fence_max: u64,
    pub left: Left,
    /// The host whose clock was just set. What others do comes before that or after it has acted: another order of
    /// the two would be no other story.
    pub clock_set: Option<usize>,
    /// The first broken promise on this way. Nothing is looked at beyond it.
    pub breach: Option<Breach>,
}

#[derive(Clone, Debug)]
pub struct Host {
    /// Its wall clock less true time.
    pub off_ms: i64,
    pub run: Option<Run>,
}

/// What a host is about.
#[derive(Clone, Debug)]
pub struct Run {
    pub doing: Doing,
    pub heard: Arc<Vec<Heard>>,
    /// The number of the exchange that it waits for, and what it asks.
    pub exchange: Option<(u32, Arc<Request>)>,
    pub alarms_ms: Vec<u64>,
    /// Names all that it has heard.
    pub digest: u64,
}

/// A request for the effect that may still be executed, or that was and whose answer is on its way back.
#[derive(Clone, Debug)]
pub struct Flight {
    /// The host that waits for the answer.
    pub host: Option<usize>,
    pub life: u64,
    /// No later than this.
    pub until_ms: u64,
    pub arrived: Option<Outcome>,
}

/// One life of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    pub first_fence: u64,
    /// Second effects that somebody chose to risk.
    pub accepted: u32,
    pub end: End,
    /// True time of the last change of `end`.
    pub ended_ms: u64,
    /// Somebody was told that it has no effect and will have none.
    pub none_promised: bool,
}

/// How a life stands on record, or stood when its record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Open,
    Succeeded,
    FailedNone,
    FailedUnknown,
}

/// How often something may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    /// Calls with the key that write something down.
    pub calls: u8,
    /// What operators do.
    pub operators: u8,
    /// What goes wrong: a connection that breaks, a look-up that fails, a refusal, a write that fails or is not heard
    /// of, a host that dies or stands still, a clock that is set.
    pub faults: u8,
}

impl State {
    pub fn first(replays: bool, off_ms: [i64; 2], left: Left) -> State {
        State {
            steps: 0,
            now_ms: 0,
            replays,
            record: None,
            notes: Notes::default(),
            hosts: off_ms.map(|off_ms| Host { off_ms, run: None }),
            flights: Vec::new(),
            ledger: Vec::new(),
            lives: Vec::new(),
            fence_max: 0,
            left,
            clock_set: None,
            breach: None,
        }
    }

    pub fn effects(&self, life: u64) -> u32 {
        self.ledger.iter().filter(|entry| entry.life == life && !entry.refused).count() as u32
    }

    /// Whether a request of this life may still arrive.
    pub fn is_under_way(&self, life: u64) -> bool {
        self.flights.iter().any(|flight| flight.life == life && flight.arrived.is_none())
    }

    pub fn life_mut(&mut self, first_fence: u64) -> Option<&mut Life> {
        self.lives.iter_mut().find(|life| life.first_fence == first_fence)
    }

    pub fn is_open(&self) -> bool {
        self.record.as_ref().is_some_and(|record| {
            matches!(record.state, OnRecord::InProgress { .. } | OnRecord::Scheduled { .. })
        })
    }

    pub fn is_idle(&self) -> bool {
        self.hosts.iter().all(|host| host.run.is_none())
    }
}

/// The life that a host held last, from what it heard.
pub fn life_held(heard: &[Heard]) -> Option<u64> {
    heard.iter().rev().find_map(|heard| match heard {
        Heard::Store(stored) => stored.held().map(|record| record.first_fence),
        Heard::Woken(_) => None,
    })
}

impl End {
    pub fn of(record: &Record) -> End {
        match (&record.state, record.effect) {
            (OnRecord::Succeeded { .. }, _) => End::Succeeded,
            (OnRecord::InProgress { .. } | OnRecord::Scheduled { .. }, _) => End::Open,
            (_, Effect::None) => End::FailedNone,
            _ => End::FailedUnknown,
        }
    }
}

/// By all that tells two states apart: as the search itself does.
impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        digest(self) == digest(other)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.now_ms.hash(hasher);
        self.record.as_deref().map(digest_of).hash(hasher);
        (self.notes, self.fence_max, &self.ledger, &self.lives, self.left, self.clock_set).hash(hasher);
        for host in &self.hosts {
            (host.off_ms, host.run.as_ref().map(|run| (run.doing, run.digest))).hash(hasher);
        }
        for flight in &self.flights {
            (flight.host, flight.life, flight.until_ms, flight.arrived).hash(hasher);
        }
        self.breach.hash(hasher);
    }
}

/// What tells two records of one operation apart. Its request and its answer are the same in every state.
pub fn digest_of(record: &Record) -> u64 {
    let (state, at, reconciled) = match &record.state {
        OnRecord::InProgress { lease_until } => (0, Some(*lease_until), false),
        OnRecord::Scheduled { at } => (1, Some(*at), false),
        OnRecord::Succeeded { reconciled, .. } => (2, None, *reconciled),
        OnRecord::Refused { .. } => (3, None, false),
        OnRecord::Dead { .. } => (4, None, false),
        _ => (5, None, false),
    };
    digest(&(
        (state, at, reconciled, record.fence, record.first_fence, record.attempts, record.effect as u8),
        (
            record.unknown_since,
            record.look_ups,
            record.resends_left,
            record.attempt_max,
            record.vendor_clock_ms,
        ),
        (record.claimed_at, record.updated_at, record.keep, record.on_unknown, record.resolved.is_some()),
    ))
}

/// What a store's trouble and a run's step add to the digest of a run.
pub fn digest_on(before: u64, wake: (u64, u64, u8), trouble: Option<Trouble>, shelf: Option<u64>) -> u64 {
    digest(&(before, wake, trouble, shelf))
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

//! One state of the search: the store, the vendor, what is on its way, and what each host has heard.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use steadfast::Effect;
use steadfast::operation::record::{CLOCKS_DIFFER_MAX, Notes, Record, State as OnRecord};
use steadfast::transport::Request;

use crate::states::audit::Breach;
use crate::states::digest::{digest, digest_of};
use crate::states::host::{Doing, Heard};
use crate::states::vendor::{Entry, Outcome};

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
    /// The host whose clock was just set. The acts of others come before that or after it has acted: another order of
    /// the two would be no other story.
    pub clock_set: Option<usize>,
    /// Two hosts' clocks, or one's before and after it was set, have differed by more than the crate allows for.
    pub clocks_apart: bool,
    /// The first broken promise on this way. Nothing is looked at beyond it.
    pub breach: Option<Breach>,
}

#[derive(Clone, Debug)]
pub struct Host {
    /// Its wall clock less true time.
    pub off_ms: i64,
    /// The time that its wall clock was off by when its process began.
    pub began_off_ms: i64,
    /// Whether it heard the vendor's clock then.
    pub is_taught: bool,
    pub run: Option<Run>,
}

/// The work that a host is about.
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
    pub accepted: usize,
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
    /// The acts of operators.
    pub operators: u8,
    /// The faults: a broken connection, a failed lookup, a refusal, a write that fails or goes unheard, a host that
    /// dies or stands still, a clock that is set.
    pub faults: u8,
}

impl Host {
    /// A process that begins.
    pub fn begun(off_ms: i64, is_taught: bool) -> Host {
        Host { off_ms, began_off_ms: off_ms, is_taught, run: None }
    }

    /// Whether the two differ in nothing but what they are about.
    pub fn has_clocks_of(&self, other: &Host) -> bool {
        let clocks = |host: &Host| (host.off_ms, host.began_off_ms, host.is_taught);
        clocks(self) == clocks(other)
    }
}

impl State {
    pub fn first(replays: bool, off_ms: [i64; 2], taught: bool, left: Left) -> State {
        State {
            steps: 0,
            now_ms: 0,
            replays,
            record: None,
            notes: Notes::default(),
            hosts: off_ms.map(|off_ms| Host::begun(off_ms, taught)),
            flights: Vec::new(),
            ledger: Vec::new(),
            lives: Vec::new(),
            fence_max: 0,
            left,
            clock_set: None,
            clocks_apart: are_apart(off_ms[0], off_ms[1]),
            breach: None,
        }
    }

    /// Sets a host's clock.
    pub fn set_clock(&mut self, host: usize, off_ms: i64) {
        let [was, other] = [self.hosts[host].off_ms, self.hosts[1 - host].off_ms];
        self.clocks_apart |= are_apart(was, off_ms) || are_apart(other, off_ms);
        self.hosts[host].off_ms = off_ms;
    }

    pub fn effects(&self, life: u64) -> usize {
        self.ledger.iter().filter(|entry| entry.life == life && !entry.refused).count()
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
        Heard::Store { stored, .. } => stored.held().map(|record| record.first_fence),
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

    /// The word that it gives on the effect.
    pub fn word(self) -> Effect {
        match self {
            End::Succeeded => Effect::Applied,
            End::FailedNone => Effect::None,
            End::Open | End::FailedUnknown => Effect::Unknown,
        }
    }
}

fn are_apart(one_ms: i64, other_ms: i64) -> bool {
    Duration::from_millis(one_ms.abs_diff(other_ms)) > CLOCKS_DIFFER_MAX
}

/// By all that tells two states apart: as the search itself does.
impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        digest(self) == digest(other)
    }
}

/// Two hosts whose clocks are alike are alike: which of them is which makes no other state.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.now_ms.hash(hasher);
        self.record.as_deref().map(digest_of).hash(hasher);
        (self.notes, self.fence_max, &self.ledger, &self.lives, self.left, self.clocks_apart).hash(hasher);
        self.breach.hash(hasher);
        let [one, other] = &self.hosts;
        let as_named = digest(&self.of_hosts([0, 1]));
        let in_turn = if one.has_clocks_of(other) { digest(&self.of_hosts([1, 0])) } else { as_named };
        as_named.min(in_turn).hash(hasher);
    }
}

impl State {
    /// The state of each host, with other numbers for them.
    fn of_hosts(&self, [first, second]: [usize; 2]) -> impl Hash + use<> {
        let hosts = [first, second].map(|host| {
            let Host { off_ms, began_off_ms, is_taught, run } = &self.hosts[host];
            (*off_ms, *began_off_ms, *is_taught, run.as_ref().map(|run| (run.doing, run.digest)))
        });
        let renamed = |host: Option<usize>| host.map(|host| usize::from(host != first));
        let mut flights: Vec<_> = self
            .flights
            .iter()
            .map(|flight| (renamed(flight.host), flight.life, flight.until_ms, flight.arrived))
            .collect();
        flights.sort_unstable();
        (hosts, flights, renamed(self.clock_set))
    }
}

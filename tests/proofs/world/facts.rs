//! The facts of what really happened, as the world saw it: requests and their effects, lives of keys, and what callers
//! were told.

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use steadfast::clock::{Instant, Timestamp};
use steadfast::operation::OperationId;
use steadfast::operation::record::{Claimed, Record, State};
use steadfast::{Disposition, Effect, Error, Gate, Obtained, Reply};

use crate::world::vendors::Name;

/// The header that says which of a schedule's operations a request is: part of the request on record, and read by
/// nobody but the audit. A lookup has none.
pub const OPERATION: &str = "x-operation";

/// The same for a call without a key, each of which is one of its own.
pub const CALL: &str = "x-call";

pub fn operation_of(headers: &HeaderMap) -> Option<usize> {
    headers.get(OPERATION)?.to_str().ok()?.parse().ok()
}

#[derive(Debug, Default)]
pub struct Facts(Mutex<All>);

/// Everything, in the order in which it happened.
#[derive(Clone, Debug, Default)]
pub struct All {
    /// When a vendor did not take a secret.
    pub denied: Vec<(Name, Instant)>,
    pub sends: Vec<Send>,
    pub lives: BTreeMap<usize, Vec<KeyLife>>,
    pub told: Vec<Told>,
    pub calls: Vec<CallMade>,
    pub failures: Vec<Failure>,
    pub waits: Vec<Wait>,
    pub pauses: Vec<Pause>,
    pub slowed: Vec<Slowed>,
    pub takes: Vec<Taken>,
    pub attempts: Vec<(u64, Name, Instant)>,
    pub renewals: Vec<Renewal>,
    /// When the store wrote down that an operation was let go of until a later time.
    pub let_go: Vec<(usize, Instant)>,
    /// The store in memory refused a claim, and this many of its records were not settled.
    pub refused_as_full: Vec<usize>,
    /// How many writes the store has carried out.
    pub commits: u64,
    /// The lives of each sequence, in the order in which they were accepted.
    pub lines: BTreeMap<String, Vec<(usize, usize)>>,
    pub accepted: Vec<Accepted>,
    pub cancelled: Vec<Cancelled>,
    pub waited: Vec<Waited>,
    /// The operations that dispatchers took: the process, the operation, its fence, and when.
    pub taken_by: Vec<(u64, usize, u64, Instant)>,
    pub stopped: Vec<Stopped>,
    /// By their numbers, from 1 on.
    pub rows: Vec<RowCommitted>,
}

/// A call was told that it is on record, for a dispatcher to send.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub operation: usize,
    /// Which of all calls it was.
    pub call: usize,
    pub life: Option<usize>,
    pub is_new: bool,
    pub began: Instant,
    pub at: Instant,
    /// Not to be sent before: what it asked for, by the clock that its record is of. `None` if that time had come.
    pub due: Option<Timestamp>,
    /// The same moment, in truth.
    pub due_in_truth: Instant,
    /// It asked for a time, and not for a wait.
    pub is_time: bool,
}

/// A call was told that nobody sends it any more.
#[derive(Clone, Debug)]
pub struct Cancelled {
    pub operation: usize,
    pub life: usize,
    pub at: Instant,
}

/// Somebody waited for an outcome.
#[derive(Clone, Debug)]
pub struct Waited {
    pub operation: usize,
    pub life: usize,
    pub began: Instant,
    pub at: Instant,
}

/// A transaction was committed that put a call into the store's outbox.
#[derive(Clone, Debug)]
pub struct RowCommitted {
    pub operation: usize,
    pub at: Instant,
    /// When it was kept aside, and when it was put back.
    pub asides: Vec<(Instant, Option<Instant>)>,
    /// When a dispatcher rejected it last, and why.
    pub rejected: Option<(Instant, String)>,
    pub admitted: Option<Admitted>,
}

/// A row is gone, and its operation is on record.
#[derive(Clone, Copy, Debug)]
pub struct Admitted {
    pub at: Instant,
    pub life: Option<usize>,
    pub how: AdmittedAs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmittedAs {
    /// The first call of a life of its key.
    Begun,
    /// The next call under a key that refused credentials had freed.
    TakenOver,
    /// One more call for an operation that was on record.
    Repeat,
}

impl AdmittedAs {
    /// The state that a claim gives the row that it is for. `None`: the row stays.
    pub fn of(claimed: &Claimed) -> Option<AdmittedAs> {
        match claimed {
            Claimed::Fresh(_) => Some(AdmittedAs::Begun),
            Claimed::TakenOver(_) | Claimed::Freed(_) => Some(AdmittedAs::TakenOver),
            Claimed::Settled(_) | Claimed::Busy { .. } => Some(AdmittedAs::Repeat),
            Claimed::Mismatch { .. } | Claimed::InTheWay { .. } => None,
        }
    }
}

impl RowCommitted {
    pub fn new(operation: usize, at: Instant) -> RowCommitted {
        RowCommitted { operation, at, asides: Vec::new(), rejected: None, admitted: None }
    }

    pub fn is_aside(&self) -> bool {
        self.asides.last().is_some_and(|(_, back)| back.is_none())
    }

    /// Whether it waited for a dispatcher all the time from `began` to `ended`, and no operator had a hand in it since.
    pub fn waits_through(&self, began: Instant, ended: Instant) -> bool {
        self.at < began
            && self.admitted.is_none_or(|admitted| admitted.at > ended)
            && self.asides.iter().all(|(_, back)| back.is_some_and(|back| back < began))
    }
}

/// A dispatcher was stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    pub incarnation: u64,
    pub host: usize,
    pub asked: Instant,
    pub at: Instant,
    pub limit: Duration,
    /// How many operations it cut off.
    pub cut_off: usize,
    /// Those that it had taken and that were in progress by its hand all the same.
    pub held: Vec<usize>,
    /// When the process began to dispatch again.
    pub again: Option<Instant>,
}

/// Where an operation stands, from a write on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    pub commit: u64,
    pub at: Instant,
    pub how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Waits,
    Held,
    /// A dead letter that nobody has dealt with.
    Dead,
    Ended,
}

impl How {
    fn of(record: &Record) -> How {
        match record.state {
            State::InProgress { .. } => How::Held,
            State::Scheduled { .. } => How::Waits,
            State::Dead { .. } if record.resolved.is_none() => How::Dead,
            _ => How::Ended,
        }
    }
}

/// Somebody has the operation in hand, from a write on.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub commit: u64,
    pub at: Instant,
    /// The time in the store then.
    pub now: Timestamp,
}

/// One request that left a host.
#[derive(Clone, Debug)]
pub struct Send {
    /// `None`: a lookup.
    pub operation: Option<usize>,
    /// Which life of its key.
    pub life: usize,
    pub vendor: Name,
    pub host: usize,
    pub incarnation: u64,
    /// When the connection got it, which may keep it for a while.
    pub handed: Instant,
    pub left: Instant,
    pub arrived: Option<Instant>,
    /// The ids of what it caused.
    pub effects: Vec<String>,
    /// The status of the vendor's own answer, once the host has it.
    pub answered: Option<u16>,
    /// The status of a proxy's answer in its place.
    pub page: Option<u16>,
    /// The version of the vendor's interface that it named.
    pub version: Option<String>,
    /// The time that its host's wall clock said.
    pub wall: Timestamp,
    /// The record of its operation at that time.
    pub on_record: Option<OnRecord>,
    /// The write by which its operation came into somebody's hand last.
    pub held: Option<u64>,
}

/// The times that a vendor's replay window is counted by.
#[derive(Clone, Debug)]
pub struct OnRecord {
    /// The first claim, by the clock of whoever made it.
    pub claimed_at: Timestamp,
    /// When that time was written down.
    pub written: Instant,
    /// The time that the vendor's clock said then, less that clock.
    pub vendor_clock_ms: Option<i64>,
    /// When somebody took the operation last, and the time since the first claim by the taker's clock.
    pub taken: (Instant, Duration),
}

/// From a first claim to the next one.
#[derive(Clone, Debug)]
pub struct KeyLife {
    /// An edited operation has another than the one it is in place of.
    pub key: String,
    pub began: Instant,
    pub takeovers: u32,
    pub redrives: u32,
    pub forced: u32,
    /// When it was last redriven without force.
    pub redriven_at: Option<Instant>,
    pub store_failed: bool,
    pub due: Option<Instant>,
    pub id: OperationId,
    /// When a store in memory that was full forgot what had become of it.
    pub evicted: Option<Instant>,
    /// When it was found purged, long after its retention: what is told of its key from then on is of the next life.
    pub forgotten: Option<Instant>,
    pub on_record: OnRecord,
    pub stands: Vec<Stand>,
    pub holds: Vec<Held>,
    /// Its dead letter lets the next one of its sequence go.
    pub skips: bool,
}

/// The act of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    Send,
    Enqueue,
    /// It looks, and does nothing.
    Wait,
}

/// One call of a caller, until it had an answer.
#[derive(Clone, Debug)]
pub struct CallMade {
    pub operation: usize,
    pub does: Does,
    pub began: Instant,
    pub ended: Option<Instant>,
}

/// A failure that is the vendor's or the network's, and no caller's.
#[derive(Clone, Debug)]
pub struct Failure {
    pub incarnation: u64,
    pub vendor: Name,
    pub operation: Option<usize>,
    pub call: Option<String>,
    pub at: Instant,
    /// Nobody waited for it.
    pub is_recovered: bool,
}

/// An operation that nobody held was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    pub operation: usize,
    pub at: Instant,
    /// When it was due, if it was scheduled.
    pub due: Option<Instant>,
}

/// A holder asked the store for more time, as its process saw that.
#[derive(Clone, Debug)]
pub struct Renewal {
    pub incarnation: u64,
    pub operation: usize,
    pub began: Instant,
    pub ended: Option<Instant>,
}

/// A vendor, or somebody in front of it, asked that a host leaves it alone.
#[derive(Clone, Debug)]
pub struct Pause {
    pub vendor: Name,
    pub asked: Instant,
    pub wait: Duration,
}

/// An answer 429, whether or not it said for how long.
#[derive(Clone, Debug)]
pub struct Slowed {
    pub vendor: Name,
    pub at: Instant,
    /// Nobody waited for what it answered.
    pub is_recovered: bool,
}

/// A vendor asked to be left alone.
#[derive(Clone, Debug)]
pub struct Wait {
    pub incarnation: u64,
    pub vendor: Name,
    pub operation: usize,
    pub told: Instant,
    pub until: Instant,
}

/// The word that a caller was told.
#[derive(Clone, Debug)]
pub struct Told {
    pub operation: usize,
    /// Its place in [`All::calls`].
    pub call: usize,
    pub life: Option<usize>,
    pub incarnation: u64,
    pub began: Instant,
    pub at: Instant,
    pub deadline_zero: bool,
    pub deadline: Option<Duration>,
    pub said: Said,
    pub effect: Option<Effect>,
    /// How many attempts it was told of, that this call made.
    pub attempts: usize,
    /// The disposition that it was told: what becomes of the operation without its caller.
    pub next: Option<Disposition>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Reply {
        text: String,
        obtained: Obtained,
    },
    Refused,
    Dead,
    InProgress,
    Refusing(Gate),
    Deadline,
    Store,
    /// The key belongs to another request.
    OfAnother,
    Other,
}

impl Told {
    /// Whether it was said that the operation goes on without its caller.
    pub fn goes_on(&self) -> bool {
        matches!(self.next, Some(Disposition::Continues { .. }))
    }
}

impl Said {
    pub fn of(result: &Result<Reply, Error>) -> Said {
        let error = match result {
            Ok(reply) => return Said::Reply { text: reply.text().into_owned(), obtained: reply.obtained() },
            Err(error) => error,
        };
        if error.is_refused() {
            Said::Refused
        } else if error.is_dead_letter() {
            Said::Dead
        } else if error.is_in_progress() {
            Said::InProgress
        } else if let Some(gate) = error.gate() {
            Said::Refusing(gate)
        } else if error.is_deadline() {
            Said::Deadline
        } else if error.is_store() {
            Said::Store
        } else if error.is_key_reused() {
            Said::OfAnother
        } else {
            Said::Other
        }
    }

    /// Whether it is the operation's outcome.
    pub fn is_end(&self) -> bool {
        matches!(self, Said::Reply { .. } | Said::Refused | Said::Dead)
    }
}

impl Facts {
    pub fn with<T>(&self, change: impl FnOnce(&mut All) -> T) -> T {
        change(&mut self.0.lock())
    }
}

impl KeyLife {
    /// The first claim of a life, as the store gave it.
    pub fn new(record: &Record, began: Instant) -> KeyLife {
        KeyLife {
            key: record.id.key.as_str().to_owned(),
            began,
            takeovers: 0,
            redrives: 0,
            forced: 0,
            redriven_at: None,
            store_failed: false,
            due: None,
            id: record.id.clone(),
            evicted: None,
            forgotten: None,
            on_record: OnRecord {
                claimed_at: record.claimed_at,
                written: began,
                vendor_clock_ms: record.vendor_clock_ms,
                taken: (began, Duration::ZERO),
            },
            stands: Vec::new(),
            holds: Vec::new(),
            skips: false,
        }
    }

    /// The store has this on record from `now` on.
    pub fn stands(&mut self, record: &Record, commit: u64, now: Instant) {
        self.stand(How::of(record), commit, now);
        let on_record = &mut self.on_record;
        if record.claimed_at != on_record.claimed_at {
            (on_record.claimed_at, on_record.written) = (record.claimed_at, now);
        }
        on_record.vendor_clock_ms = record.vendor_clock_ms;
    }

    /// It has come into somebody's hand by this write.
    pub fn is_held(&mut self, commit: u64, now: Timestamp, at: Instant) {
        self.holds.push(Held { commit, at, now });
    }

    pub fn stand(&mut self, how: How, commit: u64, at: Instant) {
        if self.stands.last().is_none_or(|last| last.how != how) {
            self.stands.push(Stand { commit, at, how });
        }
    }

    /// Where it stood when this write was made.
    pub fn stood(&self, commit: u64) -> Option<How> {
        self.stands.iter().rfind(|stand| stand.commit <= commit).map(|stand| stand.how)
    }

    /// Since when it was in somebody's hand then, without a time between in which it was in nobody's: a holder who takes
    /// over what a dead one held takes no turn.
    pub fn held_since(&self, commit: u64) -> u64 {
        let until = self.stands.iter().rev().filter(|stand| stand.commit <= commit);
        until.take_while(|stand| stand.how == How::Held).map(|stand| stand.commit).last().unwrap_or(commit)
    }

    /// Whether those behind it in its sequence had to wait for it then.
    pub fn holds_line(&self, commit: u64) -> bool {
        match self.stood(commit) {
            Some(How::Waits | How::Held) => true,
            Some(How::Dead) => !self.skips,
            Some(How::Ended) | None => false,
        }
    }
}

impl All {
    /// The present life of an operation's key, by its place.
    pub fn life(&self, operation: usize) -> Option<usize> {
        self.lives.get(&operation)?.len().checked_sub(1)
    }

    /// The life that a record is of.
    pub fn life_of(&self, operation: usize, key: &str) -> Option<usize> {
        self.lives.get(&operation)?.iter().rposition(|life| life.key == key)
    }

    pub fn life_mut(&mut self, operation: usize, key: &str) -> Option<&mut KeyLife> {
        self.lives.get_mut(&operation)?.iter_mut().rfind(|life| life.key == key)
    }

    /// The calls for an operation that do something, but for `own`.
    pub fn others(&self, operation: usize, own: usize) -> impl Iterator<Item = &CallMade> {
        let of_operation = move |call: &CallMade| call.operation == operation && call.does != Does::Wait;
        let others = self.calls.iter().enumerate().filter(move |(place, _)| *place != own);
        others.map(|(_, call)| call).filter(move |call| of_operation(call))
    }

    /// Whether another call of the same operation was under way while `own` was, which lasted from `began` to `ended`.
    pub fn overlap(&self, operation: usize, own: usize, (began, ended): (Instant, Instant)) -> bool {
        let is_beside = |call: &CallMade| call.began <= ended && call.ended.is_none_or(|end| end >= began);
        self.others(operation, own).any(is_beside)
    }

    /// Whether another call of the same operation was under way while this one was.
    pub fn overlaps(&self, told: &Told) -> bool {
        self.overlap(told.operation, told.call, (told.began, told.at))
    }

    /// Whether somebody waits for the operation now.
    pub fn has_caller(&self, operation: usize) -> bool {
        let sends = |call: &CallMade| call.does == Does::Send && call.ended.is_none();
        self.calls.iter().any(|call| call.operation == operation && sends(call))
    }

    /// The life of this name.
    pub fn named(&self, id: &OperationId) -> Option<(usize, usize)> {
        let place = |(operation, lives): (&usize, &Vec<KeyLife>)| {
            Some((*operation, lives.iter().rposition(|life| life.id == *id)?))
        };
        self.lives.iter().find_map(place)
    }

    pub fn life_at(&self, (operation, life): (usize, usize)) -> Option<&KeyLife> {
        self.lives.get(&operation)?.get(life)
    }

    /// Those before this one in its sequence; `None` if it is in none.
    pub fn ahead_of(&self, place: (usize, usize)) -> Option<&[(usize, usize)]> {
        self.lines.values().find_map(|line| {
            let index = line.iter().position(|other| *other == place)?;
            Some(&line[..index])
        })
    }

    /// Whether it waits in its sequence for another one, or for somebody to deal with a dead letter.
    pub fn waits_for_its_turn(&self, place: (usize, usize)) -> bool {
        let ahead = self.ahead_of(place).unwrap_or_default();
        ahead.iter().filter_map(|other| self.life_at(*other)).any(|life| life.holds_line(self.commits))
    }

    /// Whether a row was admitted to this life of its key after `at`, so that the operation is sent once more.
    pub fn is_asked_again_by_row(&self, (operation, life): (usize, usize), at: Instant) -> bool {
        self.rows.iter().filter(|row| row.operation == operation).any(|row| {
            row.admitted.is_some_and(|admitted| {
                admitted.how == AdmittedAs::TakenOver && admitted.life == Some(life) && admitted.at > at
            })
        })
    }

    pub fn sends_of(&self, operation: usize) -> impl Iterator<Item = &Send> {
        self.sends.iter().filter(move |send| send.operation == Some(operation))
    }

    /// The ids of all effects that an operation has had in one life of its key.
    pub fn effects_of(&self, operation: usize, life: usize) -> Vec<&str> {
        let sends = self.sends_of(operation).filter(|send| send.life == life);
        sends.flat_map(|send| send.effects.iter().map(String::as_str)).collect()
    }
}

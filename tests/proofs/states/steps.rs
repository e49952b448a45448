//! The steps that can happen next.

use std::time::Duration;

use steadfast::clock::Timestamp;
use steadfast::operation::record::{CLOCKS_DIFFER_MAX, DOUBTED_FOR, State as OnRecord};
use steadfast_core::internal::operation::slack;

use crate::states::audit;
use crate::states::model::{Search, WHENEVER_MS};
use crate::states::operator::{self, Word};
use crate::states::shelf::Trouble;
use crate::states::state::State;
use crate::states::vendor::{self, Kind, wall};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A caller sends with the key.
    Call(usize, Option<Trouble>),
    /// Time goes on to when an operation is free to be taken, if it is not yet, and a host carries on with it.
    Recover(usize, Option<Trouble>),
    /// Time goes on to a host's next alarm, if it has not rung yet, and the host goes on.
    Wake(usize, Option<Trouble>),
    /// A request reaches the vendor, which executes it, and the host has the answer at once.
    Exchange(usize, Option<Trouble>),
    /// The answer that a host waits for comes over the network, or breaks.
    Hear(usize, Comes, Option<Trouble>),
    /// A request reaches the vendor, which executes or refuses it.
    Arrive { flight: usize, refused: bool },
    /// A host stands still from before the first byte of its request on, for as long as it likes. The request leaves
    /// when it goes on.
    Stall(usize),
    /// A host dies, and all that it knew with it.
    Crash(usize),
    /// A host's wall clock is set.
    SetClock(usize, i64),
    /// Time goes on to here.
    Advance(u64),
    /// A host removes what has expired.
    Purge(usize),
    /// An operator does something about a dead letter.
    Operate(Word),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comes {
    /// The vendor's answer.
    Answer,
    /// A lookup is answered, but not with what it asked for.
    Unavailable,
    /// The connection breaks.
    Reset,
    /// No connection was made: nothing has left.
    NoConnection,
}

/// The times that a host's wall clock may be off by.
pub const CLOCKS_MS: [i64; 4] = [-HOUR_MS, 0, 61_000, 25 * HOUR_MS];

const HOUR_MS: i64 = 60 * 60 * 1_000;

impl Search {
    /// All that can happen next, always in the same order.
    pub fn next_actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.breach.is_some() || state.steps == self.depth {
            return;
        }
        let may_err = state.left.faults > 0;
        let moments = self.moments(state).into_iter();
        actions.extend(moments.filter(|to_ms| may_err || !stands_still(state, *to_ms)).map(Action::Advance));
        if let Some(host) = state.clock_set {
            if host == 0 {
                // An operator's step is by this host's clock.
                Self::operators(state, actions);
            }
            return self.host_actions(state, host, actions);
        }
        for host in 0..2 {
            // Two hosts that do nothing and have the same clock are one.
            let are_idle = state.hosts.iter().all(|host| host.run.is_none());
            if host == 1 && are_idle && state.hosts[0].has_clocks_of(&state.hosts[1]) {
                continue;
            }
            self.host_actions(state, host, actions);
            if may_err && self.sets_clocks && state.record.is_some() {
                let others = CLOCKS_MS.into_iter().filter(|off_ms| *off_ms != state.hosts[host].off_ms);
                actions.extend(others.map(|off_ms| Action::SetClock(host, off_ms)));
            }
        }
        for (flight, under_way) in state.flights.iter().enumerate() {
            if under_way.arrived.is_none() {
                actions.push(Action::Arrive { flight, refused: false });
                if may_err {
                    actions.push(Action::Arrive { flight, refused: true });
                }
            }
        }
        Self::operators(state, actions);
    }

    fn operators(state: &State, actions: &mut Vec<Action>) {
        if state.left.operators > 0 {
            actions.extend(operator::words(state).map(Action::Operate));
        }
    }

    /// The moments that matter from here: each is a bound that somebody's rule has.
    fn moments(&self, state: &State) -> Vec<u64> {
        let mut moments: Vec<u64> = Vec::new();
        for host in &state.hosts {
            let own = |at: Timestamp| audit::true_ms(at, host.off_ms);
            if let Some(record) = &state.record {
                moments.extend(record.until().map(own));
                let may_be_sent = state.is_open() || matches!(record.state, OnRecord::Dead { .. });
                if self.kind == Kind::Replays && may_be_sent {
                    // The last moment at which it is sent, and the first at which it is not.
                    let over = record.claimed_at.plus(vendor::WINDOW - slack(record.attempt_max));
                    moments.extend([over.minus(Duration::from_millis(1)), over].map(own));
                }
            }
            // By what the record says, the settle time is over: a host that let go of it may know that earlier, but
            // those of the search remember nothing.
            let unknown_since = state.record.as_ref().and_then(|record| record.unknown_since);
            let unknown_since = unknown_since.filter(|_| self.kind == Kind::LooksUp);
            moments.extend(unknown_since.map(|since| own(self.settled_by_record(since))));
            // A time that is doubted is believed from then on.
            moments.extend(state.notes.doubted.map(|(from, _)| own(from.plus(DOUBTED_FOR))));
        }
        moments.extend(
            state.flights.iter().filter(|flight| flight.arrived.is_none()).map(|flight| flight.until_ms),
        );
        if self.kind == Kind::Replays {
            moments.extend(
                state.ledger.iter().map(|entry| entry.at_ms.saturating_add(audit::millis(self.rules.window))),
            );
        }
        moments.retain(|at| *at > state.now_ms && *at != WHENEVER_MS);
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    /// When the settle time is over by the record alone: two clocks that a store believes may be that far apart.
    fn settled_by_record(&self, unknown_since: Timestamp) -> Timestamp {
        unknown_since.plus(CLOCKS_DIFFER_MAX * 2).plus(self.kind.settle())
    }

    fn host_actions(&self, state: &State, host: usize, actions: &mut Vec<Action>) {
        let Some(run) = &state.hosts[host].run else {
            if state.left.calls > 0 {
                self.with_trouble(state, actions, |trouble| Action::Call(host, trouble));
            }
            self.recovery(state, host, actions);
            let now = wall(state.now_ms, state.hosts[host].off_ms);
            // Each host's purge also tells the store what time it is by its clock.
            let has_expired = state.record.as_ref().is_some_and(|record| record.has_expired(now));
            if has_expired || state.notes.doubted.is_some() {
                actions.push(Action::Purge(host));
            }
            return;
        };
        if let Some(at) = run.alarms_ms.iter().min() {
            // A host that goes on at its alarm may leave another standing.
            match (stands_still(state, *at), state.left.faults) {
                (false, _) => self.with_trouble(state, actions, |trouble| Action::Wake(host, trouble)),
                (true, 0) => {}
                (true, _) => actions.push(Action::Wake(host, None)),
            }
        }
        if let Some((_, request)) = &run.exchange {
            let flight = state.flights.iter().find(|flight| flight.host == Some(host));
            let has_arrived = flight.is_some_and(|flight| flight.arrived.is_some());
            if has_arrived || !vendor::is_send(request) {
                self.with_trouble(state, actions, |trouble| Action::Hear(host, Comes::Answer, trouble));
            } else if flight.is_some() {
                self.with_trouble(state, actions, |trouble| Action::Exchange(host, trouble));
            }
            if state.left.faults > 0 {
                actions.push(Action::Hear(host, Comes::Reset, None));
                if !vendor::is_send(request) {
                    actions.push(Action::Hear(host, Comes::Unavailable, None));
                }
                let leaves = flight.is_some_and(|flight| flight.until_ms != WHENEVER_MS);
                if self.stalls && leaves && !has_arrived {
                    actions.push(Action::Stall(host));
                }
                if flight.is_some() && !has_arrived {
                    actions.push(Action::Hear(host, Comes::NoConnection, None));
                }
            }
        }
        if state.left.faults > 0 {
            actions.push(Action::Crash(host));
        }
    }

    /// Recovery takes what is free by the host's own clock, or what will be.
    fn recovery(&self, state: &State, host: usize, actions: &mut Vec<Action>) {
        if operator::can_take(self, state, host) {
            return self.with_trouble(state, actions, |trouble| Action::Recover(host, trouble));
        }
        let Some(at) = state.record.as_ref().and_then(|record| record.until()) else { return };
        let at_ms = audit::true_ms(at, state.hosts[host].off_ms);
        if state.is_open() && at_ms > state.now_ms {
            match (stands_still(state, at_ms), state.left.faults) {
                (false, _) => self.with_trouble(state, actions, |trouble| Action::Recover(host, trouble)),
                (true, 0) => {}
                (true, _) => actions.push(Action::Recover(host, None)),
            }
        }
    }

    fn with_trouble(
        &self,
        state: &State,
        actions: &mut Vec<Action>,
        action: impl Fn(Option<Trouble>) -> Action,
    ) {
        actions.push(action(None));
        if state.left.faults > 0 {
            actions.extend([Trouble::Fails, Trouble::AckLost].map(|trouble| action(Some(trouble))));
        }
    }
}

/// Whether a host begins to sleep through its alarm on the way there: one fault, however long it sleeps.
pub fn stands_still(state: &State, to_ms: u64) -> bool {
    let mut alarms = state.hosts.iter().flat_map(|host| &host.run).flat_map(|run| &run.alarms_ms);
    alarms.any(|at| (state.now_ms..to_ms).contains(at))
}

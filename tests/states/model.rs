//! What can happen next, and what comes of it.

use std::sync::Arc;

use parking_lot::Mutex;
use stateright::{Model, Property};
use steadfast::Client;
use steadfast::clock::Timestamp;
use steadfast::operation::record::State as OnRecord;
use steadfast::transport::SendErrorKind;

use crate::audit::{self, BREACHES, Breach};
use crate::host::{Doing, Tape, Wake, go_on};
use crate::operator::{self, Word};
use crate::shelf::{Guard, Shelf, Trouble};
use crate::state::{Flight, Left, Run, State, digest_of, digest_on, life_held};
use crate::vendor::{self, Entry, Kind, Rules, wall};

/// Two hosts, one key, one vendor.
pub struct Search {
    pub kind: Kind,
    pub rules: Rules,
    /// Whether the caller accepts a second effect.
    pub resends: bool,
    pub left: Left,
    /// What the hosts' clocks may be off by.
    pub clocks: Vec<[i64; 2]>,
    /// Whether clocks are set on the way.
    pub sets_clocks: bool,
    /// A guard that is out.
    pub without: Option<Guard>,
    pub bench: Mutex<Bench>,
}

/// The client that every host is, and its tape.
pub struct Bench {
    pub tape: Arc<Tape>,
    pub client: Client,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A caller sends with the key.
    Call(usize, Option<Trouble>),
    /// A host takes what nobody holds, and carries on with it.
    Recover(usize, Option<Trouble>),
    /// Time goes on to a host's next alarm, if it has not rung yet, and the host goes on.
    Wake(usize, Option<Trouble>),
    /// A request reaches the vendor, which executes it, and the host has the answer at once.
    Exchange(usize, Option<Trouble>),
    /// What a host waits for comes over the network, or breaks.
    Hear(usize, Comes, Option<Trouble>),
    /// A request reaches the vendor, which executes or refuses it.
    Arrive { flight: usize, refused: bool },
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
    /// The connection breaks.
    Reset,
    /// No connection was made: nothing has left.
    NoConnection,
}

/// What a host's wall clock may be off by.
pub const CLOCKS_MS: [i64; 4] = [-HOUR_MS, 0, 61_000, 25 * HOUR_MS];

const HOUR_MS: i64 = 60 * 60 * 1_000;

impl Search {
    pub fn new(kind: Kind, resends: bool, left: Left, clocks: Vec<[i64; 2]>) -> Search {
        let tape = Arc::new(Tape::default());
        let client = vendor::client(kind, &tape);
        let bench = Mutex::new(Bench { tape, client });
        Search {
            kind,
            rules: Rules::of(kind),
            resends,
            left,
            clocks,
            sets_clocks: true,
            without: None,
            bench,
        }
    }

    fn shelf(&self, state: &State, trouble: Option<Trouble>) -> Shelf {
        Shelf { record: state.record.clone(), purged: state.purged, trouble, without: self.without }
    }

    /// Runs a host one step further.
    fn step(
        &self,
        state: &mut State,
        host: usize,
        doing: Doing,
        comes: Option<(Comes, steadfast::answer::Answer)>,
        trouble: Option<Trouble>,
    ) {
        let run = state.hosts[host].run.take();
        state.clock_set = None;
        let (before, digest) =
            run.as_ref().map_or((Arc::default(), 0), |run| (run.heard.clone(), run.digest));
        let at = wall(state.now_ms, state.hosts[host].off_ms);
        let tag = comes
            .as_ref()
            .map_or(0, |(comes, answer)| 1 + *comes as u8 + (answer.status.as_u16() % 97) as u8);
        let answer = comes.map(|(comes, answer)| match comes {
            Comes::Answer => Ok(answer),
            Comes::Reset => Err(SendErrorKind::Reset),
            Comes::NoConnection => Err(SendErrorKind::Connect),
        });
        let wake = Wake { now_ms: state.now_ms, wall: at, answer };
        let shelf = self.shelf(state, trouble);
        let bench = self.bench.lock();
        let call = || vendor::call(self.kind, &bench.client, self.resends);
        let came = go_on(&bench.client, &bench.tape, (doing, call), &before, wake, shelf);
        drop(bench);
        if trouble.is_some() && came.shelf.trouble.is_none() {
            state.left.faults -= 1;
        }
        let was_empty = state.record.is_none();
        (state.record, state.purged) = (came.shelf.record, came.shelf.purged);
        self.part_with(state, host, run.as_ref(), came.exchange.as_ref().map(|(number, _)| *number));
        audit::note_record(state, was_empty, self.resends);
        let life = life_held(&came.heard);
        if let Some(told) = came.told {
            audit::hear(state, host, life, told);
        }
        if came.ended {
            return;
        }
        let known = run.as_ref().and_then(|run| run.exchange.as_ref());
        let exchange = came.exchange.map(|(number, request)| match known {
            Some((before, asked)) if *before == number => (number, asked.clone()),
            _ => {
                let request = Arc::new(request);
                if vendor::is_send(&request) {
                    let until_ms = state.now_ms + ATTEMPT_MS + audit::millis(self.rules.late);
                    let life = life.unwrap_or_default();
                    state.flights.push(Flight { host: Some(host), life, until_ms, arrived: None });
                }
                (number, request)
            }
        });
        let record = state.record.as_deref().map(digest_of);
        let digest = digest_on(digest, (state.now_ms, at.as_millis(), tag), trouble, record);
        let (heard, alarms_ms) = (Arc::new(came.heard), came.alarms_ms);
        state.hosts[host].run = Some(Run { doing, heard, exchange, alarms_ms, digest });
    }

    /// A host that waits for its exchange no more has closed the connection.
    fn part_with(&self, state: &mut State, host: usize, run: Option<&Run>, now_waits_for: Option<u32>) {
        let waited_for = run.and_then(|run| run.exchange.as_ref()).map(|(number, _)| *number);
        if waited_for.is_none() || waited_for == now_waits_for {
            return;
        }
        let until_ms = state.now_ms + audit::millis(self.rules.late);
        state.flights.retain_mut(|flight| {
            if flight.host == Some(host) {
                flight.host = None;
                flight.until_ms = flight.until_ms.min(until_ms);
            }
            flight.host.is_some() || flight.arrived.is_none()
        });
    }

    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Call(host, trouble) => {
                state.left.calls -= 1;
                self.step(state, host, Doing::Call, None, trouble);
            }
            Action::Recover(host, trouble) => self.step(state, host, Doing::Recovery, None, trouble),
            Action::Wake(host, trouble) => {
                let Some(run) = &state.hosts[host].run else { return };
                let (doing, alarm) = (run.doing, run.alarms_ms.iter().min().copied());
                self.advance(state, alarm.unwrap_or_default().max(state.now_ms));
                self.step(state, host, doing, None, trouble);
            }
            Action::Hear(host, comes, trouble) => self.hear(state, host, comes, trouble),
            Action::Arrive { flight, refused } => {
                state.left.faults -= u8::from(refused);
                self.arrive(state, flight, refused);
            }
            Action::Exchange(host, trouble) => {
                if let Some(flight) = state.flights.iter().position(|flight| flight.host == Some(host)) {
                    self.arrive(state, flight, false);
                }
                self.hear(state, host, Comes::Answer, trouble);
            }
            Action::Crash(host) => {
                state.left.faults -= 1;
                state.hosts[host].run = None;
                state.flights.retain_mut(|flight| {
                    // Nobody closes the connection of a machine that has lost its power.
                    if flight.host == Some(host) {
                        flight.host = None;
                    }
                    flight.host.is_some() || flight.arrived.is_none()
                });
            }
            Action::SetClock(host, off_ms) => {
                state.left.faults -= 1;
                state.clock_set = Some(host);
                state.hosts[host].off_ms = off_ms;
            }
            Action::Advance(to_ms) => self.advance(state, to_ms),
            Action::Purge(host) => {
                let mut shelf = self.shelf(state, None);
                state.clock_set = None;
                shelf.purge(wall(state.now_ms, state.hosts[host].off_ms));
                (state.record, state.purged) = (shelf.record, shelf.purged);
            }
            Action::Operate(word) => {
                state.left.operators -= 1;
                let shelf = self.shelf(state, None);
                operator::act(&self.bench.lock(), state, word, shelf);
                audit::note_record(state, false, self.resends);
            }
        }
        if state.breach.is_none() {
            state.breach = audit::audit(state);
        }
    }

    fn advance(&self, state: &mut State, to_ms: u64) {
        state.left.faults -= u8::from(stands_still(state, to_ms));
        state.now_ms = to_ms;
        state.flights.retain(|flight| flight.until_ms >= to_ms || flight.arrived.is_some());
    }

    fn arrive(&self, state: &mut State, flight: usize, refused: bool) {
        let (now_ms, life) = (state.now_ms, state.flights[flight].life);
        let (outcome, executed) = vendor::arrive(self.kind, &self.rules, &state.ledger, now_ms, refused);
        if executed {
            state.ledger.push(Entry { life, at_ms: now_ms, refused });
        }
        state.flights[flight].arrived = Some(outcome);
        state.flights.retain(|flight| flight.host.is_some() || flight.arrived.is_none());
    }

    fn hear(&self, state: &mut State, host: usize, comes: Comes, trouble: Option<Trouble>) {
        let Some(run) = &state.hosts[host].run else { return };
        let Some((_, request)) = run.exchange.clone() else { return };
        let doing = run.doing;
        let sent = state.flights.iter().position(|flight| flight.host == Some(host));
        let answer = if vendor::is_send(&request) {
            let arrived = sent.and_then(|sent| state.flights[sent].arrived);
            match (arrived, sent) {
                (Some(outcome), Some(sent)) => {
                    state.flights.remove(sent);
                    outcome.answer(self.kind, &request)
                }
                (None, Some(sent)) if comes == Comes::NoConnection => {
                    state.flights.remove(sent);
                    nothing()
                }
                _ => nothing(),
            }
        } else {
            vendor::look_up(&self.rules, &state.ledger, state.now_ms, &request)
        };
        if comes != Comes::Answer {
            state.left.faults -= 1;
        }
        self.step(state, host, doing, Some((comes, answer)), trouble);
    }

    /// Whether a healthy host brings the operation to rest from here, with nothing going wrong any more.
    fn comes_to_rest(&self, state: &State) -> bool {
        let mut state = State { breach: None, flights: Vec::new(), left: ENOUGH, ..state.clone() };
        for _ in 0..STEPS_TO_REST_MAX {
            if state.is_idle() && !state.is_open() {
                return true;
            }
            let action = match (&state.hosts[0].run, &state.record) {
                (Some(run), _) if run.exchange.is_some() => Action::Exchange(0, None),
                (Some(_), _) => Action::Wake(0, None),
                (None, Some(record)) => {
                    match record.until().map(|at| audit::true_ms(at, state.hosts[0].off_ms)) {
                        Some(at) if at > state.now_ms && !operator::can_take(self, &state, 0) => {
                            Action::Advance(at)
                        }
                        _ => Action::Recover(0, None),
                    }
                }
                (None, None) => return true,
            };
            self.apply(&mut state, action);
        }
        false
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
                    moments.push(own(record.claimed_at.plus(vendor::WINDOW)));
                }
            }
        }
        moments.extend(
            state.flights.iter().filter(|flight| flight.arrived.is_none()).map(|flight| flight.until_ms),
        );
        if self.kind == Kind::Replays {
            moments.extend(state.ledger.iter().map(|entry| entry.at_ms + audit::millis(self.rules.window)));
        }
        moments.retain(|at| *at > state.now_ms);
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    fn host_actions(&self, state: &State, host: usize, actions: &mut Vec<Action>) {
        let Some(run) = &state.hosts[host].run else {
            if state.left.calls > 0 {
                self.with_trouble(state, actions, |trouble| Action::Call(host, trouble));
            }
            if operator::can_take(self, state, host) {
                self.with_trouble(state, actions, |trouble| Action::Recover(host, trouble));
            }
            let now = wall(state.now_ms, state.hosts[host].off_ms);
            if state.record.as_ref().is_some_and(|record| record.has_expired(now)) {
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
                if flight.is_some() && !has_arrived {
                    actions.push(Action::Hear(host, Comes::NoConnection, None));
                }
            }
        }
        if state.left.faults > 0 {
            actions.push(Action::Crash(host));
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

impl Model for Search {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        self.clocks
            .iter()
            .map(|clocks| State::first(self.kind == Kind::Replays, *clocks, self.left))
            .collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.breach.is_some() {
            return;
        }
        let may_err = state.left.faults > 0;
        let moments = self.moments(state).into_iter();
        actions.extend(moments.filter(|to_ms| may_err || !stands_still(state, *to_ms)).map(Action::Advance));
        if let Some(host) = state.clock_set {
            return self.host_actions(state, host, actions);
        }
        for host in 0..2 {
            // Two hosts that do nothing and have the same clock are one.
            let same = state.hosts[0].run.is_none() && state.hosts[0].off_ms == state.hosts[1].off_ms;
            if host == 1 && same && state.hosts[1].run.is_none() {
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
        if state.left.operators > 0 {
            actions.extend(operator::words(state).map(Action::Operate));
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.apply(&mut state, action);
        let asked = matches!(action, Action::Call(..) | Action::Operate(_));
        // Who was only told what is on record has changed nothing.
        let same = State { left: before.left, ..state.clone() };
        let unchanged = asked && state.breach.is_none() && same == *before;
        (!unchanged).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Search>> {
        BREACHES.into_iter().map(|breach| Property::always(breach.name(), holds(breach))).collect()
    }
}

fn holds(breach: Breach) -> fn(&Search, &State) -> bool {
    macro_rules! each {
        ($($kind:ident)*) => {
            match breach {
                $(Breach::$kind => |_, state| state.breach != Some(Breach::$kind),)*
                Breach::Stuck => |search, state| {
                    state.breach.is_some() || !state.is_idle() || !state.is_open() || search.comes_to_rest(state)
                },
            }
        };
    }
    each!(SecondEffect SucceededWithoutEffect FailedWithEffect FenceWentBack AppliedTold NoneTold NonePromised
          EndTold SuccessTakenBack KeyForgotten NoneToldOfAKeyForgotten)
}

/// Whether a host sleeps through its alarm until then.
fn stands_still(state: &State, to_ms: u64) -> bool {
    to_ms > state.now_ms
        && state.hosts.iter().flat_map(|host| &host.run).flat_map(|run| &run.alarms_ms).any(|at| *at < to_ms)
}

fn nothing() -> steadfast::answer::Answer {
    steadfast::answer::Answer::new(http::StatusCode::NO_CONTENT, http::HeaderMap::new(), Vec::new())
}

/// The attempt's timeout of the preset.
const ATTEMPT_MS: u64 = 30_000;

/// What a healthy host needs to come to rest counts for nothing.
const ENOUGH: Left = Left { calls: 9, operators: 9, faults: 99 };

/// A recovery takes four steps, or six with a look-up; more than a few of them on end is no progress.
const STEPS_TO_REST_MAX: usize = 40;

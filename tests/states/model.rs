//! What can happen next, and what comes of it.

use std::sync::Arc;

use parking_lot::Mutex;
use stateright::{Model, Property};
use steadfast::Client;
use steadfast::transport::SendErrorKind;

use crate::audit::{self, BREACHES, Breach};
use crate::host::{Doing, Tape, Wake, go_on};
use crate::operator;
use crate::shelf::{Guard, Shelf, Trouble};
use crate::state::{Flight, Left, Run, State, digest_of, digest_on, life_held};
use crate::steps::{Action, Comes, stands_still};
use crate::vendor::{self, Entry, Kind, Rules, wall};

/// Two hosts, one key, one vendor.
pub struct Search {
    pub kind: Kind,
    pub rules: Rules,
    /// Whether the caller accepts a second effect.
    pub resends: bool,
    pub left: Left,
    /// How many steps are taken from the first state.
    pub depth: usize,
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

impl Search {
    pub fn new(kind: Kind, resends: bool, left: Left, depth: usize, clocks: Vec<[i64; 2]>) -> Search {
        let tape = Arc::new(Tape::default());
        let client = vendor::client(kind, &tape);
        let bench = Mutex::new(Bench { tape, client });
        Search {
            kind,
            rules: Rules::of(kind),
            resends,
            left,
            depth,
            clocks,
            sets_clocks: true,
            without: None,
            bench,
        }
    }

    fn shelf(&self, state: &State, trouble: Option<Trouble>) -> Shelf {
        Shelf { record: state.record.clone(), notes: state.notes, trouble, without: self.without }
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
        // What a client remembers from call to call is another host's here, or is forgotten: each step has a new one.
        let client = vendor::client(self.kind, &bench.tape);
        let call = || vendor::call(self.kind, &client, self.resends);
        let came = go_on(&client, &bench.tape, (doing, call), &before, wake, shelf);
        drop(bench);
        if trouble.is_some() && came.shelf.trouble.is_none() {
            state.left.faults -= 1;
        }
        let was_empty = state.record.is_none();
        (state.record, state.notes) = (came.shelf.record, came.shelf.notes);
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
                (state.record, state.notes) = (shelf.record, shelf.notes);
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
        self.next_actions(state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = State { steps: before.steps + 1, ..before.clone() };
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

fn nothing() -> steadfast::answer::Answer {
    steadfast::answer::Answer::new(http::StatusCode::NO_CONTENT, http::HeaderMap::new(), Vec::new())
}

/// The attempt's timeout of the preset.
const ATTEMPT_MS: u64 = 30_000;

/// What a healthy host needs to come to rest counts for nothing.
const ENOUGH: Left = Left { calls: 9, operators: 9, faults: 99 };

/// A recovery takes four steps, or six with a look-up; more than a few of them on end is no progress.
const STEPS_TO_REST_MAX: usize = 40;

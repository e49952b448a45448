//! The steps that can happen next, and what comes of them.

use std::sync::Arc;

use parking_lot::Mutex;
use stateright::{Model, Property};
use steadfast::Client;
use steadfast::operation::record::DOUBTED_FOR;
use steadfast::transport::SendErrorKind;

use crate::states::audit::{self, BREACHES, Breach};
use crate::states::digest::digest_on;
use crate::states::host::{Doing, Tape, Wake, go_on, teach};
use crate::states::operator;
use crate::states::shelf::{Guard, Shelf, Trouble};
use crate::states::state::{Flight, Host, Left, Run, State, life_held};
use crate::states::steps::{Action, Comes, stands_still};
use crate::states::vendor::{self, Entry, Kind, Rules, wall};

/// Two hosts, one key, one vendor.
pub struct Search {
    pub kind: Kind,
    pub rules: Rules,
    /// Whether the caller accepts a second effect.
    pub resends: bool,
    pub left: Left,
    /// How many steps are taken from the first state.
    pub depth: usize,
    /// The times that the hosts' clocks may be off by.
    pub clocks: Vec<[i64; 2]>,
    /// Whether the hosts have heard the vendor's clock.
    pub taught: bool,
    /// Whether clocks are set on the way.
    pub sets_clocks: bool,
    /// Whether a host may stand still between its last look at the lease and the first byte. Off: what comes of it is
    /// a limit of the crate.
    pub stalls: bool,
    /// A guard that is out.
    pub without: Option<Guard>,
    pub bench: Mutex<Bench>,
}

/// The tape, and what makes a client on it.
pub struct Bench {
    pub tape: Arc<Tape>,
    kind: Kind,
}

impl Bench {
    pub fn new(kind: Kind) -> Bench {
        Bench { tape: Arc::default(), kind }
    }

    /// A client that has heard nothing. Each run begins with its own: one that other runs had used would remember
    /// what they did, and time goes back from one run to the next.
    pub fn client(&self) -> Client {
        vendor::client(self.kind, &self.tape)
    }

    /// That of a process whose wall clock was off by so much when it began. How long ago that is makes no difference:
    /// of the moment it remembers what its two clocks said of each other.
    fn client_since(&self, began_off_ms: i64) -> Client {
        self.tape.begin(&[], Shelf::default());
        self.tape.wake(&Wake { now_ms: 0, wall: wall(0, began_off_ms), answer: None });
        self.client()
    }
}

impl Search {
    pub fn new(kind: Kind, resends: bool, left: Left, depth: usize, clocks: Vec<[i64; 2]>) -> Search {
        let bench = Mutex::new(Bench::new(kind));
        Search {
            kind,
            rules: Rules::of(kind),
            resends,
            left,
            depth,
            clocks,
            taught: false,
            sets_clocks: true,
            stalls: false,
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
        comes: Option<(Comes, steadfast::transport::Answer)>,
        trouble: Option<Trouble>,
    ) {
        let run = state.hosts[host].run.take();
        state.clock_set = None;
        let (before, digest) =
            run.as_ref().map_or((Arc::default(), 0), |run| (run.heard.clone(), run.digest));
        let at = wall(state.now_ms, state.hosts[host].off_ms);
        let answer = comes.map(|(comes, answer)| match comes {
            Comes::Answer | Comes::Unavailable => Ok(answer),
            Comes::Reset => Err(SendErrorKind::Reset),
            Comes::NoConnection => Err(SendErrorKind::Connect),
        });
        let wake = Wake { now_ms: state.now_ms, wall: at, answer };
        let shelf = self.shelf(state, trouble);
        let bench = self.bench.lock();
        let Host { began_off_ms, is_taught, .. } = state.hosts[host];
        let client = bench.client_since(began_off_ms);
        // Only a claim asks for it.
        if doing == Doing::Call && is_taught {
            teach(&bench.tape, wall(0, began_off_ms), vendor::lesson(self.kind, &client));
        }
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
        let digest = digest_on(digest, &came.heard[before.len()..]);
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

    /// Goes one way from the beginning. Each action must be among those that the search would take there.
    #[track_caller]
    pub fn walk(&self, way: impl IntoIterator<Item = Action>) -> State {
        way.into_iter().fold(self.init_states().remove(0), |state, action| {
            let mut offered = Vec::new();
            self.actions(&state, &mut offered);
            assert!(offered.contains(&action), "{action:?} is not among {offered:?}");
            self.next_state(&state, action).expect("it changes something")
        })
    }

    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Call(host, trouble) => {
                state.left.calls -= 1;
                self.step(state, host, Doing::Call, None, trouble);
            }
            Action::Recover(host, trouble) => {
                let free_at = state.record.as_ref().and_then(|record| record.until());
                if let (Some(at), false) = (free_at, operator::can_take(self, state, host)) {
                    self.advance(state, audit::true_ms(at, state.hosts[host].off_ms).max(state.now_ms));
                }
                self.step(state, host, Doing::Recovery, None, trouble);
            }
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
            Action::Stall(host) => {
                state.left.faults -= 1;
                for flight in state.flights.iter_mut().filter(|flight| flight.host == Some(host)) {
                    flight.until_ms = WHENEVER_MS;
                }
                // It sleeps through them, and hears what comes in the end.
                state.hosts[host].run.iter_mut().for_each(|run| run.alarms_ms.clear());
            }
            Action::Crash(host) => {
                state.left.faults -= 1;
                state.hosts[host] = Host::begun(state.hosts[host].off_ms, false);
                // A request that had not left does not leave any more.
                state.flights.retain(|flight| flight.host != Some(host) || flight.until_ms != WHENEVER_MS);
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
                state.set_clock(host, off_ms);
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
                state.clock_set = None;
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
        } else if comes == Comes::Unavailable {
            vendor::unavailable()
        } else {
            vendor::lookup(&self.rules, &state.ledger, state.now_ms, &request)
        };
        if comes != Comes::Answer {
            state.left.faults -= 1;
        }
        self.step(state, host, doing, Some((comes, answer)), trouble);
    }

    fn is_stuck(&self, state: &State) -> bool {
        state.breach.is_none() && state.is_idle() && state.is_open() && !self.comes_to_rest(state)
    }

    /// Whether a healthy host brings the operation to rest from here, with nothing going wrong any more.
    fn comes_to_rest(&self, state: &State) -> bool {
        let mut state = State { breach: None, flights: Vec::new(), left: ENOUGH, ..state.clone() };
        let mut recovered = 0;
        for _ in 0..STEPS_TO_REST_MAX {
            if state.is_idle() && !state.is_open() {
                return true;
            }
            let action = match (&state.hosts[0].run, &state.record) {
                (Some(run), _) if run.exchange.is_some() => Action::Exchange(0, None),
                (Some(_), _) => Action::Wake(0, None),
                (None, Some(_)) => Action::Recover(0, None),
                (None, None) => return true,
            };
            if matches!(action, Action::Recover(..)) {
                // A host of the search remembers nothing of what it let go of. By what the store remembers, a doubted
                // time is believed after so long.
                state.now_ms += recovered * audit::millis(DOUBTED_FOR);
                recovered = 1;
                // Nor does it remember what it measured since its clock was set: it is one that begins here.
                let Host { off_ms, is_taught, .. } = state.hosts[0];
                state.hosts[0] = Host::begun(off_ms, is_taught);
            }
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
            .map(|clocks| State::first(self.kind == Kind::Replays, *clocks, self.taught, self.left))
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
        let of = |breach: Breach| {
            let [kept, apart] = holds(breach);
            [Property::always(breach.name(false), kept), Property::always(breach.name(true), apart)]
        };
        BREACHES.into_iter().flat_map(of).collect()
    }
}

/// Whether it is not broken in a state where the clocks never were apart, and in one where they were.
fn holds(breach: Breach) -> [fn(&Search, &State) -> bool; 2] {
    macro_rules! each {
        ($($kind:ident)*) => {
            match breach {
                $(Breach::$kind => [
                    |_, state| state.clocks_apart || state.breach != Some(Breach::$kind),
                    |_, state| !state.clocks_apart || state.breach != Some(Breach::$kind),
                ],)*
                Breach::Stuck => [
                    |search, state| state.clocks_apart || !search.is_stuck(state),
                    |search, state| !state.clocks_apart || !search.is_stuck(state),
                ],
            }
        };
    }
    each!(SecondEffect SucceededWithoutEffect FailedWithEffect FenceWentBack AppliedTold NoneTold NonePromised
          EndTold SuccessTakenBack KeyForgotten NoneToldOfAKeyForgotten)
}

fn nothing() -> steadfast::transport::Answer {
    steadfast::transport::Answer::new(http::StatusCode::NO_CONTENT, http::HeaderMap::new(), Vec::new())
}

/// The attempt's timeout of the preset.
const ATTEMPT_MS: u64 = 30_000;

/// No request is under way for so long.
pub const WHENEVER_MS: u64 = u64::MAX;

/// Enough for a healthy host: its needs to come to rest count for nothing.
const ENOUGH: Left = Left { calls: 9, operators: 9, faults: 99 };

/// A recovery takes four steps, or six with a lookup; more than a few of them on end is no progress.
const STEPS_TO_REST_MAX: usize = 40;

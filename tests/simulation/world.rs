//! One schedule, from its start to its rest, on virtual time and one thread.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast::clock::{Clock as _, Instant, Timestamp};
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::operation::record::{Filter, Phase};
use steadfast::store::{Memory, Store};
use steadfast::testkit::{Fault, TestClock};
use steadfast::transport::Answer;
use steadfast::{Client, Error, Reply};
use tokio::task::JoinSet;

use crate::audit::{self, Breach, Told};
use crate::guards::{Guard, StoreWithout};
use crate::plan::{Caller, Disruption, Draw, Redrive, Schedule, What, When, ms, secs};
use crate::process::{Counts, Life, RECOVERED_MAX, client_of, recover};
use crate::vendors::{Name, Vendors, exact_wall};

/// Everything there is in one schedule.
pub struct World {
    pub schedule: Schedule,
    pub guard: Option<Guard>,
    pub clock: TestClock,
    pub vendors: Vendors,
    /// It plays the disk: it outlives the processes.
    pub memory: Arc<Memory>,
    pub store: Arc<dyn Store>,
    /// Chance while it runs.
    pub draw: Draw,
    pub counts: Vec<Counts>,
    pub sends: Arc<AtomicU64>,
    rough: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lives: BTreeMap<usize, Arc<Life>>,
    /// Callers who will not send again, by operation and place.
    done: BTreeSet<(usize, usize)>,
    told: Vec<(usize, Told)>,
    answers: HashSet<Bytes>,
    happened: BTreeMap<&'static str, u64>,
    trace: Vec<String>,
}

/// What a schedule came to.
#[derive(Debug)]
pub struct Outcome {
    pub breaches: Vec<Breach>,
    /// What happened, by name, and how often.
    pub happened: BTreeMap<&'static str, u64>,
    pub trace: Vec<String>,
}

/// Runs the schedule of this seed, without the guard if one is named.
pub fn run(seed: u64, guard: Option<Guard>) -> Outcome {
    let clock = TestClock::new();
    let (stepped, steps, stuck) = (clock.clone(), AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
    let told = stuck.clone();
    let ended = Arc::new(tokio::sync::Notify::new());
    let at_an_end = ended.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(move || {
            // Nobody has anything left to do now: on to the next moment.
            if steps.fetch_add(1, Ordering::Relaxed) > STEPS_MAX || !stepped.step() {
                told.store(true, Ordering::Relaxed);
                at_an_end.notify_one();
            }
        })
        .build()
        .expect("a runtime");
    let world = World::new(seed, guard, clock);
    let panics = crate::run::panics();
    let script = world.clone();
    let mut breaches = runtime.block_on(async move {
        let mut script = tokio::spawn(script.play());
        tokio::select! {
            biased;
            breaches = &mut script => breaches.unwrap_or_else(|error| vec![Breach::Panicked(error.to_string())]),
            () = ended.notified() => Vec::new(),
        }
    });
    drop(runtime);
    if stuck.load(Ordering::Relaxed) {
        breaches.push(Breach::Stuck);
    }
    if crate::run::panics() > panics && !breaches.iter().any(|breach| matches!(breach, Breach::Panicked(_))) {
        breaches.push(Breach::Panicked("a task".to_owned()));
    }
    audit::count_endings(&world);
    let mut state = world.state.lock();
    let (happened, trace) = (std::mem::take(&mut state.happened), std::mem::take(&mut state.trace));
    // The lives hold the world.
    state.lives.clear();
    Outcome { breaches, happened, trace }
}

impl World {
    fn new(seed: u64, guard: Option<Guard>, clock: TestClock) -> Arc<World> {
        let schedule = Schedule::of(seed);
        let memory = Arc::new(Memory::new());
        Arc::new(World {
            guard,
            vendors: Vendors::new(&clock, &schedule),
            store: Arc::new(StoreWithout::new(guard, memory.clone())),
            memory,
            draw: Draw::new(seed, 1),
            // One more for the operator.
            counts: (0..=schedule.processes).map(|_| Counts::default()).collect(),
            sends: Arc::default(),
            rough: AtomicBool::new(true),
            state: Mutex::default(),
            schedule,
            clock,
        })
    }

    async fn play(self: Arc<World>) -> Vec<Breach> {
        let mut under_way = JoinSet::new();
        for process in 0..self.schedule.processes {
            under_way.spawn(self.clone().live(process));
        }
        for disruption in self.schedule.disruptions.clone() {
            under_way.spawn(self.clone().at_its_time(disruption));
        }
        self.clock.latency(Schedule::HORIZON).await;
        self.note(|| "all die; calm from here on".to_owned());
        for life in self.state.lock().lives.values() {
            life.die(Duration::MAX);
        }
        drop(under_way);
        self.rough.store(false, Ordering::Relaxed);

        let operator = Life::new(&self, self.schedule.processes);
        let mut breaches = Vec::from_iter(self.come_to_rest(&operator).await);
        breaches.extend(audit::judge(&self));
        if self.schedule.redrive != Redrive::Never && breaches.is_empty() {
            if self.schedule.redrive == Redrive::NextDay {
                self.clock.latency(self.schedule.forgotten_after()).await;
                self.rough.store(true, Ordering::Relaxed);
            }
            tokio::join!(self.redrive(&operator), self.redrive(&operator));
            for (_, client) in self.clients(&operator) {
                // Those that cannot be carried on are taken again once it is calm.
                let _ = client.recover(RECOVERED_MAX).await;
            }
            self.rough.store(false, Ordering::Relaxed);
            breaches.extend(self.come_to_rest(&operator).await);
            breaches.extend(audit::judge(&self));
        }
        if breaches.is_empty() {
            breaches.extend(self.send_all_again(&operator).await);
        }
        breaches
    }

    /// One process, life after life.
    async fn live(self: Arc<World>, process: usize) {
        loop {
            let life = Life::new(&self, process);
            self.state.lock().lives.insert(process, life.clone());
            let clients = self.clients(&life);
            let mut tasks = JoinSet::new();
            for (number, operation) in self.schedule.operations.iter().enumerate() {
                for (place, caller) in operation.callers.iter().enumerate() {
                    if caller.process == process && !self.is_done(number, place) {
                        let client = client_of(&clients, operation.kind.vendor()).clone();
                        tasks.spawn(self.clone().deliver(life.clone(), client, number, place));
                    }
                }
            }
            if let Some(every) = self.schedule.recovers_every[process] {
                tasks.spawn(recover(life.clone(), clients, every));
            }
            let successor_after = life.end().await;
            drop(tasks);
            self.note(|| format!("p{process} is dead, for {successor_after:?}"));
            self.clock.latency(successor_after).await;
        }
    }

    /// Sends an operation's key until it has ended, or once.
    async fn deliver(self: Arc<World>, life: Arc<Life>, client: Client, number: usize, place: usize) {
        let operation = &self.schedule.operations[number];
        let caller: &Caller = &operation.callers[place];
        let wait = Instant::ORIGIN.plus(caller.at).since(self.clock.now());
        self.clock.latency(wait).await;
        life.goes_on().await;
        if !caller.persists {
            self.state.lock().done.insert((number, place));
        }
        loop {
            let mut call = operation.kind.call(&client, number);
            if let Some(deadline) = caller.deadline {
                call = call.deadline(deadline);
            }
            let result = call.send().await;
            let ended = self.tell(number, &result);
            if ended || !caller.persists {
                self.state.lock().done.insert((number, place));
                return;
            }
            let wall = SystemTime::from(self.clock.wall());
            let asked = result.err().and_then(|error| error.retry_at());
            let wait = asked.and_then(|at| at.duration_since(wall).ok()).unwrap_or_default();
            self.clock.latency(wait.clamp(ms(50), secs(5))).await;
            life.goes_on().await;
        }
    }

    /// Notes what a caller was told, and says whether the operation has ended for them.
    fn tell(&self, number: usize, result: &Result<Reply, Error>) -> bool {
        let told = Told::of(result);
        self.note(|| format!("order-{number} is told {told:?}"));
        let ended = told.is_end();
        self.state.lock().told.push((number, told));
        ended
    }

    async fn at_its_time(self: Arc<World>, disruption: Disruption) {
        let When::At(at) = disruption.when else { return };
        self.clock.latency(at).await;
        let life = self.state.lock().lives.get(&disruption.process).cloned();
        if let Some(life) = life.filter(|life| !life.is_dead()) {
            self.disrupt(&life, disruption.what);
        }
    }

    /// What is planned for a moment of a process.
    pub fn disruptions_at(&self, process: usize, moment: When) -> impl Iterator<Item = What> + '_ {
        let now = move |disruption: &&Disruption| disruption.process == process && disruption.when == moment;
        self.schedule.disruptions.iter().filter(now).map(|disruption| disruption.what)
    }

    pub fn disrupt(self: &Arc<World>, life: &Life, what: What) {
        self.note(|| format!("p{} meets {what:?}", life.process));
        let name = match what {
            What::Crash(successor_after) => {
                life.die(successor_after);
                "crashes"
            }
            What::Pause(pause) => {
                life.pause(pause);
                "pauses"
            }
            What::StoreFails => "store failures",
            What::WallOff(by_ms) => {
                let (exact, by) = (exact_wall(&self.clock), ms(by_ms.unsigned_abs()));
                self.clock.set_wall(if by_ms < 0 { exact.minus(by) } else { exact.plus(by) });
                "wall clock jumps"
            }
            What::Redrive => {
                let (world, operator) = (self.clone(), Life::new(self, self.schedule.processes));
                tokio::spawn(async move { world.redrive(&operator).await });
                "redrives under way"
            }
        };
        self.happened(name, 1);
    }

    fn clients(&self, life: &Arc<Life>) -> Vec<(Name, Client)> {
        let names: BTreeSet<Name> =
            self.schedule.operations.iter().map(|operation| operation.kind.vendor()).collect();
        names.into_iter().map(|name| (name, self.vendors.client(name, life))).collect()
    }

    /// Makes every dead letter due that may be without force.
    async fn redrive(&self, operator: &Arc<Life>) {
        let store = crate::shared_store::SharedStore { life: operator.clone(), inner: self.store.clone() };
        let letters = DeadLetters::new(Arc::new(store)).with_clock(self.clock.clone());
        let letters =
            self.clients(operator).iter().fold(letters, |letters, (_, client)| letters.with_client(client));
        let redriven = letters.redrive_all(&Filter::default(), &Change::by("ann")).await;
        let redriven = redriven.expect("the operator's store does not fail");
        self.happened("letters redriven", redriven.done);
        self.happened("letters held back", redriven.held_back);
        self.note(|| format!("redrive: {} due, {} held back", redriven.done, redriven.held_back));
    }

    /// Recovers until nothing is under way any more.
    async fn come_to_rest(&self, operator: &Arc<Life>) -> Option<Breach> {
        let clients = self.clients(operator);
        for _ in 0..ROUNDS_MAX {
            for (_, client) in &clients {
                let recovered = client.recover(RECOVERED_MAX).await.expect("the store works by now");
                self.happened("operations taken at the end", recovered.taken as u64);
            }
            let filter = Filter { phases: vec![Phase::InProgress, Phase::Scheduled], ..Filter::default() };
            let left = self.memory.list(&filter, None, 100).await.expect("a page").rows;
            let next = left.iter().filter_map(|row| row.until).min()?;
            let wait = next.since(self.clock.wall());
            self.clock.latency(wait.max(ms(100))).await;
        }
        Some(Breach::NotAtRest)
    }

    /// The same keys again: each gives what is on record, and nothing more happens.
    async fn send_all_again(&self, operator: &Arc<Life>) -> Vec<Breach> {
        let clients = self.clients(operator);
        let before = audit::effects(self);
        let mut breaches = Vec::new();
        for (number, operation) in self.schedule.operations.iter().enumerate() {
            if audit::record(self, number).is_some() {
                let client = client_of(&clients, operation.kind.vendor());
                let told = Told::of(&operation.kind.call(client, number).send().await);
                if !told.is_end() {
                    breaches.push(Breach::Unsettled { number, told });
                }
            }
        }
        if audit::effects(self) != before {
            breaches.push(Breach::ReplayedWithEffect);
        }
        breaches
    }

    /// What a process's wall clock says: here all processes have one.
    pub fn wall(&self, _process: usize) -> Timestamp {
        self.clock.wall()
    }

    /// Whether the network and the vendors misbehave.
    pub fn is_rough(&self) -> bool {
        self.rough.load(Ordering::Relaxed)
    }

    /// What the next request to arrive meets.
    pub fn fault(&self) -> Option<Fault> {
        let faults = &self.schedule.faults;
        if !self.is_rough() || self.draw.below(100) >= faults.percent {
            return None;
        }
        self.happened("faults", 1);
        let count = u64::try_from(faults.kinds.len()).ok()?;
        faults.kinds.get(usize::try_from(self.draw.below(count)).ok()?).copied()
    }

    /// A vendor gave this answer to somebody.
    pub fn answered(&self, answer: &Answer) {
        self.state.lock().answers.insert(answer.body.clone());
    }

    pub fn has_answered(&self, body: &Bytes) -> bool {
        self.state.lock().answers.contains(body)
    }

    pub fn all_told(&self) -> Vec<(usize, Told)> {
        self.state.lock().told.clone()
    }

    pub fn happened(&self, name: &'static str, times: u64) {
        *self.state.lock().happened.entry(name).or_default() += times;
    }

    /// Nobody else holds the store here.
    pub fn locked_until(&self) -> Option<Instant> {
        None
    }

    /// It is in this process here.
    pub fn is_store_away(&self) -> bool {
        false
    }

    pub fn has_standby(&self) -> bool {
        false
    }

    pub fn store_failed(&self) {}

    /// Adds a line to the trace.
    pub fn note(&self, line: impl FnOnce() -> String) {
        let line = format!("{:>12?} {}", self.clock.now().since(Instant::ORIGIN), line());
        self.state.lock().trace.push(line);
    }

    fn is_done(&self, number: usize, place: usize) -> bool {
        self.state.lock().done.contains(&(number, place))
    }
}

/// Rounds of recovery at the end. A lease or a postponed lookup ends each within one or two.
const ROUNDS_MAX: usize = 60;

/// Far more moments than any schedule has: beyond, it goes round in circles.
const STEPS_MAX: u64 = 200_000;

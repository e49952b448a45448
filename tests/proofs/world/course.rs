//! One schedule, from its start to its rest, on virtual time and one thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::json;
use steadfast::BoxFuture;
use steadfast::clock::{Clock as _, Instant, Timestamp};
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::{
    CLOCKS_DIFFER_MAX, DOUBTED_FOR, Filter, Phase, Record, Resolution, Summary,
};
use steadfast::operation::{Key, OperationId};
use steadfast::store::{Memory, Sqlite, Store};
use steadfast::testkit::TestClock;
use steadfast::{Client, Error, InFlight, Reply};
use tokio::task::JoinSet;

use crate::world::audit::{self, Breaches};
use crate::world::desk::dispatcher;
use crate::world::facts::{CALL, Does, Facts, Said, Told, operation_of};
use crate::world::network::queue_max;
use crate::world::outbox::Rows;
use crate::world::plan::{
    Caller, Disruption, Draw, Operator, Schedule, Trouble, WallClock, What, When, ms, secs,
};
use crate::world::process::{Counts, Life, RECOVERED_MAX, client_of, recover};
use crate::world::promised;
use crate::world::queue::{Queued, ServerClock};
use crate::world::store::Watched;
use crate::world::vendors::{Kind, Name, Vendors, on_unknown, shifted};
use support::in_memory;
use support::server_clock::ServerTimed;

/// Everything there is in one schedule.
pub struct World {
    pub schedule: Schedule,
    pub clock: TestClock,
    pub vendors: Vendors,
    /// It plays the disk: it outlives the hosts.
    pub store: Arc<dyn Store>,
    /// The table of its outbox.
    pub rows: Arc<Rows>,
    /// Chance while it runs.
    pub draw: Draw,
    pub counts: Vec<Counts>,
    pub facts: Arc<Facts>,
    is_told: bool,
    rough: AtomicBool,
    incarnations: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lives: BTreeMap<usize, Arc<Life>>,
    steps_ms: Vec<i64>,
    /// Callers who will not send again, by operation and place.
    done: BTreeSet<(usize, usize)>,
    trace: Vec<String>,
}

/// The result of a schedule.
#[derive(Debug)]
pub struct Outcome {
    pub breaches: Breaches,
    pub operations: usize,
    pub trace: Vec<String>,
}

/// Runs the schedule of this seed, and writes its story if it is `told`.
pub fn run(seed: u64, is_told: bool) -> Outcome {
    let clock = TestClock::new();
    let (stepped, steps, stuck) = (clock.clone(), AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
    let told = stuck.clone();
    let under_way = Arc::new(AtomicUsize::new(0));
    let (at_work, ended) = (under_way.clone(), Arc::new(tokio::sync::Notify::new()));
    let at_an_end = ended.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(move || {
            // Nobody has anything left to do now, unless a store's thread is at work: on to the next moment.
            if at_work.load(Ordering::Relaxed) > 0 {
                return;
            }
            if steps.fetch_add(1, Ordering::Relaxed) > STEPS_MAX || !stepped.step() {
                told.store(true, Ordering::Relaxed);
                at_an_end.notify_one();
            }
        })
        .build()
        .expect("a runtime");
    let schedule = Schedule::of(seed);
    let directory = schedule.sqlite.then(in_memory::directory);
    let bounded = schedule.extras.records_max.map(|most| Arc::new(Memory::with_capacity(most)));
    let memory = bounded.clone().or_else(|| directory.is_none().then(|| Arc::new(Memory::new())));
    let disk: Box<dyn Store> = match (&directory, &memory) {
        (Some(directory), _) => Box::new(Sqlite::open(directory.path().join("world.db")).expect("a store")),
        (None, memory) => Box::new(Arc::clone(memory.as_ref().expect("in memory"))),
    };
    let rows = Arc::new(Rows::new(!schedule.extras.rows.is_empty(), memory));
    let disk: Box<dyn Store> = match schedule.server {
        Some(server) => Box::new(ServerTimed::over(disk, ServerClock(clock.clone(), server))),
        None => disk,
    };
    let world = World::new(seed, schedule, clock, (disk, bounded, rows), under_way, is_told);
    let panics = support::run::panics();
    let script = world.clone();
    let mut breaches = runtime.block_on(async move {
        let mut script = tokio::spawn(script.play());
        tokio::select! {
            biased;
            breaches = &mut script => breaches.unwrap_or_else(|error| audit::panicked(&error.to_string())),
            () = ended.notified() => Breaches::new(),
        }
    });
    drop(runtime);
    if stuck.load(Ordering::Relaxed) {
        breaches.entry(audit::Kind::Stuck).or_default();
    }
    if support::run::panics() > panics {
        breaches.extend(audit::panicked("a task"));
    }
    let mut state = world.state.lock();
    let trace = std::mem::take(&mut state.trace);
    // The lives hold the world.
    state.lives.clear();
    Outcome { breaches, operations: world.schedule.operations.len(), trace }
}

impl World {
    fn new(
        seed: u64,
        schedule: Schedule,
        clock: TestClock,
        (disk, bounded, rows): (Box<dyn Store>, Option<Arc<Memory>>, Arc<Rows>),
        under_way: Arc<AtomicUsize>,
        is_told: bool,
    ) -> Arc<World> {
        let facts = Arc::new(Facts::default());
        let turn = tokio::sync::Mutex::new(());
        let (seen, time) = (facts.clone(), clock.clone());
        let table = rows.clone();
        Arc::new(World {
            vendors: Vendors::new(&clock, &schedule),
            store: Arc::new(Watched {
                inner: disk,
                bounded,
                facts: seen,
                rows: table,
                clock: time,
                under_way,
                turn,
            }),
            rows,
            draw: Draw::new(seed, 1),
            // One more for the operator.
            counts: (0..=schedule.hosts).map(|_| Counts::default()).collect(),
            facts,
            is_told,
            rough: AtomicBool::new(true),
            incarnations: AtomicU64::new(0),
            state: Mutex::new(State { steps_ms: vec![0; schedule.hosts], ..State::default() }),
            schedule,
            clock,
        })
    }

    async fn play(self: Arc<World>) -> Breaches {
        let mut under_way = JoinSet::new();
        for host in 0..self.schedule.hosts {
            under_way.spawn(self.clone().live(host));
        }
        for disruption in self.schedule.disruptions.clone() {
            under_way.spawn(self.clone().at_its_time(disruption));
        }
        for plan in 0..self.schedule.extras.rows.len() {
            under_way.spawn(self.clone().keep_aside(plan));
        }
        self.clock.latency(self.schedule.horizon).await;
        self.note(|| "all die; calm from here on".to_owned());
        for life in self.state.lock().lives.values() {
            life.die(Duration::MAX);
        }
        drop(under_way);
        self.rough.store(false, Ordering::Relaxed);

        let operator = Life::new(&self, self.schedule.hosts);
        self.refresh_staging(&operator).await;
        let mut breaches = self.rest_and_judge(&operator).await;
        if self.schedule.operator != Operator::Nothing {
            self.operate(&operator).await;
            breaches.extend(self.rest_and_judge(&operator).await);
        }
        if self.schedule.queue.as_ref().is_some_and(|queue| queue.what == Queued::Lines) {
            breaches.extend(self.let_lines_go(&operator).await);
        }
        if self.schedule.extras.edits {
            let (clients, _) = self.clients(&operator);
            self.edit(&clients).await;
            breaches.extend(self.rest_and_judge(&operator).await);
        }
        if let Some(after) = self.schedule.again_after {
            self.clock.latency(after).await;
            self.use_keys_again(&operator).await;
            breaches.extend(self.rest_and_judge(&operator).await);
        }
        if let Some(after) = self.schedule.extras.puts_back {
            breaches.extend(self.put_all_back(&operator, after).await);
        }
        if self.schedule.extras.is_outlived {
            breaches.extend(self.outlive(&operator).await);
            breaches.extend(self.rest_and_judge(&operator).await);
        }
        breaches.extend(audit::judge_words(&self));
        breaches
    }

    /// Longer than any record is kept nobody calls, and then one process does nothing but dispatch. Once the store has
    /// seen its clock for an hour, what has expired goes as it expires.
    async fn outlive(&self, operator: &Arc<Life>) -> Breaches {
        self.clock.latency(IDLE).await;
        let (clients, _) = self.clients(operator);
        let dispatchers: Vec<_> =
            clients.iter().map(|(_, client)| client.keep_recovering(PURGES_EVERY)).collect();
        self.clock.latency(DOUBTED_FOR + PURGES_EVERY * 4).await;
        drop(dispatchers);
        let records = self.records().await;
        self.note(|| format!("a week later {} are on record", records.len()));
        audit::judge_growth(self, &records, self.time().minus(PURGES_EVERY * 2))
    }

    pub async fn rest_and_judge(self: &Arc<World>, operator: &Arc<Life>) -> Breaches {
        let began = self.clock.now();
        let stuck = self.come_to_rest(operator).await;
        let took = self.clock.now().since(began);
        let records = self.records().await;
        let mut breaches = audit::judge_records(self, &records, stuck);
        breaches.extend(promised::judge_kept(self, &records));
        // Nothing but a backlog, and vendors that bear it: neither settle times nor waits explain more.
        // A server that was set back by no more than makes a clock wrong holds what the dead held for as much longer.
        let set_by_ms = self.schedule.server.and_then(|server| server.step).map_or(0, |(_, by_ms)| by_ms);
        let back = Duration::from_millis(set_by_ms.min(0).unsigned_abs());
        let is_held_longer = !back.is_zero() && back <= CLOCKS_DIFFER_MAX + secs(60);
        let longer = if is_held_longer { back + PATIENCE } else { Duration::ZERO };
        if self.schedule.is_backlog && took > BACKLOG_MAX + longer {
            breaches.remove(&audit::Kind::NotAtRest);
            breaches.insert(audit::Kind::BacklogStarves, format!("it took {took:?}"));
        }
        breaches
    }

    /// One host, life after life.
    async fn live(self: Arc<World>, host: usize) {
        loop {
            let life = Life::new(&self, host);
            self.state.lock().lives.insert(host, life.clone());
            let (clients, incarnation) = self.clients(&life);
            let mut tasks = JoinSet::new();
            for (number, operation) in self.schedule.operations.iter().enumerate() {
                for (place, caller) in operation.callers.iter().enumerate() {
                    if caller.host != host || self.is_done(number, place) {
                        continue;
                    }
                    let client = client_of(&clients, operation.kind.vendor()).clone();
                    let (world, life) = (self.clone(), life.clone());
                    if let Some(how) = caller.enqueues {
                        tasks.spawn(world.leave(life, client, incarnation, (number, place), how));
                    } else {
                        tasks.spawn(world.deliver(life, client, incarnation, number, place));
                    }
                }
            }
            if let Some((number, _, at)) = self.schedule.extras.another.filter(|(_, of, _)| *of == host)
                && !self.is_done(number, OF_ANOTHER)
            {
                let client = client_of(&clients, self.schedule.operations[number].kind.vendor()).clone();
                tasks.spawn(self.clone().offer_another((life.clone(), at), client, incarnation, number));
            }
            self.commit_rows(&mut tasks, &life, &clients);
            let mut dispatchers = Vec::new();
            let desk = self.schedule.queue.as_ref().and_then(|queue| queue.desks[host].clone());
            if let Some(desk) = desk {
                tasks.spawn(self.clone().dispatch(life.clone(), clients.clone(), incarnation, desk));
            }
            if self.schedule.dispatcher {
                dispatchers.extend(clients.iter().map(|(_, client)| client.keep_recovering(PERIOD)));
            } else if let Some(every) = self.schedule.recovers_every[host] {
                tasks.spawn(recover(life.clone(), clients, every));
            }
            let successor_after = life.end().await;
            drop((tasks, dispatchers));
            self.note(|| format!("h{host} is dead, for {successor_after:?}"));
            self.clock.latency(successor_after).await;
        }
    }

    /// Sends an operation's key until it has ended, or once.
    async fn deliver(
        self: Arc<World>,
        life: Arc<Life>,
        client: Client,
        incarnation: u64,
        number: usize,
        place: usize,
    ) {
        let caller: &Caller = &self.schedule.operations[number].callers[place];
        let wait = Instant::ORIGIN.plus(caller.at).since(self.clock.now());
        self.clock.latency(wait).await;
        life.goes_on().await;
        if !caller.persists {
            self.is_over(number, place);
        }
        let mut deadline = caller.deadline;
        for _ in 0..CALLS_MAX {
            let sent = self.send(&client, incarnation, number, (deadline, caller.waits));
            let gone = self.clock.latency(caller.cancels_after.unwrap_or(Duration::MAX));
            let ended = tokio::select! {
                biased;
                ended = sent => Some(ended),
                () = gone => None,
            };
            let Some(wait) = ended.flatten().filter(|_| caller.persists) else {
                self.is_over(number, place);
                return;
            };
            // Who has no time at first may have some later.
            deadline = deadline.filter(|deadline| !deadline.is_zero());
            self.clock.latency(wait).await;
            life.goes_on().await;
        }
        self.is_over(number, place);
    }

    /// Sends an operation's key with another request, once.
    async fn offer_another(
        self: Arc<World>,
        (life, at): (Arc<Life>, Duration),
        client: Client,
        incarnation: u64,
        number: usize,
    ) {
        self.clock.latency(Instant::ORIGIN.plus(at).since(self.clock.now())).await;
        life.goes_on().await;
        self.is_over(number, OF_ANOTHER);
        let began = self.clock.now();
        let call = self.calls((number, Does::Send), began);
        let another = self.schedule.operations[number].kind.call(&client, number);
        let result = another.json(&json!({ "version": 2 })).send().await;
        let attempts = result.as_ref().err().map_or(0, |error| error.attempts().len());
        self.hears((number, call), (incarnation, began, None), attempts, result);
    }

    /// One call, and when to send it again; `None` once the operation has ended.
    async fn send(
        &self,
        client: &Client,
        incarnation: u64,
        number: usize,
        (deadline, waits): (Option<Duration>, bool),
    ) -> Option<Duration> {
        let operation = &self.schedule.operations[number];
        let began = self.clock.now();
        let call = self.calls((number, Does::Send), began);
        let mut sent = operation.kind.call(client, number).on_unknown(on_unknown(operation.resends));
        if operation.kind == Kind::Get {
            sent = sent.header(CALL, call.to_string());
        }
        if let Some(deadline) = deadline {
            sent = sent.deadline(deadline);
        }
        if waits {
            sent = sent.in_flight(InFlight::Wait);
        }
        let result = sent.send().await;
        let attempts = result.as_ref().err().map_or(0, |error| error.attempts().len());
        self.hears((number, call), (incarnation, began, deadline), attempts, result)
    }

    /// The word that a call is told, and when to ask again; `None` once the operation has ended.
    pub fn hears(
        &self,
        (number, call): (usize, usize),
        (incarnation, began, deadline): (u64, Instant, Option<Duration>),
        attempts: usize,
        result: Result<Reply, Error>,
    ) -> Option<Duration> {
        let at = self.clock.now();
        self.note(|| format!("operation {number} is told {}", shown(&result)));
        let said = Said::of(&result);
        let ended = said.is_end();
        self.facts.with(|all| {
            all.calls[call].ended = Some(at);
            let life = all.life(number);
            let effect = result.as_ref().err().map(Error::effect);
            let next = result.as_ref().err().map(Error::disposition);
            let deadline_zero = deadline == Some(Duration::ZERO);
            all.told.push(Told {
                operation: number,
                call,
                life,
                incarnation,
                began,
                at,
                deadline_zero,
                deadline,
                said,
                effect,
                attempts,
                next,
            });
        });
        let wall = SystemTime::from(self.wall(self.schedule.hosts));
        let asked = result.err().and_then(|error| error.retry_at());
        let wait = asked.and_then(|at| at.duration_since(wall).ok()).unwrap_or_default();
        (!ended).then(|| wait.clamp(secs(1), secs(60)))
    }

    async fn at_its_time(self: Arc<World>, disruption: Disruption) {
        let When::At(at) = disruption.when else { return };
        self.clock.latency(at).await;
        let life = self.state.lock().lives.get(&disruption.host).cloned();
        if let Some(life) = life.filter(|life| !life.is_dead()) {
            self.disrupt(&life, disruption.what);
        }
    }

    /// The disruptions that are planned for a moment of a host.
    pub fn disruptions_at(&self, host: usize, moment: When) -> impl Iterator<Item = What> + '_ {
        let now = move |disruption: &&Disruption| disruption.host == host && disruption.when == moment;
        self.schedule.disruptions.iter().filter(now).map(|disruption| disruption.what)
    }

    pub fn disrupt(self: &Arc<World>, life: &Life, what: What) {
        self.note(|| format!("h{} meets {what:?}", life.process));
        match what {
            What::Crash(successor_after) => life.die(successor_after),
            What::Stall(stall) => life.pause(stall),
            What::StoreFails => self.store_failed(),
            What::Purge => {
                let world = self.clone();
                tokio::spawn(async move { world.purge().await });
            }
            What::Step(by_ms) => self.state.lock().steps_ms[life.process] += by_ms,
            What::Redrive => {
                let (world, operator) = (self.clone(), Life::new(self, self.schedule.hosts));
                tokio::spawn(async move {
                    let (clients, _) = world.clients(&operator);
                    world.redrive(&operator, &clients, &Change::by("ann")).await;
                });
            }
        }
    }

    pub fn clients(&self, life: &Arc<Life>) -> (Vec<(Name, Client)>, u64) {
        let incarnation = self.incarnations.fetch_add(1, Ordering::Relaxed);
        (self.clients_on(life, (incarnation, &self.store)), incarnation)
    }

    pub fn clients_on(
        &self,
        life: &Arc<Life>,
        (incarnation, store): (u64, &Arc<dyn Store>),
    ) -> Vec<(Name, Client)> {
        let names: BTreeSet<Name> =
            self.schedule.operations.iter().map(|operation| operation.kind.vendor()).collect();
        let client = |name| (name, self.vendors.client(name, life, (incarnation, store)));
        names.into_iter().map(client).collect()
    }

    pub fn letters(&self, clients: &[(Name, Client)]) -> DeadLetters {
        let letters = DeadLetters::new(self.store.clone()).with_clock(OperatorClock(self.clock.clone()));
        clients.iter().fold(letters, |letters, (_, client)| letters.with_client(client))
    }

    async fn redrive(&self, _operator: &Arc<Life>, clients: &[(Name, Client)], how: &Change) {
        let letters = self.letters(clients);
        let redriven = letters.redrive_all(&Filter::default(), how).await;
        let redriven = redriven.expect("the operator's store does not fail");
        self.note(|| format!("redrive: {} due, {} held back", redriven.done, redriven.held_back));
    }

    async fn operate(self: &Arc<World>, operator: &Arc<Life>) {
        let late_rounds = self.schedule.extras.late_rounds;
        if late_rounds > 0 || self.schedule.operator == Operator::RedrivesNextDay {
            self.clock.latency(self.schedule.forgotten_after()).await;
        }
        for _ in 0..late_rounds.max(1) {
            self.operate_once(operator).await;
        }
    }

    async fn operate_once(self: &Arc<World>, operator: &Arc<Life>) {
        let (clients, _) = self.clients(operator);
        let forced = Change::by("ann").because("the world wants it").force();
        match self.schedule.operator {
            Operator::Nothing => {}
            Operator::Redrives | Operator::RedrivesNextDay => {
                self.redrive(operator, &clients, &Change::by("ann")).await;
                self.rough.store(self.schedule.extras.late_rounds > 0, Ordering::Relaxed);
            }
            Operator::Forces => {
                self.redrive(operator, &clients, &forced).await;
                self.rough.store(true, Ordering::Relaxed);
            }
            Operator::Resolves => self.resolve(&clients).await,
        }
        for (_, client) in &clients {
            // Those that cannot be carried on are taken again once it is calm.
            let _ = client.recover(RECOVERED_MAX).await;
        }
        self.rough.store(false, Ordering::Relaxed);
    }

    /// The true word on each dead letter, once no request can be under way any more.
    pub async fn resolve(&self, clients: &[(Name, Client)]) {
        self.clock.latency(queue_max(&self.schedule)).await;
        let letters = self.letters(clients);
        let signed = Change::by("ann").because("looked at the vendor's dashboard");
        for record in self.records().await {
            let Some(number) = operation_of(&record.request.headers) else { continue };
            let id = self.facts.with(|all| {
                let life = all.life(number)?;
                all.effects_of(number, life).first().map(|id| (*id).to_owned())
            });
            let resolution = match id {
                Some(vendor_id) => Resolution::Applied { vendor_id },
                None => Resolution::NotApplied,
            };
            // Only a dead letter takes a word.
            let _ = letters.resolve(&record.id, resolution, &signed).await;
        }
    }

    pub async fn purge(&self) {
        let purged = self.letters(&[]).purge("ann").await.expect("the operator's store does not fail");
        self.note(|| format!("{purged} purged"));
    }

    /// Another body for every dead letter that takes one without force.
    async fn edit(&self, clients: &[(Name, Client)]) {
        let letters = self.letters(clients);
        for record in self.records().await {
            let Some(number) = operation_of(&record.request.headers) else { continue };
            if !matches!(self.schedule.operations[number].kind, Kind::Keyed | Kind::Bare | Kind::Preset(_)) {
                continue;
            }
            let key = format!("{}{}", record.id.key.as_str(), audit::EDITED);
            let (key, body) = (Key::new(key).expect("a key"), json!({ "value": number + 500 }).to_string());
            let how = Change::by("ann").because("another body");
            let edited = letters.edit(&record.id, key, body, &how).await;
            self.note(|| format!("edit of operation {number}: {:?}", edited.map(|new| new.key)));
        }
    }

    /// The same keys after a long time, in the same weather.
    async fn use_keys_again(self: &Arc<World>, operator: &Arc<Life>) {
        let (clients, incarnation) = self.clients(operator);
        self.purge().await;
        let on_record: BTreeSet<OperationId> =
            self.records().await.into_iter().map(|record| record.id).collect();
        let now = self.clock.now();
        self.facts.with(|all| {
            let last = all.lives.values_mut().filter_map(|lives| lives.last_mut());
            last.filter(|life| !on_record.contains(&life.id)).for_each(|life| life.forgotten = Some(now));
        });
        self.rough.store(true, Ordering::Relaxed);
        for (number, operation) in self.schedule.operations.iter().enumerate() {
            let client = client_of(&clients, operation.kind.vendor());
            self.send(client, incarnation, number, (None, false)).await;
        }
        self.rough.store(false, Ordering::Relaxed);
    }

    /// Recovers until nothing is under way any more, and says what is all the same.
    async fn come_to_rest(&self, operator: &Arc<Life>) -> Vec<Record> {
        let (clients, _) = self.clients(operator);
        // As the hosts do it, where they do it.
        let queue = self.schedule.queue.as_ref();
        let dispatches = || queue.map(|queue| dispatcher(&clients).period(queue.rest_period).start());
        let mut dispatching = dispatches();
        let (began, rounds_max) = (self.clock.now(), ROUNDS_MAX * if queue.is_some() { 2 } else { 1 });
        let mut rounds = 0..;
        while rounds.next() < Some(rounds_max) || self.clock.now().since(began) < SPARED_MAX {
            for (_, client) in clients.iter().filter(|_| queue.is_none()) {
                client.recover(RECOVERED_MAX).await.expect("the store works by now");
            }
            // The dead were asked to leave a vendor alone, and told the living.
            clients.iter().for_each(|(_, client)| client.end_pause());
            let filter = Filter { phases: vec![Phase::InProgress, Phase::Scheduled], ..Filter::default() };
            let mut left = self.store.list(&filter, None, 100).await.expect("a page").rows;
            left.retain(|row| !self.waits_for_its_turn(&row.id));
            let Some(next) = left.iter().filter_map(|row| row.until).min() else {
                if !self.rows.has_waiting() {
                    return Vec::new();
                }
                self.clock.latency(ROUND_MIN).await;
                continue;
            };
            let mut wait = next.since(self.time());
            if wait > PATIENCE && self.is_any_of_a_wrong_clock(&left).await {
                wait = Duration::ZERO;
            }
            if wait > PATIENCE {
                // Nobody holds anything.
                drop(dispatching);
                self.clock.latency(wait - ROUND_MIN).await;
                dispatching = dispatches();
            }
            self.clock.latency(wait.min(PATIENCE).max(ROUND_MIN)).await;
        }
        drop(dispatching);
        let soon = self.time().plus(PATIENCE);
        let records = self.records().await;
        // An operation that waits for a time that a vendor asked for is not stuck.
        let is_open = |record: &Record| matches!(record.phase(), Phase::InProgress | Phase::Scheduled);
        let is_stuck = |record: &Record| {
            let waits = self.waits_for_its_turn(&record.id);
            is_open(record) && !waits && record.until().is_some_and(|until| until <= soon)
        };
        records.into_iter().filter(is_stuck).collect()
    }

    /// Whether one of them may be taken whatever its time says.
    async fn is_any_of_a_wrong_clock(&self, rows: &[Summary]) -> bool {
        for row in rows {
            let record = self.store.get(&row.id).await.expect("a record");
            if record.is_some_and(|record| record.is_of_a_wrong_clock(self.time())) {
                return true;
            }
        }
        false
    }

    pub async fn records(&self) -> Vec<Record> {
        let page = self.store.list(&Filter::default(), None, 100).await.expect("a page");
        let mut records = Vec::new();
        for row in page.rows {
            records.extend(self.store.get(&row.id).await.expect("a record"));
        }
        records
    }

    /// The time that a host's wall clock says. The operator's is exact.
    pub fn wall(&self, host: usize) -> Timestamp {
        let Some(wall_clock) = self.schedule.clocks.get(host) else { return exact_wall(&self.clock) };
        wall_of(&self.clock, *wall_clock, self.state.lock().steps_ms[host])
    }

    /// The time in the store, for a host.
    pub fn time_at(&self, host: usize) -> Timestamp {
        self.store.time(self.wall(host))
    }

    /// The same, where a clock is right.
    pub fn time(&self) -> Timestamp {
        self.store.time(exact_wall(&self.clock))
    }

    fn waits_for_its_turn(&self, id: &OperationId) -> bool {
        self.facts.with(|all| all.named(id).is_some_and(|place| all.waits_for_its_turn(place)))
    }

    /// The trouble that the next request meets.
    pub fn trouble(&self) -> Option<Trouble> {
        let weather = &self.schedule.weather;
        if !self.rough.load(Ordering::Relaxed) || self.draw.below(100) >= weather.percent {
            return None;
        }
        let late = &self.schedule.extras.late_troubles;
        let is_late = self.clock.now().since(Instant::ORIGIN) > self.schedule.horizon && !late.is_empty();
        let troubles = if is_late { late } else { &weather.troubles };
        Some(troubles[self.draw.index(troubles.len())])
    }

    /// Whether the vendors are away now.
    pub fn is_away(&self) -> bool {
        let now = self.clock.now().since(Instant::ORIGIN);
        self.rough.load(Ordering::Relaxed)
            && self.schedule.weather.outages.iter().any(|(from, to)| *from <= now && now < *to)
    }

    /// Whether the network and the vendors misbehave.
    pub fn is_rough(&self) -> bool {
        self.rough.load(Ordering::Relaxed)
    }

    /// Whether whoever starts now has the new secrets.
    pub fn has_new_secrets(&self) -> bool {
        let now = self.clock.now().since(Instant::ORIGIN);
        self.schedule.extras.rotation.is_some_and(|(at, _)| now >= at)
    }

    /// Whether the vendors take no secret now.
    pub fn sign_in_fails(&self) -> bool {
        let now = self.clock.now().since(Instant::ORIGIN);
        self.is_rough()
            && self.schedule.extras.sign_in_fails.is_some_and(|(from, to)| from <= now && now < to)
    }

    pub fn refuses_old_secrets(&self) -> bool {
        let now = self.clock.now().since(Instant::ORIGIN);
        self.schedule.extras.rotation.is_some_and(|(at, grace)| now >= at + grace)
    }

    /// Until when somebody else holds the store's file.
    pub fn locked_until(&self) -> Option<Instant> {
        let now = self.clock.now().since(Instant::ORIGIN);
        let mut locked = self.schedule.extras.locked.iter().filter(|(from, to)| *from <= now && now < *to);
        locked.next().map(|(_, to)| Instant::ORIGIN.plus(*to))
    }

    /// Whether nobody reaches the store's server.
    pub fn is_store_away(&self) -> bool {
        let now = self.clock.now().since(Instant::ORIGIN);
        let is_away = self.schedule.extras.away.iter().any(|(from, to)| *from <= now && now < *to);
        if is_away {
            self.store_failed();
        }
        is_away
    }

    /// Whether who reads is answered by a standby meanwhile.
    pub fn has_standby(&self) -> bool {
        self.schedule.extras.has_standby
    }

    pub fn store_failed(&self) {
        self.facts.with(|all| {
            for life in all.lives.values_mut().filter_map(|lives| lives.last_mut()) {
                life.store_failed = true;
            }
        });
    }

    /// Adds a line to the trace.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if !self.is_told {
            return;
        }
        let line = format!("{:>12?} {}", self.clock.now().since(Instant::ORIGIN), line());
        self.state.lock().trace.push(line);
    }

    pub fn is_done(&self, number: usize, place: usize) -> bool {
        self.state.lock().done.contains(&(number, place))
    }

    pub fn is_over(&self, number: usize, place: usize) {
        self.state.lock().done.insert((number, place));
    }
}

/// The operator's clock is exact.
#[derive(Debug)]
struct OperatorClock(TestClock);

impl steadfast::clock::Clock for OperatorClock {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wall(&self) -> Timestamp {
        exact_wall(&self.0)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }
}

/// The time that an exact wall clock says.
pub fn exact_wall(clock: &TestClock) -> Timestamp {
    TestClock::START.plus(ms(clock.now().as_nanos() / 1_000_000))
}

/// The time of a wall clock that was off at the start, drifts, and was set since.
pub fn wall_of(clock: &TestClock, of: WallClock, steps_ms: i64) -> Timestamp {
    let passed = i64::try_from(clock.now().as_nanos() / 1_000_000).expect("some days");
    let drifted = passed / 1_000 * of.drift_ppm / 1_000;
    shifted(exact_wall(clock), of.off_ms + drifted + steps_ms)
}

fn shown(result: &Result<Reply, Error>) -> String {
    match result {
        Ok(reply) => format!("{:?} {}", reply.obtained(), reply.status()),
        Err(error) => format!("{error} (effect {:?})", error.effect()),
    }
}

/// The place of whoever sends an operation's key with another request.
const OF_ANOTHER: usize = usize::MAX;

/// Calls of a caller who does not give up soon.
pub const CALLS_MAX: u32 = 12;

/// A lease, and a minute for a few dozen operations at a healthy vendor.
const BACKLOG_MAX: Duration = secs(60 + 60);

/// A day more than what is settled is kept.
const IDLE: Duration = secs(8 * 24 * 3600);

/// A dispatcher that looks so seldom does not fill a week's schedule with its looks.
const PURGES_EVERY: Duration = secs(60);

/// Longer than any settle time.
const PATIENCE: Duration = secs(100);

/// Between two rounds: as long as the retry budget needs for one token.
const ROUND_MIN: Duration = secs(10);

/// Rounds of recovery at the end. A lease, a postponed lookup or a spent budget ends each within a few; an hour of what a
/// vendor fails at takes some forty.
const ROUNDS_MAX: usize = 80;

/// An operation that a vendor fails at is spared its ladder for an hour, if nothing else says whether that is the
/// vendor's fault.
const SPARED_MAX: Duration = secs(75 * 60);

/// Far more moments than any schedule has: beyond, it goes round in circles.
const STEPS_MAX: u64 = 1_000_000;

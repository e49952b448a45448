//! Sequences on two processes that crash, with callers who send what waits, people who redrive, resolve and cancel, and a
//! vendor that fails: whatever happens, no request of a sequence comes before an earlier one has ended, and each takes
//! effect once or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use steadfast::clock::Clock as _;
use steadfast::operation::record::{Act, Action, Filter, Phase, Record, Resolution};
use steadfast::store::{Memory, Sqlite, Store};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Request, SendErrorKind};
use steadfast::{Call, Client, Enqueued, Sequence};

use crate::attack::{DAY, at};
use crate::second_look::proof::{Draw, Keys, Mortal, answer, client, schedules};
use support::promise;

/// The first is held by its dead letters, the second skips them.
const SEQUENCES: usize = 2;

#[derive(Default)]
struct Ledger {
    keys: Keys,
    /// By operation.
    effects: BTreeMap<(usize, usize), usize>,
    /// What came, in its order: for each sequence the operations' numbers.
    came: [Vec<usize>; SEQUENCES],
}

fn path((sequence, number): (usize, usize)) -> String {
    format!("/v1/quotes/{sequence}/{number}")
}

fn operation(path: &str) -> (usize, usize) {
    let (sequence, number) = path.trim_start_matches("/v1/quotes/").split_once('/').expect("two numbers");
    (sequence.parse().expect("a number"), number.parse().expect("a number"))
}

fn vendor(
    ledger: Arc<Mutex<Ledger>>,
    draw: Arc<Draw>,
    calm: Arc<Mutex<bool>>,
    clock: TestClock,
) -> ScriptedTransport {
    ScriptedTransport::new().always_with(move |request: &Request| {
        let fault = if *calm.lock() { 0 } else { draw.below(16) };
        if request.method != Method::POST {
            return Ok(answer(503));
        }
        let which = operation(request.url.path());
        ledger.lock().came[which.0].push(which.1);
        match fault {
            1 => return Err(SendErrorKind::Connect),
            2 => return Ok(answer(429)),
            3 => return Ok(answer(503)),
            4 => return Err(SendErrorKind::Reset),
            _ => {}
        }
        let mut ledger = ledger.lock();
        let first = if fault == 5 { 402 } else { 200 };
        let (status, takes_effect) = ledger.keys.answer(request, clock.wall(), first);
        if takes_effect {
            *ledger.effects.entry(which).or_default() += 1;
        }
        if fault == 6 { Err(SendErrorKind::Reset) } else { Ok(answer(status)) }
    })
}

struct World {
    seed: u64,
    draw: Arc<Draw>,
    store: Arc<Mortal>,
    clock: TestClock,
    network: ScriptedTransport,
    ledger: Arc<Mutex<Ledger>>,
    clients: [Client; 2],
    /// Of each sequence, what was accepted.
    accepted: [Vec<Enqueued>; SEQUENCES],
    story: Vec<String>,
}

impl World {
    fn new(seed: u64, store: Arc<dyn Store>) -> (World, Arc<Mutex<bool>>) {
        let draw = Arc::new(Draw(AtomicU64::new(seed.wrapping_mul(0xD1B5_4A32_D192_ED03))));
        let clock = at(Duration::ZERO);
        let (ledger, calm) = (Arc::new(Mutex::new(Ledger::default())), Arc::new(Mutex::new(false)));
        let network = vendor(Arc::clone(&ledger), Arc::clone(&draw), Arc::clone(&calm), clock.clone());
        let store = Arc::new(Mortal::new(store, Arc::clone(&draw)));
        let clients = [(); 2].map(|()| client(&store, &clock, &network));
        let accepted = [const { Vec::new() }; SEQUENCES];
        let story = Vec::new();
        (World { seed, draw, store, clock, network, ledger, clients, accepted, story }, calm)
    }

    fn call(&self, process: usize, which: (usize, usize)) -> Call {
        self.clients[process].post(&path(which)).key(format!("{}-{}", which.0, which.1))
    }

    async fn step(&mut self) {
        let (process, sequence) = (self.draw.below(2) as usize, self.draw.below(SEQUENCES as u64) as usize);
        let what = self.draw.below(12);
        self.story.push(format!("{what} by {process} of {sequence} at {}", self.clock.wall()));
        let survived = match what {
            0..=3 => self.enqueue(process, sequence).await,
            4 | 5 => self.store.alive(self.clients[process].recover(6)).await.is_some(),
            6 => {
                let [one, other] = &self.clients;
                let both = async { tokio::join!(one.recover(4), other.recover(4)) };
                let survived = self.store.alive(both).await.is_some();
                if !survived {
                    self.restart(1 - process);
                }
                survived
            }
            7 => match self.any(sequence) {
                Some(number) => {
                    self.store.alive(self.call(process, (sequence, number)).send()).await.is_some()
                }
                None => true,
            },
            8 if self.draw.below(3) == 0 => {
                if let Some(number) = self.any(sequence) {
                    let cancelled = self.accepted[sequence][number].cancel("not wanted").await;
                    self.story.push(format!("cancelled {number}: {}", cancelled.is_ok()));
                }
                true
            }
            9 => {
                self.operate().await;
                true
            }
            _ => {
                let passed = self.draw.of(&[1, 60, 3_600, 13 * 3_600, 25 * 3_600]);
                // Well within the retention.
                let is_late = self.clock.wall() > TestClock::auto().wall().plus(403 * DAY);
                self.clock.advance(Duration::from_secs(if is_late { 60 } else { passed }));
                true
            }
        };
        if !survived {
            self.restart(process);
        }
        self.audit_order();
    }

    fn restart(&mut self, process: usize) {
        self.story.push(format!("{process} died"));
        self.clients[process] = client(&self.store, &self.clock, &self.network);
    }

    fn any(&self, sequence: usize) -> Option<usize> {
        let count = self.accepted[sequence].len() as u64;
        (count > 0).then(|| self.draw.below(count) as usize)
    }

    /// The next of a sequence. A caller who died asks again, under the same key.
    async fn enqueue(&mut self, process: usize, sequence: usize) -> bool {
        let which = (sequence, self.accepted[sequence].len());
        if which.1 >= 8 {
            return true;
        }
        let line = Sequence::new(format!("line {sequence}"));
        let line = if sequence == 1 { line.skip_dead_letters() } else { line };
        let after = self.draw.of(&[Duration::ZERO, Duration::ZERO, Duration::from_secs(1_800)]);
        loop {
            let call = self.call(process, which).sequence(line.clone()).after(after);
            match self.store.alive(call.enqueue()).await {
                Some(Ok(enqueued)) => {
                    self.story.push(format!("accepted {which:?} after {after:?}"));
                    self.accepted[sequence].push(enqueued);
                    return true;
                }
                // Delivered, and ended badly, while its caller was dead.
                Some(Err(error)) => panic!("seed {}: {error}: {:#?}", self.seed, self.story),
                None => self.restart(process),
            }
        }
    }

    /// A person redrives what holds its sequence, or closes it.
    async fn operate(&mut self) {
        let held = Filter { holds_sequence: true, ..Filter::default() };
        for row in self.store.store.list(&held, None, 10).await.expect("works").rows {
            let redrives = self.draw.below(2) == 0;
            let action = if redrives {
                Action::Redrive { forced: false }
            } else {
                Action::Resolve(Resolution::Compensated)
            };
            self.story.push(format!("{action} {}", row.id.key));
            self.act(&row.id, action).await;
        }
    }

    async fn act(&self, id: &steadfast::operation::OperationId, action: Action) {
        let (by, why) = ("ada".to_owned(), "ticket 7".to_owned());
        let act = Act { action, by, why, now: self.clock.wall(), fence: None };
        self.store.store.act(id, act).await.expect("works").expect("allowed");
    }

    /// Nothing comes after a later one of its sequence: each had ended before, and nobody redrives what was skipped.
    fn audit_order(&self) {
        for (sequence, came) in self.ledger.lock().came.iter().enumerate() {
            assert!(came.is_sorted(), "seed {}: {sequence} came as {came:?}: {:#?}", self.seed, self.story);
        }
    }

    async fn audit(&self) -> usize {
        let page = self.store.list(&Filter::default(), None, 100).await.expect("works");
        let accepted: usize = self.accepted.iter().map(Vec::len).sum();
        assert_eq!(page.rows.len(), accepted, "seed {}", self.seed);
        let mut all = 0;
        for row in page.rows {
            let record: Record = self.store.get(&row.id).await.expect("works").expect("on record");
            let which = operation(record.request.url.path());
            let effects = self.ledger.lock().effects.get(&which).copied().unwrap_or_default();
            all += effects;
            assert!(
                promise::is_kept(&record, effects),
                "seed {}: {record:?} with {effects}: {:#?}",
                self.seed,
                self.story
            );
        }
        all
    }
}

async fn run(seed: u64, store: Arc<dyn Store>) -> usize {
    let (mut world, calm) = World::new(seed, store);
    for _ in 0..60 {
        world.step().await;
    }
    (*calm.lock(), *world.store.is_calm.lock()) = (true, true);
    for _ in 0..40 {
        world.clock.advance(Duration::from_secs(3_600));
        world.clients[0].recover(20).await.expect("works");
        world.audit_order();
        let held = Filter { holds_sequence: true, phases: vec![Phase::Dead], ..Filter::default() };
        for row in world.store.list(&held, None, 10).await.expect("works").rows {
            world.act(&row.id, Action::Resolve(Resolution::Compensated)).await;
        }
    }
    world.audit().await
}

#[tokio::test]
async fn a_sequence_keeps_its_order_and_each_of_it_takes_effect_at_most_once() {
    let (first, schedules) = schedules("STEADFAST_SEQUENCES_FIRST", "STEADFAST_SEQUENCES_SCHEDULES");
    let mut effects = 0;
    for seed in first..first + schedules {
        effects += run(seed, Arc::new(Memory::new())).await;
        if seed % 30 == 0 {
            let place = support::in_memory::directory();
            run(seed, Arc::new(Sqlite::open(place.path().join("calls.db")).expect("opens"))).await;
        }
    }
    assert!(effects as u64 > 3 * schedules, "{effects} of {schedules}");
}

/// A proof that has never failed proves little: without either of these rules, it fails. Here nobody redrives what was
/// skipped, and a retry is made by whoever holds the operation: what else there is of rules has its proof in
/// `tests/proofs/guards`.
#[cfg(feature = "_guards")]
#[test]
fn without_a_rule_of_sequences_the_order_is_lost() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use steadfast::guard::Guard;

    let all = [Guard::SequenceOrder, Guard::DeadLetterHoldsSequence];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for guard in all {
        let fails = |seed: u64| {
            let run = || runtime.block_on(run(seed, Arc::new(Memory::new())));
            catch_unwind(AssertUnwindSafe(|| guard.without(run))).is_err()
        };
        assert!((0..100).any(fails), "{guard:?} is out, and nothing is noticed");
    }
}

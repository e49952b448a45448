//! A file's history: it is opened, worked on and cut off, again and again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use rusqlite::Connection;
use steadfast::Random;
use steadfast::clock::Timestamp;
use steadfast::operation::record::Record;
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::store::{Sqlite, Store, StoreError};
use steadfast::testkit::SeededRandom;
use steadfast::transport::Request;

use crate::power_cut::audit::{Broken, What, audit};
use crate::power_cut::disk::{Cut, Disk, Images, Syncs, below};
use crate::power_cut::vfs::{Synchronous, mount};
use crate::power_cut::world::World;
use support::commands;
use support::in_memory;

/// The part of the proof's ground that is taken away.
#[derive(Clone, Copy, Debug)]
pub struct Ground {
    pub syncs: Syncs,
    pub synchronous: Synchronous,
}

impl Ground {
    pub const FIRM: Ground = Ground { syncs: Syncs::Honest, synchronous: Synchronous::AsAsked };
}

/// The counts of what happened.
#[derive(Debug, Default)]
pub struct Report {
    pub cuts: u64,
    /// Cuts before the first store was open on a file that was new.
    pub in_migration: u64,
    /// Cuts before the first store was open on a file that had survived one.
    pub in_recovery: u64,
    /// Cuts while pages went from the log into the file.
    pub in_checkpoint: u64,
    /// Cuts after the store had begun to move its log by itself, with nobody else at work and before it was shut.
    pub in_own_checkpoint: u64,
    /// Cuts with calls under way.
    pub in_calls: u64,
    pub acknowledged: u64,
    pub under_way: u64,
    pub steps: u64,
    pub file_syncs: u64,
    pub broken: Vec<Broken>,
}

impl Report {
    pub fn add(&mut self, other: Report) {
        self.cuts += other.cuts;
        self.in_migration += other.in_migration;
        self.in_recovery += other.in_recovery;
        self.in_checkpoint += other.in_checkpoint;
        self.in_own_checkpoint += other.in_own_checkpoint;
        self.in_calls += other.in_calls;
        self.acknowledged += other.acknowledged;
        self.under_way += other.under_way;
        self.steps += other.steps;
        self.file_syncs += other.file_syncs;
        self.broken.extend(other.broken);
    }

    pub fn has(&self, what: What) -> bool {
        self.broken.iter().any(|broken| broken.what == what)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cuts: {} in the first opening, {} in a later one, {} over calls, {} in a checkpoint, {} from the \
             start of one of the store's own; \
             {} steps, {} syncs; {} calls acknowledged, {} under way; {} broken",
            self.cuts,
            self.in_migration,
            self.in_recovery,
            self.in_calls,
            self.in_checkpoint,
            self.in_own_checkpoint,
            self.steps,
            self.file_syncs,
            self.acknowledged,
            self.under_way,
            self.broken.len()
        )?;
        self.broken.iter().take(20).try_for_each(|broken| write!(f, "\n{broken}"))
    }
}

/// How one life is spent, all of it drawn.
struct Plan {
    stores: usize,
    calls: usize,
    body_max: usize,
    /// Whether another program moves the log into the file now and then.
    outsider: bool,
    cut: Cut,
    cut_from: From,
}

/// From where the steps to the cut are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Opening,
    /// The first page that goes from the log into the file because the log is long.
    Checkpoint,
    Closing,
}

impl Plan {
    fn draw(random: &dyn Random, images: &Images) -> Plan {
        let chance = |of| below(random, of) == 0;
        let unmade = !images.contains_key(NAME) || images.contains_key(&format!("{NAME}-journal"));
        let (cut_from, steps) = match below(random, 16) {
            0 => (From::Checkpoint, CHECKPOINT_STEPS),
            1..4 => (From::Closing, 24),
            _ if unmade && chance(2) => (From::Opening, OPENING_STEPS),
            4..8 => (From::Opening, 80),
            8..12 => (From::Opening, 400),
            _ => (From::Opening, 1_600),
        };
        let is_heavy = cut_from == From::Checkpoint;
        let (calls, body_max) = if is_heavy { (50, 500_000) } else { (5 + below(random, 40), 3_000) };
        Plan {
            stores: 1 + below(random, 2),
            calls,
            body_max,
            outsider: !is_heavy && chance(3),
            cut: Cut { step: 1 + below(random, steps) as u64, after: chance(2) },
            cut_from,
        }
    }
}

/// Up to `lives` lives of one file, or as many as it takes to break it.
pub async fn history(seed: u64, lives: u64, ground: Ground) -> Report {
    let random = SeededRandom::new(seed);
    let directory = in_memory::directory();
    let mut worlds: Vec<World> = (0..WORLDS).map(|name| World::new(name, random.next_u64())).collect();
    let mut images = Images::new();
    let mut report = Report::default();
    let place = directory.path();
    for life in 0..lives {
        let plan = Plan::draw(&random, &images);
        worlds = live(place, &mut images, worlds, (&plan, ground, &random), &mut report).await;
        if report.broken.is_empty() {
            put(place, &images);
            report.broken = audit(&place.join(NAME), &mut worlds).await;
        }
        for broken in &mut report.broken {
            broken.text.insert_str(0, &format!("seed {seed}, life {life}: "));
        }
        if !report.broken.is_empty() {
            break;
        }
    }
    report.acknowledged = worlds.iter().map(|world| world.acknowledged).sum();
    report
}

/// One life, from `images` to what is left of them.
async fn live(
    place: &Path,
    images: &mut Images,
    mut worlds: Vec<World>,
    (plan, ground, random): (&Plan, Ground, &SeededRandom),
    report: &mut Report,
) -> Vec<World> {
    let is_new = !images.contains_key(NAME);
    put(place, images);
    let path = place.join(NAME);
    let disk = Arc::new(Disk::new(std::mem::take(images), ground.syncs));
    let mounted = mount(place, disk.clone(), ground.synchronous);
    if plan.cut_from == From::Opening {
        disk.cut_at(plan.cut);
    }
    let stores = open(&path, plan.stores, &disk, report).await;
    if stores.is_empty() && disk.is_off() {
        let cuts = if is_new { &mut report.in_migration } else { &mut report.in_recovery };
        *cuts += 1;
    }
    if plan.cut_from == From::Checkpoint {
        disk.cut_from_next_write_to(NAME, plan.cut);
    }
    if !stores.is_empty() {
        worlds = work(&stores, worlds, &path, (plan, &disk), report).await;
        report.in_calls += u64::from(disk.is_off());
    }
    report.in_own_checkpoint += u64::from(plan.cut_from == From::Checkpoint && disk.is_off());
    if plan.cut_from == From::Closing {
        disk.cut_at(plan.cut);
    }
    for store in stores {
        let store = Arc::into_inner(store).expect("every caller has gone");
        let closed = tokio::time::timeout(PATIENCE, store.close()).await;
        assert!(closed.is_ok(), "a store on a dead disk does not end");
    }
    disk.cut_now();
    drop(mounted);
    report.cuts += 1;
    report.in_checkpoint += u64::from(disk.is_unsynced(NAME) && disk.has(&format!("{NAME}-wal")));
    report.under_way += worlds.iter().map(|world| world.under_way.len() as u64).sum::<u64>();
    report.steps += disk.steps();
    report.file_syncs += disk.file_syncs();
    *images = disk.survivors(random);
    worlds
}

/// Opens stores until the power goes.
async fn open(path: &Path, count: usize, disk: &Disk, report: &mut Report) -> Vec<Arc<Sqlite>> {
    let mut stores = Vec::new();
    for _ in 0..count {
        let path = path.to_owned();
        let opened = tokio::task::spawn_blocking(move || Sqlite::open(path)).await.expect("no panic");
        match opened {
            Ok(store) => stores.push(Arc::new(store)),
            Err(_) if disk.is_off() => break,
            Err(error) => {
                report.broken.push(Broken { what: What::Unopenable, text: format!("with power: {error:?}") });
            }
        }
    }
    stores
}

/// Cuts the making of a file off before and after each of its steps, and opens what may be left of it: on a plain
/// disk, and on one that is cut off once more. Gives the number of steps and whatever is broken.
pub async fn every_step_of_the_making() -> (u64, Vec<Broken>) {
    let directory = in_memory::directory();
    let place = directory.path();
    let random = SeededRandom::new(1);
    let mut broken = Vec::new();
    for step in 1.. {
        for after in [false, true] {
            let name = format!("step {step}, after {after}");
            let first = make(place, Images::new(), Cut { step, after }).await;
            let Some(disk) = first else { return (step - 1, broken) };
            for left in 0..IMAGES_A_STEP {
                let name = format!("{name}, image {left}");
                let mut images = disk.survivors(&random);
                if left % 3 == 0 {
                    let again = Cut { step: 1 + below(&random, OPENING_STEPS) as u64, after: left % 2 == 0 };
                    let second = make(place, images.clone(), again).await;
                    images = second.map_or(images, |disk| disk.survivors(&random));
                }
                put(place, &images);
                for Broken { what, text } in audit(&place.join(NAME), &mut []).await {
                    broken.push(Broken { what, text: format!("{name}: {text}") });
                }
            }
        }
    }
    (0, broken)
}

/// Claims on a store whose shared memory does not grow, until one fails: its error, and what is on record of it after a
/// cut.
pub async fn claims_until_memory_is_full() -> (StoreError, Option<Record>) {
    let (directory, after) = (in_memory::directory(), in_memory::directory());
    let disk = Arc::new(Disk::new(Images::new(), Syncs::Honest));
    let _mounted = mount(directory.path(), disk.clone(), Synchronous::AsAsked);
    let path = directory.path().join(NAME);
    let store = Sqlite::open(&path).expect("opens");
    // It keeps the log from beginning anew.
    let reader = Connection::open(&path).expect("opens");
    reader.execute_batch("BEGIN; SELECT number FROM operation").expect("reads");
    disk.fill_memory();
    for nth in 0..1_000 {
        let mut request = Request::new(Method::POST, "https://vendor.test/x".parse().expect("a URL"));
        request.body = vec![b'x'; 100_000].into();
        let key = Key::new(format!("order-{nth}")).expect("a key");
        let id = OperationId::new(Scope::from_stored("test/v//POST /x"), key);
        let claim = commands::claim(&id, request, Timestamp::from_millis(1_000));
        if let Err(error) = store.claim(claim).await {
            disk.cut_now();
            put(after.path(), &disk.survivors(&SeededRandom::new(1)));
            let left = Sqlite::open(after.path().join(NAME)).expect("opens");
            return (error, left.get(&id).await.expect("reads"));
        }
    }
    panic!("its memory has room for all")
}

/// Opens the file of `images`, and gives the disk if the power went meanwhile.
async fn make(place: &Path, images: Images, cut: Cut) -> Option<Arc<Disk>> {
    put(place, &images);
    let disk = Arc::new(Disk::new(images, Syncs::Honest));
    let _mounted = mount(place, disk.clone(), Synchronous::AsAsked);
    disk.cut_at(cut);
    let opened = Sqlite::open(place.join(NAME));
    let is_off = disk.is_off();
    match opened {
        Ok(store) => store.close().await,
        Err(error) => assert!(is_off, "{}: with power: {error:?}", place.display()),
    }
    is_off.then_some(disk)
}

/// Lets every world make its calls, all at once, each on one of the stores.
async fn work(
    stores: &[Arc<Sqlite>],
    worlds: Vec<World>,
    path: &Path,
    (plan, disk): (&Plan, &Arc<Disk>),
    report: &mut Report,
) -> Vec<World> {
    let done = Arc::new(AtomicBool::new(false));
    let outsider = plan.outsider.then(|| {
        let (path, done, disk) = (path.to_owned(), done.clone(), disk.clone());
        tokio::task::spawn_blocking(move || move_log_now_and_then(&path, &done, &disk))
    });
    let (calls, body_max) = (plan.calls, plan.body_max);
    let tasks: Vec<_> = worlds
        .into_iter()
        .enumerate()
        .map(|(nth, mut world)| {
            let (store, disk) = (stores[nth % stores.len()].clone(), disk.clone());
            tokio::spawn(async move {
                let wrong = world.live(&*store, &disk, calls, body_max).await;
                (world, wrong)
            })
        })
        .collect();
    let mut worlds = Vec::new();
    for task in tasks {
        let (world, wrong) = task.await.expect("no panic");
        worlds.push(world);
        report.broken.extend(wrong.map(|text| Broken { what: What::Wrong, text }));
    }
    done.store(true, Ordering::SeqCst);
    if let Some(outsider) = outsider {
        outsider.await.expect("no panic");
    }
    worlds
}

/// As a backup program or an operator's shell does. It makes the log start over often, which the stores by
/// themselves do every 16 MiB.
fn move_log_now_and_then(path: &PathBuf, done: &AtomicBool, disk: &Disk) {
    let Ok(connection) = Connection::open(path) else { return };
    let modes = ["PASSIVE", "RESTART", "TRUNCATE"];
    for mode in modes.iter().cycle() {
        if done.load(Ordering::SeqCst) || disk.is_off() {
            return;
        }
        // A log that is in use stays, which is no failure; and without power all fails.
        let _ = connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Leaves these files at `place` and no others. A file that is there keeps its inode, as one that lived through a power cut
/// does: by a new one a store would know itself as a copy.
fn put(place: &Path, images: &Images) {
    for file in std::fs::read_dir(place).expect("a directory") {
        let file = file.expect("a file");
        if !file.file_name().to_str().is_some_and(|name| images.contains_key(name)) {
            std::fs::remove_file(file.path()).expect("a file");
        }
    }
    for (name, bytes) in images {
        std::fs::write(place.join(name), bytes).expect("a file");
    }
}

const NAME: &str = "calls.db";

/// How many of the images are looked at that a cut may leave. With a dozen each rare one turns up somewhere.
const IMAGES_A_STEP: usize = 12;

/// Somewhat more than the pages at which the store moves its log.
const CHECKPOINT_STEPS: usize = 4_500;

/// About how many steps it takes to make a file and its schema.
const OPENING_STEPS: usize = 34;

/// How many callers a file has.
const WORLDS: usize = 6;

/// No write and no wait takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

//! Troubles around a process and not in it: a full disk, a wall clock that is set, an operator who redrives
//! twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use steadfast::Random as _;
use steadfast::operation::record::Action;
use steadfast::store::Store as _;
use steadfast::testkit::{Fault, SeededRandom, WaitForm};
use tokio::task::JoinSet;

use crate::audit::{Effects, Report};
use crate::driver::STORE_FAILS;
use crate::file;
use crate::orders::{Ask, Job, Manner, Orders, Site, Task};
use crate::plan::{STEPS, VENDORS, key};
use crate::process::Process;
use crate::vendors::{FAULTS, Vendors};
use crate::words::AllHeard;

const END_MAX: Duration = Duration::from_secs(60);
const DRIVER: &str = "driver_process";
const WORDS: &str = "all";

/// Drivers that trade on one file with all vendors.
struct Market {
    vendors: Vendors,
    file: String,
    orders: usize,
    killed: usize,
}

impl Market {
    async fn open(seed: u64, faults: &[Fault], orders: usize) -> Market {
        Market::of(Vendors::start_at_random(seed, faults, orders).await, orders)
    }

    fn of(vendors: Vendors, orders: usize) -> Market {
        let file = vendors.directory().join("calls.db").to_str().expect("a text").to_owned();
        Market { vendors, file, orders, killed: 0 }
    }

    fn orders(&self, orders: std::ops::Range<usize>, wall_off_ms: i64, last: bool) -> Orders {
        let (from, fresh, count) = (0, orders.start, orders.end);
        let job = Job::Trade { file: self.file.clone(), from, fresh, count, seed: 1, last };
        let urls = self.vendors.urls.clone().try_into().expect("one each");
        let (time, words) = (self.vendors.time(), self.vendors.words_directory(WORDS));
        let manner = Manner::default();
        Orders { urls, time, words, manner, failpoint: None, is_told: false, wall_off_ms, job }
    }

    fn start(&self, orders: std::ops::Range<usize>, wall_off_ms: i64, last: bool) -> Process {
        Process::start(DRIVER, [self.orders(orders, wall_off_ms, last).to_environment()])
    }

    async fn kill(&mut self, driver: Process) {
        driver.kill().await;
        self.killed += 1;
    }

    async fn report(self, seed: u64) -> Report {
        let mut report = Report::new(seed, self.killed, self.vendors.faults().await);
        let mut effects: Effects = (0..VENDORS.len()).flat_map(|lane| self.vendors.effects(lane)).collect();
        let keys = (0..self.orders).flat_map(|order| STEPS.map(|step| key(order, step))).collect();
        report.late = self.vendors.late().await;
        let mut heard = AllHeard::read(&self.vendors.words_directory(WORDS));
        report.judge_file(&self.file, keys, &mut effects, &mut heard).await;
        report.judge_rest(effects);
        report
    }
}

/// The disk is full: claims fail, and so do settlements of what the vendors have already done. Two drivers die
/// over it. Then there is room again.
pub async fn full_disk(seed: u64) -> Report {
    let orders = 60;
    let mut market = Market::open(seed, FAULTS, orders).await;
    for blocks in [BLOCKS, 2 * BLOCKS] {
        let known = if blocks == BLOCKS { 0..orders / 2 } else { orders / 2..orders };
        let told = market.orders(known, 0, false).to_environment();
        let mut driver = Process::start_with_full_disk(DRIVER, [told], blocks);
        driver.ready().await;
        assert_eq!(driver.line().await, STORE_FAILS, "the disk is full");
        // Time for answers to come that cannot be written down, and for leases to run out.
        market.vendors.time().sleep(Duration::from_secs(100)).await;
        market.kill(driver).await;
    }
    market.start(orders..orders, 0, true).rested(END_MAX).await;
    market.report(seed).await
}

/// Small beside the log of so many orders, and large enough for a file to be made: 128 KiB.
const BLOCKS: u64 = 256;

/// Two drivers on one file, whose walls are set an hour forward and seconds back while they work, together and
/// apart, with a kill now and then.
pub async fn moved_walls(seed: u64) -> Report {
    let (orders, moves) = (160, 4 * LIFE_STEPS);
    let mut market = Market::open(seed, WAITS, orders).await;
    let random = SeededRandom::new(seed);
    let mut drivers: [Option<Process>; 2] = [None, None];
    let mut off_ms = [0_i64; 2];
    for step in 0..moves {
        let known = |step: usize| orders * step / moves;
        for (driver, off_ms) in drivers.iter_mut().zip(off_ms) {
            if step % LIFE_STEPS == 0 {
                if let Some(old) = driver.take() {
                    market.kill(old).await;
                }
                let started =
                    driver.insert(market.start(known(step)..known(step + LIFE_STEPS), off_ms, false));
                started.ready().await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50 + random.next_u64() % 250)).await;
        let moved = random.next_u64() as usize % 2;
        off_ms[moved] = OFF_MS[random.next_u64() as usize % OFF_MS.len()];
        drivers[moved].as_mut().expect("runs").tell(&format!("wall {}", off_ms[moved])).await;
    }
    for driver in drivers.into_iter().flatten() {
        market.kill(driver).await;
    }
    // An operation that was postponed by a clock an hour ahead is due in an hour: that is when all must be at rest.
    let last = [0, 1].map(|_| market.start(orders..orders, 2 * HOUR_MS, true));
    for driver in last {
        driver.rested(END_MAX).await;
    }
    market.report(seed).await
}

/// Every request is as late as a connection can carry it, those who sent the first ones die meanwhile, and the wall of
/// another driver is past their leases. It takes the operations over while the requests are on the way, and must not
/// look for their effects before the longest exchange has ended.
pub async fn stepped_wall(seed: u64) -> Report {
    let orders = 16;
    let mut market = Market::of(Vendors::start_slow(seed, orders).await, orders);
    // It has no orders of its own.
    let mut taker = market.start(0..0, STEP_MS, false);
    taker.ready().await;
    let sender = market.start(0..orders, 0, false);
    let words = market.vendors.words_directory(WORDS);
    let half_have_left = async {
        while AllHeard::read(&words).left_for(STEPS[1]) < orders / 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(END_MAX, half_have_left).await.expect("the orders leave");
    // A request that is written down is about to leave: the connection is still to be made.
    market.vendors.time().sleep(Duration::from_secs(2)).await;
    market.kill(sender).await;
    market.start(orders..orders, STEP_MS, true).rested(END_MAX).await;
    market.kill(taker).await;
    market.report(seed).await
}

/// A second more than a lease.
const STEP_MS: i64 = 61_000;

/// How often the walls move in the life of a driver: it outlives the longest wait of its calls.
const LIFE_STEPS: usize = 14;

/// The faults that make a call wait for longer than a lookup does that is made meanwhile by whoever took it over, and
/// that leave it in doubt.
const WAITS: &[Fault] = &[
    Fault::TooManyRequests(WaitForm::Seconds(45)),
    Fault::TooManyRequests(WaitForm::Seconds(45)),
    Fault::DropAfterApply,
    Fault::Error500Before,
];

const HOUR_MS: i64 = 3_600_000;
const OFF_MS: [i64; 6] = [0, HOUR_MS, HOUR_MS - STEP_MS, -STEP_MS, -3_000, STEP_MS];

/// Dead letters that two operators redrive at once, in two processes, one of which is killed: none is sent twice,
/// and none is redriven twice.
pub async fn two_redrives(seed: u64) -> Report {
    let rounds: Vec<(usize, usize)> =
        (0..ROUNDS).flat_map(|round| (0..STEPS.len()).map(move |vendor| (vendor, round))).collect();
    let vendors = Arc::new(Vendors::start(rounds.iter().map(|(vendor, _)| *vendor).collect()).await);
    let mut running = JoinSet::new();
    for (lane, (vendor, round)) in rounds.into_iter().enumerate() {
        let vendors = Arc::clone(&vendors);
        running.spawn(async move { redriven_twice(&vendors, lane, (vendor, round), seed).await });
    }
    let mut report = Report::new(seed, 0, 0);
    while let Some(round) = running.join_next().await {
        report.add(round.expect("no panic"));
    }
    report.add(Report::new(0, 0, vendors.faults().await));
    report
}

/// One round, at a fake of its own.
async fn redriven_twice(
    vendors: &Vendors,
    lane: usize,
    (vendor, round): (usize, usize),
    seed: u64,
) -> Report {
    let random = SeededRandom::new(seed.wrapping_add(lane as u64));
    let mut report = Report::new(0, 0, 0);
    let sites = sites(vendors, lane);
    let start = |task, manner| {
        let job = Job::Alone { vendor, sites: sites.clone(), task };
        let urls = [(); VENDORS.len()].map(|()| vendors.urls[lane].clone());
        let (time, words) = (vendors.time(), vendors.words_directory(&lane.to_string()));
        let orders =
            Orders { urls, time, words, manner, failpoint: None, is_told: false, wall_off_ms: 0, job };
        Process::start(DRIVER, [orders.to_environment()])
    };
    let post = if round % 2 == 0 { Fault::Error500Before } else { Fault::Error500After };
    vendors.tell(&format!("whenever {lane} POST {}", post.to_header())).await;
    // See the letters of the cells: one who looks up has none that may have taken effect.
    let without_lookups = Manner { without_lookups: true, ..Manner::default() };
    start(Task::Call, without_lookups).rested(END_MAX).await;
    vendors.tell(&format!("clear {lane}")).await;

    let start = |task| start(task, Manner::default());
    let (one, other) = (start(Task::Redrive), start(Task::Redrive));
    if round >= ROUNDS / 2 {
        tokio::time::sleep(Duration::from_millis(20 + random.next_u64() % 150)).await;
        report.kills += usize::from(one.kill_if_running().await);
    } else {
        one.rested(END_MAX).await;
    }
    other.rested(END_MAX).await;
    start(Task::Rest).rested(END_MAX).await;
    let mut effects = vendors.effects(lane);
    let mut heard = AllHeard::read(&vendors.words_directory(&lane.to_string()));
    for site in &sites {
        let missing = BTreeSet::from([site.key()]);
        report.judge_file(&site.file, missing, &mut effects, &mut heard).await;
        report.broken.extend(redriven_once(vendor, site).await);
    }
    report.judge_rest(effects);
    report
}

/// Both faults, with a kill and without.
const ROUNDS: usize = 4;
const LETTERS: usize = 8;

fn sites(vendors: &Vendors, lane: usize) -> Vec<Site> {
    let site = |letter| {
        let file = vendors.directory().join(format!("letter-{lane}-{letter}.db"));
        Site { file: file.to_str().expect("a text").to_owned(), asks: Ask::Yes }
    };
    (0..LETTERS).map(site).collect()
}

/// Postmark's letters die again where the search finds nothing, and are then another operator's to redrive; the
/// others end with their first redrive.
async fn redriven_once(vendor: usize, site: &Site) -> Option<String> {
    let store = file::open(&site.file);
    let audit = store.audit(None, None, 100).await.expect("a page").rows;
    let redrives = audit.iter().filter(|entry| matches!(entry.action, Action::Redrive { .. })).count();
    store.close().await;
    let is_wrong = redrives == 0 || (redrives > 1 && vendor != 2);
    is_wrong.then(|| format!("{}: redriven {redrives} times", site.file))
}

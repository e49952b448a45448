//! Kills at random: drivers take orders on one file, are killed, and the last ones come to rest.

use std::time::Duration;

use rustix::process::Signal;
use steadfast::Random as _;
use steadfast::testkit::SeededRandom;
use tokio::task::JoinHandle;

use crate::audit::{Effects, Report};
use crate::file;
use crate::orders::{Job, Manner, Orders};
use crate::plan::{Plan, VENDORS};
use crate::process::Process;
use crate::vendors::{FAULTS, Vendors};
use crate::words::AllHeard;

const WORDS: &str = "all";

const KILL_AFTER_MS: (u64, u64) = (10, 120);
/// One kill in this many comes later: what a killed driver held is first taken over once its lease is past, and then
/// waits out the longest exchange and the settle time. In the run's time.
const LATER_EVERY: u64 = 8;
const LATER_MAX_MS: u64 = 120_000;
/// One kill in this many comes while the driver still opens the file.
const AT_BOOT_EVERY: u64 = 6;
/// Before one kill in this many, where there are two drivers, the victim is stopped and goes on.
const STOP_EVERY: usize = 15;
/// Past its lease, so that the other driver takes its operations over, and short of a lookup after that: a request
/// that is held up any longer on its way out is what no lookup can foresee (see [`crate::stops`]). In the run's time.
const STOPPED_MS: (u64, u64) = (61_000, 66_000);
/// A driver also sends the orders of so many kills before it. An older order has ended, or is left to the
/// sweepers; the last drivers send every order once more, so that none can be forgotten. With all of them at
/// each start, a run would take time by the square of its length.
const KILLS_REMEMBERED: usize = 4;

pub struct Run<'a> {
    pub plan: &'a Plan,
    pub vendors: Vendors,
    /// Where the records are: a file, or a server's URL.
    pub place: String,
    /// How far the walls of the two hosts are off at first, in milliseconds.
    pub walls_off_ms: [i64; 2],
    /// The other trouble that befalls the store, once in so many kills.
    pub disturb: Option<(usize, Disturb)>,
    pub killed: usize,
    pub stopped: usize,
}

/// Begins a disturbance, which differs by the number.
pub type Disturb = Box<dyn Fn(u64) -> JoinHandle<()> + Send + Sync>;

pub async fn run(plan: &Plan) -> Report {
    let vendors = Vendors::start_at_random(plan.seed, FAULTS, plan.orders).await;
    let file =
        vendors.directory().join(file::name(plan.seed, "calls.db")).to_str().expect("a text").to_owned();
    let mut run =
        Run { plan, vendors, place: file, walls_off_ms: [0, 0], disturb: None, killed: 0, stopped: 0 };
    let random = SeededRandom::new(plan.seed);
    run.kill_at_random(&random).await;
    run.come_to_rest(&random).await;
    let (mut report, mut effects, mut heard) = run.report().await;
    report.judge_file(&run.place, plan.keys().collect(), &mut effects, &mut heard).await;
    report.judge_rest(effects);
    report
}

impl Run<'_> {
    pub async fn kill_at_random(&mut self, random: &SeededRandom) {
        let (orders, kills, time) = (self.plan.orders, self.plan.kills, self.vendors.time());
        let mut disturbed: Option<JoinHandle<()>> = None;
        let mut drivers: [Option<Process>; 2] = [None, None];
        for kill in 0..kills {
            // The first third alone, then two on one file.
            let together = if kill * 3 < kills { 1 } else { 2 };
            let known = |kill: usize| orders * kill / kills;
            for (host, driver) in drivers[..together].iter_mut().enumerate() {
                if driver.is_none() {
                    let from = known(kill.saturating_sub(KILLS_REMEMBERED));
                    let (fresh, count) = (known(kill), known(kill + 1));
                    *driver = Some(self.start(host, from, fresh, count, random.next_u64(), false));
                }
            }
            if !random.next_u64().is_multiple_of(AT_BOOT_EVERY) {
                for driver in drivers.iter_mut().flatten() {
                    driver.ready().await;
                }
            }
            if let Some((every, disturb)) = &self.disturb
                && kill % every == every - 1
            {
                if let Some(before) = disturbed.take() {
                    before.await.expect("no panic");
                }
                disturbed = Some(disturb(random.next_u64()));
            }
            let (from, to) = KILL_AFTER_MS;
            tokio::time::sleep(Duration::from_millis(from + random.next_u64() % (to - from))).await;
            if random.next_u64().is_multiple_of(LATER_EVERY) {
                time.sleep(Duration::from_millis(random.next_u64() % LATER_MAX_MS)).await;
            }
            let victim = random.next_u64() as usize % together;
            if together == 2 && kill % STOP_EVERY == 0 {
                let stopped = drivers[victim].as_ref().expect("was started");
                stopped.signal(Signal::STOP);
                let (from, to) = STOPPED_MS;
                time.sleep(Duration::from_millis(from + random.next_u64() % (to - from))).await;
                stopped.signal(Signal::CONT);
                time.sleep(Duration::from_millis(random.next_u64() % to)).await;
                self.stopped += 1;
            }
            drivers[victim].take().expect("was started").kill().await;
            self.killed += 1;
        }
        for driver in drivers.iter_mut().filter_map(Option::take) {
            driver.kill().await;
            self.killed += 1;
        }
        if let Some(last) = disturbed {
            last.await.expect("no panic");
        }
    }

    /// Two more drivers send every order once more, until all have ended.
    pub async fn come_to_rest(&self, random: &SeededRandom) {
        let orders = self.plan.orders;
        let last = [0, 1].map(|host| self.start(host, 0, orders, orders, random.next_u64(), true));
        let patience = Duration::from_secs(120 + self.plan.operations() as u64 / 10);
        for driver in last {
            driver.rested(patience).await;
        }
    }

    fn start(&self, host: usize, from: usize, fresh: usize, count: usize, seed: u64, last: bool) -> Process {
        let job = Job::Trade { file: self.place.clone(), from, fresh, count, seed, last };
        let urls = self.vendors.urls.clone().try_into().expect("one each");
        let (time, words) = (self.vendors.time(), self.vendors.words_directory(WORDS));
        let manner = Manner::default();
        let (failpoint, wall_off_ms) = (None, self.walls_off_ms[host]);
        let orders = Orders { urls, time, words, manner, failpoint, is_told: false, wall_off_ms, job };
        Process::start("driver_process", [orders.to_environment()])
    }

    /// The facts that there are to judge once all have come to rest: the vendors' effects, and what callers were told.
    pub async fn report(&self) -> (Report, Effects, AllHeard) {
        eprintln!("{} times stopped past the lease", self.stopped);
        let mut report = Report::new(self.plan.seed, self.killed, self.vendors.faults().await);
        let effects: Effects = (0..VENDORS.len()).flat_map(|lane| self.vendors.effects(lane)).collect();
        report.late = self.vendors.late().await;
        (report, effects, self.heard())
    }

    pub fn heard(&self) -> AllHeard {
        AllHeard::read(&self.vendors.words_directory(WORDS))
    }
}

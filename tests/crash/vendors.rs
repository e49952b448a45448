//! The process that is never killed: the vendors' fakes, each with its ledger in a file.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};
use steadfast::Policy;
use steadfast::testkit::fakes::{AdyenFake, BigCommerceFake, Effect, Ledger, PostmarkFake, StripeFake};
use steadfast::testkit::{Fault, FaultPlan, WaitForm};
use steadfast::vendor::{BigCommerce, Postmark, Vendor};
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::clock::Time;
use crate::plan::{self, ADYEN, BOUNCES_EVERY, INCREASE, VENDORS, address};
use crate::process::Process;
use crate::seams::say;
use crate::shop::BOUNCING;
use crate::way::{self, Late};
use support::in_memory;

/// How long the fakes need until a lookup shows a new effect, as a part of the adapter's settle time. The rest of it is
/// what a request may take in a queue that nobody waits at, and at a fake on a busy machine.
const LAG_PERCENT: u32 = 30;
/// Where every request is late. Then half of the settle time is left to a machine that is busy, and half of it is what
/// who looks too early looks too early by.
const LAG_PERCENT_OF_SLOW: u32 = 50;

const FAULT_RATE: f64 = 0.25;
const LATE_EVERY: u64 = 12;

/// Every fault that the testkit has.
pub const FAULTS: &[Fault] = &[
    Fault::DropBeforeRead,
    Fault::DropAfterApply,
    Fault::Reset,
    Fault::ResetAfterApply,
    Fault::Hang,
    Fault::HangAfterApply,
    // On the machine: two seconds of the run's.
    Fault::SlowBody(Duration::from_millis(40)),
    Fault::TruncatedBody,
    Fault::Error500Before,
    Fault::Error500After,
    Fault::Stored500,
    Fault::Html,
    Fault::TooManyRequests(WaitForm::VendorForm(Duration::from_secs(2))),
    Fault::KeyInUse,
];

/// The settings of the process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Setup {
    /// One fake each, as in [`VENDORS`]: that of the vendor by configuration is Stripe's.
    pub lanes: Vec<usize>,
    /// Faults at random, from this seed; without one, only those that are asked for.
    pub seed: Option<u64>,
    /// The faults at random, as [`Fault::to_header`] has them.
    pub faults: Vec<String>,
    pub orders: usize,
    pub time: Time,
    /// Lags are so much of the shipped settle times.
    pub lag_percent: u32,
    /// One request in so many is late, if any.
    pub late_every: Option<u64>,
    pub directory: PathBuf,
}

impl Setup {
    const NAME: &str = "CRASH_VENDORS";

    fn new(time: Time, lag_percent: u32) -> Setup {
        let (lanes, faults, directory) = (Vec::new(), Vec::new(), PathBuf::new());
        let late_every = None;
        Setup { lanes, seed: None, faults, orders: 0, time, lag_percent, late_every, directory }
    }

    pub fn from_environment() -> Option<Setup> {
        let text = std::env::var(Setup::NAME).ok()?;
        Some(serde_json::from_str(&text).expect("a setup"))
    }

    fn to_environment(&self) -> (&'static str, String) {
        (Setup::NAME, serde_json::to_string(self).expect("plain data"))
    }

    fn ledger_file(&self, lane: usize) -> PathBuf {
        self.directory.join(format!("ledger-{lane}.jsonl"))
    }
}

/// The whole of the vendors process. It answers each command with a line: `next LANE FAULT` lets the lane's next
/// request meet the fault, `whenever LANE METHOD FAULT` every request with that method, `clear LANE` lets no
/// further one, `faults` counts those there were, `late` the requests that were late. It ends with its input.
pub async fn serve(setup: Setup) {
    let mut fakes = Vec::new();
    for lane in 0..setup.lanes.len() {
        fakes.push(Fake::start(&setup, lane).await);
    }
    let mut urls: Vec<String> = fakes.iter().map(Fake::url).collect();
    let exchange_max = setup.time.on_machine(Policy::background().timeout.attempt);
    let late_every = setup.late_every.unwrap_or(u64::MAX);
    let late = Late::new(setup.seed.unwrap_or_default(), exchange_max, late_every);
    if setup.late_every.is_some() {
        for url in &mut urls {
            let there = url.strip_prefix("http://").and_then(|there| there.parse().ok());
            *url = way::open(there.expect("an address"), Arc::clone(&late)).await;
        }
    }
    say(&format!("ready {}", urls.join(" ")));
    let commands = tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let lane = words.get(1).map(|lane| fakes[lane.parse::<usize>().expect("a lane")].plan());
            let fault = words.last().and_then(|fault| Fault::from_header(fault));
            match (words[0], lane) {
                ("next", Some(plan)) => drop(plan.next(fault.expect("a fault"))),
                ("whenever", Some(plan)) => {
                    let method: Method = words[2].parse().expect("a method");
                    plan.whenever("/", method, fault.expect("a fault"));
                }
                ("clear", Some(plan)) => drop(plan.clear()),
                ("faults", None) => {}
                ("late", None) => {
                    say(&late.count().to_string());
                    continue;
                }
                _ => panic!("{line}: no command"),
            }
            say(&fakes.iter().map(|fake| fake.plan().injected_total()).sum::<u64>().to_string());
        }
    });
    commands.await.expect("no panic");
}

enum Fake {
    Stripe(StripeFake),
    BigCommerce(BigCommerceFake),
    Postmark(PostmarkFake),
    Adyen(AdyenFake),
}

impl Fake {
    async fn start(setup: &Setup, lane: usize) -> Fake {
        let file = setup.ledger_file(lane);
        let plan = match setup.seed {
            Some(seed) if !setup.faults.is_empty() => {
                let faults = setup.faults.iter().map(|fault| Fault::from_header(fault).expect("a fault"));
                let faults: Vec<Fault> = faults.collect();
                FaultPlan::seeded(seed.wrapping_mul(3).wrapping_add(lane as u64), FAULT_RATE, &faults)
            }
            _ => FaultPlan::new(),
        };
        let lag = |settle: Duration| settle * setup.lag_percent / 100;
        let clock = || setup.time.into();
        match setup.lanes[lane] {
            0 | INCREASE => {
                let builder = StripeFake::builder().plan(plan).ledger_file(file).clock(clock());
                Fake::Stripe(builder.start().await)
            }
            1 => {
                let builder = BigCommerceFake::builder().plan(plan).ledger_file(file).clock(clock());
                let settle = Vendor::settle_time(&BigCommerce::new("", ""));
                Fake::BigCommerce(builder.apply_after(lag(settle)).start().await)
            }
            ADYEN => {
                let builder = AdyenFake::builder().plan(plan).ledger_file(file).clock(clock());
                Fake::Adyen(builder.start().await)
            }
            _ => {
                let builder = PostmarkFake::builder().plan(plan).ledger_file(file).clock(clock());
                let settle = Vendor::settle_time(&Postmark::new(""));
                let postmark = builder.search_lag(lag(settle)).start().await;
                postmark.deactivate(BOUNCING);
                for order in (0..setup.orders).step_by(BOUNCES_EVERY) {
                    postmark.deactivate(&address(order));
                }
                Fake::Postmark(postmark)
            }
        }
    }

    fn url(&self) -> String {
        match self {
            Fake::Stripe(fake) => fake.url(),
            Fake::BigCommerce(fake) => fake.url(),
            Fake::Postmark(fake) => fake.url(),
            Fake::Adyen(fake) => fake.url(),
        }
    }

    fn plan(&self) -> &FaultPlan {
        match self {
            Fake::Stripe(fake) => fake.plan(),
            Fake::BigCommerce(fake) => fake.plan(),
            Fake::Postmark(fake) => fake.plan(),
            Fake::Adyen(fake) => fake.plan(),
        }
    }
}

/// The harness's end of the vendors process.
pub struct Vendors {
    process: Mutex<Process>,
    setup: Setup,
    pub urls: Vec<String>,
    _directory: TempDir,
}

impl Vendors {
    /// One fake for each lane, in which nothing goes wrong but what is asked for: for processes with few operations,
    /// whose exact steps are known.
    pub async fn start(lanes: Vec<usize>) -> Vendors {
        Vendors::open(Setup { lanes, ..Setup::new(plan::slower_time(), LAG_PERCENT) }).await
    }

    /// All of them, with these faults at random, for so many orders.
    pub async fn start_at_random(seed: u64, faults: &[Fault], orders: usize) -> Vendors {
        Vendors::start_at_pace(plan::shipped_time(), seed, faults, orders).await
    }

    /// The same, in a time of its own.
    pub async fn start_at_pace(time: Time, seed: u64, faults: &[Fault], orders: usize) -> Vendors {
        let faults = faults.iter().map(|fault| fault.to_header()).collect();
        let lanes = (0..VENDORS.len()).collect();
        let setup = Setup::new(time, LAG_PERCENT);
        let late_every = Some(LATE_EVERY);
        Vendors::open(Setup { lanes, seed: Some(seed), faults, orders, late_every, ..setup }).await
    }

    /// All of them in the shipped proportions: every request is late, and nothing else goes wrong.
    pub async fn start_slow(seed: u64, orders: usize) -> Vendors {
        let setup = Setup::new(plan::slower_time(), LAG_PERCENT_OF_SLOW);
        let lanes = (0..VENDORS.len()).collect();
        Vendors::open(Setup { lanes, seed: Some(seed), orders, late_every: Some(1), ..setup }).await
    }

    async fn open(setup: Setup) -> Vendors {
        let directory = in_memory::directory();
        let setup = Setup { directory: directory.path().to_owned(), ..setup };
        let mut process = Process::start("vendors_process", [setup.to_environment()]);
        let line = process.line().await;
        let urls = line.strip_prefix("ready ").unwrap_or_else(|| panic!("the vendors said: {line}"));
        let urls = urls.split(' ').map(str::to_owned).collect();
        Vendors { process: Mutex::new(process), setup, urls, _directory: directory }
    }

    /// Gives a command, and how many faults there were when it was carried out.
    pub async fn tell(&self, command: &str) -> u64 {
        let mut process = self.process.lock().await;
        process.tell(command).await;
        process.line().await.parse().expect("a number")
    }

    pub async fn next_fault(&self, lane: usize, fault: Fault) {
        self.tell(&format!("next {lane} {}", fault.to_header())).await;
    }

    pub async fn faults(&self) -> u64 {
        self.tell("faults").await
    }

    pub async fn late(&self) -> u64 {
        self.tell("late").await
    }

    pub fn time(&self) -> Time {
        self.setup.time
    }

    /// A directory for the words of some of the processes that use these vendors.
    pub fn words_directory(&self, name: &str) -> PathBuf {
        let directory = self.setup.directory.join(format!("told-{name}"));
        std::fs::create_dir_all(&directory).expect("a directory");
        directory
    }

    /// The effects in a lane, by wire key, as its file has them.
    pub fn effects(&self, lane: usize) -> BTreeMap<String, Vec<Effect>> {
        let mut effects: BTreeMap<String, Vec<Effect>> = BTreeMap::new();
        for effect in ledger(&self.setup.ledger_file(lane)) {
            let key =
                effect.wire_key.clone().unwrap_or_else(|| panic!("an effect without a key: {effect:?}"));
            effects.entry(key).or_default().push(effect);
        }
        effects
    }

    /// The directory for the files of whoever uses these vendors: it goes when they do.
    pub fn directory(&self) -> &Path {
        &self.setup.directory
    }
}

fn ledger(path: &Path) -> Vec<Effect> {
    Ledger::read(path).expect("the ledger is whole")
}

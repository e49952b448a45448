//! Starts drivers, kills them, and lets the last ones come to rest.

use std::process::Stdio;
use std::time::Duration;

use steadfast::random::Random as _;
use steadfast::testkit::SeededRandom;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};

use crate::driver::Orders;
use crate::plan::{Plan, Vendors};

const KILL_AFTER_MS: (u64, u64) = (10, 120);
/// One kill in this many comes while the driver still opens the file.
const AT_BOOT_EVERY: u64 = 6;
const BOOT_MAX: Duration = Duration::from_secs(20);

/// What a run leaves for the audit.
pub struct Run {
    pub vendors: Vendors,
    pub file: String,
    pub killed: usize,
    _directory: TempDir,
}

pub async fn run(plan: &Plan) -> Run {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("calls.db").to_str().expect("a text").to_owned();
    let mut run = Run { vendors: Vendors::open(plan).await, file, killed: 0, _directory: directory };
    let random = SeededRandom::new(plan.seed);
    let mut drivers: [Option<Driver>; 2] = [None, None];
    for kill in 0..plan.kills {
        // The first third alone, then two on one file.
        let together = if kill * 3 < plan.kills { 1 } else { 2 };
        let known = |kills: usize| plan.orders * kills / plan.kills;
        for driver in &mut drivers[..together] {
            if driver.is_none() {
                let (fresh, count) = (known(kill), known(kill + 1));
                *driver = Some(run.start(fresh, count, random.next_u64(), false));
            }
        }
        if !random.next_u64().is_multiple_of(AT_BOOT_EVERY) {
            for driver in drivers.iter_mut().flatten() {
                driver.ready().await;
            }
        }
        let (from, to) = KILL_AFTER_MS;
        tokio::time::sleep(Duration::from_millis(from + random.next_u64() % (to - from))).await;
        let victim = random.next_u64() as usize % together;
        drivers[victim].take().expect("was started").kill().await;
        run.killed += 1;
    }
    for driver in drivers.iter_mut().filter_map(Option::take) {
        driver.kill().await;
        run.killed += 1;
    }
    let last = [0, 1].map(|_| run.start(plan.orders, plan.orders, random.next_u64(), true));
    let patience = Duration::from_secs(30 + plan.operations() as u64 / 10);
    for driver in last {
        driver.end(patience).await;
    }
    run
}

impl Run {
    fn start(&self, fresh: usize, count: usize, seed: u64, last: bool) -> Driver {
        let orders = Orders { file: self.file.clone(), urls: self.vendors.urls(), fresh, count, seed, last };
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "driver_process", "--nocapture", "--test-threads=1"])
            .envs(orders.to_environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Should this process panic; should it be killed, the drivers see their input end.
            .kill_on_drop(true)
            .spawn()
            .expect("starts");
        let said = BufReader::new(child.stderr.take().expect("piped"));
        Driver { child, said, is_ready: false }
    }
}

struct Driver {
    child: Child,
    said: BufReader<ChildStderr>,
    is_ready: bool,
}

impl Driver {
    /// Waits until it has the file open and takes orders.
    async fn ready(&mut self) {
        if self.is_ready {
            return;
        }
        let mut line = String::new();
        let read = tokio::time::timeout(BOOT_MAX, self.said.read_line(&mut line)).await;
        read.expect("a driver starts in time").expect("a line");
        if line != "ready\n" {
            self.said.read_to_string(&mut line).await.expect("the rest");
            panic!("a driver said: {line}");
        }
        self.is_ready = true;
    }

    /// SIGKILL: nothing of it runs any more, no destructor, no flush.
    async fn kill(mut self) {
        if let Some(status) = self.child.try_wait().expect("is ours") {
            let mut said = String::new();
            self.said.read_to_string(&mut said).await.expect("text");
            panic!("a driver ended by itself, {status}: {said}");
        }
        self.child.kill().await.expect("killed and waited for");
    }

    async fn end(mut self, patience: Duration) {
        let mut said = String::new();
        let all = async {
            self.said.read_to_string(&mut said).await.expect("text");
            self.child.wait().await.expect("is ours")
        };
        let status = tokio::time::timeout(patience, all).await.expect("the last drivers come to rest");
        assert!(status.success(), "a driver ended with {status}: {said}");
    }
}

//! What is measured, each in a process of its own.
//!
//! SQLite counts the page caches of all connections of a process as one, so that in one process each variant would
//! take pages from the others. The processes and their files stay over all rounds, as a service's do.
//!
//! `echo 64 16000 | cargo bench --bench store -- --alone engine 0` has one by itself make 16,000 calls by 64 tasks, to
//! be profiled.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use steadfast::store::{Memory, Sqlite};

use super::bare::{Bare, Commits, Table};
use super::{Calls, directory, engine, key, median, runtime};

/// The two commits alone; the bare loop with the store's statements, and with the least; the store; the engine on it;
/// the engine on the store in memory.
pub(super) const NAMES: [&str; 6] = ["commits", "bare", "narrow", "store", "engine", "memory"];

const ALONE: &str = "--alone";

/// The process of one variant.
pub(super) struct Variant {
    pub name: &'static str,
    process: Child,
    asked: Option<ChildStdin>,
    told: BufReader<ChildStdout>,
}

impl Variant {
    /// Starts it on a new file and has it make `warm` calls: a log that has not yet had its full length grows with
    /// each commit, and a sync then also writes the file's length.
    pub(super) fn start(name: &'static str, warm: u64) -> Variant {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args([ALONE, name, &warm.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (asked, told) = (process.stdin.take(), process.stdout.take().expect("a pipe"));
        Variant { name, process, asked, told: BufReader::new(told) }
    }

    /// Microseconds that a call takes by itself: the median, since the mean would be that of the disk's few long
    /// syncs.
    pub(super) fn one_at_a_time(&mut self, calls: u64) -> f64 {
        self.ask(1, calls)
    }

    /// Calls a second.
    pub(super) fn at_once(&mut self, tasks: u64, calls: u64) -> f64 {
        self.ask(tasks, calls)
    }

    fn ask(&mut self, tasks: u64, calls: u64) -> f64 {
        let asked = self.asked.as_mut().expect("it is open until this is dropped");
        writeln!(asked, "{tasks} {calls}").expect("it reads");
        let mut told = String::new();
        self.told.read_line(&mut told).expect("it tells");
        told.trim().parse().expect("a number")
    }
}

impl Drop for Variant {
    fn drop(&mut self) {
        // It ends with what it reads.
        self.asked = None;
        let _ = self.process.wait();
    }
}

/// Whether this process was started as a variant's, and nothing else.
pub(super) fn served() -> bool {
    let arguments: Vec<String> = std::env::args().collect();
    let Some(at) = arguments.iter().position(|argument| argument == ALONE) else { return false };
    let [name, warm, ..] = &arguments[at + 1..] else { panic!("{ALONE} NAME CALLS") };
    let warm = warm.parse().expect("a number of calls");
    let directory = directory();
    let path = directory.path().join("calls.db");
    // Within the runtime: a client that has to spawn finds it.
    let runtime = runtime();
    let _within = runtime.enter();
    match NAMES.iter().position(|known| known == name).expect("a variant's name") {
        0 => serve(&runtime, warm, Commits::open(&path)),
        1 => serve(&runtime, warm, Bare::open(&path, Table::Stores)),
        2 => serve(&runtime, warm, Bare::open(&path, Table::Narrow)),
        3 => serve(&runtime, warm, Sqlite::open(&path).expect("opens")),
        4 => serve(&runtime, warm, engine(Sqlite::open(&path).expect("opens"))),
        _ => serve(&runtime, warm, engine(Memory::new())),
    }
    true
}

/// Makes calls as asked, a line of tasks and calls each, until there is no more to read.
fn serve<C: Calls>(runtime: &tokio::runtime::Runtime, warm: u64, calls: C) {
    let calls = Arc::new(calls);
    let mut next = 0;
    let mut have = |tasks: u64, count: u64| {
        let first = next;
        next += count;
        runtime.block_on(async {
            match tasks {
                1 => latency(&calls, first..next).await,
                _ => rate(&calls, tasks, first..next).await,
            }
        })
    };
    have(64, warm);
    for line in std::io::stdin().lines() {
        let line = line.expect("text");
        let mut numbers = line.split(' ').map(|number| number.parse().expect("a number"));
        let (tasks, count) = (numbers.next().expect("tasks"), numbers.next().expect("calls"));
        println!("{:.1}", have(tasks, count));
    }
}

/// Microseconds of a call, the median.
async fn latency<C: Calls>(calls: &Arc<C>, numbers: std::ops::Range<u64>) -> f64 {
    let mut took = Vec::new();
    for number in numbers {
        let key = key(number);
        let started = Instant::now();
        calls.call(key).await;
        took.push(1e6 * started.elapsed().as_secs_f64());
    }
    median(took)
}

/// Calls a second.
async fn rate<C: Calls>(calls: &Arc<C>, tasks: u64, numbers: std::ops::Range<u64>) -> f64 {
    let (count, end) = (numbers.end - numbers.start, numbers.end);
    let next = Arc::new(AtomicU64::new(numbers.start));
    let started = Instant::now();
    let spawned = (0..tasks).map(|_| {
        let (calls, next) = (calls.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return;
                }
                calls.call(key(number)).await;
            }
        })
    });
    for task in spawned.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    count as f64 / started.elapsed().as_secs_f64()
}

//! The variants that a call is measured on.
//!
//! `echo 64 16000 | cargo bench --bench store -- --alone engine 0` has one by itself make 16,000 calls by 64 tasks, to
//! be profiled.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use steadfast::store::{Memory, Sqlite};
use tokio::runtime::Runtime;

use super::bare::{Bare, Commits, Table};
use super::process::{Process, arguments_of, number, serve};
use super::{Calls, directory, engine, key, median, runtime, together};

/// The two commits alone; the bare loop with the store's statements, and with the least; the store; the engine on it;
/// the engine on the store in memory.
pub(super) const NAMES: [&str; 6] = ["commits", "bare", "narrow", "store", "engine", "memory"];

const ALONE: &str = "--alone";

/// One of [`NAMES`], in its process.
pub(super) struct Variant {
    pub name: &'static str,
    process: Process,
}

impl Variant {
    /// Starts it on a new file and has it make `warm` calls: a log that has not yet had its full length grows with
    /// each commit, and a sync then also writes the file's length.
    pub(super) fn start(name: &'static str, warm: u64) -> Variant {
        Variant { name, process: Process::start(&[ALONE, name, &warm.to_string()]) }
    }

    /// Microseconds that a call takes by itself: the median, since the mean would be that of the disk's few long
    /// syncs.
    pub(super) fn one_at_a_time(&mut self, calls: u64) -> f64 {
        self.process.ask(&format!("1 {calls}"))
    }

    /// Calls a second.
    pub(super) fn at_once(&mut self, tasks: u64, calls: u64) -> f64 {
        self.process.ask(&format!("{tasks} {calls}"))
    }
}

/// Whether this process was started as a variant's, and nothing else.
pub(super) fn served() -> bool {
    let Some(arguments) = arguments_of(ALONE) else { return false };
    let [name, warm, ..] = &arguments[..] else { panic!("{ALONE} NAME CALLS") };
    let warm = number(warm);
    let directory = directory();
    let path = directory.path().join("calls.db");
    let runtime = runtime();
    match name.as_str() {
        "commits" => serve_calls(&runtime, warm, Commits::open(&path)),
        "bare" => serve_calls(&runtime, warm, Bare::open(&path, Table::Stores)),
        "narrow" => serve_calls(&runtime, warm, Bare::open(&path, Table::Narrow)),
        "store" => serve_calls(&runtime, warm, Sqlite::open(&path).expect("opens")),
        "engine" => serve_calls(&runtime, warm, engine(Sqlite::open(&path).expect("opens"))),
        "memory" => serve_calls(&runtime, warm, engine(Memory::new())),
        other => panic!("{other:?} is none of {NAMES:?}"),
    }
    true
}

/// Makes calls as asked, a number of tasks and of calls.
fn serve_calls<C: Calls>(runtime: &Runtime, warm: u64, calls: C) {
    let calls = Arc::new(calls);
    let mut next = 0;
    let mut have = |tasks: u64, count: u64| {
        let numbers = next..next + count;
        next += count;
        match tasks {
            1 => runtime.block_on(latency(&calls, numbers)),
            _ => runtime.block_on(rate(&calls, tasks, numbers)),
        }
    };
    have(64, warm);
    serve(|words| have(number(words[0]), number(words[1])));
}

/// Microseconds of a call, the median.
async fn latency<C: Calls>(calls: &Arc<C>, numbers: Range<u64>) -> f64 {
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
async fn rate<C: Calls>(calls: &Arc<C>, tasks: u64, numbers: Range<u64>) -> f64 {
    let (count, end) = (numbers.end - numbers.start, numbers.end);
    let next = Arc::new(AtomicU64::new(numbers.start));
    let took = together(tasks, |_| {
        let (calls, next) = (calls.clone(), next.clone());
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return;
                }
                calls.call(key(number)).await;
            }
        }
    });
    count as f64 / took.await.as_secs_f64()
}

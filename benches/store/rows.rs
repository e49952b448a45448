//! The cost of a million settled rows: claims beside those of an empty file, claims while a purge runs, and memory.
//!
//! One operation is claimed and settled through the store; the others are copies of its row under random names,
//! made by one SQL insert-select over the store's own schema, so that the names lie anywhere in the index. Claims are
//! made under names that follow each other, as the numbers of orders do, and under names that lie anywhere: those
//! dirty a page of the index each, which an empty file does not have. One in a thousand is a dead letter.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use steadfast::dead_letter::DeadLetters;
use steadfast::operation::record::{Filter, Phase, Takeover};
use steadfast::store::{Sqlite, Store};

use super::process::{Process, arguments_of, number, serve};
use super::{Calls, NOW, directory, first_claim, median, runtime, together};

const ROWS: u64 = 1_000_000;
const PURGED: u64 = 100_000;
const FILL: &str = "--fill";
const CLAIMS: &str = "--claims";
/// Rows in one transaction while the file is made.
const BATCH: u64 = 20_000;

pub(super) async fn part(rounds: usize, quick: bool) {
    let (rows, purged) = if quick { (5_000, 1_000) } else { (ROWS, PURGED) };
    let directory = directory();
    let path = directory.path().join("many.db");
    let one = Sqlite::open(&path).expect("opens");
    one.call("the row that is copied".to_owned()).await;
    one.close().await;
    // In a process of its own, so that what it takes from the heap is not what later growth goes into unseen.
    let took = Process::start(&[FILL, &path.display().to_string()]).ask(&format!("{rows} {purged}"));
    println!("\nrows: {rows} settled rows made in {took:.1} s");

    let empty = directory.path().join("empty.db");
    let mut files = [&empty, &path].map(|path| Process::start(&[CLAIMS, &path.display().to_string()]));
    for (names, _) in NAMES {
        for tasks in [1, 64] {
            claims(&mut files, tasks, rounds, names);
        }
    }
    drop(files);
    let many = Arc::new(Sqlite::open(&path).expect("opens"));
    let memory = Memory::at_start();
    lists(&many, rows, &memory).await;
    purge(&many, purged as usize, &memory).await;
}

/// Whether this process was started to make the rows or claims, and nothing else.
pub(super) fn served() -> bool {
    if let Some(arguments) = arguments_of(FILL) {
        serve(|words| fill(Path::new(&arguments[0]), number(words[0]), number(words[1])));
        return true;
    }
    let Some(arguments) = arguments_of(CLAIMS) else { return false };
    let runtime = runtime();
    let store = Arc::new(Sqlite::open(&arguments[0]).expect("opens"));
    serve(|words| {
        let (_, name) =
            NAMES.iter().find(|(names, _)| *names == words[0]).expect("names as the other side has them");
        let [tasks, round, calls] = [1, 2, 3].map(|at| number(words[at]));
        runtime.block_on(claim_all(&store, *name, tasks, round, calls))
    });
    true
}

/// Copies of the one row: of the first `expired` the time is over at [`NOW`]. Gives the seconds that it took.
fn fill(path: &Path, rows: u64, expired: u64) -> f64 {
    let started = Instant::now();
    let connection = Connection::open(path).expect("opens");
    let columns: Vec<String> = connection
        .prepare("SELECT name FROM pragma_table_info('operation')")
        .and_then(|mut names| names.query_map([], |row| row.get(0))?.collect())
        .expect("columns");
    let values = columns.iter().map(|column| match column.as_str() {
        "number" => "nth.value",
        "key" => "'order-' || lower(hex(randomblob(12)))",
        "phase" => "CASE WHEN nth.value % 1000 = 0 THEN 5 ELSE phase END",
        "until_ms" => {
            "CASE WHEN nth.value % 1000 = 0 THEN NULL WHEN nth.value <= ?3 THEN until_ms - retention_ms - 1000 - nth.value % 1000 ELSE until_ms END"
        }
        "detail" => "CASE WHEN nth.value % 1000 = 0 THEN 0 ELSE detail END",
        other => other,
    });
    let copy = format!(
        "WITH RECURSIVE nth (value) AS (SELECT ?1 UNION ALL SELECT value + 1 FROM nth WHERE value < ?2)
         INSERT INTO operation ({}) SELECT {} FROM nth, operation WHERE number = 1",
        columns.join(", "),
        values.collect::<Vec<_>>().join(", ")
    );
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000").expect("set up");
    for start in (2..rows + 2).step_by(BATCH as usize) {
        let end = (start + BATCH - 1).min(rows + 1);
        connection.execute(&copy, params![start as i64, end as i64, expired as i64 + 1]).expect("copies");
    }
    // The measures that follow are not to pay for the log that this has left.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("the log is in the file");
    started.elapsed().as_secs_f64()
}

/// Claims alone, on both files in turn.
fn claims(files: &mut [Process; 2], tasks: u64, rounds: usize, names: &str) {
    // Of many tasks as many that the log is moved by the writer in each round, which is to count.
    let calls = if tasks == 1 { 300 } else { 24_000 };
    let mut took = [const { Vec::new() }; 2];
    for round in 0..rounds {
        for turn in 0..2 {
            let which = (round + turn) % 2;
            took[which].push(files[which].ask(&format!("{names} {tasks} {round} {calls}")));
        }
    }
    let ratios = took[1].iter().zip(&took[0]).map(|(many, empty)| many / empty);
    let [empty, many] = [median(took[0].clone()), median(took[1].clone())];
    let ratio = median(ratios.collect());
    println!(
        "{tasks:>3} tasks  a claim, names {names}: empty file {empty:.1} us, many rows {many:.1} us, ratio {ratio:.2}"
    );
}

/// Microseconds of a claim.
async fn claim_all(store: &Arc<Sqlite>, name: Name, tasks: u64, round: u64, calls: u64) -> f64 {
    let took = together(tasks, |task| {
        let store = store.clone();
        async move {
            for nth in 0..calls / tasks {
                first_claim(&store, name("claim", tasks, round, task, nth)).await;
            }
        }
    });
    1e6 * took.await.as_secs_f64() / calls as f64
}

/// Everything that looks at many rows, and what memory it leaves.
async fn lists(store: &Arc<Sqlite>, rows: u64, memory: &Memory) {
    let started = Instant::now();
    let (mut seen, mut after): (u64, Option<String>) = (0, None);
    loop {
        let page = store.list(&Filter::default(), after.as_deref(), 1_000).await.expect("a page");
        seen += page.rows.len() as u64;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(seen > rows, "every row is on a page");
    memory.print("a list of everything by pages", started);

    let started = Instant::now();
    let counted: u64 = store.tally().await.expect("a tally").iter().map(|tally| tally.count).sum();
    assert_eq!(counted, seen);
    memory.print("a tally", started);

    let letters = DeadLetters::new(store.clone() as Arc<dyn Store>);
    let started = Instant::now();
    let page = letters.list(&Filter::default(), None, 100).await.expect("a page");
    assert_eq!(page.rows.len(), 100.min(rows as usize / 1_000));
    memory.print("a page of dead letters", started);

    let started = Instant::now();
    let now = NOW.plus(Duration::from_secs(60));
    let take = Takeover {
        phase: Phase::InProgress,
        account: None,
        now,
        lease: Duration::from_secs(60),
        attempt_max: Duration::from_secs(30),
        vendor_clock_ms: None,
        holder: None,
        limit: 64,
        wanted: steadfast::operation::record::Wanted::default(),
    };
    assert_eq!(store.take(take).await.expect("a take").len(), 64);
    memory.print("a take of 64 that lapsed", started);
}

/// Claims one at a time, first alone and then while a purge runs.
async fn purge(store: &Arc<Sqlite>, expired: usize, memory: &Memory) {
    let alone = latencies(store, "alone", &AtomicBool::new(false), 2_000).await;
    print_latencies("claims with no purge", &alone);
    let done = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let purging = tokio::spawn({
        let (store, done) = (store.clone(), done.clone());
        async move {
            // Not later: the claims beside it are made now, and of two clocks a store believes the earlier.
            let removed = store.purge(NOW, expired).await.expect("a purge");
            done.store(true, Ordering::Release);
            removed
        }
    });
    let beside = latencies(store, "beside", &done, usize::MAX).await;
    let removed = purging.await.expect("no panic");
    assert_eq!(removed, expired - expired / 1_000, "all that expired and is no dead letter");
    memory.print(&format!("a purge of {removed}"), started);
    print_latencies("claims while it ran", &beside);
}

/// The time that each claim took, in milliseconds, until `done` or `most` were made.
async fn latencies(store: &Arc<Sqlite>, name: &str, done: &AtomicBool, most: usize) -> Vec<f64> {
    let mut took = Vec::new();
    while !done.load(Ordering::Acquire) && took.len() < most {
        let key = scattered(name, 0, 0, 0, took.len() as u64);
        let started = Instant::now();
        first_claim(store, key).await;
        took.push(1e3 * started.elapsed().as_secs_f64());
    }
    took.sort_by(f64::total_cmp);
    took
}

fn print_latencies(what: &str, sorted: &[f64]) {
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize];
    let (count, p50, p99, max) = (sorted.len(), at(0.5), at(0.99), at(1.0));
    println!("{what}: {count}, p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms");
}

/// Makes a key from what is measured, the number of tasks, the round, the task and the call.
type Name = fn(&str, u64, u64, u64, u64) -> String;

/// How keys follow each other.
const NAMES: [(&str, Name); 2] = [("in-order", in_order), ("anywhere", scattered)];

/// A key that follows the one before, as numbers of orders do.
fn in_order(name: &str, tasks: u64, round: u64, task: u64, nth: u64) -> String {
    format!("order-{name}-{tasks:02}-{round:02}-{nth:05}-{task:02}")
}

/// A key whose place in the index has nothing to do with when it comes.
fn scattered(name: &str, tasks: u64, round: u64, task: u64, nth: u64) -> String {
    let number = ((tasks << 48) | (round << 32) | (task << 24) | nth).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    format!("order-{number:016x}-{name}")
}

/// The memory that the process holds, by the kernel's count.
struct Memory {
    at_start_mib: f64,
}

impl Memory {
    fn at_start() -> Memory {
        Memory { at_start_mib: resident_mib() }
    }

    fn print(&self, what: &str, since: Instant) {
        let (now, took) = (resident_mib(), since.elapsed());
        println!("{what}: {took:.1?}; resident {now:.1} MiB, {:.1} at the start", self.at_start_mib);
    }
}

/// `VmRSS` of `/proc/self/status`; nothing to say on systems that have none.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}

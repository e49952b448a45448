//! What a durable call costs: claim and settle of a 1 KiB reply, through the store and through the whole engine
//! over a transport that does nothing, beside a bare `rusqlite` loop that commits in groups ([`bare`]).
//!
//! Rounds are interleaved, each variant in turning order, so that a machine that slows down slows down all. Printed
//! are the medians, and the ratio to the bare loop of the same round. Files stay open over the rounds, as a
//! service's do. With one call at a time it is what a call adds to the two commits that it needs.
//!
//! The second part, [`rows`], is about a file with a million settled rows.
//!
//! `cargo bench --bench store`; `-- calls` or `-- rows` runs one part, `-- --test` one short round of both, and
//! `-- --alone engine 64` one variant, to be profiled. `STORE_BENCH_DIR` says on which disk.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use rusqlite::Connection;
use steadfast::answer::Answer;
use steadfast::clock::Timestamp;
use steadfast::operation::record::{Claim, Claimed, Event, Record, Transition};
use steadfast::operation::{Fingerprint, Key, OperationId, RedactedFields, Scope};
use steadfast::request::Request;
use steadfast::store::{Sqlite, Store};
use steadfast::transport::{Exchange, Limits, Transport};
use steadfast::vendor::Stripe;
use steadfast::{Client, Effect, OnUnknown, Policy};

mod bare;
mod rows;

use bare::{Bare, Statement, Table};

const ALONE: &str = "--alone";
const THREADS: usize = 2;
const ROUNDS: usize = 9;
const CALLS: u64 = 16_000;
/// How many more rounds, and of how many fewer calls, with one call at a time.
const ROUNDS_OF_ONE: usize = 4;
const CALLS_OF_ONE: u64 = 80;
const NAMES: [&str; 4] = ["bare", "narrow", "store", "engine"];
const BODY: &[u8] = &[b'x'; 1024];

fn main() {
    if rows::filled() {
        return;
    }
    let quick = std::env::args().any(|argument| argument == "--test");
    let (rounds, calls) = if quick { (1, 200) } else { (ROUNDS, CALLS) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime with two workers");
    if let Some((variant, tasks)) = alone() {
        println!("{:.0}", runtime.block_on(by_itself(variant, tasks, rounds, calls)));
        return;
    }
    let asked = |part: &str| std::env::args().any(|argument| argument == part);
    if !asked("rows") {
        calls_part(&runtime, rounds, calls);
    }
    if !asked("calls") {
        runtime.block_on(rows::part(rounds, quick));
    }
}

fn calls_part(runtime: &tokio::runtime::Runtime, rounds: usize, calls: u64) {
    println!(
        "store: claim + settle of 1 KiB; medians of {rounds} interleaved rounds of {calls} calls, or of {} of {}",
        rounds * ROUNDS_OF_ONE,
        calls / CALLS_OF_ONE
    );
    runtime.block_on(one_at_a_time(rounds * ROUNDS_OF_ONE, calls / CALLS_OF_ONE));
    for tasks in [64, 256] {
        let rates = at_once(tasks, rounds);
        for (name, samples) in NAMES.iter().zip(&rates) {
            let of = |variant: usize| {
                median(samples.iter().zip(&rates[variant]).map(|(rate, other)| rate / other).collect())
            };
            let (rate, bare, narrow) = (median(samples.clone()), of(0), of(1));
            println!(
                "{tasks:>3} tasks  {name:<7} {rate:>7.0} calls/s, {bare:.2} of bare, {narrow:.2} of narrow"
            );
        }
    }
}

/// Calls a second of each of [`NAMES`] in each round, each in a process of its own: SQLite counts the page caches of
/// all connections of a process as one, so that in one process each takes pages from the others.
fn at_once(tasks: u64, rounds: usize) -> [Vec<f64>; NAMES.len()] {
    let mut rates = [const { Vec::new() }; NAMES.len()];
    for round in 0..rounds {
        for turn in 0..NAMES.len() {
            let variant = in_turn(round, turn, NAMES.len());
            let quick = if rounds < ROUNDS { "--test" } else { "--bench" };
            let ran = std::process::Command::new(std::env::current_exe().expect("this program"))
                .args([quick, ALONE, NAMES[variant], &tasks.to_string()])
                .output()
                .expect("it starts");
            let printed = String::from_utf8_lossy(&ran.stdout);
            rates[variant].push(printed.trim().parse().expect("calls a second"));
        }
    }
    rates
}

/// What a call takes by itself, and what it adds to the two commits that it needs.
///
/// The commits are those of the same two statements on a thread that does nothing else. A round's figure is the
/// median over its calls: their mean would be that of the disk's few long syncs. Rounds are short and many, since a
/// disk's mood lasts for seconds.
async fn one_at_a_time(rounds: usize, calls: u64) {
    let directory = directory();
    let files = Files::open(directory.path());
    let commits = bare::open(&directory.path().join("commits.db"), Table::Stores);
    let mut next = files.warm(rounds).await;
    (0..next).for_each(|number| two_commits(&commits, &key(number)));
    let mut took = [const { Vec::new() }; NAMES.len() + 1];
    for round in 0..rounds {
        for turn in 0..took.len() {
            let variant = in_turn(round, turn, took.len());
            let mut latencies = Vec::new();
            for number in next..next + calls {
                let key = key(number);
                let started = Instant::now();
                match variant {
                    4 => two_commits(&commits, &key),
                    _ => files.call(variant, key).await,
                }
                latencies.push(1e6 * started.elapsed().as_secs_f64());
            }
            took[variant].push(median(latencies));
        }
        next += calls;
    }
    let [calls @ .., commits] = took;
    println!("  1 task   the two commits take {:.1} us; beyond them,", median(commits.clone()));
    for (name, samples) in NAMES.iter().zip(calls) {
        let added = samples.iter().zip(&commits).map(|(call, commits)| call - commits).collect();
        println!("           {name:<7} adds {:>6.1} us to a call of {:.1}", median(added), median(samples));
    }
}

/// Which of `variants` is at the place `turn` of a round. Each comes first as often as the others, and each other one
/// comes before it as often: what a burst has left to the disk slows whatever follows it.
fn in_turn(round: usize, turn: usize, variants: usize) -> usize {
    if (round / variants).is_multiple_of(2) {
        (round + turn) % variants
    } else {
        (round + variants - turn) % variants
    }
}

/// A call's two statements, each in a transaction, on this thread.
fn two_commits(connection: &Connection, key: &str) {
    for statement in [Statement::Claim, Statement::Settle] {
        bare::run(connection, "BEGIN IMMEDIATE");
        bare::carry_out(connection, Table::Stores, statement, key);
        bare::run(connection, "COMMIT");
    }
}

/// One file for each of [`NAMES`], open as long as it is measured, as a service's is.
struct Files {
    bare: Arc<Bare>,
    narrow: Arc<Bare>,
    store: Arc<Sqlite>,
    engine: Arc<Client>,
}

impl Files {
    fn open(directory: &Path) -> Files {
        let at = |variant: usize| directory.join(NAMES[variant]).with_extension("db");
        Files {
            bare: Arc::new(Bare::open(&at(0), Table::Stores)),
            narrow: Arc::new(Bare::open(&at(1), Table::Narrow)),
            store: Arc::new(Sqlite::open(at(2)).expect("opens")),
            engine: Arc::new(engine(&at(3))),
        }
    }

    async fn call(&self, variant: usize, key: String) {
        match variant {
            0 => self.bare.call(key).await,
            1 => self.narrow.call(key).await,
            2 => self.store.call(key).await,
            _ => self.engine.call(key).await,
        }
    }

    /// [`warm`] for each of them.
    async fn warm(&self, rounds: usize) -> u64 {
        warm(&self.bare, rounds).await;
        warm(&self.narrow, rounds).await;
        warm(&self.store, rounds).await;
        warm(&self.engine, rounds).await
    }
}

/// Calls a second of one of [`NAMES`], whose file is the only one that this process has open.
async fn by_itself(variant: usize, tasks: u64, rounds: usize, calls: u64) -> f64 {
    async fn of<C: Calls>(who: C, tasks: u64, rounds: usize, calls: u64) -> f64 {
        let who = Arc::new(who);
        let first = warm(&who, rounds).await;
        rate(&who, tasks, (first, first + calls)).await
    }
    let directory = directory();
    let path = directory.path().join("calls.db");
    match variant {
        0 => of(Bare::open(&path, Table::Stores), tasks, rounds, calls).await,
        1 => of(Bare::open(&path, Table::Narrow), tasks, rounds, calls).await,
        2 => of(Sqlite::open(&path).expect("opens"), tasks, rounds, calls).await,
        _ => of(engine(&path), tasks, rounds, calls).await,
    }
}

/// Calls before the first round; gives the number of the next. A log that has not yet had its full length grows with
/// each commit, and a sync then also writes the file's length.
async fn warm<C: Calls>(calls: &Arc<C>, rounds: usize) -> u64 {
    let first = if rounds < ROUNDS { 100 } else { 20_000 };
    rate(calls, 64, (0, first)).await;
    first
}

fn key(number: u64) -> String {
    format!("order-{number}/charge")
}

fn directory() -> tempfile::TempDir {
    let directory = match std::env::var("STORE_BENCH_DIR") {
        Ok(disk) => tempfile::tempdir_in(disk),
        Err(_) => tempfile::tempdir(),
    };
    directory.expect("a directory")
}

/// One of [`NAMES`] and a number of tasks, to be profiled alone.
fn alone() -> Option<(usize, u64)> {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == ALONE)?;
    let name = arguments.get(at + 1).and_then(|name| NAMES.iter().position(|known| known == name));
    let tasks = arguments.get(at + 2).and_then(|tasks| tasks.parse().ok());
    Some((name.expect("bare, narrow, store or engine"), tasks.expect("a number of tasks")))
}

/// One keyed call, claim and settle.
trait Calls: Send + Sync + 'static {
    fn call(&self, key: String) -> impl Future<Output = ()> + Send;
}

/// Calls a second, of those from the first number to before the second.
async fn rate<C: Calls>(calls: &Arc<C>, tasks: u64, (first, end): (u64, u64)) -> f64 {
    let next = Arc::new(AtomicU64::new(first));
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
    (end - first) as f64 / started.elapsed().as_secs_f64()
}

impl Calls for Sqlite {
    async fn call(&self, key: String) {
        let held = first_claim(self, key).await;
        let answer = Answer::new(StatusCode::OK, HeaderMap::new(), Bytes::from_static(BODY));
        let event = Event::Succeed { answer, reconciled: false };
        let effect = Effect::Unknown;
        let transition = Transition { fence: 1, now: NOW, attempts: 1, effect, event, reports: Vec::new() };
        self.transition(&held, transition).await.expect("the store works").expect("the holder may write");
    }
}

async fn first_claim(store: &Sqlite, key: String) -> Record {
    let id = OperationId::new(Scope::from_stored(SCOPE), Key::new(key).expect("a key"));
    let mut request = Request::new(Method::POST, "https://api.vendor.test/v1/things".parse().expect("a URL"));
    request.body = Bytes::from_static(b"amount=1000&currency=usd");
    let claim = Claim {
        fingerprint: Fingerprint::from_bytes([1; 32]),
        wire_key: id.wire_key().to_string(),
        id,
        request,
        now: NOW,
        lease: Duration::from_secs(60),
        keep: KEEP,
        on_unknown: OnUnknown::Park,
        redact: RedactedFields::NONE,
    };
    match store.claim(claim).await.expect("the store works") {
        Claimed::Fresh(held) => held,
        other => panic!("a new key: {other:?}"),
    }
}

#[derive(Debug)]
struct NoOp;

impl Transport for NoOp {
    fn send(&self, _: Request, _: Limits) -> Exchange<'_> {
        let answer = Answer::new(StatusCode::OK, HeaderMap::new(), Bytes::from_static(BODY));
        Box::pin(std::future::ready(Ok(answer)))
    }
}

fn engine(path: &Path) -> Client {
    Client::builder(Stripe::new("sk_test_123"))
        .policy(Policy::background())
        .store(Sqlite::open(path).expect("opens"))
        .transport(NoOp)
        .build()
        .expect("a client")
}

impl Calls for Client {
    async fn call(&self, key: String) {
        let form = [("amount", "1000"), ("currency", "usd")];
        self.post("/v1/payment_intents").key(key).form(&form).send().await.expect("a reply");
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const KEEP: Duration = Duration::from_secs(86_400);
const SCOPE: &str = "prod/stripe/acct_1/POST /v1/payment_intents";

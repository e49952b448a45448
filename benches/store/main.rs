//! What a durable call costs: claim and settle of a 1 KiB reply, through the store and through the whole engine
//! over a transport that does nothing, beside a bare `rusqlite` loop that commits in groups.
//!
//! The bare loop is the least that two durable statements could cost on this disk: one thread, one table with a
//! unique name, an insert and an update, the same group commit, log and sync as the store. Rounds are
//! interleaved, each variant in turning order, so that a machine that slows down slows down all three. Printed
//! are the medians, and the ratio to the bare loop of the same round. With one call at a time also what a call adds
//! to the two commits that it needs, a commit being what one thread takes for the bare insert without any queue.
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
use rusqlite::{Connection, params};
use steadfast::answer::Answer;
use steadfast::clock::Timestamp;
use steadfast::operation::record::{Claim, Claimed, Event, Record, Transition};
use steadfast::operation::{Fingerprint, Key, OperationId, RedactedFields, Scope};
use steadfast::request::Request;
use steadfast::store::{Sqlite, Store};
use steadfast::transport::{Exchange, Limits, Transport};
use steadfast::vendor::Stripe;
use steadfast::{Client, Effect, OnUnknown, Policy};
use tokio::sync::{mpsc, oneshot};

mod rows;

const THREADS: usize = 2;
const ROUNDS: usize = 9;
const CALLS: u64 = 8_000;
const NAMES: [&str; 3] = ["bare", "store", "engine"];
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
    if let Some((name, tasks)) = alone() {
        let rate = runtime.block_on(once(name, tasks, calls * 5));
        println!("{tasks:>3} tasks  {:<10} {rate:>9.0} calls/s", NAMES[name]);
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
        "store: calls/s of claim + settle of 1 KiB, medians of {rounds} interleaved rounds of {calls} calls"
    );
    for tasks in [1, 64, 256] {
        let calls = if tasks == 1 { calls / 8 } else { calls };
        let (rates, commits) = runtime.block_on(interleave(tasks, rounds, calls));
        for (name, samples) in NAMES.iter().zip(&rates) {
            let ratios = samples.iter().zip(&rates[0]).map(|(rate, bare)| rate / bare);
            let (rate, ratio) = (median(samples.clone()), median(ratios.collect()));
            print!("{tasks:>3} tasks  {name:<10} {rate:>9.0} calls/s  ratio {ratio:.2}");
            println!("  {:>8.1} us a call", 1e6 * tasks as f64 / rate);
        }
        if tasks == 1 {
            println!("  1 task   a commit takes {:.1} us; beyond two of them,", median(commits.clone()));
            for (name, samples) in NAMES.iter().zip(&rates) {
                let added = samples.iter().zip(&commits).map(|(rate, commit)| 1e6 / rate - 2.0 * commit);
                println!("           {name:<10} adds {:>8.1} us a call", median(added.collect()));
            }
        }
    }
}

/// Calls a second of each of [`NAMES`] in each round, and what a commit took in it, in microseconds.
async fn interleave(tasks: u64, rounds: usize, calls: u64) -> ([Vec<f64>; 3], Vec<f64>) {
    let (mut rates, mut commits) = ([const { Vec::new() }; 3], Vec::new());
    for round in 0..rounds {
        for turn in 0..NAMES.len() {
            let variant = (round + turn) % NAMES.len();
            rates[variant].push(once(variant, tasks, calls).await);
        }
        if tasks == 1 {
            commits.push(commit_us(calls));
        }
    }
    (rates, commits)
}

/// What a commit of the bare insert takes on a thread that does nothing else, in microseconds.
fn commit_us(commits: u64) -> f64 {
    let directory = directory();
    let connection = bare_connection(&directory.path().join("calls.db"));
    let started = Instant::now();
    for number in 0..commits {
        run(&connection, "BEGIN IMMEDIATE");
        carry_out(&connection, &Statement::Insert { key: format!("order-{number}/charge") });
        run(&connection, "COMMIT");
    }
    1e6 * started.elapsed().as_secs_f64() / commits as f64
}

fn directory() -> tempfile::TempDir {
    let directory = match std::env::var("STORE_BENCH_DIR") {
        Ok(disk) => tempfile::tempdir_in(disk),
        Err(_) => tempfile::tempdir(),
    };
    directory.expect("a directory")
}

/// Calls a second of one of [`NAMES`], on a file of its own.
async fn once(variant: usize, tasks: u64, calls: u64) -> f64 {
    let directory = directory();
    let path = directory.path().join("calls.db");
    match variant {
        0 => rate(Arc::new(Bare::open(&path)), tasks, calls).await,
        1 => rate(Arc::new(Sqlite::open(&path).expect("opens")), tasks, calls).await,
        _ => rate(Arc::new(engine(&path)), tasks, calls).await,
    }
}

/// One of [`NAMES`] and a number of tasks, to be profiled alone.
fn alone() -> Option<(usize, u64)> {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == "--alone")?;
    let name = arguments.get(at + 1).and_then(|name| NAMES.iter().position(|known| known == name));
    let tasks = arguments.get(at + 2).and_then(|tasks| tasks.parse().ok());
    Some((name.expect("bare, store or engine"), tasks.expect("a number of tasks")))
}

/// One keyed call, claim and settle.
trait Calls: Send + Sync + 'static {
    fn call(&self, key: String) -> impl Future<Output = ()> + Send;
}

async fn rate<C: Calls>(calls: Arc<C>, tasks: u64, total: u64) -> f64 {
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let spawned = (0..tasks).map(|_| {
        let (calls, next) = (calls.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    return;
                }
                calls.call(format!("order-{number}/charge")).await;
            }
        })
    });
    for task in spawned.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    total as f64 / started.elapsed().as_secs_f64()
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

/// The least that two durable statements could cost.
struct Bare {
    queue: mpsc::Sender<(Statement, oneshot::Sender<()>)>,
}

enum Statement {
    Insert { key: String },
    Update { key: String },
}

impl Bare {
    fn open(path: &Path) -> Bare {
        let connection = bare_connection(path);
        let (queue, mut jobs) = mpsc::channel::<(Statement, oneshot::Sender<()>)>(1_024);
        std::thread::spawn(move || {
            let mut batch = Vec::new();
            while jobs.blocking_recv_many(&mut batch, 256) > 0 {
                run(&connection, "BEGIN IMMEDIATE");
                for (statement, _) in &batch {
                    carry_out(&connection, statement);
                }
                run(&connection, "COMMIT");
                for (_, reply) in batch.drain(..) {
                    reply.send(()).expect("somebody waits");
                }
            }
        });
        Bare { queue }
    }

    async fn do_it(&self, statement: Statement) {
        let (reply, done) = oneshot::channel();
        self.queue.send((statement, reply)).await.expect("the loop runs");
        done.await.expect("the loop runs");
    }
}

fn bare_connection(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("opens");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4096;
             CREATE TABLE operation (scope TEXT NOT NULL, key TEXT NOT NULL, fence INTEGER NOT NULL,
                 state INTEGER NOT NULL, until INTEGER NOT NULL, request BLOB NOT NULL, answer BLOB,
                 UNIQUE (scope, key)) STRICT",
        )
        .expect("set up");
    connection
}

fn carry_out(connection: &Connection, statement: &Statement) {
    let changed = match statement {
        Statement::Insert { key } => connection
            .prepare_cached("INSERT INTO operation VALUES (?1, ?2, 1, 1, ?3, ?4, NULL) ON CONFLICT DO NOTHING")
            .and_then(|mut insert| insert.execute(params![SCOPE, key, 60_000, &BODY[..200]])),
        Statement::Update { key } => connection
            .prepare_cached(
                "UPDATE operation SET state = 3, until = ?3, answer = ?4 WHERE scope = ?1 AND key = ?2 AND fence = 1",
            )
            .and_then(|mut update| update.execute(params![SCOPE, key, 86_400_000, BODY])),
    };
    assert_eq!(changed, Ok(1));
}

fn run(connection: &Connection, sql: &str) {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).expect("SQLite works");
}

impl Calls for Bare {
    async fn call(&self, key: String) {
        self.do_it(Statement::Insert { key: key.clone() }).await;
        self.do_it(Statement::Update { key }).await;
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const KEEP: Duration = Duration::from_secs(86_400);
const SCOPE: &str = "prod/stripe/acct_1/POST /v1/payment_intents";

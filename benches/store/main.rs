//! The cost of a durable call. Claim and settle of 1 KiB replies go through the store and through the whole
//! engine over a transport that does nothing, beside a bare `rusqlite` loop that commits in groups ([`bare`]).
//!
//! Rounds are interleaved, the [`variant`]s of each in an order of its own, so that a machine that slows down slows
//! down all. Printed are the medians, and the ratio to the bare loop of the same round. With one call at a time it is
//! what a call takes beyond the two commits that it needs.
//!
//! The second part, [`rows`], is about a file with a million settled rows.
//!
//! `cargo bench --bench store`; `-- calls` or `-- rows` runs one part, `-- --test` one short round of both.
//! `STORE_BENCH_DIR` says on which disk.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use steadfast::BoxFuture;
use steadfast::clock::Timestamp;
use steadfast::operation::record::{Claim, Claimed, Record, State, Transition};
use steadfast::operation::{Fingerprint, Key, OperationId, RedactedFields, Scope};
use steadfast::store::{Sqlite, Store};
use steadfast::transport::{Answer, Limits, Request, SendError, Transport};
use steadfast::vendor::Stripe;
use steadfast::{AttemptReport, Client, Effect, OnUnknown, Policy};

mod bare;
mod process;
mod rows;
mod variant;

use variant::Variant;

const THREADS: usize = 2;
const ROUNDS: usize = 9;
const CALLS: u64 = 16_000;
/// How many more rounds, and of how many fewer calls, with one call at a time: rounds are short and many, since a
/// disk's mood lasts for seconds.
const ROUNDS_OF_ONE: usize = 8;
const CALLS_OF_ONE: u64 = 80;
/// Of the order of the variants in each round.
const SEED: u64 = 1;
/// A success, as Stripe answers it.
const BODY: &[u8] = &{
    let (start, end) = (br#"{"id":"pi_1","object":"payment_intent","note":""#, br#""}"#);
    let mut body = [b'x'; 1024];
    body.split_at_mut(start.len()).0.copy_from_slice(start);
    body.split_at_mut(1024 - end.len()).1.copy_from_slice(end);
    body
};

fn main() {
    if variant::served() || rows::served() {
        return;
    }
    let quick = std::env::args().any(|argument| argument == "--test");
    let (rounds, calls) = if quick { (1, 200) } else { (ROUNDS, CALLS) };
    let asked = |part: &str| std::env::args().any(|argument| argument == part);
    if !asked("rows") {
        calls_part(rounds, calls, if quick { 100 } else { 20_000 });
    }
    if !asked("calls") {
        runtime().block_on(rows::part(rounds, quick));
    }
}

fn calls_part(rounds: usize, calls: u64, warm: u64) {
    let (rounds_of_one, calls_of_one) = (rounds * ROUNDS_OF_ONE, calls / CALLS_OF_ONE);
    println!(
        "store: claim + settle of 1 KiB; medians of {rounds} interleaved rounds of {calls} calls, or of \
         {rounds_of_one} of {calls_of_one}"
    );
    let mut variants = variant::NAMES.map(|name| Variant::start(name, warm));
    // They answer once they are warm.
    for variant in &mut variants {
        variant.one_at_a_time(1);
    }
    let took = interleaved(&mut variants, rounds_of_one, |variant| variant.one_at_a_time(calls_of_one));
    print_one_at_a_time(&took);
    let [_, on_disk @ .., _] = &mut variants;
    for tasks in [64, 256] {
        let rates = interleaved(on_disk, rounds, |variant| variant.at_once(tasks, calls));
        for (variant, samples) in on_disk.iter().zip(&rates) {
            let of = |other: usize| {
                median(samples.iter().zip(&rates[other]).map(|(rate, other)| rate / other).collect())
            };
            let (name, rate, bare, narrow) = (variant.name, median(samples.clone()), of(0), of(1));
            println!(
                "{tasks:>3} tasks  {name:<7} {rate:>7.0} calls/s, {bare:.2} of bare, {narrow:.2} of narrow"
            );
        }
    }
}

/// Prints what each variant's call takes beyond the two commits, and what the record on disk adds to a call of the
/// engine's.
fn print_one_at_a_time(took: &[Vec<f64>; variant::NAMES.len()]) {
    let beyond = |samples: &[f64], others: &[f64]| {
        median(samples.iter().zip(others).map(|(sample, other)| sample - other).collect())
    };
    let [commits, on_disk @ .., memory] = took;
    println!("  1 task   the two commits take {:.1} us; beyond them,", median(commits.clone()));
    for (name, samples) in variant::NAMES[1..].iter().zip(on_disk) {
        let (added, whole) = (beyond(samples, commits), median(samples.clone()));
        println!("           {name:<7} adds {added:>6.1} us to a call of {whole:.1}");
    }
    let [.., engine] = on_disk;
    let recorded: Vec<f64> = engine.iter().zip(memory).map(|(engine, memory)| engine - memory).collect();
    println!(
        "           a call of the engine's takes {:.1} us on the store in memory: the file adds the two commits and {:.1}",
        median(memory.clone()),
        beyond(&recorded, commits)
    );
}

/// The figures that `measure` gives for each variant in each round. Each round has an order of its own: what a variant
/// has left to the disk slows whatever follows it.
fn interleaved<const N: usize>(
    variants: &mut [Variant; N],
    rounds: usize,
    mut measure: impl FnMut(&mut Variant) -> f64,
) -> [Vec<f64>; N] {
    let mut measured = [const { Vec::new() }; N];
    let mut random = StdRng::seed_from_u64(SEED);
    let mut order: [usize; N] = std::array::from_fn(|which| which);
    for _ in 0..rounds {
        order.shuffle(&mut random);
        for which in order {
            measured[which].push(measure(&mut variants[which]));
        }
    }
    measured
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime with two workers")
}

/// The time that as many tasks take that begin together, each with its number.
async fn together<F>(tasks: u64, work: impl Fn(u64) -> F) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let started = Instant::now();
    let spawned: Vec<_> = (0..tasks).map(|task| tokio::spawn(work(task))).collect();
    for task in spawned {
        task.await.expect("no panic");
    }
    started.elapsed()
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

/// One keyed call, claim and settle.
trait Calls: Send + Sync + 'static {
    fn call(&self, key: String) -> impl Future<Output = ()> + Send;
}

impl Calls for Sqlite {
    async fn call(&self, key: String) {
        let held = first_claim(self, key).await;
        let answer = Answer::new(StatusCode::OK, HeaderMap::new(), Bytes::from_static(BODY));
        let to = State::Succeeded { answer, reconciled: false };
        let reports = vec![MADE.1.clone()];
        let transition = Transition {
            fence: 1,
            now: NOW,
            attempts: 1,
            effect: Effect::None,
            unknown_since: None,
            lookups: 0,
            resends_left: 0,
            to,
            reports,
        };
        self.transition(&held, transition).await.expect("the store works").expect("the holder may write");
    }
}

async fn first_claim(store: &Sqlite, key: String) -> Record {
    let id = OperationId::new(Scope::from_stored(SCOPE), Key::new(key).expect("a key"));
    let claim = Claim {
        fingerprint: Fingerprint::from_bytes([1; 32]),
        wire_key: WIRE_KEY.to_owned(),
        id,
        request: MADE.0.clone().into(),
        now: NOW,
        lease: Duration::from_secs(60),
        due: None,
        keep: KEEP,
        on_unknown: OnUnknown::Park,
        attempt_max: Duration::from_secs(30),
        vendor_clock_ms: None,
        holder: None,
        redact: RedactedFields::NONE,
        predecessor: None,
        sequence: None,
    };
    match store.claim(claim).await.expect("the store works") {
        Claimed::Fresh(held) => held,
        other => panic!("a new key: {other:?}"),
    }
}

#[derive(Debug)]
struct NoOp;

impl Transport for NoOp {
    fn send(&self, _: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let answer = Answer::new(StatusCode::OK, HeaderMap::new(), Bytes::from_static(BODY));
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

fn engine(store: impl Store + 'static) -> Client {
    Client::builder(Stripe::new("sk_test_123"))
        .policy(Policy::background())
        .store(store)
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
const SCOPE: &str = "default/stripe/test/POST /v1/payment_intents";

/// A request and a report as the engine makes them, so that all write rows of one size. Made once: it is no part of
/// the store.
static MADE: LazyLock<(Request, AttemptReport)> = LazyLock::new(|| {
    let mut request =
        Request::new(Method::POST, "https://api.stripe.com/v1/payment_intents".parse().expect("a URL"));
    let [kind, wire_key] = [REQUEST_TYPE, WIRE_KEY].map(HeaderValue::from_static);
    request.headers.insert(CONTENT_TYPE, kind);
    request.headers.insert("idempotency-key", wire_key);
    request.body = Bytes::from_static(REQUEST_BODY);
    (request, serde_json::from_str(REPORT).expect("a report"))
});

const WIRE_KEY: &str = "01234567-89ab-8def-8123-456789abcdef";
const REQUEST_TYPE: &str = "application/x-www-form-urlencoded";
const REQUEST_BODY: &[u8] =
    b"amount=1000&currency=usd&metadata%5Bsteadfast_key%5D=01234567-89ab-8def-8123-456789abcdef";
/// Of the request as the store writes it.
const REQUEST_BYTES: usize = 259;
const REPORT: &str = r#"{"number":1,"started_at":1700000000000,"latency":{"secs":0,"nanos":2223},"status":200,"failure":null,"verdict":"done","effect":"none","wait":null}"#;

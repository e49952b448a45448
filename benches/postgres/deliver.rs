//! Calls that are enqueued, and that a dispatcher delivers, beside a job queue.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use steadfast::BoxFuture;
use steadfast::Client;
use steadfast::dispatcher::Dispatcher;
use steadfast::operation::record::Phase;
use steadfast::store::{Postgres, Store};
use steadfast::transport::{Answer, Limits, Request, SendError, Transport};
use tokio::runtime::Runtime;

use crate::bench::{self, Nowhere, PATH};
use crate::{BODY, load, open};
use support::server::Server;

/// How many in a round.
const JOBS: usize = 4_000;
/// In one statement, where `awa` enqueues in batches.
const BATCH: usize = 250;
/// The bound that the dispatcher is held to, beside `awa`.
const RATIO_MIN: f64 = 1.0;

pub fn enqueue_and_deliver(server: &Server, runtime: &Runtime, rounds: usize) {
    let jobs = if bench::is_quick() { 1_000 } else { JOBS };
    println!("enqueue, deliver, settle: medians of {rounds} interleaved rounds of {jobs} calls of 1 KiB");
    let awa = awa();
    if awa.is_none() {
        println!("without awa: build it by `cargo build --release -p peer-awa` in benches/peers");
    }
    server.sql("CREATE DATABASE awa");
    let store = open(server, "deliver");
    for at_once in [64, 256] {
        let beside =
            |batch| awa.as_ref().map_or(f64::NAN, |awa| run_awa(awa, server, (at_once, jobs, batch)));
        let samples = bench::interleave::<3>(rounds, |variant| match variant {
            0 => runtime.block_on(delivered_a_second(&store, at_once, jobs)),
            1 => beside(1),
            _ => beside(BATCH),
        });
        let [ours, singly, batched] = &samples;
        println!("{at_once:>3} at once  steadfast {:>6.0}/s", bench::median(ours));
        if awa.is_none() {
            continue;
        }
        for (how, awa) in [("a job a statement", singly), ("250 jobs a statement", batched)] {
            println!(
                "{at_once:>3} at once  awa, {how:<20} {:>6.0}/s  steadfast ÷ awa {:.2}  target {RATIO_MIN}",
                bench::median(awa),
                bench::median_ratio(ours, awa),
            );
        }
    }
}

/// From the first that is enqueued until the last is settled.
async fn delivered_a_second(store: &Arc<Postgres>, at_once: usize, jobs: usize) -> f64 {
    let delivered = Arc::new(AtomicUsize::new(0));
    let client = load::client_by(store, at_once, Counted(Arc::clone(&delivered)));
    let dispatcher = Dispatcher::over([&client]).at_once(at_once).start();
    let round = rand::random::<u64>();
    let before = settled(store).await;
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let callers = (0..at_once).map(|_| {
        let (client, next) = (client.clone(), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= jobs {
                    return;
                }
                enqueue(&client, format!("{round:x}/{number}")).await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no panic");
    }
    while delivered.load(Ordering::Relaxed) < jobs {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Gives how many it could not bring to their end: the last are settled when it has stopped.
    assert_eq!(dispatcher.stop(Duration::from_secs(30)).await, 0);
    let took = began.elapsed();
    assert_eq!(delivered.load(Ordering::Relaxed), jobs, "each is sent once");
    assert_eq!(settled(store).await - before, jobs as u64, "each is settled");
    jobs as f64 / took.as_secs_f64()
}

pub async fn enqueue(client: &Client, key: String) {
    let enqueued = client.post(PATH).key(key).bytes(BODY).enqueue().await;
    enqueued.expect("the store works");
}

async fn settled(store: &Postgres) -> u64 {
    let tallies = store.tally().await.expect("the store works");
    tallies.iter().filter(|tally| tally.phase == Phase::Succeeded).map(|tally| tally.count).sum()
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Transport for Counted {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Nowhere.send(request, limits)
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

/// The program, where it was built.
fn awa() -> Option<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("PEER_AWA").map(PathBuf::from);
    named.into_iter().chain([here.join("benches/peers/target/release/peer-awa")]).find(|path| path.exists())
}

/// Jobs a second, by the program's own account: from the first that is enqueued until its tables say that the last ended.
fn run_awa(awa: &Path, server: &Server, (at_once, jobs, batch): (usize, usize, usize)) -> f64 {
    let url = server.url_as("postgres", "awa", "public");
    let url = url.split("&schema=").next().unwrap_or(&url).replace("@/", "@localhost/");
    let words = [at_once, jobs, batch].map(|word| word.to_string());
    let said = Command::new(awa).arg(url).args(words).output().expect("it runs");
    let text = String::from_utf8_lossy(&said.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("{text}\n{}", String::from_utf8_lossy(&said.stderr)))
}

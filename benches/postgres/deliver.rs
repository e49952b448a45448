//! Calls that are enqueued, and that a dispatcher delivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use steadfast::Client;
use steadfast::dispatcher::{Dispatcher, PERIOD};
use steadfast::operation::record::Phase;
use steadfast::policy::{Policy, RecoveryConfig};
use steadfast::request::Request;
use steadfast::store::{Postgres, Store};
use steadfast::transport::{Exchange, Limits, Transport};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::server::Server;
use crate::support::{self, BASE, Nowhere, PATH, Plain};
use crate::{BODY, open};

/// How many in a round.
const JOBS: usize = 10_000;

pub fn enqueue_and_deliver(server: &Server, runtime: &Runtime, rounds: usize) {
    let jobs = if support::is_quick() { 1_000 } else { JOBS };
    println!("enqueue, deliver, settle: medians of {rounds} interleaved rounds of {jobs} calls of 1 KiB");
    let store = open(server, "deliver");
    let at_once = [64, 256];
    let samples = support::interleave::<2>(rounds, |variant| {
        runtime.block_on(delivered_a_second(&store, at_once[variant], jobs))
    });
    for (at_once, rates) in at_once.iter().zip(&samples) {
        println!("{at_once:>3} at once  {:>6.0}/s", support::median(rates));
    }
}

/// From the first that is enqueued until the last is settled.
async fn delivered_a_second(store: &Arc<Postgres>, at_once: usize, jobs: usize) -> f64 {
    let delivered = Arc::new(AtomicUsize::new(0));
    let client = client(store, at_once, Counted(Arc::clone(&delivered)));
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

/// How long after a call was accepted its sending begins, where nothing else happens.
pub fn accepted_to_started(server: &Server, runtime: &Runtime) {
    let calls = if support::is_quick() { 20 } else { 1_000 };
    let store = open(server, "start");
    let (told, mut starts) = mpsc::unbounded_channel();
    let client = client(&store, 64, Noted(told));
    let mut waits = runtime.block_on(async {
        let _dispatcher = Dispatcher::over([&client]).period(PERIOD).start();
        let mut waits = Vec::with_capacity(calls);
        for number in 0..calls {
            enqueue(&client, format!("start-{number}")).await;
            let accepted = Instant::now();
            let started: Instant = starts.recv().await.expect("it is sent");
            waits.push(started.saturating_duration_since(accepted));
            // Idle again, and not in step with whatever the dispatcher does at its times.
            tokio::time::sleep(Duration::from_micros(5_000 + rand::random::<u64>() % 20_000)).await;
        }
        waits
    });
    waits.sort_unstable();
    let at = |percent: usize| waits[(waits.len() * percent / 100).min(waits.len() - 1)];
    println!(
        "accepted to started, {calls} calls, idle: p50 {:.1?}  p99 {:.1?}  target 5 ms, 20 ms",
        at(50),
        at(99)
    );
}

async fn enqueue(client: &Client, key: String) {
    let enqueued = client.post(PATH).key(key).bytes(BODY).enqueue().await;
    enqueued.expect("the store works");
}

fn client(store: &Arc<Postgres>, at_once: usize, transport: impl Transport) -> Client {
    // As fast as it may be, and without a rate limit: what is measured is not how a vendor is spared.
    let recovery = RecoveryConfig::new(PER_SECOND, PER_SECOND).at_once(at_once as u32);
    let client = Client::builder(Plain::at(BASE)).policy(Policy::background().recovery(recovery));
    client.store(Arc::clone(store)).transport(transport).build().expect("a client")
}

async fn settled(store: &Postgres) -> u64 {
    let tallies = store.tally().await.expect("the store works");
    tallies.iter().filter(|tally| tally.phase == Phase::Succeeded).map(|tally| tally.count).sum()
}

/// The most that a policy may say.
const PER_SECOND: u32 = 10_000;

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Transport for Counted {
    fn send(&self, request: Request, limits: Limits) -> Exchange<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Nowhere.send(request, limits)
    }
}

#[derive(Debug)]
struct Noted(mpsc::UnboundedSender<Instant>);

impl Transport for Noted {
    fn send(&self, request: Request, limits: Limits) -> Exchange<'_> {
        let _ = self.0.send(Instant::now());
        Nowhere.send(request, limits)
    }
}

//! The cost of a job in `awa`: enqueued, carried out by a worker that does nothing, completed, in jobs a second.
//!
//! `peer-awa URL at-once jobs [batch]` prints one figure. `at-once` is both how many callers enqueue, one job after the
//! other, and how many jobs the workers may have at once. With `batch`, callers enqueue that many jobs in one statement.
//! The time counts from the first job that is enqueued to the last that the tables say has ended. Everything else is as
//! `awa` has it by default: its queue storage, its poll interval, its claimers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use awa::model::insert::params_with;
use awa::{Client, InsertOpts, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

/// The load that the calls of the library carry, too: a kibibyte.
#[derive(Serialize, Deserialize, JobArgs)]
struct Charge {
    number: usize,
    body: String,
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, at_once, jobs, rest @ ..] = &words[..] else {
        eprintln!("peer-awa URL at-once jobs [batch]");
        std::process::exit(2);
    };
    let number = |word: &String| word.parse::<usize>().expect("a number");
    let (at_once, jobs, batch) = (number(at_once), number(jobs), rest.first().map_or(1, number));
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await.expect("a server");
    awa::migrations::run(&pool).await.expect("its tables");

    let queue = format!("bench_{}", std::process::id());
    let done = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&done);
    let workers = QueueConfig { max_workers: at_once as u32, ..QueueConfig::default() };
    let client = Client::builder(pool.clone())
        .queue(queue.clone(), workers)
        .register::<Charge, _, _>(move |_: Charge, _| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(JobResult::Completed) }
        })
        .build()
        .expect("a client");
    client.start().await.expect("it starts");

    // Warm: connections, plans, the first partitions.
    enqueue(&pool, &queue, 16, WARM, 1).await;
    all_done(&pool, &queue, &done, WARM).await;

    let began = Instant::now();
    let both = (enqueue(&pool, &queue, at_once, jobs, batch), all_done(&pool, &queue, &done, WARM + jobs));
    tokio::join!(both.0, both.1);
    println!("{}", jobs as f64 / began.elapsed().as_secs_f64());
    client.shutdown(Duration::from_secs(5)).await;
}

async fn enqueue(pool: &PgPool, queue: &str, callers: usize, jobs: usize, batch: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let callers = (0..callers).map(|_| {
        let (pool, queue, next) = (pool.clone(), queue.to_owned(), Arc::clone(&next));
        tokio::spawn(async move {
            let opts = || InsertOpts { queue: queue.clone(), ..InsertOpts::default() };
            let charge = |number| Charge { number, body: "x".repeat(BODY) };
            loop {
                let first = next.fetch_add(batch, Ordering::Relaxed);
                if first >= jobs {
                    return;
                }
                if batch == 1 {
                    awa::insert_with(&pool, &charge(first), opts()).await.expect("a job");
                    continue;
                }
                let all = (first..jobs.min(first + batch)).map(|number| params_with(&charge(number), opts()));
                let all: Vec<_> = all.collect::<Result<_, _>>().expect("jobs");
                awa::insert_many(&pool, &all).await.expect("jobs");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no panic");
    }
}

/// The tables are asked only once every worker has run: counting costs the server.
async fn all_done(pool: &PgPool, queue: &str, done: &AtomicUsize, jobs: usize) {
    while done.load(Ordering::Relaxed) < jobs {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let store = QueueStorage::new(QueueStorageConfig::default()).expect("the default");
    loop {
        let counts = store.queue_counts(pool, queue).await.expect("counts");
        if counts.terminal >= jobs as i64 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const BODY: usize = 1024;
const WARM: usize = 500;
/// As many as the server's default allows, with room for who else is there.
const CONNECTIONS: u32 = 64;

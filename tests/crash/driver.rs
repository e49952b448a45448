//! The process that is killed: a service that makes keyed calls, recovers, and redrives.

use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::dispatcher::{self, Dispatcher};
use steadfast::operation::record::{Filter, Phase};
use steadfast::testkit::SeededRandom;
use steadfast::{Call, Error, Random as _, Reply};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::clock::MovedClock;
use crate::file;
use crate::orders::{Job, Orders, Site, Task};
use crate::plan::{STEPS, key};
use crate::seams::say;
use crate::shop::{Shop, Trade};
use crate::words::Words;

/// Orders come in over this time, so that a kill meets some that are new, some under way and some done.
const ARRIVALS_MS: u64 = 60;
const SENDS_MAX: usize = 192;
/// Said once.
pub const STORE_FAILS: &str = "the store fails";
/// Between two looks at whether anything is still under way, at least; and at most, while it is held.
const REST_PERIOD: Duration = Duration::from_millis(30);
const HELD_PERIOD: Duration = Duration::from_millis(200);
/// Operations of one file, where each is alone.
const PAGE: usize = 100;
const RECOVERED_AT_ONCE: usize = 64;
/// For an operation that was enqueued, in the run's time.
const WAITED_MAX: Duration = Duration::from_secs(120);

pub async fn drive(orders: Orders) {
    let job = orders.job.clone();
    let trade = Arc::new(Trade::new(orders));
    obey(trade.clock.clone());
    match job {
        Job::Trade { file, from, fresh, count, seed, last } => {
            let shop = Arc::new(Shop::open(&trade, &file));
            let sweepers = if file::is_server(&file) {
                vec![Dispatcher::over(&shop.clients).start()]
            } else {
                shop.clients.iter().map(|client| client.keep_recovering(dispatcher::PERIOD)).collect()
            };
            say("ready");
            let takes = Takes { from, fresh, count, seed, enqueues: file::is_server(&file) };
            take_orders(&shop, takes).await;
            if !last {
                // More is to come only with the next process; until the kill there is what others left.
                std::future::pending::<()>().await;
            }
            drop(sweepers);
        }
        Job::Alone { vendor, sites, task } => {
            let mut tasks = JoinSet::new();
            for site in sites {
                let shop = Shop::open(&trade, &site.file);
                tasks.spawn(async move { alone(&shop, vendor, &site, task).await });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.expect("no panic");
            }
        }
    }
}

async fn alone(shop: &Shop, vendor: usize, site: &Site, task: Task) {
    match task {
        // Whatever comes of it is on record.
        Task::Call => call_alone(shop, vendor, site).await,
        Task::Recover => rest(shop, vendor).await,
        Task::Redrive => {
            let letters = DeadLetters::new(Arc::clone(&shop.store)).with_client(&shop.clients[vendor]);
            let letters = letters.with_clock(shop.clock.clone());
            shop.passage.words.redrives(&site.key());
            let all = Filter::default();
            letters.redrive_all(&all, &Change::by("harness")).await.expect("the store works");
            rest(shop, vendor).await;
        }
        Task::Rest => {
            rest(shop, vendor).await;
            call_alone(shop, vendor, site).await;
            rest(shop, vendor).await;
        }
    }
}

/// Whatever comes of it is on record, and the caller was told.
async fn call_alone(shop: &Shop, vendor: usize, site: &Site) {
    drop(shop.passage.words.of_call(&site.key(), shop.call_alone(vendor, site).send()).await);
}

async fn rest(shop: &Shop, vendor: usize) {
    loop {
        shop.clients[vendor].recover(RECOVERED_AT_ONCE).await.expect("the store works");
        let Some(wait) = until_next(shop).await else { return };
        tokio::time::sleep(wait).await;
    }
}

/// How long it takes, on the machine, until something that is under way is due; `None` if nothing is. An operation in
/// progress may end before its lease does.
async fn until_next(shop: &Shop) -> Option<Duration> {
    let page = shop.store.list(&Filter::default(), None, PAGE).await.expect("the store works");
    assert!(page.next.is_none(), "few operations in a file");
    let waits = page.rows.iter().filter_map(|row| {
        let wait = shop.real_wait_until(row.until?.into());
        match row.phase {
            Phase::Scheduled => Some(wait),
            Phase::InProgress => Some(wait.min(HELD_PERIOD)),
            _ => None,
        }
    });
    Some(waits.min()?.max(REST_PERIOD))
}

/// Which orders come in. See [`Job::Trade`].
struct Takes {
    from: usize,
    fresh: usize,
    count: usize,
    seed: u64,
    /// Whether a third of them is enqueued.
    enqueues: bool,
}

async fn take_orders(shop: &Arc<Shop>, takes: Takes) {
    let Takes { from, fresh, count, seed, enqueues } = takes;
    let random = SeededRandom::new(seed);
    let room = Arc::new(Semaphore::new(SENDS_MAX));
    let mut sends = JoinSet::new();
    // The newest first: what is older has most likely ended.
    for order in (from..count).rev() {
        for step in 0..STEPS.len() {
            let delay = if order >= fresh { random.next_u64() % ARRIVALS_MS } else { 0 };
            let permit = Arc::clone(&room);
            // Few enough tasks at once, however many orders there are.
            let permit = if order < fresh { permit.acquire_owned().await.ok() } else { None };
            let shop = Arc::clone(shop);
            sends.spawn(async move {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                Box::pin(deliver(&shop, step, order, enqueues && order % 3 == 1)).await;
                drop(permit);
            });
        }
        while let Some(ended) = sends.try_join_next() {
            ended.expect("no panic");
        }
    }
    while let Some(ended) = sends.join_next().await {
        ended.expect("no panic");
    }
}

/// Sends until the operation has ended: what is postponed, held elsewhere or could not be written down is sent
/// again under the same key.
async fn deliver(shop: &Shop, step: usize, order: usize, enqueues: bool) {
    let (key, words) = (key(order, STEPS[step]), &shop.passage.words);
    loop {
        let call = shop.call(step, order);
        let told = if enqueues {
            words.of_call(&key, enqueue(call, &key, words)).await
        } else {
            words.of_call(&key, call.send()).await
        };
        match told {
            Ok(_) => return,
            Err(error) if error.is_dead_letter() || error.is_refused() => return,
            Err(error) => {
                assert!(!error.is_validation() && !error.is_key_reused(), "{error}");
                if error.is_store() && !shop.store_failed.swap(true, Ordering::SeqCst) {
                    say(STORE_FAILS);
                }
                let wait = error.retry_at().map(|at| shop.real_wait_until(at)).unwrap_or_default();
                tokio::time::sleep(wait.clamp(Duration::from_millis(20), Duration::from_secs(1))).await;
            }
        }
    }
}

/// Leaves it to whichever dispatcher comes first, and waits for what comes of it.
async fn enqueue(call: Call, key: &str, words: &Words) -> Result<Reply, Error> {
    let enqueued = call.enqueue().await?;
    words.accepted(key);
    enqueued.wait(WAITED_MAX).await
}

/// The harness holds the other end of the standard input: `wall MILLISECONDS` puts the wall clock so far off,
/// and when the end is gone, however it went, so is this process.
fn obey(clock: MovedClock) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let off_ms = line.strip_prefix("wall ").and_then(|off| off.parse().ok());
            clock.set_off(off_ms.expect("a command"));
        }
        std::process::exit(1);
    });
}
